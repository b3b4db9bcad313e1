//! What the figures should be, and by how much they are not.

use std::fmt;

use serde::Serialize;

/// A figure beside its limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Target {
    /// Which figure of which row, and what its limit is made of.
    pub what: String,
    /// What was measured.
    pub measured: f64,
    /// The most it may be, or the least.
    pub limit: f64,
    /// Whether [`limit`](Self::limit) is the least.
    pub at_least: bool,
    /// Whether it is met.
    pub met: bool,
    #[serde(skip)]
    digits: usize,
}

impl Target {
    /// `measured` must be at most `limit`.
    pub fn at_most(what: impl Into<String>, measured: f64, limit: f64) -> Self {
        let met = measured <= limit;
        Self { what: what.into(), measured, limit, at_least: false, met, digits: digits(limit) }
    }

    /// `measured` must be at least `limit`.
    pub fn at_least(what: impl Into<String>, measured: f64, limit: f64) -> Self {
        let met = measured >= limit;
        Self { what: what.into(), measured, limit, at_least: true, met, digits: digits(limit) }
    }
}

/// Decimals that show a limit of this size to about three digits.
const fn digits(limit: f64) -> usize {
    if limit < 1.0 { 3 } else { 2 }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { measured, limit, at_least, met, digits, .. } = self;
        let sign = if *at_least { '≥' } else { '≤' };
        if *met {
            write!(f, "{sign} {limit:.digits$} ok")
        } else {
            write!(f, "{sign} {limit:.digits$} MISSED by {:.digits$}", (measured - limit).abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_says_by_how_much_it_was_missed() {
        assert_eq!(Target::at_most("x", 0.3, 0.4).to_string(), "≤ 0.400 ok");
        assert_eq!(Target::at_most("x", 0.4, 0.4).to_string(), "≤ 0.400 ok");
        assert_eq!(Target::at_most("x", 31.5, 28.0).to_string(), "≤ 28.00 MISSED by 3.50");
        assert_eq!(Target::at_least("x", 0.6, 0.5).to_string(), "≥ 0.500 ok");
        assert_eq!(Target::at_least("x", 0.4, 0.5).to_string(), "≥ 0.500 MISSED by 0.100");
    }
}
