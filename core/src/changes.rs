//! What changed, for a client that follows it: that something did, not what, and no more often than is of use.
//!
//! ```text
//!  follow ──► still ── change ──► due at once ── told ──► still, for INTERVAL at least
//!                                                          └── changes meanwhile ──► due once, when that is over
//! ```
//!
//! The client reads what is new when it is told, so changes that come together are told together. The last one is always
//! told, at the end too.

use crate::Time;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// A client is told of the same topic at most once in this time.
pub const INTERVAL: Duration = Duration::from_millis(250);

/// What a poll gives.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Output<T> {
    /// The client is to be told that this changed.
    Changed(T),
    /// Nothing more will come.
    Closed,
    /// Nothing before this time, or before the next input.
    Wait(Option<Time>),
}

/// A topic that is followed.
#[derive(Clone, Copy, Debug)]
struct Followed {
    /// It is not told before.
    not_before: Time,
    /// Since it was told last, or followed.
    changed: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Open,
    /// What is due is told now, however soon after the last time.
    Closing,
    Closed,
}

/// The topics that one client follows. See the [module](self).
#[derive(Clone, Debug)]
pub struct Changes<T> {
    max_topics: usize,
    topics: BTreeMap<T, Followed>,
    /// Those that changed, by when they may be told.
    due: BTreeSet<(Time, T)>,
    seen: Time,
    state: State,
}

impl<T: Clone + Ord> Changes<T> {
    /// Nothing is followed yet. At most `max_topics` will be.
    pub const fn new(max_topics: usize, now: Time) -> Self {
        Self { max_topics, topics: BTreeMap::new(), due: BTreeSet::new(), seen: now, state: State::Open }
    }

    /// Follows a topic from now on. False when as many are followed as may be; one that is followed already is
    /// followed on.
    pub fn follow(&mut self, topic: T) -> bool {
        if self.state != State::Open {
            return false;
        }
        let full = self.topics.len() >= self.max_topics;
        if full && !self.topics.contains_key(&topic) {
            return false;
        }
        self.topics.entry(topic).or_insert(Followed { not_before: Time::ZERO, changed: false });
        true
    }

    /// Follows it no longer: what is due of it is not told. False when it was not followed.
    pub fn unfollow(&mut self, topic: &T) -> bool {
        if self.state != State::Open {
            return false;
        }
        let Some((topic, followed)) = self.topics.remove_entry(topic) else { return false };
        if followed.changed {
            self.due.remove(&(followed.not_before, topic));
        }
        true
    }

    /// It changed. Passed over where it is not followed.
    pub fn handle_change(&mut self, topic: &T) {
        if self.state == State::Open
            && let Some(followed) = self.topics.get_mut(topic)
            && !followed.changed
        {
            followed.changed = true;
            self.due.insert((followed.not_before, topic.clone()));
        }
    }

    /// Follows nothing more: what is due is told, and then comes the end.
    pub fn close(&mut self) {
        if self.state == State::Open {
            self.state = State::Closing;
            self.topics = BTreeMap::new();
        }
    }

    /// What is to be told now.
    pub fn poll_output(&mut self, now: Time) -> Output<T> {
        self.seen = self.seen.max(now);
        match self.state {
            State::Closed => Output::Wait(None),
            State::Closing => {
                if let Some((_, topic)) = self.due.pop_first() {
                    return Output::Changed(topic);
                }
                self.state = State::Closed;
                Output::Closed
            }
            State::Open => match self.due.first().map(|(at, _)| *at) {
                Some(at) if at <= self.seen => self.tell(),
                at => Output::Wait(at),
            },
        }
    }

    /// Tells what has been due for the longest time.
    fn tell(&mut self) -> Output<T> {
        let Some((_, topic)) = self.due.pop_first() else { return Output::Wait(None) };
        let told = Followed { not_before: self.seen + INTERVAL, changed: false };
        self.topics.insert(topic.clone(), told);
        Output::Changed(topic)
    }

    /// How many topics are followed.
    pub fn len(&self) -> usize {
        self.topics.len()
    }

    /// Whether none is followed.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }
}
