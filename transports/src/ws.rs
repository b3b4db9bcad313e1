//! The WebSocket of one process, once it is open.
//!
//! ```text
//!  FollowStream ─► ready, frames, gaps, end ─► Outbox ─► vectored writes ─► client
//!  process      ◄─ input, resize, signal, eof ◄─ messages ◄───────── reads ◄─┘
//! ```
//!
//! One task owns the socket: it never waits for one direction while the other could go on. What the client does not
//! take waits in the outbox, some 64 KiB; past that the process is not read, and what is evicted meanwhile is a
//! gap, or the end of a client that takes nothing at all.

mod outbox;

use crate::{
    http,
    plane::{
        background::{Background, NO_INPUT},
        follow::{Event, FollowStream},
        tickets::Mode,
    },
};
use bytes::{Bytes, BytesMut};
use hangar_backends::{
    Runtime,
    runtime::{Deadline, Io},
};
use hangar_core::{
    Close, Time,
    close::CloseFrame,
    process::Exit,
    wire::{
        process::{BadControl, ClientControl, GapView, Header, ServerControl},
        websocket::Opcode,
    },
};
use outbox::{BATCH, Outbox};
use std::{
    io::{self, Read, Write},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tungstenite::{
    Message,
    error::{CapacityError, Error},
    protocol::{Role, WebSocketConfig, WebSocketContext},
};

/// Between two pings.
const PING_EVERY: Duration = Duration::from_secs(15);

/// A client that was not heard of for this long is gone.
const PONG_WITHIN: Duration = Duration::from_secs(45);

/// How long the client may take to answer a close frame.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// How long a client that was given up for taking nothing may still take the reason, and one that comes back may still send
/// what it has.
const LAST_WORDS: Duration = Duration::from_secs(30);

/// The longest message from a client.
const MAX_MESSAGE: usize = 1024 * 1024;

/// Bytes of one read.
const READ: usize = 16 * 1024;

/// Reads of one poll; after those the other tasks have their turn.
const BUDGET: u32 = 16;

/// What a request has become: a process that is followed, and what its client may do.
#[derive(Debug)]
pub struct Upgrade {
    stream: FollowStream,
    mode: Mode,
}

impl Upgrade {
    pub(crate) const fn new(stream: FollowStream, mode: Mode) -> Self {
        Self { stream, mode }
    }
}

/// An open WebSocket.
pub(crate) struct Session {
    io: Box<dyn Io>,
    runtime: Arc<dyn Runtime>,
    mode: Mode,
    /// None once it has ended and its lease was given back.
    stream: Option<FollowStream>,
    /// The process, for what the client asks of it.
    background: Arc<Background>,
    context: WebSocketContext,
    inbound: Inbound,
    outbox: Outbox,
    /// Input that did not fit: nothing more is read until it does.
    input: Option<Bytes>,
    input_fits: hangar_backends::handle::Reading,
    deadline: Deadline,
    ping_at: Time,
    heard: Time,
    /// A close frame is on its way; after this time the socket is closed without an answer.
    closing_until: Option<Time>,
    /// The client has said its last: what waits is written, and nothing is read.
    finished: bool,
    /// It has sent what is no message: what comes now is dropped.
    refused: bool,
    /// It comes back for more output: what it has sent by then is still input.
    comes_back: bool,
}

/// What came, as the library reads it, and what it wants to answer.
#[derive(Debug, Default)]
struct Inbound {
    came: BytesMut,
    answers: Vec<u8>,
}

impl Read for Inbound {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len().min(self.came.len());
        if len == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        buffer[..len].copy_from_slice(&self.came.split_to(len));
        Ok(len)
    }
}

impl Write for Inbound {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.answers.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Why the socket is let go of.
enum Gone {
    /// The client left, or the socket broke.
    Left,
    /// Everything was said.
    Done,
}

impl http::Upgrade for Upgrade {
    fn begin(self: Box<Self>, io: Box<dyn Io>, came: Bytes) -> Box<dyn http::Session> {
        Box::new(Session::new(io, came, *self))
    }
}

impl http::Session for Session {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_open(cx)
    }
}

impl Session {
    /// A session on a socket of which `came` was read already.
    fn new(io: Box<dyn Io>, came: Bytes, upgrade: Upgrade) -> Self {
        let Upgrade { stream, mode } = upgrade;
        let runtime = Arc::clone(stream.plane().runtime());
        let (now, background) = (runtime.now(), Arc::clone(stream.background()));
        let config = WebSocketConfig::default()
            .read_buffer_size(4096)
            .write_buffer_size(0)
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        let mut outbox = Outbox::default();
        let ready = ServerControl::Ready {
            process: Box::new(background.view()),
            logging_disabled: background.is_logging_disabled(),
        };
        outbox.message(Opcode::Text, ready.encode().as_bytes());
        Self {
            io,
            mode,
            stream: Some(stream),
            input_fits: background.handle().reader(),
            background,
            context: WebSocketContext::new(Role::Server, Some(config)),
            inbound: Inbound { came: came.into(), answers: Vec::new() },
            outbox,
            input: None,
            deadline: Deadline::default(),
            ping_at: now + PING_EVERY,
            heard: now,
            closing_until: None,
            finished: false,
            refused: false,
            comes_back: false,
            runtime,
        }
    }

    /// Ready once the socket can be closed.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut budget = BUDGET;
        loop {
            let now = self.runtime.now();
            match self.step(cx, now, &mut budget) {
                Err(Gone::Left | Gone::Done) => return Pin::new(&mut self.io).poll_shutdown(cx).map(drop),
                Ok(true) => {}
                // The socket may have more, and was not asked to say so.
                Ok(false) if budget == 0 => {}
                Ok(false) => {
                    let heard_by = self.input.is_none().then(|| self.heard + PONG_WITHIN);
                    let alive = heard_by.map_or(self.ping_at, |at| at.min(self.ping_at));
                    let at = Some(self.closing_until.unwrap_or(alive));
                    if self.deadline.poll(&*self.runtime, at, cx).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
            if budget == 0 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    /// Does what can be done now. Whether there may be more.
    fn step(&mut self, cx: &mut Context<'_>, now: Time, budget: &mut u32) -> Result<bool, Gone> {
        *budget = budget.saturating_sub(1);
        // Who is not read from cannot be heard.
        let silent = self.input.is_none() && now.since(self.heard) >= PONG_WITHIN;
        if self.closing_until.is_some_and(|until| now >= until) || silent {
            return Err(Gone::Left);
        }
        if self.finished {
            return if self.write(cx)? { Err(Gone::Done) } else { Ok(false) };
        }
        if now >= self.ping_at && self.closing_until.is_none() {
            self.ping_at = now + PING_EVERY;
            self.outbox.message(Opcode::Ping, b"");
        }
        let was_blocked = self.outbox.is_blocked();
        let followed = self.follow(cx, now);
        let written = self.write(cx)?;
        let read = self.read(cx, now, budget)?;
        Ok(followed || was_blocked && written || read)
    }

    /// Takes from the process while there is room for it. Whether something was taken.
    fn follow(&mut self, cx: &mut Context<'_>, now: Time) -> bool {
        let mut taken = false;
        while self.outbox.len() < BATCH
            && let Some(stream) = &mut self.stream
        {
            match stream.poll(cx) {
                Poll::Pending => break,
                Poll::Ready(Event::Frame(frame)) => self.outbox.frame(&Header::of(&frame), frame.data),
                Poll::Ready(Event::Gap(gap)) => {
                    let gap = ServerControl::Gap(GapView::from(&gap));
                    self.outbox.message(Opcode::Text, gap.encode().as_bytes());
                }
                Poll::Ready(Event::Closed { reason, exit, .. }) => self.end(reason, exit, now),
                // It is followed as bytes.
                Poll::Ready(Event::Text { .. }) => {}
            }
            taken = true;
        }
        if self.outbox.len() >= BATCH && self.outbox.is_blocked() {
            // Polled all the same: it decides when a client that takes nothing is given up.
            self.look(cx, now);
        }
        taken
    }

    /// Polls a stream whose socket takes nothing.
    fn look(&mut self, cx: &mut Context<'_>, now: Time) {
        let Some(stream) = &mut self.stream else { return };
        stream.handle_blocked();
        if let Poll::Ready(Event::Closed { reason, exit, .. }) = stream.poll(cx) {
            self.end(reason, exit, now);
        }
    }

    /// Says why, gives the lease back, and waits for the client to say so too.
    fn end(&mut self, reason: Close, exit: Option<Exit>, now: Time) {
        self.stream = None;
        if let Some(end) = ServerControl::end(reason, exit) {
            self.outbox.message(Opcode::Text, end.encode().as_bytes());
        }
        self.comes_back = reason == Close::Limit;
        let within = if self.comes_back || reason == Close::SlowConsumer { LAST_WORDS } else { CLOSE_WITHIN };
        self.closing_until = Some(now + within);
        match reason.row().websocket {
            Some(CloseFrame { code, reason, .. }) => self.outbox.close(code, reason),
            None => self.closing_until = Some(now),
        }
    }

    /// Writes what waits. Whether all of it went.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<bool, Gone> {
        let answers = std::mem::take(&mut self.inbound.answers);
        self.outbox.raw(&answers);
        let had = !self.outbox.is_empty();
        match self.outbox.poll_write(&mut self.io, cx) {
            Poll::Ready(Ok(())) => {
                if had && let Some(stream) = &mut self.stream {
                    stream.handle_accepted();
                }
                Ok(true)
            }
            Poll::Ready(Err(_)) => Err(self.left()),
            Poll::Pending => {
                let accepted = self.outbox.took_something();
                if let Some(stream) = &mut self.stream {
                    if accepted {
                        stream.handle_accepted();
                    }
                    stream.handle_blocked();
                }
                Ok(false)
            }
        }
    }

    /// Reads what came, and does what it says. Whether there may be more.
    fn read(&mut self, cx: &mut Context<'_>, now: Time, budget: &mut u32) -> Result<bool, Gone> {
        if self.refused {
            return self.discard(cx, budget);
        }
        // Answers to a client that does not take them would pile up.
        if self.outbox.is_blocked() && self.outbox.len() >= BATCH {
            return Ok(false);
        }
        if let Some(input) = self.input.take() {
            self.input = self.type_in(cx, input);
            if self.input.is_some() {
                return Ok(false);
            }
            self.heard = now;
        }
        let mut more = false;
        while self.input.is_none() && !self.finished && *budget > 0 {
            match self.context.read(&mut self.inbound) {
                Ok(message) => {
                    self.handle(cx, message, now)?;
                    more = true;
                }
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    *budget -= 1;
                    if !self.fill(cx)? {
                        break;
                    }
                    self.heard = now;
                }
                Err(Error::ConnectionClosed | Error::AlreadyClosed) => {
                    self.finished = true;
                    return Ok(true);
                }
                Err(error) => {
                    self.refuse(&error, now);
                    return Ok(true);
                }
            }
        }
        Ok(more)
    }

    /// Reads what comes after something that was refused, and drops it: a socket that is closed with bytes unread is
    /// reset, and the reset may reach the client before it has read why.
    fn discard(&mut self, cx: &mut Context<'_>, budget: &mut u32) -> Result<bool, Gone> {
        while *budget > 0 {
            *budget -= 1;
            if !self.fill(cx)? {
                return Ok(false);
            }
            self.inbound.came.clear();
        }
        Ok(true)
    }

    /// Reads from the socket. Whether something came.
    fn fill(&mut self, cx: &mut Context<'_>) -> Result<bool, Gone> {
        let mut bytes = [0; READ];
        let mut buffer = ReadBuf::new(&mut bytes);
        match Pin::new(&mut self.io).poll_read(cx, &mut buffer) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                self.inbound.came.extend_from_slice(buffer.filled());
                Ok(true)
            }
            // Without a close frame, or after it: there is nobody any more.
            Poll::Ready(_) => Err(self.left()),
        }
    }

    fn left(&mut self) -> Gone {
        let done = self.closing_until.is_some();
        self.stream = None;
        if done { Gone::Done } else { Gone::Left }
    }

    fn handle(&mut self, cx: &Context<'_>, message: Message, now: Time) -> Result<(), Gone> {
        if self.closing_until.is_some() && !self.comes_back && !matches!(message, Message::Close(_)) {
            return Ok(());
        }
        match message {
            // An answer to ours needs no other; to the client's own the library has one ready.
            Message::Close(_) => {
                self.stream = None;
                if self.closing_until.is_none() {
                    self.context.flush(&mut self.inbound).ok();
                }
                self.closing_until.get_or_insert(now + CLOSE_WITHIN);
                self.finished = true;
            }
            Message::Ping(_) => {
                self.context.flush(&mut self.inbound).ok();
            }
            Message::Pong(_) | Message::Frame(_) => {}
            Message::Binary(_) | Message::Text(_) if self.mode == Mode::Logs => {
                if let Some(stream) = &mut self.stream {
                    stream.close(Close::ClientData);
                }
            }
            Message::Binary(_) if !self.background.can_have_input() => self.refuse_with(1008, NO_INPUT, now),
            Message::Binary(data) => self.input = self.type_in(cx, data),
            Message::Text(text) => match ClientControl::decode(&text) {
                Ok(ClientControl::Eof) => self.background.end_input(),
                // A process that has ended, or has no terminal, is no fault of the client's.
                Ok(ClientControl::Resize(size)) => drop(self.background.resize(size)),
                Ok(ClientControl::Signal(signal)) => drop(self.background.signal(signal)),
                Err(error) => self.bad_control(&error, now),
            },
        }
        Ok(())
    }

    /// Gives the process input; what does not fit waits, and is tried again when the process changes.
    fn type_in(&self, cx: &Context<'_>, data: Bytes) -> Option<Bytes> {
        // Before it is tried: whatever makes room after that is seen.
        self.input_fits.read(cx.waker(), |_| ());
        self.background.type_in(data)
    }

    fn bad_control(&mut self, error: &BadControl, now: Time) {
        self.refuse_with(1008, &format!("bad_control: {error}"), now);
    }

    /// Closes for what is no WebSocket message that can be taken.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "what else the library finds is a fault of the protocol"
    )]
    fn refuse(&mut self, error: &Error, now: Time) {
        let code = match error {
            Error::Capacity(CapacityError::MessageTooLong { .. }) => 1009,
            Error::Utf8(_) => 1007,
            _ => 1002,
        };
        self.refuse_with(code, &error.to_string(), now);
    }

    fn refuse_with(&mut self, code: u16, reason: &str, now: Time) {
        self.refused = true;
        if self.closing_until.is_some() {
            return;
        }
        if let Some(stream) = &mut self.stream {
            stream.close(Close::ClientData);
        }
        self.stream = None;
        self.closing_until = Some(now + CLOSE_WITHIN);
        self.outbox.close(code, reason);
    }
}
