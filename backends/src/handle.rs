//! A process as its driver and its readers share it.

use hangar_core::process::Process;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

/// One process: its machine behind a lock that is held for a moment at a time, and who is to be woken when it changed.
///
/// The driver feeds it ([`drive`](Self::drive)), readers pull from it ([`Reading::read`]), and whoever may command
/// it does ([`command`](Self::command)).
#[derive(Debug)]
pub struct Handle {
    id: String,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    process: Process,
    driver: Option<Waker>,
    readers: BTreeMap<u64, Slot>,
    next_reader: u64,
    /// The driver found no room for output when it looked last.
    stalled: bool,
    /// The driver has let go of it.
    gone: bool,
    /// The driver is woken when a reader comes.
    notices_readers: bool,
}

/// One reader, and who is to be woken for it.
#[derive(Debug)]
struct Slot {
    waker: Option<Waker>,
    /// It does not read: it waits for the end.
    ends_only: bool,
}

/// What readers can see of a process: when it changes they are woken.
#[derive(Eq, PartialEq)]
struct Seen {
    end: u64,
    over: bool,
    exited: bool,
    input_room: usize,
    /// Its input was closed.
    input_ended: bool,
    /// What it printed is not known.
    unfound: bool,
}

impl Seen {
    fn of(process: &Process) -> Self {
        Self {
            end: process.log().end_offset(),
            over: process.log().is_ended(),
            exited: process.exit_status().is_some(),
            input_room: process.stdin_room(),
            input_ended: !process.takes_stdin(),
            unfound: process.is_unfound(),
        }
    }
}

/// Readers to wake once the lock is let go of. One is the common case, and costs no list.
#[must_use]
#[derive(Default)]
struct Waiting {
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Waiting {
    fn wake(self) {
        self.first.into_iter().chain(self.others).for_each(Waker::wake);
    }
}

impl Inner {
    /// Changes the process; with it come the readers that can see the change.
    fn change<T>(&mut self, change: impl FnOnce(&mut Process) -> T) -> (T, Waiting) {
        let before = Seen::of(&self.process);
        let result = change(&mut self.process);
        let after = Seen::of(&self.process);
        let readers = match before == after {
            true => Waiting::default(),
            false => self.waiting(before.over != after.over || before.exited != after.exited),
        };
        (result, readers)
    }

    /// Those that wait for output, and for the end where `ends`.
    fn waiting(&mut self, ends: bool) -> Waiting {
        let woken = self.readers.values_mut().filter(|slot| ends || !slot.ends_only);
        let mut woken = woken.filter_map(|slot| slot.waker.take());
        Waiting { first: woken.next(), others: woken.collect() }
    }
}

impl Handle {
    /// A process that is about to be driven.
    pub fn new(id: String, process: Process) -> Arc<Self> {
        let inner = Inner {
            process,
            driver: None,
            readers: BTreeMap::new(),
            next_reader: 0,
            stalled: false,
            gone: false,
            notices_readers: false,
        };
        Arc::new(Self { id, inner: Mutex::new(inner) })
    }

    /// The process's id: a ULID.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// For the driver: feeds the process, and wakes its readers if they can see a change. The driver is woken when a
    /// command comes, and when there is room for output again.
    pub fn drive<T>(&self, driver: &Waker, feed: impl FnOnce(&mut Process) -> T) -> T {
        let mut inner = self.lock();
        if !inner.driver.as_ref().is_some_and(|waker| waker.will_wake(driver)) {
            inner.driver = Some(driver.clone());
        }
        let (result, readers) = inner.change(feed);
        inner.stalled = inner.process.wants_output() == 0;
        drop(inner);
        readers.wake();
        result
    }

    /// For the driver: it lets go of the process. Who waits is woken.
    pub fn release(&self) {
        let mut inner = self.lock();
        inner.gone = true;
        inner.driver = None;
        let readers = inner.waiting(true);
        drop(inner);
        readers.wake();
    }

    /// Whether the driver has let go of it: it is over, read to its end and swept.
    pub fn is_released(&self) -> bool {
        self.lock().gone
    }

    /// For the driver: from here on it is woken when a reader comes.
    pub fn notice_readers(&self) {
        self.lock().notices_readers = true;
    }

    /// Whether somebody reads it now, and does not only wait for its end.
    pub fn is_read(&self) -> bool {
        self.lock().readers.values().any(|slot| !slot.ends_only)
    }

    /// Asks the process something. Nobody is woken.
    pub fn look<T>(&self, look: impl FnOnce(&Process) -> T) -> T {
        look(&self.lock().process)
    }

    /// Commands the process: kill, signal, input. The driver is woken, and its readers if they can see a change.
    pub fn command<T>(&self, command: impl FnOnce(&mut Process) -> T) -> T {
        let mut inner = self.lock();
        let (result, readers) = inner.change(command);
        let driver = inner.driver.clone();
        drop(inner);
        readers.wake();
        if let Some(driver) = driver {
            driver.wake();
        }
        result
    }

    /// One more reader.
    pub fn reader(self: &Arc<Self>) -> Reading {
        self.register(false)
    }

    /// Somebody who waits for its end, and is not woken for output.
    pub fn watcher(self: &Arc<Self>) -> Reading {
        self.register(true)
    }

    fn register(self: &Arc<Self>, ends_only: bool) -> Reading {
        let mut inner = self.lock();
        let id = inner.next_reader;
        inner.next_reader += 1;
        inner.readers.insert(id, Slot { waker: None, ends_only });
        let driver = inner.driver.clone().filter(|_| inner.notices_readers && !ends_only);
        drop(inner);
        if let Some(driver) = driver {
            driver.wake();
        }
        Reading { handle: Arc::clone(self), id }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic of one reader is no reason to lose the process.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader's hold of a process. Dropped, it is no longer woken.
#[derive(Debug)]
pub struct Reading {
    handle: Arc<Handle>,
    id: u64,
}

impl Reading {
    /// Reads from the process. `waker` is woken at the next change that a reader can see. The driver is woken if it
    /// waited for the room that this made, or has to wait for somebody else now.
    pub fn read<T>(&self, waker: &Waker, read: impl FnOnce(&mut Process) -> T) -> T {
        let mut inner = self.handle.lock();
        let result = read(&mut inner.process);
        if let Some(slot) = inner.readers.get_mut(&self.id)
            && !slot.waker.as_ref().is_some_and(|old| old.will_wake(waker))
        {
            slot.waker = Some(waker.clone());
        }
        let wakes = (inner.stalled && inner.process.wants_output() > 0) || inner.process.wants_poll();
        let driver = wakes.then(|| inner.driver.clone()).flatten();
        drop(inner);
        if let Some(driver) = driver {
            driver.wake();
        }
        result
    }

    /// Ready once `done`. `waker` is woken at the next change that this one sees.
    pub fn poll_until(&self, waker: &Waker, done: impl FnOnce(&Process) -> bool) -> Poll<()> {
        if self.read(waker, |process| done(process)) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The process.
    pub const fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.handle.lock().readers.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hangar_core::{Time, process::Config};
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::Wake,
    };

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A running process with a reader that waits, and how often each was woken.
    fn waiting() -> (Arc<Handle>, Reading, Arc<Count>, Arc<Count>) {
        let handle = Handle::new("id".to_owned(), Process::new(Config::default(), Time::ZERO));
        let (driver, reader) = (Arc::new(Count::default()), Arc::new(Count::default()));
        handle.drive(&Arc::clone(&driver).into(), |process| process.handle_started(None));
        let reading = handle.reader();
        reading.read(&Arc::clone(&reader).into(), |_| ());
        (handle, reading, driver, reader)
    }

    #[test]
    fn a_command_wakes_the_driver_and_readers_that_see_a_change() {
        let (handle, reading, driver, reader) = waiting();
        handle.command(Process::kill);
        assert_eq!((driver.0.load(Ordering::SeqCst), reader.0.load(Ordering::SeqCst)), (1, 0));
        handle.command(Process::close);
        assert_eq!((driver.0.load(Ordering::SeqCst), reader.0.load(Ordering::SeqCst)), (2, 1));
        drop(reading);
        assert_eq!(handle.lock().readers.len(), 0, "a reader that is gone is not kept");
    }

    #[test]
    fn a_reader_is_woken_once_for_a_change_and_not_for_none() {
        let (handle, _reading, driver, reader) = waiting();
        let waker = Arc::clone(&driver).into();
        handle.drive(&waker, |_| ());
        assert_eq!(reader.0.load(Ordering::SeqCst), 0);
        for _ in 0..2 {
            handle.drive(&waker, |process| process.handle_end_of_output());
        }
        assert_eq!(reader.0.load(Ordering::SeqCst), 1);
    }
}
