//! A command's stream as a response body that pulls.
//!
//! hyper polls a body only while the socket takes more, so back-pressure reaches the command by itself. For the same
//! reason no deadline lives here but the keep-alive: a body whose client does not read is not polled.

use crate::plane::exec::{Event, ExecStream};
use bytes::{Bytes, BytesMut};
use hangar_backends::runtime::Deadline;
use hangar_core::{
    Time,
    exec::{Encoding, ExecResult},
    wire::sse,
};
use std::{
    task::{Context, Poll},
    time::Duration,
};

/// A comment goes out after this long without anything else, so that proxies do not cut the connection and a dead
/// client is noticed.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Events are gathered into one piece of about this many bytes while there are more at once.
const BATCH: usize = 64 * 1024;

/// `stdout` and `stderr` events as the command prints, comments in between, one `result` event at the end.
#[derive(Debug)]
pub struct ExecBody {
    state: State,
    out: BytesMut,
    silent_until: Time,
    keep_alive: Deadline,
}

#[derive(Debug)]
enum State {
    /// The first byte goes out at once, so that a client knows that its stream is open.
    Opening(ExecStream),
    Open(ExecStream),
    Ended,
}

impl ExecBody {
    /// The body for a stream.
    pub fn new(stream: ExecStream) -> Self {
        Self {
            silent_until: stream.plane().runtime().now() + KEEP_ALIVE,
            state: State::Opening(stream),
            out: BytesMut::new(),
            keep_alive: Deadline::default(),
        }
    }

    /// Whether its last byte was given out.
    pub const fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// The next bytes to send; None at the end.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let stream = match std::mem::replace(&mut self.state, State::Ended) {
            State::Ended => return Poll::Ready(None),
            State::Opening(stream) => {
                self.state = State::Open(stream);
                return Poll::Ready(Some(Bytes::from_static(sse::COMMENT)));
            }
            State::Open(stream) => stream,
        };
        self.poll_open(stream, cx)
    }

    fn poll_open(&mut self, mut stream: ExecStream, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        while self.out.len() < BATCH {
            match stream.poll(cx) {
                Poll::Ready(Event::Output { channel, text }) => {
                    let event = sse::event(channel.name(), &mut self.out);
                    match stream.encoding() {
                        Encoding::Text => event.output(&text),
                        Encoding::Base64 => event.output_base64(&text),
                    }
                }
                Poll::Ready(Event::Result(result)) => {
                    sse::event("result", &mut self.out).data(&json(&result));
                    // The stream is let go of, and its lease given back, before the client reads the end.
                    drop(stream);
                    return Poll::Ready(Some(self.out.split().freeze()));
                }
                Poll::Pending => break,
            }
        }
        let runtime = stream.plane().runtime();
        let now = runtime.now();
        if self.out.is_empty() {
            if self.keep_alive.poll(&**runtime, Some(self.silent_until), cx).is_pending() {
                self.state = State::Open(stream);
                return Poll::Pending;
            }
            self.out.extend_from_slice(sse::COMMENT);
        }
        self.silent_until = now + KEEP_ALIVE;
        self.state = State::Open(stream);
        Poll::Ready(Some(self.out.split().freeze()))
    }
}

/// Strings and numbers only: this cannot fail.
fn json(result: &ExecResult) -> String {
    serde_json::to_string(result).unwrap_or_default()
}
