//! MCP over lines: one message each, as a process's standard input and output carry them.
//!
//! One task reads, answers and writes. Calls are carried on only while little waits to be written, so that a client that does
//! not read slows its commands and nothing piles up. Input is read all the same: what cancels a call, and its end, are
//! heard whatever waits.
//!
//! A client of the revisions of 2025 begins with `initialize`: what is of these revisions is of the one session from then on,
//! and what changes is told between the answers.

use super::{
    Handler, RequestContext, TURN,
    running::Running,
    session::{Beginning, Session, Started, cancelled, stream::Stream},
};
use crate::{plane::tokens::Caller, sse::Flow};
use bytes::{Buf, BytesMut};
use hangar_backends::{
    Runtime,
    runtime::{BoxFuture, Deadline},
};
use hangar_core::{
    Time,
    wire::mcp::{
        legacy::{Incoming, Initialize, Legacy, Request},
        lines::{Line, Lines},
        message::{self, Id, RpcError, code},
        request::{self, Call, Refusal, Verdict, without_session},
        response::Framing,
        session::{MAX_CALLS, NotBegun},
    },
};
use serde_json::value::RawValue;
use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The longest line that is taken, as long as a body over HTTP.
const MAX_LINE: usize = 1024 * 1024;

/// Bytes that wait to be written before calls are carried on.
const WAITING: usize = 64 * 1024;

/// Bytes of refusals beyond those: what is wrong with a line is told behind what waits, and reading goes on. A client that
/// sends more of that kind and reads nothing is not read from until it does.
const REFUSALS: usize = 64 * 1024;

/// Once its input has ended a client is gone, or has said all that it has to say: what is nearly done is answered. Clients
/// wait about 2 s for the whole end before they send a signal.
pub const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Answers what comes on `input` until that ends, with `caller`'s rights. Calls that are not answered a moment later are
/// cancelled.
pub async fn serve(
    handler: Arc<dyn Handler>,
    caller: Caller,
    runtime: Arc<dyn Runtime>,
    mut input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut serving = Serving {
        handler,
        context: RequestContext { caller, connection: None },
        runtime,
        lines: Lines::new(MAX_LINE),
        held: VecDeque::new(),
        calls: Vec::new(),
        session: Of::None,
        out: BytesMut::new(),
        over: None,
        last: Deadline::default(),
    };
    std::future::poll_fn(|cx| serving.poll(cx, Pin::new(&mut input), Pin::new(&mut output))).await
}

struct Serving {
    handler: Arc<dyn Handler>,
    context: RequestContext,
    runtime: Arc<dyn Runtime>,
    lines: Lines,
    /// What is to be refused once that can be written, of one line: nothing is read meanwhile.
    held: VecDeque<(Option<Id>, RpcError)>,
    calls: Vec<One>,
    session: Of,
    /// What waits to be written.
    out: BytesMut,
    /// When the rest is given up: the input has ended.
    over: Option<Time>,
    last: Deadline,
}

/// A call that is being answered.
enum One {
    Alone(Running),
    OfSession(Started),
}

/// The session of a client of the revisions of 2025.
enum Of {
    /// It has not begun, and never does for others.
    None,
    /// It begins: no line is taken meanwhile.
    Beginning(Id, Beginning),
    /// The stream that tells what changes is being opened.
    Opening(Arc<Session>, BoxFuture<'static, Option<Stream>>),
    /// There it is.
    Open(Arc<Session>, Stream),
    /// It could not be opened: the next try is then.
    Waiting(Arc<Session>, Time, Deadline),
}

/// How long it is waited before a stream that could not be opened is tried again: a place may be free, or a server back.
const OPEN_AGAIN: Duration = Duration::from_secs(5);

impl One {
    const fn running(&mut self) -> &mut Running {
        match self {
            Self::Alone(running) => running,
            Self::OfSession(started) => started.running(),
        }
    }
}

/// Opens the stream that tells what changes.
fn opening(session: Arc<Session>, context: &RequestContext) -> Of {
    let (opened, context) = (Arc::clone(&session), context.clone());
    Of::Opening(session, Box::pin(async move { opened.open_stream(&context, Framing::Lines).await.ok() }))
}

impl Of {
    const fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Self::None | Self::Beginning(..) => None,
            Self::Opening(session, _) | Self::Open(session, _) | Self::Waiting(session, ..) => Some(session),
        }
    }
}

impl Serving {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut input: Pin<&mut impl AsyncRead>,
        mut output: Pin<&mut impl AsyncWrite>,
    ) -> Poll<io::Result<()>> {
        for _ in 0..TURN {
            if self.over.is_some_and(|over| self.runtime.now() >= over) {
                // Nobody is waited for any more: a client that does not read, least of all.
                self.calls.clear();
                self.write(cx, output.as_mut())?;
                return Poll::Ready(Ok(()));
            }
            let mut moved = self.write(cx, output.as_mut())?;
            moved |= self.read(cx, input.as_mut())?;
            moved |= self.carry_on(cx);
            if moved {
                continue;
            }
            let is_idle = self.calls.is_empty() && !matches!(self.session, Of::Beginning(..));
            if self.over.is_some() && is_idle && self.out.is_empty() && self.held.is_empty() {
                return output.poll_flush(cx);
            }
            match self.last.poll(&*self.runtime, self.over, cx) {
                Poll::Ready(()) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
        // Whoever shares this task has a turn, too.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Writes what waits. Whether anything went.
    fn write(&mut self, cx: &mut Context<'_>, mut output: Pin<&mut impl AsyncWrite>) -> io::Result<bool> {
        let mut moved = false;
        while !self.out.is_empty() {
            match output.as_mut().poll_write(cx, &self.out) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(len)) => self.out.advance(len),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => return Ok(moved),
            }
            moved = true;
        }
        // A buffer in between is to hold nothing back.
        match output.poll_flush(cx) {
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(())) | Poll::Pending => Ok(moved),
        }
    }

    /// Reads a piece, and begins what is asked for. Whether anything came.
    fn read(&mut self, cx: &mut Context<'_>, input: Pin<&mut impl AsyncRead>) -> io::Result<bool> {
        let mut moved = false;
        while self.has_room()
            && let Some((id, error)) = self.held.pop_front()
        {
            self.say_no(id.as_ref(), error);
            moved = true;
        }
        while self.is_ready()
            && let Some(line) = self.lines.next_line()
        {
            moved = true;
            self.take(line);
        }
        // Of what cannot be taken yet some is read all the same, so that the end is heard.
        if !self.held.is_empty() || self.over.is_some() || !self.is_ready() && self.lines.held() >= WAITING {
            return Ok(moved);
        }
        let mut piece = [0; 8192];
        let mut piece = ReadBuf::new(&mut piece);
        match input.poll_read(cx, &mut piece) {
            Poll::Pending => return Ok(moved),
            Poll::Ready(Err(error)) => return Err(error),
            Poll::Ready(Ok(())) if piece.filled().is_empty() => {
                self.lines.end();
                self.over = Some(self.runtime.now() + LAST_ANSWERS);
            }
            Poll::Ready(Ok(())) => self.lines.push(piece.filled()),
        }
        Ok(true)
    }

    /// Whether the next line can be taken.
    fn is_ready(&self) -> bool {
        self.held.is_empty() && !matches!(self.session, Of::Beginning(..))
    }

    fn take(&mut self, line: Line) {
        let line = match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => return,
            Line::Whole(line) => line,
            Line::TooLong => {
                let message = format!("the line is longer than {MAX_LINE} bytes");
                return self.refuse(None, RpcError::new(code::INVALID_REQUEST, message));
            }
        };
        match request::accept_line(&line, &self.handler.offers()) {
            Verdict::Call(call) => {
                if self.may_begin(&call.id) {
                    self.begin(call);
                }
            }
            Verdict::Notification { method, params } => {
                self.take_notification(&method, params.as_deref());
            }
            Verdict::Legacy(Legacy::Initialize(initialize)) => self.initialize(initialize),
            Verdict::Legacy(Legacy::Message(incoming)) => self.take_incoming(incoming),
            Verdict::Legacy(Legacy::Batch(messages)) => {
                if !self.session.session().is_some_and(|session| session.revision().has_batches()) {
                    let message = "a line has one message, which is an object: there are no batches";
                    return self.refuse(None, RpcError::new(code::INVALID_REQUEST, message));
                }
                for message in messages {
                    match message {
                        Ok(incoming) => self.take_incoming(incoming),
                        Err(malformed) if malformed.answerable => self.refuse(malformed.id, malformed.error),
                        Err(_) => {}
                    }
                }
            }
            Verdict::Refused(refusal) => {
                let Refusal { id, error, answerable, .. } = *refusal;
                if answerable {
                    self.refuse(id, error);
                }
            }
        }
    }

    /// Whether a call of that id may begin; where it may not, its client is told.
    fn may_begin(&mut self, id: &Id) -> bool {
        if self.calls.iter_mut().any(|one| one.running().id() == id) {
            let message = NotBegun::InUse(id.clone()).to_string();
            self.refuse(None, RpcError::new(code::INVALID_REQUEST, message));
            return false;
        }
        if self.calls.len() >= MAX_CALLS {
            let message = NotBegun::TooMany.to_string();
            self.refuse(Some(id.clone()), RpcError::new(code::INVALID_REQUEST, message));
            return false;
        }
        true
    }

    fn begin(&mut self, call: Box<Call>) {
        let (handler, context) = (Arc::clone(&self.handler), self.context.clone());
        let (id, token) = (call.id.clone(), call.meta.progress_token.clone());
        let reply = Box::pin(async move { handler.call(context, &call).await });
        let running = Running::new(id, token, Framing::Lines, Arc::clone(&self.runtime), reply);
        self.calls.push(One::Alone(running));
    }

    fn initialize(&mut self, initialize: Initialize) {
        if !matches!(self.session, Of::None) {
            let error = RpcError::new(code::INVALID_REQUEST, "the session has begun already");
            return self.refuse(Some(initialize.id), error);
        }
        let (handler, runtime) = (Arc::clone(&self.handler), Arc::clone(&self.runtime));
        let (id, context) = (initialize.id.clone(), self.context.clone());
        self.session = Of::Beginning(id, Box::pin(Session::begin(handler, runtime, context, initialize)));
    }

    fn take_notification(&mut self, method: &str, params: Option<&RawValue>) {
        if method == "notifications/cancelled"
            && let Some(id) = cancelled(params)
        {
            // A call that was cancelled is not answered. One that is not there may have been answered just now.
            self.calls.retain_mut(|one| *one.running().id() != id);
        }
    }

    fn take_incoming(&mut self, incoming: Incoming) {
        match (incoming, self.session.session().map(Arc::clone)) {
            (Incoming::Notification { method, params }, _) => {
                self.take_notification(&method, params.as_deref());
            }
            (Incoming::Request(Request { id, .. }), None) => {
                self.refuse(Some(id.clone()), without_session(Some(id)).error);
            }
            (Incoming::Request(request), Some(session)) => {
                let id = request.id.clone();
                if !self.may_begin(&id) {
                    return;
                }
                match session.start(self.context.clone(), request, Framing::Lines) {
                    Ok(started) => self.calls.push(One::OfSession(started)),
                    Err(error) => self.refuse(Some(id), error),
                }
            }
            (answer @ Incoming::Response { .. }, Some(session)) => session.handle_told(answer),
            (Incoming::Response { .. }, None) => {}
        }
    }

    /// Says no, at once or when there is room for it.
    fn refuse(&mut self, id: Option<Id>, error: RpcError) {
        if self.has_room() && self.held.is_empty() {
            self.say_no(id.as_ref(), error);
        } else {
            self.held.push_back((id, error));
        }
    }

    fn has_room(&self) -> bool {
        self.out.len() < WAITING + REFUSALS
    }

    fn say_no(&mut self, id: Option<&Id>, error: RpcError) {
        Framing::Lines.write(&message::answer(id, &Err(error)), &mut self.out);
    }

    /// Carries the session and the calls on, each in turn. Whether any of them moved.
    fn carry_on(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = self.carry_session_on(cx);
        let Self { calls, out, .. } = self;
        calls.retain_mut(|one| {
            if out.len() >= WAITING {
                return true;
            }
            // One message at the most.
            match one.running().poll(cx, out) {
                Poll::Pending => true,
                Poll::Ready(flow) => {
                    moved = true;
                    flow == Flow::More
                }
            }
        });
        // Whoever comes late in the list is early in the next round.
        if moved && calls.len() > 1 {
            calls.rotate_left(1);
        }
        moved
    }

    fn carry_session_on(&mut self, cx: &mut Context<'_>) -> bool {
        match &mut self.session {
            Of::None => false,
            Of::Beginning(id, beginning) => {
                let Poll::Ready(begun) = beginning.as_mut().poll(cx) else { return false };
                let (session, outcome) = match begun {
                    Ok((session, result)) => (Some(session), Ok(result)),
                    Err(error) => (None, Err(error)),
                };
                Framing::Lines.write(&message::answer(Some(id), &outcome), &mut self.out);
                self.session = session.map_or(Of::None, |session| opening(session, &self.context));
                true
            }
            Of::Opening(session, opening) => {
                let Poll::Ready(stream) = opening.as_mut().poll(cx) else { return false };
                let session = Arc::clone(session);
                self.session = match stream {
                    Some(stream) => Of::Open(session, stream),
                    None => Of::Waiting(session, self.runtime.now() + OPEN_AGAIN, Deadline::default()),
                };
                true
            }
            Of::Waiting(session, until, deadline) => {
                if deadline.poll(&*self.runtime, Some(*until), cx).is_pending() {
                    return false;
                }
                self.session = opening(Arc::clone(session), &self.context);
                true
            }
            Of::Open(session, stream) => {
                // Nothing is told to a client that does not read: it is told what changed last once it does.
                if self.out.len() >= WAITING {
                    return false;
                }
                let polled = stream.poll(cx, &mut self.out);
                if polled == Poll::Ready(Flow::Last) {
                    // This client has no other way to open the next one.
                    self.session = opening(Arc::clone(session), &self.context);
                }
                polled.is_ready()
            }
        }
    }
}
