//! What the measurements do with the payload: count it, or look at each line.

use crate::{
    Result,
    clock::difference_ns,
    printer::{FLOOD_LINE, parse_flood, parse_stamp},
    wire::{Sink, tally::Tallied},
};

/// Counts bytes and lines.
#[derive(Debug, Default)]
pub struct Count {
    /// Bytes of payload.
    pub bytes: u64,
    /// Line breaks in it.
    pub lines: u64,
}

impl Sink for Count {
    const TALLIES: bool = true;

    fn payload(&mut self, _at_ns: u64, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
    }

    fn tally(&mut self, Tallied { bytes, lines }: Tallied) {
        self.bytes += bytes;
        self.lines += lines;
    }
}

impl Count {
    /// Whether this is what a flood of `lines` lines prints.
    pub fn check(&self, lines: u64) -> Result<()> {
        let bytes = lines * FLOOD_LINE as u64;
        if (self.lines, self.bytes) == (lines, bytes) {
            return Ok(());
        }
        let Self { bytes: got_bytes, lines: got_lines } = self;
        Err(format!("{got_lines} lines in {got_bytes} bytes came of {lines} lines in {bytes} bytes").into())
    }
}

/// Cuts payload into lines, and gives each to a function with the time at which its last byte came.
#[derive(Debug)]
pub(super) struct Lines {
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
}

impl Lines {
    pub(super) const fn new() -> Self {
        Self { begun: Vec::new() }
    }

    pub(super) fn feed(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8])) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            if self.begun.is_empty() {
                line(&bytes[..end]);
            } else {
                self.begun.extend_from_slice(&bytes[..end]);
                line(&self.begun);
                self.begun.clear();
            }
            bytes = &bytes[end + 1..];
        }
        self.begun.extend_from_slice(bytes);
    }
}

/// Takes the lines of the printer that stamps them.
#[derive(Debug)]
pub struct Stamps {
    lines: Lines,
    /// For each line: when it was printed, and when it came.
    times: Vec<(u64, u64)>,
    /// The first line that was not the one expected.
    wrong: Option<String>,
}

impl Default for Stamps {
    fn default() -> Self {
        Self { lines: Lines::new(), times: Vec::new(), wrong: None }
    }
}

impl Sink for Stamps {
    fn payload(&mut self, at_ns: u64, bytes: &[u8]) {
        let Self { lines, times, wrong } = self;
        lines.feed(bytes, |line| match parse_stamp(line) {
            Some((number, printed_ns)) if number as usize == times.len() => times.push((printed_ns, at_ns)),
            Some(_) | None => {
                wrong.get_or_insert_with(|| String::from_utf8_lossy(line).into_owned());
            }
        });
    }
}

impl Stamps {
    /// Whether exactly `lines` lines came, in order.
    pub fn check(&self, lines: u32) -> Result<()> {
        if let Some(wrong) = &self.wrong {
            return Err(format!("{:?} came where line {} should be", wrong, self.times.len()).into());
        }
        if self.times.len() != lines as usize || !self.lines.begun.is_empty() {
            return Err(format!("{} of {lines} lines came", self.times.len()).into());
        }
        Ok(())
    }

    /// How many lines have come.
    pub const fn count(&self) -> usize {
        self.times.len()
    }

    /// When the first line came, by the wall clock.
    pub fn first_ns(&self) -> Option<u64> {
        self.times.first().map(|(_, received)| *received)
    }

    /// When the last line was printed, by the wall clock.
    pub fn last_printed_ns(&self) -> Option<u64> {
        self.times.last().map(|(printed, _)| *printed)
    }

    /// For each line, from being printed to being received.
    pub fn delays_ns(&self) -> Vec<i64> {
        self.times.iter().map(|(printed, received)| difference_ns(*printed, *received)).collect()
    }
}

/// Takes the lines of a flood, and checks the number of each.
#[derive(Debug)]
pub struct Flooded {
    lines: Lines,
    next: u64,
    wrong: Option<String>,
}

impl Default for Flooded {
    fn default() -> Self {
        Self { lines: Lines::new(), next: 0, wrong: None }
    }
}

impl Sink for Flooded {
    fn payload(&mut self, _at_ns: u64, bytes: &[u8]) {
        let Self { lines, next, wrong } = self;
        lines.feed(bytes, |line| {
            if parse_flood(line) == Some(*next) && line.len() + 1 == FLOOD_LINE {
                *next += 1;
            } else {
                wrong.get_or_insert_with(|| String::from_utf8_lossy(line).into_owned());
            }
        });
    }
}

impl Flooded {
    /// Whether exactly `lines` lines came, in order.
    pub fn check(&self, lines: u64) -> Result<()> {
        match &self.wrong {
            Some(wrong) => Err(format!("{wrong:?} came where line {} should be", self.next).into()),
            None if self.next != lines || !self.lines.begun.is_empty() => {
                Err(format!("{} of {lines} lines came", self.next).into())
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_come_when_its_last_byte_has() {
        let mut stamps = Stamps::default();
        stamps.payload(10, b"000 5..");
        assert_eq!(stamps.count(), 0);
        stamps.payload(20, b"..\n001 8\n002");
        stamps.payload(30, b" 40.\n");
        assert_eq!(stamps.delays_ns(), [15, 12, -10]);
        assert_eq!((stamps.first_ns(), stamps.last_printed_ns()), (Some(20), Some(40)));
        assert!(stamps.check(3).is_ok());
    }

    #[test]
    fn a_line_that_is_missing_doubled_or_cut_is_an_error() {
        let with = |text: &str| {
            let mut stamps = Stamps::default();
            stamps.payload(1, text.as_bytes());
            stamps.check(2)
        };
        assert!(with("000 1\n001 2\n").is_ok());
        for text in
            ["000 1\n", "000 1\n002 2\n", "000 1\n000 1\n001 2\n", "000 1\n001 2", "oops\n000 1\n001 2\n"]
        {
            assert!(with(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_flood_is_checked_line_by_line() {
        let line = |number: u64| format!("{number:010}{}\n", ".".repeat(FLOOD_LINE - 11));
        let with = |text: &str, cut: usize| {
            let (mut flooded, mut count) = (Flooded::default(), Count::default());
            for bytes in [&text.as_bytes()[..cut], &text.as_bytes()[cut..]] {
                flooded.payload(1, bytes);
                count.payload(1, bytes);
            }
            (flooded.check(2).is_ok(), count.check(2).is_ok())
        };
        let whole = line(0) + &line(1);
        for cut in 0..=whole.len() {
            assert_eq!(with(&whole, cut), (true, true));
        }
        assert_eq!(with(&line(0), 0), (false, false));
        assert_eq!(with(&(line(1) + &line(0)), 0), (false, true));
        assert_eq!(with(&(whole.clone() + "x"), 0), (false, false));
    }
}
