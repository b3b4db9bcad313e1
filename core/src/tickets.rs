//! Rights that are used once, soon.

use crate::Time;
use std::{collections::BTreeMap, time::Duration};

/// Tickets by what stands for their secret: its hash, so that nothing here can be used.
#[derive(Debug)]
pub struct Tickets<K, T> {
    ttl: Duration,
    max: usize,
    by_key: BTreeMap<K, (Time, T)>,
}

impl<K: Clone + Ord, T> Tickets<K, T> {
    /// Each can be taken for `ttl`. Of more than `max` at once the oldest are dropped.
    pub const fn new(ttl: Duration, max: usize) -> Self {
        Self { ttl, max, by_key: BTreeMap::new() }
    }

    /// One more.
    pub fn issue(&mut self, key: K, value: T, now: Time) {
        self.purge(now);
        if self.by_key.len() >= self.max
            && let Some(oldest) = self.by_key.iter().min_by_key(|(_, (until, _))| *until)
        {
            let oldest = oldest.0.clone();
            self.by_key.remove(&oldest);
        }
        self.by_key.insert(key, (now + self.ttl, value));
    }

    /// What it is for, as long as it can be taken.
    pub fn peek(&self, key: &K, now: Time) -> Option<&T> {
        self.by_key.get(key).filter(|(until, _)| now < *until).map(|(_, value)| value)
    }

    /// What it was for, the first time that it is shown and in time.
    pub fn take(&mut self, key: &K, now: Time) -> Option<T> {
        let (until, value) = self.by_key.remove(key)?;
        (now < until).then_some(value)
    }

    /// Drops what is too late.
    pub fn purge(&mut self, now: Time) {
        self.by_key.retain(|_, (until, _)| now < *until);
    }

    /// How many can be taken, or are not dropped yet.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_taken_once_and_in_time() {
        let at = |seconds: u64| Time::from_nanos(seconds * 1_000_000_000);
        let mut tickets = Tickets::new(Duration::from_secs(60), 2);
        tickets.issue("a", 1, at(0));
        assert_eq!(
            (tickets.peek(&"a", at(59)), tickets.peek(&"a", at(60)), tickets.peek(&"b", at(0))),
            (Some(&1), None, None)
        );
        assert_eq!((tickets.take(&"a", at(59)), tickets.take(&"a", at(59))), (Some(1), None));
        tickets.issue("b", 2, at(1));
        assert_eq!(tickets.take(&"b", at(61)), None);
        for (key, time) in [("c", 100), ("d", 101), ("e", 102)] {
            tickets.issue(key, 3, at(time));
        }
        assert_eq!(
            (tickets.len(), tickets.take(&"c", at(103)), tickets.take(&"d", at(103))),
            (2, None, Some(3))
        );
        tickets.issue("f", 4, at(500));
        assert_eq!(tickets.len(), 1, "what is too late is not kept");
    }
}
