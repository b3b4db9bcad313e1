//! Changes against a list of all that happened.

use super::{Clock, Contract, Machine, Sort, Step, Tick, draw};
use crate::{
    Time,
    changes::{Changes, INTERVAL, Output},
};
use arbitrary::{Arbitrary, Result, Unstructured};
use std::collections::BTreeMap;

/// Topics that a scenario has.
const TOPICS: u8 = 6;
/// Those that may be followed at once.
const MAX: usize = 4;

/// What a client follows, and what becomes of that.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What happens.
    pub steps: Vec<Step<Op>>,
}

/// Something that happens.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Op {
    /// The clock changes.
    Tick(Tick),
    /// A topic is followed.
    Follow(#[arbitrary(with = topic)] u8),
    /// It is followed no longer.
    Unfollow(#[arbitrary(with = topic)] u8),
    /// It changes.
    Change(#[arbitrary(with = topic)] u8),
    /// The server ends it.
    Close,
}

impl<'a> Arbitrary<'a> for Scenario {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self { steps: draw::steps(u, 100)? })
    }
}

fn topic(u: &mut Unstructured<'_>) -> Result<u8> {
    u.int_in_range(0..=TOPICS - 1)
}

impl Machine for Changes<u8> {
    type Output = Output<u8>;

    fn poll_output(&mut self, now: Time) -> Output<u8> {
        self.poll_output(now)
    }

    fn sort(output: &Output<u8>) -> Sort {
        match output {
            Output::Changed(_) => Sort::Act,
            Output::Closed => Sort::Closed,
            Output::Wait(at) => Sort::Wait(*at),
        }
    }

    fn close(&mut self) {
        self.close();
    }

    fn disturb(&mut self) {
        assert!(!self.follow(0));
        assert!(!self.unfollow(&0));
        self.handle_change(&0);
    }

    fn check_bounds(&self) {
        assert!(self.len() <= MAX);
    }
}

/// What a client knows of a topic that it follows.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    told: Option<Time>,
    /// Whether it changed since.
    changed: bool,
}

impl Known {
    /// When it is to be told, if it is.
    fn due(self) -> Option<Time> {
        self.changed.then(|| self.told.map_or(Time::ZERO, |told| told + INTERVAL))
    }
}

/// What is true, from all that happened.
#[derive(Default)]
struct Model {
    topics: BTreeMap<u8, Known>,
    closing: bool,
    closed: bool,
}

impl Model {
    /// The earliest of what is to be told.
    fn next(&self) -> Option<Time> {
        self.topics.values().filter_map(|known| known.due()).min()
    }

    fn check(&mut self, output: &Output<u8>, seen: Time) {
        match output {
            Output::Changed(topic) => {
                let next = self.next();
                let known = self.topics.get_mut(topic).expect("only what is followed is told");
                assert!(known.changed, "{topic} is told at {seen:?} without a change");
                assert_eq!(known.due(), next, "{topic} is told before its turn");
                assert!(self.closing || next <= Some(seen), "{topic} is told too early");
                *known = Known { told: Some(seen), changed: false };
            }
            Output::Closed => {
                assert!(self.closing && self.next().is_none(), "closed, and {:?}", self.topics);
                self.closed = true;
            }
            Output::Wait(at) => {
                assert!(!self.closing || self.closed, "it is to close");
                assert_eq!(*at, self.next().filter(|_| !self.closed));
                assert!(at.is_none_or(|at| at > seen));
            }
        }
    }
}

/// Runs a scenario: each change is told, in its turn and not too soon, and nothing else is.
pub fn run(scenario: &Scenario) {
    Contract::run_twice(|steady| drive(scenario, steady));
}

fn drive(scenario: &Scenario, steady: bool) -> Vec<Output<u8>> {
    let mut clock = Clock::new();
    let mut contract = Contract::new(clock.now, steady);
    let mut changes = Changes::new(MAX, clock.now);
    let mut model = Model::default();
    let mut outputs = Vec::new();
    for Step { op, polls } in &scenario.steps {
        match op {
            Op::Tick(tick) => clock.tick(*tick),
            Op::Follow(topic) => {
                let may = model.topics.contains_key(topic) || model.topics.len() < MAX;
                assert_eq!(changes.follow(*topic), may && !model.closing);
                if may && !model.closing {
                    model.topics.entry(*topic).or_default();
                }
            }
            Op::Unfollow(topic) => {
                let followed = !model.closing && model.topics.remove(topic).is_some();
                assert_eq!(changes.unfollow(topic), followed);
            }
            Op::Change(topic) => {
                changes.handle_change(topic);
                if let Some(known) = model.topics.get_mut(topic).filter(|_| !model.closing) {
                    known.changed = true;
                }
            }
            Op::Close => {
                changes.close();
                model.closing = true;
            }
        }
        let followed = if model.closing { 0 } else { model.topics.len() };
        assert_eq!((changes.len(), changes.is_empty()), (followed, followed == 0));
        for _ in 0..*polls {
            let output = contract.poll(&mut changes, clock.now);
            model.check(&output, contract.time(clock.now));
            outputs.push(output.clone());
            if let Output::Wait(at) = output {
                clock.asked = at;
                break;
            }
        }
    }
    model.closing = true;
    let seen = contract.time(clock.now);
    contract.finish(&mut changes, clock.now, |_, output| {
        model.check(&output, seen);
        outputs.push(output);
    });
    assert!(model.closed);
    outputs
}
