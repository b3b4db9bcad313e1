//! What happened to a process, and from that what each of its polls has to give.

use super::failure;
use crate::{
    Time,
    process::{Config, ENDED_DRAIN, Exit, LOST, Output, Signal, Target, TtySize},
};
use std::{collections::VecDeque, time::Duration};

/// What happened to a process.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) config: Config,
    pub(super) started: bool,
    pub(super) exit: Option<Exit>,
    /// No output will come, and why: its end was read, or the drain time is over.
    pub(super) end_of_output: bool,
    pub(super) drained: bool,
    pub(super) abandoned: bool,
    /// Its kill was asked for, by somebody or by its timeout.
    killed: bool,
    pub(super) timed_out: bool,
    timeout_at: Option<Time>,
    pub(super) terminated_at: Option<Time>,
    pub(super) group_gone: bool,
    sweeping: bool,
    swept: bool,
    /// The first poll after that, if it had not ended.
    swept_at: Option<Time>,
    /// The sandbox broke or it never started: there is nobody to kill.
    nobody: bool,
    let_go: bool,
    closed: bool,
    pub(super) told_to_end: bool,
    drain_left: Option<Duration>,
    /// The last poll at which it was drained and there was room.
    drain_since: Option<Time>,
    pub(super) signals: VecDeque<(Signal, Target)>,
    resized: Option<TtySize>,
}

impl Facts {
    pub(super) fn new(config: &Config, now: Time) -> Self {
        Self {
            started: false,
            exit: None,
            end_of_output: false,
            drained: false,
            abandoned: false,
            killed: false,
            timed_out: false,
            timeout_at: config.timeout.map(|timeout| now + timeout),
            terminated_at: None,
            group_gone: false,
            sweeping: false,
            swept: false,
            swept_at: None,
            nobody: false,
            let_go: false,
            closed: false,
            told_to_end: false,
            drain_left: config.drain,
            drain_since: None,
            signals: VecDeque::new(),
            resized: None,
            config: config.clone(),
        }
    }

    pub(super) fn started(&mut self) {
        self.started |= self.exit.is_none();
    }

    /// Whether the failure counts.
    pub(super) fn start_failed(&mut self) -> bool {
        let counts = !self.started && self.exit.is_none();
        if counts {
            self.exited(Exit::Code(failure().code));
            self.nobody = true;
            self.end_of_output = true;
        }
        counts
    }

    pub(super) fn exited(&mut self, exit: Exit) {
        if self.exit.is_none() {
            self.drain_left = self.drain_left.or_else(|| self.told_to_end.then_some(ENDED_DRAIN));
        }
        self.exit.get_or_insert(exit);
        self.signals.clear();
    }

    pub(super) fn lost(&mut self) {
        if !self.closed {
            self.exited(Exit::Unknown);
            self.nobody = true;
            self.end_of_output = true;
        }
    }

    pub(super) fn kill(&mut self) {
        if !self.let_go && !self.killed {
            self.killed = true;
            self.told_to_end = true;
            if self.exit.is_some() {
                self.drain_left.get_or_insert(ENDED_DRAIN);
            }
        }
    }

    pub(super) fn kill_now(&mut self) {
        self.kill();
        if !self.let_go && (self.started || self.exit.is_some()) {
            self.terminated_at.get_or_insert(Time::ZERO);
            self.group_gone = true;
        }
    }

    pub(super) const fn end_of_output(&mut self) {
        self.end_of_output = true;
    }

    pub(super) const fn swept(&mut self) {
        self.swept |= self.sweeping;
    }

    pub(super) fn let_go(&mut self) {
        if self.closed {
            return;
        }
        if self.exit.is_none() {
            // It still runs: it is killed at once, and nobody waits for that.
            self.killed = true;
            self.group_gone = true;
            self.sweeping = false;
            self.nobody = false;
            self.terminated_at = self.terminated_at.or(Some(Time::ZERO));
        } else if self.killed && !self.sweeping && !self.nobody {
            self.group_gone = true;
            self.terminated_at = self.terminated_at.or(Some(Time::ZERO));
        }
        self.exited(Exit::Unknown);
        self.end_of_output = true;
        self.let_go = true;
    }

    pub(super) fn resized(&mut self, size: TtySize) {
        if self.config.tty.is_some() && !self.closed {
            self.resized = Some(size);
        }
    }

    /// Whether what it prints now is kept.
    pub(super) const fn is_followed(&self) -> bool {
        !self.end_of_output && !self.drained && !self.closed
    }

    pub(super) const fn is_over(&self) -> bool {
        self.exit.is_some() && (self.end_of_output || self.drained)
    }

    /// What a poll has to give. `has_room`: whether the reader has.
    pub(super) fn expect(&mut self, now: Time, has_room: bool) -> Output {
        if self.closed {
            return Output::Wait(None);
        }
        if let Some(size) = self.resized.filter(|_| self.started && self.exit.is_none()) {
            self.resized = None;
            return Output::Resize(size);
        }
        if let Some(signal) = self.signals.pop_front() {
            let (signal, to) = signal;
            return Output::Signal { signal, to };
        }
        let timeout_at = self.timeout_at.filter(|_| self.exit.is_none() || self.is_followed());
        let timeout_at = match timeout_at {
            Some(at) if now >= at => {
                if self.exit.is_some() {
                    self.drained = true;
                } else {
                    self.timed_out = !self.killed;
                    self.timeout_at = None;
                    if self.config.timeout_ends == Target::Leader && self.started {
                        self.told_to_end = true;
                        return Output::Signal { signal: Signal::KILL, to: Target::Leader };
                    }
                    self.kill();
                }
                self.timeout_at = None;
                None
            }
            other => other,
        };
        let drained_at = self.drain(now, has_room);
        let killing = self.killed && !self.nobody;
        if killing && self.terminated_at.is_none() && (self.started || self.exit.is_some()) {
            self.terminated_at = Some(now);
            return Output::Terminate;
        }
        let sweep_at =
            self.terminated_at.filter(|_| killing && !self.sweeping).map(|at| at + self.config.grace);
        if let Some(at) = sweep_at
            && (now >= at || self.group_gone)
        {
            self.sweeping = true;
            return Output::Sweep;
        }
        let mut lost_at = None;
        if killing && self.swept && self.exit.is_none() {
            let at = *self.swept_at.get_or_insert(now) + LOST;
            if now >= at {
                self.lost();
            } else {
                lost_at = Some(at);
            }
        }
        let timeout_at = timeout_at.filter(|_| self.exit.is_none() || self.is_followed());
        if self.exit.is_some() && self.end_of_output && (!killing || self.swept || self.let_go) {
            self.closed = true;
            return Output::Closed;
        }
        Output::Wait([timeout_at, drained_at, sweep_at, lost_at].into_iter().flatten().min())
    }

    /// Counts the time since the exit in which the reader had room. Gives when it will be over, if that goes on.
    fn drain(&mut self, now: Time, has_room: bool) -> Option<Time> {
        if self.exit.is_none() || self.end_of_output || self.drained {
            return None;
        }
        if let Some(since) = self.drain_since {
            self.drain_left = self.drain_left.map(|left| left.saturating_sub(now.since(since)));
        }
        self.drained = self.drain_left.is_some_and(|left| left.is_zero());
        self.drain_since = (has_room && !self.drained).then_some(now);
        Some(self.drain_since? + self.drain_left?)
    }
}
