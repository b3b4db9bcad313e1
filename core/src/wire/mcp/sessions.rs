//! Sessions by their ids: whose they are, how many there may be, and for how long nobody has to use one.
//!
//! Clients rarely say that they are done with a session, so one that nobody uses ends: after a while, or when its place is
//! needed.

use crate::Time;
use std::{collections::BTreeMap, time::Duration};

/// What is kept at the most.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// Sessions of one owner.
    pub max_per_owner: usize,
    /// Sessions in all.
    pub max_total: usize,
    /// How long one is kept that nobody uses.
    pub idle: Duration,
}

/// All places are taken by sessions that are in use.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("as many sessions are in use as may be; end one of them, or wait for one to end")]
pub struct InUse;

#[derive(Debug)]
struct Entry<T> {
    owner: String,
    value: T,
    /// How many use it.
    users: usize,
    /// Since nobody does, where nobody does.
    idle_since: Time,
}

impl<T> Entry<T> {
    /// Whether nobody has used it for too long.
    fn is_over(&self, idle: Duration, now: Time) -> bool {
        self.users == 0 && now >= self.idle_since + idle
    }
}

/// A table of sessions; `T` is what the shell knows of each.
#[derive(Debug)]
pub struct Sessions<T> {
    config: Config,
    by_id: BTreeMap<String, Entry<T>>,
}

impl<T: Clone> Sessions<T> {
    /// An empty table.
    pub const fn new(config: Config) -> Self {
        Self { config, by_id: BTreeMap::new() }
    }

    /// One more, which is in use. Where there is no place, that of the owner's that was idle for the longest time is taken,
    /// or of all; who loses it is given back.
    pub fn open(&mut self, id: String, owner: &str, value: T, now: Time) -> Result<Option<T>, InUse> {
        let of_owner = self.by_id.values().filter(|entry| entry.owner == owner).count();
        let evicted = if of_owner >= self.config.max_per_owner {
            Some(self.idle_longest(|entry| entry.owner == owner).ok_or(InUse)?)
        } else if self.by_id.len() >= self.config.max_total {
            Some(self.idle_longest(|_| true).ok_or(InUse)?)
        } else {
            None
        };
        let evicted = evicted.and_then(|id| self.by_id.remove(&id));
        self.by_id.insert(id, Entry { owner: owner.to_owned(), value, users: 1, idle_since: now });
        Ok(evicted.map(|entry| entry.value))
    }

    fn idle_longest(&self, which: impl Fn(&Entry<T>) -> bool) -> Option<String> {
        let idle = self.by_id.iter().filter(|(_, entry)| entry.users == 0 && which(entry));
        idle.min_by_key(|(_, entry)| entry.idle_since).map(|(id, _)| id.clone())
    }

    /// The owner's session of this id, which is used from now on, until it is [released](Self::release).
    pub fn hold(&mut self, owner: &str, id: &str, now: Time) -> Option<T> {
        let idle = self.config.idle;
        let entry =
            self.by_id.get_mut(id).filter(|entry| entry.owner == owner && !entry.is_over(idle, now))?;
        entry.users += 1;
        Some(entry.value.clone())
    }

    /// One of those who use it does no longer.
    pub fn release(&mut self, id: &str, now: Time) {
        if let Some(entry) = self.by_id.get_mut(id) {
            entry.users = entry.users.saturating_sub(1);
            entry.idle_since = entry.idle_since.max(now);
        }
    }

    /// Ends the owner's session of this id.
    pub fn close(&mut self, owner: &str, id: &str, now: Time) -> Option<T> {
        let idle = self.config.idle;
        self.by_id.get(id).filter(|entry| entry.owner == owner && !entry.is_over(idle, now))?;
        self.by_id.remove(id).map(|entry| entry.value)
    }

    /// Ends those of the owners that `which` picks.
    pub fn close_of(&mut self, which: impl Fn(&str) -> bool) -> Vec<T> {
        self.extract(|entry| which(&entry.owner))
    }

    /// Ends those that nobody has used for too long.
    pub fn expire(&mut self, now: Time) -> Vec<T> {
        let idle = self.config.idle;
        self.extract(|entry| entry.is_over(idle, now))
    }

    fn extract(&mut self, which: impl Fn(&Entry<T>) -> bool) -> Vec<T> {
        let picked = self.by_id.extract_if(.., |_, entry| which(entry));
        picked.map(|(_, entry)| entry.value).collect()
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.by_id.values().map(|entry| &entry.value)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: Config = Config { max_per_owner: 2, max_total: 3, idle: Duration::from_secs(60) };

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    /// Sessions that nobody uses since their times.
    fn idle(sessions: &[(&'static str, &str, u64)]) -> Sessions<&'static str> {
        let mut table = Sessions::new(CONFIG);
        for &(id, owner, since) in sessions {
            assert_eq!(table.open(id.to_owned(), owner, id, at(0)), Ok(None));
            table.release(id, at(since));
        }
        table
    }

    #[test]
    fn nobody_else_has_it() {
        let mut table = idle(&[("a", "one", 0)]);
        assert_eq!((table.hold("two", "a", at(1)), table.hold("one", "b", at(1))), (None, None));
        assert_eq!(table.close("two", "a", at(1)), None);
        assert_eq!(table.hold("one", "a", at(1)), Some("a"));
        assert_eq!((table.close("one", "a", at(1)), table.close("one", "a", at(1))), (Some("a"), None));
        // Who used it may still say so.
        table.release("a", at(1));
        assert!(table.is_empty());
    }

    #[test]
    fn it_ends_once_nobody_has_used_it_for_a_while() {
        let mut table = idle(&[("a", "one", 0), ("b", "one", 5)]);
        assert!(table.expire(at(59)).is_empty());
        // By the clock, whether or not it was looked for.
        assert_eq!((table.hold("one", "a", at(60)), table.close("one", "a", at(60))), (None, None));
        assert_eq!(table.expire(at(60)), ["a"]);
        table.hold("one", "b", at(60));
        table.hold("one", "b", at(60));
        table.release("b", at(100));
        assert!(table.expire(at(1000)).is_empty());
        table.release("b", at(1000));
        // A clock that goes back does not make it older.
        table.hold("one", "b", at(1000));
        table.release("b", at(7));
        assert!(table.expire(at(1059)).is_empty());
        assert_eq!(table.expire(at(1060)), ["b"]);
    }

    #[test]
    fn a_place_is_taken_from_who_was_idle_for_the_longest_time() {
        let mut table = idle(&[("a", "one", 9), ("b", "one", 5), ("c", "two", 1)]);
        // An owner's own come first, and only those.
        assert_eq!(table.open("d".to_owned(), "one", "d", at(10)), Ok(Some("b")));
        assert_eq!(table.open("e".to_owned(), "three", "e", at(11)), Ok(Some("c")));
        assert_eq!(table.open("f".to_owned(), "two", "f", at(12)), Ok(Some("a")));
        // All are in use.
        assert_eq!(table.open("g".to_owned(), "two", "g", at(13)), Err(InUse));
        assert_eq!((table.len(), table.all().copied().collect::<Vec<_>>()), (3, vec!["d", "e", "f"]));
        assert_eq!(table.close_of(|owner| owner == "one"), ["d"]);
        assert_eq!(table.open("g".to_owned(), "two", "g", at(14)), Ok(None));
        assert_eq!(table.open("h".to_owned(), "two", "h", at(15)), Err(InUse));
    }
}
