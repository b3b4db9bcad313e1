//! What waits to be written to a process.

use bytes::{Buf, Bytes};
use std::collections::VecDeque;

/// Input on its way to a process: bounded, in order, with its end after it.
#[derive(Debug)]
pub(super) struct Stdin {
    queue: VecDeque<Bytes>,
    waiting: usize,
    max: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Open,
    /// Its end comes after what waits.
    Ending,
    /// The end was carried out, or nobody reads.
    Closed,
}

impl Stdin {
    pub(super) const fn new(max: usize) -> Self {
        Self { queue: VecDeque::new(), waiting: 0, max, state: State::Open }
    }

    /// Takes what fits, and gives the rest back. Small pieces are copied together, so that a writer of single bytes
    /// cannot fill the queue with entries.
    pub(super) fn write(&mut self, mut data: Bytes) -> Option<Bytes> {
        if self.state != State::Open {
            return None;
        }
        let rest = data.split_off(data.len().min(self.max.saturating_sub(self.waiting)));
        self.push(data);
        (!rest.is_empty()).then_some(rest)
    }

    /// Takes one byte more than fits; where such a one waits already, another is dropped.
    pub(super) fn write_mark(&mut self, byte: u8) {
        if self.state == State::Open && self.waiting <= self.max {
            self.push(Bytes::copy_from_slice(&[byte]));
        }
    }

    fn push(&mut self, data: Bytes) {
        self.waiting += data.len();
        match self.queue.back_mut() {
            Some(last) if last.len() + data.len() <= MERGE => *last = [&last[..], &data[..]].concat().into(),
            Some(_) | None if data.is_empty() => {}
            Some(_) | None => self.queue.push_back(data),
        }
    }

    pub(super) fn end(&mut self) {
        if self.state == State::Open {
            self.state = State::Ending;
        }
    }

    /// Nobody reads it any more.
    pub(super) fn close(&mut self) {
        *self = Self { state: State::Closed, ..Self::new(self.max) };
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    pub(super) fn front(&self) -> Option<&[u8]> {
        self.queue.front().map(|data| &data[..])
    }

    pub(super) fn written(&mut self, len: usize) {
        let mut left = len;
        while let Some(front) = self.queue.front_mut() {
            let now = left.min(front.len());
            front.advance(now);
            self.waiting -= now;
            left -= now;
            if !front.is_empty() {
                return;
            }
            self.queue.pop_front();
        }
    }

    pub(super) fn wants_end(&self) -> bool {
        self.state == State::Ending && self.queue.is_empty()
    }

    pub(super) const fn waiting(&self) -> usize {
        self.waiting
    }

    pub(super) fn entries(&self) -> usize {
        self.queue.len()
    }
}

/// Pieces are merged while together they are no longer than this.
const MERGE: usize = 4096;
