//! Output in any pieces, decoded to text, from the start and from any cursor.
#![no_main]

use hangar_core::testing::{run, text};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(bytes, text::run));
