//! The answers to the messages of one body, where it has several.

use super::call::CallBody;
use crate::sse::{Flow, Source};
use bytes::BytesMut;
use hangar_backends::Runtime;
use std::{
    sync::Arc,
    task::{Context, Poll},
};

/// The answers to several calls at once, as one stream.
pub struct BatchBody {
    /// What was known at once.
    said: BytesMut,
    calls: Vec<CallBody>,
    runtime: Arc<dyn Runtime>,
}

impl std::fmt::Debug for BatchBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchBody").field("calls", &self.calls).finish_non_exhaustive()
    }
}

impl BatchBody {
    pub(crate) const fn new(said: BytesMut, calls: Vec<CallBody>, runtime: Arc<dyn Runtime>) -> Self {
        Self { said, calls, runtime }
    }
}

impl Source for BatchBody {
    fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    fn poll_event(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<Flow> {
        let before = out.len();
        out.unsplit(self.said.split());
        let mut at = 0;
        while let Some(call) = self.calls.get_mut(at) {
            match call.poll_event(cx, out) {
                Poll::Ready(Flow::More) | Poll::Pending => at += 1,
                Poll::Ready(Flow::Last) => drop(self.calls.remove(at)),
            }
        }
        match (self.calls.is_empty(), out.len() > before) {
            (true, _) => Poll::Ready(Flow::Last),
            (false, true) => Poll::Ready(Flow::More),
            (false, false) => Poll::Pending,
        }
    }
}
