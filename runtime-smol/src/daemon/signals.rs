//! What signals mean to a daemon.

use async_signal::{Signal, Signals as Async};
use futures_lite::Stream as _;
use hangar_core::process;
use std::{future::poll_fn, io, pin::Pin, task::ready};

/// The signals that are heard.
const HEARD: [Signal; 6] = [Signal::Hup, Signal::Int, Signal::Quit, Signal::Term, Signal::Usr1, Signal::Usr2];

/// Signals as they come.
pub(super) struct Signals {
    signals: Async,
    /// It is the first process of its container: nobody has a terminal that could be gone.
    is_init: bool,
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Heard {
    /// To end, and to end what runs.
    End {
        /// What was sent.
        signal: process::Signal,
        /// What a shell calls a process that it ended; 0 for TERM, which is how services are stopped.
        exit_code: u8,
    },
    /// To tell it to what runs.
    PassOn(process::Signal),
}

impl Signals {
    /// Takes the signals, for the whole process and for good.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self { signals: Async::new(HEARD)?, is_init: rustix::process::getpid().is_init() })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Heard {
        let is_init = self.is_init;
        poll_fn(|cx| {
            let signal = ready!(Pin::new(&mut self.signals).poll_next(cx));
            // Where the pipe broke, no later signal would be seen either.
            std::task::Poll::Ready(heard(signal.and_then(Result::ok).unwrap_or(Signal::Term), is_init))
        })
        .await
    }
}

fn heard(signal: Signal, is_init: bool) -> Heard {
    let end = |signal: process::Signal| Heard::End { signal, exit_code: 128 + signal.number() };
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other is heard")]
    match signal {
        Signal::Usr1 => Heard::PassOn(process::Signal::USR1),
        Signal::Usr2 => Heard::PassOn(process::Signal::USR2),
        Signal::Hup if is_init => Heard::PassOn(process::Signal::HUP),
        Signal::Hup => end(process::Signal::HUP),
        Signal::Int => end(process::Signal::INT),
        Signal::Quit => end(process::Signal::QUIT),
        _ => Heard::End { signal: process::Signal::TERM, exit_code: 0 },
    }
}
