//! One subscriber: what each of its polls has to give.

use super::{
    super::{Contract, Machine, Sort},
    Coming,
};
use crate::{
    Close, Time,
    log::{Frame, Log, Reader},
    process::{Exit, Process},
    subscription::{Config, Output, Subscription},
};

/// A subscription and what happened to it.
#[derive(Debug)]
pub(super) struct Subscriber {
    pub(super) subscription: Subscription,
    pub(super) contract: Contract,
    pub(super) config: Config,
    /// What comes next.
    pub(super) offset: u64,
    pub(super) seq: u64,
    started: bool,
    exit_told: bool,
    ended: bool,
    close: Option<Close>,
    /// It left, or its stream was closed.
    pub(super) gone: bool,
    /// When the silence began.
    quiet_since: Time,
    /// What it asked for last.
    pub(super) asked: Option<Time>,
    pub(super) waiting: Waiting,
}

/// How it keeps up with what there is.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The process was polled since it took something, and there was something for it: when it was polled first.
    pub(super) since: Option<Time>,
    /// When it was polled until `Wait`.
    pub(super) read_at: Option<Time>,
    /// It was polled until `Wait` each time before it counted as stuck.
    pub(super) is_keen: Option<bool>,
    /// What comes next cannot be gone by what the process prints until it is polled.
    pub(super) is_safe: bool,
}

impl Subscriber {
    pub(super) fn new(
        coming: Coming,
        process: &mut Process,
        reader: Reader,
        steady: bool,
        now: Time,
    ) -> Self {
        let Coming { keep_alive, deadline, hold, tells_exit, .. } = coming;
        let deadline = deadline.map(|deadline| now + deadline);
        let config = Config { keep_alive, deadline, hold, tells_exit };
        let log = process.log();
        // Who comes to the end begins with a frame of its own.
        let seq = if reader.offset() == log.end_offset() { log.newest_seq() + 1 } else { reader.seq() };
        let offset = reader.offset();
        Self {
            subscription: Subscription::new(config, process, reader, now),
            contract: Contract::new(now, steady),
            config,
            offset,
            seq,
            started: false,
            exit_told: false,
            ended: false,
            close: None,
            gone: false,
            quiet_since: now,
            asked: None,
            waiting: Waiting { read_at: Some(now), ..Waiting::default() },
        }
    }

    pub(super) fn close(&mut self, reason: Close) {
        self.subscription.close(reason);
        self.closed(reason);
    }

    pub(super) fn closed(&mut self, reason: Close) {
        self.close = self.close.into_iter().chain([reason]).min();
    }

    pub(super) fn leave(&mut self, process: &mut Process) {
        self.subscription.leave(process);
        self.gone = true;
    }

    /// Frames and bytes that are there for it.
    pub(super) fn unread(&self, log: &Log) -> (u64, u64) {
        (log.end_offset() - self.offset, log.newest_seq() + 1 - self.seq)
    }

    /// Whether what comes next is gone.
    pub(super) fn has_lost(&self, log: &Log) -> bool {
        self.offset < log.start_offset()
    }

    /// Polls it, and checks what it gives. What it takes is checked by `check_frame`.
    pub(super) fn poll(
        &mut self,
        process: &mut Process,
        now: Time,
        check_frame: impl FnOnce(&Frame),
    ) -> Output {
        let time = self.contract.time(now);
        // What is true before: a poll takes.
        let expected = self.expect(process, time);
        let mut contract = self.contract;
        let output = contract.poll(&mut Follower { subscription: &mut self.subscription, process }, now);
        self.contract = contract;
        self.take(&expected, output, time, check_frame)
    }

    pub(super) fn take(
        &mut self,
        expected: &Expected,
        output: Output,
        time: Time,
        check_frame: impl FnOnce(&Frame),
    ) -> Output {
        match (expected, &output) {
            (Expected::Frame, Output::Frame(frame)) => {
                assert_eq!((frame.offset, frame.seq), (self.offset, self.seq), "where it goes on");
                check_frame(frame);
                (self.offset, self.seq) = (frame.end(), frame.seq + 1);
                self.quiet_since = time;
                self.waiting.since = None;
            }
            (Expected::Frame, _) => panic!("there is output, and it gives {output:?}"),
            (Expected::Exactly(expected), _) => {
                assert_eq!(&output, expected, "at {time:?}, with {self:#?}");
            }
        }
        match &output {
            Output::Started { .. } => self.started = true,
            Output::Exited(_) => self.exit_told = true,
            Output::Ended { .. } => self.ended = true,
            Output::KeepAlive => self.quiet_since = time,
            Output::Closed(reason) => {
                self.gone = true;
                let is_slow = *reason == Close::SlowConsumer && self.close != Some(Close::SlowConsumer);
                assert!(!(is_slow && self.waiting.is_safe), "it lost output, and it was waited for");
                assert!(!(is_slow && self.waiting.is_keen == Some(true)), "it lost output, and it read");
            }
            Output::Wait(at) => {
                self.asked = at.or(self.asked);
                self.waiting.read_at = Some(time);
            }
            Output::Frame(_) => {}
        }
        assert_eq!((self.subscription.next(), self.subscription.is_closed()), (self.offset, self.gone));
        output
    }

    /// What a poll has to give.
    pub(super) fn expect(&self, process: &Process, now: Time) -> Expected {
        let exactly = |output| Expected::Exactly(output);
        if self.gone {
            return exactly(Output::Wait(None));
        }
        let due = if self.ended {
            Some(Close::Done)
        } else if self.config.deadline.is_some_and(|deadline| now >= deadline) {
            Some(Close::Lifetime)
        } else {
            (self.started && self.has_lost(process.log())).then_some(Close::SlowConsumer)
        };
        if let Some(reason) = due.into_iter().chain(self.close).min() {
            return exactly(Output::Closed(reason));
        }
        if !self.started {
            return exactly(Output::Started { pid: process.pid(), seq: self.seq, offset: self.offset });
        }
        let exit = process.exit_status();
        if let Some(exit) = exit.filter(|_| self.config.tells_exit && !self.exit_told) {
            return exactly(Output::Exited(exit));
        }
        if self.offset < process.log().end_offset() {
            return Expected::Frame;
        }
        match exit.filter(|_| process.is_over()) {
            Some(Exit::Unknown) => return exactly(Output::Closed(Close::Error)),
            Some(exit) => {
                return exactly(Output::Ended { exit, drain_timed_out: process.drain_timed_out() });
            }
            None => {}
        }
        let quiet_until = self.quiet_since + self.config.keep_alive;
        if now >= quiet_until {
            return exactly(Output::KeepAlive);
        }
        exactly(Output::Wait(Some(self.config.deadline.map_or(quiet_until, |at| at.min(quiet_until)))))
    }
}

/// What a poll has to give.
#[derive(Debug)]
pub(super) enum Expected {
    /// Output.
    Frame,
    /// This.
    Exactly(Output),
}

/// A subscription with its process is a machine.
pub(super) struct Follower<'a> {
    pub(super) subscription: &'a mut Subscription,
    pub(super) process: &'a mut Process,
}

impl Machine for Follower<'_> {
    type Output = Output;

    fn poll_output(&mut self, now: Time) -> Output {
        self.subscription.poll_output(self.process, now)
    }

    fn sort(output: &Output) -> Sort {
        match output {
            Output::Wait(at) => Sort::Wait(*at),
            Output::Closed(_) => Sort::Closed,
            Output::Started { .. }
            | Output::Frame(_)
            | Output::KeepAlive
            | Output::Exited(_)
            | Output::Ended { .. } => Sort::Act,
        }
    }

    fn close(&mut self) {
        self.subscription.close(Close::Shutdown);
    }

    fn disturb(&mut self) {
        self.subscription.close(Close::Revoked);
        self.subscription.leave(self.process);
    }

    /// It holds nothing: what it is given is in the log.
    fn check_bounds(&self) {}
}
