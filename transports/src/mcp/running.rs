//! A call on its way to its answer: asked, then worked for where that takes a while.

use super::{Answer, Outcome, Reply};
use crate::sse::Flow;
use bytes::BytesMut;
use hangar_backends::{Runtime, runtime::BoxFuture};
use hangar_core::wire::mcp::{
    message::{self, Id},
    response::Framing,
};
use std::{
    sync::Arc,
    task::{Context, Poll},
};

/// A call that is being answered. Dropped before it is, it is cancelled.
pub(super) struct Running {
    id: Id,
    token: Option<Id>,
    framing: Framing,
    runtime: Arc<dyn Runtime>,
    state: State,
}

enum State {
    Asked(BoxFuture<'static, Reply>),
    Working(Box<Answer>),
    Answered,
}

impl Running {
    /// A call of that id, which wants progress as `token` if it does, and what comes of it.
    pub(super) fn new(
        id: Id,
        token: Option<Id>,
        framing: Framing,
        runtime: Arc<dyn Runtime>,
        reply: BoxFuture<'static, Reply>,
    ) -> Self {
        Self { id, token, framing, runtime, state: State::Asked(reply) }
    }

    /// The id that its client gave it.
    pub(super) const fn id(&self) -> &Id {
        &self.id
    }

    /// Ready once it is known whether it is answered at once: with the outcome where it is, without where it takes a while,
    /// or was answered before.
    pub(super) fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outcome>> {
        let State::Asked(reply) = &mut self.state else { return Poll::Ready(None) };
        match reply.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Reply::Now(outcome)) => {
                self.state = State::Answered;
                Poll::Ready(Some(outcome))
            }
            Poll::Ready(Reply::Later(work)) => {
                let (id, token, runtime) = (self.id.clone(), self.token.take(), Arc::clone(&self.runtime));
                self.state = State::Working(Box::new(Answer::to(id, token, self.framing, work, runtime)));
                Poll::Ready(None)
            }
        }
    }

    /// Appends the next message to `out`, and says whether it is the last.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<Flow> {
        if let State::Asked(_) = self.state {
            match self.poll_reply(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => {}
                Poll::Ready(Some(outcome)) => {
                    self.framing.write(&message::answer(Some(&self.id), &outcome), out);
                    return Poll::Ready(Flow::Last);
                }
            }
        }
        let State::Working(answer) = &mut self.state else { return Poll::Ready(Flow::Last) };
        let flow = answer.poll(cx, out);
        if flow == Poll::Ready(Flow::Last) {
            // What it held is let go of before its client reads the end.
            self.state = State::Answered;
        }
        flow
    }
}
