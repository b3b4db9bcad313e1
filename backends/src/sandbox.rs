//! What a sandbox must offer.
//!
//! Written so that a sandbox on this machine, a daemon behind an RPC stream, and the exec calls of Docker and
//! Kubernetes fit alike: a command is started, and everything that happens to it after that (output, exit, its loss)
//! reaches its [`Process`] by a driver of the sandbox's. What is asked of it (input,
//! signals, its end) the driver takes from there. What a sandbox cannot do it says by its [`Capabilities`].

use crate::{
    Handle,
    runtime::BoxFuture,
    watching::{WatchError, WatchSpec, Watching},
};
use bytes::Bytes;
use hangar_core::{
    Time,
    process::{self, Process},
};
use std::{collections::BTreeMap, sync::Arc};

/// Where commands run.
pub trait Sandbox: Send + Sync + 'static {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Starts a command, and drives it to its end whether or not anybody reads. An error means that nothing was
    /// started and that asking again, differently or later, may help; a command that is at fault itself (not found,
    /// not executable) is a process that ends with 126 or 127.
    fn start(&self, spec: Spec) -> BoxFuture<'_, Result<Arc<Handle>, StartError>>;

    /// Watches a directory. Returns once it is watched itself; those below it are before `Ready` comes.
    fn watch(&self, spec: WatchSpec) -> BoxFuture<'_, Result<Box<dyn Watching>, WatchError>>;

    /// Stops everything in it, in a way that [`resume`](Self::resume) undoes; commands cannot be started meanwhile.
    /// After an error nothing is stopped. Whoever calls this, `resume` and `destroy` does so one after the other.
    fn pause(&self) -> BoxFuture<'_, Result<(), SandboxError>>;

    /// Undoes [`pause`](Self::pause).
    fn resume(&self) -> BoxFuture<'_, Result<(), SandboxError>>;

    /// Ends it, with everything in it. Returns once nothing is left, or says what is.
    fn destroy(&self) -> BoxFuture<'_, Result<(), SandboxError>>;

    /// Takes over a process that an earlier run of this server has started here, and drives it to its end: found or
    /// not, which its handle tells. None where nothing outlives the server.
    fn adopt(&self, adoption: Adoption) -> Option<Arc<Handle>>;

    /// The processes that are driven now.
    fn processes(&self) -> Vec<Arc<Handle>>;

    /// The processes that are driven now and end with this server, so that a shutdown waits for them.
    fn ending_with_server(&self) -> Vec<Arc<Handle>>;

    /// Ends what ends with this server, and leaves everything else as it is. Returns once nothing is left of that, or says
    /// what is.
    fn shut_down(&self) -> BoxFuture<'_, Result<(), SandboxError>>;
}

/// What a sandbox can do for a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a yes or no of its own")]
pub struct Capabilities {
    /// Its output comes while it runs, not in one piece at the end.
    pub streaming: bool,
    /// It can be given input.
    pub stdin: bool,
    /// The end of its input can be told to it.
    pub stdin_end: bool,
    /// It can have a terminal, and that can be resized.
    pub tty: bool,
    /// It can be sent any signal.
    pub signals: bool,
    /// It can run as a user of the caller's choice.
    pub users: bool,
    /// It can be paused.
    pub pause: bool,
}

/// A command to start.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The id of the process to be: a ULID.
    pub id: String,
    /// What to run.
    pub command: Command,
    /// Where; the sandbox's own default without it. Absolute, or relative to that.
    pub cwd: Option<String>,
    /// Variables beyond the ones that the sandbox sets.
    pub env: BTreeMap<String, String>,
    /// As whom; the sandbox's own user without it.
    pub user: Option<String>,
    /// What it reads.
    pub stdin: Stdin,
    /// How it is followed and ended, and whether it has a terminal instead of pipes.
    pub process: process::Config,
    /// What it is marked with where it outlives the server, so that it can be found again: nobody else may be able to
    /// make it up.
    pub tag: Option<String>,
}

/// What a process reads.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Stdin {
    /// Nothing: its standard input is at its end from the start.
    None,
    /// This, and then the end.
    Given(Bytes),
    /// What will be written to it.
    Open,
}

impl Stdin {
    /// Whether there is anything to read.
    pub fn is_some(&self) -> bool {
        *self != Self::None
    }
}

/// The system takes no longer argument or variable: 32 pages, with the zero at its end.
const MAX_STRING: usize = 128 * 1024;

impl Spec {
    /// Which field is at fault where the system takes no more: the one with a string that is too long, or the longer one.
    pub fn longest(&self) -> &'static str {
        let lens = |strings: &mut dyn Iterator<Item = usize>| {
            strings.fold((false, 0), |(has_long, sum), len| (has_long || len >= MAX_STRING, sum + len))
        };
        let command = match &self.command {
            Command::Shell(line) => lens(&mut std::iter::once(line.len())),
            Command::Argv(argv) => lens(&mut argv.iter().map(String::len)),
        };
        let env = lens(&mut self.env.iter().map(|(name, value)| name.len() + 1 + value.len()));
        if env > command { "env" } else { "command" }
    }

    /// The process that is to be started, as it is before that.
    pub fn process(&self, now: Time) -> Process {
        let mut process = Process::new(self.process.clone(), now);
        match &self.stdin {
            Stdin::None => process.handle_stdin_closed(),
            Stdin::Open => {}
            Stdin::Given(data) => {
                // As long as a request's body at most, which is what may wait.
                drop(process.write_stdin(data.clone()));
                process.close_stdin();
            }
        }
        process
    }
}

/// A process that an earlier run of the server has started.
#[derive(Clone, Debug)]
pub struct Adoption {
    /// Its id.
    pub id: String,
    /// What it was marked with.
    pub tag: String,
    /// Its number in the sandbox, where that was noted: something with another number is not it.
    pub pid: Option<u32>,
    /// As whom it runs.
    pub user: Option<String>,
    /// How it is followed and ended. Its timeout counts from here.
    pub process: process::Config,
    /// How it has ended, where that is known: its output may still be there.
    pub exit: Option<process::Exit>,
    /// Where its output goes on if it was not kept in the sandbox: the frame and the byte.
    pub goes_on_at: (u64, u64),
}

/// What to run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Command {
    /// A line for `bash -lc` (`sh -lc` where there is no bash).
    Shell(String),
    /// A program and its arguments: at least the program.
    Argv(Vec<String>),
}

/// Why a command was not started.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum StartError {
    /// The directory is not there, or is none.
    #[error("cwd: {0}")]
    BadCwd(String),
    /// There is no such user.
    #[error("user: {0}")]
    BadUser(String),
    /// There is such a user, and commands cannot run as them.
    #[error("user: {0}")]
    ForbiddenUser(String),
    /// The sandbox cannot do what the field asks for.
    #[error("{field}: this sandbox has no {what}")]
    Unsupported {
        /// The field of the request.
        field: &'static str,
        /// What it would take.
        what: &'static str,
    },
    /// The command line or the environment is longer than the system takes.
    #[error("{field}: the command and its environment are longer than the system takes")]
    TooLong {
        /// Which of the two: `command` or `env`.
        field: &'static str,
    },
    /// The machine has no process, descriptor, memory or disk left for it. Later it may.
    #[error("the sandbox has no room for another process: {0}")]
    Exhausted(Exhausted),
    /// Everything in the sandbox is stopped.
    #[error("the sandbox is paused; resume it first")]
    Paused,
    /// The sandbox is ending.
    #[error("the sandbox is being destroyed")]
    Destroyed,
    /// The sandbox's side broke.
    #[error("the sandbox cannot be reached: {0}")]
    Broken(String),
}

/// What ran out.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Exhausted {
    /// Open files.
    #[error("too many open files")]
    Descriptors,
    /// Processes.
    #[error("too many processes")]
    Processes,
    /// Memory.
    #[error("out of memory")]
    Memory,
    /// Disk space.
    #[error("no space left on the disk")]
    Disk,
}

/// Why a sandbox did not do what was asked.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SandboxError {
    /// It cannot.
    #[error("this sandbox cannot be {0}")]
    Unsupported(&'static str),
    /// Something is left of it.
    #[error("{0} processes could not be ended")]
    Left(usize),
    /// Its side broke.
    #[error("the sandbox cannot be reached: {0}")]
    Broken(String),
}
