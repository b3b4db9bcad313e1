//! The body of an answer: one piece, or a stream that pulls.

use super::{files::FileBody, stream::ProcessStream, watch::WatchStream};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

/// What is sent after an answer's head.
#[derive(Debug)]
pub enum Body {
    /// All at once; None once it is sent.
    Full(Option<Bytes>),
    /// A process that is followed.
    Process(Box<ProcessStream>),
    /// A directory that is watched.
    Watch(Box<WatchStream>),
    /// A file.
    File(Box<FileBody>),
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
        let bytes = match &mut *self {
            Self::Full(bytes) => Poll::Ready(bytes.take()),
            Self::Process(stream) => stream.poll(cx),
            Self::Watch(stream) => stream.poll(cx),
            Self::File(file) => file.poll(cx),
        };
        bytes.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(bytes) => bytes.is_none(),
            Self::Process(stream) => stream.is_ended(),
            Self::Watch(stream) => stream.is_ended(),
            Self::File(file) => file.left() == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Process(_) | Self::Watch(_) => SizeHint::default(),
            Self::File(file) => file.left().map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}
