//! Commands on terminals of this machine.
#![cfg(feature = "local")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use bytes::Bytes;
use hangar_backends::{
    Handle,
    sandbox::{Spec, Stdin},
};
use hangar_core::{
    log::{Channel, Retention},
    process::{self, Exit, Process, Signal, Target, TtySize},
};
use std::{fs, sync::Arc, time::Duration};
use support::{living, read, run, sandbox, shell, start, unique, wait_for, wait_until};

/// A command line on a terminal of 100 columns and 30 rows, whose output is kept.
fn on_tty(line: &str) -> Spec {
    let process = process::Config {
        tty: Some(TtySize { cols: 100, rows: 30 }),
        retention: Retention::Ring { bytes: 1 << 20 },
        ..process::Config::default()
    };
    Spec { stdin: Stdin::Open, process, ..shell(line) }
}

fn input(handle: &Arc<Handle>, text: &str) {
    let text = Bytes::copy_from_slice(text.as_bytes());
    assert_eq!(handle.command(|process| process.write_stdin(text)), None);
}

fn text(handle: &Arc<Handle>) -> String {
    String::from_utf8(read(handle).bytes(Channel::Tty)).unwrap()
}

#[test]
fn all_three_are_the_terminal_and_its_end_is_no_error() {
    let line =
        "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all; echo apart >&2; stty size; echo $TERM; tty; exit 3";
    let ended = run(&sandbox(), on_tty(line));
    assert_eq!(ended.exit, Exit::Code(3));
    let text = String::from_utf8(ended.bytes(Channel::Tty)).unwrap();
    let (fixed, tty) = text.rsplit_once("/dev/pts/").unwrap();
    assert_eq!(fixed, "all\r\napart\r\n30 100\r\nxterm-256color\r\n");
    assert!(tty.trim_end().parse::<u32>().is_ok(), "{tty}");
    assert!(ended.stdout().is_empty() && ended.stderr().is_empty() && !ended.drain_timed_out);
}

#[test]
fn it_is_the_controlling_terminal_of_a_session() {
    let line = "echo reached > /dev/tty; ps -o sess= -p $$ | tr -d ' \n'; echo \" $$\"";
    let text = text(&start(&sandbox(), on_tty(line)).unwrap());
    let (reached, ids) = text.trim_end().split_once("\r\n").unwrap();
    let (session, pid) = ids.split_once(' ').unwrap();
    assert_eq!((reached, session), ("reached", pid));
}

#[test]
fn what_was_printed_before_the_end_is_read_before_it() {
    for _ in 0..20 {
        let ended = run(&sandbox(), on_tty("seq 1 4000"));
        let text = String::from_utf8(ended.bytes(Channel::Tty)).unwrap();
        assert_eq!(text.lines().count(), 4000);
        assert!(text.ends_with("\r\n4000\r\n"));
    }
}

#[test]
fn a_resize_is_seen() {
    let line = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done";
    let handle = start(&sandbox(), on_tty(line)).unwrap();
    wait_for(&handle, "ready");
    handle.command(|process| process.resize(TtySize { cols: 132, rows: 50 }));
    assert_eq!(text(&handle), "ready\r\n50 132\r\n");
}

#[test]
fn input_is_typed_and_control_c_interrupts() {
    let handle = start(&sandbox(), on_tty("read line; echo got $line; sleep 600")).unwrap();
    input(&handle, "hello\r");
    wait_for(&handle, "got hello");
    input(&handle, "\x03");
    let ended = read(&handle);
    assert_eq!(ended.exit, Exit::Signal(2));
    let text = String::from_utf8(ended.bytes(Channel::Tty)).unwrap();
    assert_eq!(text, "hello\r\ngot hello\r\n^C");
}

#[test]
fn the_end_of_input_is_a_character() {
    let handle = start(&sandbox(), on_tty("stty -echo; echo ready; cat; cat; echo done")).unwrap();
    wait_for(&handle, "ready");
    for word in ["one", "two"] {
        input(&handle, &format!("{word}\r"));
        wait_for(&handle, word);
        handle.command(Process::close_stdin);
    }
    assert_eq!(text(&handle), "ready\r\none\r\ntwo\r\ndone\r\n");
}

#[test]
fn it_is_killed_with_all_that_has_it() {
    let line =
        "sleep 776PID & setsid sleep 777PID & trap '' HUP TERM; sleep 778PID & echo up; wait; sleep 779PID";
    let handle = start(&sandbox(), on_tty(line)).unwrap();
    wait_for(&handle, "up");
    let all = ["sleep 776PID", "sleep 777PID", "sleep 778PID"];
    wait_until("they run", || all.iter().all(|line| living(line).len() == 1));
    handle.command(Process::kill);
    read(&handle);
    wait_until("none is left", || all.iter().chain(&["sleep 779PID"]).all(|line| living(line).is_empty()));
}

#[test]
fn a_job_of_an_interactive_shell_is_killed_too() {
    let handle = start(&sandbox(), on_tty("exec bash --norc -i")).unwrap();
    input(&handle, &format!("{}\r", unique("sleep 775PID & sleep 774PID")));
    let jobs = ["sleep 775PID", "sleep 774PID"];
    wait_until("they run", || jobs.iter().all(|line| living(line).len() == 1));
    handle.command(|process| process.signal(Signal::HUP, Target::Group));
    handle.command(Process::kill);
    read(&handle);
    wait_until("none is left", || jobs.iter().all(|line| living(line).is_empty()));
}

#[test]
fn who_keeps_it_open_does_not_hold_up_the_end() {
    let handle = start(&sandbox(), on_tty("trap '' HUP; sleep 773PID & echo done")).unwrap();
    let ended = read(&handle);
    assert!(ended.drain_timed_out && ended.exit == Exit::Code(0));
    assert!(ended.took < Duration::from_secs(15), "{:?}", ended.took);
    handle.command(Process::kill);
    wait_until("it is gone", || living("sleep 773PID").is_empty());
}

#[test]
fn nothing_of_it_is_left_open() {
    let sandbox = sandbox();
    let open = || {
        fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter(|entry| {
                let target = entry.as_ref().ok().and_then(|entry| fs::read_link(entry.path()).ok());
                target.is_some_and(|target| target.ends_with("ptmx") || target.starts_with("/dev/pts"))
            })
            .count()
    };
    let ids = (0..20).map(|_| run(&sandbox, on_tty("true")).handle);
    let handles: Vec<_> = ids.collect();
    wait_until("they are let go of", || handles.iter().all(|handle| handle.is_released()));
    // Other tests have theirs at the same time.
    wait_until("no terminal is left open", || open() < 20 * 2);
}
