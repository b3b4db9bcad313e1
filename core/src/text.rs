//! Bytes to text, a piece at a time, without cutting a character.

use bytes::{Buf, Bytes};

/// What stands for bytes that are not UTF-8: U+FFFD, once per maximal bad sequence, as the Unicode Standard
/// recommends (chapter 3, "U+FFFD Substitution of Maximal Subparts") and the WHATWG decoder does.
pub const REPLACEMENT: &str = "\u{FFFD}";

/// Holds back the start of a character until the rest of it comes.
///
/// The pieces it gives out can each be decoded alone; together they decode to the same text as the whole output does
/// at once. Each channel of a process has its own.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Decoder {
    held: [u8; 3],
    len: u8,
}

/// A piece of output that ends at a character's end: its bytes are a character that was held back, if any, and then
/// a slice of what was read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Text {
    head: [u8; 4],
    head_len: u8,
    body: Bytes,
}

impl Decoder {
    /// A decoder that goes on after `before`, of which only an unfinished character at the end counts.
    pub fn after(before: &[u8]) -> Self {
        let mut decoder = Self::default();
        decoder.hold(&before[before.len() - unfinished(before)..]);
        decoder
    }

    /// Takes the next bytes and gives out all that is complete.
    pub fn push(&mut self, mut data: Bytes) -> Text {
        let mut text = Text::default();
        if self.len > 0 {
            // At most three bytes finish, or spoil, what is held.
            let mut head = [0; 4];
            let mut len = usize::from(self.len);
            head[..len].copy_from_slice(&self.held[..len]);
            loop {
                let Some(&next) = data.first() else {
                    self.hold(&head[..len]);
                    return text;
                };
                head[len] = next;
                let (taken, done) = match std::str::from_utf8(&head[..=len]) {
                    Ok(_) => (1, true),
                    Err(error) if error.error_len().is_none() => (1, false),
                    // A byte that cannot go on stays where it is: it begins something else.
                    Err(_) => (0, true),
                };
                len += taken;
                data.advance(taken);
                if done {
                    break;
                }
            }
            self.len = 0;
            (text.head, text.head_len) = (head, len as u8);
        }
        let keep = data.len() - unfinished(&data);
        self.hold(&data[keep..]);
        data.truncate(keep);
        text.body = data;
        text
    }

    /// What is still held when the output has ended: an unfinished character, which decodes to U+FFFD.
    pub fn finish(&mut self) -> Text {
        let mut text = Text { head_len: self.len, ..Text::default() };
        text.head[..3].copy_from_slice(&self.held);
        self.len = 0;
        text
    }

    /// Whether nothing is held back.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn hold(&mut self, bytes: &[u8]) {
        self.held[..bytes.len()].copy_from_slice(bytes);
        self.len = bytes.len() as u8;
    }
}

impl Text {
    /// Bytes that were printed; what they decode to may be longer.
    pub fn len(&self) -> usize {
        usize::from(self.head_len) + self.body.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text, in pieces that need no copy.
    pub fn pieces(&self) -> impl Iterator<Item = &str> {
        // Output is text far more often than not, and is checked many times faster as a whole than in chunks.
        let (whole, mixed) = match std::str::from_utf8(&self.body) {
            Ok(text) => (text, &[][..]),
            Err(_) => ("", &self.body[..]),
        };
        let lossy = |bytes| {
            <[u8]>::utf8_chunks(bytes)
                .flat_map(|chunk| [chunk.valid(), if chunk.invalid().is_empty() { "" } else { REPLACEMENT }])
        };
        let head = &self.head[..usize::from(self.head_len)];
        lossy(head).chain([whole]).chain(lossy(mixed)).filter(|piece| !piece.is_empty())
    }

    /// The bytes, as they were printed.
    pub fn bytes(&self) -> [&[u8]; 2] {
        [&self.head[..usize::from(self.head_len)], &self.body]
    }

    /// Cuts it to at most `max` bytes, wherever that is.
    pub fn truncate_bytes(&mut self, max: usize) {
        self.head_len = self.head_len.min(u8::try_from(max).unwrap_or(u8::MAX));
        self.body.truncate(max - usize::from(self.head_len));
    }

    /// Cuts it to at most `max` bytes, at a character's end.
    pub fn truncate(&mut self, max: usize) {
        let head = usize::from(self.head_len);
        if self.len() <= max {
            return;
        }
        let Some(body) = max.checked_sub(head) else {
            *self = Self::default();
            return;
        };
        let keep = body - unfinished(&self.body[..body]);
        self.body.truncate(keep);
    }
}

impl From<Bytes> for Text {
    /// Bytes as they are, wherever they are cut.
    fn from(body: Bytes) -> Self {
        Self { body, ..Self::default() }
    }
}

/// How many bytes at the end of `bytes` begin a character that is not finished, and could be: 0 to 3.
fn unfinished(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    for len in 1..=tail.len() {
        let start = &tail[tail.len() - len..];
        match start[0] {
            0x80..=0xBF => {}
            _ => {
                return match std::str::from_utf8(start) {
                    Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => len,
                    Ok(_) | Err(_) => 0,
                };
            }
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> String {
        let mut decoder = Decoder::default();
        let mut out = String::new();
        for piece in pieces {
            out.extend(decoder.push(Bytes::copy_from_slice(piece)).pieces());
        }
        out.extend(decoder.finish().pieces());
        out
    }

    #[test]
    fn a_character_cut_in_two_arrives_whole() {
        assert_eq!(decode(&[b"\xe2\x82", b"\xac euro\n"]), "€ euro\n");
        assert_eq!(decode(&[b"cleanup \xe2", b"\x80\x94 end"]), "cleanup — end");
        assert_eq!(decode(&[b"\xf0", b"\x9f", b"\x98", b"\x80!"]), "😀!");
    }

    #[test]
    fn the_end_gives_up_what_is_held() {
        assert_eq!(decode(&[b"a\xe2\x82"]), "a\u{FFFD}");
        assert_eq!(decode(&[b"a\xf0\x9f", b""]), "a\u{FFFD}");
    }

    #[test]
    fn a_spoilt_character_is_one_replacement_and_what_spoilt_it_stays() {
        assert_eq!(decode(&[b"\xe2\x82", b"A"]), "\u{FFFD}A");
        assert_eq!(decode(&[b"\xe2", b"\xe2\x82\xac"]), "\u{FFFD}€");
        assert_eq!(decode(&[b"\xf0\x9f", b"\x98", b"\xff"]), "\u{FFFD}\u{FFFD}");
        assert_eq!(decode(&[b"\xed", b"\xa0\x80"]), "\u{FFFD}\u{FFFD}\u{FFFD}"); // a surrogate
    }

    #[test]
    fn is_cut_at_a_character() {
        let mut text = Decoder::default().push(Bytes::from_static("a€b".as_bytes()));
        text.truncate(3);
        assert_eq!(text.pieces().collect::<String>(), "a");
        let mut decoder = Decoder::after(b"x\xe2\x82");
        let mut text = decoder.push(Bytes::from_static(b"\xacdef"));
        assert_eq!(text.len(), 6);
        text.truncate(4);
        assert_eq!(text.pieces().collect::<String>(), "€d");
        text.truncate(2);
        assert!(text.is_empty());
    }
}
