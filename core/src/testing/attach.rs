//! A reader that comes and goes, against all that its process printed.

use super::{Clock, Contract, Machine, Sort, Step, Tick, draw, pace, pace::Bucket};
use crate::{
    Close, Time,
    attach::{Attach, Config, Output},
    exec::Encoding,
    log::{Channel, Gap, GapReason, Reader, Retention},
    process::{self, Exit, Process},
};
use arbitrary::{Arbitrary, Result, Unstructured};
use std::collections::BTreeSet;

/// A process, how it is followed, and what happens to both.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// How it is followed.
    pub config: Config,
    /// What is kept of it.
    pub retention: Retention,
    /// Bytes of that for readers who come.
    pub replay: u64,
    /// What happens. After each, the process's driver polls it until `Wait`; the reader polls as often as told.
    pub steps: Vec<Step<Op>>,
}

/// What happens to a process and its reader.
#[derive(Arbitrary, Clone, Debug)]
pub enum Op {
    /// The clock changes.
    Tick(Tick),
    /// It prints.
    Print(#[arbitrary(with = draw::channel)] Channel, #[arbitrary(with = draw::output)] Vec<u8>),
    /// It prints that this many times, each at once.
    Repeat(#[arbitrary(with = draw::channel)] Channel, #[arbitrary(with = draw::output)] Vec<u8>, u8),
    /// The socket takes nothing.
    Blocked,
    /// The socket takes something.
    Accepted,
    /// The connection is cut; the client comes back with its cursor.
    Cut,
    /// What seldom happens.
    Rare(#[arbitrary(with = rare)] Rare),
}

/// What seldom happens.
#[derive(Clone, Copy, Debug)]
pub enum Rare {
    /// It ends.
    Exit(Exit),
    /// Its output is at its end.
    EndOfOutput,
    /// The sandbox's side broke.
    Lost,
    /// The stream is closed.
    Close(Close),
}

fn rare(u: &mut Unstructured<'_>) -> Result<Rare> {
    Ok(match u.int_in_range(0..=7u8)? {
        0..=2 => Rare::Exit(draw::exit(u)?),
        3..=5 => Rare::EndOfOutput,
        6 => Rare::Lost,
        _ => Rare::Close(draw::close(u)?),
    })
}

impl<'a> Arbitrary<'a> for Scenario {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let max_bytes = if u.ratio(3, 4u8)? { u64::MAX } else { draw::size(u)? as u64 };
        let config = Config {
            encoding: draw::encoding(u)?,
            bytes_per_second: pace::rate(u)?,
            max_bytes,
            patience: draw::duration(u)?,
        };
        let retention = Retention::Ring { bytes: draw::size(u)? };
        let replay = if u.ratio(2, 3u8)? { u64::MAX } else { draw::size(u)? as u64 };
        Ok(Self { config, retention, replay, steps: draw::steps(u, 80)? })
    }
}

/// Runs a scenario, and then closes the stream.
pub fn run(scenario: &Scenario) {
    Contract::run_twice(|steady| {
        let mut run = Run::new(scenario, steady);
        for step in &scenario.steps {
            run.apply(&step.op);
            run.drive();
            for _ in 0..step.polls {
                if let Sort::Wait(_) = run.poll() {
                    break;
                }
            }
        }
        run.finish()
    });
}

/// The reader and its process: one machine for the contract.
struct Pair {
    attach: Attach,
    process: Process,
}

impl Machine for Pair {
    type Output = Output;

    fn poll_output(&mut self, now: Time) -> Output {
        self.attach.poll_output(&mut self.process, now)
    }

    fn sort(output: &Output) -> Sort {
        match output {
            Output::Frame(_) | Output::Text { .. } | Output::Gap(_) => Sort::Act,
            Output::Closed { .. } => Sort::Closed,
            Output::Wait(at) => Sort::Wait(*at),
        }
    }

    fn close(&mut self) {
        self.attach.close(Close::Shutdown);
    }

    fn disturb(&mut self) {
        self.attach.close(Close::Revoked);
        self.attach.handle_blocked();
        self.attach.handle_accepted();
        self.process.handle_output(Channel::Stdout, 0, b"x");
    }

    fn check_bounds(&self) {
        assert!(self.attach.held() <= 4, "rule 7: {} outputs are held", self.attach.held());
    }
}

struct Run {
    config: Config,
    pair: Pair,
    contract: Contract,
    steady: bool,
    clock: Clock,
    model: Model,
    outputs: Vec<Output>,
}

impl Run {
    fn new(scenario: &Scenario, steady: bool) -> Self {
        let clock = Clock::new();
        let config = process::Config {
            retention: scenario.retention,
            replay: scenario.replay,
            ..process::Config::default()
        };
        let mut process = Process::new(config, clock.now);
        process.handle_started(None);
        let reader = Reader::oldest(process.log_mut());
        let attach = Attach::new(scenario.config.clone(), &process, reader, clock.now);
        Self {
            model: Model::new(&scenario.config),
            config: scenario.config.clone(),
            pair: Pair { attach, process },
            contract: Contract::new(clock.now, steady),
            steady,
            clock,
            outputs: Vec::new(),
        }
    }

    fn apply(&mut self, op: &Op) {
        let Pair { attach, process } = &mut self.pair;
        match op {
            Op::Tick(tick) => self.clock.tick(*tick),
            Op::Print(channel, bytes) => self.print(*channel, bytes),
            Op::Repeat(channel, bytes, times) => (0..*times).for_each(|_| self.print(*channel, bytes)),
            Op::Blocked => {
                attach.handle_blocked();
                self.model.blocked();
            }
            Op::Accepted => {
                attach.handle_accepted();
                self.model.blocked = None;
            }
            Op::Cut => self.cut(),
            Op::Rare(Rare::Exit(exit)) => process.handle_exit(*exit),
            Op::Rare(Rare::EndOfOutput) => process.handle_end_of_output(),
            Op::Rare(Rare::Lost) => process.handle_lost(),
            Op::Rare(Rare::Close(reason)) => {
                attach.close(*reason);
                self.model.close(*reason);
            }
        }
    }

    fn print(&mut self, channel: Channel, bytes: &[u8]) {
        let before = self.pair.process.log().end_offset();
        self.pair.process.handle_output(channel, 0, bytes);
        let taken = self.pair.process.log().end_offset() - before;
        self.model.print(channel, &bytes[..taken as usize]);
    }

    fn drive(&mut self) {
        while !matches!(self.pair.process.poll_output(self.clock.now), process::Output::Wait(_)) {}
    }

    /// The client comes back: by the number of its last frame, or by the offset after its last text.
    fn cut(&mut self) {
        let Pair { attach, process } = &mut self.pair;
        let now = self.contract.time(self.clock.now);
        let reader = match (self.config.encoding, self.model.seq) {
            (Encoding::Base64, Some(seq)) => Reader::after_seq(process.log_mut(), seq),
            (Encoding::Base64 | Encoding::Text, _) => Reader::at_offset(process.log_mut(), self.model.cursor),
        };
        let reader = reader.expect("a cursor that was given out is not ahead");
        *attach = Attach::new(self.config.clone(), process, reader, now);
        self.contract = Contract::new(now, self.steady);
        self.model.cut();
    }

    fn poll(&mut self) -> Sort {
        let start = self.pair.process.log().start_offset();
        let now = self.contract.time(self.clock.now);
        self.model.settle(now);
        let output = self.contract.poll(&mut self.pair, self.clock.now);
        let sort = Pair::sort(&output);
        if let Sort::Wait(Some(at)) = sort {
            self.clock.asked = Some(at);
        }
        self.model.check(&self.pair, now, start, &output);
        self.outputs.push(output);
        sort
    }

    fn finish(mut self) -> Vec<Output> {
        self.model.close(Close::Shutdown);
        let now = self.contract.time(self.clock.now);
        let start = self.pair.process.log().start_offset();
        let Self { pair, model, outputs, contract, clock, .. } = &mut self;
        contract.finish(pair, clock.now, |pair, output| {
            model.check(pair, now, start, &output);
            outputs.push(output);
        });
        assert!(model.closed);
        self.outputs
    }
}

/// All that was printed, and what the client got of it.
struct Model {
    config: Config,
    bucket: Bucket,
    printed: Vec<(Channel, u8)>,
    /// The first byte that the client was not told of, and was not told that it is gone.
    cursor: u64,
    seq: Option<u64>,
    /// The client came back for what was gone by then: what it may be told of where the gap begins.
    came_back: bool,
    /// For each channel, up to where its bytes may have been shown as text: more than one place where it printed the
    /// same again.
    shown: [BTreeSet<usize>; 3],
    /// Each time that the client came back since it was shown text of the channel, of a character that was held back
    /// then up to three bytes may be gone.
    lost: [usize; 3],
    /// There was a gap since: the first character may begin in it. Or the client came back, and is shown again what was
    /// given up at the end of the output.
    early: [bool; 3],
    blocked: Option<Option<Time>>,
    sent: u64,
    taken: bool,
    close: Option<Close>,
    closed: bool,
}

impl Model {
    fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            bucket: Bucket::new(config.bytes_per_second),
            printed: Vec::new(),
            cursor: 0,
            seq: None,
            came_back: false,
            shown: [0; 3].map(|start| BTreeSet::from([start])),
            lost: [0; 3],
            early: [false; 3],
            blocked: None,
            sent: 0,
            taken: false,
            close: None,
            closed: false,
        }
    }

    fn print(&mut self, channel: Channel, bytes: &[u8]) {
        self.printed.extend(bytes.iter().map(|byte| (channel, *byte)));
    }

    fn close(&mut self, reason: Close) {
        self.close = self.close.into_iter().chain([reason]).min();
    }

    fn blocked(&mut self) {
        self.blocked.get_or_insert(None);
    }

    /// The time to be blocked counts from the poll after it was said.
    fn settle(&mut self, now: Time) {
        if let Some(since) = &mut self.blocked
            && !self.closed
            && self.close.is_none()
        {
            since.get_or_insert(now);
        }
    }

    fn cut(&mut self) {
        self.bucket = Bucket::new(self.config.bytes_per_second);
        self.came_back = true;
        (self.lost, self.early) = (self.lost.map(|lost| lost + 3), [true; 3]);
        self.blocked = None;
        self.sent = 0;
        self.taken = false;
        self.close = None;
        self.closed = false;
    }

    fn check(&mut self, pair: &Pair, now: Time, start: u64, output: &Output) {
        if self.closed {
            return;
        }
        match output {
            Output::Wait(at) => return self.check_wait(pair, now, *at),
            Output::Closed { reason, exit, .. } => {
                self.closed = true;
                return self.check_closed(pair, now, start, *reason, *exit);
            }
            Output::Frame(_) | Output::Text { .. } | Output::Gap(_) => {}
        }
        assert!(self.close.is_none(), "sent after it was closed");
        assert_eq!(self.blocked, None, "sent, and the socket takes nothing");
        assert!(self.bucket.ready(now), "sent too early");
        assert!(self.sent < self.config.max_bytes || self.config.max_bytes == 0, "sent past the cap");
        let len = match output {
            Output::Frame(frame) => {
                assert_eq!(frame.offset, self.cursor, "where it goes on");
                assert!(self.seq.is_none_or(|seq| frame.seq == seq + 1 || self.came_back), "{frame:?}");
                self.check_bytes(frame.channel, frame.offset, &frame.data);
                (self.cursor, self.seq) = (frame.end(), Some(frame.seq));
                frame.data.len()
            }
            Output::Text { channel, text, next } => {
                self.check_text(*channel, &text.bytes().concat(), *next);
                text.len()
            }
            Output::Gap(gap) => {
                self.check_gap(gap);
                0
            }
            Output::Closed { .. } | Output::Wait(_) => 0,
        };
        self.came_back = false;
        self.taken = true;
        self.bucket.charge(now, len);
        self.sent += len as u64;
    }

    fn check_bytes(&self, channel: Channel, from: u64, data: &[u8]) {
        let from = from as usize;
        let printed = self.printed.get(from..from + data.len()).expect("more than was printed");
        assert!(printed.iter().zip(data).all(|(one, byte)| *one == (channel, *byte)), "not what was printed");
    }

    /// A text is what its channel printed next.
    fn check_text(&mut self, channel: Channel, bytes: &[u8], next: u64) {
        assert!(next >= self.cursor && !bytes.is_empty());
        let side = channel as usize - 1;
        let of = |at: &usize| self.printed[*at].0 == channel;
        let first = self.shown[side].first().copied().unwrap_or_default();
        let mut places: Vec<usize> = (0..first).rev().filter(of).take(3).collect();
        places.reverse();
        places.extend((first..next as usize).filter(of));
        let early = if self.early[side] { 3 } else { 0 };
        let late = self.lost[side];
        let mut found = BTreeSet::new();
        for shown in &self.shown[side] {
            let on = places.partition_point(|at| at < shown);
            for from in on.saturating_sub(early)..=on + late {
                let places = places.get(from..from + bytes.len()).unwrap_or_default();
                let same = places.iter().zip(bytes).all(|(at, byte)| self.printed[*at].1 == *byte);
                if places.len() == bytes.len() && same {
                    found.extend(places.last().map(|last| last + 1));
                }
            }
        }
        assert!(!found.is_empty(), "not what was printed after {:?}: {bytes:?}", self.shown[side]);
        self.shown[side] = found;
        (self.lost[side], self.early[side]) = (0, false);
        self.cursor = next;
    }

    fn check_gap(&mut self, gap: &Gap) {
        assert!(gap.to_offset > self.cursor || self.came_back, "a gap where nothing is gone: {gap:?}");
        match (self.config.encoding, self.seq) {
            (Encoding::Base64, Some(seq)) if self.came_back => {
                assert_eq!(gap.from_seq, Some(seq + 1), "{gap:?}");
            }
            (Encoding::Text | Encoding::Base64, _) => {
                assert_eq!(gap.from_offset, Some(self.cursor), "{gap:?}")
            }
        }
        let slow = if self.taken && !self.came_back { GapReason::SlowConsumer } else { GapReason::Evicted };
        assert!(gap.reason == slow || self.config.encoding == Encoding::Text, "{gap:?}");
        (self.cursor, self.seq) = (gap.to_offset, Some(gap.to_seq - 1));
        self.shown = [gap.to_offset as usize; 3].map(|start| BTreeSet::from([start]));
        (self.lost, self.early) = ([0; 3], [true; 3]);
    }

    fn check_wait(&self, pair: &Pair, now: Time, at: Option<Time>) {
        assert!(self.close.is_none(), "waits, and it is closed");
        if let Some(Some(since)) = self.blocked {
            let at = at.expect("it looks again");
            let over = since + self.config.patience;
            assert!(
                if now < over { at == over } else { at > now },
                "blocked since {since:?}, waits until {at:?}"
            );
            return;
        }
        let log = pair.process.log();
        if let Some(at) = at {
            self.bucket.check_wait(now, at);
            return;
        }
        assert!(!pair.process.is_over(), "waits, and nothing more will come");
        assert_eq!(pair.attach.next(), log.end_offset(), "waits, and there is output");
    }

    fn check_closed(&self, pair: &Pair, now: Time, start: u64, reason: Close, exit: Option<Exit>) {
        let process = &pair.process;
        assert_eq!(exit, process.exit_status().filter(|_| reason == Close::Done && process.is_over()));
        if let Some(close) = self.close {
            assert!(reason <= close, "{reason:?} is told, not {close:?}");
            if reason == close {
                return;
            }
        }
        match reason {
            Close::Done | Close::Error => {
                let unknown = process.exit_status() == Some(Exit::Unknown);
                assert!(process.is_over() && unknown == (reason == Close::Error));
                assert_eq!(pair.attach.next(), self.printed.len() as u64, "not all was given out");
                let all = match self.config.encoding {
                    Encoding::Base64 => self.cursor == self.printed.len() as u64,
                    // Whatever was printed after what was shown was printed elsewhere.
                    Encoding::Text => {
                        [Channel::Stdout, Channel::Stderr, Channel::Tty].iter().all(|channel| {
                            let side = *channel as usize - 1;
                            let all =
                                |from: &usize| self.printed[*from..].iter().all(|one| one.0 != *channel);
                            self.lost[side] > 0 || self.shown[side].iter().any(all)
                        })
                    }
                };
                assert!(all || self.close.is_some(), "not all was given out");
            }
            Close::Limit => assert!(self.sent >= self.config.max_bytes, "capped at {}", self.sent),
            Close::SlowConsumer => {
                let since = self.blocked.flatten().expect("given up, and the socket takes what comes");
                assert!(now >= since + self.config.patience, "given up too early");
                assert!(pair.attach.next() < start, "given up, and nothing is gone");
            }
            Close::Revoked
            | Close::Destroyed
            | Close::Paused
            | Close::Shutdown
            | Close::ClientData
            | Close::Lifetime
            | Close::Client => panic!("closed as {reason:?}"),
        }
    }
}
