//! A reader that comes and goes, with its process, under any sequence of inputs, commands and polls.
#![no_main]

use hangar_core::testing::{attach, run};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(bytes, attach::run));
