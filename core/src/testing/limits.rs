//! The limits against a plain list of what is open.

use crate::limits::{Exceeded, Lease, Limits};
use arbitrary::{Arbitrary, Result, Unstructured};
use std::collections::BTreeSet;

/// Limits and what is asked of them.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Open for one token.
    pub max_per_token: usize,
    /// Open in all.
    pub max_total: usize,
    /// What happens.
    pub ops: Vec<Op>,
}

/// What happens to the limits.
#[derive(Arbitrary, Clone, Debug)]
pub enum Op {
    /// A token asks for one more.
    Acquire(#[arbitrary(with = token)] u8),
    /// One of those that are open ends.
    GiveBack(u8),
}

impl<'a> Arbitrary<'a> for Scenario {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self {
            max_per_token: u.int_in_range(0..=4u8)?.into(),
            max_total: u.int_in_range(0..=8u8)?.into(),
            ops: super::draw::steps(u, 100)?,
        })
    }
}

fn token(u: &mut Unstructured<'_>) -> Result<u8> {
    u.int_in_range(0..=3)
}

/// Runs a scenario: a lease is refused exactly when a limit is reached, and nothing is kept of who holds none.
pub fn run(scenario: &Scenario) {
    let mut limits = Limits::new(scenario.max_per_token, scenario.max_total);
    let mut open: Vec<(u8, Lease<u8>)> = Vec::new();
    for op in &scenario.ops {
        match *op {
            Op::Acquire(token) => {
                let own = open.iter().filter(|(holder, _)| *holder == token).count();
                let expected = if own >= scenario.max_per_token {
                    Err(Exceeded::Token(own))
                } else if open.len() >= scenario.max_total {
                    Err(Exceeded::Total(open.len()))
                } else {
                    Ok(())
                };
                let lease = limits.acquire(token);
                assert_eq!(lease.as_ref().map(|_| ()).map_err(|error| *error), expected, "asked by {token}");
                open.extend(lease.map(|lease| (token, lease)));
            }
            Op::GiveBack(index) if !open.is_empty() => {
                let (_, lease) = open.swap_remove(usize::from(index) % open.len());
                limits.give_back(lease);
            }
            Op::GiveBack(_) => {}
        }
        check(&limits, &open);
    }
    while let Some((_, lease)) = open.pop() {
        limits.give_back(lease);
        check(&limits, &open);
    }
}

fn check(limits: &Limits<u8>, open: &[(u8, Lease<u8>)]) {
    assert_eq!(limits.total(), open.len(), "open in all");
    for token in 0..=3 {
        let held = open.iter().filter(|(holder, _)| *holder == token).count();
        assert_eq!(limits.held_by(&token), held, "open for {token}");
    }
    let holders: BTreeSet<u8> = open.iter().map(|(holder, _)| *holder).collect();
    assert_eq!(limits.tokens(), holders.len(), "tokens that are kept");
}
