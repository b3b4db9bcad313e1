//! All watches over one instance of inotify, of which a user may have few: who watches which directory, and the one task
//! that reads and scans.
//!
//! ```text
//!  inotify ── notices ──► driver ──► the machine of each watch ◄── poll ── its consumer
//!     ▲                     │ ▲                  │
//!     │ arm, disarm         │ └──── Scan, List, Look: jobs ───┘
//!     └──── a thread that may block: does a job, hands the answer in, reads what waits, says that it did
//! ```
//!
//! While that thread works nobody else reads, so that every notice of what a job has armed comes after its answer. Two
//! watches of one directory have the same number for it, which is given back when nobody needs it.

mod driver;

use super::{
    inotify::{Inotify, Read, parse},
    place::{Fault, Open, Root},
};
use crate::{
    Runtime,
    runtime::Descriptor,
    watching::{Change, WatchError},
};
use bytes::Bytes;
use driver::drive;
use hangar_core::watch::{Blind, Config, Dir, End, Entry, Output, Scanned, Watch, Wd, What};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
    time::Duration,
};
use tokio::sync::Notify;

/// What is told to a consumer that is not there yet; the rest waits in its machine.
const READY: usize = 256;

/// Bytes of names in that, but for the last: a name is as long as its directories are deep.
const READY_BYTES: usize = 256 * 1024;

/// After this long a thread that works lets others have the notices.
const TURN: Duration = Duration::from_millis(10);

/// Directories that are let go of before the notices of that are read: each is one.
const RETIRED: usize = 256;

/// See the [module](self).
pub(super) struct Hub {
    runtime: Arc<dyn Runtime>,
    shared: Mutex<Shared>,
    /// Told when there is something to do for the driver.
    work: Notify,
}

#[derive(Debug, Default)]
struct Shared {
    /// While there are watches, and somebody who drives it.
    inotify: Option<Arc<Inotify>>,
    watches: BTreeMap<u64, Slot>,
    next: u64,
    /// The watches of each directory.
    users: BTreeMap<Wd, Vec<u64>>,
    jobs: VecDeque<(u64, Job)>,
    /// Directories that somebody let go of.
    retired: VecDeque<Wd>,
}

#[derive(Debug)]
struct Slot {
    machine: Watch,
    max_directories: usize,
    root: Arc<Root>,
    ready: VecDeque<Change>,
    /// Of the names in that.
    ready_bytes: usize,
    /// The directory that is being listed.
    open: Option<Open>,
    /// The watched directory itself is.
    is_armed: bool,
    is_over: bool,
    waker: Option<Waker>,
}

#[derive(Debug)]
enum Job {
    Scan(Dir, Bytes),
    List(Dir),
    Look(Bytes),
}

enum Answer {
    Scanned(Dir, Result<(Scanned, Open), Fault>),
    Listed(Dir, Vec<Entry>, bool, Option<Open>),
    Looked(bool),
}

impl Hub {
    pub(super) fn new(runtime: Arc<dyn Runtime>) -> Arc<Self> {
        Arc::new(Self { runtime, shared: Mutex::default(), work: Notify::new() })
    }

    /// One more watch, which is to be [removed](Self::remove).
    pub(super) fn insert(self: &Arc<Self>, root: Root, config: Config) -> Result<u64, WatchError> {
        let mut shared = self.lock();
        if shared.inotify.is_none() {
            let inotify = Inotify::new().map_err(|_| WatchError::TooManyInstances)?;
            let readable = self.readable(&inotify).map_err(|error| WatchError::Broken(error.to_string()))?;
            let inotify = Arc::new(inotify);
            shared.inotify = Some(Arc::clone(&inotify));
            self.runtime.spawn(Box::pin(drive(Arc::clone(self), inotify, readable)));
        }
        let id = shared.next;
        shared.next += 1;
        let slot = Slot {
            machine: Watch::new(config, self.runtime.now()),
            max_directories: config.max_directories,
            root: Arc::new(root),
            ready: VecDeque::new(),
            ready_bytes: 0,
            open: None,
            is_armed: false,
            is_over: false,
            waker: None,
        };
        shared.watches.insert(id, slot);
        Ok(id)
    }

    /// What tells that there is something to read.
    fn readable(&self, inotify: &Inotify) -> std::io::Result<Box<dyn Descriptor>> {
        self.runtime.watch(inotify.descriptor().try_clone_to_owned()?)
    }

    pub(super) fn remove(&self, id: u64) {
        let mut shared = self.lock();
        shared.watches.remove(&id);
        shared.leave_all(id);
        drop(shared);
        self.work.notify_one();
    }

    /// The next of a watch, or the time to ask again.
    pub(super) fn poll(&self, id: u64, cx: &Context<'_>) -> Result<Change, Option<hangar_core::Time>> {
        let mut shared = self.lock();
        let wait = shared.pump(id, self.runtime.now());
        let has_work = shared.has_work();
        let Some(slot) = shared.watches.get_mut(&id) else { return Err(None) };
        let change = slot.take();
        if change.is_none() && !slot.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            slot.waker = Some(cx.waker().clone());
        }
        drop(shared);
        if has_work {
            self.work.notify_one();
        }
        change.ok_or(wait)
    }

    /// Whether the watched directory itself is armed.
    pub(super) fn is_armed(&self, id: u64) -> bool {
        self.lock().watches.get(&id).is_some_and(|slot| slot.is_armed)
    }

    pub(super) fn retell(&self, id: u64) {
        let mut shared = self.lock();
        if let Some(slot) = shared.watches.get_mut(&id) {
            slot.machine.retell();
            slot.wake();
        }
    }

    /// Does what there is to do, for [`TURN`] at the most. On a thread that may block.
    fn work(&self, inotify: &Inotify, buffer: &mut [u8]) {
        let until = self.runtime.now() + TURN;
        loop {
            let mut shared = self.lock();
            shared.retire(inotify);
            let Some((id, job)) = shared.jobs.pop_front() else {
                if shared.retired.is_empty() {
                    return;
                }
                shared.read(inotify, buffer, self.runtime.now());
                continue;
            };
            let Some(slot) = shared.watches.get_mut(&id) else { continue };
            let (root, open) = (Arc::clone(&slot.root), slot.open.take());
            drop(shared);
            let answer = job.answer(inotify, &root, open);
            let now = self.runtime.now();
            let mut shared = self.lock();
            shared.answered(id, answer);
            shared.read(inotify, buffer, now);
            if let Some(slot) = shared.watches.get_mut(&id) {
                slot.machine.handle_drained();
                slot.is_armed = true;
                slot.wake();
            }
            shared.pump(id, now);
            if now >= until {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job {
    fn answer(self, inotify: &Inotify, root: &Root, open: Option<Open>) -> Answer {
        match self {
            Self::Scan(dir, path) => Answer::Scanned(dir, root.scan(inotify, &path)),
            Self::List(dir) => {
                let mut open = open;
                let (entries, is_all) = open.as_mut().map_or((Vec::new(), true), Open::list);
                Answer::Listed(dir, entries, is_all, open)
            }
            Self::Look(path) => Answer::Looked(root.look(&path)),
        }
    }
}

impl Slot {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn tell(&mut self, change: Change) {
        self.ready_bytes += names(&change);
        self.ready.push_back(change);
    }

    fn take(&mut self) -> Option<Change> {
        let change = self.ready.pop_front()?;
        self.ready_bytes -= names(&change);
        Some(change)
    }

    fn has_room(&self) -> bool {
        self.ready.len() < READY && self.ready_bytes < READY_BYTES && !self.is_over
    }

    fn broken(&mut self, error: WatchError) {
        self.tell(Change::Broken(error));
        self.machine.close();
        self.is_over = true;
    }
}

/// Bytes of the names in a change.
fn names(change: &Change) -> usize {
    match change {
        Change::Event(event) => event.len(),
        Change::Blind { name, .. } => name.len(),
        Change::Ready | Change::Ended(_) | Change::Broken(_) => 0,
    }
}

impl Shared {
    fn has_work(&self) -> bool {
        !self.jobs.is_empty() || !self.retired.is_empty()
    }

    /// What the machine of a watch has to say: to its consumer, and to the driver. Gives until when it waits.
    fn pump(&mut self, id: u64, now: hangar_core::Time) -> Option<hangar_core::Time> {
        while let Some(slot) = self.watches.get_mut(&id)
            && slot.has_room()
        {
            match slot.machine.poll_output(now) {
                Output::Event(event) => slot.tell(Change::Event(event)),
                Output::Ready => slot.tell(Change::Ready),
                Output::Blind { name, why } => slot.tell(Change::Blind { name, why }),
                Output::Scan { dir, path } => self.jobs.push_back((id, Job::Scan(dir, path))),
                Output::List { dir } => self.jobs.push_back((id, Job::List(dir))),
                Output::Look { path } => self.jobs.push_back((id, Job::Look(path))),
                Output::Disarm(wd) => self.leave(id, wd),
                Output::Closed(End::TooManyDirectories) => {
                    slot.broken(WatchError::TooManyDirectories(slot.max_directories));
                    self.leave_all(id);
                }
                Output::Closed(end) => {
                    slot.tell(Change::Ended(end));
                    slot.is_over = true;
                    self.leave_all(id);
                }
                Output::Wait(at) => return at,
            }
        }
        None
    }

    fn join(&mut self, id: u64, wd: Wd) {
        let users = self.users.entry(wd).or_default();
        if !users.contains(&id) {
            users.push(id);
        }
    }

    /// A watch needs a directory no longer.
    fn leave(&mut self, id: u64, wd: Wd) {
        let Some(users) = self.users.get_mut(&wd) else { return };
        users.retain(|user| *user != id);
        if users.is_empty() {
            self.users.remove(&wd);
            self.retired.push_back(wd);
        }
    }

    fn leave_all(&mut self, id: u64) {
        let retired = &mut self.retired;
        self.users.retain(|wd, users| {
            users.retain(|user| *user != id);
            if users.is_empty() {
                retired.push_back(*wd);
            }
            !users.is_empty()
        });
    }

    /// Lets go of some of the directories that nobody needs.
    fn retire(&mut self, inotify: &Inotify) {
        for _ in 0..RETIRED.min(self.retired.len()) {
            let Some(wd) = self.retired.pop_front() else { return };
            // Somebody may have come for it meanwhile.
            if !self.users.contains_key(&wd) {
                inotify.remove(wd);
            }
        }
    }

    fn answered(&mut self, id: u64, answer: Answer) {
        let armed: Vec<Wd> = match &answer {
            Answer::Scanned(_, Ok((scanned, _))) => {
                scanned.above.iter().map(|(above, _)| *above).chain([scanned.wd]).collect()
            }
            Answer::Scanned(..) | Answer::Listed(..) | Answer::Looked(_) => Vec::new(),
        };
        let Some(slot) = self.watches.get_mut(&id).filter(|slot| !slot.is_over) else {
            // Nobody is there any more.
            self.retired.extend(armed);
            return;
        };
        if let Answer::Scanned(_, Ok((_, open))) | Answer::Listed(.., Some(open)) = &answer
            && let Some(name) = open.broken()
        {
            slot.tell(Change::Blind { name, why: Blind::Denied });
        }
        match answer {
            Answer::Scanned(dir, Ok((scanned, open))) => {
                slot.open = (!scanned.is_all).then_some(open);
                slot.machine.handle_scanned(dir, Ok(scanned));
            }
            Answer::Scanned(dir, Err(Fault::Blind(why))) => slot.machine.handle_scanned(dir, Err(why)),
            Answer::Scanned(_, Err(Fault::Watch(error))) => {
                slot.broken(error);
                self.leave_all(id);
            }
            Answer::Listed(dir, entries, is_all, open) => {
                slot.open = open.filter(|_| !is_all);
                slot.machine.handle_listed(dir, entries, is_all);
            }
            Answer::Looked(is_there) => slot.machine.handle_looked(is_there),
        }
        for wd in armed {
            self.join(id, wd);
        }
    }

    /// Reads what waits now, and hands it in.
    fn read(&mut self, inotify: &Inotify, buffer: &mut [u8], now: hangar_core::Time) {
        let mut waiting = inotify.waiting();
        while waiting > 0 {
            let read = inotify.read(buffer);
            if read == 0 {
                return;
            }
            self.handle(&buffer[..read], now);
            waiting = waiting.saturating_sub(read as u64);
        }
    }

    /// Hands in what was read. Whether the last of it is the first half of a rename.
    fn handle(&mut self, bytes: &[u8], now: hangar_core::Time) -> bool {
        let (mut told, mut ends_in_half) = (BTreeSet::new(), false);
        for read in parse(bytes) {
            match read {
                Read::Notice(notice) => {
                    ends_in_half = notice.what == What::MovedFrom;
                    for id in self.users.get(&notice.wd).into_iter().flatten() {
                        if let Some(slot) = self.watches.get_mut(id) {
                            slot.machine.handle_notice(notice.clone(), now);
                            told.insert(*id);
                        }
                    }
                    if notice.what == What::Ignored {
                        self.users.remove(&notice.wd);
                    }
                }
                Read::Overflow => {
                    for (id, slot) in &mut self.watches {
                        slot.machine.handle_lost();
                        told.insert(*id);
                    }
                }
            }
        }
        for id in told {
            if let Some(slot) = self.watches.get_mut(&id) {
                slot.wake();
            }
        }
        ends_in_half
    }
}
