//! What the client of a command gets, by value, and the public faults of others that it does not have.

use hangar_core::{
    Close, Time,
    exec::{Config, Encoding, Exec, ExecResult, Output, Streaming},
    log::{Channel, Retention},
    process::{self, Exit, Process},
};
use std::time::Duration;

const STREAM: Streaming = Streaming { bytes_per_second: u64::MAX, max_bytes: u64::MAX };

const fn at_ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

/// A command and its stream.
struct Command {
    process: Process,
    exec: Exec,
}

impl Command {
    fn new(config: Config) -> Self {
        let retention = Retention::UntilRead { bytes: 64 * 1024 };
        let mut process = Process::new(process::Config { retention, ..process::Config::default() }, at_ms(0));
        process.handle_started(None);
        let exec = Exec::new(config, &mut process, at_ms(0));
        Self { process, exec }
    }

    fn streamed(encoding: Encoding) -> Self {
        Self::new(Config { encoding, stream: Some(STREAM), tail: 256 * 1024 })
    }

    fn print(&mut self, bytes: &[u8]) {
        assert_eq!(self.process.handle_output(Channel::Stdout, 0, bytes), bytes.len());
    }

    fn end(&mut self, exit: Exit) {
        self.process.handle_exit(exit);
        self.process.handle_end_of_output();
    }

    fn poll(&mut self, now: Time) -> Output {
        self.exec.poll_output(&mut self.process, now)
    }

    /// What is sent until there is nothing more, as text.
    fn sent(&mut self, now: Time) -> String {
        let mut sent = String::new();
        while let Output::Transmit { text, .. } = self.poll(now) {
            sent.extend(text.pieces());
        }
        sent
    }

    fn result(&mut self, now: Time) -> (Close, ExecResult) {
        match self.poll(now) {
            Output::Closed { reason, result } => (reason, *result),
            other @ (Output::Transmit { .. } | Output::Wait(_)) => panic!("no result: {other:?}"),
        }
    }
}

/// kubernetes/kubernetes#124571: big output was cut short, with exit status 0.
#[test]
fn a_slow_reader_gets_all_of_a_big_output() {
    let mut command = Command::streamed(Encoding::Text);
    let printed: String = (1..=200_000).map(|line| format!("{line}\n")).collect();
    let (mut rest, mut sent) = (printed.as_bytes(), String::new());
    // It reads once in a while. The command is slowed, and exits long before its output is read.
    for round in 0.. {
        let now = at_ms(round * 60_000);
        while command.process.wants_output() > 0 && !rest.is_empty() {
            let read = rest.len().min(command.process.wants_output()).min(5000);
            assert_eq!(command.process.handle_output(Channel::Stdout, 0, &rest[..read]), read);
            rest = &rest[read..];
        }
        if round == 1 {
            command.process.handle_exit(Exit::Code(0));
        }
        if rest.is_empty() {
            command.process.handle_end_of_output();
        }
        while !matches!(command.process.poll_output(now), process::Output::Wait(_)) {}
        match command.poll(now) {
            Output::Transmit { text, .. } => sent.extend(text.pieces()),
            Output::Wait(_) => {}
            Output::Closed { reason, result } => {
                assert_eq!((reason, result.exit_code, result.drain_timed_out), (Close::Done, Some(0), false));
                break;
            }
        }
    }
    assert_eq!(sent.lines().last(), Some("200000"));
    assert!(sent == printed);
}

/// wonderwhy-er/DesktopCommanderMCP#628 and anomalyco/opencode#15385: a character in two reads became two U+FFFD.
#[test]
fn a_character_in_two_reads_arrives_whole() {
    for (first, second, whole) in [
        (&b"\xe2\x82"[..], &b"\xac euro\n"[..], "€ euro\n"),
        (b"cleanup \xe2", b"\x80\x94 end", "cleanup — end"),
    ] {
        let mut command = Command::streamed(Encoding::Text);
        command.print(first);
        let mut sent = command.sent(at_ms(0));
        // The other output does not come between the two halves.
        command.process.handle_output(Channel::Stderr, 0, b"!");
        assert_eq!(command.sent(at_ms(100)), "!");
        command.print(second);
        sent += &command.sent(at_ms(300));
        assert_eq!(sent, whole);
        command.end(Exit::Code(0));
        let (_, result) = command.result(at_ms(301));
        assert_eq!((result.stdout.as_str(), result.stderr.as_str()), (whole, "!"));
    }
}

#[test]
fn a_character_that_never_becomes_whole_is_given_up_at_the_end() {
    let mut command = Command::streamed(Encoding::Text);
    command.print(b"a\xe2\x82");
    command.process.handle_output(Channel::Stderr, 0, b"\xf0");
    assert_eq!(command.sent(at_ms(0)), "a");
    command.end(Exit::Code(0));
    let piece = |output: Output| match output {
        Output::Transmit { channel, text } => (channel, text.pieces().collect::<String>(), text.len()),
        other @ (Output::Closed { .. } | Output::Wait(_)) => panic!("{other:?}"),
    };
    assert_eq!(piece(command.poll(at_ms(1))), (Channel::Stdout, "\u{FFFD}".to_owned(), 2));
    assert_eq!(piece(command.poll(at_ms(1))), (Channel::Stderr, "\u{FFFD}".to_owned(), 1));
    assert_eq!((command.exec.sent(), command.result(at_ms(1)).1.stdout), (4, "a\u{FFFD}".to_owned()));
}

/// Markers in the output of Daytona's sandboxes, and line ends in OpenSandbox's, were taken for their own.
#[test]
fn no_byte_of_the_output_means_anything_to_us() {
    for printed in [&b"\x01\x01\x01A\x02\x02\x02B\n"[..], b"10%\r20%\r\n\n", b"\0\x1b[2J\x7f", b"data: x\n\n"]
    {
        let mut command = Command::streamed(Encoding::Text);
        command.print(printed);
        assert_eq!(command.sent(at_ms(0)).as_bytes(), printed);
        command.end(Exit::Code(0));
        assert_eq!(command.result(at_ms(0)).1.stdout.as_bytes(), printed);
    }
    let mut command = Command::streamed(Encoding::Base64);
    let all: Vec<u8> = (0..=255).collect();
    command.print(&all);
    match command.poll(at_ms(0)) {
        Output::Transmit { text, .. } => assert_eq!(text.bytes().concat(), all),
        other @ (Output::Closed { .. } | Output::Wait(_)) => panic!("{other:?}"),
    }
}

/// moby/moby#18057: output without a line end was held in memory.
#[test]
fn output_without_a_line_end_is_sent_as_it_comes() {
    let mut command = Command::streamed(Encoding::Text);
    for _ in 0..1000 {
        command.print(&[b'x'; 8192]);
        assert_eq!(command.sent(at_ms(0)).len(), 8192);
        assert_eq!(command.process.log().held(), 0);
    }
    assert_eq!(command.exec.held(), 256 * 1024);
}

#[test]
fn messages_go_at_the_pace_of_the_stream() {
    let stream = Streaming { bytes_per_second: 100, max_bytes: 1000 };
    let mut command = Command::new(Config { encoding: Encoding::Text, stream: Some(stream), tail: 100 });
    // One second's worth is there; each message costs its length and 64.
    command.print(&[b'x'; 86]);
    assert_eq!(command.sent(at_ms(0)).len(), 86);
    command.print(b"merged");
    command.print(b" while it waits");
    assert_eq!(command.poll(at_ms(0)), Output::Wait(Some(Time::from_nanos(500_000_001))));
    assert_eq!(command.poll(at_ms(500)), Output::Wait(Some(Time::from_nanos(500_000_001))));
    assert_eq!(command.sent(at_ms(501)), "merged while it waits");
    // The end of a character is a message as well.
    command.print(b"\xe2");
    assert_eq!(command.poll(at_ms(2000)), Output::Wait(None));
    command.end(Exit::Code(0));
    assert_eq!(command.sent(at_ms(2000)), "\u{FFFD}");
    assert_eq!(command.poll(at_ms(2000)), Output::Wait(None), "the result came with the last poll");
}

#[test]
fn past_the_cap_nothing_is_sent_and_the_result_has_the_end() {
    for (encoding, sent) in [(Encoding::Text, 9), (Encoding::Base64, 10)] {
        let stream = Streaming { bytes_per_second: 1000, max_bytes: 10 };
        let mut command = Command::new(Config { encoding, stream: Some(stream), tail: 8 });
        command.print("123456789€".as_bytes());
        assert!(matches!(command.poll(at_ms(0)), Output::Transmit { .. }));
        assert_eq!(command.exec.sent(), sent);
        // It runs on, and is no longer paced.
        for _ in 0..100 {
            command.print(&[b'-'; 1000]);
            assert_eq!(command.poll(at_ms(0)), Output::Wait(None));
        }
        command.print(b"the end");
        command.end(Exit::Code(0));
        let (reason, result) = command.result(at_ms(0));
        let end = if encoding == Encoding::Text { "-the end" } else { "LXRoZSBlbmQ=" };
        assert_eq!((reason, result.stdout.as_str()), (Close::Done, end));
        assert_eq!((result.output_capped, result.stdout_truncated), (true, true));
    }
    // Exactly at the cap is not past it.
    let stream = Streaming { bytes_per_second: 1000, max_bytes: 5 };
    let mut command = Command::new(Config { encoding: Encoding::Text, stream: Some(stream), tail: 8 });
    command.print(b"12345");
    assert_eq!(command.sent(at_ms(0)), "12345");
    command.end(Exit::Code(0));
    assert!(!command.result(at_ms(0)).1.output_capped);
}

#[test]
fn an_unstreamed_command_has_its_result_only() {
    let mut command = Command::new(Config { encoding: Encoding::Text, stream: None, tail: 100 });
    command.print(b"some output");
    assert_eq!(command.poll(at_ms(0)), Output::Wait(None));
    command.end(Exit::Code(0));
    let (reason, result) = command.result(at_ms(5));
    assert_eq!((reason, result.stdout.as_str(), result.streamed), (Close::Done, "some output", false));
    assert_eq!((result.output_capped, command.exec.sent()), (false, 0));
}

#[test]
fn closing_ends_it_at_once_with_what_it_has() {
    let mut command = Command::streamed(Encoding::Text);
    command.print(b"sent");
    assert_eq!(command.sent(at_ms(0)), "sent");
    command.print(b", and not sent");
    command.exec.close(Close::Client);
    command.exec.close(Close::Shutdown);
    command.exec.close(Close::Error);
    let (reason, result) = command.result(at_ms(7));
    assert_eq!(reason, Close::Shutdown);
    let json = serde_json::to_string(&result).unwrap();
    let expected = r#"{"exit_code":null,"stdout":"sent, and not sent","stderr":"","streamed":true,"duration_ms":7,"closed":"shutdown"}"#;
    assert_eq!(json, expected);
    assert_eq!(command.poll(at_ms(8)), Output::Wait(None));
}

#[test]
fn of_an_end_and_a_close_the_first_in_the_order_is_told() {
    for (close, told) in [
        (Close::Revoked, Close::Revoked),
        (Close::Shutdown, Close::Shutdown),
        (Close::Client, Close::Done),
        (Close::Error, Close::Done),
    ] {
        let mut command = Command::streamed(Encoding::Text);
        command.end(Exit::Code(3));
        command.exec.close(close);
        let (reason, result) = command.result(at_ms(0));
        assert_eq!((reason, result.exit_code), (told, Some(3)));
        // Where output was not given out yet it had not come to its own end.
        let mut command = Command::streamed(Encoding::Text);
        command.print(b"not sent");
        command.end(Exit::Code(3));
        command.exec.close(close);
        assert_eq!(command.result(at_ms(0)).0, close);
    }
}

#[test]
fn a_result_says_how_the_command_ended() {
    let json = |exit: Exit| {
        let mut command = Command::streamed(Encoding::Text);
        command.end(exit);
        serde_json::to_value(command.result(at_ms(0)).1).unwrap()
    };
    let common = r#""stdout":"","stderr":"","streamed":true,"duration_ms":0"#;
    let lost = r#""error":{"code":"process_lost","message":"the sandbox lost the command: how it ended is not known"}"#;
    for (exit, own) in [
        (Exit::Code(0), r#""exit_code":0"#.to_owned()),
        (Exit::Signal(9), r#""exit_code":null,"signal":"SIGKILL""#.to_owned()),
        (Exit::Unknown, format!(r#""exit_code":null,"closed":"error",{lost}"#)),
    ] {
        let expected: serde_json::Value = serde_json::from_str(&format!("{{{own},{common}}}")).unwrap();
        assert_eq!(json(exit), expected, "{exit:?}");
    }
}

#[test]
fn a_result_is_read_back_as_it_was_written() {
    let config = process::Config {
        retention: Retention::UntilRead { bytes: 100 },
        timeout: Some(Duration::from_millis(10)),
        ..process::Config::default()
    };
    let mut process = Process::new(config, at_ms(0));
    process.handle_started(None);
    let stream = Streaming { bytes_per_second: 1000, max_bytes: 1 };
    let config = Config { encoding: Encoding::Base64, stream: Some(stream), tail: 2 };
    let exec = Exec::new(config, &mut process, at_ms(0));
    let mut command = Command { process, exec };
    command.print(b"abc");
    command.process.handle_output(Channel::Stderr, 0, b"def");
    assert_eq!(command.process.poll_output(at_ms(10)), process::Output::Terminate);
    assert!(matches!(command.poll(at_ms(10)), Output::Transmit { .. }));
    command.process.handle_exit(Exit::Signal(15));
    command.process.poll_output(at_ms(11));
    command.process.poll_output(at_ms(2011));
    let (_, result) = command.result(at_ms(2011));
    let json = serde_json::to_value(&result).unwrap();
    let expected = r#"{"exit_code":null,"signal":"SIGTERM","stdout":"YmM=","stderr":"ZWY=","encoding":"base64","streamed":true,
        "duration_ms":2011,"timed_out":true,"stdout_truncated":true,"stderr_truncated":true,"output_capped":true,
        "drain_timed_out":true}"#;
    assert_eq!(json, serde_json::from_str::<serde_json::Value>(expected).unwrap());
    assert_eq!(serde_json::from_value::<ExecResult>(json).unwrap(), result);
}
