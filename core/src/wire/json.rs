//! The one piece of JSON that is written for every message: a string of output, as text or as base64, straight into the message's buffer.
//!
//! Everything else goes through serde.

use crate::text::Text;
use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::{BufMut, BytesMut};

/// Appends `text` as the inside of a JSON string: quotes, backslashes and control characters are escaped (RFC 8259,
/// section 7), the rest is copied in runs.
pub fn escape_into(text: &str, out: &mut BytesMut) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + bytes.len() / 16 + 8);
    let mut done = 0;
    while let Some(at) = next_special(&bytes[done..]) {
        out.put_slice(&bytes[done..done + at]);
        done += at + 1;
        let escape: &[u8] = match bytes[done - 1] {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0x08 => b"\\b",
            0x0C => b"\\f",
            control => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.put_slice(b"\\u00");
                out.put_u8(HEX[usize::from(control >> 4)]);
                out.put_u8(HEX[usize::from(control & 15)]);
                continue;
            }
        };
        out.put_slice(escape);
    }
    out.put_slice(&bytes[done..]);
}

/// Appends output as base64, which needs no escape: in place, without a copy of it in between.
pub fn base64_into(text: &Text, out: &mut BytesMut) {
    let [head, body] = text.bytes();
    let joined;
    let bytes = if head.is_empty() {
        body
    } else {
        joined = [head, body].concat();
        &joined
    };
    base64_bytes_into(bytes, out);
}

/// The same of bytes in one piece.
pub fn base64_bytes_into(bytes: &[u8], out: &mut BytesMut) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    // The space is exactly what standard base64 needs, so this cannot fail; nothing is left if it did.
    let written = BASE64_STANDARD.encode_slice(bytes, &mut out[start..]).unwrap_or(0);
    out.truncate(start + written);
}

const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The first byte that needs an escape. Blocks without one are passed over by code without a branch, which the
/// compiler turns into vector code; in the block that has one it is found eight bytes at a time.
fn next_special(bytes: &[u8]) -> Option<usize> {
    let (blocks, _) = bytes.as_chunks::<32>();
    let clean =
        blocks.iter().take_while(|block| !block.iter().fold(false, |any, byte| any | is_special(*byte)));
    let start = clean.count() * 32;
    let (words, rest) = bytes[start..].as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let special = specials(u64::from_le_bytes(*word));
        if special != 0 {
            return Some(start + i * 8 + special.trailing_zeros() as usize / 8);
        }
    }
    let start = bytes.len() - rest.len();
    rest.iter().position(|byte| is_special(*byte)).map(|at| start + at)
}

/// The high bit of each byte that needs an escape, exact up to the first such byte: what a subtraction borrows reaches
/// only the bytes above.
const fn specials(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES * 0x80;
    const fn below(word: u64, limit: u8) -> u64 {
        word.wrapping_sub(ONES * limit as u64) & !word
    }
    let quote = below(word ^ (ONES * b'"' as u64), 1);
    let backslash = below(word ^ (ONES * b'\\' as u64), 1);
    (below(word, 0x20) | quote | backslash) & HIGH
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn escaped(text: &str) -> String {
        let mut out = BytesMut::new();
        escape_into(text, &mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn every_control_character_is_escaped() {
        let all: String = (0..0x20u8).map(char::from).chain(['"', '\\', '/', '\u{7f}', '€']).collect();
        assert_eq!(
            escaped(&all),
            "\\u0000\\u0001\\u0002\\u0003\\u0004\\u0005\\u0006\\u0007\\b\\t\\n\\u000b\\f\\r\\u000e\\u000f\\u0010\
             \\u0011\\u0012\\u0013\\u0014\\u0015\\u0016\\u0017\\u0018\\u0019\\u001a\\u001b\\u001c\\u001d\\u001e\
             \\u001f\\\"\\\\/\u{7f}€"
        );
    }

    proptest! {
        #[test]
        fn reads_back_as_it_was(text in prop_oneof![".*", "[\\x00-\\x1f\"\\\\a]{0,200}", "[a-z€]{20,120}"]) {
            let json = format!("\"{}\"", escaped(&text));
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }
}
