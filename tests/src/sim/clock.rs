//! The virtual clock, and its timers.

use hangar_backends::runtime::Timer;
use hangar_core::Time;
use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// The wall clock's time at the start of every run: milliseconds since 1970.
pub const EPOCH_MS: i64 = 1_790_000_000_000;

/// A clock that moves only when it is told to.
#[derive(Debug, Default)]
pub struct Clock(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    now: Time,
    /// What the wall clock was moved by.
    wall_offset_ms: i64,
    next_timer: u64,
    /// Timers that are waited for, by their time.
    waiting: BTreeMap<(Time, u64), Waker>,
}

impl Clock {
    /// The time.
    pub fn now(&self) -> Time {
        self.lock().now
    }

    /// The wall clock: milliseconds since 1970.
    pub fn wall_ms(&self) -> i64 {
        let inner = self.lock();
        EPOCH_MS + inner.wall_offset_ms + (inner.now.as_nanos() / 1_000_000) as i64
    }

    /// Somebody sets the wall clock.
    pub fn jump_wall(&self, ms: i64) {
        self.lock().wall_offset_ms += ms;
    }

    /// A timer for `at`.
    pub fn timer(self: &Arc<Self>, at: Time) -> SimTimer {
        let mut inner = self.lock();
        inner.next_timer += 1;
        SimTimer { clock: Arc::clone(self), at, id: inner.next_timer }
    }

    /// Moves to the next timer. Gives those that it is time for; none if nobody waits for any.
    ///
    /// # Panics
    ///
    /// If a timer that somebody waits for lies in the past.
    pub fn advance(&self) -> Vec<Waker> {
        let mut inner = self.lock();
        let Some((&(at, _), _)) = inner.waiting.first_key_value() else { return Vec::new() };
        assert!(at > inner.now, "a timer is waited for at {at:?}, and it is {:?} already", inner.now);
        inner.now = at;
        let later = inner.waiting.split_off(&(Time::from_nanos(at.as_nanos().saturating_add(1)), 0));
        std::mem::replace(&mut inner.waiting, later).into_values().collect()
    }

    /// The time from now to the next timer.
    pub fn to_next(&self) -> Option<Duration> {
        let inner = self.lock();
        inner.waiting.first_key_value().map(|((at, _), _)| at.since(inner.now))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }
}

/// A timer of a [`Clock`].
#[derive(Debug)]
pub struct SimTimer {
    clock: Arc<Clock>,
    at: Time,
    id: u64,
}

impl SimTimer {
    /// Moves it.
    pub fn move_to(&mut self, at: Time) {
        self.clock.lock().waiting.remove(&(self.at, self.id));
        self.at = at;
    }

    /// Whether its time has come.
    pub fn poll_ready(&mut self, cx: &Context<'_>) -> Poll<()> {
        let mut inner = self.clock.lock();
        if inner.now >= self.at {
            return Poll::Ready(());
        }
        inner.waiting.insert((self.at, self.id), cx.waker().clone());
        Poll::Pending
    }
}

impl Timer for SimTimer {
    fn reset(mut self: Pin<&mut Self>, at: Time) {
        self.move_to(at);
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_ready(cx)
    }
}

impl Drop for SimTimer {
    fn drop(&mut self) {
        self.clock.lock().waiting.remove(&(self.at, self.id));
    }
}
