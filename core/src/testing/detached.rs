//! Reports of processes without a daemon: nothing makes the reader panic, and what is read is written as it was read.

use crate::{
    process::Exit,
    wire::detached::{Report, Start, State, parse_report, parse_start},
};
use bytes::Bytes;

/// Reads bytes as a report, and as what is said of a start.
pub fn run(bytes: &[u8]) {
    if let Ok(report) = parse_report(&Bytes::copy_from_slice(bytes)) {
        assert_eq!(parse_report(&write(&report)).as_ref(), Ok(&report));
    }
    if let Some(Start::Failed(failure)) = parse_start(bytes) {
        assert!((0..256).contains(&failure.code) && failure.message.len() <= 3 * bytes.len());
    }
}

fn write(report: &Report) -> Bytes {
    let state = match report.state {
        State::Running => "running".to_owned(),
        State::Lost => "lost".to_owned(),
        State::Exited(Exit::Code(code)) => format!("exited {code}"),
        State::Exited(Exit::Signal(signal)) => format!("exited {}", 128 + u16::from(signal)),
        State::Exited(Exit::Unknown) => panic!("nobody reports that"),
    };
    let ended = if report.is_output_ended { "ended" } else { "open" };
    let mut text = format!("state {state}\npid {}\n", report.pid.unwrap_or(0));
    text += &report.members.map(|members| format!("members {members}\n")).unwrap_or_default();
    let last = report.last.map(|last| format!("last {} {} {}\n", last.seq, last.offset, last.len));
    text += &last.unwrap_or_default();
    text += &format!("output {ended} {} {}\n", report.first, report.end);
    let mut text = text.into_bytes();
    if let Some((offset, bytes)) = &report.piece {
        text.extend(format!("data {offset}\n").bytes());
        text.extend(bytes);
    }
    text.into()
}
