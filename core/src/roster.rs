//! The processes of a daemon, by number and by name: which one a request means, and how long one is known that has ended.
//!
//! Numbers are given again by the system, and a name may be given twice by clients: what runs comes before what has ended,
//! and what came later before what came earlier. All are looked at, so that no name hides another (E2B's envd stops at the
//! first one that has any).

use crate::{Time, wire::envd::process::Selector};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// How long one that has ended is known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// After its end, where only that is kept of it.
    pub ended: Duration,
    /// After its end, where what it printed is kept.
    pub logged: Duration,
    /// Those that have ended, at the most, of those whose output is kept and again of those of which only the end is; past
    /// it the one of its kind that ended first is forgotten.
    pub max_ended: usize,
    /// Bytes of what those have printed that is kept, at the most: past it those that ended first lose theirs.
    pub max_logged: u64,
}

impl Default for Config {
    /// 30 s as envd has it, 10 min, 4096 of each kind, 64 MiB.
    fn default() -> Self {
        Self {
            ended: Duration::from_secs(30),
            logged: Duration::from_secs(600),
            max_ended: 4096,
            max_logged: 64 * 1024 * 1024,
        }
    }
}

/// One of them, for as long as it is known.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Key(u64);

/// The processes of a daemon; `T` is what the shell knows of each.
#[derive(Debug)]
pub struct Roster<T> {
    config: Config,
    /// In the order in which they came.
    entries: BTreeMap<u64, Entry<T>>,
    /// Those that have ended, in that order: first those of which only that is kept, then those whose output is.
    ended: [VecDeque<u64>; 2],
    /// Bytes that are kept of those.
    kept: u64,
    next: u64,
}

#[derive(Debug)]
struct Entry<T> {
    pid: u32,
    tag: Option<String>,
    logged: bool,
    ended_at: Option<Time>,
    /// What is kept of what it printed, once it has ended.
    bytes: u64,
    value: T,
}

impl<T> Entry<T> {
    fn is(&self, selector: &Selector) -> bool {
        match selector {
            Selector::Pid(pid) => self.pid == *pid,
            Selector::Tag(tag) => self.tag.as_ref() == Some(tag),
            Selector::Both(pid, tag) => self.pid == *pid && self.tag.as_ref() == Some(tag),
        }
    }
}

impl<T> Roster<T> {
    /// Nobody.
    pub const fn new(config: Config) -> Self {
        Self { config, entries: BTreeMap::new(), ended: [VecDeque::new(), VecDeque::new()], kept: 0, next: 0 }
    }

    /// One more, that runs. `logged`: what it prints is kept after its end.
    ///
    /// One that has ended and had its name or, without a log, its number is forgotten.
    pub fn insert(&mut self, pid: u32, tag: Option<String>, logged: bool, value: T) -> Key {
        let given_again = |entry: &Entry<T>| {
            let same_pid = entry.pid == pid && !entry.logged;
            let same_tag = tag.is_some() && entry.tag == tag;
            entry.ended_at.is_some() && (same_pid || same_tag)
        };
        let had_it = self.entries.iter().filter(|(_, entry)| given_again(entry)).map(|(key, _)| *key);
        for key in had_it.collect::<Vec<_>>() {
            self.remove(key);
        }
        let key = self.next;
        self.next += 1;
        self.entries.insert(key, Entry { pid, tag, logged, ended_at: None, bytes: 0, value });
        Key(key)
    }

    /// It ended, and so many bytes of what it printed are there. Gives those that lose theirs for it, of those whose output is
    /// kept; they stay known.
    #[must_use]
    pub fn handle_ended(&mut self, key: Key, bytes: u64, now: Time) -> Vec<T>
    where
        T: Clone,
    {
        let Some(entry) = self.entries.get_mut(&key.0).filter(|entry| entry.ended_at.is_none()) else {
            return Vec::new();
        };
        // What is not kept for who comes later is there for who reads it now.
        entry.bytes = if entry.logged { bytes } else { 0 };
        entry.ended_at = Some(now);
        self.kept += entry.bytes;
        let kind = usize::from(entry.logged);
        self.ended[kind].push_back(key.0);
        // Apart: starts that fail are many, and what one of them cost is little beside a log.
        while self.ended[kind].len() > self.config.max_ended
            && let Some(first) = self.ended[kind].front()
        {
            self.remove(*first);
        }
        let mut emptied = Vec::new();
        for key in &self.ended[usize::from(true)] {
            if self.kept <= self.config.max_logged {
                break;
            }
            if let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.bytes > 0) {
                self.kept -= std::mem::take(&mut entry.bytes);
                emptied.push(entry.value.clone());
            }
        }
        emptied
    }

    fn remove(&mut self, key: u64) {
        if let Some(entry) = self.entries.remove(&key) {
            self.kept -= entry.bytes;
            self.ended[usize::from(entry.logged)].retain(|ended| *ended != key);
        }
    }

    /// The one that is meant.
    pub fn find(&self, selector: &Selector, now: Time) -> Option<&T> {
        let known = |entry: &&Entry<T>| self.until(entry).is_none_or(|until| now < until);
        let found = || self.entries.values().rev().filter(|entry| entry.is(selector)).filter(known);
        let running = found().find(|entry| entry.ended_at.is_none());
        running.or_else(|| found().next()).map(|entry| &entry.value)
    }

    /// Those that run, in the order in which they came.
    pub fn running(&self) -> impl Iterator<Item = &T> {
        self.entries.values().filter(|entry| entry.ended_at.is_none()).map(|entry| &entry.value)
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nobody is.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets those that have ended and whose time is over. Gives when it is over for the next one; None where all that are
    /// left run.
    pub fn forget_due(&mut self, now: Time) -> Option<Time> {
        // Of one kind, the first that ended is the first that is forgotten.
        let firsts = [false, true].map(|logged| {
            loop {
                let first = *self.ended[usize::from(logged)].front()?;
                let until = self.entries.get(&first).and_then(|entry| self.until(entry))?;
                if now < until {
                    return Some(until);
                }
                self.remove(first);
            }
        });
        firsts.into_iter().flatten().min()
    }

    /// Until when one is known; None while it runs.
    fn until(&self, entry: &Entry<T>) -> Option<Time> {
        let Config { ended, logged, .. } = self.config;
        Some(entry.ended_at? + if entry.logged { logged } else { ended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: Config = Config {
        ended: Duration::from_secs(30),
        logged: Duration::from_secs(600),
        max_ended: 3,
        max_logged: 100,
    };

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn tag(tag: &str) -> Selector {
        Selector::Tag(tag.into())
    }

    #[test]
    fn each_name_of_several_is_found() {
        let mut roster = Roster::new(CONFIG);
        for (pid, name) in [(10, "a"), (11, "b"), (12, "c"), (13, "d")] {
            roster.insert(pid, Some(name.into()), false, name);
        }
        for name in ["a", "b", "c", "d"] {
            assert_eq!(roster.find(&tag(name), at(0)), Some(&name));
        }
        assert_eq!((roster.find(&tag("e"), at(0)), roster.find(&Selector::Pid(9), at(0))), (None, None));
        assert_eq!(roster.running().copied().collect::<String>(), "abcd");
    }

    #[test]
    fn of_two_with_one_name_the_newest_that_runs_is_meant() {
        let mut roster = Roster::new(CONFIG);
        roster.insert(1, Some("a".into()), false, "old");
        let new = roster.insert(2, Some("a".into()), false, "new");
        assert_eq!(roster.find(&tag("a"), at(0)), Some(&"new"));
        // Whoever knows the number means that one.
        let both = |pid, tag: &str| roster.find(&Selector::Both(pid, tag.into()), at(0)).copied();
        assert_eq!(
            (both(1, "a"), both(2, "a"), both(1, "b"), both(3, "a")),
            (Some("old"), Some("new"), None, None)
        );
        assert!(roster.handle_ended(new, 0, at(0)).is_empty());
        assert_eq!(roster.find(&tag("a"), at(1)), Some(&"old"));
        assert_eq!(roster.find(&Selector::Pid(2), at(1)), Some(&"new"));
    }

    #[test]
    fn an_end_is_known_for_its_time_and_no_longer() {
        let mut roster = Roster::new(CONFIG);
        let plain = roster.insert(1, Some("a".into()), false, "plain");
        let logged = roster.insert(2, Some("b".into()), true, "logged");
        assert!(roster.handle_ended(plain, 0, at(10)).is_empty());
        assert!(roster.handle_ended(logged, 0, at(10)).is_empty());
        assert!(roster.handle_ended(plain, 0, at(20)).is_empty());
        assert_eq!(roster.running().count(), 0);
        assert_eq!(
            (roster.find(&Selector::Pid(1), at(39)), roster.find(&tag("a"), at(39))),
            (Some(&"plain"), Some(&"plain"))
        );
        assert_eq!((roster.forget_due(at(39)), roster.len()), (Some(at(40)), 2));
        assert_eq!(
            (roster.find(&Selector::Pid(1), at(40)), roster.find(&tag("b"), at(40))),
            (None, Some(&"logged"))
        );
        assert_eq!((roster.forget_due(at(40)), roster.len()), (Some(at(610)), 1));
        assert_eq!((roster.forget_due(at(609)), roster.len()), (Some(at(610)), 1));
        let running = roster.insert(3, None, false, "running");
        assert_eq!((roster.forget_due(at(610)), roster.forget_due(at(611))), (None, None));
        assert_eq!((roster.len(), roster.find(&Selector::Pid(3), at(9999))), (1, Some(&"running")));
        assert!(roster.handle_ended(running, 0, at(700)).is_empty());
        assert_eq!((roster.forget_due(at(9999)), roster.is_empty()), (None, true));
    }

    #[test]
    fn a_number_or_a_name_that_is_given_again_forgets_who_had_it() {
        let mut roster = Roster::new(CONFIG);
        let plain = roster.insert(1, Some("a".into()), false, "plain");
        let logged = roster.insert(2, Some("b".into()), true, "logged");
        assert!(roster.handle_ended(plain, 0, at(0)).is_empty());
        assert!(roster.handle_ended(logged, 0, at(0)).is_empty());
        roster.insert(1, None, false, "third");
        roster.insert(2, None, false, "fourth");
        assert_eq!((roster.find(&tag("a"), at(1)), roster.find(&tag("b"), at(1))), (None, Some(&"logged")));
        assert_eq!(roster.find(&Selector::Pid(2), at(1)), Some(&"fourth"));
        roster.insert(5, Some("b".into()), false, "fifth");
        assert_eq!((roster.find(&tag("b"), at(1)), roster.len()), (Some(&"fifth"), 3));
    }

    #[test]
    fn what_has_ended_is_bounded() {
        let mut roster = Roster::new(CONFIG);
        for pid in 0..100 {
            let key = roster.insert(pid, None, pid % 2 == 0, pid);
            assert!(roster.handle_ended(key, 0, at(0)).is_empty());
            assert!(roster.len() <= 2 * CONFIG.max_ended);
        }
        assert_eq!(roster.find(&Selector::Pid(99), at(0)), Some(&99));
        // Each kind for itself: a flood of one leaves the other alone.
        for logged in [false, true] {
            let mut roster = Roster::new(CONFIG);
            let first = roster.insert(1000, None, !logged, 1000);
            assert!(roster.handle_ended(first, 0, at(0)).is_empty());
            for pid in 0..100 {
                let key = roster.insert(pid, None, logged, pid);
                assert!(roster.handle_ended(key, 0, at(0)).is_empty());
            }
            assert_eq!(roster.find(&Selector::Pid(1000), at(1)), Some(&1000), "{logged}");
            assert_eq!(roster.len(), CONFIG.max_ended + 1);
        }
        // One that is forgotten makes room, in bytes too.
        let mut roster = Roster::new(CONFIG);
        let keys = [1, 2].map(|pid| roster.insert(pid, None, true, pid));
        assert!(keys.into_iter().all(|key| roster.handle_ended(key, 50, at(0)).is_empty()));
        assert_eq!((roster.forget_due(at(600)), roster.len()), (None, 0));
        let third = roster.insert(3, None, true, 3);
        assert!(roster.handle_ended(third, 100, at(600)).is_empty());
    }

    #[test]
    fn what_is_kept_of_the_ended_is_bounded() {
        let mut roster = Roster::new(CONFIG);
        let mut end = |pid, bytes| {
            let key = roster.insert(pid, None, true, pid);
            roster.handle_ended(key, bytes, at(0))
        };
        assert_eq!((end(1, 40), end(2, 60)), (vec![], vec![]));
        assert_eq!(end(3, 1), [1], "the one that ended first");
        assert_eq!(end(4, 500), [2, 3, 4], "one that is too large alone keeps nothing either");
        assert_eq!(roster.find(&Selector::Pid(4), at(1)), Some(&4), "they stay known");
        let unread = roster.insert(5, None, false, 5);
        let dropped = roster.handle_ended(unread, 500, at(0));
        assert!(dropped.is_empty(), "what somebody still reads is nobody's to drop: {dropped:?}");
    }
}
