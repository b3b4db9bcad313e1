//! Reports of processes without a daemon: nothing makes the reader panic, and what is read is written as it was read.
#![no_main]

use hangar_core::testing::detached;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| detached::run(bytes));
