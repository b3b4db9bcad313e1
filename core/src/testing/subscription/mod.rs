//! A daemon's process and those who follow it, against what each of them has to be given and what
//! [`audience`](crate::audience) promises.
//!
//! The process's driver polls it until `Wait` after whatever happens, or only when it has to, and prints what there is room
//! for, as its shell does. Each byte is a function of its offset.

mod facts;
mod printed;
mod run;
mod subscriber;

pub(super) use self::facts::room;
use self::run::Run;
use super::{Contract, Tick, draw, process as single};
use crate::{
    Close,
    audience::Hold,
    log::{Channel, Retention},
    process::{self, Exit, Keep, Signal},
};
use arbitrary::{Arbitrary, Result, Unstructured};
use std::time::Duration;

/// A process and what happens to it and to those who follow it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// How it is followed and ended.
    pub config: process::Config,
    /// What its subscribers do is no reason for the driver to poll, unless it waits for room or the process wants it.
    pub lazy: bool,
    /// At last it ends, and all of them read to the end.
    pub reads_out: bool,
    /// What happens.
    pub ops: Vec<Op>,
}

/// What happens to a process and to those who follow it. A subscriber is meant by its index.
#[derive(Arbitrary, Clone, Debug)]
pub enum Op {
    /// The clock changes; its deadline is the process's.
    Tick(Tick),
    /// The clock goes to the time that a subscriber asked for last, or a nanosecond before or after it.
    Asked(u8, #[arbitrary(with = draw::nudge)] i8),
    /// It prints, if there is room.
    Print(#[arbitrary(with = draw::channel)] Channel, #[arbitrary(with = draw::size)] usize),
    /// It prints as much as there is room for, so many bytes at a time, this many times.
    Fill(#[arbitrary(with = draw::channel)] Channel, #[arbitrary(with = draw::limit)] usize, u8),
    /// It prints a byte on each of two channels, this many times: a frame for each byte.
    Alternate(#[arbitrary(with = draw::size)] usize),
    /// A subscriber polls, this many times.
    Poll(u8, #[arbitrary(with = draw::polls)] usize),
    /// All of them poll until `Wait`.
    PollAll,
    /// A subscriber comes.
    Come(Coming),
    /// Output was read, and before the process is told of that a subscriber polls.
    Overtaken(
        #[arbitrary(with = draw::channel)] Channel,
        #[arbitrary(with = draw::size)] usize,
        u8,
        #[arbitrary(with = draw::polls)] usize,
    ),
    /// Output was read, and before the process is told of that a subscriber comes.
    Surprised(#[arbitrary(with = draw::channel)] Channel, #[arbitrary(with = draw::size)] usize, Coming),
    /// A subscriber is dropped.
    Leave(u8),
    /// A subscriber's stream is closed.
    Close(u8, #[arbitrary(with = draw::close)] Close),
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
    /// It is killed.
    Kill,
    /// It is sent a signal.
    Signal(Signal),
    /// The sandbox's side broke.
    Lost,
    /// Nobody will read.
    Abandon,
}

fn rare(u: &mut Unstructured<'_>) -> Result<Rare> {
    Ok(match u.int_in_range(0..=9u8)? {
        0..=3 => Rare::Exit(draw::exit(u)?),
        4 | 5 => Rare::EndOfOutput,
        6 => Rare::Kill,
        7 => Rare::Signal(draw::signal(u)?),
        8 => Rare::Lost,
        _ => Rare::Abandon,
    })
}

/// A subscriber that comes.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Coming {
    /// Where it begins.
    pub begin: Begin,
    /// A keep-alive is due after this long.
    #[arbitrary(with = keep_alive)]
    pub keep_alive: Duration,
    /// Its stream ends after this long.
    #[arbitrary(with = deadline)]
    pub deadline: Option<Duration>,
    /// Whether the process waits for it.
    #[arbitrary(with = hold)]
    pub hold: Hold,
    /// Whether the exit is told at once.
    pub tells_exit: bool,
}

/// Where a subscriber begins.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Begin {
    /// At the oldest byte that is kept.
    OldestKept,
    /// At the oldest byte that is replayed.
    Oldest,
    /// After the newest byte.
    Newest,
    /// At a byte that there is or was.
    At(u16),
    /// At most this far from the newest byte.
    Near(#[arbitrary(with = draw::size)] usize),
}

fn keep_alive(u: &mut Unstructured<'_>) -> Result<Duration> {
    Ok(draw::duration(u)?.max(Duration::from_nanos(1)))
}

fn deadline(u: &mut Unstructured<'_>) -> Result<Option<Duration>> {
    Ok(if u.ratio(1, 4u8)? { Some(draw::duration(u)?) } else { None })
}

fn hold(u: &mut Unstructured<'_>) -> Result<Hold> {
    Ok(*u.choose(&[Hold::WhileMoving, Hold::WhileMoving, Hold::WhileMoving, Hold::Always, Hold::Never])?)
}

impl<'a> Arbitrary<'a> for Scenario {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let mut config = single::config(u)?;
        config.retention = Retention::Ring { bytes: draw::size(u)? };
        config.replay = if u.ratio(2, 3u8)? { u64::MAX } else { draw::size(u)? as u64 };
        config.keep = *u.choose(&[Keep::Retained, Keep::Unread])?;
        config.awaits_reader = u.arbitrary()?;
        Ok(Self { config, lazy: u.arbitrary()?, reads_out: u.arbitrary()?, ops: draw::steps(u, 80)? })
    }
}

/// Runs a scenario, and then closes every stream and the process.
pub fn run(scenario: &Scenario) {
    Contract::run_twice(|steady| {
        let mut run = Run::new(scenario, steady);
        for op in &scenario.ops {
            run.apply(op);
        }
        if scenario.reads_out {
            run.read_out();
        }
        run.finish()
    });
}
