//! The messages of a stream, cut anywhere.
#![no_main]

use hangar_core::testing::{connect, run};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(bytes, connect::run));
