//! What concerns the whole server: its descriptors, its children, its limits. One test at a time.
#![cfg(feature = "local")]

mod support;

use hangar_backends::{
    Runtime, Sandbox,
    local::reaper::{become_subreaper, reap_orphans},
    sandbox::{Exhausted, Spec, StartError, Stdin},
};
use hangar_core::process::{Exit, Process};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    fs,
    sync::{Mutex, MutexGuard, PoisonError},
};
use support::{NONE, TestRuntime, argv, living, read, run, sandbox, shell, start, wait_until};

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// The states of this process's children.
fn children() -> Vec<char> {
    let own = std::process::id().to_string();
    let stats = fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| {
        let stat = fs::read_to_string(entry.ok()?.path().join("stat")).ok()?;
        let (_, fields) = stat.rsplit_once(") ")?;
        let mut fields = fields.split(' ');
        let state = fields.next()?.chars().next()?;
        (fields.next()? == own).then_some(state)
    });
    stats.collect()
}

#[test]
fn no_descriptor_and_no_child_is_left() {
    let _alone = alone();
    let sandbox = sandbox();
    let round = || {
        let handle = start(&sandbox, Spec { stdin: Stdin::Open, ..shell("echo a; exit 3") }).unwrap();
        let ended = read(&handle);
        assert_eq!((ended.stdout().as_str(), ended.exit), ("a\n", Exit::Code(3)));
        let ended = run(&sandbox, argv(&["hangar-no-such-program"]));
        assert_eq!(ended.exit, Exit::Code(127));
        start(&sandbox, Spec { cwd: Some("/no/such".into()), ..shell("true") }).unwrap_err();
        let handle = start(&sandbox, argv(&["sleep", "100.01PID"])).unwrap();
        handle.command(Process::kill);
        read(&handle);
    };
    let settled = || wait_until("all are released", || sandbox.processes().is_empty());
    round();
    settled();
    let before = descriptors();
    for _ in 0..50 {
        round();
    }
    settled();
    // The last scan's thread may be closing what it read.
    wait_until("no descriptor is left", || descriptors() <= before);
    assert!(children().is_empty(), "{:?}", children());
}

#[test]
fn orphans_are_reaped_and_exit_codes_are_not_taken() {
    let _alone = alone();
    become_subreaper().unwrap();
    let runtime = TestRuntime::shared();
    let task: std::sync::Arc<dyn Runtime> = runtime.clone();
    runtime.spawn(Box::pin(reap_orphans(task)));
    let sandbox = sandbox();
    for code in 0..20 {
        let line = format!("for i in 1 2 3; do setsid sleep 0.5 >/dev/null 2>&1 & done; exit {code}");
        assert_eq!(run(&sandbox, shell(&line)).exit, Exit::Code(code));
    }
    wait_until("orphans came here", || children().len() > 20);
    wait_until("and are reaped", || children().is_empty());

    // An orphan that cleared its environment is found by what it was a descendant of.
    let line =
        "(env -i setsid sleep 100.02PID >/dev/null 2>&1 &) ; sleep 0.3; env -i setsid sleep 100.03PID & wait";
    let handle = start(&sandbox, shell(line)).unwrap();
    wait_until("both run", || living("sleep 100.02PID").len() + living("sleep 100.03PID").len() == 2);
    handle.command(Process::kill);
    wait_until("it ends", || handle.is_released());
    assert_eq!(living("sleep 100.03PID"), NONE);
    // This one's parent was gone before anybody looked: nothing tells whose it is.
    let lost = living("sleep 100.02PID");
    assert_eq!(lost.len(), 1);
    let lost = rustix::process::Pid::from_raw(lost[0]).unwrap();
    rustix::process::kill_process(lost, rustix::process::Signal::KILL).unwrap();
    wait_until("it is reaped", || children().is_empty());
}

#[test]
fn without_descriptors_nothing_starts_and_nothing_is_left() {
    let _alone = alone();
    let sandbox = sandbox();
    run(&sandbox, shell("true"));
    wait_until("it is released", || sandbox.processes().is_empty());
    let before = descriptors();
    let limits = getrlimit(Resource::Nofile);
    let mut results = Vec::new();
    // Well below what is open, where nothing can be opened, whatever has been closed in between: and up to enough.
    for open in before.saturating_sub(8)..before + 24 {
        let limit = Rlimit { current: Some(open as u64), ..limits };
        setrlimit(Resource::Nofile, limit).unwrap();
        let started = start(&sandbox, Spec { stdin: Stdin::Open, ..argv(&["sleep", "100.04PID"]) });
        setrlimit(Resource::Nofile, limits).unwrap();
        match started {
            Ok(handle) => {
                handle.command(Process::kill);
                wait_until("it ends", || handle.is_released());
                results.push(None);
            }
            Err(error) => results.push(Some(error)),
        }
        wait_until("no descriptor is left", || descriptors() <= before);
        assert_eq!((living("sleep 100.04PID"), children()), (vec![], vec![]), "with {open} open");
    }
    assert_eq!(results.first(), Some(&Some(StartError::Exhausted(Exhausted::Descriptors))));
    assert_eq!(results.last(), Some(&None));
    results.retain(|result| !matches!(result, None | Some(StartError::Exhausted(Exhausted::Descriptors))));
    assert!(results.is_empty(), "{results:?}");
}

#[test]
fn a_kill_without_descriptors_is_made_up_for() {
    let _alone = alone();
    let sandbox = sandbox();
    let handle = start(&sandbox, shell("setsid sleep 100.05PID & sleep 100.05PID")).unwrap();
    wait_until("both run", || living("sleep 100.05PID").len() == 2);
    let limits = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(descriptors() as u64 - 1), ..limits }).unwrap();
    handle.command(Process::kill);
    std::thread::sleep(std::time::Duration::from_millis(700));
    setrlimit(Resource::Nofile, limits).unwrap();
    wait_until("it ends", || handle.is_released());
    assert_eq!(living("sleep 100.05PID"), NONE);
}
