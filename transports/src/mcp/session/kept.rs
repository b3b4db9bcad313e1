//! What is kept of calls for a client that comes back: the last events of each, and which answered calls.

use crate::sse::Flow;
use bytes::Bytes;
use hangar_core::Time;
use std::{collections::VecDeque, time::Duration};

/// Bytes of events that are kept for a client that comes back; the answer is kept whatever its length.
const KEPT: usize = 64 * 1024;

/// How long an answered call is kept.
pub const KEEP: Duration = Duration::from_secs(60);

/// Answered calls that one session keeps, and bytes of their events.
const MAX_ANSWERED: usize = 16;
const MAX_ANSWERED_BYTES: usize = 256 * 1024;

/// The calls of a session that were answered, and may be come back to.
#[derive(Debug, Default)]
pub(super) struct Answered {
    /// Until when, which, and how many bytes it holds; the first one goes first.
    calls: VecDeque<(Time, u64, usize)>,
}

impl Answered {
    /// One more, and those that go for it.
    pub(super) fn push(&mut self, until: Time, call: u64, bytes: usize) -> Vec<u64> {
        if self.calls.iter().all(|(_, known, _)| *known != call) {
            self.calls.push_back((until, call, bytes));
        }
        let mut gone = Vec::new();
        let held =
            |calls: &VecDeque<(Time, u64, usize)>| calls.iter().map(|(_, _, bytes)| bytes).sum::<usize>();
        while self.calls.len() > MAX_ANSWERED
            || self.calls.len() > 1 && held(&self.calls) > MAX_ANSWERED_BYTES
        {
            gone.extend(self.calls.pop_front().map(|(_, call, _)| call));
        }
        gone
    }

    /// Those whose time is over.
    pub(super) fn expire(&mut self, now: Time) -> Vec<u64> {
        let over = self.calls.iter().take_while(|(until, ..)| now >= *until).count();
        self.calls.drain(..over).map(|(_, call, _)| call).collect()
    }
}

/// The last events, each with its number.
#[derive(Debug, Default)]
pub(super) struct Events {
    kept: VecDeque<Bytes>,
    bytes: usize,
    /// The number of the first one that is kept.
    first: u64,
    /// Whether each has an id.
    numbered: bool,
}

impl Events {
    /// None yet. Each has an id where they are `numbered`.
    pub(super) fn new(numbered: bool) -> Self {
        Self { numbered, ..Self::default() }
    }

    /// One more, behind its id. The last one, which is the answer, takes the place of none.
    pub(super) fn push(&mut self, call: u64, event: &[u8], flow: Flow) {
        let number = self.end();
        let id = if self.numbered { format!("id: {call}:{number}\n") } else { String::new() };
        let event: Bytes = [id.as_bytes(), event].concat().into();
        self.bytes += event.len();
        self.kept.push_back(event);
        while flow == Flow::More && self.bytes > KEPT && self.kept.len() > 1 {
            self.bytes -= self.kept.pop_front().map_or(0, |event| event.len());
            self.first += 1;
        }
    }

    /// Bytes of all of them.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of the next one.
    pub(super) fn end(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// The first one from `next` on, which is moved behind it.
    pub(super) fn take(&self, next: &mut u64) -> Option<Bytes> {
        *next = self.first.max(*next);
        let at = usize::try_from(*next - self.first).ok()?;
        let event = self.kept.get(at)?.clone();
        *next += 1;
        Some(event)
    }
}

/// The id of an event: its call's number, and its own.
pub(super) fn event_id(id: &str) -> Option<(u64, u64)> {
    let (call, event) = id.split_once(':')?;
    Some((call.parse().ok()?, event.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_are_kept_and_the_very_last_whatever_its_length() {
        let mut events = Events::new(true);
        for event in 0..100 {
            events.push(7, format!("data: {event}{}\n\n", "x".repeat(1000)).as_bytes(), Flow::More);
        }
        assert!(events.bytes <= KEPT && events.bytes > KEPT - 2000);
        let mut next = 99;
        assert!(events.take(&mut next).unwrap().starts_with(b"id: 7:99\ndata: 99x"));
        assert_eq!((events.take(&mut next), next), (None, 100));
        // What is gone is passed over.
        let mut next = 0;
        let first = events.first;
        assert!(
            first > 0 && events.take(&mut next).unwrap().starts_with(format!("id: 7:{first}\n").as_bytes())
        );
        let kept = events.kept.len();
        events.push(7, &[b'x'; 2 * KEPT], Flow::Last);
        assert_eq!((events.kept.len(), events.first), (kept + 1, first));
        let mut next = u64::MAX;
        assert_eq!(events.take(&mut next), None);
    }

    #[test]
    fn the_last_answers_are_kept_for_a_while() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut answered = Answered::default();
        for call in 0..20 {
            let gone = answered.push(at(call), call, 1);
            assert_eq!(gone, (call >= 16).then(|| call - 16).into_iter().collect::<Vec<_>>());
        }
        assert!(answered.push(at(99), 19, 1).is_empty(), "it is there already");
        assert_eq!(answered.expire(at(5)), [4, 5]);
        assert_eq!(answered.push(at(99), 20, MAX_ANSWERED_BYTES), (6..20).collect::<Vec<_>>());
        // The last one stays, whatever its length.
        assert_eq!(answered.push(at(99), 21, 2 * MAX_ANSWERED_BYTES), [20]);
        assert_eq!((answered.expire(at(98)), answered.expire(at(99))), (vec![], vec![21]));
    }

    #[test]
    fn ids_of_events() {
        assert_eq!(event_id("3:0"), Some((3, 0)));
        for bad in ["", "3", ":", "3:", ":3", "3:-1", "a:1", "1:2:3", "18446744073709551616:1"] {
            assert_eq!(event_id(bad), None, "{bad}");
        }
    }
}
