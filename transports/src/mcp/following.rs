//! What one client follows: by the answer to its call, or on the stream of its session.
//!
//! What changed and was not told yet is not looked at again: however fast something changes, it costs what telling costs.

use super::Followed;
use hangar_core::wire::mcp::listen::Topic;
use std::{collections::BTreeMap, task::Context};

/// What is followed, and what of it is due to be told.
#[derive(Default)]
pub(super) struct Following {
    topics: BTreeMap<Topic, One>,
}

struct One {
    followed: Box<dyn Followed>,
    /// It changed, and this is not told yet.
    due: bool,
}

impl Following {
    pub(super) fn insert(&mut self, topic: Topic, followed: Box<dyn Followed>) {
        self.topics.insert(topic, One { followed, due: false });
    }

    pub(super) fn contains(&self, topic: &Topic) -> bool {
        self.topics.contains_key(topic)
    }

    /// Follows only those that `which` says; the others.
    pub(super) fn unfollow_unless(&mut self, which: impl Fn(&Topic) -> bool) -> Vec<Topic> {
        let unfollowed = |(topic, mut one): (Topic, One)| {
            one.followed.unfollow();
            topic
        };
        self.topics.extract_if(.., |topic, _| !which(topic)).map(unfollowed).collect()
    }

    pub(super) fn unfollow(&mut self, topic: &Topic) {
        if let Some(mut one) = self.topics.remove(topic) {
            one.followed.unfollow();
        }
    }

    /// The topics that changed since they were told, each once.
    pub(super) fn poll_changed(&mut self, cx: &mut Context<'_>, mut changed: impl FnMut(&Topic)) {
        for (topic, one) in self.topics.iter_mut().filter(|(_, one)| !one.due) {
            if one.followed.poll_changed(cx).is_ready() {
                one.due = true;
                changed(topic);
            }
        }
    }

    /// The client is told; where that was.
    pub(super) fn told(&mut self, topic: &Topic) -> Option<u64> {
        let one = self.topics.get_mut(topic)?;
        one.due = false;
        one.followed.told();
        Some(one.followed.position())
    }
}
