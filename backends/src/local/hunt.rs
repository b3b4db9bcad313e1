//! When a sweep is over: once a look has found nobody who lives, not when all that was found was signalled.

use super::members::{Identity, Snapshot, signal};
use rustix::process::Signal;
use std::collections::BTreeSet;

/// What a sweep knows of the looks before.
#[derive(Debug, Default)]
pub(super) struct Hunt {
    signalled: BTreeSet<Identity>,
    empty: u32,
}

/// So many looks in a row that find nothing end a sweep, where others start processes all the time.
const EMPTY_LOOKS: u32 = 3;

/// What a look of a sweep says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Look {
    /// Nothing is left.
    Over,
    /// There is somebody new, or may be: it may have a child before the next look.
    AtOnce,
    /// Who was signalled before is still there.
    Later,
}

impl Hunt {
    /// `found`: all that lives. Who cannot be signalled any more has ended since, perhaps with a child that nobody saw:
    /// it counts as found.
    pub(super) fn look(&mut self, snapshot: &Snapshot, found: &[Identity]) -> Look {
        self.empty = if found.is_empty() { self.empty + 1 } else { 0 };
        if found.is_empty() && (snapshot.is_settled || self.empty == EMPTY_LOOKS) {
            return Look::Over;
        }
        for identity in found {
            signal(*identity, None, &[Signal::KILL]);
        }
        let before = self.signalled.len();
        self.signalled.extend(found);
        if found.is_empty() || self.signalled.len() > before { Look::AtOnce } else { Look::Later }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_ends_when_nobody_was_found() {
        let nobody = |is_settled| {
            let mut snapshot = Snapshot::of(vec![]);
            snapshot.is_settled = is_settled;
            snapshot
        };
        let mut hunt = Hunt::default();
        // It cannot be signalled: it ended since it was found, and what it may have left is looked for.
        let ended = [Identity { pid: 0, start_time: 0 }];
        assert_eq!(hunt.look(&nobody(true), &ended), Look::AtOnce);
        assert_eq!(hunt.look(&nobody(true), &ended), Look::Later);
        assert_eq!(hunt.look(&nobody(true), &[]), Look::Over);
        let mut hunt = Hunt::default();
        assert_eq!(hunt.look(&nobody(false), &[]), Look::AtOnce);
        assert_eq!(hunt.look(&nobody(false), &ended), Look::AtOnce);
        let looks = [(); 3].map(|()| hunt.look(&nobody(false), &[]));
        assert_eq!(looks, [Look::AtOnce, Look::AtOnce, Look::Over]);
    }
}
