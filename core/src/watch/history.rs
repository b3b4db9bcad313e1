//! The last events of a watch, for a reader that follows it and for those that ask now and then.

use super::{Event, Kind};
use std::collections::VecDeque;

/// Events that are kept for those that ask later.
pub const KEPT: usize = 200;

/// Bytes of names that are kept at most, but for those of one event: a name is as long as its directories are deep.
const KEPT_BYTES: usize = 2 * 1024 * 1024;

/// An event and its place among all of the watch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Told {
    /// Its number: one more than that of the event before.
    pub seq: u64,
    /// When it was told: milliseconds since 1970.
    pub ts_ms: i64,
    /// What.
    pub event: Event,
}

/// Events that are not kept any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Gap {
    /// The first; where that is not known, the last.
    pub from_seq: u64,
    /// The last.
    pub to_seq: u64,
    /// They are of an earlier watch of that directory, or of none: nobody knows what they were.
    pub is_adopted: bool,
}

/// The last events of a watch. At most one reader follows, which is waited for: while [`has_room`](Self::has_room) is false
/// nothing is to be pushed. What nobody follows is [`KEPT`] events long.
#[derive(Debug)]
pub struct History {
    kept: VecDeque<Told>,
    /// Of the names in those.
    bytes: usize,
    first_seq: u64,
    next_seq: u64,
    /// Up to here somebody was given it.
    given: u64,
    /// Where the reader that follows is.
    follower: Option<u64>,
    max_ahead: usize,
}

impl History {
    /// The first event will have the number `first_seq`. A follower is at most `max_ahead` events behind.
    pub const fn new(first_seq: u64, max_ahead: usize) -> Self {
        Self {
            kept: VecDeque::new(),
            bytes: 0,
            first_seq,
            next_seq: first_seq,
            given: first_seq,
            follower: None,
            max_ahead,
        }
    }

    /// The number of the event that comes next.
    pub const fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// The number of the last event, or of the one before the first.
    pub const fn newest(&self) -> u64 {
        self.next_seq.saturating_sub(1)
    }

    /// Whether an event may be pushed.
    pub fn has_room(&self) -> bool {
        // What is kept past the bytes is all ahead of the follower.
        let fits = |ahead: u64| ahead == 0 || ahead < self.max_ahead as u64 && self.bytes <= KEPT_BYTES;
        self.follower.is_none_or(|next| fits(self.next_seq - next))
    }

    /// Adds an event. One that says the same as the last one, which nobody has been given yet, is that one.
    pub fn push(&mut self, event: Event, ts_ms: i64) {
        if let Some(last) = self.kept.back()
            && last.seq >= self.given
            && matches!(event.kind, Kind::Write | Kind::Chmod)
            && last.event == event
        {
            return;
        }
        self.bytes += event.len();
        self.kept.push_back(Told { seq: self.next_seq, ts_ms, event });
        self.next_seq += 1;
        self.evict();
    }

    fn evict(&mut self) {
        let follower = self.follower.unwrap_or(u64::MAX);
        while self.kept.len() > KEPT || self.bytes > KEPT_BYTES && self.kept.len() > 1 {
            let Some(told) = self.kept.pop_front_if(|told| told.seq < follower) else { return };
            self.bytes -= told.event.len();
        }
    }

    fn oldest(&self) -> u64 {
        self.kept.front().map_or(self.next_seq, |told| told.seq)
    }

    /// The events behind the one with the number `since`, and what is missing of them. Without a number: all that are kept.
    pub fn after(&mut self, since: Option<u64>) -> (Option<Gap>, Vec<Told>) {
        let (gap, next) = self.place(since);
        let events = self.from(next).cloned().collect();
        self.given = self.next_seq;
        (gap, events)
    }

    /// Where a reader goes on that has had everything up to `since`.
    fn place(&self, since: Option<u64>) -> (Option<Gap>, u64) {
        let oldest = self.oldest();
        let Some(since) = since else { return (None, oldest) };
        let (next, to_seq) = (since.saturating_add(1), oldest.saturating_sub(1));
        // A number that none of this watch has is one of another: nothing of this one was seen.
        let is_adopted = next < self.first_seq || next > self.next_seq;
        let gap = Gap { from_seq: next.min(to_seq), to_seq, is_adopted };
        if is_adopted || next < oldest { (Some(gap), oldest) } else { (None, next) }
    }

    fn from(&self, next: u64) -> impl Iterator<Item = &Told> {
        let skipped = next.saturating_sub(self.oldest());
        self.kept.iter().skip(usize::try_from(skipped).unwrap_or(usize::MAX))
    }

    /// A reader follows from here on, behind `since`; without a number, behind the last event. It is told what is missing.
    pub fn follow(&mut self, since: Option<u64>) -> Option<Gap> {
        let (gap, next) = self.place(Some(since.unwrap_or_else(|| self.newest())));
        self.follower = Some(next);
        gap
    }

    /// The next event for the reader that follows.
    pub fn take(&mut self) -> Option<Told> {
        let next = self.follower?;
        let told = self.from(next).next()?.clone();
        self.follower = Some(told.seq + 1);
        self.given = self.given.max(told.seq + 1);
        self.evict();
        Some(told)
    }

    /// Whether somebody follows.
    pub const fn is_followed(&self) -> bool {
        self.follower.is_some()
    }

    /// The reader follows no longer.
    pub fn unfollow(&mut self) {
        self.follower = None;
        self.evict();
    }

    /// Events that are held.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn long_names_take_no_more_than_their_bytes() {
        let mut history = History::new(1, 256);
        let long = || Event::new(Kind::Create, Bytes::from(vec![b'a'; KEPT_BYTES / 4 + 1]));
        for _ in 0..10 {
            history.push(long(), 1);
        }
        assert_eq!(history.len(), 3);
        // Who follows has all of them, and is waited for.
        assert_eq!(history.follow(None), None);
        let mut ahead = 0;
        while history.has_room() {
            history.push(long(), 1);
            ahead += 1;
        }
        assert_eq!((ahead, history.len()), (4, 4));
        assert_eq!(history.take().map(|told| told.seq), Some(11));
        assert!(history.has_room());
        // One that is longer is told by itself.
        let mut history = History::new(1, 256);
        history.follow(None);
        history.push(Event::new(Kind::Create, Bytes::from(vec![b'a'; KEPT_BYTES + 1])), 1);
        assert!(!history.has_room());
        assert_eq!(history.take().map(|told| told.seq), Some(1));
        assert!(history.has_room());
        history.push(long(), 1);
        assert_eq!(history.len(), 1);
    }
}
