//! The last events of a watch, and who reads them.
#![no_main]

use hangar_core::testing::{run, watch};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(bytes, watch::run_history));
