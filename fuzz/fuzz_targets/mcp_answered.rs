//! Anything that happens to an MCP call while it is answered.
#![no_main]

use hangar_core::testing::{mcp, run};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(bytes, mcp::run_answered));
