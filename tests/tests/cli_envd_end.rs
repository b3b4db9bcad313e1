//! What is left of a `hangar-envd` that was asked to end: nothing.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::real::{
    Hangar,
    binary::envd_path,
    envd::{Running, bash, launching},
    is_root,
    machine::children,
    skip, wait_until,
};
use rustix::process::{Pid, Signal, test_kill_process};
use std::process::Command;

#[test]
fn what_hid_from_the_daemon_ends_with_it() {
    launching("what_hid_from_the_daemon_ends_with_it", || {
        for output in [">/dev/null 2>&1", ""] {
            let running = Running::start(|_| {});
            let client = running.json();
            // No group, no environment and no parent says whose it is.
            let script = format!("(setsid env -i /bin/sleep 777 {output} &); exit 0");
            let followed = client.start(bash(&script));
            let mut hidden = None;
            wait_until("it is the daemon's own child", || {
                let is_sleep = |pid: &u32| {
                    std::fs::read(format!("/proc/{pid}/cmdline"))
                        .is_ok_and(|line| line == b"/bin/sleep\x00777\0")
                };
                hidden = children(running.pid()).into_iter().find(is_sleep);
                hidden.is_some()
            });
            let hidden = Pid::from_raw(hidden.unwrap().cast_signed()).unwrap();
            running.signal(Signal::TERM);
            assert_eq!(followed.collect().code(), Some(0), "{output}");
            assert_eq!(running.wait(), 0);
            // Whoever reaps it now may take a moment.
            let is_gone = || {
                let stat = std::fs::read_to_string(format!("/proc/{}/stat", hidden.as_raw_pid()));
                test_kill_process(hidden).is_err() || stat.is_ok_and(|stat| stat.contains(") Z "))
            };
            wait_until("it has ended", is_gone);
        }
    });
}

#[test]
fn without_a_thread_to_start_it_says_so_in_a_line() {
    let name = "without_a_thread_to_start_it_says_so_in_a_line";
    launching(name, move || {
        if !is_root() {
            return skip(name, "only root starts a daemon as another user, whose threads are counted");
        }
        // Nobody else runs as this user.
        let user = "--reuid 54322 --regid 54322 --clear-groups --bounding-set=-all";
        let shell = format!("ulimit -u 1; exec setpriv {user} \"$0\" --listen 127.0.0.1:0");
        let ended = Hangar::run(Command::new("bash").args(["-c", &shell]).arg(envd_path()));
        assert_eq!((ended.code, ended.stderr.trim_end().lines().count()), (1, 1), "{ended:?}");
        assert!(ended.stderr.contains("no thread can be started"), "{ended:?}");
    });
}
