//! MCP over lines: one message each, as a process's standard input and output carry them.
//!
//! One task reads, answers and writes. It reads no further call while [`MAX_CALLS`] are being answered, and carries no call
//! on while what was written waits to be taken: a client that does not read slows its commands, and nothing piles up.

use super::{Answer, From, Handler, Reply, TURN, answering};
use crate::{plane::tokens::Caller, sse::Flow};
use bytes::{Buf, BytesMut};
use hangar_backends::{
    Runtime,
    runtime::{BoxFuture, Deadline},
};
use hangar_core::{
    Time,
    wire::mcp::{
        message::{self, Id, RpcError, code},
        request::{self, Call, Verdict},
        response::{Answering, Framing},
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
const MAX_CALLS: usize = 64;

/// Bytes that wait to be written before calls are carried on.
const WAITING: usize = 64 * 1024;

/// Once its input has ended a client is gone, or has said all that it has to say: what is nearly done is answered.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Answers what comes on `input` until that ends, with `caller`'s rights. Calls that are not answered then are cancelled.
pub async fn serve(
    handler: Arc<dyn Handler>,
    caller: Caller,
    runtime: Arc<dyn Runtime>,
    mut input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut session = Session {
        handler,
        caller,
        runtime,
        lines: Lines::default(),
        calls: Vec::new(),
        out: BytesMut::new(),
        over: None,
        last: Deadline::default(),
    };
    std::future::poll_fn(|cx| session.poll(cx, Pin::new(&mut input), Pin::new(&mut output))).await
}

struct Session {
    handler: Arc<dyn Handler>,
    caller: Caller,
    runtime: Arc<dyn Runtime>,
    lines: Lines,
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
    Asked(BoxFuture<'static, Reply>, Box<Answering>),
    Working(Box<Answer>),
    Answered,
}

/// Input on its way to lines.
#[derive(Default)]
struct Lines {
    read: BytesMut,
    /// How much of it has no line end in it.
    looked: usize,
    /// A line that is too long is passed over.
    skipping: bool,
}

/// What [`Lines`] gives.
enum Line {
    Whole(BytesMut),
    TooLong,
}

impl Session {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut input: Pin<&mut impl AsyncRead>,
        mut output: Pin<&mut impl AsyncWrite>,
    ) -> Poll<io::Result<()>> {
        for _ in 0..TURN {
            let mut moved = self.write(cx, output.as_mut())?;
            moved |= self.read(cx, input.as_mut())?;
            moved |= self.carry_on(cx);
            if moved {
                continue;
            }
            let Some(over) = self.over else { return Poll::Pending };
            let written = self.out.is_empty();
            if written && self.calls.is_empty() || self.last.poll(&*self.runtime, Some(over), cx).is_ready() {
                return output.poll_flush(cx);
            }
            return Poll::Pending;
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

    /// Reads, and begins what is asked for. Whether anything came.
    fn read(&mut self, cx: &mut Context<'_>, mut input: Pin<&mut impl AsyncRead>) -> io::Result<bool> {
        let mut moved = false;
        loop {
            if self.calls.len() >= MAX_CALLS || self.out.len() >= WAITING {
                return Ok(moved);
            }
            while let Some(line) = self.lines.next() {
                moved = true;
                self.take(line);
                if self.calls.len() >= MAX_CALLS || self.out.len() >= WAITING {
                    return Ok(moved);
                }
            }
            if self.over.is_some() {
                return Ok(moved);
            }
            let mut piece = [0; 8192];
            let mut piece = ReadBuf::new(&mut piece);
            match input.as_mut().poll_read(cx, &mut piece) {
                Poll::Pending => return Ok(moved),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Ready(Ok(())) if piece.filled().is_empty() => {
                    self.lines.end();
                    self.over = Some(self.runtime.now() + LAST_ANSWERS);
                }
                Poll::Ready(Ok(())) => self.lines.push(piece.filled()),
            }
            moved = true;
        }
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
            Verdict::Call(call) => self.begin(*call),
            Verdict::Notification { method, params } => {
                if method == "notifications/cancelled" {
                    self.cancel(params.as_deref());
                }
            }
            Verdict::Refused(refusal) => self.refuse(refusal.id.as_ref(), refusal.error),
        }
    }

    fn begin(&mut self, call: Call) {
        let id = call.id.clone();
        let answering = Box::new(answering(&call, Framing::Lines, &*self.runtime));
        let from = From { caller: self.caller.clone(), connection: None };
        let handler = Arc::clone(&self.handler);
        let asked = Box::pin(async move { handler.call(from, call).await });
        self.calls.push(Running { id, state: State::Asked(asked, answering) });
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

    fn refuse(&mut self, id: Option<&Id>, error: RpcError) {
        self.out.extend_from_slice(message::answer(id, &Err(error)).as_bytes());
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
            Self::Asked(mut asked, mut answering) => match asked.as_mut().poll(cx) {
                Poll::Pending => (Self::Asked(asked, answering), false),
                Poll::Ready(Reply::Now(outcome)) => {
                    answering.answer(&outcome, out);
                    (Self::Answered, true)
                }
                Poll::Ready(Reply::Later(work)) => {
                    let answer = Answer::new(*answering, work, Arc::clone(runtime));
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

impl Lines {
    fn push(&mut self, bytes: &[u8]) {
        self.read.extend_from_slice(bytes);
    }

    /// What has no line end is a line, too.
    fn end(&mut self) {
        if !self.read.is_empty() || self.skipping {
            self.push(b"\n");
        }
    }

    fn next(&mut self) -> Option<Line> {
        loop {
            let end =
                self.read[self.looked..].iter().position(|byte| *byte == b'\n').map(|at| self.looked + at);
            let Some(end) = end else {
                self.looked = self.read.len();
                if self.read.len() > MAX_LINE {
                    self.read.clear();
                    self.looked = 0;
                    if !std::mem::replace(&mut self.skipping, true) {
                        return Some(Line::TooLong);
                    }
                }
                return None;
            };
            let mut line = self.read.split_to(end + 1);
            line.truncate(end);
            self.looked = 0;
            match std::mem::replace(&mut self.skipping, false) {
                true => {}
                false if line.len() > MAX_LINE => return Some(Line::TooLong),
                false => return Some(Line::Whole(line)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<Option<usize>> {
        let mut lines = Lines::default();
        let mut all = Vec::new();
        let mut take = |lines: &mut Lines| {
            while let Some(line) = lines.next() {
                all.push(match line {
                    Line::Whole(line) => Some(line.len()),
                    Line::TooLong => None,
                });
            }
        };
        for piece in pieces {
            lines.push(piece);
            take(&mut lines);
        }
        lines.end();
        take(&mut lines);
        all
    }

    #[test]
    fn lines_end_where_they_do_and_the_last_at_the_end() {
        assert_eq!(lines(&[b"a\nbc\n\n", b"d", b"ef"]), [Some(1), Some(2), Some(0), Some(3)]);
        assert_eq!(lines(&[]), [] as [Option<usize>; 0]);
    }

    #[test]
    fn a_line_that_is_too_long_is_told_once_and_passed_over() {
        let long = vec![b'x'; MAX_LINE];
        assert_eq!(lines(&[&long, b"\nb\n"]), [Some(MAX_LINE), Some(1)]);
        assert_eq!(lines(&[&long, b"x\nb\n"]), [None, Some(1)]);
        assert_eq!(lines(&[&long, b"x", &long, &long, b"x\nb"]), [None, Some(1)]);
        assert_eq!(lines(&[&[&long[..], b"x\nb"].concat()]), [None, Some(1)]);
        assert_eq!(lines(&[&long, &long]), [None]);
    }
}
