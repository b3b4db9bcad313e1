//! What asks the process to stop. It takes signals for the whole process and for good, so it is for
//! binaries only.

pub use hangar_backends::stop::Stop;

use crate::TokioRuntime;
use std::{
    future::poll_fn,
    io,
    task::{Context, Poll},
};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask to stop, as they come. From [`listen`](Self::listen) on they no longer end the process, not even
/// once this is dropped.
#[derive(Debug)]
pub struct StopSignals(Vec<(Stop, Signal)>);

impl StopSignals {
    /// Takes each of them that is not ignored: `nohup` and the like are to be obeyed. SIGINT and SIGTERM are taken
    /// always: a shell ignores the first for what it runs in the background, and that is no wish of anybody's.
    ///
    /// # Errors
    ///
    /// What the system says when it has no descriptors left.
    pub fn listen(runtime: &TokioRuntime) -> io::Result<Self> {
        let _context = runtime.handle().enter();
        let wanted = Stop::ALL.into_iter().filter(|stop| match stop {
            Stop::Interrupt | Stop::Terminate => true,
            Stop::Hangup | Stop::Quit => !stop.is_ignored(),
        });
        let listen = |stop: Stop| Ok((stop, signal(SignalKind::from_raw(stop.number().into()))?));
        Ok(Self(wanted.map(listen).collect::<io::Result<_>>()?))
    }

    /// Waits for the next one: call it again for a second one, which means "at once". Those of one kind that come
    /// before they are waited for count as one. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Stop {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// As [`next`](Self::next), for a task that waits for more.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Stop> {
        for (stop, signal) in &mut self.0 {
            if signal.poll_recv(cx).is_ready() {
                return Poll::Ready(*stop);
            }
        }
        Poll::Pending
    }
}

/// Takes the signals that this process was started with as ignored, and does nothing for them, as before: what is
/// *ignored* here the commands that are started here ignore too, and a client could not send it to them. After
/// [`StopSignals::listen`], which obeys what is ignored.
///
/// # Errors
///
/// What the system says when it has no descriptors left.
pub fn keep_ignored_from_commands(runtime: &TokioRuntime) -> io::Result<()> {
    let _context = runtime.handle().enter();
    for stop in Stop::ALL.into_iter().filter(|stop| stop.is_ignored()) {
        // From here on, also without a listener.
        drop(signal(SignalKind::from_raw(stop.number().into()))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Threads;
    use rustix::process::{Signal, getpid, kill_process};

    #[test]
    fn each_signal_is_told_apart_and_the_second_one_seen() {
        let threads = Threads::new().unwrap();
        // Under `nohup` none would come of those.
        keep_ignored_from_commands(&threads.runtime()).unwrap();
        let mut signals = StopSignals::listen(&threads.runtime()).unwrap();
        threads.block_on(async {
            for (sent, told) in [
                (Signal::HUP, Stop::Hangup),
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
