//! The end of output in any pieces.
#![no_main]

use hangar_core::testing::{run, tail};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(bytes, tail::run));
