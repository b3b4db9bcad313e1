//! Every transition of a process. What can be asked of it is in `questions`.

mod questions;

use super::{
    Config, ENDED_DRAIN, Exit, Keep, LOST, Output, Signal, StartFailure, Target, TtySize, stdin::Stdin,
};
use crate::{
    Time,
    audience::{Audience, Hold, Seat},
    log::{Channel, GapReason, Item, Log, Reader},
};
use bytes::Bytes;
use std::{collections::VecDeque, time::Duration};

/// Signals that may wait to be sent; more are dropped, oldest first.
const MAX_SIGNALS: usize = 16;

/// The end-of-file character of a terminal, unless a program there has chosen another: Ctrl-D.
const END_OF_FILE: u8 = 4;

/// A process and its log. See the [module](super).
#[derive(Debug)]
pub struct Process {
    config: Config,
    now: Time,
    log: Log,
    audience: Audience,
    stdin: Stdin,
    pid: Option<u32>,
    life: Life,
    source: Source,
    kill: Kill,
    signals: VecDeque<(Signal, Target)>,
    /// It was sent what ends processes.
    told_to_end: bool,
    /// What it prints cannot be read now.
    source_lost: bool,
    /// What it printed before is not known yet.
    is_unfound: bool,
    tty: Option<TtySize>,
    /// The size is to be told to the terminal.
    resized: bool,
    timeout_at: Option<Time>,
    /// It was swept and has not ended: it is given up at this time.
    lost_at: Option<Time>,
    timed_out: bool,
    start_failed: bool,
    drain_timed_out: bool,
    /// Nothing is awaited any more.
    closing: bool,
    closed: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Life {
    Starting,
    Running,
    Exited(Exit),
}

/// Where the output comes from.
#[derive(Clone, Copy, Debug)]
enum Source {
    Open,
    /// The process is gone and somebody else holds its output open: time is left while the reader has room.
    Draining {
        /// None: until its end.
        left: Option<Duration>,
        since: Time,
        had_room: bool,
    },
    /// Read on and dropped.
    Drained,
    /// At its end.
    Ended,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kill {
    Not,
    /// TERM is to be sent.
    Asked,
    /// TERM was sent; the sweep is due at this time.
    Grace {
        sweep_at: Time,
    },
    /// The sweep is to be carried out.
    Due,
    /// The sweep is being carried out.
    Sweeping,
    Swept,
}

impl Process {
    /// A process whose start is being asked for; its timeout counts from here.
    pub fn new(config: Config, now: Time) -> Self {
        Self {
            now,
            log: Log::new(config.retention).replaying(config.replay),
            audience: Audience::new(config.retention, config.awaits_reader, now),
            stdin: Stdin::new(config.max_stdin),
            pid: None,
            life: Life::Starting,
            source: Source::Open,
            kill: Kill::Not,
            signals: VecDeque::new(),
            told_to_end: false,
            source_lost: false,
            is_unfound: false,
            tty: config.tty,
            resized: false,
            timeout_at: config.timeout.map(|timeout| now + timeout),
            lost_at: None,
            timed_out: false,
            start_failed: false,
            drain_timed_out: false,
            closing: false,
            closed: false,
            config,
        }
    }

    // Inputs: what happened.

    /// It runs, with this number where its sandbox has numbers.
    pub fn handle_started(&mut self, pid: Option<u32>) {
        if self.life == Life::Starting {
            self.life = Life::Running;
            self.pid = pid;
        }
    }

    /// It could not be started: it ends as a shell would end, with the message as its standard error. `ts_ms` is the
    /// wall clock's time.
    pub fn handle_start_failed(&mut self, failure: &StartFailure, ts_ms: i64) {
        if self.life == Life::Starting && !self.closed {
            self.handle_output(Channel::Stderr, ts_ms, format!("{}\n", failure.message).as_bytes());
            self.start_failed = true;
            self.kill = Kill::Swept;
            self.exit(Exit::Code(failure.code));
            self.end_output();
        }
    }

    /// It printed. Returns how much was taken: all of it where it was at most what [`wants_output`](Self::wants_output) said
    /// before it was read, whoever came or read since: it cannot be put back. `ts_ms` is the wall clock's time of the read.
    pub fn handle_output(&mut self, channel: Channel, ts_ms: i64, data: &[u8]) -> usize {
        self.take_output(data, |log| log.append(channel, ts_ms, data))
    }

    fn take_output(&mut self, data: &[u8], append: impl FnOnce(&mut Log) -> usize) -> usize {
        match self.source {
            Source::Open | Source::Draining { .. } => {
                let taken = append(&mut self.log);
                self.audience.handle_printed();
                self.forget();
                taken
            }
            Source::Drained | Source::Ended => data.len(),
        }
    }

    /// As [`handle_output`](Self::handle_output), for output that comes in frames: each stays one.
    pub fn handle_frame(&mut self, channel: Channel, ts_ms: i64, data: &[u8]) -> usize {
        // It was printed before it is here: the time to drain is one without any.
        if let Source::Draining { left: Some(left), .. } = &mut self.source {
            *left = self.config.drain.unwrap_or(ENDED_DRAIN);
        }
        self.take_output(data, |log| log.append_frame(channel, ts_ms, data))
    }

    /// As [`handle_output`](Self::handle_output), in frames that nothing else joins.
    pub fn handle_piece(&mut self, channel: Channel, ts_ms: i64, data: &[u8]) -> usize {
        self.take_output(data, |log| log.append_frame(channel, ts_ms, data))
    }

    /// Output was lost on its way here: what comes next is this frame, at this byte. See [`Log::skip_to`].
    pub fn handle_output_lost(&mut self, seq: u64, offset: u64, reason: GapReason) {
        self.log.skip_to(seq, offset, reason);
        self.audience.handle_printed();
    }

    /// Somebody else has followed it until now. What it printed is not known before
    /// [`handle_source_found`](Self::handle_source_found).
    pub fn handle_adopted(&mut self) {
        self.source_lost = true;
        self.is_unfound = true;
    }

    /// What is known of what it printed: see [`Log::begin_at`].
    pub fn handle_taken_over(&mut self, seq: u64, offset: u64, known: u64) {
        self.log.begin_at(seq, offset, known);
    }

    /// What it prints cannot be read until [`handle_source_found`](Self::handle_source_found): no time to drain passes.
    pub fn handle_source_lost(&mut self) {
        self.source_lost = true;
    }

    /// What it prints can be read again.
    pub fn handle_source_found(&mut self) {
        self.source_lost = false;
        self.is_unfound = false;
    }

    /// All its outputs are at their end.
    pub fn handle_end_of_output(&mut self) {
        if !self.closed {
            self.end_output();
        }
    }

    /// Output is held open by somebody, and what reads it waits no longer: what came is all.
    pub fn handle_output_given_up(&mut self) {
        if !self.closed && matches!(self.source, Source::Open | Source::Draining { .. }) {
            self.drain_timed_out = true;
            self.end_output();
        }
    }

    /// It ended.
    pub fn handle_exit(&mut self, exit: Exit) {
        if !self.closed && !matches!(self.life, Life::Exited(_)) {
            self.exit(exit);
            if let Source::Open = self.source {
                // The last poll may be long ago: the time counts from the next one.
                let left = self.config.drain.or_else(|| self.told_to_end.then_some(ENDED_DRAIN));
                self.source = Source::Draining { left, since: self.now, had_room: false };
            }
        }
    }

    /// The sandbox's side broke: how it ended, and what more it printed, will not be known.
    pub fn handle_lost(&mut self) {
        if !self.closed {
            if !matches!(self.life, Life::Exited(_)) {
                self.exit(Exit::Unknown);
            }
            self.kill = Kill::Swept;
            self.end_output();
        }
    }

    /// No member of its group is left: if it is being killed, only what left the group remains to be swept.
    pub fn handle_group_gone(&mut self) {
        if let Kill::Grace { .. } = self.kill {
            self.kill = Kill::Due;
        }
    }

    /// The sweep was carried out.
    pub fn handle_swept(&mut self) {
        if self.kill == Kill::Sweeping {
            self.kill = Kill::Swept;
        }
    }

    /// `len` bytes of [`stdin`](Self::stdin) were written.
    pub fn handle_stdin_written(&mut self, len: usize) {
        self.stdin.written(len);
    }

    /// Its input is closed: by [`wants_stdin_end`](Self::wants_stdin_end), or because it reads no more.
    pub fn handle_stdin_closed(&mut self) {
        self.stdin.close();
    }

    // Commands.

    /// Ends it: TERM, and KILL for what is left of it after the grace time.
    pub fn kill(&mut self) {
        if self.kill == Kill::Not && !self.closed {
            self.kill = Kill::Asked;
            self.told_to_end = true;
            if let Source::Draining { left: left @ None, .. } = &mut self.source {
                *left = Some(ENDED_DRAIN);
            }
        }
    }

    /// Ends it without asking first: KILL to its group and to what left that.
    pub fn kill_now(&mut self) {
        self.kill();
        // Before it has started there is nobody to end.
        if matches!(self.kill, Kill::Asked | Kill::Grace { .. }) && self.life != Life::Starting {
            self.kill = Kill::Due;
        }
    }

    /// Sends a signal, while it runs.
    pub fn signal(&mut self, signal: Signal, to: Target) {
        if self.is_running() && !self.closed {
            if self.signals.len() == MAX_SIGNALS {
                self.signals.pop_front();
            }
            self.signals.push_back((signal, to));
            self.told_to_end |= matches!(signal, Signal::TERM | Signal::KILL);
        }
    }

    /// Takes input for it; what does not fit comes back.
    pub fn write_stdin(&mut self, data: Bytes) -> Option<Bytes> {
        if self.closed { None } else { self.stdin.write(data) }
    }

    /// Closes its input, after what waits. A terminal is not closed but sent its end-of-file character, which means what
    /// the program there makes of it; more input may follow.
    pub fn close_stdin(&mut self) {
        if self.tty.is_some() {
            self.stdin.write_mark(END_OF_FILE);
        } else {
            self.stdin.end();
        }
    }

    /// Gives its terminal another size; of several at once the last counts. Without a terminal it does nothing.
    pub fn resize(&mut self, size: TtySize) {
        if let Some(tty) = &mut self.tty
            && !self.closed
        {
            *tty = size;
            self.resized = true;
        }
    }

    /// Nobody will read its output: it is dropped, and no longer slows the process.
    pub fn abandon_output(&mut self) {
        self.log.abandon();
    }

    /// Lets go of it at once: KILL without a grace time if it still runs, and nothing is awaited.
    pub fn close(&mut self) {
        if self.closed {
            return;
        }
        if !matches!(self.life, Life::Exited(_)) {
            self.exit(Exit::Unknown);
            self.kill = Kill::Due;
        }
        self.end_output();
        self.closing = true;
        self.kill = match self.kill {
            Kill::Not | Kill::Sweeping | Kill::Swept => Kill::Swept,
            Kill::Asked | Kill::Grace { .. } | Kill::Due => Kill::Due,
        };
    }

    // Readers that it knows of.

    /// Gives a reader a seat: from here on the process waits for it as `hold` says.
    pub fn seat(&mut self, reader: Reader, hold: Hold) -> Seat {
        let seat = self.audience.join(reader, hold);
        // What waited for it is before it, where it came for what comes next.
        self.forget();
        seat
    }

    /// The reader that it [awaits](Config::awaits_reader) does not come: it waits for it no longer.
    pub fn stop_awaiting(&mut self) {
        self.audience.stop_awaiting();
        self.forget();
    }

    /// Takes what comes next for a reader.
    pub fn take(&mut self, seat: &mut Seat) -> Option<Item> {
        let item = seat.reader.take(&mut self.log)?;
        self.audience.handle_taken(seat);
        self.forget();
        Some(item)
    }

    /// A reader goes.
    pub fn leave(&mut self, seat: &Seat) {
        self.audience.leave(seat);
        self.forget();
    }

    // The one way out.

    /// Does what is due at `now`, and gives the next thing to carry out.
    pub fn poll_output(&mut self, now: Time) -> Output {
        self.now = self.now.max(now);
        if self.closed {
            return Output::Wait(None);
        }
        if let Some(size) = self.tty.filter(|_| self.resized && self.is_running()) {
            self.resized = false;
            return Output::Resize(size);
        }
        if let Some(signal) = self.next_signal() {
            return signal;
        }
        let room_at = self.audience.handle_time(self.now, &self.log);
        self.run_timeout();
        if let Some(signal) = self.next_signal() {
            return signal;
        }
        self.run_drain();
        if let Some(output) = self.run_kill() {
            return output;
        }
        self.run_lost();
        let over = matches!(self.source, Source::Ended) && matches!(self.life, Life::Exited(_));
        if over && matches!(self.kill, Kill::Not | Kill::Swept) {
            self.closed = true;
            return Output::Closed;
        }
        Output::Wait(self.next_deadline(room_at))
    }

    fn next_signal(&mut self) -> Option<Output> {
        self.signals.pop_front().map(|(signal, to)| Output::Signal { signal, to })
    }

    fn next_deadline(&self, room_at: Option<Time>) -> Option<Time> {
        let is_draining = matches!(self.source, Source::Draining { .. });
        let timeout_at = self.timeout_at.filter(|_| is_draining || self.exit_status().is_none());
        let sweep_at = match self.kill {
            Kill::Grace { sweep_at } => Some(sweep_at),
            Kill::Not | Kill::Asked | Kill::Due | Kill::Sweeping | Kill::Swept => None,
        };
        let drained_at = match self.source {
            Source::Draining { left: Some(left), had_room: true, since } => Some(since + left),
            Source::Draining { .. } | Source::Open | Source::Drained | Source::Ended => None,
        };
        let lost_at = self.lost_at.filter(|_| self.exit_status().is_none());
        // Where nothing is read any more there is nothing to have room for.
        let room_at = room_at.filter(|_| matches!(self.source, Source::Open | Source::Draining { .. }));
        [timeout_at, sweep_at, drained_at, lost_at, room_at].into_iter().flatten().min()
    }

    fn run_timeout(&mut self) {
        if self.timeout_at.is_some_and(|at| self.now >= at) {
            self.timeout_at = None;
            if let Source::Draining { .. } = self.source {
                self.end_drain();
            } else if self.exit_status().is_none() {
                self.timed_out = self.kill == Kill::Not;
                match self.config.timeout_ends {
                    Target::Leader if self.is_running() => self.signal(Signal::KILL, Target::Leader),
                    Target::Leader | Target::Group => self.kill(),
                }
            }
        }
    }

    fn run_lost(&mut self) {
        if self.kill == Kill::Swept && self.exit_status().is_none() {
            let at = *self.lost_at.get_or_insert(self.now + LOST);
            if self.now >= at {
                self.handle_lost();
            }
        }
    }

    fn run_drain(&mut self) {
        let Source::Draining { left, since, had_room } = self.source else { return };
        let passed = if had_room { self.now.since(since) } else { Duration::ZERO };
        let left = left.map(|left| left.saturating_sub(passed));
        if left.is_some_and(|left| left.is_zero()) {
            self.end_drain();
        } else {
            self.source = Source::Draining { left, since: self.now, had_room: self.has_room() };
        }
    }

    fn end_drain(&mut self) {
        self.drain_timed_out = true;
        self.log.end();
        self.source = Source::Drained;
    }

    fn run_kill(&mut self) -> Option<Output> {
        match self.kill {
            // Before it has started there is nobody to ask.
            Kill::Asked if self.life != Life::Starting => {
                self.kill = Kill::Grace { sweep_at: self.now + self.config.grace };
                Some(Output::Terminate)
            }
            Kill::Grace { sweep_at } if self.now >= sweep_at => self.sweep(),
            Kill::Due => self.sweep(),
            Kill::Not | Kill::Asked | Kill::Grace { .. } | Kill::Sweeping | Kill::Swept => None,
        }
    }

    const fn sweep(&mut self) -> Option<Output> {
        self.kill = if self.closing { Kill::Swept } else { Kill::Sweeping };
        Some(Output::Sweep)
    }

    fn exit(&mut self, exit: Exit) {
        self.life = Life::Exited(exit);
        self.signals.clear();
        self.stdin.close();
    }

    fn end_output(&mut self) {
        self.source = Source::Ended;
        self.is_unfound = false;
        self.log.end();
    }

    fn has_room(&self) -> bool {
        self.wants_output() > 0 && !self.source_lost
    }

    /// Drops what everybody has read, where nothing is kept for who comes later.
    fn forget(&mut self) {
        if self.config.keep == Keep::Unread {
            let lowest = self.audience.lowest().unwrap_or_else(|| self.log.end_offset());
            self.log.forget(lowest);
        }
    }
}
