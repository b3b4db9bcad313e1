//! Clients that read slowly or not at all, on both runtimes: they slow their command, and nothing is missing.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    on_each,
    real::{
        Event, Mark, On, Options, Server, Stream, line,
        machine::{wait_until_blocked, written},
        wait_until,
    },
};
use serde_json::json;
use std::{
    io::{self, ErrorKind},
    thread,
    time::{Duration, Instant},
};

on_each! {
    a_timeout_is_kept_although_nobody_reads;
    a_client_that_does_not_read_holds_its_command_up_and_nobody_else
    a_revocation_is_kept_although_nobody_reads
    a_shutdown_is_kept_although_nobody_reads
    a_client_that_leaves_without_reading_has_left
    what_waited_for_a_reader_is_all_there
    a_slow_reader_gets_everything
}

/// The numbers up to `last`, as `seq` prints them.
fn numbers(last: u32) -> Vec<u8> {
    (1..=last).flat_map(|number| format!("{number}\n").into_bytes()).collect()
}

/// A command that never stops printing, and a client that does not read. Returns once it is held up.
fn stalled(server: &Server, mark: &Mark) -> (Stream, i32, u64) {
    let stream = server.client().stream(&line("yes").mark(mark));
    let pid = mark.wait_for("yes");
    let wrote = wait_until_blocked(pid);
    (stream, pid, wrote)
}

/// Reads what is left of a stream. What came, and how it ended: with a result, or cut.
fn rest(stream: &mut Stream) -> (Vec<u8>, io::Result<Box<hangar_core::exec::ExecResult>>) {
    let mut all = Vec::new();
    loop {
        match stream.try_next() {
            Ok(Some(Event::Stdout(data))) => all.extend(data),
            Ok(Some(Event::Stderr(data))) => panic!("{data:?}"),
            Ok(Some(Event::Result(result))) => return (all, Ok(result)),
            Ok(None) => return (all, Err(ErrorKind::UnexpectedEof.into())),
            Err(error) => return (all, Err(error)),
        }
    }
}

/// What `yes` prints, from its first byte, without a hole.
fn only_yes(all: &[u8]) {
    let wrong = all.chunks(2).position(|line| line != b"y\n" && line != b"y");
    assert_eq!(wrong, None, "of {}", all.len());
}

fn a_client_that_does_not_read_holds_its_command_up_and_nobody_else(on: On) {
    let server = on.start_with(Options::unpaced());
    let mark = Mark::new();
    let (mut stream, pid, wrote) = stalled(&server, &mark);
    let collected = server.client().stream(&line("seq 1 1000")).collect();
    assert_eq!(collected.stdout, numbers(1000));
    assert_eq!(server.client().exec(&line("echo hi")).stdout, "hi\n");
    assert_eq!(written(pid), wrote, "it is still held up");
    // It goes on as soon as somebody reads.
    while written(pid) == wrote {
        assert!(matches!(stream.next_event(), Event::Stdout(_)));
    }
}

fn a_timeout_is_kept_although_nobody_reads(on: On) {
    let server = on.start_with(Options::unpaced());
    let mark = Mark::new();
    let begun = Instant::now();
    let mut stream = server.client().stream(&line("yes").mark(&mark).set("timeout", 3));
    mark.wait_for("yes");
    mark.wait_until_gone();
    assert!(begun.elapsed() >= Duration::from_secs(3));
    // Nothing of what it had printed is missing, and it is told how it ended.
    let (all, result) = rest(&mut stream);
    let result = result.unwrap();
    assert!(result.timed_out && !result.drain_timed_out, "{result:?}");
    assert_eq!(result.signal.as_deref(), Some("SIGTERM"));
    only_yes(&all);
}

fn a_revocation_is_kept_although_nobody_reads(on: On) {
    let server = on.start_with(Options::unpaced());
    let mark = Mark::new();
    let (id, client) = server.client().new_token(&json!({ "scope": "admin" }));
    let mut stream = client.stream(&line("yes").mark(&mark));
    wait_until_blocked(mark.wait_for("yes"));
    server.client().revoke(&id);
    mark.wait_until_gone();
    wait_until("the lease is given back", || server.plane().streams().leased() == 0);
    // What it finds when it reads at last is no end of a command.
    let (all, ended) = rest(&mut stream);
    only_yes(&all);
    assert!(ended.is_err(), "{ended:?}");
}

fn a_shutdown_is_kept_although_nobody_reads(on: On) {
    let mut options = Options::unpaced();
    options.settings.local_drain = Duration::from_secs(1);
    let server = on.start_with(options);
    let mark = Mark::new();
    let (mut stream, ..) = stalled(&server, &mark);
    server.shut_down();
    assert_eq!(server.wait().killed, usize::from(on.is_local()));
    if on.is_local() {
        assert_eq!(mark.living(), []);
    }
    let (all, ended) = rest(&mut stream);
    only_yes(&all);
    assert!(ended.is_err(), "{ended:?}");
}

fn a_client_that_leaves_without_reading_has_left(on: On) {
    let server = on.start_with(Options::unpaced());
    let mark = Mark::new();
    let (stream, ..) = stalled(&server, &mark);
    drop(stream);
    mark.wait_until_gone();
    wait_until("the lease is given back", || server.plane().streams().leased() == 0);
}

fn what_waited_for_a_reader_is_all_there(on: On) {
    let server = on.start_with(Options::unpaced());
    let mark = Mark::new();
    let stream = server.client().stream(&line("exec seq 1 2700000").mark(&mark));
    wait_until_blocked(mark.wait_for("seq 1 2700000"));
    let collected = stream.collect();
    assert_eq!(collected.result.exit_code, Some(0));
    assert!(!collected.result.drain_timed_out && !collected.result.output_capped);
    let expected = numbers(2_700_000);
    assert!(expected.len() > 20_000_000);
    assert!(collected.stdout == expected, "{} of {}", collected.stdout.len(), expected.len());
}

/// Three at a time, and as many on the other runtime.
fn a_slow_reader_gets_everything(on: On) {
    let server = on.start_with(Options::unpaced());
    let expected = numbers(2_000_000);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut stream = server.client().stream(&line("seq 1 2000000"));
                let collected = stream.collect_by(4096, || thread::sleep(Duration::from_micros(500)));
                assert_eq!(collected.result.exit_code, Some(0));
                assert!(collected.stdout.ends_with(b"\n2000000\n"), "{} bytes", collected.stdout.len());
                assert!(collected.stdout == expected);
            });
        }
    });
}
