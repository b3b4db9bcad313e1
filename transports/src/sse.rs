//! Streams as response bodies that pull.
//!
//! hyper polls a body only while the socket takes more, so back-pressure reaches the command by itself. For the same
//! reason no deadline lives here but the keep-alive: a body whose client does not read is not polled.

use crate::plane::{
    exec::{self, ExecStream},
    follow::{self, FollowStream},
    watches::{self, WatchStream},
};
use bytes::{Bytes, BytesMut};
use hangar_backends::{Runtime, runtime::Deadline};
use hangar_core::{
    Time,
    exec::Encoding,
    process::Exit,
    text::Text,
    wire::{
        process::GapView,
        sse,
        watch::{self, EventView, ReadyView, UnwatchedView},
    },
};
use serde::Serialize;
use std::{
    borrow::Cow,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// A comment goes out after this long without anything else, so that proxies do not cut the connection and a dead
/// client is noticed.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Events are gathered into one piece of about this many bytes while there are more at once.
const BATCH: usize = 64 * 1024;

/// What a body takes its events from.
pub trait Source {
    /// The runtime whose clock counts.
    fn runtime(&self) -> &Arc<dyn Runtime>;

    /// Appends the next event to `out`, and says whether it is the last.
    fn poll_event(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<Flow>;
}

/// Whether something follows an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flow {
    /// Something does.
    More,
    /// Nothing does.
    Last,
}

/// A comment at once, events as they come, comments in between.
#[derive(Debug)]
pub struct EventBody<S> {
    state: State<S>,
    out: BytesMut,
    silent_until: Time,
    keep_alive: Deadline,
}

#[derive(Debug)]
enum State<S> {
    /// The first byte goes out at once, so that a client knows that its stream is open.
    Opening(S),
    Open(S),
    Ended,
}

impl<S: Source> EventBody<S> {
    /// The body for a stream.
    pub fn new(source: S) -> Self {
        Self {
            silent_until: source.runtime().now() + KEEP_ALIVE,
            state: State::Opening(source),
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
        let source = match std::mem::replace(&mut self.state, State::Ended) {
            State::Ended => return Poll::Ready(None),
            State::Opening(source) => {
                self.state = State::Open(source);
                return Poll::Ready(Some(Bytes::from_static(sse::COMMENT)));
            }
            State::Open(source) => source,
        };
        self.poll_open(source, cx)
    }

    fn poll_open(&mut self, mut source: S, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        while self.out.len() < BATCH {
            match source.poll_event(cx, &mut self.out) {
                Poll::Ready(Flow::More) => {}
                Poll::Ready(Flow::Last) => {
                    // The stream is let go of, and its lease given back, before the client reads the end.
                    drop(source);
                    return Poll::Ready(Some(self.out.split().freeze()));
                }
                Poll::Pending => break,
            }
        }
        let now = source.runtime().now();
        if self.out.is_empty() {
            if self.keep_alive.poll(&**source.runtime(), Some(self.silent_until), cx).is_pending() {
                self.state = State::Open(source);
                return Poll::Pending;
            }
            self.out.extend_from_slice(sse::COMMENT);
        }
        self.silent_until = now + KEEP_ALIVE;
        self.state = State::Open(source);
        Poll::Ready(Some(self.out.split().freeze()))
    }
}

/// `stdout` and `stderr` events as a command prints, one `result` event at the end.
impl Source for ExecStream {
    fn runtime(&self) -> &Arc<dyn Runtime> {
        self.plane().runtime()
    }

    fn poll_event(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<Flow> {
        self.poll(cx).map(|event| match event {
            exec::Event::Output { channel, text } => {
                let event = sse::event(channel.name(), out);
                match self.encoding() {
                    Encoding::Text => event.output(&text),
                    Encoding::Base64 => event.output_base64(&text),
                }
                Flow::More
            }
            exec::Event::Result(result) => {
                sse::event("result", out).data(&json(&*result));
                Flow::Last
            }
        })
    }
}

/// `output` and `gap` events as a process prints, each with the offset to come back with; one `end` or `close` event.
impl Source for FollowStream {
    fn runtime(&self) -> &Arc<dyn Runtime> {
        self.plane().runtime()
    }

    fn poll_event(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<Flow> {
        self.poll(cx).map(|event| match event {
            follow::Event::Frame(frame) => {
                let event = sse::event("output", out).id(frame.end());
                event.output_base64_on(frame.channel.name(), &Text::from(frame.data));
                Flow::More
            }
            follow::Event::Text { channel, text, next } => {
                sse::event("output", out).id(next).output_on(channel, &text);
                Flow::More
            }
            follow::Event::Gap(gap) => {
                sse::event("gap", out).id(gap.to_offset).data(&json(&GapView::from(&gap)));
                Flow::More
            }
            follow::Event::Closed { reason, exit, drain_timed_out } => {
                match (reason.row().closed, exit) {
                    (Some(reason), _) => close(reason, None, out),
                    (None, exit) => {
                        let (exit_code, signal) = (exit.and_then(Exit::code), exit.and_then(Exit::signal));
                        sse::event("end", out).data(&json(&EndView { exit_code, signal, drain_timed_out }));
                    }
                }
                Flow::Last
            }
        })
    }
}

/// Changes as they are told, each with the number to come back with; `ready`, `gap` and `unwatched` events in between; one
/// `end` or `close` event.
impl Source for WatchStream {
    fn runtime(&self) -> &Arc<dyn Runtime> {
        self.plane().runtime()
    }

    fn poll_event(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<Flow> {
        self.poll(cx).map(|event| {
            match event {
                watches::Event::Told(told) => {
                    sse::message(out).id(told.seq).data(&json(&EventView::from(&told)));
                }
                watches::Event::Ready { next } => {
                    let path = self.path().into();
                    sse::event("ready", out).data(&json(&ReadyView { path, next }));
                }
                watches::Event::Gap(gap) => {
                    sse::event("gap", out).data(&json(&watch::GapView::from(&gap)));
                }
                watches::Event::Unwatched { name, why } => {
                    sse::event("unwatched", out).data(&json(&UnwatchedView::of(&name, why)));
                }
                watches::Event::Ended(end) => {
                    sse::event("end", out).data(&json(&WatchEndView { reason: end.word() }));
                    return Flow::Last;
                }
                watches::Event::Closed { reason, message } => {
                    if let Some(reason) = reason.row().closed {
                        close(reason, message.as_deref(), out);
                    }
                    return Flow::Last;
                }
            }
            Flow::More
        })
    }
}

fn close(reason: &'static str, message: Option<&str>, out: &mut BytesMut) {
    sse::event("close", out).data(&json(&CloseView { reason, message }));
}

/// What became of a watched directory.
#[derive(Serialize)]
struct WatchEndView {
    reason: &'static str,
}

/// How a process ended.
#[derive(Serialize)]
struct EndView {
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    drain_timed_out: bool,
}

/// Why a stream ended before what it tells of.
#[derive(Serialize)]
struct CloseView<'a> {
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

/// Strings and numbers only: this cannot fail.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
