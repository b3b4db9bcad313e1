//! One background process: what was asked for, how it is, and what may be done to it.

use super::{Plane, sandboxes};
use crate::ApiError;
use bytes::Bytes;
use hangar_backends::{
    Handle, Runtime,
    sandbox::{Command, Spec, Stdin},
};
use hangar_core::{
    log::Retention,
    process::{self, Exit, Process, Signal, Target, TtySize},
    wire::process::{FinishReason, Status, View},
};
use hyper::StatusCode;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

/// Bytes of output that are kept where the starter does not say.
pub const DEFAULT_LOG_BYTES: u64 = 256 * 1024;

/// Bytes of output that may be kept.
pub const MAX_LOG_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes of output that followers may lag behind, whatever is kept for those who come.
const WINDOW: u64 = 256 * 1024;

/// What is said to who writes where nobody can read.
pub(crate) const NO_INPUT: &str =
    "input: this sandbox has no daemon, and without one its processes get no input";

/// What a client wants to be started.
#[derive(Clone, Debug)]
pub struct StartCall {
    /// What to run.
    pub command: Command,
    /// What it is called.
    pub name: Option<String>,
    /// Where.
    pub cwd: Option<String>,
    /// Variables beyond those of the sandbox.
    pub env: BTreeMap<String, String>,
    /// It gets a terminal of this size instead of pipes.
    pub tty: Option<TtySize>,
    /// Bytes of output that those get who come later; none for 0.
    pub max_log_bytes: u64,
    /// Whether it gets input.
    pub stdin: bool,
}

/// A background process.
#[derive(Debug)]
pub struct Background {
    id: String,
    token: String,
    sandbox: Arc<sandboxes::Entry>,
    call: StartCall,
    started_at_ms: i64,
    /// 0 while it runs.
    finished_at_ms: AtomicI64,
    /// Its end was asked for.
    stopped: AtomicBool,
    /// Why it ended, as an earlier run of the server has noted it.
    noted: Option<FinishReason>,
    restarted_from: Option<String>,
    /// It outlives the server, and is in the store.
    stored: bool,
    /// An earlier run of the server has started it.
    adopted: bool,
    /// It is being ended and started again.
    restarting: AtomicBool,
    handle: Arc<Handle>,
    plane: Weak<Plane>,
}

impl StartCall {
    /// What a sandbox is to start.
    pub(super) fn spec(&self, id: String, tag: Option<String>) -> Spec {
        let bytes = usize::try_from(self.max_log_bytes.max(WINDOW)).unwrap_or(usize::MAX);
        Spec {
            id,
            tag,
            command: self.command.clone(),
            cwd: self.cwd.clone(),
            env: self.env.clone(),
            user: None,
            stdin: if self.stdin { Stdin::Open } else { Stdin::None },
            process: process::Config {
                retention: Retention::Ring { bytes },
                replay: self.max_log_bytes,
                tty: self.tty,
                ..process::Config::default()
            },
        }
    }
}

/// What an earlier run of the server has noted of a process that it had started.
#[derive(Clone, Debug)]
pub(super) struct Earlier {
    /// When it was started.
    pub(super) started_at_ms: i64,
    /// When it ended, and why where that is not to be seen from how.
    pub(super) finished: Option<(i64, Option<FinishReason>)>,
    /// The process that it is the restart of.
    pub(super) restarted_from: Option<String>,
}

/// A process is started again by one at a time: of two, one would start a second copy.
pub(super) struct Restarting(Arc<Background>);

impl Restarting {
    pub(super) fn new(background: &Arc<Background>) -> Result<Self, ApiError> {
        if background.restarting.swap(true, Ordering::SeqCst) {
            let message = "the process is being restarted already";
            return Err(ApiError::new(StatusCode::CONFLICT, "restarting", message));
        }
        Ok(Self(Arc::clone(background)))
    }
}

impl Drop for Restarting {
    fn drop(&mut self) {
        self.0.restarting.store(false, Ordering::SeqCst);
    }
}

impl Background {
    /// One that has just been started; it is in the store where it is to outlive the server.
    pub(super) fn new(
        plane: &Arc<Plane>,
        token: String,
        sandbox: Arc<sandboxes::Entry>,
        call: StartCall,
        restarted_from: Option<String>,
        handle: Arc<Handle>,
        stored: bool,
    ) -> Self {
        Self {
            id: handle.id().to_owned(),
            token,
            sandbox,
            call,
            started_at_ms: plane.runtime().wall_ms(),
            finished_at_ms: AtomicI64::new(0),
            stopped: AtomicBool::new(false),
            noted: None,
            restarted_from,
            stored,
            adopted: false,
            restarting: AtomicBool::new(false),
            handle,
            plane: Arc::downgrade(plane),
        }
    }

    /// The same that an earlier run of the server had started, and that may have ended since.
    pub(super) fn adopted(self, earlier: Earlier) -> Self {
        let Earlier { started_at_ms, finished, restarted_from } = earlier;
        let (finished_at_ms, noted) = finished.unwrap_or_default();
        let finished_at_ms = AtomicI64::new(finished_at_ms);
        Self { started_at_ms, finished_at_ms, noted, restarted_from, adopted: true, ..self }
    }

    /// Whether an earlier run of the server has started it.
    pub const fn is_adopted(&self) -> bool {
        self.adopted
    }

    /// Whether it is in the store.
    pub(super) const fn is_stored(&self) -> bool {
        self.stored
    }

    /// Its id: a ULID.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The id of the token that it belongs to.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Where it runs.
    pub const fn sandbox(&self) -> &Arc<sandboxes::Entry> {
        &self.sandbox
    }

    /// How it was started.
    pub const fn call(&self) -> &StartCall {
        &self.call
    }

    /// Its process.
    pub const fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Whether those who come get nothing of what it printed.
    pub const fn is_logging_disabled(&self) -> bool {
        self.call.max_log_bytes == 0
    }

    /// Its command line, for people.
    pub fn command(&self) -> String {
        match &self.call.command {
            Command::Shell(line) => line.clone(),
            Command::Argv(argv) => argv.join(" "),
        }
    }

    /// How it is.
    pub fn view(&self) -> View {
        let (exit, finish_reason, running, tty) = self.handle.look(|process| {
            (process.exit_status(), self.finish_reason(process), process.is_running(), process.tty())
        });
        // Its watcher may not have seen it yet.
        if exit.is_some()
            && let Some(plane) = self.plane.upgrade()
        {
            self.note_finish(&**plane.runtime());
        }
        let status = match finish_reason {
            None if running => Status::Running,
            None => Status::Starting,
            Some(FinishReason::Exited | FinishReason::Signaled) => Status::Exited,
            Some(FinishReason::Stopped | FinishReason::Timeout) => Status::Stopped,
            Some(FinishReason::Lost | FinishReason::StartFailed) => Status::Failed,
        };
        View {
            id: self.id.clone(),
            name: self.call.name.clone(),
            command: Some(self.command()).filter(|command| !command.is_empty()),
            status,
            exit_code: exit.and_then(Exit::code),
            signal: exit.and_then(Exit::signal),
            finish_reason,
            started_at_ms: self.started_at_ms,
            finished_at_ms: self.finished_at_ms(),
            restarted_from: self.restarted_from.clone(),
            tty,
        }
    }

    /// How it ended, and why; None while it runs.
    pub(super) fn finish(&self) -> Option<(Exit, FinishReason)> {
        self.handle.look(|process| process.exit_status().zip(self.finish_reason(process)))
    }

    fn finish_reason(&self, process: &Process) -> Option<FinishReason> {
        Some(match process.exit_status()? {
            Exit::Unknown => FinishReason::Lost,
            _ if process.start_failed() => FinishReason::StartFailed,
            _ if process.timed_out() => FinishReason::Timeout,
            _ if self.stopped.load(Ordering::SeqCst) => FinishReason::Stopped,
            Exit::Code(_) => self.noted.unwrap_or(FinishReason::Exited),
            Exit::Signal(_) => self.noted.unwrap_or(FinishReason::Signaled),
        })
    }

    /// It has ended, at the latest now.
    pub(super) fn note_finish(&self, runtime: &dyn Runtime) {
        let now = runtime.wall_ms().max(1);
        self.finished_at_ms.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst).ok();
    }

    /// When it ended: milliseconds since 1970.
    pub fn finished_at_ms(&self) -> Option<i64> {
        Some(self.finished_at_ms.load(Ordering::SeqCst)).filter(|at| *at != 0)
    }

    /// Ends it: TERM to its group, and KILL after 3 s for what is left of that.
    pub fn stop(&self) {
        if self.handle.look(|process| process.exit_status().is_none()) {
            self.stopped.store(true, Ordering::SeqCst);
        }
        self.handle.command(Process::kill);
    }

    /// Sends a signal to its group. What is paused with its sandbox goes on with that alone.
    pub fn signal(&self, signal: Signal) -> Result<(), ApiError> {
        if signal == Signal::CONT && self.sandbox.state() == sandboxes::State::Paused {
            return Err(ApiError::sandbox_paused());
        }
        self.while_it_runs(|process| process.signal(signal, Target::Group))
    }

    /// Gives its terminal another size.
    pub fn resize(&self, size: TtySize) -> Result<(), ApiError> {
        if self.call.tty.is_none() {
            return Err(ApiError::new(StatusCode::CONFLICT, "no_tty", "the process has no terminal"));
        }
        self.while_it_runs(|process| process.resize(size))
    }

    /// Whether processes of its sandbox get any input.
    pub fn can_have_input(&self) -> bool {
        self.sandbox.sandbox().capabilities().stdin
    }

    /// Writes to its input, all or nothing, and ends that if asked to.
    pub fn input(&self, data: Bytes, eof: bool) -> Result<(), ApiError> {
        if !self.can_have_input() {
            return Err(ApiError::new(StatusCode::CONFLICT, "unsupported", NO_INPUT));
        }
        if !self.call.stdin {
            return Err(ApiError::new(
                StatusCode::CONFLICT,
                "no_stdin",
                "the process was started without an input",
            ));
        }
        self.while_it_runs(|process| {
            if !data.is_empty() && !process.takes_stdin() {
                let message = "the input of the process has ended";
                return Err(ApiError::new(StatusCode::CONFLICT, "stdin_closed", message));
            }
            if data.len() > process.stdin_room() {
                let message = "the process has not read what was written before; try again when it has";
                return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "stdin_full", message));
            }
            process.write_stdin(data);
            if eof {
                process.close_stdin();
            }
            Ok(())
        })?
    }

    /// Writes as much to its input as fits, for who can wait for the rest; whatever comes after its end is dropped.
    pub fn type_in(&self, data: Bytes) -> Option<Bytes> {
        self.handle.command(|process| process.write_stdin(data))
    }

    /// Ends its input, after what waits.
    pub fn end_input(&self) {
        self.handle.command(Process::close_stdin);
    }

    fn while_it_runs<T>(&self, command: impl FnOnce(&mut Process) -> T) -> Result<T, ApiError> {
        let mut done = None;
        self.handle.command(|process| {
            if process.exit_status().is_none() {
                done = Some(command(process));
            }
        });
        done.ok_or_else(|| ApiError::new(StatusCode::CONFLICT, "process_exited", "the process has ended"))
    }
}
