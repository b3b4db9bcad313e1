//! A watched directory, whose contents change while it is watched.
#![no_main]

use hangar_core::testing::{run, watch};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(bytes, watch::run));
