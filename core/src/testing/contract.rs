//! The rules of the crate's front page, checked at every poll of any machine.
//!
//! Rules 1 and 5 are checked by running a scenario twice, once with a clock that never goes back
//! ([`Contract::run_twice`]): both runs have the same outputs.

use crate::Time;
use std::fmt::Debug;

/// What the contract needs of a machine.
pub trait Machine {
    /// What its poll gives.
    type Output: Debug + PartialEq;
    /// Polls it.
    fn poll_output(&mut self, now: Time) -> Self::Output;
    /// Which sort of output this is.
    fn sort(output: &Self::Output) -> Sort;
    /// Ends it, from any state.
    fn close(&mut self);
    /// Gives it one of each input and command.
    fn disturb(&mut self);
    /// Rule 7: panics when more is held than the configuration allows.
    fn check_bounds(&self);
}

/// What the contract tells apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sort {
    /// Something to carry out.
    Act,
    /// The end.
    Closed,
    /// Nothing before this time, or before the next input.
    Wait(Option<Time>),
}

/// Polls that a machine may take to come to `Wait`, and to `Closed` once it is told to close.
const MAX_STEPS: usize = 1_000;

/// Watches one machine through its life.
#[derive(Clone, Copy, Debug)]
pub struct Contract {
    /// The latest time it was polled with.
    seen: Time,
    /// Whether the machine is told `seen` instead of an earlier time.
    steady: bool,
    closed: bool,
}

impl Contract {
    /// For a machine made at `start`. With `steady` its clock never goes back.
    pub const fn new(start: Time, steady: bool) -> Self {
        Self { seen: start, steady, closed: false }
    }

    /// Runs a scenario with a clock as it comes, and again with one that never goes back. `drive` gives all outputs.
    pub fn run_twice<T: Debug + PartialEq>(mut drive: impl FnMut(bool) -> Vec<T>) {
        let (first, second) = (drive(false), drive(true));
        if first != second {
            let at = first.iter().zip(&second).take_while(|(a, b)| a == b).count();
            panic!(
                "rules 1 and 5: output {at} is {:?}, and {:?} with a steady clock",
                first.get(at),
                second.get(at)
            );
        }
    }

    /// The time that counts when it is polled at `now`.
    pub fn time(&self, now: Time) -> Time {
        self.seen.max(now)
    }

    /// Whether it gave `Closed`.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Polls it and checks what it gives.
    pub fn poll<M: Machine>(&mut self, machine: &mut M, now: Time) -> M::Output {
        self.seen = self.seen.max(now);
        let asked = if self.steady { self.seen } else { now };
        let output = machine.poll_output(asked);
        machine.check_bounds();
        let sort = M::sort(&output);
        if self.closed {
            assert_eq!(sort, Sort::Wait(None), "rule 6: after Closed came {output:?}");
        }
        match sort {
            Sort::Act => {}
            Sort::Closed => self.closed = true,
            Sort::Wait(at) => {
                assert!(at.is_none_or(|at| at > self.seen), "rule 3: at {:?} came {output:?}", self.seen);
                for again in [asked, Time::ZERO, self.seen] {
                    let second = machine.poll_output(again);
                    assert_eq!(
                        second, output,
                        "rules 4 and 5: polled again with {again:?}, seen {:?}",
                        self.seen
                    );
                }
            }
        }
        output
    }

    /// Polls it until `Wait`, and gives each output to `each`.
    pub fn settle<M: Machine>(
        &mut self,
        machine: &mut M,
        now: Time,
        mut each: impl FnMut(&mut M, M::Output),
    ) {
        for _ in 0..MAX_STEPS {
            let output = self.poll(machine, now);
            let sort = M::sort(&output);
            each(machine, output);
            if let Sort::Wait(_) = sort {
                return;
            }
        }
        panic!("rule 2: {MAX_STEPS} polls at {now:?} without a Wait");
    }

    /// Rules 6 and 8: closes it and polls it to its end, and then nothing moves it any more. Each output is given to
    /// `each`.
    pub fn finish<M: Machine>(
        &mut self,
        machine: &mut M,
        now: Time,
        mut each: impl FnMut(&mut M, M::Output),
    ) {
        machine.close();
        self.settle(machine, now, &mut each);
        assert!(self.closed, "rule 8: closed, polled to its Wait, and no Closed");
        for _ in 0..2 {
            machine.disturb();
            machine.close();
            machine.check_bounds();
            let output = self.poll(machine, Time::from_nanos(u64::MAX));
            each(machine, output);
        }
    }
}
