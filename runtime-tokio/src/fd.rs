//! Readiness of a descriptor.

use hangar_backends::runtime::{Descriptor, Interest};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    task::{Context, Poll, ready},
};
use tokio::io::unix::AsyncFd;

/// A descriptor in tokio's reactor.
pub(crate) struct Watched(AsyncFd<OwnedFd>);

impl Watched {
    /// Makes `fd` non-blocking and registers it with the tokio that is entered.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
        Ok(Self(register(fd)?))
    }
}

/// tokio's safe constructors are deprecated: they cannot know that `AsRawFd` always gives the same open descriptor.
#[expect(unsafe_code, reason = "tokio offers no safe constructor that is not deprecated")]
fn register(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    let interest = tokio::io::Interest::READABLE | tokio::io::Interest::WRITABLE;
    // SAFETY: `OwnedFd` is an open descriptor, gives the same number every time, and closes it only when dropped. The
    // `AsyncFd` owns it. `Watched` lends it only as a `BorrowedFd`, which nobody can close, and has no `&mut` of it.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(|error| error.into_parts().1)
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
        loop {
            let mut guard = ready!(match interest {
                Interest::Readable => self.0.poll_read_ready(cx),
                Interest::Writable => self.0.poll_write_ready(cx),
            })?;
            // This clears the readiness on `WouldBlock`, and on nothing else: a hang-up stays ready, so that the
            // reader gets to the end.
            if let Ok(result) = guard.try_io(|fd| attempt(fd.as_fd())) {
                return Poll::Ready(result);
            }
        }
    }
}
