//! Threads for work that blocks, for the runtimes.
//!
//! tokio has such threads, and so has smol. But when the system has no thread to start, which is exactly when what has
//! taken them all is to be ended, tokio panics where the work is given, as it keeps none, and smol's `blocking` tries again
//! and again without an end. One of these is always there, and work waits for it.

use std::{
    collections::VecDeque,
    fmt, io,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// The most threads; more work waits.
pub const MAX_THREADS: usize = 512;
/// A thread that had nothing to do for this long ends, unless it is the last.
const KEEP: Duration = Duration::from_secs(10);

type Work = Box<dyn FnOnce() + Send>;

/// The threads. Dropping it ends them once they have done what they are doing.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    max: usize,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// There is work, or it is closed.
    changed: Condvar,
    /// A thread has ended.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    work: VecDeque<Work>,
    threads: usize,
    /// Threads that wait for work, or have just been started.
    idle: usize,
    closed: bool,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Pool {
    /// With one thread, if the system has one. If not, that is tried again with each work.
    pub fn new() -> (Self, io::Result<()>) {
        Self::with_most(MAX_THREADS)
    }

    fn with_most(max: usize) -> (Self, io::Result<()>) {
        let this = Self { shared: Arc::default(), max };
        let started = this.start(&mut this.shared.lock());
        (this, started)
    }

    /// Runs `work` on a thread. Where there is none and none can be started it runs here: late is better than never.
    /// Once the pool is closed it is dropped.
    pub fn run(&self, work: Work) {
        let mut state = self.shared.lock();
        if state.closed {
            return;
        }
        state.work.push_back(work);
        if state.work.len() <= state.idle {
            self.shared.changed.notify_one();
        } else if let Err(error) = self.start(&mut state) {
            if state.threads > 0 {
                tracing::debug!(%error, "work waits for a thread");
                return;
            }
            tracing::warn!(%error, "there is no thread for work that blocks");
            let work = state.work.pop_back();
            drop(state);
            work.into_iter().for_each(finish);
        }
    }

    fn start(&self, state: &mut State) -> io::Result<()> {
        if state.threads >= self.max {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let shared = Arc::clone(&self.shared);
        thread::Builder::new().name("hangar-blocking".into()).spawn(move || shared.work())?;
        state.threads += 1;
        state.idle += 1;
        Ok(())
    }

    /// Drops the work that waits, and waits for the threads, no longer than `limit`.
    #[expect(clippy::disallowed_methods, reason = "it waits for threads, which know no other clock")]
    pub fn close(&self, limit: Duration) {
        let end = Instant::now().checked_add(limit);
        let mut state = self.shared.close();
        while state.threads > 0 {
            let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return;
            }
            (state, _) = self.shared.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        drop(self.shared.close());
    }
}

impl Shared {
    /// What a thread does.
    fn work(&self) {
        let mut state = self.lock();
        state.idle -= 1;
        loop {
            if let Some(work) = state.work.pop_front() {
                drop(state);
                finish(work);
                state = self.lock();
            } else if state.closed {
                break;
            } else {
                let keep = if state.threads == 1 { Duration::MAX } else { KEEP };
                state.idle += 1;
                let (woken, waited) =
                    self.changed.wait_timeout(state, keep).unwrap_or_else(PoisonError::into_inner);
                state = woken;
                state.idle -= 1;
                if waited.timed_out() && state.work.is_empty() && state.threads > 1 {
                    break;
                }
            }
        }
        state.threads -= 1;
        drop(state);
        self.ended.notify_all();
    }

    fn close(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.closed = true;
        let dropped = std::mem::take(&mut state.work);
        drop(state);
        // What it holds may be anything.
        drop(dropped);
        self.changed.notify_all();
        self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A panic of the work stays its own.
fn finish(work: Work) {
    drop(panic::catch_unwind(AssertUnwindSafe(work)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn work_that_finds_no_thread_waits_for_one() {
        let (pool, started) = Pool::with_most(1);
        started.unwrap();
        let (release, released) = mpsc::channel::<()>();
        let (done, results) = mpsc::channel();
        let first = done.clone();
        pool.run(Box::new(move || {
            released.recv().unwrap();
            first.send((1, thread::current().id())).unwrap();
        }));
        pool.run(Box::new(|| panic!("on purpose")));
        pool.run(Box::new(move || done.send((2, thread::current().id())).unwrap()));
        release.send(()).unwrap();
        let ((first, one), (second, two)) = (results.recv().unwrap(), results.recv().unwrap());
        assert_eq!((first, second), (1, 2));
        assert!(one == two && one != thread::current().id());
    }

    #[test]
    fn work_runs_where_there_is_no_thread_at_all() {
        let (pool, started) = Pool::with_most(0);
        assert!(started.is_err());
        let (done, results) = mpsc::channel();
        pool.run(Box::new(|| panic!("on purpose")));
        pool.run(Box::new(move || done.send(thread::current().id()).unwrap()));
        assert_eq!(results.try_recv(), Ok(thread::current().id()));
    }

    #[test]
    fn there_are_as_many_threads_as_there_is_work() {
        let (pool, _) = Pool::new();
        let barrier = Arc::new(std::sync::Barrier::new(8));
        for _ in 0..7 {
            let barrier = Arc::clone(&barrier);
            pool.run(Box::new(move || {
                barrier.wait();
            }));
        }
        barrier.wait();
        pool.close(Duration::MAX);
        assert_eq!(pool.shared.lock().threads, 0);
        pool.run(Box::new(|| unreachable!("it is closed")));
    }

    #[test]
    fn a_close_waits_no_longer_than_its_limit() {
        let (pool, _) = Pool::new();
        let (release, released) = mpsc::channel::<()>();
        let (started, running) = mpsc::channel();
        pool.run(Box::new(move || {
            started.send(()).unwrap();
            released.recv().ok();
        }));
        running.recv().unwrap();
        pool.close(Duration::ZERO);
        assert_eq!(pool.shared.lock().threads, 1, "the thread that was there from the start took it");
        drop(release);
        pool.close(Duration::MAX);
    }
}
