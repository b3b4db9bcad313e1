//! A process under any sequence of inputs, commands and polls.
#![no_main]

use hangar_core::testing::{process, run};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(bytes, process::run));
