//! A watched directory as one client follows it.

use super::{
    super::{Plane, bell::Hearing, streams::Open},
    Over, Watched,
    inner::Item,
    table::Held,
};
use bytes::Bytes;
use hangar_backends::{runtime::Deadline, watching::WatchError};
use hangar_core::{
    Close, Time,
    pace::Pacer,
    watch::{Blind, End, Gap, Told},
};
use std::{
    sync::Arc,
    task::{Context, Poll},
};

/// What a client that follows gets next.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// A change.
    Told(Told),
    /// Changes that are gone.
    Gap(Gap),
    /// Nothing is told of what is below this.
    Unwatched {
        /// Relative to the watched directory.
        name: Bytes,
        /// Why.
        why: Blind,
    },
    /// Everything up to the event of this number is told.
    Ready {
        /// That number.
        next: u64,
    },
    /// What became of the directory: nothing follows.
    Ended(End),
    /// Why it ends otherwise: nothing follows.
    Closed {
        /// Why.
        reason: Close,
        /// What is to be said of that.
        message: Option<String>,
    },
}

/// A watched directory as one client follows it. Dropped, it is a client that left: it may come back.
#[derive(Debug)]
pub struct WatchStream {
    plane: Arc<Plane>,
    held: Held,
    /// What is to be told first.
    gap: Option<Gap>,
    bell: Hearing,
    open: Open,
    pacer: Pacer,
    /// Bytes that it has told.
    bytes: u64,
    deadline: Deadline,
    started: Time,
}

impl WatchStream {
    pub(super) fn new(plane: Arc<Plane>, held: Held, gap: Option<Gap>, open: Open) -> Self {
        let started = plane.runtime.now();
        let pacer = Pacer::new(plane.settings.stream_bytes_per_second, started);
        let bell = held.watched().bell().hear();
        Self { plane, held, gap, bell, open, pacer, bytes: 0, deadline: Deadline::default(), started }
    }

    pub(super) const fn open(&self) -> &Open {
        &self.open
    }

    /// The plane it belongs to.
    pub const fn plane(&self) -> &Arc<Plane> {
        &self.plane
    }

    /// The directory: absolute.
    pub fn path(&self) -> &str {
        self.held.watched().path()
    }

    /// What comes next.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let ends_at = self.started + self.plane.settings.stream_max;
        loop {
            let now = self.plane.runtime.now();
            if let Some(reason) = self.open.asked_to_close(cx.waker()) {
                return Poll::Ready(self.close(reason, None));
            }
            if now >= ends_at {
                return Poll::Ready(self.close(Close::Lifetime, None));
            }
            let at = match self.pacer.ready(now) {
                Ok(()) => {
                    // Heard before it is looked at: nothing comes in between.
                    self.bell.rung(cx.waker());
                    if let Some(event) = self.next(now) {
                        return Poll::Ready(event);
                    }
                    ends_at
                }
                Err(at) => at.min(ends_at),
            };
            if self.deadline.poll(&*self.plane.runtime, Some(at), cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn next(&mut self, now: Time) -> Option<Event> {
        if let Some(gap) = self.gap.take() {
            return Some(Event::Gap(gap));
        }
        if self.bytes >= self.plane.settings.stream_max_bytes {
            return Some(self.close(Close::Limit, None));
        }
        let watched: &Watched = self.held.watched();
        Some(match watched.take()? {
            Item::Event(told) => {
                self.sent(told.event.len(), now);
                Event::Told(told)
            }
            Item::Blind { name, why } => {
                self.sent(name.len(), now);
                Event::Unwatched { name, why }
            }
            Item::Ready { next } => Event::Ready { next },
            Item::Over(Over::Ended(end)) => {
                self.open.ended(Close::Done);
                Event::Ended(end)
            }
            Item::Over(Over::Broken(WatchError::Paused)) => self.close(Close::Paused, None),
            Item::Over(Over::Broken(WatchError::Destroyed)) => self.close(Close::Destroyed, None),
            Item::Over(Over::Broken(error)) => self.close(Close::Error, Some(error.to_string())),
            Item::Over(Over::Closed(reason)) => self.close(reason, None),
        })
    }

    fn sent(&mut self, len: usize, now: Time) {
        self.pacer.charge(len);
        self.bytes += len as u64;
        self.open.sent(len, now.since(self.started));
    }

    const fn close(&mut self, reason: Close, message: Option<String>) -> Event {
        self.open.ended(reason);
        Event::Closed { reason, message }
    }
}
