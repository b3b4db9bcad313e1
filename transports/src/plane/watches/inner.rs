//! What was told of one watched directory last, and where its readers are.

use bytes::Bytes;
use hangar_backends::watching::{Change, WatchError};
use hangar_core::{
    Close, Time,
    watch::{Blind, End, Event, Gap, History, KEPT, Kind, Told},
};
use std::{collections::VecDeque, task::Waker};

/// Events that a reader may be behind before the watch waits for it.
const MAX_AHEAD: usize = 256;

/// Why nothing more comes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Over {
    /// What became of the directory.
    Ended(End),
    /// What became of the sandbox's side.
    Broken(WatchError),
    /// It was closed here.
    Closed(Close),
}

/// Something that a reader gets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Item {
    /// A change.
    Event(Told),
    /// Nothing is told of what is below this.
    Blind { name: Bytes, why: Blind },
    /// Everything up to the event of this number is told.
    Ready { next: u64 },
    /// Nothing more comes.
    Over(Over),
}

/// Whether a watch takes more of what its sandbox tells.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Taken {
    More,
    /// Once its reader has gone on.
    Full,
    /// It is over.
    Over,
}

/// What is kept of a watch, for who asks now and then.
#[derive(Clone, Debug)]
pub struct Page {
    /// Why nothing more comes; None where it goes on.
    pub over: Option<Over>,
    /// What is missing before the events.
    pub gap: Option<Gap>,
    /// Those behind the number that was asked for, or all that are kept.
    pub events: Vec<Told>,
    /// What to ask for next.
    pub next: u64,
    /// The directories of which nothing is told, and why.
    pub blind: Vec<(Bytes, Blind)>,
}

/// How far a watch is.
#[derive(Clone, Copy, Debug, Hash)]
pub(in crate::plane) struct Position {
    /// The number of its last event.
    pub(in crate::plane) newest: u64,
    /// How many directories it does not tell of.
    blinds: u64,
    pub(in crate::plane) is_over: bool,
}

/// What one watch is, between any two changes of it.
#[derive(Debug)]
pub(super) struct Inner {
    history: History,
    /// The directories of which nothing is told, each with the number of the event that came next.
    blind: VecDeque<(u64, Bytes, Blind)>,
    /// How many of those there were.
    blinds: u64,
    /// Of those that came before the event of this number, some are not kept any more.
    lost_blind: Option<u64>,
    /// Everything is told up to this number.
    ready: Option<u64>,
    /// Where the reader is that is waited for.
    place: Option<Place>,
    /// The sandbox is to tell everything again.
    retell: bool,
    /// It has not begun with that yet.
    awaits_overflow: bool,
    /// The driver waits for the reader.
    stalled: bool,
    over: Option<Over>,
    /// It is in no table any more: nobody comes back to it.
    is_gone: bool,
    holders: usize,
    /// Since when nobody holds it.
    left_at: Time,
    driver: Option<Waker>,
}

/// Where a reader is that is waited for.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The number of its next event.
    next: u64,
    /// How many of the blind directories it knows of.
    blinds: u64,
    /// The newest number when it came: what it has missed is told first.
    missed: u64,
    /// The number up to which it was told that everything is told.
    ready: Option<u64>,
}

impl Inner {
    /// One that somebody holds.
    pub(super) const fn new(first_seq: u64) -> Self {
        Self {
            history: History::new(first_seq, MAX_AHEAD),
            blind: VecDeque::new(),
            blinds: 0,
            lost_blind: None,
            ready: None,
            place: None,
            retell: false,
            awaits_overflow: false,
            stalled: false,
            over: None,
            is_gone: false,
            holders: 1,
            left_at: Time::ZERO,
            driver: None,
        }
    }

    /// What its sandbox tells.
    pub(super) fn push(&mut self, change: Change, ts_ms: i64) -> Taken {
        match change {
            Change::Event(event) => self.push_event(event, ts_ms),
            Change::Ready if self.awaits_overflow => {}
            Change::Ready => self.ready = Some(self.history.newest()),
            Change::Blind { name, why } => {
                self.blind.push_back((self.history.next_seq(), name, why));
                self.blinds += 1;
                if self.blind.len() > KEPT {
                    self.lost_blind = self.blind.pop_front().map(|(at, ..)| at);
                }
            }
            Change::Ended(end) => self.end(Over::Ended(end)),
            Change::Broken(error) => self.end(Over::Broken(error)),
        }
        if self.over.is_some() {
            Taken::Over
        } else if self.has_room() {
            Taken::More
        } else {
            Taken::Full
        }
    }

    fn push_event(&mut self, event: Event, ts_ms: i64) {
        if event.kind == Kind::Overflow {
            // They are told again.
            self.blind.clear();
            (self.ready, self.lost_blind, self.awaits_overflow) = (None, None, false);
        }
        self.history.push(event, ts_ms);
    }

    /// Nothing more comes of it.
    pub(super) fn end(&mut self, over: Over) {
        self.over.get_or_insert(over);
        self.wake_driver();
    }

    /// Nobody comes back to it.
    pub(super) const fn leave_table(&mut self) {
        self.is_gone = true;
    }

    /// How many of the blind directories came before the first that is kept.
    fn first_blind(&self) -> u64 {
        self.blinds - self.blind.len() as u64
    }

    /// Whether its sandbox may tell more. Who asks in vain is woken once there is room.
    pub(super) fn has_room(&mut self) -> bool {
        let behind = self.place.map_or(0, |place| self.blinds - place.blinds.max(self.first_blind()));
        self.stalled = !self.history.has_room() || behind >= KEPT as u64;
        !self.stalled
    }

    /// A reader follows from the beginning on: behind `since`, where that was a number of an earlier watch. What is missing.
    pub(super) fn follow(&mut self, since: Option<u64>) -> Option<Gap> {
        let newest = self.history.newest();
        let gap = self.history.follow(since);
        let next = match &gap {
            None => since.unwrap_or(newest) + 1,
            // All that is kept is behind it, whatever its number is.
            Some(gap) if gap.is_adopted => 0,
            Some(gap) => gap.to_seq + 1,
        };
        // One that was told beside its last event may have been lost with the connection.
        let kept = self.blind.iter().filter(|(at, ..)| *at >= next).count() as u64;
        self.place = Some(Place { next, blinds: self.blinds - kept, missed: newest, ready: None });
        gap
    }

    /// The same for one that comes back. Where some of what it has missed is lost, everything is told again.
    pub(super) fn follow_again(&mut self, since: u64) -> Option<Gap> {
        let gap = self.follow(Some(since));
        if gap.is_some() || self.lost_blind.is_some_and(|at| at > since) {
            (self.retell, self.awaits_overflow, self.ready) = (true, true, None);
            self.wake_driver();
        }
        gap
    }

    /// What comes next for the reader that follows.
    pub(super) fn take(&mut self) -> Option<Item> {
        let item = self.next();
        if item.is_none() && std::mem::take(&mut self.stalled) {
            self.wake_driver();
        }
        item
    }

    fn next(&mut self) -> Option<Item> {
        let first_blind = self.first_blind();
        let place = self.place.as_mut()?;
        place.blinds = place.blinds.max(first_blind);
        let known = usize::try_from(place.blinds - first_blind).unwrap_or(usize::MAX);
        if let Some((at, name, why)) = self.blind.get(known)
            && *at <= place.next
        {
            place.blinds += 1;
            return Some(Item::Blind { name: name.clone(), why: *why });
        }
        let is_due = |ready: u64| ready.max(place.missed) < place.next && place.ready != Some(ready);
        if let Some(ready) = self.ready.filter(|ready| is_due(*ready)) {
            place.ready = Some(ready);
            return Some(Item::Ready { next: place.next - 1 });
        }
        if let Some(told) = self.history.take() {
            place.next = told.seq + 1;
            return Some(Item::Event(told));
        }
        self.over.clone().map(Item::Over)
    }

    /// What is kept behind `since`.
    pub(super) fn page(&mut self, since: Option<u64>) -> Page {
        let (gap, events) = self.history.after(since);
        let blind = self.blind.iter().map(|(_, name, why)| (name.clone(), *why)).collect();
        Page { over: self.over.clone(), gap, events, next: self.history.newest(), blind }
    }

    pub(super) const fn position(&self) -> Position {
        let (newest, blinds) = (self.history.newest(), self.blinds);
        Position { newest, blinds, is_over: self.over.is_some() }
    }

    /// Whether every change is told from now on, or none any more.
    pub(super) const fn is_settled(&self) -> bool {
        self.ready.is_some() || self.over.is_some()
    }

    pub(super) const fn over(&self) -> Option<&Over> {
        self.over.as_ref()
    }

    pub(super) const fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Whether it goes on, or somebody may come back to it.
    pub(super) const fn counts(&self) -> bool {
        self.over.is_none() || self.holders == 0
    }

    pub(super) const fn hold(&mut self) {
        self.holders += 1;
    }

    /// One that held it does no longer, and none follows where `unfollows`.
    pub(super) fn let_go(&mut self, unfollows: bool, now: Time) {
        self.holders -= 1;
        if unfollows {
            self.history.unfollow();
            (self.place, self.stalled) = (None, false);
        }
        self.left_at = now;
        self.wake_driver();
    }

    /// Since when nobody holds it; None while somebody does.
    pub(super) fn left_at(&self) -> Option<Time> {
        (self.holders == 0).then_some(self.left_at)
    }

    /// Notes who drives it, and gives whether everything is to be told again.
    pub(super) fn drive(&mut self, driver: &Waker) -> bool {
        if !self.driver.as_ref().is_some_and(|old| old.will_wake(driver)) {
            self.driver = Some(driver.clone());
        }
        std::mem::take(&mut self.retell)
    }

    fn wake_driver(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }
}
