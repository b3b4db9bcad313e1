//! MCP: calls to their answers, over whatever carries them.
//!
//! ```text
//!  rest::mcp (HTTP) ──┬── Call ──────────────────► Handler::call ──┬── Reply::Now: the answer
//!                     │                                ▲           └── Reply::Later: Work, polled for progress and then
//!  stdio    (lines) ──┴── Legacy ──► session::Session ─┘                the answer
//! ```
//!
//! * [`Handler`]: what answers calls. [`plane`] is hangar's own; another one, as that of the example `mcp_fixture`, is served
//!   the same.
//! * [`listen`]: the call whose answer tells what changes.
//! * [`session`]: clients of the revisions of 2025: their calls that outlive a connection, and the stream that tells them
//!   what changes.
//! * [`stdio`]: calls and answers as lines.

mod following;
pub mod listen;
pub mod plane;
mod resources;
mod running;
pub mod session;
pub mod stdio;
mod tools;

use crate::{
    ApiError,
    http::Connection,
    plane::{
        notices::{Notices, Purpose},
        tokens::Caller,
    },
    sse::{Flow, Source},
};
use bytes::BytesMut;
use hangar_backends::{
    Runtime,
    runtime::{BoxFuture, Deadline},
};
use hangar_core::{
    text::Text,
    wire::mcp::{
        listen::Topic,
        message::{Id, RpcError, code},
        request::{Call, Offers},
        response::{Answering, Framing, Progress},
        session::Position,
    },
};
use serde_json::{Map, Value, json};
use std::{
    borrow::Cow,
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

/// Steps of work in one turn of a task.
const TURN: usize = 64;

/// The answer to a call.
pub type Outcome = Result<Map<String, Value>, RpcError>;

/// What answers calls.
pub trait Handler: Send + Sync + 'static {
    /// The methods that it has.
    fn offers(&self) -> Offers<'_>;

    /// Answers a call of one of its methods. Dropped before it is ready, it is a call that was cancelled.
    fn call<'a>(&'a self, context: RequestContext, call: &'a Call) -> BoxFuture<'a, Reply>;

    /// Follows something that changes, from a position on or from now, for who is to be told that it did. What they may not
    /// see is not there: an error of the kind that [`not_found`] makes.
    fn follow<'a>(
        &'a self,
        context: &'a RequestContext,
        topic: &'a Topic,
        since: Option<Position>,
    ) -> BoxFuture<'a, Result<Box<dyn Followed>, RpcError>>;

    /// Opens the stream on which they are told, where those are counted.
    fn open(&self, context: &RequestContext, purpose: Purpose) -> Result<Option<Notices>, ApiError>;
}

/// Something that changes, for as long as it is followed.
pub trait Followed: Send {
    /// Ready while there is something that the client was not told of.
    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// The client is told of all that there is.
    fn told(&mut self);

    /// How much it was told of.
    fn position(&self) -> Position;

    /// The client does not want to be told any more: nothing is kept for when it comes back.
    fn unfollow(&mut self) {}
}

/// The plane does not do that now.
fn refused(error: &ApiError) -> RpcError {
    let mut rpc =
        RpcError::new(code::INVALID_REQUEST, error.to_string()).with(json!({ "code": error.code() }));
    rpc.http_status = Some(error.status().as_u16());
    rpc
}

/// There is no such resource, as far as the caller may know.
pub fn not_found(uri: &str) -> RpcError {
    let error = RpcError::invalid_params(format!("params.uri: there is no resource {uri}"));
    error.with(json!({ "uri": uri }))
}

/// Who calls, and by what.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// Who.
    pub caller: Caller,
    /// The connection that carries the answer, where there is one.
    pub connection: Option<Arc<Connection>>,
}

/// An answer, or the work that it takes.
pub enum Reply {
    /// The answer.
    Now(Outcome),
    /// It takes a while.
    Later(Box<dyn Work>),
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(outcome) => f.debug_tuple("Now").field(outcome).finish(),
            Self::Later(_) => f.write_str("Later(..)"),
        }
    }
}

/// Work that an answer takes. Dropped before [`Step::Done`], it is a call that was cancelled.
pub trait Work: Send {
    /// What comes next.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Step>;

    /// Whether a silence of it is filled with signs of life; not where it passes on those of another.
    fn beats(&self) -> bool {
        true
    }
}

/// What comes of work.
#[derive(Debug)]
pub enum Step {
    /// Output, to be shown as text.
    Output(Text),
    /// Output, to be shown as base64.
    Base64(Text),
    /// How far it has come.
    Progress(Progress),
    /// Something else about it.
    Notification {
        /// What it tells.
        method: Cow<'static, str>,
        /// More about that.
        params: Value,
    },
    /// What it asks the client.
    Question {
        /// What the answer will name.
        id: u64,
        /// What for.
        method: String,
        /// How.
        params: Value,
    },
    /// The answer: nothing follows.
    Done(Outcome),
}

/// Work on its way to whoever called, as the messages of one answer.
pub struct Answer {
    work: Box<dyn Work>,
    answering: Answering,
    runtime: Arc<dyn Runtime>,
    heartbeat: Deadline,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("answering", &self.answering).finish_non_exhaustive()
    }
}

impl Answer {
    /// The answer to the call of that id, for which `work` is done; it wants progress as `token`, if it does.
    pub fn to(
        id: Id,
        token: Option<Id>,
        framing: Framing,
        work: Box<dyn Work>,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        let answering = Answering::new(id, token.as_ref(), framing, runtime.now());
        Self { work, answering, runtime, heartbeat: Deadline::default() }
    }

    /// Appends the next message to `out`, and says whether it is the last.
    pub fn poll(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<Flow> {
        // Of work that nobody is told of there may be no end: others have their turn in between.
        for _ in 0..TURN {
            let step = self.work.poll(cx);
            let now = self.runtime.now();
            let answering = &mut self.answering;
            let written = match step {
                Poll::Ready(Step::Output(text)) => answering.output(&text, now, out),
                Poll::Ready(Step::Base64(text)) => answering.output_base64(&text, now, out),
                Poll::Ready(Step::Progress(progress)) => answering.progress(&progress, now, out),
                Poll::Ready(Step::Notification { method, params }) => {
                    answering.notification(&method, &params, now, out)
                }
                Poll::Ready(Step::Question { id, method, params }) => {
                    answering.question(id, &method, &params, now, out)
                }
                Poll::Ready(Step::Done(outcome)) => {
                    answering.answer(&outcome, out);
                    return Poll::Ready(Flow::Last);
                }
                Poll::Pending => {
                    let at = answering.heartbeat_at().filter(|_| self.work.beats());
                    if self.heartbeat.poll(&*self.runtime, at, cx).is_pending() {
                        return Poll::Pending;
                    }
                    answering.heartbeat(self.runtime.now(), out)
                }
            };
            if written {
                return Poll::Ready(Flow::More);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// As the body of a response: events.
impl Source for Answer {
    fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    fn poll_event(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<Flow> {
        self.poll(cx, out)
    }
}
