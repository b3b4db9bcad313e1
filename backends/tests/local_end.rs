//! The end of commands on this machine, and of the sandboxes that they are in.
#![cfg(feature = "local")]

mod support;

use hangar_backends::{
    Sandbox,
    sandbox::{Spec, StartError},
};
use hangar_core::process::{self, Exit, Process, Signal, Target};
use std::{fs, time::Duration};
use support::{NONE, kept, living, read, run, sandbox, shell, start, wait_for, wait_until};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_kill_reaches_all_children() {
    let sandbox = sandbox();
    let handle = start(&sandbox, shell("sleep 777.01PID & sleep 778.01PID; wait")).unwrap();
    wait_until("both run", || living("sleep 777.01PID").len() + living("sleep 778.01PID").len() == 2);
    handle.command(Process::kill);
    let took = wait_until("it ends", || handle.is_released());
    assert!(took < seconds(2), "KILL was waited for: {took:?}");
    assert_eq!((living("sleep 777.01PID"), living("sleep 778.01PID")), (vec![], vec![]));
    assert_eq!(read(&handle).exit, Exit::Signal(15));
}

#[test]
fn a_kill_reaches_what_left_the_group() {
    let sandbox = sandbox();
    let line = "setsid sleep 779.01PID & env -i setsid sleep 779.02PID & (setsid sleep 779.03PID &) ; sleep 779.04PID";
    let handle = start(&sandbox, shell(line)).unwrap();
    let lines = ["sleep 779.01PID", "sleep 779.02PID", "sleep 779.03PID", "sleep 779.04PID"];
    wait_until("all run", || lines.iter().all(|line| living(line).len() == 1));
    handle.command(Process::kill);
    wait_until("it ends", || handle.is_released());
    for line in lines {
        assert_eq!(living(line), NONE, "{line}");
    }
}

#[test]
fn a_kill_reaches_the_group_of_a_leader_that_is_gone() {
    let sandbox = sandbox();
    let handle = start(&sandbox, shell("trap '' TERM; sleep 100.01PID & exit")).unwrap();
    wait_until("it exits", || handle.command(|process| process.exit_status()).is_some());
    handle.command(Process::kill);
    let took = wait_until("it ends", || handle.is_released());
    assert!(took >= Duration::from_millis(2500), "TERM was ignored, and the grace time not given: {took:?}");
    assert_eq!(living("sleep 100.01PID"), NONE);
}

#[test]
fn a_group_that_obeys_after_its_leader_is_gone_is_not_kept_waiting() {
    let sandbox = sandbox();
    let handle = start(&sandbox, shell("sleep 100.02PID & sleep 100.03PID & exit")).unwrap();
    wait_until("it exits", || handle.command(|process| process.exit_status()).is_some());
    handle.command(Process::kill);
    let took = wait_until("it ends", || handle.is_released());
    assert!(took < seconds(2), "{took:?}");
    assert_eq!((living("sleep 100.02PID"), living("sleep 100.03PID")), (vec![], vec![]));
}

#[test]
fn who_ignores_term_is_killed() {
    let sandbox = sandbox();
    let handle =
        start(&sandbox, kept(shell("trap '' TERM; echo ready; while :; do sleep 0.1; done"))).unwrap();
    wait_for(&handle, "ready");
    handle.command(Process::kill);
    let ended = read(&handle);
    assert_eq!(ended.exit, Exit::Signal(9));
    assert!(ended.took >= Duration::from_millis(2500) && ended.took < seconds(8), "{:?}", ended.took);
}

#[test]
fn who_cleans_up_at_term_is_heard() {
    let sandbox = sandbox();
    let line = "trap 'echo cleaned; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let handle = start(&sandbox, kept(shell(line))).unwrap();
    wait_for(&handle, "ready");
    handle.command(Process::kill);
    let ended = read(&handle);
    assert_eq!((ended.stdout().as_str(), ended.exit), ("ready\ncleaned\n", Exit::Code(5)));
}

#[test]
fn who_is_stopped_can_be_killed() {
    let sandbox = sandbox();
    let handle = start(&sandbox, kept(shell("echo ready; kill -STOP $$; sleep 100.04PID"))).unwrap();
    wait_for(&handle, "ready");
    std::thread::sleep(Duration::from_millis(200));
    handle.command(Process::kill);
    let took = wait_until("it ends", || handle.is_released());
    assert!(took < seconds(2), "{took:?}");
    assert_eq!(read(&handle).exit, Exit::Signal(15));
}

#[test]
fn a_timeout_kills() {
    let sandbox = sandbox();
    let spec = shell("echo a; sleep 100.05PID");
    let process = process::Config { timeout: Some(Duration::from_millis(500)), ..spec.process.clone() };
    let ended = run(&sandbox, Spec { process, ..spec });
    assert_eq!((ended.stdout().as_str(), ended.exit, ended.timed_out), ("a\n", Exit::Signal(15), true));
    assert!(ended.took < seconds(5), "{:?}", ended.took);
    wait_until("it ends", || ended.handle.is_released());
    assert_eq!(living("sleep 100.05PID"), NONE);
}

#[test]
fn a_process_can_be_let_go_of_at_once() {
    let sandbox = sandbox();
    let handle = start(&sandbox, shell("trap '' TERM; sleep 100.06PID & sleep 100.06PID")).unwrap();
    wait_until("both run", || living("sleep 100.06PID").len() == 2);
    handle.command(Process::close);
    let took = wait_until("it ends", || handle.is_released());
    assert!(took < seconds(2), "{took:?}");
    assert_eq!((living("sleep 100.06PID"), sandbox.processes().len()), (vec![], 0));
}

#[test]
fn a_fork_bomb_that_leaves_its_group_is_swept() {
    let sandbox = sandbox();
    let line = "for i in $(seq 40); do setsid sh -c 'trap \"\" TERM; setsid sleep 100.07PID; sleep 100.07PID' & done; wait";
    let handle = start(&sandbox, shell(line)).unwrap();
    wait_until("all run", || living("sleep 100.07PID").len() == 40);
    handle.command(Process::kill);
    wait_until("it ends", || handle.is_released());
    assert_eq!(living("sleep 100.07PID"), NONE);
}

// Its surroundings.

#[test]
fn pause_stops_everything_and_resume_goes_on() {
    let sandbox = sandbox();
    let line = "(while :; do echo tick; sleep 0.02; done) & setsid sleep 100.10PID & wait";
    let handle = start(&sandbox, kept(shell(line))).unwrap();
    wait_for(&handle, "tick\ntick\n");
    wait_until("it runs", || living("sleep 100.10PID").len() == 1);
    async_io::block_on(sandbox.pause()).unwrap();
    let state = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", living("sleep 100.10PID")[0])).unwrap();
        stat.rsplit(") ").next().unwrap().chars().next().unwrap()
    };
    wait_until("it is stopped", || state() == 'T');
    assert_eq!(start(&sandbox, shell("true")).unwrap_err(), StartError::Paused);
    let printed = || handle.command(|process| process.log().end_offset());
    std::thread::sleep(Duration::from_millis(100));
    let before = printed();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(printed(), before);
    async_io::block_on(sandbox.resume()).unwrap();
    wait_until("it goes on", || printed() > before);
    assert_ne!(state(), 'T');
    // A paused process is not let go on by a signal, and can be ended.
    async_io::block_on(sandbox.pause()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let before = printed();
    handle.command(|process| process.signal(Signal::CONT, Target::Group));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(printed(), before);
    handle.command(Process::kill);
    let took = wait_until("it ends", || handle.is_released());
    assert!(took < seconds(2), "{took:?}");
    assert_eq!(living("sleep 100.10PID"), NONE);
}

#[test]
fn destroy_does_not_wait_for_a_reader_that_does_not_read() {
    let sandbox = sandbox();
    let handle = start(&sandbox, shell("yes hangar-PID")).unwrap();
    wait_until("its output waits", || handle.command(|process| process.wants_output() == 0));
    // Until its processes are given up, something would be left.
    assert_eq!(async_io::block_on(sandbox.destroy()), Ok(()));
    assert_eq!((living("yes hangar-PID"), handle.is_released()), (vec![], true));
}

#[test]
fn a_timeout_continues_nothing_that_is_paused() {
    let sandbox = sandbox();
    let spec = kept(shell("trap 'echo asked' TERM; while :; do echo runs; sleep 0.05; done"));
    let process = process::Config { timeout: Some(seconds(2)), ..spec.process.clone() };
    let handle = start(&sandbox, Spec { process, ..spec }).unwrap();
    wait_for(&handle, "runs");
    assert_eq!(async_io::block_on(sandbox.pause()), Ok(()));
    // What it had printed by then is read.
    std::thread::sleep(Duration::from_millis(200));
    let printed = handle.command(|process| process.log().end_offset());
    let ended = read(&handle);
    assert_eq!((ended.exit, ended.timed_out), (Exit::Signal(9), true));
    assert_eq!(ended.frames.last().map(hangar_core::log::Frame::end), Some(printed));
}

#[test]
fn destroy_leaves_nothing() {
    let sandbox = sandbox();
    let handles: Vec<_> =
        (0..10).map(|_| start(&sandbox, shell("sleep 100.11PID & wait")).unwrap()).collect();
    // Without an output of the process's, it is let go of as soon as the leader has ended.
    let left = run(&sandbox, shell("setsid sleep 100.11PID >/dev/null 2>&1 &"));
    wait_until("all run", || left.handle.is_released() && living("sleep 100.11PID").len() == 11);
    assert_eq!(sandbox.processes().len(), 10);
    assert_eq!(sandbox.ending_with_server().len(), 10);
    assert_eq!(async_io::block_on(sandbox.destroy()), Ok(()));
    assert!(handles.iter().all(|handle| handle.is_released()));
    assert_eq!((living("sleep 100.11PID"), sandbox.processes().len()), (vec![], 0));
    assert_eq!(start(&sandbox, shell("true")).unwrap_err(), StartError::Destroyed);
    assert_eq!(async_io::block_on(sandbox.destroy()), Ok(()));
}
