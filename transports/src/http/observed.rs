//! A socket that knows whether its peer takes what it is sent, and whether it is still there.
//!
//! hyper looks for the end of what its client sends while it holds no byte of a further request. A client that has sent
//! one, and then leaves in the middle of an answer, is noticed here: what comes meanwhile is read ahead.

use super::Connection;
use bytes::{Buf as _, BytesMut};
use hangar_backends::runtime::Io;
use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes that are read ahead. Whoever sends more in the middle of an answer is not noticed when it leaves.
const MAX_AHEAD: usize = 64 * 1024;
/// Bytes of one read.
const READ: usize = 4 * 1024;

/// The socket of one connection.
pub(super) struct Observed {
    io: Box<dyn Io>,
    connection: Arc<Connection>,
    /// Read ahead, and not yet given to hyper.
    ahead: BytesMut,
    /// Its peer sends no more.
    ended: bool,
    /// hyper waits for bytes: it will notice an end itself.
    awaited: bool,
    /// The request whose answer was written last.
    answered: u64,
}

impl Observed {
    pub(super) fn new(io: Box<dyn Io>, connection: Arc<Connection>) -> Self {
        Self { io, connection, ahead: BytesMut::new(), ended: false, awaited: false, answered: 0 }
    }

    fn note(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Pending => {
                self.connection.blocked();
                self.look_ahead(cx);
            }
            Poll::Ready(Ok(_)) => {
                self.connection.accepted();
                self.answered = self.connection.answers();
            }
            Poll::Ready(Err(_)) => {}
        }
        written
    }

    /// In the middle of an answer, and where hyper does not do so itself: waits for the end of what the client sends.
    fn look_ahead(&mut self, cx: &mut Context<'_>) {
        if self.awaited || self.ended || self.answered != self.connection.answers() {
            return;
        }
        let mut bytes = [0; READ];
        while self.ahead.len() + READ <= MAX_AHEAD {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.io).poll_read(cx, &mut buffer) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.ahead.extend_from_slice(buffer.filled());
                }
                Poll::Ready(_) => {
                    self.ended = true;
                    self.connection.left();
                    return;
                }
            }
        }
    }
}

impl AsyncRead for Observed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.connection.awaits();
        if !this.ahead.is_empty() {
            let len = this.ahead.len().min(buffer.remaining());
            buffer.put_slice(&this.ahead[..len]);
            this.ahead.advance(len);
            return Poll::Ready(Ok(()));
        }
        if this.ended {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.io).poll_read(cx, buffer);
        this.awaited = read.is_pending();
        this.ended = read.is_ready() && buffer.filled().len() == before;
        read
    }
}

impl AsyncWrite for Observed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.note(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.note(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // With nothing to write, this is what hyper calls each time.
        self.look_ahead(cx);
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
