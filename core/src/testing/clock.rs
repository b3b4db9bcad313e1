//! Time as a scenario tells it.

use super::draw;
use crate::Time;
use arbitrary::Arbitrary;
use std::time::Duration;

/// A change of the clock.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Tick {
    /// It goes on.
    Advance(#[arbitrary(with = draw::duration)] Duration),
    /// To the time that the machine asked for last, or a nanosecond before or after it.
    Deadline(#[arbitrary(with = draw::nudge)] i8),
    /// It steps back.
    Back(#[arbitrary(with = draw::duration)] Duration),
}

/// The shell's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// What it shows.
    pub now: Time,
    /// What the machine asked for last.
    pub asked: Option<Time>,
}

impl Clock {
    /// Where every scenario begins.
    pub const START: Time = Time::from_nanos(1_000_000_007);

    /// Shows [`Clock::START`].
    pub const fn new() -> Self {
        Self { now: Self::START, asked: None }
    }

    /// Changes it.
    pub fn tick(&mut self, tick: Tick) {
        self.now = match tick {
            Tick::Advance(duration) => self.now + duration,
            Tick::Back(duration) => {
                Time::from_nanos(self.now.as_nanos().saturating_sub(duration.as_nanos() as u64))
            }
            Tick::Deadline(nudge) => match self.asked {
                Some(at) => Time::from_nanos(at.as_nanos().saturating_add_signed(i64::from(nudge))),
                None => self.now,
            },
        };
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}
