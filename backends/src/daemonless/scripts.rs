//! What is asked of a sandbox without a daemon, as shell scripts: to detach a process, and to ask for it after that.
//!
//! What they need is in `scripts/start.sh`, beside a `/proc`; the programs of GNU do, and those of busybox.

use super::{
    held::MAX_HELD,
    provider::{Call, Provider, Ran},
};
use crate::{
    Runtime,
    runtime::until,
    sandbox::{Command, Exhausted, Spec, StartError},
};
use hangar_core::{
    log::Channel,
    process::{Exit, Signal},
    wire::detached::{Report, Start, parse_report, parse_start},
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

const START: &str = include_str!("scripts/start.sh");
const REPORT: &str = concat!(include_str!("scripts/lives.sh"), include_str!("scripts/report.sh"));
const SIGNAL: &str = concat!(include_str!("scripts/lives.sh"), include_str!("scripts/signal.sh"));
const REMOVE: &str = include_str!("scripts/remove.sh");

/// What processes and those who look after them are known by.
const OURS: [&str; 3] = ["HANGAR_PROCESS_ID", "HANGAR_SANDBOX_ID", "HANGAR_SUPERVISES"];

/// How long a script may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of output in one report.
pub(super) const PIECE: u64 = 1024 * 1024;
const _: () = assert!(PIECE < MAX_HELD as u64, "a report is kept as a whole");

/// What is asked for of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    /// The byte from which on.
    pub(super) from: u64,
    /// How many of them at the most; none for 0.
    pub(super) most: u64,
    /// The number of the frame that they will be; 0 where they are not given out, and that is not to be noted.
    pub(super) seq: u64,
    /// How many are left of it.
    pub(super) counted: bool,
}

/// Runs scripts in a sandbox.
pub(super) struct Scripts {
    runtime: Arc<dyn Runtime>,
    provider: Arc<dyn Provider>,
    next: AtomicU64,
}

/// A detached process, for those that ask for it.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) id: String,
    /// 0 where it is not known.
    pub(super) pid: u32,
    /// As whom it runs.
    pub(super) user: Option<String>,
}

/// To whom a signal goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum To {
    Leader,
    Group,
    /// Whatever has the id of the process in its environment, whether or not it left the group.
    All,
}

impl To {
    const fn word(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Group => "group",
            Self::All => "all",
        }
    }
}

impl Scripts {
    pub(super) fn new(runtime: Arc<dyn Runtime>, provider: Arc<dyn Provider>) -> Self {
        Self { runtime, provider, next: AtomicU64::new(0) }
    }

    /// Detaches a process, and keeps at least `keep` bytes of its output.
    pub(super) async fn start(&self, spec: &Spec, keep: usize) -> Result<Start, StartError> {
        let call = Call {
            // What the script leaves behind is told from it by that.
            id: spec.id.clone(),
            command: script(START, start_words(spec, keep)),
            cwd: spec.cwd.clone(),
            env: BTreeMap::new(),
            user: spec.user.clone(),
            stdin: None,
        };
        let ran = self.run(call).await.map_err(|error| {
            let is_long = matches!(error, StartError::TooLong { .. });
            if is_long { StartError::TooLong { field: spec.longest() } } else { error }
        })?;
        parse_start(&ran.output.bytes(Channel::Stdout)).ok_or_else(|| failed(&ran))
    }

    /// How a process is, and what it printed.
    pub(super) async fn report(&self, target: &Target, asked: Asked) -> Result<Report, StartError> {
        let Asked { from, most, seq, counted } = asked;
        let numbers = [u64::from(target.pid), from, most, seq].map(|number| number.to_string());
        let mut words = vec![target.id.clone()];
        words.extend(numbers);
        words.extend(counted.then(|| "counted".to_owned()));
        let ran = self.ask(target, REPORT, words).await?;
        parse_report(&ran.output.bytes(Channel::Stdout)).map_err(|error| {
            tracing::debug!(process.id = target.id, %error, "a report is no report");
            failed(&ran)
        })
    }

    /// Sends signals to a process.
    pub(super) async fn signal(&self, target: &Target, signals: &[Signal], to: To) -> Result<(), StartError> {
        let signals: Vec<String> = signals.iter().map(|signal| signal.number().to_string()).collect();
        let words = vec![target.id.clone(), target.pid.to_string(), signals.join(" "), to.word().to_owned()];
        self.ask(target, SIGNAL, words).await.map(drop)
    }

    /// Ends what is left of processes of one user, and removes what is kept of them.
    pub(super) async fn remove(&self, user: Option<String>, ids: Vec<String>) -> Result<(), StartError> {
        let target = Target { id: "removed".to_owned(), pid: 0, user };
        self.ask(&target, REMOVE, ids).await.map(drop)
    }

    async fn ask(&self, target: &Target, text: &str, words: Vec<String>) -> Result<Ran, StartError> {
        let call = Call {
            // No process has the name of another in its own.
            id: format!("script-{}-{}", self.next.fetch_add(1, Ordering::Relaxed), target.id),
            command: script(text, words),
            cwd: Some("/".to_owned()),
            env: BTreeMap::new(),
            user: target.user.clone(),
            stdin: None,
        };
        self.run(call).await
    }

    async fn run(&self, call: Call) -> Result<Ran, StartError> {
        let ran = until(&*self.runtime, self.runtime.now() + PATIENCE, async {
            Ok(self.provider.exec(call).await?.await)
        });
        ran.await.unwrap_or_else(|| Err(StartError::Broken("it does not answer".to_owned())))
    }
}

/// What a script is told to start.
fn start_words(spec: &Spec, keep: usize) -> Vec<String> {
    let (program, argv) = match &spec.command {
        // Which shell there is the script finds out.
        Command::Shell(line) => (
            String::new(),
            vec![format!("SHELL{}", spec.id), "-lc".to_owned(), "--".to_owned(), line.clone()],
        ),
        Command::Argv(argv) => (argv.first().cloned().unwrap_or_default(), argv.clone()),
    };
    let path = spec.env.get("PATH").cloned().unwrap_or_default();
    let mut words = vec![spec.id.clone(), keep.to_string(), program, path];
    // What it is known by is not its own.
    let env = spec.env.iter().filter(|(name, _)| !OURS.contains(&name.as_str()));
    words.extend(env.map(|(name, value)| format!("{name}={value}")));
    if argv.first().is_some_and(|program| program.contains('=')) {
        // To `env` it would be a variable.
        words.extend(["/bin/sh", "-c", r#"exec "$@""#, "sh"].map(str::to_owned));
    }
    words.extend(argv);
    words
}

fn script(text: &str, words: Vec<String>) -> Command {
    let mut argv = ["/bin/sh", "-c", text, "hangar"].map(str::to_owned).to_vec();
    argv.extend(words);
    Command::Argv(argv)
}

/// Why a script did not do what it is for.
fn failed(ran: &Ran) -> StartError {
    let stderr = ran.output.bytes(Channel::Stderr);
    let said = String::from_utf8_lossy(&stderr);
    if said.contains("No space left on device") {
        return StartError::Exhausted(Exhausted::Disk);
    }
    StartError::Broken(match (said.lines().next(), ran.exit) {
        (Some(line), _) => format!("its shell says: {}", first_chars(line)),
        (None, Exit::Code(code)) => format!("its shell ended with {code}"),
        (None, Exit::Signal(signal)) => format!("its shell was ended by the signal {signal}"),
        (None, Exit::Unknown) => "it broke off".to_owned(),
    })
}

/// As much of a line as a message may have.
fn first_chars(line: &str) -> &str {
    line.char_indices().nth(200).map_or(line, |(at, _)| &line[..at])
}
