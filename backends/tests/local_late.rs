//! Processes of a server that was held up: what happened in time counts, whenever it is looked at.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use hangar_backends::{
    Runtime as _,
    local::{Config, LocalSandbox},
    sandbox::Spec,
};
use hangar_core::process::{self, Exit};
use std::{sync::Arc, thread, time::Duration};
use support::{Ended, TestRuntime, read, shell, start};

/// Runs a command on a server that is held up for 4 s, from a moment after the command's start.
fn held_up(line: &str, timeout: Option<Duration>) -> Ended {
    let runtime = TestRuntime::start(1);
    let sandbox = LocalSandbox::new(Arc::clone(&runtime) as _, Config::default());
    let spec = shell(line);
    let process = process::Config { timeout, ..spec.process.clone() };
    let handle = start(&sandbox, Spec { process, ..spec }).unwrap();
    thread::sleep(Duration::from_millis(600));
    runtime.spawn(Box::pin(async { thread::sleep(Duration::from_secs(4)) }));
    read(&handle)
}

#[test]
fn who_ended_in_time_was_not_timed_out() {
    let ended = held_up("sleep 1; echo done; exit 3", Some(Duration::from_secs(3)));
    assert_eq!((ended.stdout().as_str(), ended.exit, ended.timed_out), ("done\n", Exit::Code(3), false));
}

#[test]
fn what_a_grandchild_printed_in_time_is_there() {
    let ended = held_up("(sleep 1; echo late) & echo early; exit 0", None);
    assert_eq!((ended.stdout().as_str(), ended.drain_timed_out), ("early\nlate\n", false));
}
