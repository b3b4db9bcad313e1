//! The WebSocket of one process, from the client's side.
//!
//! ```text
//!  caller ◄─ poll_next: ready, frames, gaps, end ◄─┐
//!                                                  ├─ Pipe ◄─► socket
//!  caller ─► input, resize, signal, eof ───────────┘
//! ```
//!
//! What is sent waits in the pipe and goes out while the next event is waited for. The library reads and writes the
//! pipe only, so that nothing in it waits.

use super::{Client, ClientError, refusal};
use bytes::{Buf, Bytes, BytesMut};
use hangar_backends::{
    Runtime,
    net::{io::HttpIo, url::segment},
    runtime::{Deadline, Io},
};
use hangar_core::{
    Time,
    log::Channel,
    process::{Signal, TtySize},
    wire::process::{ClientControl, EndView, GapView, HEADER_LEN, Header, ServerControl, View},
};
use hyper::{
    Method, StatusCode,
    header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE},
    upgrade::Parts,
};
use std::{
    fmt,
    future::poll_fn,
    io::{self, Read, Write},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tungstenite::{
    Message,
    error::Error,
    handshake::{client::generate_key, derive_accept_key},
    protocol::{Role, WebSocketConfig, WebSocketContext},
};

/// A server that was not heard of for this long is gone: it pings every 15 s.
pub(super) const SILENCE: Duration = Duration::from_secs(45);

/// The longest message from a server. Frames of output are far shorter.
const MAX_MESSAGE: usize = 1024 * 1024;

/// More input is not taken while this many bytes wait.
const FULL: usize = 64 * 1024;

/// Bytes of one read.
const READ: usize = 16 * 1024;

/// Where a client begins.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Begin {
    /// Where the server thinks best: with the last screenful to attach, with all that is kept to read.
    #[default]
    Usual,
    /// After the frame of this number.
    After(u64),
    /// With the last lines.
    Lines(u64),
    /// With all that is kept.
    Oldest,
}

impl Begin {
    fn query(self) -> String {
        match self {
            Self::Usual => String::new(),
            Self::After(seq) => format!("&seq={seq}"),
            Self::Lines(lines) => format!("&tail={lines}"),
            Self::Oldest => "&tail=all".to_owned(),
        }
    }
}

/// What a server says.
#[derive(Debug)]
pub enum SocketEvent {
    /// The first: how the process is.
    Ready {
        /// The process.
        process: Box<View>,
        /// Nothing of its output is replayed.
        logging_disabled: bool,
    },
    /// Output.
    Frame {
        /// Its number: where a connection that breaks is taken up again.
        seq: u64,
        /// Where it was printed.
        channel: Channel,
        /// What was printed.
        bytes: Bytes,
    },
    /// Output that is gone.
    Gap(GapView),
    /// Why the stream ends, and how the process did.
    End(EndView),
    /// The server closed the socket: nothing follows.
    Closed {
        /// The code of its close frame; 1005 where that has none.
        code: u16,
        /// The reason in it.
        reason: String,
    },
}

/// The WebSocket of one process. Dropped, it is closed; to the process that is nothing.
pub struct ProcessSocket {
    io: Box<dyn Io>,
    runtime: Arc<dyn Runtime>,
    context: WebSocketContext,
    pipe: Pipe,
    heard: Time,
    deadline: Deadline,
}

impl fmt::Debug for ProcessSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessSocket").field("queued", &self.queued()).finish_non_exhaustive()
    }
}

/// What came and was not read yet, and what waits to be sent.
#[derive(Debug, Default)]
struct Pipe {
    came: BytesMut,
    going: BytesMut,
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len().min(self.came.len());
        if len == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.came.copy_to_slice(&mut buffer[..len]);
        Ok(len)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.going.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Client {
    /// Opens the WebSocket that a ticket of [`stream_access`](Self::stream_access) is for. It is opened where this client
    /// reaches the server, which may not be how the server sees itself.
    pub async fn open_socket(&self, ticket: &str, begin: Begin) -> Result<ProcessSocket, ClientError> {
        let unexpected = |what: &str| ClientError::Unexpected(what.to_owned());
        let ticket = segment(ticket);
        let path = format!("/v1/sandbox-process-stream?token={ticket}{}", begin.query());
        let key = generate_key();
        let request = self
            .bare_request(Method::GET, &path)
            .header(CONNECTION, "upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key);
        let response = self.send(request, None).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refusal(response).await?);
        }
        let accept = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        if accept.is_none_or(|accept| accept.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes()) {
            return Err(unexpected("a WebSocket was opened with an answer to another request"));
        }
        let upgraded = hyper::upgrade::on(response).await?;
        let parts = upgraded.downcast::<HttpIo<Box<dyn Io>>>();
        let Parts { io: HttpIo(io), read_buf, .. } =
            parts.map_err(|_| unexpected("the connection is of another kind"))?;
        Ok(ProcessSocket::new(io, read_buf, Arc::clone(&self.runtime)))
    }
}

impl ProcessSocket {
    /// On a connection of which `came` was read already.
    fn new(io: Box<dyn Io>, came: Bytes, runtime: Arc<dyn Runtime>) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(4096)
            .write_buffer_size(0)
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        Self {
            io,
            context: WebSocketContext::new(Role::Client, Some(config)),
            pipe: Pipe { came: came.into(), going: BytesMut::new() },
            heard: runtime.now(),
            deadline: Deadline::default(),
            runtime,
        }
    }

    /// What the server says next. After an error, or [`SocketEvent::Closed`], there is nothing more. Nothing is lost when
    /// the future is dropped.
    pub async fn next(&mut self) -> Result<SocketEvent, ClientError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// As [`next`](Self::next), for a task that waits for more.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<SocketEvent, ClientError>> {
        loop {
            if let Poll::Ready(Err(error)) = self.poll_flush(cx) {
                return Poll::Ready(Err(error));
            }
            match self.context.read(&mut self.pipe) {
                Ok(message) => {
                    self.heard = self.runtime.now();
                    if let Some(event) = self.event(message, cx)? {
                        return Poll::Ready(Ok(event));
                    }
                }
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Reading may have left an answer.
                    if let Poll::Ready(Err(error)) = self.poll_flush(cx) {
                        return Poll::Ready(Err(error));
                    }
                    if self.poll_fill(cx)?.is_pending() {
                        let silent = self.heard + SILENCE;
                        ready!(self.deadline.poll(&*self.runtime, Some(silent), cx));
                        let error = io::Error::new(io::ErrorKind::TimedOut, "the server is silent");
                        return Poll::Ready(Err(ClientError::Lost(error)));
                    }
                }
                Err(error) => return Poll::Ready(Err(ClientError::Unexpected(error.to_string()))),
            }
        }
    }

    /// Sends what waits. Ready once all of it went; [`poll_next`](Self::poll_next) does this, too.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        while !self.pipe.going.is_empty() {
            let written = ready!(Pin::new(&mut self.io).poll_write(cx, &self.pipe.going));
            match written.map_err(ClientError::Lost)? {
                0 => return Poll::Ready(Err(ClientError::Lost(io::ErrorKind::WriteZero.into()))),
                written => self.pipe.going.advance(written),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// After [`SocketEvent::Closed`]: sends what waits, and waits for the server to close the connection. Closed from here
    /// before that it could be reset, and what was sent be lost.
    pub fn poll_leave(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        ready!(self.poll_flush(cx))?;
        while ready!(self.poll_fill(cx)).is_ok() {
            self.pipe.came.clear();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        let mut bytes = [0; READ];
        let mut buffer = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut buffer)).map_err(ClientError::Lost)?;
        if buffer.filled().is_empty() {
            let error = io::Error::new(io::ErrorKind::UnexpectedEof, "it was closed without a word");
            return Poll::Ready(Err(ClientError::Lost(error)));
        }
        self.pipe.came.extend_from_slice(buffer.filled());
        Poll::Ready(Ok(()))
    }

    /// What a message says; None for one that says nothing to the caller.
    fn event(&mut self, message: Message, cx: &mut Context<'_>) -> Result<Option<SocketEvent>, ClientError> {
        let unexpected = |error: &dyn fmt::Display| ClientError::Unexpected(error.to_string());
        Ok(Some(match message {
            Message::Binary(message) => {
                let (Header { seq, channel, .. }, _) =
                    Header::decode(&message).map_err(|error| unexpected(&error))?;
                SocketEvent::Frame { seq, channel, bytes: message.slice(HEADER_LEN..) }
            }
            Message::Text(text) => match serde_json::from_str(&text).map_err(|error| unexpected(&error))? {
                ServerControl::Ready { process, logging_disabled } => {
                    SocketEvent::Ready { process, logging_disabled }
                }
                ServerControl::Gap(gap) => SocketEvent::Gap(gap),
                ServerControl::End(end) => SocketEvent::End(end),
            },
            Message::Close(frame) => {
                // The library has the answer ready. Where it does not go at once, the server does not wait for long.
                self.context.flush(&mut self.pipe).ok();
                drop(self.poll_flush(cx));
                let (code, reason) = frame
                    .map_or((1005, String::new()), |frame| (frame.code.into(), frame.reason.to_string()));
                SocketEvent::Closed { code, reason }
            }
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => return Ok(None),
        }))
    }

    /// Bytes that wait to be sent.
    pub fn queued(&self) -> usize {
        self.pipe.going.len()
    }

    /// Whether more input should wait, because what there is does not go out.
    pub fn is_full(&self) -> bool {
        self.queued() >= FULL
    }

    /// Sends input, as it is. See [`is_full`](Self::is_full).
    pub fn input(&mut self, bytes: Bytes) {
        self.queue(Message::Binary(bytes));
    }

    /// Gives the terminal another size.
    pub fn resize(&mut self, size: TtySize) {
        self.control(ClientControl::Resize(size));
    }

    /// Sends a signal to the process and what is in its group.
    pub fn signal(&mut self, signal: Signal) {
        self.control(ClientControl::Signal(signal));
    }

    /// Ends the input, after what was sent.
    pub fn eof(&mut self) {
        self.control(ClientControl::Eof);
    }

    fn control(&mut self, control: ClientControl) {
        self.queue(Message::text(control.encode()));
    }

    /// It is refused once the server has closed the socket, which the next event says.
    fn queue(&mut self, message: Message) {
        self.context.write(&mut self.pipe, message).ok();
    }
}
