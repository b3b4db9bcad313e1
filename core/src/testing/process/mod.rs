//! A process against the facts that its driver knows.
//!
//! The model keeps no state of the process's: only what happened, and from that it says what each poll has to give.

mod facts;

use self::facts::Facts;
use super::{Clock, Contract, Machine, Sort, Step, Tick, draw, log};
use crate::{
    Time,
    log::{Channel, Item, Reader, Retention},
    process::{Config, Exit, Keep, Output, Process, Signal, StartFailure, Target, TtySize},
};
use arbitrary::{Arbitrary, Result, Unstructured};
use bytes::Bytes;
use std::collections::VecDeque;

/// A process and what happens to it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// How it is followed and ended.
    pub config: Config,
    /// What happens.
    pub steps: Vec<Step<Op>>,
}

/// What happens to a process.
#[derive(Arbitrary, Clone, Debug)]
pub enum Op {
    /// The clock changes.
    Tick(Tick),
    /// It runs.
    Started,
    /// It could not be started.
    StartFailed,
    /// It prints.
    Print(#[arbitrary(with = draw::channel)] Channel, #[arbitrary(with = draw::size)] usize),
    /// Its reader takes, this many times.
    Read(#[arbitrary(with = draw::polls)] usize),
    /// Its output is at its end.
    EndOfOutput,
    /// It ends.
    Exit(#[arbitrary(with = draw::exit)] Exit),
    /// It is killed.
    Kill,
    /// It is killed at once.
    KillNow,
    /// Its group is empty.
    GroupGone,
    /// The sweep was carried out.
    Swept,
    /// A signal is asked for, this many times.
    Signal(
        #[arbitrary(with = draw::signal)] Signal,
        #[arbitrary(with = draw::target)] Target,
        #[arbitrary(with = draw::size)] usize,
    ),
    /// Input comes for it.
    WriteStdin(#[arbitrary(with = draw::size)] usize),
    /// Input was written to it.
    StdinWritten(#[arbitrary(with = draw::size)] usize),
    /// Its input ends.
    CloseStdin,
    /// Its terminal has another size.
    Resize(u16),
    /// What seldom happens.
    Rare(Rare),
}

/// What seldom happens to a process.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Rare {
    /// The end of its input was carried out, or it reads no more.
    StdinClosed,
    /// Nobody will read.
    Abandon,
    /// The sandbox's side broke.
    Lost,
    /// It is let go of.
    Close,
}

impl<'a> Arbitrary<'a> for Scenario {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self { config: config(u)?, steps: draw::steps(u, 80)? })
    }
}

pub(super) fn config(u: &mut Unstructured<'_>) -> Result<Config> {
    Ok(Config {
        retention: draw::retention(u)?,
        replay: u64::MAX,
        keep: Keep::Retained,
        awaits_reader: false,
        timeout: if u.arbitrary()? { Some(draw::duration(u)?) } else { None },
        timeout_ends: draw::target(u)?,
        grace: draw::duration(u)?,
        drain: if u.ratio(3, 4u8)? { Some(draw::duration(u)?) } else { None },
        max_stdin: draw::size(u)?,
        tty: u.ratio(1, 4u8)?.then_some(TtySize { cols: 80, rows: 24 }),
    })
}

/// A process, and the limits it has to keep.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) process: Process,
    config: Config,
}

impl Subject {
    pub(super) fn new(config: &Config, now: Time) -> Self {
        Self { process: Process::new(config.clone(), now), config: config.clone() }
    }
}

impl Machine for Subject {
    type Output = Output;

    fn poll_output(&mut self, now: Time) -> Output {
        self.process.poll_output(now)
    }

    fn sort(output: &Output) -> Sort {
        match output {
            Output::Wait(at) => Sort::Wait(*at),
            Output::Closed => Sort::Closed,
            Output::Terminate | Output::Sweep | Output::Signal { .. } | Output::Resize(_) => Sort::Act,
        }
    }

    fn close(&mut self) {
        self.process.close();
    }

    fn disturb(&mut self) {
        let process = &mut self.process;
        process.handle_started(None);
        process.handle_start_failed(&failure(), 0);
        process.handle_output(Channel::Stdout, 0, b"more");
        process.handle_end_of_output();
        process.handle_exit(Exit::Code(1));
        process.handle_lost();
        process.handle_group_gone();
        process.handle_swept();
        process.handle_stdin_written(1);
        process.handle_stdin_closed();
        process.kill();
        process.signal(Signal::INT, Target::Group);
        process.write_stdin(Bytes::from_static(b"more"));
        process.close_stdin();
        process.resize(TtySize { cols: 1, rows: 1 });
    }

    fn check_bounds(&self) {
        log::check_bounds(self.process.log(), self.config.retention);
        let (waiting, pieces) = self.process.stdin_waiting();
        let max = self.config.max_stdin + usize::from(self.config.tty.is_some());
        assert!(waiting <= max, "rule 7: {waiting} bytes of input wait");
        assert!(pieces <= 2 + max / 2048, "rule 7: {waiting} bytes of input wait in {pieces} pieces");
    }
}

/// Runs a scenario, and then closes the process.
pub fn run(scenario: &Scenario) {
    Contract::run_twice(|steady| {
        let mut run = Run::new(&scenario.config, steady);
        for step in &scenario.steps {
            run.apply(&step.op);
            for _ in 0..step.polls {
                if let Sort::Wait(_) = run.poll() {
                    break;
                }
            }
            run.check();
        }
        run.finish()
    });
}

fn failure() -> StartFailure {
    StartFailure { code: 127, message: "no such command".to_owned() }
}

struct Run {
    facts: Facts,
    subject: Subject,
    contract: Contract,
    clock: Clock,
    reader: Reader,
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
    fn new(config: &Config, steady: bool) -> Self {
        let clock = Clock::new();
        let mut subject = Subject::new(config, clock.now);
        Self {
            facts: Facts::new(config, clock.now),
            reader: Reader::oldest(subject.process.log_mut()),
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

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Tick(tick) => self.clock.tick(tick),
            Op::Started => {
                self.subject.process.handle_started(None);
                self.facts.started();
            }
            Op::StartFailed => {
                let room = self.subject.process.wants_output();
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
        let wanted = self.subject.process.wants_output();
        let data: Vec<u8> = (self.printed.len()..).take(len).map(|at| log::byte(at as u64)).collect();
        let taken = self.subject.process.handle_output(channel, 0, &data);
        if self.facts.is_followed() {
            assert_eq!(taken, len.min(wanted), "it wanted {wanted}");
            self.printed.extend(&data[..taken]);
        } else {
            assert_eq!(taken, len, "what is printed after the end is read and dropped");
        }
    }

    fn read(&mut self) {
        let from = self.reader.offset() as usize;
        match self.reader.take(self.subject.process.log_mut()) {
            None => {}
            Some(Item::Frame(frame)) => {
                assert_eq!(
                    (frame.offset as usize, &frame.data[..]),
                    (from, &self.printed[from..][..frame.data.len()])
                );
            }
            Some(Item::Gap(gap)) => {
                let until_read = matches!(self.facts.config.retention, Retention::UntilRead { .. });
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

    fn poll(&mut self) -> Sort {
        let now = self.contract.time(self.clock.now);
        let has_room = self.subject.process.log().room() > 0;
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
    fn check(&self) {
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
            assert_eq!(process.wants_output(), process.log().room());
        }
        assert_eq!(process.stdin_waiting().0, self.stdin.len());
        let front = process.stdin();
        assert_eq!(front.is_none(), self.stdin.is_empty());
        let front = front.unwrap_or_default();
        assert!(self.stdin.iter().take(front.len()).eq(front), "input out of its order");
        let wants_end = self.stdin_ending && !self.stdin_closed && self.stdin.is_empty();
        assert_eq!(process.wants_stdin_end(), wants_end);
    }

    fn finish(mut self) -> Vec<Output> {
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
            let before = self.reader.offset();
            self.read();
            if self.reader.offset() == before {
                break;
            }
        }
        assert_eq!(
            self.reader.offset(),
            self.subject.process.log().end_offset(),
            "what was printed is not all there"
        );
        self.outputs
    }
}
