//! Anything that a client follows, and when it changes.
#![no_main]

use hangar_core::testing::{changes, run};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(bytes, changes::run));
