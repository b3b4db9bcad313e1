//! What clients of the process protocol send and get: nothing makes the decoders panic, and what they read is written as
//! it was.
#![no_main]

use hangar_core::testing::control;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| control::run(bytes));
