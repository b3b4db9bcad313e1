//! The wall clock. The printer and the client are two processes on one machine, so the wall clock is what they share.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds of the wall clock (CLOCK_REALTIME) since 1970.
pub fn wall_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}

/// From `from` to `to`; negative when the clock says that it was the other way round.
pub fn difference_ns(from: u64, to: u64) -> i64 {
    to.wrapping_sub(from).cast_signed()
}

/// The UTC date of a wall-clock time, as `2026-10-13`.
pub fn date(wall_ns: u64) -> String {
    // Days to a civil date, counted in years that begin in March, so that the leap day is the last one.
    let days = wall_ns / 86_400_000_000_000 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds: u64| date(seconds * 1_000_000_000);
        assert_eq!(at(0), "1970-01-01");
        assert_eq!(at(951_782_399), "2000-02-28");
        assert_eq!(at(951_782_400), "2000-02-29");
        assert_eq!(at(1_772_323_199), "2026-02-28");
        assert_eq!(at(1_772_323_200), "2026-03-01");
        assert_eq!(at(1_798_761_599), "2026-12-31");
        assert_eq!(at(1_798_761_600), "2027-01-01");
    }

    #[test]
    fn differences_have_a_sign() {
        assert_eq!(difference_ns(5, 7), 2);
        assert_eq!(difference_ns(7, 5), -2);
    }
}
