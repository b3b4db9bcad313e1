//! Readiness of a descriptor.

use async_io::Async;
use hangar_backends::runtime::{Descriptor, Interest};
use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    task::{Context, Poll, ready},
};

/// A descriptor in async-io's reactor.
pub(crate) struct Watched(Async<OwnedFd>);

impl Watched {
    /// Makes `fd` non-blocking and registers it.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self(Async::new(fd)?))
    }
}

impl Descriptor for Watched {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn poll_io(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
        attempt: &mut dyn FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        poll_attempts(&self.0, cx, interest, || attempt(self.0.as_fd()))
    }
}

/// Attempts first, and waits after `WouldBlock`. Never the other way round: a task that was woken may be told that
/// there was no event, when the event came in the reactor's round in which the task had begun to wait.
pub(crate) fn poll_attempts<T, R>(
    source: &Async<T>,
    cx: &mut Context<'_>,
    interest: Interest,
    mut attempt: impl FnMut() -> io::Result<R>,
) -> Poll<io::Result<R>> {
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return Poll::Ready(result),
        }
        ready!(match interest {
            Interest::Readable => source.poll_readable(cx),
            Interest::Writable => source.poll_writable(cx),
        })?;
    }
}
