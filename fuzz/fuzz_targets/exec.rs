//! A command's stream, with its process, under any sequence of inputs, commands and polls.
#![no_main]

use hangar_core::testing::{exec, run};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(bytes, exec::run));
