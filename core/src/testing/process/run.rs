//! A scenario of a process and its one reader.

use super::{
    super::{Clock, Contract, Machine, Sort, log, subscription},
    Op, Rare, Subject,
    facts::Facts,
    failure,
};
use crate::{
    Time,
    audience::{Hold, Seat},
    log::{Channel, Item, Reader, Retention},
    process::{Config, Keep, Output, Signal, Target, TtySize},
};
use bytes::Bytes;
use std::collections::VecDeque;

/// Its one reader.
enum Reading {
    Standing(Reader),
    Seated(Seat),
}

impl Reading {
    const fn place(&self) -> &Reader {
        match self {
            Self::Standing(reader) => reader,
            Self::Seated(seat) => seat.reader(),
        }
    }
}

pub(super) struct Run {
    facts: Facts,
    subject: Subject,
    contract: Contract,
    clock: Clock,
    reader: Reading,
    /// Its reader is awaited.
    is_awaited: bool,
    /// Bytes that were printed and kept, or counted.
    printed: Vec<u8>,
    /// Input that waits.
    stdin: VecDeque<u8>,
    stdin_sent: u64,
    stdin_ending: bool,
    stdin_closed: bool,
    outputs: Vec<Output>,
}

impl Run {
    pub(super) fn new(config: &Config, steady: bool) -> Self {
        let clock = Clock::new();
        let mut subject = Subject::new(config, clock.now);
        Self {
            facts: Facts::new(config, clock.now),
            reader: Reading::Standing(Reader::oldest(subject.process.log_mut())),
            is_awaited: config.awaits_reader,
            subject,
            contract: Contract::new(clock.now, steady),
            clock,
            printed: Vec::new(),
            stdin: VecDeque::new(),
            stdin_sent: 0,
            stdin_ending: false,
            stdin_closed: false,
            outputs: Vec::new(),
        }
    }

    pub(super) fn apply(&mut self, op: &Op) {
        match *op {
            Op::Tick(tick) => self.clock.tick(tick),
            Op::Started => {
                self.subject.process.handle_started(None);
                self.facts.started();
            }
            Op::StartFailed => {
                let room = self.subject.process.log().room();
                self.subject.process.handle_start_failed(&failure(), 0);
                let followed = self.facts.is_followed();
                if self.facts.start_failed() && followed {
                    let message = format!("{}\n", failure().message);
                    self.printed.extend(message.bytes().take(room));
                }
            }
            Op::Print(channel, len) => self.print(channel, len),
            Op::Read(times) => {
                for _ in 0..times {
                    self.read();
                }
            }
            Op::EndOfOutput => {
                self.subject.process.handle_end_of_output();
                self.facts.end_of_output();
            }
            Op::Exit(exit) => {
                self.subject.process.handle_exit(exit);
                self.facts.exited(exit);
            }
            Op::Kill => {
                self.subject.process.kill();
                self.facts.kill();
            }
            Op::KillNow => {
                self.subject.process.kill_now();
                self.facts.kill_now();
            }
            Op::GroupGone => {
                self.subject.process.handle_group_gone();
                self.facts.group_gone |= self.facts.terminated_at.is_some();
            }
            Op::Swept => {
                self.subject.process.handle_swept();
                self.facts.swept();
            }
            Op::Signal(signal, to, times) => self.signal(signal, to, times),
            Op::WriteStdin(len) => self.write_stdin(len),
            Op::StdinWritten(len) => {
                self.subject.process.handle_stdin_written(len);
                self.stdin.drain(..len.min(self.stdin.len()));
            }
            Op::CloseStdin => {
                self.subject.process.close_stdin();
                let Config { tty, max_stdin, .. } = self.facts.config;
                self.stdin_ending |= tty.is_none();
                if tty.is_some() && !self.stdin_closed && self.stdin.len() <= max_stdin {
                    self.stdin.push_back(4);
                }
            }
            Op::Resize(cols) => {
                let size = TtySize { cols, rows: 2 };
                self.subject.process.resize(size);
                self.facts.resized(size);
            }
            Op::Rare(Rare::StdinClosed) => {
                self.subject.process.handle_stdin_closed();
                self.stdin_closed = true;
            }
            Op::Rare(Rare::Abandon) => {
                self.subject.process.abandon_output();
                self.facts.abandoned = true;
            }
            Op::Rare(Rare::Lost) => {
                self.subject.process.handle_lost();
                self.facts.lost();
            }
            Op::Rare(Rare::Close) => {
                self.subject.process.close();
                self.facts.let_go();
            }
            Op::Rare(Rare::Sit) => {
                if let Reading::Standing(reader) = &self.reader {
                    let seat = self.subject.process.seat(reader.clone(), Hold::Always);
                    self.reader = Reading::Seated(seat);
                    self.is_awaited = false;
                }
            }
            Op::Rare(Rare::Rise) => {
                if let Reading::Seated(seat) = &self.reader {
                    self.subject.process.leave(seat);
                    self.reader = Reading::Standing(seat.reader().clone());
                }
            }
        }
        self.end_stdin();
    }

    fn end_stdin(&mut self) {
        if self.stdin_closed || self.facts.exit.is_some() {
            self.stdin_closed = true;
            self.stdin.clear();
        }
    }

    fn print(&mut self, channel: Channel, len: usize) {
        let room = self.subject.process.log().room();
        let data: Vec<u8> = (self.printed.len()..).take(len).map(|at| log::byte(at as u64)).collect();
        let taken = self.subject.process.handle_output(channel, 0, &data);
        if self.facts.is_followed() {
            assert_eq!(taken, len.min(room), "the log has room for {room}");
            self.printed.extend(&data[..taken]);
        } else {
            assert_eq!(taken, len, "what is printed after the end is read and dropped");
        }
    }

    /// How much it has to want while it is followed: as much as its log and its reader have room for.
    fn room(&self) -> usize {
        let (log, retention) = (self.subject.process.log(), self.facts.config.retention);
        let place = self.reader.place();
        let behind = match self.reader {
            _ if self.facts.abandoned => None,
            Reading::Standing(_) => self.is_awaited.then(|| (log.end_offset(), log.newest_seq())),
            Reading::Seated(_) if place.is_behind(log) => None,
            Reading::Seated(_) => {
                Some((log.end_offset() - place.offset(), (log.newest_seq() + 1).saturating_sub(place.seq())))
            }
        };
        log.room().min(subscription::room(retention, behind.into_iter()))
    }

    fn read(&mut self) {
        let from = self.reader.place().offset() as usize;
        let process = &mut self.subject.process;
        let item = match &mut self.reader {
            Reading::Standing(reader) => reader.take(process.log_mut()),
            Reading::Seated(seat) => process.take(seat),
        };
        match item {
            None => {}
            Some(Item::Frame(frame)) => {
                assert_eq!(
                    (frame.offset as usize, &frame.data[..]),
                    (from, &self.printed[from..][..frame.data.len()])
                );
            }
            Some(Item::Gap(gap)) => {
                let Config { retention, keep, .. } = self.facts.config;
                let until_read = matches!(retention, Retention::UntilRead { .. }) && keep == Keep::Retained;
                assert!(!until_read || self.facts.abandoned, "what was not read is gone: {gap:?}");
            }
        }
    }

    fn signal(&mut self, signal: Signal, to: Target, times: usize) {
        for _ in 0..times.min(40) {
            self.subject.process.signal(signal, to);
            if self.facts.started && self.facts.exit.is_none() {
                self.facts.signals.push_back((signal, to));
                self.facts.told_to_end |= matches!(signal, Signal::TERM | Signal::KILL);
            }
        }
        let over = self.facts.signals.len().saturating_sub(16);
        self.facts.signals.drain(..over);
    }

    fn write_stdin(&mut self, len: usize) {
        let data = log::bytes(self.stdin_sent, len);
        let rest = self.subject.process.write_stdin(Bytes::from(data.clone()));
        if self.stdin_ending || self.stdin_closed {
            assert_eq!(rest, None, "nobody reads it: it is dropped");
            return;
        }
        let fits = len.min(self.facts.config.max_stdin.saturating_sub(self.stdin.len()));
        assert_eq!(rest.unwrap_or_default(), data[fits..], "what does not fit comes back");
        self.stdin.extend(&data[..fits]);
        self.stdin_sent += fits as u64;
    }

    pub(super) fn poll(&mut self) -> Sort {
        let now = self.contract.time(self.clock.now);
        let has_room = self.room() > 0;
        let output = self.contract.poll(&mut self.subject, self.clock.now);
        self.take(now, has_room, output)
    }

    fn take(&mut self, now: Time, has_room: bool, output: Output) -> Sort {
        assert_eq!(output, self.facts.expect(now, has_room), "at {now:?}, with {:#?}", self.facts);
        self.outputs.push(output);
        // A poll may give it up.
        self.end_stdin();
        if let Output::Wait(Some(at)) = output {
            self.clock.asked = Some(at);
        }
        Subject::sort(&output)
    }

    /// What can be asked of it.
    pub(super) fn check(&self) {
        self.subject.check_bounds();
        let (facts, process) = (&self.facts, &self.subject.process);
        assert_eq!(process.exit_status(), facts.exit);
        assert_eq!(process.is_running(), facts.started && facts.exit.is_none());
        assert_eq!(process.is_over(), facts.is_over());
        assert_eq!((process.timed_out(), process.drain_timed_out()), (facts.timed_out, facts.drained));
        assert_eq!(process.log().end_offset(), self.printed.len() as u64);
        if !facts.is_followed() {
            let wanted = if facts.end_of_output { 0 } else { usize::MAX };
            assert_eq!(process.wants_output(), wanted);
        } else {
            assert_eq!(process.wants_output(), self.room());
        }
        if facts.config.keep == Keep::Unread && !self.is_awaited {
            let is_read =
                !matches!(&self.reader, Reading::Seated(seat) if seat.reader().has_next(process.log()));
            assert!(!is_read || process.log().held() == 0, "all is read, and something is kept");
        }
        assert_eq!(process.stdin_waiting().0, self.stdin.len());
        let front = process.stdin();
        assert_eq!(front.is_none(), self.stdin.is_empty());
        let front = front.unwrap_or_default();
        assert!(self.stdin.iter().take(front.len()).eq(front), "input out of its order");
        let wants_end = self.stdin_ending && !self.stdin_closed && self.stdin.is_empty();
        assert_eq!(process.wants_stdin_end(), wants_end);
    }

    pub(super) fn finish(mut self) -> Vec<Output> {
        if !self.contract.is_closed() {
            self.apply(&Op::Rare(Rare::Close));
        }
        let (mut contract, now) = (self.contract, self.clock.now);
        let time = contract.time(now);
        let mut subject = std::mem::replace(&mut self.subject, Subject::new(&self.facts.config, now));
        contract.finish(&mut subject, now, |_, output| {
            self.take(time, true, output);
        });
        self.subject = subject;
        loop {
            let before = self.reader.place().offset();
            self.read();
            if self.reader.place().offset() == before {
                break;
            }
        }
        assert_eq!(
            self.reader.place().offset(),
            self.subject.process.log().end_offset(),
            "what was printed is not all there"
        );
        self.outputs
    }
}
