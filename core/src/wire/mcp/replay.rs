//! What is kept of a session's calls for a client that comes back: the last events of each, and which answered calls.
//!
//! An event is numbered within its call, and its id names both, so that nobody gets events of another call.

use crate::Time;
use bytes::Bytes;
use std::{collections::VecDeque, time::Duration};

/// Bytes of events that are kept of one call; the answer is kept beside them, whatever its length.
pub const MAX_BYTES: usize = 64 * 1024;

/// How long an answered call is kept after the last who read it.
pub const KEEP: Duration = Duration::from_secs(60);

/// Answered calls that one session keeps.
pub const MAX_ANSWERED: usize = 16;

/// Bytes of the events of all of them; the last one is kept whatever its length.
pub const MAX_ANSWERED_BYTES: usize = 256 * 1024;

/// The last events of one call.
#[derive(Clone, Debug)]
pub struct Replay {
    call: u64,
    /// Whether each has an id.
    numbered: bool,
    kept: VecDeque<Bytes>,
    bytes: usize,
    /// The number of the first one that is kept.
    first: u64,
}

impl Replay {
    /// Of a call of that number, which has said nothing yet. Each event has an id where they are `numbered`.
    pub const fn new(call: u64, numbered: bool) -> Self {
        Self { call, numbered, kept: VecDeque::new(), bytes: 0, first: 0 }
    }

    /// One more event, as it is written but for its id. The answer takes the place of no other.
    pub fn push(&mut self, event: &[u8], is_answer: bool) {
        let id = if self.numbered { format!("id: {}:{}\n", self.call, self.end()) } else { String::new() };
        let event: Bytes = [id.as_bytes(), event].concat().into();
        self.bytes += event.len();
        self.kept.push_back(event);
        while !is_answer && self.bytes > MAX_BYTES && self.kept.len() > 1 {
            self.bytes -= self.kept.pop_front().map_or(0, |event| event.len());
            self.first += 1;
        }
    }

    /// Bytes of all that is kept.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of the event that comes next.
    pub fn end(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// The first event from number `next` on that is kept; `next` is moved behind it.
    pub fn take(&self, next: &mut u64) -> Option<Bytes> {
        *next = self.first.max(*next);
        let at = usize::try_from(*next - self.first).ok()?;
        let event = self.kept.get(at)?.clone();
        *next += 1;
        Some(event)
    }
}

/// The call and the number that the id of an event names.
pub fn event_id(id: &str) -> Option<(u64, u64)> {
    let (call, event) = id.split_once(':')?;
    Some((call.parse().ok()?, event.parse().ok()?))
}

/// The calls of a session that were answered, and may be come back to.
#[derive(Clone, Debug, Default)]
pub struct Answered {
    /// Until when, which, and how many bytes it holds; the first one goes first.
    calls: VecDeque<(Time, u64, usize)>,
}

impl Answered {
    /// A call was answered, and holds so many bytes; or who came back to it has left. Those that go for it.
    pub fn push(&mut self, call: u64, bytes: usize, now: Time) -> Vec<u64> {
        self.calls.retain(|(_, known, _)| *known != call);
        self.calls.push_back((now + KEEP, call, bytes));
        let mut gone = Vec::new();
        let mut held: usize = self.calls.iter().map(|(_, _, bytes)| bytes).sum();
        while self.calls.len() > MAX_ANSWERED || self.calls.len() > 1 && held > MAX_ANSWERED_BYTES {
            let Some((_, call, bytes)) = self.calls.pop_front() else { break };
            held -= bytes;
            gone.push(call);
        }
        gone
    }

    /// Those whose time is over.
    pub fn expire(&mut self, now: Time) -> Vec<u64> {
        let over = self.calls.iter().take_while(|(until, ..)| now >= *until).count();
        self.calls.drain(..over).map(|(_, call, _)| call).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    proptest! {
        #[test]
        fn who_comes_back_gets_what_is_kept_in_order_and_the_answer(
            lengths in vec(0..30_000_usize, 1..30),
            answer in 0..200_000_usize,
            reads in vec(0..35_u64, 1..10),
        ) {
            let mut replay = Replay::new(7, true);
            let event = |number: usize, len: usize| format!("{number} {}", "x".repeat(len));
            for (number, len) in lengths.iter().enumerate() {
                replay.push(event(number, *len).as_bytes(), false);
                prop_assert!(replay.bytes() <= MAX_BYTES || replay.take(&mut replay.end().clone()).is_none());
            }
            let before = replay.bytes();
            prop_assert!(before <= MAX_BYTES + 30_020);
            let last = lengths.len();
            replay.push(event(last, answer).as_bytes(), true);
            prop_assert_eq!(replay.end(), last as u64 + 1);
            for from in reads {
                let (mut next, mut numbers) = (from, Vec::new());
                while let Some(event) = replay.take(&mut next) {
                    let text = std::str::from_utf8(&event).unwrap();
                    let number: u64 = text.split(['\n', ' ']).nth(2).unwrap().parse().unwrap();
                    prop_assert_eq!(next, number + 1);
                    let (id, _) = text.strip_prefix("id: ").unwrap().split_once('\n').unwrap();
                    prop_assert_eq!(event_id(id), Some((7, number)));
                    numbers.push(number);
                }
                // To the answer, which took the place of none, without a hole.
                if from <= last as u64 {
                    prop_assert_eq!(numbers.last(), Some(&(last as u64)));
                    prop_assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]));
                    prop_assert!(numbers[0] >= from);
                } else {
                    prop_assert!(numbers.is_empty());
                }
            }
        }
    }

    #[test]
    fn the_last_events_are_kept_and_the_very_last_whatever_its_length() {
        let mut replay = Replay::new(7, true);
        for event in 0..100 {
            replay.push(format!("data: {event}{}\n\n", "x".repeat(1000)).as_bytes(), false);
        }
        assert!(replay.bytes() <= MAX_BYTES && replay.bytes() > MAX_BYTES - 2000);
        let mut next = 99;
        assert!(replay.take(&mut next).unwrap().starts_with(b"id: 7:99\ndata: 99x"));
        assert_eq!((replay.take(&mut next), next), (None, 100));
        // What is gone is passed over.
        let mut next = 0;
        let first = replay.take(&mut next).unwrap();
        assert!(next > 30 && first.starts_with(format!("id: 7:{}\n", next - 1).as_bytes()));
        let mut next = u64::MAX;
        assert_eq!(replay.take(&mut next), None);
        let mut bare = Replay::new(7, false);
        bare.push(b"data: x\n\n", false);
        assert_eq!(bare.take(&mut 0).as_deref(), Some(&b"data: x\n\n"[..]));
    }

    #[test]
    fn the_last_answers_are_kept_for_a_while() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut answered = Answered::default();
        for call in 0..20 {
            let gone = answered.push(call, 1, at(call));
            assert_eq!(gone, (call >= 16).then(|| call - 16).into_iter().collect::<Vec<_>>());
        }
        // Who has been read again goes last.
        assert!(answered.push(6, 1, at(20)).is_empty());
        assert_eq!(answered.expire(at(65)), [4, 5]);
        let gone: Vec<u64> = (7..20).chain([6]).collect();
        assert_eq!(answered.push(20, MAX_ANSWERED_BYTES, at(99)), gone);
        // The last one stays, whatever its length.
        assert_eq!(answered.push(21, 2 * MAX_ANSWERED_BYTES, at(99)), [20]);
        assert_eq!((answered.expire(at(158)), answered.expire(at(159))), (vec![], vec![21]));
    }

    #[test]
    fn ids_of_events() {
        assert_eq!(event_id("3:0"), Some((3, 0)));
        for bad in ["", "3", ":", "3:", ":3", "3:-1", "a:1", "1:2:3", "18446744073709551616:1"] {
            assert_eq!(event_id(bad), None, "{bad}");
        }
    }
}
