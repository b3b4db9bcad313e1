//! The last of an output.

use std::collections::VecDeque;

/// Keeps the last `max` bytes that went through it, in memory that grows with what there is.
#[derive(Clone, Debug)]
pub struct Tail {
    max: usize,
    bytes: VecDeque<u8>,
    truncated: bool,
}

impl Tail {
    /// Keeps at most `max` bytes.
    pub const fn new(max: usize) -> Self {
        Self { max, bytes: VecDeque::new(), truncated: false }
    }

    /// Takes output.
    pub fn push(&mut self, data: &[u8]) {
        let data = match data.len().checked_sub(self.max) {
            Some(over) if over > 0 || !self.bytes.is_empty() => {
                self.truncated = true;
                self.bytes.clear();
                &data[over..]
            }
            Some(_) | None => data,
        };
        let over = (self.bytes.len() + data.len()).saturating_sub(self.max);
        if over > 0 {
            self.truncated = true;
            self.bytes.drain(..over);
        }
        self.bytes.extend(data);
    }

    /// Whether there was more than is kept.
    pub const fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Bytes that are kept.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes that are kept, exactly as they came.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes.into()
    }

    /// Bytes at the beginning that [`into_text`](Self::into_text) may leave out: the rest of a character that was cut.
    pub fn cut(&self) -> usize {
        let rest = |bytes: &u8| matches!(bytes, 0x80..=0xBF);
        if self.truncated { self.bytes.iter().take(3).take_while(|byte| rest(byte)).count() } else { 0 }
    }

    /// What is kept as text. Where its beginning is gone it starts at a character, not inside one; what is not UTF-8
    /// becomes U+FFFD.
    pub fn into_text(self) -> String {
        let start = self.cut();
        let bytes = self.into_bytes();
        match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(&error.as_bytes()[start..]).into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(max: usize, pieces: &[&str]) -> Tail {
        let mut tail = Tail::new(max);
        pieces.iter().for_each(|piece| tail.push(piece.as_bytes()));
        tail
    }

    #[test]
    fn the_last_bytes_are_kept() {
        assert_eq!(tail(4, &["ab", "cd"]).into_bytes(), b"abcd");
        assert_eq!(tail(4, &["ab", "cde"]).into_bytes(), b"bcde");
        assert_eq!(tail(4, &["ab", "cdefgh"]).into_bytes(), b"efgh");
        assert!(!tail(4, &["abcd", ""]).is_truncated());
        assert!(tail(4, &["a", "bcde"]).is_truncated());
        assert!(tail(0, &["a"]).is_truncated() && !tail(0, &[""]).is_truncated());
    }

    #[test]
    fn text_begins_at_a_character() {
        assert_eq!(tail(4, &["a€b"]).into_text(), "€b");
        assert_eq!(tail(3, &["a€b"]).into_text(), "b");
        assert_eq!(tail(2, &["a€b"]).into_text(), "b");
        assert_eq!(tail(3, &["a😀"]).into_text(), "");
        // What was no text is told, unless the cut may have made it so.
        let mut all = Tail::new(4);
        all.push(b"\x80a\xff");
        assert_eq!(all.into_text(), "\u{FFFD}a\u{FFFD}");
    }
}
