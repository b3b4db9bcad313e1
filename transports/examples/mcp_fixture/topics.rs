//! What tools of the fixture change, for clients that are told so.

use hangar_core::wire::mcp::{listen::Topic, session::Position};
use hangar_transports::mcp::Followed;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// What was changed how often, and who waits for the next time.
#[derive(Clone, Default)]
pub(super) struct Topics(Arc<Mutex<BTreeMap<Topic, Changed>>>);

#[derive(Default)]
struct Changed {
    times: u64,
    waiting: Vec<Waker>,
}

impl Topics {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Topic, Changed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, topic: &Topic) {
        let mut topics = self.lock();
        let changed = topics.entry(topic.clone()).or_default();
        changed.times += 1;
        let waiting = std::mem::take(&mut changed.waiting);
        drop(topics);
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(super) fn follow(&self, topic: &Topic, since: Option<Position>) -> Box<dyn Followed> {
        let (topics, topic) = (self.clone(), topic.clone());
        let mut one = One { topics, topic, told: 0 };
        match since {
            Some(since) => one.told = since,
            None => one.told(),
        }
        Box::new(one)
    }
}

/// One of them, as a client follows it.
struct One {
    topics: Topics,
    topic: Topic,
    told: u64,
}

impl Followed for One {
    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut topics = self.topics.lock();
        let changed = topics.entry(self.topic.clone()).or_default();
        if changed.times != self.told {
            return Poll::Ready(());
        }
        if !changed.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            changed.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn told(&mut self) {
        self.told = self.topics.lock().get(&self.topic).map_or(0, |changed| changed.times);
    }

    fn position(&self) -> Position {
        self.told
    }
}
