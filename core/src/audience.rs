//! For whom a process is slowed, of those who follow it.
//!
//! A log that is a ring waits for nobody. Where its readers have a [`Seat`], the process is slowed for them as [`Hold`]
//! says, so that none that keeps reading loses anything, and none that has stopped reading holds up the others:
//!
//! ```text
//!            took something, or has all                [`STUCK`] long took nothing of what there is
//!  Moving ◄──────────────────────────── Stuck ◄──────────────────────────────────────────────── Moving
//!    │ waited for                         │ waited for only while nobody moves, and no longer than [`PATIENCE`]
//! ```
//!
//! Who is not waited for falls out of the ring as the process goes on, and is told so. From then on it is waited for by no
//! means: what it would have to take next is gone.
//!
//! What `testing::subscription` checks of it, where the process is polled when it
//! [has to be](crate::process::Process::wants_poll):
//!
//! * Who takes what there is in less than [`STUCK`] each time, and is waited for, loses nothing. Nor does
//!   [`Hold::Always`], whatever it does.
//! * One that has stopped holds up the process for [`STUCK`] while another one moves, whichever way that one is waited for,
//!   and else for [`PATIENCE`]; [`Hold::Always`] holds it up for as long as it likes, [`Hold::Never`] not at all.
//! * Where the first reader is awaited, nothing is lost before it comes, and nothing comes past the ring.

use crate::{
    Time,
    log::{FRAME_MAX, Log, PACKET_MAX, Reader, Retention},
};
use std::{collections::BTreeMap, time::Duration};

/// A reader that takes nothing of what there is for this long is not waited for while another one moves.
pub const STUCK: Duration = Duration::from_millis(250);

/// A reader that takes nothing for this long is not waited for, though nobody else reads.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Whether a process waits for a reader.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Hold {
    /// Until it has read, however long that takes.
    Always,
    /// While it goes on reading: see the [module](self).
    WhileMoving,
    /// Never.
    Never,
}

/// A reader that a process knows of.
#[derive(Debug)]
pub struct Seat {
    pub(crate) reader: Reader,
    id: u64,
}

impl Seat {
    /// Where it is.
    pub const fn reader(&self) -> &Reader {
        &self.reader
    }
}

/// The readers that a process knows of. They are told of by [`Process`](crate::process::Process), which belongs to the
/// same module of the product: nobody else drives this.
#[derive(Debug)]
pub(crate) struct Audience {
    window: u64,
    max_frames: u64,
    members: BTreeMap<u64, Member>,
    next_id: u64,
    /// Nobody came yet, and somebody will.
    awaits_first: bool,
    now: Time,
    /// Somebody came, took or went since then, or something was printed.
    changed: bool,
}

#[derive(Debug)]
struct Member {
    hold: Hold,
    place: Place,
    lag: Lag,
}

/// Where a reader is in the log.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Place {
    offset: u64,
    seq: u64,
}

impl Place {
    /// Before all output.
    const FIRST: Self = Self { offset: 0, seq: 1 };

    const fn of(reader: &Reader) -> Self {
        Self { offset: reader.offset(), seq: reader.seq() }
    }
}

/// Whether there is something that a reader has not taken.
#[derive(Clone, Copy, Debug)]
enum Lag {
    No,
    /// The time counts from the next poll.
    Noticed,
    Since(Time),
}

impl Audience {
    /// Nobody yet. Readers that are waited for are at most as far behind as `retention` keeps; where `awaits_first`, so is the
    /// first.
    pub(crate) fn new(retention: Retention, awaits_first: bool, now: Time) -> Self {
        Self {
            // Where nothing is kept, what comes next is.
            window: retention.bytes().max(1) as u64,
            max_frames: retention.max_frames() as u64,
            members: BTreeMap::new(),
            next_id: 0,
            awaits_first,
            now,
            changed: false,
        }
    }

    /// One more.
    pub(crate) fn join(&mut self, reader: Reader, hold: Hold) -> Seat {
        let id = self.next_id;
        self.next_id += 1;
        self.awaits_first = false;
        self.changed = true;
        self.members.insert(id, Member { hold, place: Place::of(&reader), lag: Lag::Noticed });
        Seat { reader, id }
    }

    /// The first reader does not come.
    pub(crate) const fn stop_awaiting(&mut self) {
        self.awaits_first = false;
        self.changed = true;
    }

    /// It took something.
    pub(crate) fn handle_taken(&mut self, seat: &Seat) {
        if let Some(member) = self.members.get_mut(&seat.id) {
            member.place = Place::of(&seat.reader);
            member.lag = Lag::Noticed;
        }
        self.changed = true;
    }

    /// Something was printed.
    pub(crate) const fn handle_printed(&mut self) {
        self.changed = true;
    }

    /// It is gone.
    pub(crate) fn leave(&mut self, seat: &Seat) {
        self.members.remove(&seat.id);
        self.changed = true;
    }

    /// The offset below which nobody has anything to read; None where nobody is there.
    pub(crate) fn lowest(&self) -> Option<u64> {
        if self.awaits_first {
            return Some(0);
        }
        self.members.values().map(|member| member.place.offset).min()
    }

    /// How many bytes may come now.
    pub(crate) fn room(&self, log: &Log) -> usize {
        let Some(floor) = self.floor(log).filter(|_| !log.is_abandoned()) else { return usize::MAX };
        let bytes = self.window.saturating_sub(log.end_offset().saturating_sub(floor.offset));
        // A log keeps so many frames and no more, however few bytes are in them.
        let frames = self.max_frames.saturating_sub((log.newest_seq() + 1).saturating_sub(floor.seq));
        let room = bytes.min(frames.saturating_mul(FRAME_MAX as u64));
        let packet = PACKET_MAX as u64;
        let room = if room < packet && self.window >= 2 * packet { 0 } else { room };
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    /// Whether somebody came, took or went since time passed last, or something was printed.
    pub(crate) const fn has_changed(&self) -> bool {
        self.changed
    }

    /// Lets time pass. Returns when to do so again, where that may give the process room.
    pub(crate) fn handle_time(&mut self, now: Time, log: &Log) -> Option<Time> {
        self.now = self.now.max(now);
        self.changed = false;
        for member in self.members.values_mut() {
            member.lag = match member.lag {
                Lag::No | Lag::Noticed if member.place.offset >= log.end_offset() => Lag::No,
                Lag::No | Lag::Noticed => Lag::Since(self.now),
                Lag::Since(at) => Lag::Since(at),
            };
        }
        if self.room(log) > 0 {
            return None;
        }
        let moving = self.members.values().filter(|member| member.hold == Hold::WhileMoving);
        let times = moving.filter_map(|member| match member.lag {
            Lag::Since(at) => Some([at + STUCK, at + PATIENCE]),
            Lag::No | Lag::Noticed => None,
        });
        times.flatten().filter(|at| *at > self.now).min()
    }

    /// Where the slowest is that is waited for.
    fn floor(&self, log: &Log) -> Option<Place> {
        if self.awaits_first {
            return Some(Place::FIRST);
        }
        let somebody_moves = self.members.values().any(|member| !self.waited(member, STUCK));
        let long = if somebody_moves { STUCK } else { PATIENCE };
        let waited_for = self.members.values().filter(|member| match member.hold {
            Hold::Always => true,
            Hold::WhileMoving => !self.waited(member, long),
            Hold::Never => false,
        });
        // Who has lost something loses no more by what comes.
        let start = log.start_offset();
        waited_for.map(|member| member.place).filter(|place| place.offset >= start).min()
    }

    /// Whether it has taken nothing for so long.
    fn waited(&self, member: &Member, long: Duration) -> bool {
        matches!(member.lag, Lag::Since(at) if self.now.since(at) >= long)
    }
}
