//! A command's stream, together with its process, against all that the command printed.

mod model;

use self::model::Model;
use super::{Clock, Contract, Machine, Sort, Step, Tick, draw, pace, process::Subject};
use crate::{
    Close, Time,
    exec::{Config, Exec, Output, Streaming},
    log::{Channel, Retention},
    process::{self, Exit, StartFailure},
};
use arbitrary::{Arbitrary, Result, Unstructured};

/// A command, its stream and what happens to them.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// How its output is given out.
    pub config: Config,
    /// How its process is followed and ended.
    pub process: process::Config,
    /// What happens. The process's driver polls it until `Wait` after each; the client's side polls as often as told.
    pub steps: Vec<Step<Op>>,
}

/// What happens to a command and its stream.
#[derive(Arbitrary, Clone, Debug)]
pub enum Op {
    /// The clock changes.
    Tick(Tick),
    /// It runs.
    Started,
    /// It prints.
    Print(#[arbitrary(with = channel)] Channel, #[arbitrary(with = draw::output)] Vec<u8>),
    /// It prints that this many times, each at once.
    Repeat(#[arbitrary(with = channel)] Channel, #[arbitrary(with = draw::output)] Vec<u8>, u8),
    /// It ends.
    Exit(#[arbitrary(with = draw::exit)] Exit),
    /// Its output is at its end.
    EndOfOutput,
    /// What seldom happens.
    Rare(Rare),
}

/// What seldom happens to a command.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Rare {
    /// Its stream is closed.
    Close(#[arbitrary(with = draw::close)] Close),
    /// It is killed.
    Kill,
    /// It could not be started.
    StartFailed,
    /// The sandbox's side broke.
    Lost,
    /// The process is let go of.
    LetGo,
}

impl<'a> Arbitrary<'a> for Scenario {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let stream = if u.ratio(7, 8u8)? {
            Some(Streaming { bytes_per_second: pace::rate(u)?, max_bytes: draw::size(u)? as u64 })
        } else {
            None
        };
        let config = Config { encoding: draw::encoding(u)?, stream, tail: draw::size(u)? };
        let retention = Retention::UntilRead { bytes: draw::limit(u)? };
        Ok(Self {
            config,
            process: process::Config { retention, ..super::process::config(u)? },
            steps: draw::steps(u, 60)?,
        })
    }
}

fn channel(u: &mut Unstructured<'_>) -> Result<Channel> {
    Ok(*u.choose(&[Channel::Stdout, Channel::Stderr])?)
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
            run.drive();
        }
        run.finish()
    });
}

/// The stream and its process: one machine for the contract.
struct Pair {
    exec: Exec,
    subject: Subject,
    tail: usize,
}

impl Machine for Pair {
    type Output = Output;

    fn poll_output(&mut self, now: Time) -> Output {
        self.exec.poll_output(&mut self.subject.process, now)
    }

    fn sort(output: &Output) -> Sort {
        match output {
            Output::Transmit { .. } => Sort::Act,
            Output::Closed { .. } => Sort::Closed,
            Output::Wait(at) => Sort::Wait(*at),
        }
    }

    fn close(&mut self) {
        self.exec.close(Close::Shutdown);
    }

    fn disturb(&mut self) {
        self.exec.close(Close::Revoked);
        self.subject.disturb();
        self.subject.process.abandon_output();
    }

    fn check_bounds(&self) {
        self.subject.check_bounds();
        let held = self.exec.held();
        assert!(held <= 2 * self.tail, "rule 7: {held} bytes are held for the result");
    }
}

struct Run {
    config: Config,
    pair: Pair,
    driver: Contract,
    contract: Contract,
    clock: Clock,
    model: Model,
    outputs: Vec<Output>,
}

impl Run {
    fn new(scenario: &Scenario, steady: bool) -> Self {
        let clock = Clock::new();
        let config = scenario.config.clone();
        let mut subject = Subject::new(&scenario.process, clock.now);
        let exec = Exec::new(config.clone(), &mut subject.process, clock.now);
        Self {
            model: Model::new(&config, clock.now),
            pair: Pair { exec, subject, tail: config.tail },
            config,
            driver: Contract::new(clock.now, steady),
            contract: Contract::new(clock.now, steady),
            clock,
            outputs: Vec::new(),
        }
    }

    fn apply(&mut self, op: &Op) {
        let process = &mut self.pair.subject.process;
        match op {
            Op::Tick(tick) => self.clock.tick(*tick),
            Op::Started => process.handle_started(None),
            Op::Print(channel, bytes) => self.print(*channel, bytes),
            Op::Repeat(channel, bytes, times) => (0..*times).for_each(|_| self.print(*channel, bytes)),
            Op::Exit(exit) => process.handle_exit(*exit),
            Op::EndOfOutput => process.handle_end_of_output(),
            Op::Rare(Rare::Close(reason)) => {
                self.pair.exec.close(*reason);
                self.model.close(*reason);
            }
            Op::Rare(Rare::Kill) => process.kill(),
            Op::Rare(Rare::StartFailed) => {
                let failure = StartFailure { code: 127, message: "no such command".to_owned() };
                let before = process.log().end_offset();
                process.handle_start_failed(&failure, 0);
                let taken = process.log().end_offset() - before;
                self.model.print(Channel::Stderr, &b"no such command\n"[..taken as usize]);
            }
            Op::Rare(Rare::Lost) => process.handle_lost(),
            Op::Rare(Rare::LetGo) => process.close(),
        }
    }

    fn print(&mut self, channel: Channel, bytes: &[u8]) {
        let process = &mut self.pair.subject.process;
        let before = process.log().end_offset();
        process.handle_output(channel, 0, bytes);
        let taken = process.log().end_offset() - before;
        self.model.print(channel, &bytes[..taken as usize]);
    }

    /// What the driver of the process does.
    fn drive(&mut self) {
        self.driver.settle(&mut self.pair.subject, self.clock.now, |_, _| {});
    }

    fn poll(&mut self) -> Sort {
        let before = self.pair.subject.process.log().held();
        let output = self.contract.poll(&mut self.pair, self.clock.now);
        let sort = Pair::sort(&output);
        if let Sort::Wait(Some(at)) = sort {
            self.clock.asked = Some(at);
        }
        let now = self.contract.time(self.clock.now);
        self.model.check(&self.pair, now, before, &output);
        self.outputs.push(output);
        sort
    }

    fn finish(mut self) -> Vec<Output> {
        self.model.close(Close::Shutdown);
        let now = self.contract.time(self.clock.now);
        let Self { pair, model, outputs, contract, clock, config, .. } = &mut self;
        let before = pair.subject.process.log().held();
        contract.finish(pair, clock.now, |pair, output| {
            model.check(pair, now, before, &output);
            outputs.push(output);
        });
        assert!(model.closed);
        assert_eq!(pair.exec.sent(), model.sent_total());
        assert!(config.stream.is_some() || model.sent_total() == 0, "sent, and it is not streamed");
        self.outputs
    }
}
