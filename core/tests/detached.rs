//! What a script in a sandbox without a daemon says of a process, by value.

use bytes::Bytes;
use hangar_core::{
    process::{Exit, StartFailure},
    testing,
    wire::detached::{BadReport, Last, Report, Start, State, exit_of_shell, parse_report, parse_start},
};
use proptest::prelude::*;

#[test]
fn a_report_is_lines_and_then_output() {
    let text =
        b"state running\npid 4711\nmembers 3\nlast 4 0 7\noutput open 5 12\ndata 7\nhi\n\xffstate lost\n";
    let report = Report {
        state: State::Running,
        pid: Some(4711),
        members: Some(3),
        is_output_ended: false,
        first: 5,
        end: 12,
        last: Some(Last { seq: 4, offset: 0, len: 7 }),
        piece: Some((7, Bytes::from_static(b"hi\n\xffstate lost\n"))),
    };
    assert_eq!(parse_report(&Bytes::from_static(text)), Ok(report));
    let text = Bytes::from_static(b"state exited 3\npid 0\noutput ended 0 0\ndata 0\n");
    let report = Report {
        state: State::Exited(Exit::Code(3)),
        pid: None,
        members: None,
        is_output_ended: true,
        first: 0,
        end: 0,
        last: None,
        piece: None,
    };
    assert_eq!(parse_report(&text), Ok(report));
}

#[test]
fn what_is_no_report_is_refused() {
    for (text, error) in [
        ("", BadReport::NoOutput),
        ("state running\n", BadReport::NoOutput),
        ("output open 0 0\n", BadReport::NoState),
        ("sh: grep: not found\n", BadReport::UnknownLine),
        ("state exited\n", BadReport::UnknownLine),
        ("state exited 256\n", BadReport::UnknownLine),
        ("state exited -1\n", BadReport::UnknownLine),
        ("pid +7\n", BadReport::UnknownLine),
        ("pid 4294967296\n", BadReport::UnknownLine),
        ("output open 0 9007199254740993\n", BadReport::UnknownLine),
        ("output shut 0 0\n", BadReport::UnknownLine),
        ("state running now\n", BadReport::UnknownLine),
    ] {
        assert_eq!(parse_report(&Bytes::from(text)), Err(error), "{text}");
    }
}

#[test]
fn a_start_says_what_came_of_it() {
    assert_eq!(parse_start(b"started 4711\n"), Some(Start::Started(4711)));
    let failure = StartFailure { code: 127, message: "no such: command not found".to_owned() };
    assert_eq!(parse_start(b"failed 127 no such: command not found\n"), Some(Start::Failed(failure)));
    for other in ["", "started", "started x", "started 0", "failed 127", "failed 256 x", "oops 3"] {
        assert_eq!(parse_start(other.as_bytes()), None, "{other}");
    }
}

#[test]
fn a_signal_is_told_from_a_code_as_a_shell_does() {
    for (code, exit) in [
        (0, Exit::Code(0)),
        (127, Exit::Code(127)),
        (128, Exit::Code(128)),
        (129, Exit::Signal(1)),
        (192, Exit::Signal(64)),
        (193, Exit::Code(193)),
        (255, Exit::Code(255)),
    ] {
        assert_eq!(exit_of_shell(code), exit, "{code}");
    }
}

proptest! {
    #[test]
    fn nothing_makes_the_reader_panic(
        lines in proptest::collection::vec("(state|pid|members|output|last|data|started|failed)( (running|exited|lost|open|ended|[0-9]{1,17}|-1))*", 0..6),
        rest in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut text = lines.join("\n").into_bytes();
        text.push(b'\n');
        text.extend(rest);
        testing::detached::run(&text);
    }
}
