//! The messages of the process protocol: whatever is read is written as it was read.

use crate::wire::process::{ClientControl, HEADER_LEN, Header, ServerControl};

/// Reads bytes as each kind of message.
pub fn run(bytes: &[u8]) {
    match Header::decode(bytes) {
        Ok((header, data)) => assert_eq!([&header.encode()[..], data].concat(), bytes),
        Err(_) => assert!(bytes.len() < HEADER_LEN || !(1..=3).contains(&bytes[8])),
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(control) = ClientControl::decode(text) {
        assert_eq!(ClientControl::decode(&control.encode()), Ok(control));
    }
    if let Ok(control) = serde_json::from_str::<ServerControl>(text) {
        assert_eq!(serde_json::from_str::<ServerControl>(&control.encode()).ok(), Some(control));
    }
}
