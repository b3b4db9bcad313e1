//! Any data as events, there and back.
#![no_main]

use hangar_core::testing::{run, sse};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(bytes, sse::run_round_trip));
