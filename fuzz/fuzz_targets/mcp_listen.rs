//! Anything that happens to an MCP subscription.
#![no_main]

use hangar_core::testing::{listen, run};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(bytes, listen::run));
