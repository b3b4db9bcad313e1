//! What waits to be sent on a WebSocket.

use bytes::{BufMut, Bytes, BytesMut};
use hangar_core::wire::{
    process::{HEADER_LEN, Header},
    websocket::{self, Opcode},
};
use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::AsyncWrite;

/// The process is not read while this many bytes wait.
pub(super) const BATCH: usize = 64 * 1024;

/// Payloads up to this are copied behind one another, so that many of them are one piece; longer ones are sent from where
/// they are.
const COPY: usize = 4 * 1024;

/// Pieces of one write.
const PIECES: usize = 32;

/// Messages on their way.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pieces: VecDeque<Bytes>,
    /// Small messages, and headers of long ones, that are not a piece yet.
    small: BytesMut,
    len: usize,
    /// The socket took nothing when it was offered something last.
    blocked: bool,
    /// It took something in the last attempt.
    took: bool,
}

impl Outbox {
    /// Bytes that wait.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) const fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Whether the last attempt to write wrote something.
    pub(super) const fn took_something(&self) -> bool {
        self.took
    }

    /// Output of the process.
    pub(super) fn frame(&mut self, header: &Header, data: Bytes) {
        let (head, used) = websocket::header(Opcode::Binary, HEADER_LEN + data.len());
        self.small.put_slice(&head[..used]);
        self.small.put_slice(&header.encode());
        self.len += used + HEADER_LEN + data.len();
        if data.len() <= COPY {
            self.small.put_slice(&data);
        } else {
            self.pieces.push_back(self.small.split().freeze());
            self.pieces.push_back(data);
        }
    }

    /// A whole message.
    pub(super) fn message(&mut self, opcode: Opcode, payload: &[u8]) {
        let (head, used) = websocket::header(opcode, payload.len());
        self.raw(&head[..used]);
        self.raw(payload);
    }

    /// A close frame.
    pub(super) fn close(&mut self, code: u16, reason: &str) {
        self.raw(&websocket::close(code, reason));
    }

    /// Bytes of whole frames.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.small.put_slice(bytes);
        self.len += bytes.len();
    }

    /// Writes all of it.
    pub(super) fn poll_write<W: AsyncWrite + Unpin>(
        &mut self,
        io: &mut W,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        self.took = false;
        while self.len > 0 {
            if !self.small.is_empty() {
                self.pieces.push_back(self.small.split().freeze());
            }
            let mut slices = [IoSlice::new(&[]); PIECES];
            let mut count = 0;
            for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
                *slice = IoSlice::new(piece);
                count += 1;
            }
            self.blocked = true;
            let written = ready!(Pin::new(&mut *io).poll_write_vectored(cx, &slices[..count]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.blocked = false;
            self.took = true;
            self.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, mut written: usize) {
        self.len -= written;
        while let Some(first) = self.pieces.front_mut() {
            if written < first.len() {
                drop(first.split_to(written));
                return;
            }
            written -= first.len();
            self.pieces.pop_front();
        }
    }
}
