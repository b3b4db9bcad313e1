//! Samples to figures.

use serde::Serialize;

/// The `percent`th percentile by the nearest rank: a value that was measured, never one in between. `None` without
/// samples.
pub fn percentile<T: Copy + PartialOrd>(samples: &[T], percent: u32) -> Option<T> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let rank = (sorted.len() * percent as usize).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// Half of the samples are below it, half above. `None` without samples.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { f64::midpoint(sorted[middle - 1], upper) })
}

/// The middle and the tail of many durations, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Half took at most this long.
    pub p50_ms: f64,
    /// Nineteen of twenty took at most this long.
    pub p95_ms: f64,
}

impl Spread {
    /// Of durations in nanoseconds. `None` without samples.
    pub fn of_ns(samples: &[i64]) -> Option<Self> {
        Some(Self { p50_ms: ms(percentile(samples, 50)?), p95_ms: ms(percentile(samples, 95)?) })
    }
}

/// Nanoseconds as milliseconds.
pub fn ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let samples: Vec<i64> = (1..=100).rev().collect();
        assert_eq!(percentile(&samples, 50), Some(50));
        assert_eq!(percentile(&samples, 95), Some(95));
        assert_eq!(percentile(&samples, 100), Some(100));
        assert_eq!(percentile(&samples, 0), Some(1));
        assert_eq!(percentile(&[15, 20, 35, 40, 50], 30), Some(20));
        assert_eq!(percentile(&[7], 95), Some(7));
        assert_eq!(percentile::<i64>(&[], 50), None);
    }

    #[test]
    fn medians_of_odd_even_and_nothing() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn spreads_are_in_milliseconds() {
        let samples: Vec<i64> = (1..=20).map(|n| n * 1_000_000).collect();
        assert_eq!(Spread::of_ns(&samples), Some(Spread { p50_ms: 10.0, p95_ms: 19.0 }));
        assert_eq!(Spread::of_ns(&[]), None);
    }
}
