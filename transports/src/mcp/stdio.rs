//! MCP over lines: one message each, as a process's standard input and output carry them.
//!
//! One task reads, answers and writes. Calls are carried on only while little waits to be written, so that a client that does
//! not read slows its commands and nothing piles up. Input is read all the same: what cancels a call, and its end, are
//! heard whatever waits.

use super::{Answer, Handler, Reply, RequestContext, TURN};
use crate::{plane::tokens::Caller, sse::Flow};
use bytes::{Buf, BytesMut};
use hangar_backends::{
    Runtime,
    runtime::{BoxFuture, Deadline},
};
use hangar_core::{
    Time,
    wire::mcp::{
        lines::{Line, Lines},
        message::{self, Id, RpcError, code},
        request::{self, Call, Refusal, Verdict},
        response::Framing,
    },
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The longest line that is taken, as long as a body over HTTP.
const MAX_LINE: usize = 1024 * 1024;

/// Calls that are answered at once.
pub const MAX_CALLS: usize = 64;

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
    let mut session = Session {
        handler,
        context: RequestContext { caller, connection: None },
        runtime,
        lines: Lines::new(MAX_LINE),
        held: None,
        calls: Vec::new(),
        out: BytesMut::new(),
        over: None,
        last: Deadline::default(),
    };
    std::future::poll_fn(|cx| session.poll(cx, Pin::new(&mut input), Pin::new(&mut output))).await
}

struct Session {
    handler: Arc<dyn Handler>,
    context: RequestContext,
    runtime: Arc<dyn Runtime>,
    lines: Lines,
    /// What is to be refused once that can be written: nothing is read meanwhile.
    held: Option<(Option<Id>, RpcError)>,
    calls: Vec<Running>,
    /// What waits to be written.
    out: BytesMut,
    /// When the rest is given up: the input has ended.
    over: Option<Time>,
    last: Deadline,
}

/// A call that is being answered.
struct Running {
    id: Id,
    state: State,
}

enum State {
    Asked(BoxFuture<'static, Reply>, Arc<Call>),
    Working(Box<Answer>),
    Answered,
}

impl Session {
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
            if self.over.is_some() && self.calls.is_empty() && self.out.is_empty() && self.held.is_none() {
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
        if let Some((id, error)) = self.held.take() {
            self.refuse(id, error);
            moved = self.held.is_none();
        }
        while self.held.is_none()
            && let Some(line) = self.lines.next_line()
        {
            moved = true;
            self.take(line);
        }
        if self.held.is_some() || self.over.is_some() {
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
            Verdict::Call(call) if self.calls.iter().any(|running| running.id == call.id) => {
                let message = format!("id: the call {} is not answered yet", call.id);
                self.refuse(None, RpcError::new(code::INVALID_REQUEST, message));
            }
            Verdict::Call(call) if self.calls.len() >= MAX_CALLS => {
                let message = format!("{MAX_CALLS} calls are being answered; wait for one to end");
                self.refuse(Some(call.id), RpcError::new(code::INTERNAL, message));
            }
            Verdict::Call(call) => self.begin(call),
            Verdict::Notification { method, params } => {
                if method == "notifications/cancelled" {
                    self.cancel(params.as_deref());
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

    fn begin(&mut self, call: Box<Call>) {
        let (handler, context) = (Arc::clone(&self.handler), self.context.clone());
        let call: Arc<Call> = Arc::from(call);
        let asked = Arc::clone(&call);
        let asked = Box::pin(async move { handler.call(context, &asked).await });
        self.calls.push(Running { id: call.id.clone(), state: State::Asked(asked, call) });
    }

    /// A call that was cancelled is not answered. One that is not there may have been answered just now.
    fn cancel(&mut self, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled {
            request_id: Id,
        }
        let params = params.and_then(|params| serde_json::from_str::<Cancelled>(params.get()).ok());
        if let Some(Cancelled { request_id }) = params {
            self.calls.retain(|running| running.id != request_id);
        }
    }

    /// Says no, at once or when there is room for it.
    fn refuse(&mut self, id: Option<Id>, error: RpcError) {
        if self.out.len() >= WAITING + REFUSALS {
            self.held = Some((id, error));
            return;
        }
        self.out.extend_from_slice(message::answer(id.as_ref(), &Err(error)).as_bytes());
        self.out.extend_from_slice(b"\n");
    }

    /// Carries calls on, each in turn. Whether any of them moved.
    fn carry_on(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        let Self { calls, out, runtime, .. } = self;
        for running in calls.iter_mut() {
            if out.len() >= WAITING {
                break;
            }
            moved |= running.state.poll(cx, runtime, out);
        }
        calls.retain(|running| !matches!(running.state, State::Answered));
        // Whoever comes late in the list is early in the next round.
        if moved && calls.len() > 1 {
            calls.rotate_left(1);
        }
        moved
    }
}

impl State {
    /// One message at the most. Whether anything happened.
    fn poll(&mut self, cx: &mut Context<'_>, runtime: &Arc<dyn Runtime>, out: &mut BytesMut) -> bool {
        let (next, moved) = match std::mem::replace(self, Self::Answered) {
            Self::Answered => (Self::Answered, false),
            Self::Asked(mut asked, call) => match asked.as_mut().poll(cx) {
                Poll::Pending => (Self::Asked(asked, call), false),
                Poll::Ready(Reply::Now(outcome)) => {
                    out.extend_from_slice(message::answer(Some(&call.id), &outcome).as_bytes());
                    out.extend_from_slice(b"\n");
                    (Self::Answered, true)
                }
                Poll::Ready(Reply::Later(work)) => {
                    let answer = Answer::to(&call, Framing::Lines, work, Arc::clone(runtime));
                    (Self::Working(Box::new(answer)), true)
                }
            },
            Self::Working(mut answer) => match answer.poll(cx, out) {
                Poll::Pending => (Self::Working(answer), false),
                Poll::Ready(Flow::More) => (Self::Working(answer), true),
                Poll::Ready(Flow::Last) => (Self::Answered, true),
            },
        };
        *self = next;
        moved
    }
}
