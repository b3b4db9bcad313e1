//! What runs on this machine, as `/proc` tells it, and which of it belongs to a process that was started here.

use crate::{
    Runtime,
    runtime::{BoxFuture, blocking},
};
use hangar_core::Time;
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal},
};
use std::{collections::BTreeSet, fs, io, sync::Arc};

/// The variable that names the process that something belongs to.
pub(super) const PROCESS_ID: &str = "HANGAR_PROCESS_ID";
/// The variable that names the sandbox that something belongs to.
pub(super) const SANDBOX_ID: &str = "HANGAR_SANDBOX_ID";

/// A process of the machine, told apart from a later one with the same number.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Identity {
    pub(super) pid: i32,
    /// Clock ticks since the machine's start.
    pub(super) start_time: u64,
}

/// What `/proc/PID/stat` says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Stat {
    pub(super) identity: Identity,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    pub(super) stopped: bool,
    /// It has ended, and waits to be reaped.
    pub(super) ended: bool,
}

impl Stat {
    pub(super) fn of(pid: i32) -> io::Result<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat"))?;
        Self::parse(&stat).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// `pid (name) state parent group session ..`; the name may hold anything, `) ` included.
    fn parse(stat: &[u8]) -> Option<Self> {
        let stat = String::from_utf8_lossy(stat);
        let (pid, rest) = stat.split_once(' ')?;
        let mut fields = rest.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let session = fields.next()?.parse().ok()?;
        let threads: i64 = fields.nth(13)?.parse().ok()?;
        let start_time = fields.nth(1)?.parse().ok()?;
        Some(Self {
            identity: Identity { pid: pid.parse().ok()?, start_time },
            parent,
            group,
            session,
            stopped: matches!(state, "T" | "t"),
            // Its first thread may have ended before the others.
            ended: matches!(state, "Z" | "X") && threads <= 1,
        })
    }
}

/// One process of a [`Snapshot`].
#[derive(Debug)]
pub(super) struct Member {
    pub(super) stat: Stat,
    pub(super) process_id: Option<Box<str>>,
    pub(super) sandbox_id: Option<Box<str>>,
}

impl Member {
    fn of(stat: Stat) -> io::Result<Self> {
        let environ = || fs::read(format!("/proc/{}/environ", stat.identity.pid));
        let environment = if stat.ended { None } else { there(environ())? };
        let value = |name| environment.as_deref().and_then(|environment| value(environment, name));
        Ok(Self { stat, process_id: value(PROCESS_ID), sandbox_id: value(SANDBOX_ID) })
    }
}

/// Everything on the machine that is not older than this server.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) all: Vec<Member>,
    /// Nothing was started while it was taken: who passes itself on to a child again and again is in it, too.
    pub(super) is_settled: bool,
    own_pid: i32,
}

/// How often `/proc` is listed for one snapshot, until a list has nobody new.
const LISTS: u32 = 3;

impl Snapshot {
    /// Reads `/proc`: some 10 µs for each process on the machine, so away from the tasks. What may not be read or
    /// has just ended is left out.
    pub(super) fn take() -> io::Result<Self> {
        let own_pid = getpid().as_raw_pid();
        let since = Stat::of(own_pid)?.identity.start_time;
        let mut this = Self { all: Vec::new(), is_settled: false, own_pid };
        let mut seen = BTreeSet::from([own_pid]);
        for _ in 0..LISTS {
            let before = seen.len();
            for entry in fs::read_dir("/proc")? {
                let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
                    continue;
                };
                if seen.insert(pid)
                    && let Some(stat) = there(Stat::of(pid))?
                    && stat.identity.start_time >= since
                {
                    this.all.push(Member::of(stat)?);
                }
            }
            this.is_settled = seen.len() == before;
            if this.is_settled {
                break;
            }
        }
        Ok(this)
    }

    #[cfg(test)]
    pub(super) const fn of(all: Vec<Member>) -> Self {
        Self { all, is_settled: true, own_pid: 99 }
    }

    /// All that are `roots`, with their descendants; none that has ended.
    pub(super) fn with_descendants(&self, roots: impl Fn(&Member) -> bool) -> Vec<&Member> {
        let living = || self.all.iter().filter(|member| !member.stat.ended);
        let pid = |member: &Member| member.stat.identity.pid;
        let mut found: BTreeSet<i32> = living().filter(|member| roots(member)).map(pid).collect();
        found.remove(&self.own_pid);
        loop {
            let before = found.len();
            for member in living() {
                if found.contains(&member.stat.parent) {
                    found.insert(pid(member));
                }
            }
            if found.len() == before {
                return living().filter(|member| found.contains(&pid(member))).collect();
            }
        }
    }

    /// Everything below this server that has not ended.
    pub(super) fn descendants(&self) -> Vec<&Member> {
        self.with_descendants(|member| member.stat.parent == self.own_pid)
    }

    pub(super) fn find(&self, pid: i32) -> Option<&Member> {
        self.all.iter().find(|member| member.stat.identity.pid == pid)
    }
}

/// What was read of a process; None where it has ended or may not be looked at. Everything else is an error: who
/// could not be looked at for want of descriptors may be a member.
fn there<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            Ok(None)
        }
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sends signals to what was found in a snapshot, if it is still there and, where a group is given, in it. Returns
/// whether there is still something to do: not where it is gone or may not be signalled.
pub(super) fn signal(identity: Identity, group: Option<i32>, signals: &[Signal]) -> bool {
    let send = || -> io::Result<bool> {
        let pid = Pid::from_raw(identity.pid).ok_or(Errno::SRCH)?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        // The descriptor holds whoever has the number now; that has to be who was found.
        let stat = Stat::of(identity.pid)?;
        if stat.identity != identity || group.is_some_and(|group| stat.group != group) {
            return Ok(false);
        }
        signals.iter().try_for_each(|signal| pidfd_send_signal(&pidfd, *signal))?;
        Ok(true)
    };
    there(send()).map_or_else(
        |error| {
            tracing::debug!(pid = identity.pid, %error, "not signalled");
            true
        },
        |sent| sent.unwrap_or(false),
    )
}

fn value(environment: &[u8], name: &str) -> Option<Box<str>> {
    environment.split(|byte| *byte == 0).find_map(|variable| {
        let value = variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(str::from_utf8(value).ok()?.into())
    })
}

/// Takes snapshots, one at a time: who asks while one is being taken shares the next, so that the end of hundreds of
/// processes at once costs a few.
pub(super) struct Scanner {
    runtime: Arc<dyn Runtime>,
    last: Arc<tokio::sync::Mutex<Option<Taken>>>,
}

/// The newest snapshot, and when it was begun.
struct Taken {
    begun: Time,
    snapshot: Arc<Snapshot>,
}

/// A snapshot on its way; None where `/proc` cannot be read now.
pub(super) type Scan = BoxFuture<'static, Option<Arc<Snapshot>>>;

impl Scanner {
    pub(super) fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self { runtime, last: Arc::default() }
    }

    /// A snapshot that is begun after this call.
    pub(super) fn scan(&self) -> Scan {
        let (runtime, last) = (Arc::clone(&self.runtime), Arc::clone(&self.last));
        let asked = runtime.now();
        Box::pin(async move {
            let mut last = last.lock().await;
            if let Some(taken) = last.as_ref().filter(|taken| taken.begun > asked) {
                return Some(Arc::clone(&taken.snapshot));
            }
            let begun = runtime.now();
            let snapshot = match blocking(&*runtime, Snapshot::take).await? {
                Ok(snapshot) => Arc::new(snapshot),
                Err(error) => {
                    tracing::debug!(%error, "/proc cannot be read");
                    return None;
                }
            };
            *last = Some(Taken { begun, snapshot: Arc::clone(&snapshot) });
            Some(snapshot)
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const fn member(pid: i32, parent: i32) -> Member {
        let identity = Identity { pid, start_time: 10 };
        let stat = Stat { identity, parent, group: 0, session: 0, stopped: false, ended: false };
        Member { stat, process_id: None, sandbox_id: None }
    }

    #[test]
    fn stat_is_read_whatever_the_name_is() {
        let line = |name: &str, state: &str, threads: u32| {
            format!(
                "42 ({name}) {state} 7 40 39 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 {threads} 0 2021 45473792 3570 1844\n"
            )
        };
        let stat = |stopped, ended| {
            let identity = Identity { pid: 42, start_time: 2021 };
            Some(Stat { identity, parent: 7, group: 40, session: 39, stopped, ended })
        };
        assert_eq!(Stat::parse(line("sh", "S", 1).as_bytes()), stat(false, false));
        assert_eq!(Stat::parse(line("a) Z 1 1 1 (b", "T", 1).as_bytes()), stat(true, false));
        assert_eq!(Stat::parse(line("sh", "Z", 1).as_bytes()), stat(false, true));
        assert_eq!(Stat::parse(line("first thread ended", "Z", 3).as_bytes()), stat(false, false));
        for broken in ["", "42", "42 (sh", "42 (sh) S 7", "x (sh) S 7 40 39"] {
            assert_eq!(Stat::parse(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn a_variable_is_found_by_its_whole_name() {
        let environment = b"A=1\0NOT_HANGAR_PROCESS_ID=x\0HANGAR_PROCESS_ID_TOO=y\0HANGAR_PROCESS_ID=01A\0\0";
        assert_eq!(value(environment, PROCESS_ID).as_deref(), Some("01A"));
        assert_eq!(value(b"", PROCESS_ID), None);
        assert_eq!(value(b"HANGAR_PROCESS_ID", PROCESS_ID), None);
        assert_eq!(value(b"HANGAR_PROCESS_ID=\xff", PROCESS_ID), None);
    }

    #[test]
    fn descendants_are_found_in_any_order_and_the_dead_are_not() {
        let mut ended = member(8, 7);
        ended.stat.ended = true;
        let all = vec![member(5, 6), member(6, 7), member(7, 1), ended, member(9, 1), member(10, 99)];
        let snapshot = Snapshot::of(all);
        let found = |root: i32| -> Vec<i32> {
            let members = snapshot.with_descendants(|member| member.stat.identity.pid == root);
            members.iter().map(|member| member.stat.identity.pid).collect()
        };
        assert_eq!((found(7), found(8), found(99)), (vec![5, 6, 7], vec![], vec![]));
        let below: Vec<i32> = snapshot.descendants().iter().map(|member| member.stat.identity.pid).collect();
        assert_eq!(below, [10], "99 is the server");
    }

    #[test]
    fn nobody_but_who_was_found_is_signalled() {
        let own = Stat::of(getpid().as_raw_pid()).unwrap();
        let later = Identity { start_time: own.identity.start_time + 1, ..own.identity };
        assert!(!signal(later, None, &[Signal::KILL]));
        assert!(!signal(own.identity, Some(own.group + 1), &[Signal::KILL]));
        assert!(!signal(Identity { pid: 0, start_time: 0 }, None, &[Signal::KILL]));
        assert!(signal(own.identity, Some(own.group), &[Signal::CONT]));
    }
}
