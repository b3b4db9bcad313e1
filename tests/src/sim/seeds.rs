//! Which seeds a test runs.

use std::hash::{BuildHasher, RandomState};

/// The environment variable that names the one seed to run.
const VARIABLE: &str = "SIM_SEED";

/// The environment variable that says how many of the fixed seeds to run, for a longer look.
const COUNT: &str = "SIM_COUNT";

/// Seeds that nobody has run before, in addition to the fixed ones.
const FRESH: u64 = 4;

/// Runs `scenario` with the seeds below `fixed` and a few fresh ones; or with the one that `SIM_SEED` names. Each is
/// printed before it runs.
///
/// # Panics
///
/// If `SIM_SEED` or `SIM_COUNT` is no number.
pub fn each(fixed: u64, mut scenario: impl FnMut(u64)) {
    if let Ok(seed) = std::env::var(VARIABLE) {
        scenario(announced(seed.parse().expect("SIM_SEED is a number")));
        return;
    }
    let fixed = std::env::var(COUNT).map_or(fixed, |count| count.parse().expect("SIM_COUNT is a number"));
    let fresh = (0..FRESH).map(|i| RandomState::new().hash_one(i));
    (0..fixed).chain(fresh).for_each(|seed| scenario(announced(seed)));
}

fn announced(seed: u64) -> u64 {
    println!("{VARIABLE}={seed}");
    seed
}
