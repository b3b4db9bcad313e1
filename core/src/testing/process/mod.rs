//! A process against the facts that its driver knows.
//!
//! The model keeps no state of the process's: only what happened, and from that it says what each poll has to give.

mod facts;
mod run;

use self::run::Run;
use super::{Contract, Machine, Sort, Step, Tick, draw, log};
use crate::{
    Time,
    log::Channel,
    process::{Config, Exit, Keep, Output, Process, Signal, StartFailure, Target, TtySize},
};
use arbitrary::{Arbitrary, Result, Unstructured};
use bytes::Bytes;

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
    /// Its reader takes a seat.
    Sit,
    /// Its reader goes from there, and reads on.
    Rise,
}

impl<'a> Arbitrary<'a> for Scenario {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let mut config = config(u)?;
        config.keep = *u.choose(&[Keep::Retained, Keep::Retained, Keep::Unread])?;
        config.awaits_reader = u.ratio(1, 3u8)?;
        Ok(Self { config, steps: draw::steps(u, 80)? })
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
