//! How a process in a sandbox without a daemon is, as a script there reports it: a line for each fact, and then a piece
//! of its output as it is.
//!
//! ```text
//! state running          or `state exited CODE`, or `state lost`
//! pid 4711
//! members 3              where it was asked for
//! last 4 0 7             the last piece that was given out before: SEQ OFFSET LEN
//! output open 0 12       or `output ended FIRST END`: what is kept, from byte to byte
//! data 7                 where there is some: all that follows are the bytes from there on
//! ```

use crate::process::{Exit, StartFailure};
use bytes::Bytes;

/// What is said of a process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Report {
    /// How it is.
    pub state: State,
    /// Its number; None where that is not known.
    pub pid: Option<u32>,
    /// How many processes are left of it, where that was asked for.
    pub members: Option<u32>,
    /// Nobody can print any more.
    pub is_output_ended: bool,
    /// The first byte that is kept.
    pub first: u64,
    /// The byte after the last one.
    pub end: u64,
    /// The last piece that was given out before.
    pub last: Option<Last>,
    /// A piece of what it printed, and where it begins.
    pub piece: Option<(u64, Bytes)>,
}

/// A piece of output that was given out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Last {
    /// The number of its first frame.
    pub seq: u64,
    /// Its first byte.
    pub offset: u64,
    /// How many bytes it has.
    pub len: u64,
}

/// How a process is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// It runs.
    Running,
    /// It has ended.
    Exited(Exit),
    /// It is not there any more, and nobody has noted how it ended.
    Lost,
}

/// What is wrong with a report.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadReport {
    /// A line that says nothing that is known.
    #[error("a line of it is not known")]
    UnknownLine,
    /// It does not say how the process is.
    #[error("it does not say how the process is")]
    NoState,
    /// It does not say what is kept of the output.
    #[error("it does not say what is kept of the output")]
    NoOutput,
}

/// Reads a report. Of a line that is there twice the last one counts.
pub fn parse_report(text: &Bytes) -> Result<Report, BadReport> {
    let (mut state, mut output, mut pid, mut members) = (None, None, None, None);
    let (mut last, mut piece) = (None, None);
    let mut at = 0;
    while at < text.len() {
        let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |len| at + len);
        let line = std::str::from_utf8(&text[at..end]).map_err(|_| BadReport::UnknownLine)?;
        at = (end + 1).min(text.len());
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next(), words.next(), words.next()) {
            (Some("state"), Some("running"), None, ..) => state = Some(State::Running),
            (Some("state"), Some("lost"), None, ..) => state = Some(State::Lost),
            (Some("state"), Some("exited"), Some(code), None, _) => {
                state = Some(State::Exited(exit_of_shell(number(code)?)));
            }
            (Some("pid"), Some(said), None, ..) => pid = Some(number(said)?).filter(|pid| *pid > 0),
            (Some("members"), Some(said), None, ..) => members = Some(number(said)?),
            (Some("output"), Some(said @ ("open" | "ended")), Some(first), Some(end), None) => {
                output = Some((said == "ended", number(first)?, number(end)?));
            }
            (Some("last"), Some(seq), Some(offset), Some(len), None) => {
                last = Some(Last { seq: number(seq)?, offset: number(offset)?, len: number(len)? });
            }
            (Some("data"), Some(offset), None, ..) => {
                let offset = number(offset)?;
                piece = Some((offset, text.slice(at..))).filter(|(_, bytes)| !bytes.is_empty());
                break;
            }
            _ => return Err(BadReport::UnknownLine),
        }
    }
    let (is_output_ended, first, end) = output.ok_or(BadReport::NoOutput)?;
    Ok(Report {
        state: state.ok_or(BadReport::NoState)?,
        pid,
        members,
        is_output_ended,
        first,
        end,
        last,
        piece,
    })
}

/// A number up to [`MAX_NUMBER`].
fn number<T: TryFrom<u64>>(word: &str) -> Result<T, BadReport> {
    let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let number = word.parse().ok().filter(|number| digits && *number <= MAX_NUMBER);
    number.and_then(|number| T::try_from(number).ok()).ok_or(BadReport::UnknownLine)
}

/// Up to here every client can count.
const MAX_NUMBER: u64 = 1 << 53;

/// What a shell says of a signal's end.
const SIGNALED: u8 = 128;

/// How it ended, as a shell says it: 128 + n stands for the signal n. Who returns such a code by itself is not told from one
/// that a signal ended.
pub fn exit_of_shell(code: u8) -> Exit {
    match code.checked_sub(SIGNALED) {
        Some(signal @ 1..=64) => Exit::Signal(signal),
        Some(_) | None => Exit::Code(code.into()),
    }
}

/// What came of a start.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Start {
    /// It runs, and has this number.
    Started(u32),
    /// The program cannot be run.
    Failed(StartFailure),
}

/// Reads what a start says: `started PID`, or `failed CODE MESSAGE`. None for anything else.
pub fn parse_start(text: &[u8]) -> Option<Start> {
    let text = String::from_utf8_lossy(text);
    let (word, rest) = text.trim_end_matches('\n').split_once(' ')?;
    match word {
        "started" => number(rest).ok().filter(|pid| *pid > 0).map(Start::Started),
        "failed" => {
            let (code, message) = rest.split_once(' ')?;
            let code = number::<u8>(code).ok()?.into();
            Some(Start::Failed(StartFailure { code, message: message.to_owned() }))
        }
        _ => None,
    }
}
