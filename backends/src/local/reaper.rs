//! Who waits for which child of this server.
//!
//! A driver waits for the leader of its process, and for nobody else. What is left is orphans: a binary that has
//! called [`become_subreaper`] gets the orphans of its descendants as children of its own, so that they can be found
//! and ended. Such a binary has to reap them, with [`reap_orphans`]. An embedder that does neither leaves them to
//! its own parent or to init.

use super::members::Stat;
use crate::{
    Runtime,
    runtime::{blocking, sleep_until},
};
use hangar_core::process::Exit;
use rustix::{
    io::{Errno, retry_on_intr},
    process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process_group, set_child_subreaper, waitid},
};
use std::{
    collections::BTreeSet,
    fs, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError},
    time::Duration,
};

/// Between two looks for orphans. A look costs one system call when there is none.
const PERIOD: Duration = Duration::from_secs(1);

/// The leaders that drivers wait for. A server has one set of children, so there is one for all sandboxes in it.
static LEADERS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Held shared from before a child exists until it is in [`LEADERS`], and exclusively while orphans are reaped.
static SPAWNING: RwLock<()> = RwLock::new(());

/// Makes this server the parent of what its descendants leave behind. For binaries: it concerns the whole server,
/// and [`reap_orphans`] has to run from then on.
pub fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Reaps the orphans that became children of this server, for as long as the runtime runs it. For binaries, after
/// [`become_subreaper`].
///
/// It takes every child that is not the leader of a process of a [`LocalSandbox`](super::LocalSandbox), so a binary
/// that runs it starts no children in any other way.
pub async fn reap_orphans(runtime: Arc<dyn Runtime>) {
    loop {
        sleep_until(&*runtime, runtime.now() + PERIOD).await;
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if let Ok(Some(_)) = waitid(WaitId::All, peek)
            && let Some(Err(error)) = blocking(&*runtime, reap_now).await
        {
            tracing::warn!(%error, "orphans are not reaped");
        }
    }
}

/// Runs `spawn`, which gives the pid of a new child, and keeps that child for its driver.
pub(super) fn spawn<T, E>(spawn: impl FnOnce() -> Result<(i32, T), E>) -> Result<T, E> {
    let _spawning = SPAWNING.read().unwrap_or_else(PoisonError::into_inner);
    let (pid, child) = spawn()?;
    leaders().insert(pid);
    Ok(child)
}

/// Reaps a leader, if it has ended. Until then nobody else can have its number.
pub(super) fn reap_leader(pid: i32) -> io::Result<Option<Exit>> {
    let pid = Pid::from_raw(pid).ok_or(Errno::CHILD)?;
    // Under one lock: as soon as it is reaped, another child may have the number.
    let mut leaders = leaders();
    let status = retry_on_intr(|| waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG));
    if !matches!(status, Ok(None)) {
        leaders.remove(&pid.as_raw_pid());
    }
    Ok(status?.map(|status| match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => u8::try_from(signal).map_or(Exit::Unknown, Exit::Signal),
        (None, None) => Exit::Unknown,
    }))
}

/// Ends a leader that nobody drives, with its group, and reaps it. Blocks until then.
pub(super) fn end_leader(pid: i32) {
    let Some(leader) = Pid::from_raw(pid) else { return };
    let result = kill_process_group(leader, Signal::KILL)
        .and_then(|()| waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).map(drop))
        .map_err(io::Error::from)
        .and_then(|()| reap_leader(pid).map(drop));
    if let Err(error) = result {
        tracing::warn!(pid, %error, "a child that could not be driven is left");
    }
}

fn reap_now() -> io::Result<()> {
    let own_pid = getpid().as_raw_pid();
    let mut ended = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Ok(stat) = Stat::of(pid)
            && stat.ended
            && stat.parent == own_pid
        {
            ended.extend(Pid::from_raw(pid));
        }
    }
    // Whoever was being spawned while the list was made is registered once this lock is had.
    // Not waited for: a start that hangs (on a dead network file system, say) must not hold up all others. What is left
    // now is reaped the next time.
    let _spawning = match SPAWNING.try_write() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return Ok(()),
    };
    let leaders = leaders();
    for pid in ended {
        if !leaders.contains(&pid.as_raw_pid()) {
            match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
                // Its driver was faster.
                Ok(_) | Err(Errno::CHILD) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

fn leaders() -> MutexGuard<'static, BTreeSet<i32>> {
    LEADERS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        process::Command,
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    #[test]
    fn no_exit_code_of_a_leader_is_taken_by_the_reaper() {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    reap_now().unwrap();
                }
            });
            let starters: Vec<_> = (0..4).map(|code| scope.spawn(move || exits_with(code))).collect();
            let failed = starters.into_iter().filter_map(|starter| starter.join().err()).count();
            done.store(true, Ordering::Relaxed);
            assert_eq!(failed, 0);
        });
        assert!(leaders().is_empty());
    }

    fn exits_with(code: i32) {
        for _ in 0..20 {
            let started = spawn(|| {
                let child = Command::new("/bin/sh").args(["-c", &format!("exit {code}")]).spawn()?;
                let pid = Pid::from_child(&child).as_raw_pid();
                // It has ended before it is registered.
                thread::sleep(Duration::from_millis(10));
                Ok::<_, io::Error>((pid, pid))
            });
            let pid = started.unwrap();
            let exit = loop {
                if let Some(exit) = reap_leader(pid).unwrap() {
                    break exit;
                }
                thread::yield_now();
            };
            assert_eq!(exit, Exit::Code(code));
        }
    }

    #[test]
    fn a_child_that_cannot_be_driven_is_ended() {
        use std::os::unix::process::CommandExt;
        let started = spawn(|| {
            let child = Command::new("/bin/sleep").arg("100").process_group(0).spawn()?;
            let pid = Pid::from_child(&child).as_raw_pid();
            Ok::<_, io::Error>((pid, pid))
        });
        let pid = started.unwrap();
        end_leader(pid);
        assert!(!leaders().contains(&pid));
        assert!(reap_leader(pid).is_err());
    }
}
