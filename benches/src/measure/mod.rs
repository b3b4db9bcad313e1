//! The measurements. Each starts what it needs, runs its rows interleaved, checks that nothing is missing, and ends
//! what it started.

pub mod company;
pub mod exit;
pub mod latency;
pub mod memory;
pub mod notices;
pub mod quiet;
pub mod sessions;
pub mod sink;
pub mod stall;
pub mod throughput;
pub mod watch;

use std::io::{IsTerminal as _, Write as _, stderr};

/// A line of progress on a terminal, overwritten by the next one; nothing anywhere else.
pub fn progress(line: &str) {
    if stderr().is_terminal() {
        // Progress that cannot be shown is no reason to stop.
        _ = write!(stderr(), "\r\x1b[K{line}").and_then(|()| stderr().flush());
    }
}
