//! What hangar's daemon is told of the output that is here: it keeps what is not acknowledged, and the process waits then.

use super::{
    lanes::{Retry, There},
    orders::acknowledge,
    rpc::CallError,
};
use crate::{Handle, runtime::BoxFuture};
use hangar_core::{
    Time,
    log::{Log, Retention},
    wire::connect::Code,
};
use std::{
    task::{Context, Poll},
    time::Duration,
};

/// Bytes of output that the daemon keeps for one process.
pub(super) const WINDOW: usize = 2 * 1024 * 1024;

/// What is worth a call once all of it is here: less is little to keep.
const LITTLE: u64 = 64 * 1024;

/// How often the daemon is told something while nothing is read of the stream: it takes a client for gone that says nothing
/// and has no stream, and that a stream was cut is not noticed before it is read.
const SIGN_OF_LIFE: Duration = Duration::from_secs(60);

/// How much of a process's output its daemon knows to be here.
#[derive(Default)]
pub(super) struct Receipts {
    acknowledged: Place,
    telling: Option<(Place, BoxFuture<'static, Result<(), CallError>>)>,
    retry: Retry,
    /// When it is told something, whatever is here; None while the stream is read.
    lives_at: Option<Time>,
    /// That it does not take it was said.
    said: bool,
}

/// Where in its output a process is.
#[derive(Clone, Copy, Default)]
struct Place {
    seq: u64,
    offset: u64,
}

impl Place {
    fn of(log: &Log) -> Self {
        Self { seq: log.newest_seq(), offset: log.end_offset() }
    }

    /// Whether there is so much before it that it is worth a call: a quarter of what the daemon keeps.
    fn is_far_from(self, before: Self) -> bool {
        let frames = Retention::Ring { bytes: WINDOW }.max_frames() as u64;
        self.offset - before.offset >= WINDOW as u64 / 4 || self.seq - before.seq >= frames / 4
    }
}

impl Receipts {
    /// When it is told next, if nothing comes before that.
    pub(super) fn wakes_at(&self) -> Option<Time> {
        self.retry.at().or(self.lives_at).filter(|_| self.telling.is_none())
    }

    /// Tells it, where that is worth a call. `is_paused`: nothing is read of the stream.
    pub(super) fn poll(
        &mut self,
        there: &There,
        handle: &Handle,
        is_paused: bool,
        now: Time,
        cx: &mut Context<'_>,
    ) {
        self.lives_at = is_paused.then(|| self.lives_at.unwrap_or(now + SIGN_OF_LIFE));
        loop {
            if self.telling.is_none() {
                let end = handle.look(|process| Place::of(process.log()));
                let is_due = end.is_far_from(self.acknowledged) || self.lives_at.is_some_and(|at| now >= at);
                if !is_due || !self.retry.is_due(now) {
                    return;
                }
                self.telling = Some((end, Box::pin(acknowledge(there.clone(), end.offset))));
            }
            let Some((end, telling)) = &mut self.telling else { return };
            let Poll::Ready(told) = telling.as_mut().poll(cx) else { return };
            let end = *end;
            self.telling = None;
            if let Err(error) = told
                && !is_gone(&error)
            {
                if !std::mem::replace(&mut self.said, true) {
                    let tag = &there.target.tag;
                    tracing::warn!(process.tag = tag, %error, "its daemon does not hear what is here of its output");
                }
                return self.retry.failed(now);
            }
            (self.acknowledged, self.retry, self.said) = (end, Retry::default(), false);
            self.lives_at = is_paused.then(|| now + SIGN_OF_LIFE);
        }
    }

    /// All of it is here. What is left to say of that, where it is worth a call.
    pub(super) fn last_word(
        &self,
        there: &There,
        handle: &Handle,
    ) -> Option<impl Future<Output = ()> + Send + use<>> {
        let end = handle.look(|process| process.log().end_offset());
        let there = there.clone();
        let told = async move {
            if let Err(error) = acknowledge(there, end).await {
                tracing::debug!(%error, "the end of an output was not acknowledged");
            }
        };
        (end - self.acknowledged.offset > LITTLE).then_some(told)
    }
}

/// Whether the daemon does not know the process any more: then it keeps nothing of it either.
fn is_gone(error: &CallError) -> bool {
    matches!(error, CallError::Refused(refused) if refused.code == Code::NotFound)
}
