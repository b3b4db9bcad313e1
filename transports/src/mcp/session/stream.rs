//! The stream that tells a session's client what changes.

use super::{
    super::{Followed, RequestContext, following::Following},
    Session,
    table::Held,
};
use crate::{
    ApiError,
    plane::notices::{Notices, Purpose},
    sse::{Flow, Source},
};
use bytes::BytesMut;
use hangar_backends::{Runtime, runtime::Deadline};
use hangar_core::{
    Time,
    changes::{Changes, Output},
    wire::mcp::{
        listen::{List, Topic},
        message::{self, RpcError, code},
        response::Framing,
    },
};
use serde_json::{Map, Value};
use std::{
    sync::Arc,
    task::{Context, Poll},
};

/// What is told on a stream that is open.
pub(super) struct Telling {
    following: Following,
    changes: Changes<Topic>,
    notices: Option<Notices>,
}

impl Telling {
    fn new(notices: Option<Notices>, now: Time) -> Self {
        let max = super::MAX_RESOURCES + List::ALL.len();
        Self { following: Following::default(), changes: Changes::new(max, now), notices }
    }

    pub(super) fn follow(&mut self, topic: Topic, followed: Box<dyn Followed>) {
        self.changes.follow(topic.clone());
        self.following.insert(topic, followed);
    }

    /// Follows only those of what it does.
    fn keep(&mut self, which: impl Fn(&Topic) -> bool) {
        for topic in self.following.unfollow_unless(which) {
            self.changes.unfollow(&topic);
        }
    }

    /// Follows nothing any more.
    pub(super) fn unfollow_all(&mut self) {
        self.keep(|_| false);
    }

    pub(super) fn unfollow(&mut self, topic: &Topic) {
        self.changes.unfollow(topic);
        self.following.unfollow(topic);
    }
}

/// An open stream. Dropped, it is one whose client left: what changes then is told on the next one.
#[derive(Debug)]
pub struct Stream {
    session: Arc<Session>,
    number: u64,
    framing: Framing,
    deadline: Deadline,
}

impl Session {
    /// Opens the stream, which replaces the one before. It begins with what changed since that.
    pub async fn open_stream(
        self: &Arc<Self>,
        context: &RequestContext,
        framing: Framing,
    ) -> Result<Stream, ApiError> {
        let notices = self.handler.open(context, Purpose::Tells)?;
        let number = self.replace_stream();
        let (session, deadline) = (Arc::clone(self), Deadline::default());
        let stream = Stream { session, number, framing, deadline };
        let mut telling = Telling::new(notices, self.runtime.now());
        let mut never = Vec::new();
        // What is subscribed to meanwhile is followed before it begins.
        while let Some((topic, position)) = self.enter_unless_missing(number, &mut telling, &never) {
            match self.handler.follow(context, &topic, position).await {
                Ok(followed) => {
                    if position.is_none() {
                        // There is a place for each list.
                        self.lock().machine.follow(topic.clone(), followed.position()).ok();
                    }
                    telling.follow(topic, followed);
                }
                Err(error) if error.code != code::INVALID_PARAMS => return Err(no_place(error)),
                Err(_) if matches!(topic, Topic::List(_)) => never.push(topic),
                Err(_) => {
                    // It is not there any more, which the client learns when it reads it.
                    self.lock().machine.unfollow(&topic);
                    telling.changes.follow(topic.clone());
                    telling.changes.handle_change(&topic);
                }
            }
        }
        Ok(stream)
    }

    /// Ends the stream that is open; the number of the next one.
    fn replace_stream(&self) -> u64 {
        let mut state = self.lock();
        let number = state.machine.open_stream();
        // Its places are free for the next one.
        let telling = state.telling.take();
        state.wake_stream();
        drop(state);
        drop(telling);
        number
    }

    /// Something that is not followed yet, and how much of it the client knows; where there is nothing but those that `never`
    /// are, the stream begins.
    fn enter_unless_missing(
        &self,
        number: u64,
        telling: &mut Telling,
        never: &[Topic],
    ) -> Option<(Topic, Option<u64>)> {
        let mut state = self.lock();
        let is_missing = |topic: &Topic| !telling.following.contains(topic) && !never.contains(topic);
        let known = state.machine.topics().map(|(topic, at)| (topic.clone(), Some(at)));
        let lists = self.lists.iter().map(|list| (Topic::List(*list), None));
        if let Some(missing) = known.chain(lists).find(|(topic, _)| is_missing(topic)) {
            return Some(missing);
        }
        if state.machine.is_open(number) && !state.closed {
            // What was unsubscribed from meanwhile is not told.
            telling.keep(|topic| state.machine.follows(topic));
            let empty = Telling::new(None, self.runtime.now());
            state.telling = Some(std::mem::replace(telling, empty));
        }
        None
    }
}

/// Something cannot be followed now.
fn no_place(error: RpcError) -> ApiError {
    ApiError::new(hyper::StatusCode::TOO_MANY_REQUESTS, "too_many_streams", error.message)
}

impl Stream {
    /// Appends the next message to `out`, and says whether it goes on.
    pub fn poll(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<Flow> {
        loop {
            let now = self.session.runtime.now();
            let mut state = self.session.lock();
            if state.closed || !state.machine.is_open(self.number) {
                return Poll::Ready(Flow::Last);
            }
            if !state.stream.as_ref().is_some_and(|old| old.will_wake(cx.waker())) {
                state.stream = Some(cx.waker().clone());
            }
            let super::State { machine, telling, .. } = &mut *state;
            let Some(telling) = telling else { return Poll::Pending };
            if let Some(notices) = &mut telling.notices
                && let Poll::Ready(reason) = notices.poll_close(cx)
            {
                notices.ended(reason);
                return Poll::Ready(Flow::Last);
            }
            let Telling { following, changes, notices } = telling;
            following.poll_changed(cx, |topic| changes.handle_change(topic));
            match changes.poll_output(now) {
                Output::Changed(topic) => {
                    match following.told(&topic) {
                        Some(position) => machine.told(&topic, position),
                        // It is not there any more, and takes no place of another.
                        None => _ = changes.unfollow(&topic),
                    }
                    notices.iter_mut().for_each(Notices::told);
                    drop(state);
                    let (method, about) = topic.told();
                    let params: Map<String, Value> =
                        about.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
                    self.framing.write(&message::notification(method, &params.into()), out);
                    return Poll::Ready(Flow::More);
                }
                Output::Closed => return Poll::Ready(Flow::Last),
                Output::Wait(at) => {
                    drop(state);
                    if self.deadline.poll(&*self.session.runtime, at, cx).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut state = self.session.lock();
        if state.machine.close_stream(self.number) {
            let telling = state.telling.take();
            drop(state);
            drop(telling);
        }
    }
}

/// The same over HTTP.
pub struct StreamBody {
    stream: Stream,
    runtime: Arc<dyn Runtime>,
    /// Its session is in use.
    _session: Held,
}

impl std::fmt::Debug for StreamBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamBody").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl StreamBody {
    pub(crate) fn new(stream: Stream, session: Held) -> Self {
        Self { runtime: Arc::clone(&stream.session.runtime), stream, _session: session }
    }
}

impl Source for StreamBody {
    fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    fn poll_event(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<Flow> {
        self.stream.poll(cx, out)
    }
}
