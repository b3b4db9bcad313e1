//! When the next notices are read. One that comes alone is read at once. In a burst what comes within [`GATHER`] is read
//! together: to wake everybody up to the client for each would take most of the time that there is.

use hangar_core::Time;
use std::time::Duration;

/// How long notices wait for one another in a burst.
const GATHER: Duration = Duration::from_millis(1);

/// So many reads are at once before it is one.
const AT_ONCE: u32 = 16;

/// What is this far behind the read before it begins anew.
const LULL: Duration = Duration::from_millis(10);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Gather {
    /// Without a lull.
    reads: u32,
    last: Time,
    next: Time,
}

impl Gather {
    pub(super) const fn new() -> Self {
        Self { reads: 0, last: Time::ZERO, next: Time::ZERO }
    }

    /// Notices were read; the last of them is the first half of a rename where `ends_in_half`, whose other half is there by
    /// now or never comes.
    pub(super) fn read(&mut self, ends_in_half: bool, now: Time) {
        self.reads = if now.since(self.last) >= LULL { 1 } else { self.reads.saturating_add(1) };
        self.last = now;
        let waits = self.reads > AT_ONCE && !ends_in_half;
        self.next = if waits { now + GATHER } else { now };
    }

    /// Until when nothing is read.
    pub(super) const fn next(&self) -> Time {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Duration::from_micros(micros)
    }

    #[test]
    fn only_a_burst_is_gathered() {
        let mut gather = Gather::new();
        for round in 1..=3 {
            let begun = round * 1_000_000;
            for number in 0..16 {
                gather.read(false, at(begun + number * 50));
                assert_eq!(gather.next(), at(begun + number * 50), "round {round}, read {number}");
            }
            gather.read(false, at(begun + 800));
            assert_eq!(gather.next(), at(begun + 1_800));
            gather.read(false, at(begun + 1_900));
            assert_eq!(gather.next(), at(begun + 2_900));
        }
    }

    #[test]
    fn the_other_half_of_a_rename_is_not_waited_for() {
        let mut gather = Gather::new();
        (0..20).for_each(|number| gather.read(false, at(number)));
        gather.read(true, at(30));
        assert_eq!(gather.next(), at(30));
        gather.read(false, at(40));
        assert_eq!(gather.next(), at(1_040));
    }
}
