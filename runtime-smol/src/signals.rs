//! What asks the process to stop. It takes SIGINT and SIGTERM for the whole process and for good, so it is for
//! binaries only.

pub use hangar_backends::stop::Stop;

use async_signal::{Signal, Signals};
use futures_lite::Stream as _;
use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// SIGINT and SIGTERM, as they come. From [`listen`](Self::listen) on they no longer end the process, not even once
/// this is dropped.
#[derive(Debug)]
pub struct StopSignals(Signals);

impl StopSignals {
    /// Takes both signals.
    ///
    /// # Errors
    ///
    /// What the system says when it has no descriptors left.
    pub fn listen() -> io::Result<Self> {
        Ok(Self(Signals::new([Signal::Int, Signal::Term])?))
    }

    /// Waits for the next one: call it again for a second one, which means "at once". Nothing is lost when the future
    /// is dropped.
    pub async fn next(&mut self) -> Stop {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// As [`next`](Self::next), for a task that waits for more.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Stop> {
        let signal = ready!(Pin::new(&mut self.0).poll_next(cx));
        let interrupt = matches!(signal, Some(Ok(Signal::Int)));
        // Where the pipe broke, no later signal would be seen either.
        Poll::Ready(if interrupt { Stop::Interrupt } else { Stop::Terminate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Threads;
    use rustix::process::{Signal, getpid, kill_process};

    #[test]
    fn each_signal_is_told_apart_and_the_second_one_seen() {
        let mut signals = StopSignals::listen().unwrap();
        Threads::new(1).unwrap().block_on(async {
            for (sent, told) in [
                (Signal::TERM, Stop::Terminate),
                (Signal::INT, Stop::Interrupt),
                (Signal::INT, Stop::Interrupt),
            ] {
                kill_process(getpid(), sent).unwrap();
                assert_eq!(signals.next().await, told);
            }
        });
    }
}
