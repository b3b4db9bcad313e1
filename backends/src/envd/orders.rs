//! What a process asks of its daemon, as calls: signals, sizes and input.

use super::{
    lanes::There,
    rpc::{CallError, Head},
    stream::Lost,
};
use bytes::Bytes;
use hangar_core::{
    process::{self, Signal, TtySize},
    wire::{
        connect::Code,
        envd::{
            Message,
            process::{
                AcknowledgeRequest, CloseStdinRequest, Empty, ProcessConfig, ProcessInput, ProcessSelector,
                Pty, SERVICE, SendInputRequest, SendSignalRequest, Size, StartRequest, UpdateRequest,
            },
        },
    },
};
use std::time::Duration;

/// Bytes of one call's input.
pub(super) const INPUT: usize = 64 * 1024;

/// How long the daemon may wait for the process to read before it says that it does not.
const INPUT_TIMEOUT: Duration = Duration::from_secs(10);

/// Something to be told to a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Order {
    /// It is to end: TERM to its group. hangar's daemon sees to the rest itself.
    Terminate,
    /// A signal.
    Signal { signal: Signal, to: process::Target },
    /// KILL to its group and to what left that. Until it was carried out.
    Sweep,
    /// Its terminal has another size.
    Resize(TtySize),
}

/// What became of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Told {
    /// It was carried out, or there is nobody left.
    Done,
    /// It was not.
    Unsent,
    /// Nobody knows.
    Unknown,
}

/// Input, and what becomes of it.
#[derive(Clone, Debug)]
pub(super) enum Input {
    Bytes { bytes: Bytes, tty: bool },
    End,
}

/// What became of input.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Taken {
    /// It was taken, or what became of it is not known: it is not sent again.
    All,
    /// Nothing of it was, and may be later.
    None,
    /// Nobody reads it.
    Never,
}

impl Order {
    /// Tells it.
    pub(super) async fn tell(self, there: There) -> Told {
        let told = match self {
            Self::Terminate if there.is_hangar => {
                let request = SendSignalRequest {
                    process: selector(&there),
                    end: true,
                    ..SendSignalRequest::default()
                };
                unary(&there, "SendSignal", &Head::default(), &request).await
            }
            Self::Terminate => send(&there, Signal::TERM, process::Target::Group).await,
            Self::Signal { signal, to } => send(&there, signal, to).await,
            Self::Sweep => send(&there, Signal::KILL, process::Target::Group).await,
            Self::Resize(TtySize { cols, rows }) => {
                let size = Size { cols: cols.into(), rows: rows.into() };
                let request =
                    UpdateRequest { process: selector(&there), pty: Some(Pty { size: Some(size) }) };
                unary(&there, "Update", &Head::default(), &request).await
            }
        };
        match told {
            Ok(()) => Told::Done,
            Err(CallError::Refused(error)) if error.code != Code::Unavailable => {
                // It has ended, as a rule.
                tracing::debug!(process.tag = there.target.tag, order = ?self, %error, "an order was refused");
                Told::Done
            }
            Err(error) => {
                tracing::debug!(process.tag = there.target.tag, order = ?self, %error, "an order did not arrive");
                if let CallError::Unreachable(_) = error { Told::Unsent } else { Told::Unknown }
            }
        }
    }
}

impl Input {
    /// Gives it to a process.
    pub(super) async fn give(self, there: There) -> Taken {
        let process = selector(&there);
        let given = match self {
            Self::Bytes { bytes, tty } => {
                let (stdin, pty) = if tty { (None, Some(bytes)) } else { (Some(bytes), None) };
                let head = Head { timeout: Some(INPUT_TIMEOUT), ..Head::default() };
                let input = Some(ProcessInput { stdin, pty });
                unary(&there, "SendInput", &head, &SendInputRequest { process, input }).await
            }
            Self::End => unary(&there, "CloseStdin", &Head::default(), &CloseStdinRequest { process }).await,
        };
        match given {
            Ok(()) => Taken::All,
            Err(CallError::Unreachable(_)) => Taken::None,
            Err(CallError::Broken(why)) => {
                tracing::warn!(process.tag = there.target.tag, why, "input was cut off: it may be lost");
                Taken::All
            }
            // As a whole or not at all.
            Err(CallError::Refused(error))
                if matches!(
                    error.code,
                    Code::DeadlineExceeded | Code::ResourceExhausted | Code::Unavailable
                ) =>
            {
                Taken::None
            }
            Err(CallError::Refused(_)) => Taken::Never,
        }
    }
}

/// Tells hangar's daemon that the output of a process is here up to a byte.
pub(super) async fn acknowledge(there: There, offset: u64) -> Result<(), CallError> {
    let request = AcknowledgeRequest { process: selector(&there), offset };
    unary(&there, "Acknowledge", &Head::default(), &request).await
}

fn selector(there: &There) -> Option<ProcessSelector> {
    Some(if there.is_hangar { there.target.by_both() } else { there.target.by_pid() })
}

async fn unary<Q: Message>(
    there: &There,
    method: &str,
    head: &Head<'_>,
    request: &Q,
) -> Result<(), CallError> {
    let method = format!("{SERVICE}/{method}");
    there.shared.rpc.call::<Q, Empty>(&method, head, request).await.map(|Empty {}| ())
}

/// Sends a signal. envd knows two of them, and leaders only: for everything else a command of the same user does it.
async fn send(there: &There, signal: Signal, to: process::Target) -> Result<(), CallError> {
    let group = to == process::Target::Group;
    if there.is_hangar || (!group && matches!(signal, Signal::TERM | Signal::KILL)) {
        let signal = i32::from(signal.number());
        let request = SendSignalRequest { process: selector(there), signal, group, end: false };
        return unary(there, "SendSignal", &Head::default(), &request).await;
    }
    let Some(pid) = there.target.pid else { return Ok(()) };
    let (number, to) = (signal.number(), if group { "-" } else { "" });
    // Where it leads no group, it alone. No `--`: not every shell knows that here.
    let line = format!("kill -{number} {to}{pid} 2>/dev/null || kill -{number} {pid}");
    let config = ProcessConfig {
        cmd: "/bin/sh".to_owned(),
        args: vec!["-c".to_owned(), line],
        cwd: Some("/".to_owned()),
        ..ProcessConfig::default()
    };
    let request = StartRequest { process: Some(config), stdin: Some(false), ..StartRequest::default() };
    let head = Head { user: there.user.as_deref(), timeout: Some(INPUT_TIMEOUT), ..Head::default() };
    let mut stream = there.shared.rpc.open(&format!("{SERVICE}/Start"), &head, &request).await?;
    loop {
        match stream.next(&*there.shared.runtime).await {
            Ok(_) => {}
            Err(Lost::Ended(None)) => return Ok(()),
            Err(Lost::Ended(Some(error))) => return Err(error.into()),
            Err(Lost::Cut(why)) => return Err(CallError::Broken(why)),
        }
    }
}
