//! From a [`Spec`] to a process of the daemon.

use super::{
    Shared, Target,
    attach::{self, Attached},
    lanes::{GIVE_UP, There},
    receipts::WINDOW,
    rpc::{CallError, Head},
    stream::{EventStream, Lost},
};
use crate::{
    runtime::{sleep_until, until},
    sandbox::{Command, Exhausted, Spec, StartError},
};
use hangar_core::{
    log::Retention,
    wire::{
        connect::{Code, RpcError},
        envd::process::{ProcessConfig, Pty, SERVICE, Size, StartEvent, StartRequest},
    },
};
use std::{sync::Arc, time::Duration};

/// How much longer than its own time a command may live, should the server that ends it be lost.
const SPARE: Duration = Duration::from_secs(10);

/// How long it is looked for a command whose start was cut off, and how often after that.
const LOOK: Duration = Duration::from_secs(5);

/// How long before each look.
const LOOKS: [Duration; 6] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_millis(1600),
];

/// Makes a command the leader of a group of its own, where it is not and there is a program for it: that of one that is
/// would make another process of it.
const SETSID: &str = r#"read -r _ _ _ _ group _ </proc/$$/stat
[ "$group" = $$ ] || ! command -v setsid >/dev/null || exec setsid "$@"
exec "$@""#;

/// A process that runs at the daemon, and the stream about it.
pub(super) struct Started {
    pub(super) pid: u32,
    pub(super) stream: EventStream,
    /// Its daemon keeps its log.
    pub(super) is_logged: bool,
    /// Its daemon keeps what is not acknowledged, and nothing else.
    pub(super) is_acknowledged: bool,
}

/// Starts the command of `spec`, and waits until it runs.
pub(super) async fn start(shared: &Arc<Shared>, spec: &Spec, tag: &str) -> Result<Started, StartError> {
    let daemon = shared.daemon().await.map_err(failed)?;
    let request = request(shared, spec, tag, &daemon);
    let mut head = Head { user: spec.user.as_deref(), ..Head::default() };
    head.timeout = spec.process.timeout.map(|timeout| timeout + SPARE);
    match spec.process.retention {
        // Waited for as any client is: what follows it here always reads, and has the ring for its own readers.
        Retention::Ring { bytes } => head.log = Some(bytes as u64),
        // Should the connection break, what was on its way is still there.
        Retention::UntilRead { .. } if daemon.acknowledges => head.until_acknowledged = Some(WINDOW as u64),
        // At least some of it.
        Retention::UntilRead { bytes } => {
            head.until_read = true;
            head.log = Some(bytes as u64);
        }
    }
    let is_acknowledged = head.until_acknowledged.is_some();
    let opened = shared.rpc.open(&format!("{SERVICE}/Start"), &head, &request).await;
    let broken = match opened {
        Ok(mut stream) => match stream.next(&*shared.runtime).await {
            Ok(event) => match event.start {
                Some(start) => return Ok(started(stream, &start, is_acknowledged)),
                None => return Err(StartError::Broken("its first word was not that it runs".to_owned())),
            },
            Err(Lost::Ended(Some(error))) => return Err(refused(error)),
            Err(lost) => lost.to_string(),
        },
        Err(CallError::Broken(why)) => why,
        Err(error) => return Err(failed(error)),
    };
    // It may run, or be about to. With envd what it printed is lost by now, so it is of no use.
    tracing::warn!(process.tag = tag, why = broken, "the start of a command was cut off; it is looked for");
    let target = &Target::new(tag, None);
    let looking = async {
        for wait in LOOKS {
            sleep_until(&*shared.runtime, shared.runtime.now() + wait).await;
            if let Ok(Attached { stream, start }) = attach::attach(shared, target, 0, true).await {
                return Some(started(stream, &start, is_acknowledged));
            }
        }
        None
    };
    let found = match daemon.is_hangar {
        true => until(&*shared.runtime, shared.runtime.now() + LOOK, looking).await.flatten(),
        false => None,
    };
    found.ok_or_else(|| {
        let there = There {
            shared: Arc::clone(shared),
            target: target.clone(),
            user: spec.user.clone(),
            is_hangar: daemon.is_hangar,
        };
        shared.runtime.spawn(Box::pin(end_when_found(there)));
        StartError::Broken(broken)
    })
}

/// Ends a command of whose start nobody knows whether it was carried out: it may be at any time until the daemon has read what
/// it was sent.
async fn end_when_found(there: There) {
    let Target { tag, .. } = there.target.clone();
    let runtime = Arc::clone(&there.shared.runtime);
    let give_up = runtime.now() + GIVE_UP;
    while runtime.now() < give_up {
        match attach::end(&there).await {
            Ok(true) => {
                return tracing::info!(process.tag = tag, "a command whose start was cut off was ended");
            }
            Ok(false) => {}
            Err(error) => tracing::debug!(process.tag = tag, %error, "it was not found"),
        }
        sleep_until(&*runtime, runtime.now() + LOOK).await;
    }
}

fn started(stream: EventStream, start: &StartEvent, is_acknowledged: bool) -> Started {
    Started { pid: start.pid, stream, is_logged: start.seq.is_some(), is_acknowledged }
}

/// What is known of a daemon.
#[derive(Clone, Debug)]
pub(super) struct Daemon {
    /// It is hangar's own.
    pub(super) is_hangar: bool,
    /// It can be told what is here of an output.
    pub(super) acknowledges: bool,
    /// `bash`, or `sh` where there is none.
    pub(super) shell: &'static str,
}

fn request(shared: &Shared, spec: &Spec, tag: &str, daemon: &Daemon) -> StartRequest {
    let mut argv = match &spec.command {
        Command::Shell(line) => [daemon.shell, "-lc", "--", line].map(str::to_owned).to_vec(),
        Command::Argv(argv) => argv.clone(),
    };
    if !daemon.is_hangar && spec.process.tty.is_none() && !argv.is_empty() {
        let before = ["/bin/sh", "-c", SETSID, "sh"].map(str::to_owned);
        argv = before.into_iter().chain(argv).collect();
    }
    let mut argv = argv.into_iter();
    let mut envs = spec.env.clone();
    if spec.process.tty.is_some() {
        envs.entry("TERM".to_owned()).or_insert_with(|| "xterm-256color".to_owned());
    }
    let config = ProcessConfig {
        cmd: argv.next().unwrap_or_default(),
        args: argv.collect(),
        envs,
        cwd: shared.cwd(spec),
    };
    let size = |size: hangar_core::process::TtySize| Size { cols: size.cols.into(), rows: size.rows.into() };
    StartRequest {
        process: Some(config),
        pty: spec.process.tty.map(|tty| Pty { size: Some(size(tty)) }),
        tag: Some(tag.to_owned()),
        stdin: Some(spec.stdin.is_some()),
    }
}

fn failed(error: CallError) -> StartError {
    match error {
        CallError::Refused(error) => refused(error),
        CallError::Unreachable(_) | CallError::Broken(_) => StartError::Broken(error.to_string()),
    }
}

/// What a daemon says of a command that it did not start. hangar's names the field, envd's says it in words.
fn refused(error: RpcError) -> StartError {
    let message = error.message.into_owned();
    match error.code {
        Code::InvalidArgument if message.contains("cwd") => {
            StartError::BadCwd(message.trim_start_matches("process.cwd: ").to_owned())
        }
        Code::InvalidArgument if message.starts_with("process.envs: ") => {
            StartError::TooLong { field: "env" }
        }
        Code::InvalidArgument if message.starts_with("process.cmd: ") => {
            StartError::TooLong { field: "command" }
        }
        Code::Unauthenticated if message.contains("user") => {
            StartError::BadUser(message.trim_start_matches("user: ").to_owned())
        }
        Code::PermissionDenied if message.starts_with("user: ") => {
            StartError::ForbiddenUser(message.trim_start_matches("user: ").to_owned())
        }
        Code::ResourceExhausted => {
            let known = [Exhausted::Descriptors, Exhausted::Memory, Exhausted::Disk];
            let what = known.into_iter().find(|what| message.ends_with(&what.to_string()));
            StartError::Exhausted(what.unwrap_or(Exhausted::Processes))
        }
        Code::Unauthenticated => StartError::Broken("its daemon does not take the token".to_owned()),
        Code::Canceled
        | Code::Unknown
        | Code::InvalidArgument
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => StartError::Broken(format!("its daemon says {}: {message}", error.code.name())),
    }
}
