//! The body of a response: one piece, or a stream that pulls.

use crate::{
    mcp::{
        Answer,
        session::{batch::BatchBody, call::CallBody, stream::StreamBody},
    },
    plane::{exec::ExecStream, follow::FollowStream, watches::WatchStream},
    sse::EventBody,
};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

/// What is sent after a response's head.
#[derive(Debug)]
pub enum Body {
    /// All at once; None once it is sent.
    Full(Option<Bytes>),
    /// A command's stream.
    Exec(Box<EventBody<ExecStream>>),
    /// A background process that is followed.
    Follow(Box<EventBody<FollowStream>>),
    /// A directory that is watched.
    Watch(Box<EventBody<WatchStream>>),
    /// The answer to an MCP call.
    Mcp(Box<EventBody<Answer>>),
    /// The same of a session, where it goes on without its connection.
    McpCall(Box<EventBody<CallBody>>),
    /// Several of those.
    McpBatch(Box<EventBody<BatchBody>>),
    /// What a session's client is told of changes.
    McpStream(Box<EventBody<StreamBody>>),
}

impl Body {
    /// Nothing.
    pub const fn empty() -> Self {
        Self::Full(None)
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Full(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Exec(exec) => exec.poll(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
            Self::Follow(follow) => follow.poll(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
            Self::Watch(watch) => watch.poll(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
            Self::Mcp(answer) => answer.poll(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
            Self::McpCall(call) => call.poll(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
            Self::McpBatch(batch) => batch.poll(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
            Self::McpStream(stream) => stream.poll(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(bytes) => bytes.is_none(),
            Self::Exec(exec) => exec.is_ended(),
            Self::Follow(follow) => follow.is_ended(),
            Self::Watch(watch) => watch.is_ended(),
            Self::Mcp(answer) => answer.is_ended(),
            Self::McpCall(call) => call.is_ended(),
            Self::McpBatch(batch) => batch.is_ended(),
            Self::McpStream(stream) => stream.is_ended(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Exec(_)
            | Self::Follow(_)
            | Self::Watch(_)
            | Self::Mcp(_)
            | Self::McpCall(_)
            | Self::McpBatch(_)
            | Self::McpStream(_) => SizeHint::default(),
        }
    }
}
