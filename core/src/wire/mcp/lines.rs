//! A stream of bytes to lines, of which each is a message.

use bytes::BytesMut;

/// Cuts input into lines. A line that is longer than may be is told once, and passed over.
#[derive(Debug)]
pub struct Lines {
    max: usize,
    read: BytesMut,
    /// How much of it has no line end in it.
    looked: usize,
    /// The rest of a line that is too long is passed over.
    skipping: bool,
}

/// A line of input.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Line {
    /// Without its end.
    Whole(BytesMut),
    /// One that was longer than may be.
    TooLong,
}

impl Lines {
    /// Takes lines of at most `max` bytes, their ends not counted.
    pub fn new(max: usize) -> Self {
        Self { max, read: BytesMut::new(), looked: 0, skipping: false }
    }

    /// More input. Lines are to be taken before there is more: what waits is not bounded otherwise.
    pub fn push(&mut self, bytes: &[u8]) {
        self.read.extend_from_slice(bytes);
    }

    /// The input has ended: what has no line end is a line, too.
    pub fn end(&mut self) {
        if !self.read.is_empty() || self.skipping {
            self.push(b"\n");
        }
    }

    /// Bytes that wait for the end of their line, or to be taken.
    pub fn held(&self) -> usize {
        self.read.len()
    }

    /// The next line that is whole.
    pub fn next_line(&mut self) -> Option<Line> {
        loop {
            let Some(end) = memchr::memchr(b'\n', &self.read[self.looked..]).map(|at| self.looked + at)
            else {
                self.looked = self.read.len();
                if self.read.len() <= self.max {
                    return None;
                }
                self.read.clear();
                self.looked = 0;
                return (!std::mem::replace(&mut self.skipping, true)).then_some(Line::TooLong);
            };
            let mut line = self.read.split_to(end + 1);
            line.truncate(end);
            self.looked = 0;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            return Some(if line.len() > self.max { Line::TooLong } else { Line::Whole(line) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    const MAX: usize = 5;

    /// The lengths of the lines; None for one that is too long.
    fn lines(pieces: &[Vec<u8>]) -> Vec<Option<usize>> {
        let (mut lines, mut all) = (Lines::new(MAX), Vec::new());
        let mut take = |lines: &mut Lines| {
            while let Some(line) = lines.next_line() {
                all.push(match line {
                    Line::Whole(line) => Some(line.len()),
                    Line::TooLong => None,
                });
            }
            assert!(lines.held() <= MAX);
        };
        for piece in pieces {
            lines.push(piece);
            take(&mut lines);
        }
        lines.end();
        take(&mut lines);
        all
    }

    #[test]
    fn lines_end_where_they_do_and_the_last_at_the_end() {
        let pieces =
            |pieces: &[&str]| pieces.iter().map(|piece| piece.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(lines(&pieces(&["a\nbc\n\n", "d", "ef"])), [Some(1), Some(2), Some(0), Some(3)]);
        assert_eq!(lines(&pieces(&["12345", "\nb\n"])), [Some(5), Some(1)]);
        assert_eq!(lines(&pieces(&["12345", "6\nb\n"])), [None, Some(1)]);
        assert_eq!(lines(&pieces(&["123456\nb", "c"])), [None, Some(2)]);
        assert_eq!(lines(&pieces(&["12345", "678901", "2345678"])), [None]);
    }

    proptest! {
        #[test]
        fn however_the_input_is_cut(pieces in vec(vec(prop_oneof![Just(b'\n'), Just(b'x')], 0..8), 0..12)) {
            let whole = pieces.concat();
            let mut expected: Vec<&[u8]> = whole.split(|byte| *byte == b'\n').collect();
            if expected.last().is_some_and(|last| last.is_empty()) {
                expected.pop();
            }
            let expected: Vec<Option<usize>> =
                expected.iter().map(|line| (line.len() <= MAX).then_some(line.len())).collect();
            prop_assert_eq!(lines(&pieces), expected);
        }
    }
}
