//! Limits under any sequence of leases.
#![no_main]

use hangar_core::testing::{limits, run};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(bytes, limits::run));
