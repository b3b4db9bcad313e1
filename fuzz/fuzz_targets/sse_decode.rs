//! Any bytes as an event stream, in any pieces.
#![no_main]

use hangar_core::testing::{run, sse};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(bytes, sse::run_decode));
