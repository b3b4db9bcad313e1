//! The two ways to a process: one for orders, one for input. Each call follows the one before, and what did not arrive is
//! told again where that does no harm.

use super::{
    Shared, Target,
    orders::{INPUT, Input, Order, Taken, Told},
};
use crate::{Handle, runtime::BoxFuture};
use bytes::Bytes;
use hangar_core::{Time, process::Process};
use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// After an attempt failed; each time twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A process whose daemon could not be reached for this long is given up.
pub(super) const GIVE_UP: Duration = Duration::from_secs(600);

/// Orders that may wait; of more, the oldest is dropped.
const MAX_ORDERS: usize = 32;

/// When something is tried again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retry {
    at: Option<Time>,
    wait: Duration,
}

impl Retry {
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.at.is_none_or(|at| now >= at)
    }

    pub(super) const fn at(&self) -> Option<Time> {
        self.at
    }

    /// It was found: if that does not last, it is waited for as long as after the next failure.
    pub(super) fn found(&mut self, now: Time) {
        self.at = Some(now);
    }

    pub(super) fn failed(&mut self, now: Time) {
        self.wait = if self.wait.is_zero() { FIRST_WAIT } else { (self.wait * 2).min(LONGEST_WAIT) };
        self.at = Some(now + self.wait);
    }
}

/// Where a process is, for whoever tells it something.
#[derive(Clone)]
pub(super) struct There {
    pub(super) shared: Arc<Shared>,
    pub(super) target: Target,
    /// As whom it runs.
    pub(super) user: Option<String>,
    /// Its daemon is hangar's own.
    pub(super) is_hangar: bool,
}

/// What is to be told to a process.
#[derive(Default)]
pub(super) struct Orders {
    waiting: VecDeque<Order>,
    telling: Option<(Order, BoxFuture<'static, Told>)>,
    retry: Retry,
    /// Since when nothing has arrived.
    fails_since: Option<Time>,
}

impl Orders {
    pub(super) fn push(&mut self, order: Order) {
        if let Order::Resize(_) = order {
            self.waiting.retain(|order| !matches!(order, Order::Resize(_)));
        }
        if self.waiting.len() >= MAX_ORDERS {
            // What ends it is never dropped.
            let oldest = self.waiting.iter().position(|order| *order != Order::Sweep);
            oldest.and_then(|oldest| self.waiting.remove(oldest));
        }
        self.waiting.push_back(order);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.telling.is_none()
    }

    /// When one is told again.
    pub(super) fn wakes_at(&self) -> Option<Time> {
        self.retry.at().filter(|_| self.telling.is_none() && !self.waiting.is_empty())
    }

    /// Goes on. Ready once the sweep was carried out. `insists`: it is told until it has arrived.
    pub(super) fn poll(&mut self, there: &There, insists: bool, now: Time, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.telling.is_none() {
                if !self.retry.is_due(now) {
                    return Poll::Pending;
                }
                let Some(order) = self.waiting.pop_front() else { return Poll::Pending };
                self.telling = Some((order, Box::pin(order.tell(there.clone()))));
            }
            let Some((order, telling)) = &mut self.telling else { return Poll::Pending };
            let Poll::Ready(done) = telling.as_mut().poll(cx) else { return Poll::Pending };
            let order = *order;
            self.telling = None;
            let tells_again = match done {
                Told::Done => false,
                Told::Unsent => true,
                // To do these twice is to do them once.
                Told::Unknown => matches!(order, Order::Terminate | Order::Sweep | Order::Resize(_)),
            };
            let since = *self.fails_since.get_or_insert(now);
            if tells_again && insists && now.since(since) < GIVE_UP {
                self.waiting.push_front(order);
                self.retry.failed(now);
                return Poll::Pending;
            }
            (self.retry, self.fails_since) = (Retry::default(), None);
            if order == Order::Sweep {
                return Poll::Ready(());
            }
        }
    }
}

/// What a process is to be given.
#[derive(Default)]
pub(super) struct Giving {
    giving: Option<(usize, BoxFuture<'static, Taken>)>,
    retry: Retry,
}

impl Giving {
    /// When it is given again.
    pub(super) fn wakes_at(&self) -> Option<Time> {
        self.retry.at().filter(|_| self.giving.is_none())
    }

    /// Gives a process what waits for it, and the end of its input after that.
    pub(super) fn poll(
        &mut self,
        there: &There,
        handle: &Handle,
        is_tty: bool,
        now: Time,
        cx: &mut Context<'_>,
    ) {
        loop {
            if self.giving.is_none() {
                if !self.retry.is_due(now) {
                    return;
                }
                let Some((len, input)) = handle.look(|process| next(process, is_tty)) else {
                    // What waited to be given again is not wanted any more.
                    self.retry = Retry::default();
                    return;
                };
                self.giving = Some((len, Box::pin(input.give(there.clone()))));
            }
            let Some((len, giving)) = &mut self.giving else { return };
            let Poll::Ready(taken) = giving.as_mut().poll(cx) else { return };
            let len = *len;
            self.giving = None;
            match taken {
                Taken::None => return self.retry.failed(now),
                Taken::All if len > 0 => {
                    handle.drive(cx.waker(), |process| process.handle_stdin_written(len))
                }
                Taken::All | Taken::Never => handle.drive(cx.waker(), Process::handle_stdin_closed),
            }
            self.retry = Retry::default();
        }
    }
}

/// What is given next, and how many of the bytes that wait it is.
fn next(process: &Process, tty: bool) -> Option<(usize, Input)> {
    match process.stdin() {
        Some(data) => {
            let bytes = Bytes::copy_from_slice(&data[..data.len().min(INPUT)]);
            Some((bytes.len(), Input::Bytes { bytes, tty }))
        }
        None => process.wants_stdin_end().then_some((0, Input::End)),
    }
}
