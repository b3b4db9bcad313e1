//! A log and its readers under any sequence of output and reading.
#![no_main]

use hangar_core::testing::{log, run};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(bytes, log::run));
