//! How a process is followed and ended, by value.

use bytes::Bytes;
use hangar_core::{
    Time,
    log::{Channel, Item, Reader, Retention},
    process::{Config, Exit, LOST, Output, Process, Signal, StartFailure, Target, TtySize},
};
use std::time::Duration;

const fn at(seconds: u64) -> Time {
    Time::from_nanos(seconds * 1_000_000_000)
}

fn running(config: Config) -> Process {
    let mut process = Process::new(config, at(0));
    process.handle_started(None);
    process
}

/// Everything it wants done at this time.
fn outputs(process: &mut Process, now: Time) -> Vec<Output> {
    let mut outputs = Vec::new();
    loop {
        let output = process.poll_output(now);
        outputs.push(output);
        if let Output::Wait(_) = output {
            return outputs;
        }
    }
}

fn until_read(bytes: usize) -> Config {
    Config { retention: Retention::UntilRead { bytes }, ..Config::default() }
}

fn read(process: &mut Process, reader: &mut Reader) -> String {
    let mut all = Vec::new();
    while let Some(Item::Frame(frame)) = reader.take(process.log_mut()) {
        all.extend_from_slice(&frame.data);
    }
    String::from_utf8(all).expect("text")
}

#[test]
fn the_defaults_are_those_of_the_protocol() {
    let config = Config::default();
    assert_eq!(config.retention, Retention::Ring { bytes: 262_144 });
    assert_eq!((config.timeout, config.max_stdin), (None, 1_048_576));
    assert_eq!((config.grace, config.drain), (Duration::from_secs(3), Some(Duration::from_secs(2))));
}

#[test]
fn it_ends_when_it_has_exited_and_its_output_is_read_to_the_end() {
    for output_first in [true, false] {
        let mut process = running(Config::default());
        assert_eq!(outputs(&mut process, at(1)), [Output::Wait(None)]);
        if output_first {
            process.handle_end_of_output();
            assert_eq!(outputs(&mut process, at(1)), [Output::Wait(None)]);
            assert!(process.is_running() && !process.is_over());
            process.handle_exit(Exit::Code(5));
        } else {
            process.handle_exit(Exit::Code(5));
            assert_eq!(outputs(&mut process, at(1)), [Output::Wait(Some(at(3)))]);
            assert_eq!((process.exit_status(), process.is_over()), (Some(Exit::Code(5)), false));
            process.handle_end_of_output();
        }
        assert!(process.is_over() && !process.drain_timed_out());
        assert_eq!(outputs(&mut process, at(2)), [Output::Closed, Output::Wait(None)]);
        process.handle_exit(Exit::Code(6));
        assert_eq!(process.exit_status(), Some(Exit::Code(5)));
    }
}

#[test]
fn the_drain_is_counted_from_the_exit_and_not_from_the_last_poll() {
    // Nothing was to be done for an hour, so nobody polled.
    let mut process = running(Config::default());
    assert_eq!(outputs(&mut process, at(0)), [Output::Wait(None)]);
    process.handle_exit(Exit::Code(0));
    assert_eq!(outputs(&mut process, at(3600)), [Output::Wait(Some(at(3602)))]);
    assert_eq!(process.handle_output(Channel::Stdout, 0, b"the last"), 8);
    process.handle_end_of_output();
    assert!(!process.drain_timed_out());
    assert_eq!(process.log().held(), 8);
}

#[test]
fn a_grandchild_that_holds_the_output_is_waited_for_two_seconds() {
    let mut process = running(Config::default());
    process.handle_exit(Exit::Code(0));
    assert_eq!(outputs(&mut process, at(10)), [Output::Wait(Some(at(12)))]);
    process.handle_output(Channel::Stdout, 0, b"late");
    assert_eq!(outputs(&mut process, at(11)), [Output::Wait(Some(at(12)))]);
    assert_eq!(outputs(&mut process, at(12)), [Output::Wait(None)]);
    assert!(process.is_over() && process.drain_timed_out());
    // What comes now is read and dropped, so that it gets no SIGPIPE, until its end.
    assert_eq!(process.wants_output(), usize::MAX);
    assert_eq!(process.handle_output(Channel::Stdout, 0, b"too late"), 8);
    assert_eq!(process.log().end_offset(), 4);
    process.handle_end_of_output();
    assert_eq!(process.wants_output(), 0);
    assert_eq!(outputs(&mut process, at(50)), [Output::Closed, Output::Wait(None)]);
}

#[test]
fn the_drain_does_not_count_while_a_slow_reader_is_waited_for() {
    let mut process = running(until_read(4));
    let mut reader = Reader::oldest(process.log_mut());
    assert_eq!(process.handle_output(Channel::Stdout, 0, b"123456"), 4);
    assert_eq!(process.wants_output(), 0);
    process.handle_exit(Exit::Code(0));
    assert_eq!(outputs(&mut process, at(1)), [Output::Wait(None)]);
    assert_eq!(outputs(&mut process, at(100)), [Output::Wait(None)]);
    assert_eq!(read(&mut process, &mut reader), "1234");
    assert_eq!(outputs(&mut process, at(100)), [Output::Wait(Some(at(102)))]);
    // A second of it is used up when there is no room again.
    process.handle_output(Channel::Stdout, 0, b"5678");
    assert_eq!(outputs(&mut process, at(101)), [Output::Wait(None)]);
    assert_eq!(outputs(&mut process, at(200)), [Output::Wait(None)]);
    assert_eq!(read(&mut process, &mut reader), "5678");
    assert_eq!(outputs(&mut process, at(200)), [Output::Wait(Some(at(201)))]);
    assert_eq!(outputs(&mut process, at(201)), [Output::Wait(None)]);
    assert!(process.drain_timed_out());
}

#[test]
fn the_drain_ends_with_the_timeout() {
    let mut process = running(Config { timeout: Some(Duration::from_secs(9)), ..until_read(4) });
    process.handle_output(Channel::Stdout, 0, b"1234");
    process.handle_exit(Exit::Code(0));
    // There is no room, and whoever holds the output goes on printing.
    assert_eq!(outputs(&mut process, at(1)), [Output::Wait(Some(at(9)))]);
    assert_eq!(outputs(&mut process, at(9)), [Output::Wait(None)]);
    assert!(process.is_over() && process.drain_timed_out() && !process.timed_out());
    process.handle_end_of_output();
    assert_eq!(outputs(&mut process, at(10)), [Output::Closed, Output::Wait(None)]);
}

#[test]
fn killing_is_term_and_after_three_seconds_the_sweep() {
    let mut process = running(Config::default());
    process.kill();
    process.kill();
    assert_eq!(outputs(&mut process, at(1)), [Output::Terminate, Output::Wait(Some(at(4)))]);
    process.handle_end_of_output();
    process.handle_exit(Exit::Signal(15));
    // The leader is gone; members may be left, and they are asked.
    assert_eq!(outputs(&mut process, at(2)), [Output::Wait(Some(at(4)))]);
    assert_eq!(outputs(&mut process, at(4)), [Output::Sweep, Output::Wait(None)]);
    process.handle_swept();
    assert_eq!(outputs(&mut process, at(5)), [Output::Closed, Output::Wait(None)]);
    assert!(!process.timed_out());
}

#[test]
fn who_does_not_end_after_the_sweep_is_given_up() {
    let mut process = running(Config::default());
    process.kill();
    outputs(&mut process, at(0));
    assert_eq!(outputs(&mut process, at(3)), [Output::Sweep, Output::Wait(None)]);
    process.handle_swept();
    assert_eq!(outputs(&mut process, at(4)), [Output::Wait(Some(at(4) + LOST))]);
    assert!(!process.is_over());
    assert_eq!(outputs(&mut process, at(4) + LOST), [Output::Closed, Output::Wait(None)]);
    assert_eq!((process.exit_status(), process.is_over()), (Some(Exit::Unknown), true));
    process.handle_exit(Exit::Code(0));
    assert_eq!(process.exit_status(), Some(Exit::Unknown), "too late");
}

#[test]
fn an_empty_group_is_swept_at_once() {
    let mut process = running(Config::default());
    process.handle_group_gone();
    process.kill();
    assert_eq!(outputs(&mut process, at(1)), [Output::Terminate, Output::Wait(Some(at(4)))]);
    process.handle_group_gone();
    assert_eq!(outputs(&mut process, at(2)), [Output::Sweep, Output::Wait(None)]);
    process.handle_group_gone();
    assert_eq!(outputs(&mut process, at(9)), [Output::Wait(None)]);
}

#[test]
fn a_timeout_kills() {
    let mut process = running(Config { timeout: Some(Duration::from_secs(10)), ..Config::default() });
    assert_eq!(outputs(&mut process, at(9)), [Output::Wait(Some(at(10)))]);
    assert_eq!(outputs(&mut process, at(10)), [Output::Terminate, Output::Wait(Some(at(13)))]);
    assert!(process.timed_out());
    // Killed before, or ended before: it is not the timeout's doing.
    let mut process = running(Config { timeout: Some(Duration::from_secs(10)), ..Config::default() });
    process.kill();
    assert_eq!(outputs(&mut process, at(9)), [Output::Terminate, Output::Wait(Some(at(10)))]);
    assert_eq!(outputs(&mut process, at(10)), [Output::Wait(Some(at(12)))]);
    process.handle_exit(Exit::Signal(15));
    assert!(!process.timed_out());
}

#[test]
fn what_has_not_started_is_killed_when_it_has() {
    let mut process = Process::new(Config::default(), at(0));
    process.kill();
    assert_eq!(outputs(&mut process, at(1)), [Output::Wait(None)]);
    process.handle_started(None);
    assert_eq!(outputs(&mut process, at(2)), [Output::Terminate, Output::Wait(Some(at(5)))]);
}

#[test]
fn what_cannot_start_ends_as_a_shell_says_it() {
    let mut process = Process::new(until_read(1000), at(0));
    let failure = StartFailure { code: 127, message: "sh: nonsense: not found".to_owned() };
    process.kill();
    process.handle_start_failed(&failure, 0);
    assert_eq!(outputs(&mut process, at(0)), [Output::Closed, Output::Wait(None)]);
    assert_eq!(process.exit_status(), Some(Exit::Code(127)));
    let mut reader = Reader::oldest(process.log_mut());
    assert_eq!(read(&mut process, &mut reader), "sh: nonsense: not found\n");
    // What runs did not fail to start.
    let mut process = running(Config::default());
    process.handle_start_failed(&failure, 0);
    assert!(process.is_running());
}

#[test]
fn what_is_lost_ends_without_an_invented_exit() {
    let mut process = running(Config::default());
    process.kill();
    assert_eq!(outputs(&mut process, at(1))[0], Output::Terminate);
    process.handle_lost();
    assert_eq!(process.exit_status(), Some(Exit::Unknown));
    assert_eq!(outputs(&mut process, at(2)), [Output::Closed, Output::Wait(None)]);
    // Lost after its exit: how it ended is known.
    let mut process = running(Config::default());
    process.handle_exit(Exit::Code(1));
    process.handle_lost();
    assert_eq!(process.exit_status(), Some(Exit::Code(1)));
}

#[test]
fn letting_go_kills_what_runs_and_waits_for_nothing() {
    let mut process = running(Config::default());
    process.close();
    assert_eq!(outputs(&mut process, at(1)), [Output::Sweep, Output::Closed, Output::Wait(None)]);
    assert_eq!(process.exit_status(), Some(Exit::Unknown));
    // What has ended by itself is left alone.
    let mut process = running(Config::default());
    process.handle_exit(Exit::Code(0));
    process.close();
    assert_eq!(outputs(&mut process, at(1)), [Output::Closed, Output::Wait(None)]);
    // A kill that was begun is carried through.
    for terminated in [false, true] {
        let mut process = running(Config::default());
        process.kill();
        if terminated {
            assert_eq!(outputs(&mut process, at(1))[0], Output::Terminate);
        }
        process.handle_exit(Exit::Signal(15));
        process.close();
        assert_eq!(outputs(&mut process, at(1)), [Output::Sweep, Output::Closed, Output::Wait(None)]);
    }
}

#[test]
fn signals_wait_in_order_and_are_bounded() {
    let signal = |signal| Output::Signal { signal, to: Target::Group };
    let mut process = Process::new(Config::default(), at(0));
    process.signal(Signal::HUP, Target::Group);
    process.handle_started(None);
    process.signal(Signal::INT, Target::Group);
    process.signal(Signal::USR1, Target::Group);
    let asked = [signal(Signal::INT), signal(Signal::USR1), Output::Wait(None)];
    assert_eq!(outputs(&mut process, at(1)), asked);
    process.signal(Signal::QUIT, Target::Group);
    (0..16).for_each(|_| process.signal(Signal::USR2, Target::Group));
    assert_eq!(outputs(&mut process, at(1))[..16], [signal(Signal::USR2); 16]);
    process.signal(Signal::INT, Target::Group);
    process.handle_exit(Exit::Code(0));
    process.handle_end_of_output();
    assert_eq!(outputs(&mut process, at(1)), [Output::Closed, Output::Wait(None)]);
}

#[test]
fn input_is_bounded_and_in_order_with_its_end_after_it() {
    let mut process = running(Config { max_stdin: 10, ..Config::default() });
    assert_eq!(process.write_stdin(Bytes::from("1234567")), None);
    assert_eq!(process.write_stdin(Bytes::from("89abc")), Some(Bytes::from("bc")));
    assert_eq!((process.stdin(), process.stdin_waiting()), (Some(&b"123456789a"[..]), (10, 1)));
    process.handle_stdin_written(4);
    assert_eq!((process.stdin(), process.stdin_waiting()), (Some(&b"56789a"[..]), (6, 1)));
    assert!(process.takes_stdin());
    process.close_stdin();
    assert!(!process.takes_stdin());
    assert_eq!(process.write_stdin(Bytes::from("more")), None);
    assert!(!process.wants_stdin_end());
    process.handle_stdin_written(6);
    assert!(process.wants_stdin_end());
    process.handle_stdin_closed();
    assert_eq!((process.wants_stdin_end(), process.stdin()), (false, None));
}

#[test]
fn input_a_byte_at_a_time_is_a_few_pieces() {
    let mut process = running(Config::default());
    for written in 1..=8192_usize {
        assert_eq!(process.write_stdin(Bytes::from_static(b"x")), None);
        assert_eq!(process.stdin_waiting(), (written, written.div_ceil(4096)));
    }
    assert_eq!(process.write_stdin(Bytes::new()), None);
    assert_eq!(process.write_stdin(Bytes::from(vec![b'y'; 4097])), None);
    assert_eq!(process.stdin_waiting(), (8192 + 4097, 3));
    process.handle_stdin_written(4096 + 4096 + 1);
    assert_eq!((process.stdin_waiting(), process.stdin().map(<[u8]>::len)), ((4096, 1), Some(4096)));
    process.handle_exit(Exit::Code(0));
    assert_eq!((process.stdin_waiting(), process.write_stdin(Bytes::from("more"))), ((0, 0), None));
}

#[test]
fn abandoned_output_slows_nobody() {
    let mut process = running(until_read(4));
    assert_eq!((process.handle_output(Channel::Stdout, 0, b"123456"), process.wants_output()), (4, 0));
    process.abandon_output();
    assert_eq!((process.handle_output(Channel::Stdout, 0, b"56"), process.wants_output()), (2, usize::MAX));
}

#[test]
fn what_it_is_started_with_and_how_is_told() {
    let config = Config { tty: Some(TtySize { cols: 80, rows: 24 }), max_stdin: 10, ..Config::default() };
    let mut process = Process::new(config, Time::ZERO);
    assert_eq!((process.tty(), process.start_failed()), (Some(TtySize { cols: 80, rows: 24 }), false));
    assert_eq!(process.stdin_room(), 10);
    assert_eq!(process.write_stdin(Bytes::from_static(b"1234")), None);
    assert_eq!(process.stdin_room(), 6);
    process.resize(TtySize { cols: 90, rows: 30 });
    assert_eq!(process.tty(), Some(TtySize { cols: 90, rows: 30 }));
    process.handle_start_failed(&StartFailure { code: 127, message: "not found".into() }, 0);
    assert!(process.start_failed());
    assert_eq!(Process::new(Config::default(), Time::ZERO).tty(), None);
}
