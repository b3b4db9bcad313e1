//! What every runtime must do: checks against `dyn Runtime`, one function each, that panic or fail where it does not.
//!
//! They are awaited inside the runtime's `block_on`. None of them asserts that something happens sooner than within
//! seconds; [`within`] bounds them from the outside, by a clock that is not under test.

pub mod descriptors;
pub mod sockets;
pub mod tasks;
pub mod timers;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Wake, Waker},
    thread,
    time::Duration,
};

/// Runs `check` on a thread of its own.
///
/// # Panics
///
/// If it panics, or has not ended after 30 s.
pub fn within(check: impl FnOnce() + Send + 'static) {
    let (done, result) = mpsc::channel();
    let thread = thread::spawn(move || {
        check();
        done.send(()).expect("somebody waits for the check");
    });
    match result.recv_timeout(Duration::from_secs(30)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the check did not end"),
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {}
    }
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// A waker that counts.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wakes {
    fn waker() -> (Arc<Self>, Waker) {
        let wakes = Arc::<Self>::default();
        (wakes.clone(), wakes.into())
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
