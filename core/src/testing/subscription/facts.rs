//! For whom a process has to wait, and for whom it must not.

use super::subscriber::Subscriber;
use crate::{
    Time,
    audience::{Hold, PATIENCE, STUCK},
    log::{FRAME_MAX, Log, PACKET_MAX, Retention},
    process::{Config, Keep, Process},
};
use std::{collections::BTreeSet, time::Duration};

/// What is true of a process and its subscribers at the process's last poll.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) config: &'a Config,
    pub(super) subscribers: &'a [Subscriber],
    /// Nobody came yet, and somebody will.
    pub(super) is_awaited: bool,
    pub(super) now: Time,
}

impl Facts<'_> {
    /// Bytes that those who are waited for may be behind.
    pub(super) fn window(config: &Config) -> u64 {
        window(config.retention)
    }

    fn seated(&self) -> impl Iterator<Item = &Subscriber> {
        self.subscribers.iter().filter(|subscriber| !subscriber.gone)
    }

    /// How long it has taken nothing of what there is.
    fn stood(&self, subscriber: &Subscriber) -> Duration {
        subscriber.waiting.since.map_or(Duration::ZERO, |since| self.now.since(since))
    }

    fn somebody_moves(&self) -> bool {
        self.seated().any(|subscriber| self.stood(subscriber) < STUCK)
    }

    pub(super) fn is_waited_for(&self, subscriber: &Subscriber, log: &Log) -> bool {
        let long = if self.somebody_moves() { STUCK } else { PATIENCE };
        let holds = match subscriber.config.hold {
            Hold::Always => true,
            Hold::WhileMoving => self.stood(subscriber) < long,
            Hold::Never => false,
        };
        holds && !subscriber.has_lost(log)
    }

    /// Whether what comes next for it is kept as long as no more comes than there is room for.
    pub(super) fn is_within(&self, subscriber: &Subscriber, log: &Log) -> bool {
        let (bytes, frames) = subscriber.unread(log);
        bytes <= Self::window(self.config) && frames <= self.config.retention.max_frames() as u64
    }

    /// How much there has to be room for.
    fn room(&self, log: &Log) -> usize {
        let waited_for = self.seated().filter(|subscriber| self.is_waited_for(subscriber, log));
        let behind = waited_for.map(|subscriber| subscriber.unread(log));
        let awaited = self.is_awaited.then(|| (log.end_offset(), log.newest_seq()));
        room(self.config.retention, behind.chain(awaited))
    }

    /// Checks what `process` wants and when it looks again, once it gave `wait`.
    pub(super) fn check(&self, process: &Process, wait: Option<Time>, ends: &BTreeSet<u64>, abandoned: bool) {
        let log = process.log();
        self.check_kept(log, ends);
        if log.is_ended() {
            return;
        }
        let wants = process.wants_output();
        if abandoned {
            assert_eq!(wants, usize::MAX, "nobody will read");
            return;
        }
        if self.is_awaited {
            assert_eq!(log.start_offset(), 0, "lost before anybody came");
            assert!(log.end_offset() <= Self::window(self.config), "printed past the ring");
        }
        assert_eq!(wants, self.room(log), "at {:?}, with {:#?}", self.now, self.subscribers);
        let is_held = wants == 0 && !self.is_awaited;
        if is_held && self.seated().all(|subscriber| subscriber.config.hold != Hold::Always) {
            self.check_wait(log, wait);
        }
    }

    /// Whoever holds up the process does so for its time and no longer.
    fn check_wait(&self, log: &Log, wait: Option<Time>) {
        let long = if self.somebody_moves() { STUCK } else { PATIENCE };
        let holders = self.seated().filter(|subscriber| self.is_waited_for(subscriber, log));
        let times = holders.filter_map(|subscriber| subscriber.waiting.since).map(|since| since + long);
        let last = times.max().expect("it is held up, and not by one that has something to read");
        assert!(wait.is_some_and(|at| at <= last), "held up until {last:?}, and it waits until {wait:?}");
    }

    fn check_kept(&self, log: &Log, ends: &BTreeSet<u64>) {
        if self.config.keep == Keep::Retained || self.is_awaited {
            return;
        }
        let end = log.end_offset();
        let lowest = self.seated().map(|subscriber| subscriber.offset).min().unwrap_or(end);
        let kept = (log.start_offset() + 1).min(end)..=lowest;
        let needless = if kept.is_empty() { None } else { ends.range(kept).next() };
        assert!(needless.is_none() || log.held() == 0, "kept, and read by all: {needless:?} of {lowest}");
        assert!(lowest < end || log.held() == 0, "all is read, and {} bytes are kept", log.held());
    }
}

const fn window(retention: Retention) -> u64 {
    let bytes = retention.bytes() as u64;
    if bytes == 0 { 1 } else { bytes }
}

/// How much there is room for, where those who are waited for are so many bytes and frames behind.
pub(in super::super) fn room(retention: Retention, behind: impl Iterator<Item = (u64, u64)>) -> usize {
    let mut room = u64::MAX;
    for (bytes, frames) in behind {
        let frames = (retention.max_frames() as u64).saturating_sub(frames);
        room = room.min(window(retention).saturating_sub(bytes)).min(frames * FRAME_MAX as u64);
    }
    let is_whole = room >= PACKET_MAX as u64 || window(retention) < 2 * PACKET_MAX as u64;
    if is_whole { usize::try_from(room).unwrap_or(usize::MAX) } else { 0 }
}
