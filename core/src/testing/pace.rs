//! The pacer against a bucket that remembers everything.

use super::{Clock, Tick, draw};
use crate::{
    Time,
    pace::{MESSAGE_COST, Pacer},
};
use arbitrary::{Arbitrary, Result, Unstructured};
use std::time::Duration;

const NANOS: i128 = 1_000_000_000;

/// A pacer and what it is asked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Bytes a second.
    pub rate: u64,
    /// What happens.
    pub ops: Vec<Op>,
}

/// What happens to a pacer.
#[derive(Arbitrary, Clone, Debug)]
pub enum Op {
    /// The clock changes.
    Tick(Tick),
    /// A message of this length goes, if it may.
    Send(#[arbitrary(with = draw::size)] usize),
    /// Messages of this length go while they may, at most twenty.
    Burst(#[arbitrary(with = draw::size)] usize),
    /// It is asked, and nothing is sent.
    Ask,
    /// Seconds to years pass.
    Leap(u32),
}

impl<'a> Arbitrary<'a> for Scenario {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self { rate: rate(u)?, ops: draw::steps(u, 100)? })
    }
}

/// Bytes a second: few, so that a wait is long, or so many that there is none.
pub(super) fn rate(u: &mut Unstructured<'_>) -> Result<u64> {
    Ok(*u.choose(&[0, 1, 2, 7, 63, 64, 65, 100, 1000, 4096, 1 << 20, 1 << 30, u64::MAX])?)
}

/// Every message that went. From all of them follows what may go: for each message, all that went since just before
/// it is less than one second's worth and what the time since then adds.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    rate: i128,
    sent: Vec<(Time, usize)>,
}

impl Bucket {
    pub(super) fn new(rate: u64) -> Self {
        Self { rate: i128::from(rate.max(1)), sent: Vec::new() }
    }

    pub(super) fn ready(&self, now: Time) -> bool {
        let mut spent = 0;
        self.sent.iter().rev().all(|(at, len)| {
            spent += (*len as i128 + i128::from(MESSAGE_COST)) * NANOS;
            let earned = i128::from(now.as_nanos() - at.as_nanos()).saturating_mul(self.rate);
            spent < earned.saturating_add(self.rate * NANOS)
        })
    }

    pub(super) fn charge(&mut self, now: Time, len: usize) {
        self.sent.push((now, len));
    }

    /// A wait until `at`, told at `now`, is as long as needed and no longer.
    pub(super) fn check_wait(&self, now: Time, at: Time) {
        assert!(!self.ready(now), "waits at {now:?} until {at:?}, and a message could go");
        assert!(at > now, "waits at {now:?} until {at:?}");
        if at < Time::from_nanos(u64::MAX) {
            assert!(self.ready(at), "waits at {now:?} until {at:?}, which is not long enough");
        }
        assert!(!self.ready(Time::from_nanos(at.as_nanos() - 1)), "waits at {now:?} until {at:?}, too long");
    }
}

/// Runs a scenario: a message goes exactly when the bucket says so.
pub fn run(scenario: &Scenario) {
    let mut clock = Clock::new();
    let mut seen = clock.now;
    let mut pacer = Pacer::new(scenario.rate, clock.now);
    let mut bucket = Bucket::new(scenario.rate);
    for op in &scenario.ops {
        let (len, times) = match op {
            Op::Tick(tick) => {
                clock.tick(*tick);
                continue;
            }
            Op::Send(len) => (Some(*len), 1),
            Op::Burst(len) => (Some(*len), 20),
            Op::Ask => (None, 1),
            Op::Leap(time) => {
                clock.tick(Tick::Advance(Duration::from_nanos(u64::from(*time) << 24)));
                continue;
            }
        };
        seen = seen.max(clock.now);
        for _ in 0..times {
            match pacer.ready(clock.now) {
                Ok(()) => {
                    assert!(bucket.ready(seen), "at {seen:?} it lets a message go that is too early");
                    let Some(len) = len else { break };
                    pacer.charge(len);
                    bucket.charge(seen, len);
                }
                Err(at) => {
                    bucket.check_wait(seen, at);
                    clock.asked = Some(at);
                    break;
                }
            }
        }
    }
}
