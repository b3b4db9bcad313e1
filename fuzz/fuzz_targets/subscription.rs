//! A daemon's process and those who follow it: who reads on loses nothing, and who does not holds up nobody for long.
#![no_main]

use hangar_core::testing::{run, subscription};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(bytes, subscription::run));
