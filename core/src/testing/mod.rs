//! The contract of every machine, a small model of each, and the scenarios that drive both.
//!
//! A scenario is drawn from bytes ([`Arbitrary`]): proptest draws the bytes in this crate's tests, libFuzzer in the
//! targets of `fuzz/`. So both run the same code, what one finds is an input of the other, and the fuzzer's corpus
//! is replayed as a plain test. `run(&scenario)` of each module panics, and says why, when the machine departs from
//! the contract or from its model.
//!
//! A model says what has to be true, in the terms of who uses the machine: facts and whole outputs instead of
//! states. It may be slow and it may keep everything.

pub mod attach;
pub mod changes;
mod clock;
pub mod connect;
mod contract;
pub mod control;
pub mod detached;
mod draw;
pub mod envd;
pub mod exec;
pub mod limits;
pub mod listen;
pub mod log;
pub mod mcp;
pub mod pace;
pub mod process;
pub mod sse;
pub mod subscription;
pub mod tail;
pub mod text;
pub mod watch;

use arbitrary::{Arbitrary, Unstructured};
use std::fmt::Debug;

pub use clock::{Clock, Tick};
pub use contract::{Contract, Machine, Sort};

/// Draws a scenario. None where the bytes are too few for one.
pub fn scenario<'a, S: Arbitrary<'a>>(bytes: &'a [u8]) -> Option<S> {
    S::arbitrary(&mut Unstructured::new(bytes)).ok()
}

/// Draws a scenario and runs it: what a fuzz target and the replay of its corpus do. Where it panics the scenario is
/// shown.
pub fn run<'a, S: Arbitrary<'a> + Debug>(bytes: &'a [u8], run: impl FnOnce(&S)) {
    struct Shown<S: Debug>(S);
    impl<S: Debug> Drop for Shown<S> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("{:#?}", self.0);
            }
        }
    }
    if let Some(scenario) = scenario(bytes) {
        let shown = Shown(scenario);
        run(&shown.0);
    }
}

/// Something that happens to a machine, and how often its shell polls after it: a full socket or a busy driver does
/// not poll until `Wait`.
#[derive(Arbitrary, Clone, Debug)]
pub struct Step<Op> {
    /// What happens.
    pub op: Op,
    /// How often the shell polls then.
    #[arbitrary(with = draw::polls)]
    pub polls: usize,
}
