//! One subscriber of a process at the daemon: that it started, what it prints, how it ended.
//!
//! ```text
//!             ┌───────── Frame, KeepAlive, Exited ─────────┐
//!  Started ───┴────────────────────────────────────────────┴── over, and all taken ──► Ended ──► Closed (done)
//!     └── deadline ──► Closed (lifetime)     └── what comes next is gone ──► Closed (slow consumer)
//! ```
//!
//! Unlike an [`Attach`](crate::attach::Attach) it has no pace, and a subscriber that lost output is not given what
//! follows: the protocol of E2B's envd has no word for a gap, so it is told that it was too slow, and comes again.

use crate::{
    Close, Time,
    audience::{Hold, Seat},
    log::{Frame, Item, Reader},
    process::{Exit, Process},
};
use std::time::Duration;

/// How a process is followed.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// A keep-alive is due after this long without output.
    pub keep_alive: Duration,
    /// The stream ends at this time.
    pub deadline: Option<Time>,
    /// Whether the process waits for this subscriber.
    pub hold: Hold,
    /// Whether the exit is told as soon as it is known, before the last output and the end.
    pub tells_exit: bool,
}

/// What the shell has to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Say that the process runs: the first thing that is said.
    Started {
        /// Its number.
        pid: Option<u32>,
        /// The frame that the first output is from.
        seq: u64,
        /// The offset of the first output.
        offset: u64,
    },
    /// Send this.
    Frame(Frame),
    /// Say that the stream is alive.
    KeepAlive,
    /// Say how the process ended; output may follow.
    Exited(Exit),
    /// Say how the process ended; no output follows.
    Ended {
        /// How.
        exit: Exit,
        /// Somebody still held the output open when the time to wait for that was over.
        drain_timed_out: bool,
    },
    /// End the stream, and say why.
    Closed(Close),
    /// Nothing before this time, or before the next change of the process.
    Wait(Option<Time>),
}

/// A process's output for one subscriber. See the [module](self).
#[derive(Debug)]
pub struct Subscription {
    config: Config,
    now: Time,
    seat: Seat,
    silent_until: Time,
    stage: Stage,
    told_exit: bool,
    close: Option<Close>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Opening,
    Open,
    /// How the process ended was told.
    Ended,
    Closed,
}

impl Subscription {
    /// Follows `process` from where `reader` is. It has to [leave](Self::leave).
    pub fn new(config: Config, process: &mut Process, reader: Reader, now: Time) -> Self {
        // By an offset it may have come to the end of a frame that grows, or does not: it is told a number.
        let is_newest = reader.offset() == process.log().end_offset();
        let reader = if is_newest { Reader::newest(process.log_mut()) } else { reader };
        Self {
            seat: process.seat(reader, config.hold),
            silent_until: now + config.keep_alive,
            now,
            stage: Stage::Opening,
            told_exit: false,
            close: None,
            config,
        }
    }

    /// Ends the stream at once. Of several reasons the first in the order of [`Close`] is told.
    pub fn close(&mut self, reason: Close) {
        self.close = Some(self.close.map_or(reason, |close| close.or(reason)));
    }

    /// It takes no more: the process waits for it no longer. For a stream that is dropped before its end.
    pub fn leave(&mut self, process: &mut Process) {
        process.leave(&self.seat);
        self.stage = Stage::Closed;
    }

    /// The offset of what comes next.
    pub const fn next(&self) -> u64 {
        self.seat.reader().offset()
    }

    /// Whether it ended.
    pub fn is_closed(&self) -> bool {
        self.stage == Stage::Closed
    }

    /// Does what is due at `now`, and gives the next thing to carry out. `process` is the one that it follows.
    pub fn poll_output(&mut self, process: &mut Process, now: Time) -> Output {
        self.now = self.now.max(now);
        if self.stage == Stage::Closed {
            return Output::Wait(None);
        }
        if self.stage == Stage::Ended {
            self.close(Close::Done);
        } else if self.config.deadline.is_some_and(|deadline| self.now >= deadline) {
            self.close(Close::Lifetime);
        } else if self.stage == Stage::Open && self.seat.reader().is_behind(process.log()) {
            self.close(Close::SlowConsumer);
        }
        if let Some(reason) = self.close {
            self.leave(process);
            return Output::Closed(reason);
        }
        if self.stage == Stage::Opening {
            self.stage = Stage::Open;
            let (seq, offset) = (self.seat.reader().seq(), self.seat.reader().offset());
            return Output::Started { pid: process.pid(), seq, offset };
        }
        if let Some(exit) = process.exit_status().filter(|_| self.config.tells_exit && !self.told_exit) {
            self.told_exit = true;
            return Output::Exited(exit);
        }
        while let Some(item) = process.take(&mut self.seat) {
            match item {
                Item::Frame(frame) => {
                    self.silent_until = self.now + self.config.keep_alive;
                    return Output::Frame(frame);
                }
                // Who came for what is gone was told where it begins.
                Item::Gap(_) => {}
            }
        }
        if let Some(exit) = process.exit_status().filter(|_| process.is_over()) {
            if exit == Exit::Unknown {
                self.leave(process);
                return Output::Closed(Close::Error);
            }
            self.stage = Stage::Ended;
            return Output::Ended { exit, drain_timed_out: process.drain_timed_out() };
        }
        if self.now >= self.silent_until {
            self.silent_until = self.now + self.config.keep_alive;
            return Output::KeepAlive;
        }
        Output::Wait(self.config.deadline.into_iter().chain([self.silent_until]).min())
    }
}
