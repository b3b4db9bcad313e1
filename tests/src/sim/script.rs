//! What a command of the simulated sandbox does, as a little script in place of a shell's.
//!
//! Steps are separated by `;`. Texts know `\n`, `\t`, `\\` and `\xNN` (so a `;` is `\x3b`).
//!
//! | step | does |
//! | --- | --- |
//! | `out TEXT`, `err TEXT` | prints it |
//! | `flood N`, `flood-err N` | prints [`pattern`] of N bytes, as fast as it is read |
//! | `drip N MS` | prints N bytes of [`pattern`], one each MS |
//! | `cat` | prints its input until that ends |
//! | `sleep MS` | waits |
//! | `close` | closes its outputs |
//! | `ignore-term` | from here on |
//! | `linger` | starts a child that ignores TERM and holds the output open until it is killed |
//! | `hold MS` | leaves a child that holds the output open for so long after the exit |
//! | `exit N`, `signal N` | ends so; without one the end of the script is `exit 0` |
//! | `hang` | does nothing any more |
//! | `fail` | the sandbox loses it |
//! | `start-delay MS`, `sweep-delay MS` | the sandbox takes so long to start it, to sweep it |
//! | `start-error NAME` | the sandbox does not start it: a [`StartError`] by its name |
//! | `start-fail CODE TEXT` | it cannot be started: as a shell would say it |

use bytes::Bytes;
use hangar_backends::sandbox::{Exhausted, StartError};
use hangar_core::{
    log::Channel,
    process::{Exit, StartFailure},
};
use std::time::Duration;

/// A step.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "each is the step of its name")]
pub enum Step {
    Print(Channel, Bytes),
    Drip(Bytes, Duration),
    Cat,
    Sleep(Duration),
    Close,
    IgnoreTerm,
    Linger,
    Hold(Duration),
    Exit(Exit),
    Hang,
    Fail,
    StartDelay(Duration),
    SweepDelay(Duration),
    StartError(StartError),
    StartFail(StartFailure),
}

/// The steps of a script.
///
/// # Panics
///
/// If there is one that does not exist.
pub fn parse(script: &str) -> Vec<Step> {
    script.split(';').map(str::trim).filter(|step| !step.is_empty()).map(step).collect()
}

/// How a script is started.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Start {
    /// How long that takes.
    pub delay: Duration,
    /// What comes of it.
    pub outcome: Outcome,
}

/// What comes of a start.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It runs.
    Runs,
    /// It is at fault itself.
    Fails(StartFailure),
    /// The sandbox does not start it.
    Refused(StartError),
}

/// How these steps are started.
pub fn start(steps: &[Step]) -> Start {
    let delay =
        steps.iter().find_map(|step| if let Step::StartDelay(delay) = step { Some(*delay) } else { None });
    let outcome = steps.iter().find_map(|step| {
        if let Step::StartError(error) = step {
            Some(Outcome::Refused(error.clone()))
        } else if let Step::StartFail(failure) = step {
            Some(Outcome::Fails(failure.clone()))
        } else {
            None
        }
    });
    Start { delay: delay.unwrap_or_default(), outcome: outcome.unwrap_or(Outcome::Runs) }
}

/// What a script prints to each output if nothing ends it early.
pub fn printed(script: &str) -> [Vec<u8>; 2] {
    let mut outputs = [Vec::new(), Vec::new()];
    for step in parse(script) {
        match step {
            Step::Print(channel, bytes) => {
                outputs[usize::from(channel == Channel::Stderr)].extend_from_slice(&bytes);
            }
            Step::Drip(bytes, _) => outputs[0].extend_from_slice(&bytes),
            Step::Exit(_) | Step::Hang | Step::Fail => break,
            Step::Cat
            | Step::Sleep(_)
            | Step::Close
            | Step::IgnoreTerm
            | Step::Linger
            | Step::Hold(_)
            | Step::StartDelay(_)
            | Step::SweepDelay(_)
            | Step::StartError(_)
            | Step::StartFail(_) => {}
        }
    }
    outputs
}

/// `len` bytes of numbered lines of 16 bytes: a byte that is lost, doubled or moved is seen.
pub fn pattern(len: usize) -> Bytes {
    let mut lines = Vec::with_capacity(len + 16);
    let mut line = *b"000000000000000\n";
    while lines.len() < len {
        lines.extend_from_slice(&line);
        let nines = line[..15].iter().rev().take_while(|digit| **digit == b'9').count();
        line[15 - nines..15].fill(b'0');
        line[14 - nines] += 1;
    }
    lines.truncate(len);
    lines.into()
}

fn step(step: &str) -> Step {
    let (name, rest) = step.split_once(' ').unwrap_or((step, ""));
    let number =
        |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("`{step}`: `{text}` is no number"));
    let ms = || Duration::from_millis(number(rest));
    match name {
        "out" => Step::Print(Channel::Stdout, text(rest)),
        "err" => Step::Print(Channel::Stderr, text(rest)),
        "flood" => Step::Print(Channel::Stdout, pattern(number(rest) as usize)),
        "flood-err" => Step::Print(Channel::Stderr, pattern(number(rest) as usize)),
        "drip" => {
            let (len, every) = rest.split_once(' ').expect("drip N MS");
            Step::Drip(pattern(number(len) as usize), Duration::from_millis(number(every)))
        }
        "cat" => Step::Cat,
        "sleep" => Step::Sleep(ms()),
        "close" => Step::Close,
        "ignore-term" => Step::IgnoreTerm,
        "linger" => Step::Linger,
        "hold" => Step::Hold(ms()),
        "exit" => Step::Exit(Exit::Code(number(rest) as i32)),
        "signal" => Step::Exit(Exit::Signal(number(rest) as u8)),
        "hang" => Step::Hang,
        "fail" => Step::Fail,
        "start-delay" => Step::StartDelay(ms()),
        "sweep-delay" => Step::SweepDelay(ms()),
        "start-error" => Step::StartError(start_error(rest)),
        "start-fail" => {
            let (code, message) = rest.split_once(' ').expect("start-fail CODE TEXT");
            Step::StartFail(StartFailure { code: number(code) as i32, message: message.to_owned() })
        }
        _ => panic!("there is no step `{step}`"),
    }
}

fn start_error(name: &str) -> StartError {
    match name {
        "bad_cwd" => StartError::BadCwd("it is not there".to_owned()),
        "bad_user" => StartError::BadUser("there is no such user".to_owned()),
        "unsupported" => StartError::Unsupported { field: "user", what: "users" },
        "too_long" => StartError::TooLong { field: "command" },
        "descriptors" => StartError::Exhausted(Exhausted::Descriptors),
        "processes" => StartError::Exhausted(Exhausted::Processes),
        "memory" => StartError::Exhausted(Exhausted::Memory),
        "disk" => StartError::Exhausted(Exhausted::Disk),
        "destroyed" => StartError::Destroyed,
        "broken" => StartError::Broken("it does not answer".to_owned()),
        _ => panic!("there is no start error `{name}`"),
    }
}

fn text(escaped: &str) -> Bytes {
    let mut bytes = Vec::new();
    let mut rest = escaped.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'\\') => bytes.push(b'\\'),
            Some(b'x') => {
                let mut digit = || char::from(rest.next().unwrap()).to_digit(16).unwrap() as u8;
                bytes.push(digit() * 16 + digit());
            }
            other => panic!("`{escaped}`: there is no escape {other:?}"),
        }
    }
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered() {
        let lines = String::from_utf8(pattern(16 * 1_001 + 3).to_vec()).unwrap();
        assert!(lines.lines().take(1_001).enumerate().all(|(i, line)| line == format!("{i:015}")));
        assert!(lines.ends_with("000000000001000\n000"));
    }
}
