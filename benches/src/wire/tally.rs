//! The bytes and the lines of the text in `{"data":text}`, counted without unescaping it, so that receiving events
//! costs the client about as much as receiving plain bytes.
//!
//! That is right for text in which nothing but line breaks and quotes needs an escape, and for JSON without white
//! space; of any other text the count comes out wrong, which whoever knows what to expect sees.

use memchr::{memchr, memchr_iter};

use crate::Result;

const OPENING: &[u8] = b"{\"data\":\"";
const CLOSING: &[u8] = b"\"}";

/// Counts one line `{"data":text}`.
#[derive(Debug, Default)]
pub struct Tally {
    /// The beginning of the line: as much of it as an opening, and a space before it.
    head: Vec<u8>,
    /// The end of what has come of the line.
    tail: Vec<u8>,
    length: u64,
    backslashes: u64,
    quotes: u64,
}

/// What a line's text holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tallied {
    /// Bytes of the text.
    pub bytes: u64,
    /// Line breaks in it.
    pub lines: u64,
}

impl Tally {
    /// Counts `bytes`, and says how many of them belong to the line, its line break included, and what the line held
    /// if it is over.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(usize, Option<Tallied>)> {
        let end = memchr(b'\n', bytes);
        let piece = &bytes[..end.unwrap_or(bytes.len())];
        let missing = OPENING.len() + 1 - self.head.len();
        self.head.extend_from_slice(&piece[..piece.len().min(missing)]);
        self.tail.extend_from_slice(&piece[piece.len().saturating_sub(CLOSING.len())..]);
        self.tail.drain(..self.tail.len().saturating_sub(CLOSING.len()));
        self.length += piece.len() as u64;
        self.backslashes += memchr_iter(b'\\', piece).count() as u64;
        self.quotes += memchr_iter(b'"', piece).count() as u64;
        end.map_or(Ok((bytes.len(), None)), |end| Ok((end + 1, Some(self.tallied()?))))
    }

    fn tallied(&self) -> Result<Tallied> {
        let space = u64::from(self.head.starts_with(b" "));
        let opened = self.head.strip_prefix(b" ").unwrap_or(&self.head).starts_with(OPENING);
        let frame = space + OPENING.len() as u64 + CLOSING.len() as u64;
        let escaped_quotes = self.quotes.checked_sub(4).filter(|_| opened && self.tail == CLOSING);
        let lines = escaped_quotes.and_then(|quotes| self.backslashes.checked_sub(quotes));
        let bytes = self.length.checked_sub(frame + self.backslashes);
        let (lines, bytes) = lines.zip(bytes).ok_or("not an event that can be counted")?;
        Ok(Tallied { bytes, lines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(head: &str, tail: &str) -> Result<Tallied> {
        let mut tally = Tally::default();
        let (used, early) = tally.feed(head.as_bytes())?;
        assert_eq!((used, early), (head.len(), None));
        let (used, tallied) = tally.feed(tail.as_bytes())?;
        assert_eq!(used, tail.find('\n').unwrap() + 1);
        Ok(tallied.unwrap())
    }

    #[test]
    fn the_count_is_that_of_the_text_however_it_is_cut() {
        for text in ["", "x", "one\n", "\n\n", "a \"quoted\" line\n{\"data\":\"}\n", "é✓\n"] {
            let line = format!(" {}\nmore", serde_json::json!({ "data": text }));
            let expected = Tallied { bytes: text.len() as u64, lines: text.matches('\n').count() as u64 };
            for cut in (0..line.find('\n').unwrap()).filter(|cut| line.is_char_boundary(*cut)) {
                let (head, tail) = line.split_at(cut);
                assert_eq!(tally(head, tail).unwrap(), expected, "{line} cut at {cut}");
            }
            assert_eq!(tally("", &line[1..]).unwrap(), expected);
        }
    }

    #[test]
    fn what_has_another_frame_is_an_error() {
        for line in
            ["{\"base64\":\"aGk=\"}\n", "{\"data\":\"cut\n", "{\"data\":\"a\",\"b\":1}\n", "\n", " \"}\n"]
        {
            assert!(tally("", line).is_err(), "{line}");
        }
    }
}
