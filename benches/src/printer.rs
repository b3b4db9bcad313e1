//! The commands whose output is measured. They cost next to nothing themselves, and write each line, or each 64 KiB
//! of lines, in one write(2).

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fd::BorrowedFd,
    io::Errno,
    stdio::{stderr, stdout},
};

use crate::{Result, clock::wall_ns};

/// Bytes in each line of [`print()`].
const STAMPED_LINE: usize = 80;

/// Bytes in each line of [`flood`], with its newline.
pub const FLOOD_LINE: usize = 100;

/// Digits at the start of each line of [`flood`]: its number, from 0.
pub const FLOOD_DIGITS: usize = 10;

/// Bytes in each write of [`flood`].
const FLOOD_WRITE: usize = 64 * 1024;

/// What lines of a build, a test run and a server's log look like, quotes included.
const FLOOD_TEXTS: [&str; 4] = [
    " INFO worker-3 request finished method=GET path=\"/api/sandboxes/api-refactor\" status=200",
    "    Compiling streaming-plane v0.1.0 (workspace/crates/streaming-plane) [unoptimized]",
    " test log::reader::a_gap_says_what_was_lost_and_goes_on_from_the_middle_of_the_ring ... ok",
    " +    assert_eq!(reader.poll_output(now), Output::Event(Frame { seq: 17, offset: 4096 }));",
];

/// `lines` lines, each after a sleep and `noise` bytes on stderr: its number from 0, the wall clock in nanoseconds, and
/// padding.
pub fn print(lines: u32, every: Duration, noise: usize) -> Result<()> {
    let noise = vec![b'.'; noise];
    let mut line = String::with_capacity(STAMPED_LINE);
    for number in 0..lines {
        thread::sleep(every);
        write_all(stderr(), &noise)?;
        line.clear();
        stamp_line(&mut line, number);
        write_all(stdout(), line.as_bytes())?;
    }
    Ok(())
}

/// One line like those of [`print()`], as the last thing before the exit.
pub fn stamp() -> Result<()> {
    let mut line = String::with_capacity(STAMPED_LINE);
    stamp_line(&mut line, 0);
    write_all(stdout(), line.as_bytes())
}

fn stamp_line(line: &mut String, number: u32) {
    use std::fmt::Write as _;
    // Writing to a String cannot fail.
    _ = write!(line, "{number:03} {}", wall_ns());
    while line.len() < STAMPED_LINE - 1 {
        line.push('.');
    }
    line.push('\n');
}

/// The number and the time in a line of [`print()`] or [`stamp`], without its newline.
pub fn parse_stamp(line: &[u8]) -> Option<(u32, u64)> {
    let text = str::from_utf8(line).ok()?;
    let (number, rest) = text.split_once(' ')?;
    Some((number.parse().ok()?, rest.trim_end_matches('.').parse().ok()?))
}

/// The numbers from 0 on, a line each, every so often by the clock: what is late is made up for. An error if all of them
/// took more than `within`.
pub fn count(lines: u32, every: Duration, within: Duration) -> Result<()> {
    let begun = Instant::now();
    for number in 0..lines {
        thread::sleep((every * number).saturating_sub(begun.elapsed()));
        write_all(stdout(), format!("{number}\n").as_bytes())?;
    }
    if begun.elapsed() <= within { Ok(()) } else { Err("this took too long".into()) }
}

/// What [`count`] prints.
pub fn counted(lines: u32) -> String {
    (0..lines).map(|number| format!("{number}\n")).collect()
}

/// The lines that [`flood`] prints for `bytes`.
pub const fn flood_lines(bytes: u64) -> u64 {
    bytes.div_ceil(FLOOD_LINE as u64)
}

/// At least `bytes` of numbered lines, as fast as they are taken.
pub fn flood(bytes: u64) -> Result<()> {
    let lines = flood_lines(bytes);
    let mut waiting = Vec::with_capacity(FLOOD_WRITE + FLOOD_LINE);
    for number in 0..lines {
        flood_line(&mut waiting, number);
        if waiting.len() >= FLOOD_WRITE {
            write_all(stdout(), &waiting[..FLOOD_WRITE])?;
            waiting.drain(..FLOOD_WRITE);
        }
    }
    write_all(stdout(), &waiting)
}

fn flood_line(into: &mut Vec<u8>, number: u64) {
    let mut digits = [b'0'; FLOOD_DIGITS];
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    let end = into.len() + FLOOD_LINE - 1;
    into.extend_from_slice(&digits);
    into.extend_from_slice(FLOOD_TEXTS[number as usize % FLOOD_TEXTS.len()].as_bytes());
    into.resize(end, b'.');
    into.push(b'\n');
}

/// The number in a line of [`flood`].
pub fn parse_flood(line: &[u8]) -> Option<u64> {
    str::from_utf8(line.get(..FLOOD_DIGITS)?).ok()?.parse().ok()
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamped_line_reads_back() {
        let before = wall_ns();
        let mut line = String::new();
        stamp_line(&mut line, 7);
        assert_eq!(line.len(), STAMPED_LINE);
        let (number, at) = parse_stamp(line.trim_end().as_bytes()).unwrap();
        assert_eq!(number, 7);
        assert!((before..=wall_ns()).contains(&at));
        assert_eq!(parse_stamp(b"bash: streams: not found"), None);
    }

    #[test]
    fn flooded_lines_have_one_length_and_their_number() {
        for number in [0, 9, 2_684_354, 9_999_999_999] {
            let mut line = Vec::new();
            flood_line(&mut line, number);
            assert_eq!(line.len(), FLOOD_LINE);
            assert_eq!(memchr::memchr(b'\n', &line), Some(FLOOD_LINE - 1));
            assert_eq!(parse_flood(&line), Some(number));
        }
        assert_eq!((flood_lines(1), flood_lines(100), flood_lines(101)), (1, 1, 2));
    }
}
