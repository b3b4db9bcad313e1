//! What is drawn from the seed.

use super::super::{net::Link, random::Random};

pub(super) const TOKENS: usize = 3;

/// When the last client has come and the administrator has done the last thing, in milliseconds.
pub(super) const COMING: u64 = 20_000;

/// What a client does with its stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Manners {
    /// Reads as fast as it comes.
    Reads,
    /// Reads a piece, then waits.
    Dawdles,
    /// Reads nothing for so many milliseconds, then all of it.
    Stalls(u64),
    /// Goes away after so many.
    Leaves(u64),
    /// Its connection is cut after so many.
    IsCut(u64),
    /// Half-closes after so many.
    HalfCloses(u64),
    /// Asks for the result alone, and waits for it.
    Waits,
    /// The same, and goes away after so many milliseconds.
    WaitsAndLeaves(u64),
}

/// What the administrator does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Act {
    Revoke(usize),
    Pause,
    Resume,
    Destroy,
    ShutDown,
    SetClock(i64),
}

/// One client to be.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) number: usize,
    pub(super) at: u64,
    pub(super) token: usize,
    pub(super) script: String,
    pub(super) timeout: u64,
    pub(super) manners: Manners,
}

impl Plan {
    pub(super) fn any(number: usize, link: Link, random: &mut Random) -> Self {
        let ms = random.below(8_000);
        let manners = match random.below(12) {
            0..=3 => Manners::Reads,
            4 => Manners::Dawdles,
            5 | 6 => Manners::Stalls(random.below(30_000)),
            7 => Manners::Leaves(ms),
            8 => Manners::IsCut(ms),
            9 => Manners::HalfCloses(ms),
            10 => Manners::Waits,
            _ => Manners::WaitsAndLeaves(ms),
        };
        // A segment costs a step.
        let most = match link.segment {
            1 => 3_000,
            2..=99 => 20_000,
            _ => 400_000,
        };
        Self {
            number,
            at: random.below(COMING),
            token: random.below(TOKENS as u64) as usize,
            script: any_script(most, random),
            timeout: random.between(1, 20),
            manners,
        }
    }
}

fn any_script(most: u64, random: &mut Random) -> String {
    let mut steps = Vec::new();
    for _ in 0..random.below(7) {
        steps.push(match random.below(20) {
            0..=4 => format!("out line {} €uro\\n", random.below(1_000)),
            5..=7 => format!("err warning {} ¢ent\\n", random.below(1_000)),
            8 => format!("flood {}", random.below(2_000)),
            9 | 10 => format!("flood {}", random.below(most)),
            11 => format!("flood-err {}", random.below(most)),
            12 => format!("drip {} {}", random.below(100), random.between(1, 50)),
            13..=15 => format!("sleep {}", random.below(5_000)),
            16 => "ignore-term".to_owned(),
            17 => "linger".to_owned(),
            18 => format!("hold {}", random.below(6_000)),
            _ => format!("start-delay {}", random.below(3_000)),
        });
    }
    if random.once_in(10) {
        steps.push("close".to_owned());
    }
    steps.push(match random.below(10) {
        0..=5 => format!("exit {}", random.below(256)),
        6 => format!("signal {}", random.between(1, 15)),
        7 => "fail".to_owned(),
        _ => "hang".to_owned(),
    });
    steps.join("; ")
}

pub(super) fn any_act(random: &mut Random) -> Act {
    match random.below(12) {
        0..=3 => Act::Revoke(random.below(TOKENS as u64) as usize),
        4 | 5 => Act::Pause,
        6 | 7 => Act::Resume,
        8 => Act::Destroy,
        9 | 10 => Act::ShutDown,
        _ => Act::SetClock(random.below(7_200_000) as i64 - 3_600_000),
    }
}
