//! A point on the shell's monotonic clock.

use std::{fmt, ops::Add, time::Duration};

/// Nanoseconds since a start that only the shell knows.
///
/// Unlike [`std::time::Instant`] it can be written into a corpus or a trace and compared across runs, and its
/// arithmetic saturates instead of panicking. Deadlines are absolute `Time`s; a `Duration` is a setting.
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Time(u64);

impl Time {
    /// The shell's start.
    pub const ZERO: Self = Self(0);

    /// The point `nanos` nanoseconds after the shell's start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the shell's start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time that passed since `earlier`; zero if that is later than `self`.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// The point `duration` later; the last representable one (584 years) if that is past it.
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let late = Time::from_nanos(u64::MAX - 1);
        assert_eq!(late + Duration::from_secs(5), Time::from_nanos(u64::MAX));
        assert_eq!(Time::ZERO + Duration::MAX, Time::from_nanos(u64::MAX));
        assert_eq!(Time::from_nanos(3).since(Time::from_nanos(5)), Duration::ZERO);
        assert_eq!(Time::from_nanos(5).since(Time::from_nanos(3)), Duration::from_nanos(2));
        assert_eq!(late.as_nanos(), u64::MAX - 1);
    }

    #[test]
    fn is_written_in_seconds() {
        assert_eq!(format!("{:?}", Time::from_nanos(12_345_000_000)), "12.345000000s");
    }
}
