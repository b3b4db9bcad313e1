//! What a reader that comes and goes is given, by value.

use bytes::Bytes;
use hangar_core::{
    Close, Time,
    attach::{Attach, Config, Output},
    exec::Encoding,
    log::{Channel, Frame, Gap, GapReason, Reader, Retention},
    process::{self, Exit, Process},
};
use std::time::Duration;

const fn at_ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn config(encoding: Encoding) -> Config {
    let patience = Duration::from_secs(5);
    Config { encoding, bytes_per_second: u64::MAX, max_bytes: u64::MAX, patience }
}

/// A process that runs, of which the last `bytes` are kept.
fn running(bytes: usize) -> Process {
    let config = process::Config { retention: Retention::Ring { bytes }, ..process::Config::default() };
    let mut process = Process::new(config, at_ms(0));
    process.handle_started(None);
    process
}

fn attach(config: Config, process: &mut Process) -> Attach {
    let reader = Reader::oldest(process.log_mut());
    Attach::new(config, process, reader, at_ms(0))
}

fn frame(seq: u64, offset: u64, channel: Channel, data: &'static [u8]) -> Output {
    Output::Frame(Frame { seq, offset, channel, ts_ms: 7, data: Bytes::from_static(data) })
}

fn shown(output: Output) -> (String, u64) {
    match output {
        Output::Text { text, next, .. } => (text.pieces().collect(), next),
        Output::Frame(_) | Output::Gap(_) | Output::Closed { .. } | Output::Wait(_) => panic!("no text"),
    }
}

#[test]
fn what_is_kept_comes_first_then_what_is_printed_then_the_end() {
    let mut process = running(100);
    process.handle_output(Channel::Stdout, 7, b"out");
    process.handle_output(Channel::Stderr, 7, b"err");
    let mut attach = attach(config(Encoding::Base64), &mut process);
    assert_eq!(attach.poll_output(&mut process, at_ms(1)), frame(1, 0, Channel::Stdout, b"out"));
    assert_eq!(attach.poll_output(&mut process, at_ms(1)), frame(2, 3, Channel::Stderr, b"err"));
    assert_eq!(attach.poll_output(&mut process, at_ms(1)), Output::Wait(None));
    process.handle_output(Channel::Stdout, 7, b"late");
    assert_eq!(attach.poll_output(&mut process, at_ms(2)), frame(3, 6, Channel::Stdout, b"late"));
    process.handle_exit(Exit::Code(3));
    assert_eq!(attach.poll_output(&mut process, at_ms(3)), Output::Wait(None), "its output has not ended");
    process.handle_end_of_output();
    let end = Output::Closed { reason: Close::Done, exit: Some(Exit::Code(3)), drain_timed_out: false };
    assert_eq!(attach.poll_output(&mut process, at_ms(3)), end);
    assert_eq!((attach.next(), attach.poll_output(&mut process, at_ms(4))), (10, Output::Wait(None)));
}

#[test]
fn a_text_that_goes_on_inside_a_character_is_the_text_that_was_never_cut() {
    let mut process = running(100);
    process.handle_output(Channel::Stdout, 0, b"a\xe2\x82");
    let mut first = attach(config(Encoding::Text), &mut process);
    assert_eq!(shown(first.poll_output(&mut process, at_ms(0))), ("a".to_owned(), 3));
    process.handle_output(Channel::Stdout, 0, b"\xac!");
    for (cursor, rest) in [(0, "a\u{20ac}!"), (1, "\u{20ac}!"), (2, "\u{20ac}!"), (3, "\u{20ac}!"), (4, "!")]
    {
        let reader = Reader::at_offset(process.log_mut(), cursor).expect("it is not ahead");
        let mut again = Attach::new(config(Encoding::Text), &process, reader, at_ms(0));
        let mut text = String::new();
        while let output @ Output::Text { .. } = again.poll_output(&mut process, at_ms(0)) {
            text += &shown(output).0;
        }
        assert_eq!(text, rest, "from {cursor}");
    }
}

#[test]
fn a_character_that_a_gap_cut_is_given_up_before_the_gap() {
    let mut process = running(4);
    process.handle_output(Channel::Stdout, 0, b"a\xe2");
    let mut attach = attach(config(Encoding::Text), &mut process);
    assert_eq!(shown(attach.poll_output(&mut process, at_ms(0))), ("a".to_owned(), 2));
    for _ in 0..4 {
        process.handle_output(Channel::Stderr, 0, b"12");
        process.handle_output(Channel::Stdout, 0, b"34");
    }
    // Who leaves between the two comes back in front of the gap.
    assert_eq!(shown(attach.poll_output(&mut process, at_ms(0))), ("\u{FFFD}".to_owned(), 2));
    let Output::Gap(gap) = attach.poll_output(&mut process, at_ms(0)) else { panic!("no gap") };
    let Gap { from_offset, to_offset, reason, .. } = gap;
    assert_eq!((from_offset, reason), (Some(2), GapReason::SlowConsumer));
    let (rest, next) = shown(attach.poll_output(&mut process, at_ms(0)));
    assert_eq!((rest.len() as u64, next), (next - to_offset, to_offset + rest.len() as u64));
}

#[test]
fn the_cap_is_reached_by_whole_frames() {
    let mut process = running(100);
    process.handle_output(Channel::Stdout, 7, b"12345");
    process.handle_output(Channel::Stderr, 7, b"6");
    let mut attach = attach(Config { max_bytes: 3, ..config(Encoding::Base64) }, &mut process);
    assert_eq!(attach.poll_output(&mut process, at_ms(0)), frame(1, 0, Channel::Stdout, b"12345"));
    let end = Output::Closed { reason: Close::Limit, exit: None, drain_timed_out: false };
    assert_eq!((attach.poll_output(&mut process, at_ms(0)), attach.next()), (end, 5));
}

#[test]
fn only_who_takes_nothing_while_it_loses_something_is_given_up() {
    let mut process = running(4);
    process.handle_output(Channel::Stdout, 7, b"1234");
    let mut attach = attach(config(Encoding::Base64), &mut process);
    attach.handle_blocked();
    assert_eq!(attach.poll_output(&mut process, at_ms(1000)), Output::Wait(Some(at_ms(6000))));
    // Nothing is gone: it is looked at again, each second.
    assert_eq!(attach.poll_output(&mut process, at_ms(6000)), Output::Wait(Some(at_ms(7000))));
    assert_eq!(attach.poll_output(&mut process, at_ms(7500)), Output::Wait(Some(at_ms(8000))));
    process.handle_output(Channel::Stderr, 7, b"567890");
    let mut other = attach;
    other.handle_accepted();
    assert!(matches!(other.poll_output(&mut process, at_ms(8000)), Output::Gap(_)));
    other.handle_blocked();
    process.handle_output(Channel::Stdout, 7, b"abcdef");
    process.handle_output(Channel::Stderr, 7, b"ghijkl");
    assert_eq!(other.poll_output(&mut process, at_ms(9000)), Output::Wait(Some(at_ms(14_000))));
    let end = Output::Closed { reason: Close::SlowConsumer, exit: None, drain_timed_out: false };
    assert_eq!(other.poll_output(&mut process, at_ms(14_000)), end);
}

#[test]
fn it_is_paced() {
    let mut process = running(1000);
    let mut attach = attach(Config { bytes_per_second: 100, ..config(Encoding::Base64) }, &mut process);
    process.handle_output(Channel::Stdout, 7, b"1234567890");
    assert!(matches!(attach.poll_output(&mut process, at_ms(0)), Output::Frame(_)));
    process.handle_output(Channel::Stdout, 7, b"1234567890");
    assert!(matches!(attach.poll_output(&mut process, at_ms(0)), Output::Frame(_)));
    process.handle_output(Channel::Stdout, 7, b"1");
    // 148 bytes are paid for, 48 of them on credit: what was earned by now does not make up for that.
    let Output::Wait(Some(at)) = attach.poll_output(&mut process, at_ms(0)) else { panic!("not paced") };
    assert!(at > at_ms(480) && at < at_ms(482), "{at:?}");
    assert!(matches!(attach.poll_output(&mut process, at), Output::Frame(_)));
}

#[test]
fn of_several_reasons_the_first_is_told() {
    let mut process = running(100);
    let mut attach = attach(config(Encoding::Text), &mut process);
    attach.close(Close::Error);
    attach.close(Close::Revoked);
    attach.close(Close::Shutdown);
    let end = Output::Closed { reason: Close::Revoked, exit: None, drain_timed_out: false };
    assert_eq!(attach.poll_output(&mut process, at_ms(0)), end);
}
