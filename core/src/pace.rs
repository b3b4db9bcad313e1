//! How fast one stream may go: bytes a second, with a price on each message.

use crate::Time;

/// What a message costs beyond its own bytes, so that output a byte at a time cannot become a flood of messages.
pub const MESSAGE_COST: u64 = 64;

const NANOS: i128 = 1_000_000_000;

/// A token bucket in which each message costs its length and [`MESSAGE_COST`] more. Its burst is one second's
/// worth.
///
/// A message may go while the level is above zero, and then takes it below: so a message of any length can be sent,
/// the excess over rate and burst is never more than one message, and the long-run rate is exact. The level is kept
/// in byte-nanoseconds; nothing is rounded.
#[derive(Clone, Debug)]
pub struct Pacer {
    rate: i128,
    level: i128,
    updated: Time,
}

impl Pacer {
    /// A full bucket of `rate` bytes a second (at least 1).
    pub fn new(rate: u64, now: Time) -> Self {
        let rate = i128::from(rate.max(1));
        Self { rate, level: rate * NANOS, updated: now }
    }

    /// Whether a message may go now; otherwise when to ask again, which is later than `now`.
    pub fn ready(&mut self, now: Time) -> Result<(), Time> {
        let elapsed = now.since(self.updated).as_nanos() as i128;
        self.updated = self.updated.max(now);
        self.level = self.level.saturating_add(elapsed.saturating_mul(self.rate)).min(self.rate * NANOS);
        if self.level > 0 {
            return Ok(());
        }
        let nanos = u64::try_from(-self.level / self.rate + 1).unwrap_or(u64::MAX);
        Err(Time::from_nanos(self.updated.as_nanos().saturating_add(nanos)))
    }

    /// Pays for a message of `len` bytes that has gone.
    pub fn charge(&mut self, len: usize) {
        self.level -= i128::from((len as u64).saturating_add(MESSAGE_COST)) * NANOS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_costs_its_length_and_64() {
        let (start, second) = (Time::from_nanos(5), 1_000_000_000);
        let at = |nanos: u64| Time::from_nanos(5 + nanos);
        let mut pacer = Pacer::new(100, start);
        pacer.charge(36);
        // One second's worth is used up to the last byte: the next message waits for more than nothing.
        assert_eq!(pacer.ready(start), Err(at(1)));
        assert_eq!(pacer.ready(at(1)), Ok(()));
        // A message may be larger than what is left, and the next one waits for it.
        pacer.charge(136);
        assert_eq!(pacer.ready(at(1)), Err(at(2 * second + 1)));
        assert_eq!(pacer.ready(at(2 * second)), Err(at(2 * second + 1)));
        assert_eq!(pacer.ready(start), Err(at(2 * second + 1)), "the clock went back");
        assert_eq!(pacer.ready(at(2 * second + 1)), Ok(()));
        // However long nothing is sent, there is one second's worth.
        assert_eq!(pacer.ready(at(1_000_000 * second)), Ok(()));
        pacer.charge(36);
        assert!(pacer.ready(at(1_000_000 * second)).is_err());
    }

    #[test]
    fn no_rate_is_one_byte_a_second() {
        let mut pacer = Pacer::new(0, Time::ZERO);
        pacer.charge(0);
        assert_eq!(pacer.ready(Time::ZERO), Err(Time::from_nanos(63_000_000_001)));
    }
}
