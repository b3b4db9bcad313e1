//! The messages of envd's protocol in JSON: nothing makes the decoder panic, and what is read is the same in both forms.
#![no_main]

use hangar_core::testing::envd;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| envd::run_json(bytes));
