//! The events of a daemon that is not ours.

use super::{Event, Kind};
use crate::Time;
use bytes::Bytes;
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// How long the old name waits for the new one.
const WAIT: Duration = Duration::from_millis(20);

/// Names whose last event is remembered.
const NAMES: usize = 1_024;

/// Makes our events of those of E2B's envd, which says a rename as `rename` of the old name and `create` of the new one, and
/// some `create`s twice. What it lost it does not say.
#[derive(Debug, Default)]
pub struct Foreign {
    /// The old name of a rename, and until when it waits.
    renamed: Option<(Bytes, Time)>,
    ready: VecDeque<Event>,
    /// The names that are there, and those that are gone, as far as was told of late.
    told: BTreeMap<Bytes, bool>,
    order: VecDeque<Bytes>,
}

impl Foreign {
    /// What the daemon said: a `rename` is one without `from`.
    pub fn handle(&mut self, kind: Kind, name: Bytes, now: Time) {
        match (self.renamed.take(), kind) {
            (Some((from, _)), Kind::Create) => {
                self.remember(&from, false);
                self.remember(&name, true);
                self.ready.push_back(Event::rename(from, name));
                return;
            }
            (Some((from, _)), _) => self.tell(Kind::Remove, from),
            (None, _) => {}
        }
        if kind == Kind::Rename {
            self.renamed = Some((name, now + WAIT));
        } else {
            self.tell(kind, name);
        }
    }

    fn tell(&mut self, kind: Kind, name: Bytes) {
        let is_there = match kind {
            Kind::Create => Some(true),
            Kind::Remove => Some(false),
            Kind::Write | Kind::Rename | Kind::Chmod | Kind::Overflow => None,
        };
        if let Some(is_there) = is_there {
            if self.told.get(&name) == Some(&is_there) {
                return;
            }
            self.remember(&name, is_there);
        }
        self.ready.push_back(Event::new(kind, name));
    }

    fn remember(&mut self, name: &Bytes, is_there: bool) {
        if self.told.insert(name.clone(), is_there).is_none() {
            self.order.push_back(name.clone());
            if self.order.len() > NAMES
                && let Some(oldest) = self.order.pop_front()
            {
                self.told.remove(&oldest);
            }
        }
    }

    /// The next event, or the time to ask again.
    pub fn poll(&mut self, now: Time) -> Result<Event, Option<Time>> {
        if let Some(event) = self.ready.pop_front() {
            return Ok(event);
        }
        match self.renamed.take() {
            Some((name, until)) if now >= until => {
                self.tell(Kind::Remove, name);
                self.ready.pop_front().ok_or(None)
            }
            waiting => {
                let until = waiting.as_ref().map(|(_, until)| *until);
                self.renamed = waiting;
                Err(until)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(said: &[(Kind, &'static str)], end: Time) -> Vec<Event> {
        let mut foreign = Foreign::default();
        for (kind, name) in said {
            foreign.handle(*kind, Bytes::from_static(name.as_bytes()), Time::ZERO);
        }
        std::iter::from_fn(|| foreign.poll(end).ok()).collect()
    }

    fn event(kind: Kind, name: &'static str) -> Event {
        Event::new(kind, Bytes::from_static(name.as_bytes()))
    }

    #[test]
    fn two_halves_are_one_rename_and_a_half_is_a_remove() {
        let said = [(Kind::Rename, "a"), (Kind::Create, "b"), (Kind::Rename, "b"), (Kind::Write, "c")];
        let rename = Event::rename(Bytes::from_static(b"a"), Bytes::from_static(b"b"));
        let expected = [rename, event(Kind::Remove, "b"), event(Kind::Write, "c")];
        assert_eq!(all(&said, Time::ZERO), expected);
        assert_eq!(all(&[(Kind::Rename, "a")], Time::ZERO), []);
        assert_eq!(all(&[(Kind::Rename, "a")], Time::ZERO + WAIT), [event(Kind::Remove, "a")]);
    }

    #[test]
    fn what_is_said_twice_is_told_once() {
        let said = [
            (Kind::Create, "a"),
            (Kind::Create, "a/x"),
            (Kind::Create, "a/x"),
            (Kind::Remove, "a/x"),
            (Kind::Remove, "a/x"),
            (Kind::Create, "a/x"),
        ];
        let expected = [
            event(Kind::Create, "a"),
            event(Kind::Create, "a/x"),
            event(Kind::Remove, "a/x"),
            event(Kind::Create, "a/x"),
        ];
        assert_eq!(all(&said, Time::ZERO), expected);
    }
}
