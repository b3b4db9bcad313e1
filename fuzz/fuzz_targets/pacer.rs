//! A pacer at any times.
#![no_main]

use hangar_core::testing::{pace, run};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(bytes, pace::run));
