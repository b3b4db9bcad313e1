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
//! Who is not waited for falls out of the ring as the process goes on, and is told so.

use crate::{
    Time,
    log::{PACKET_MAX, Reader},
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
    members: BTreeMap<u64, Member>,
    next_id: u64,
    /// Nobody came yet, and somebody will.
    awaits_first: bool,
    now: Time,
}

#[derive(Debug)]
struct Member {
    hold: Hold,
    offset: u64,
    lag: Lag,
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
    /// Nobody yet. Readers that are waited for are at most `window` bytes behind; where `awaits_first`, so is the first.
    pub(crate) const fn new(window: usize, awaits_first: bool, now: Time) -> Self {
        Self { window: window as u64, members: BTreeMap::new(), next_id: 0, awaits_first, now }
    }

    /// One more.
    pub(crate) fn join(&mut self, reader: Reader, hold: Hold) -> Seat {
        let id = self.next_id;
        self.next_id += 1;
        self.awaits_first = false;
        self.members.insert(id, Member { hold, offset: reader.offset(), lag: Lag::Noticed });
        Seat { reader, id }
    }

    /// It took something.
    pub(crate) fn handle_taken(&mut self, seat: &Seat) {
        if let Some(member) = self.members.get_mut(&seat.id) {
            member.offset = seat.reader.offset();
            member.lag = Lag::Noticed;
        }
    }

    /// It is gone.
    pub(crate) fn leave(&mut self, seat: &Seat) {
        self.members.remove(&seat.id);
    }

    /// The offset below which nobody has anything to read; None where nobody is there.
    pub(crate) fn lowest(&self) -> Option<u64> {
        if self.awaits_first {
            return Some(0);
        }
        self.members.values().map(|member| member.offset).min()
    }

    /// How many bytes may come now, where the log is at `end`.
    pub(crate) fn room(&self, end: u64) -> usize {
        let Some(floor) = self.floor() else { return usize::MAX };
        let room = self.window.saturating_sub(end.saturating_sub(floor));
        let packet = PACKET_MAX as u64;
        let room = if room < packet && self.window >= 2 * packet { 0 } else { room };
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    /// Lets time pass. Returns when to do so again, where that may give the process room.
    pub(crate) fn handle_time(&mut self, now: Time, end: u64) -> Option<Time> {
        self.now = self.now.max(now);
        for member in self.members.values_mut() {
            member.lag = match member.lag {
                Lag::No | Lag::Noticed if member.offset >= end => Lag::No,
                Lag::No | Lag::Noticed => Lag::Since(self.now),
                Lag::Since(at) => Lag::Since(at),
            };
        }
        if self.room(end) > 0 {
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
    fn floor(&self) -> Option<u64> {
        if self.awaits_first {
            return Some(0);
        }
        let lowest = |wanted: &dyn Fn(&Member) -> bool| {
            self.members.values().filter(|member| wanted(member)).map(|member| member.offset).min()
        };
        let always = lowest(&|member| member.hold == Hold::Always);
        let moving = lowest(&|member| member.hold == Hold::WhileMoving && !self.waited(member, STUCK));
        let patient = || lowest(&|member| member.hold == Hold::WhileMoving && !self.waited(member, PATIENCE));
        let moving = moving.or_else(patient);
        always.into_iter().chain(moving).min()
    }

    /// Whether it has taken nothing for so long.
    fn waited(&self, member: &Member, long: Duration) -> bool {
        matches!(member.lag, Lag::Since(at) if self.now.since(at) >= long)
    }
}
