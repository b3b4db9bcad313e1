//! A watch against a file system of which everything is known: the picture that a reader has, made of the events alone, is
//! what is there, whenever all was told.

mod disk;
mod history;
mod run;

use super::{Step, Tick, draw};
use crate::watch::Config;
use arbitrary::{Arbitrary, Result, Unstructured};
use disk::Name;
use std::time::Duration;

pub use history::{Scenario as HistoryScenario, run as run_history};
pub use run::run;

/// A directory that is watched while its contents change.
#[derive(Clone, Debug)]
pub struct Scenario {
    config: Config,
    /// Notices that the system keeps.
    max_queued: usize,
    /// What happens before the watch begins.
    before: Vec<Change>,
    steps: Vec<Step<Op>>,
}

/// A change of the file system. A thing is named by its place in the list of all there are then.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Change {
    Make {
        dir: u8,
        #[arbitrary(with = name)]
        name: Name,
        is_dir: bool,
    },
    /// `mkdir -p a/b && echo > a/b/c`.
    Deep {
        dir: u8,
        #[arbitrary(with = name)]
        first: Name,
        #[arbitrary(with = name)]
        second: Name,
    },
    Write(u8),
    Chmod(u8),
    Remove(u8),
    Rename {
        thing: u8,
        to: u8,
        #[arbitrary(with = name)]
        name: Name,
    },
    RenameAgain {
        thing: u8,
        to: u8,
        #[arbitrary(with = name)]
        name: Name,
    },
    Exchange {
        one: u8,
        other: u8,
    },
}

/// Something that happens.
#[derive(Clone, Debug)]
enum Op {
    Change(Change),
    /// As many notices are handed in.
    Deliver(u8),
    /// What was asked for is done.
    Act,
    /// All notices are handed in, and that is said.
    Drain,
    /// Everything comes to rest.
    Settle,
    Tick(Tick),
    Retell,
    /// The watched directory is removed, or moved away.
    TakeRoot {
        is_removed: bool,
    },
    Close,
}

fn name(u: &mut Unstructured<'_>) -> Result<Name> {
    Ok(*u.choose(&["a", "b", "c", "a", "b", "d", "e", disk::SECRET])?)
}

impl<'a> Arbitrary<'a> for Op {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(match u.int_in_range(0..=63u8)? {
            0..=33 => Self::Change(u.arbitrary()?),
            34..=41 => Self::Deliver(u.int_in_range(1..=4)?),
            42..=49 => Self::Act,
            50..=55 => Self::Drain,
            56..=58 => Self::Settle,
            59..=60 => Self::Tick(u.arbitrary()?),
            61 => Self::Retell,
            62 => Self::TakeRoot { is_removed: u.arbitrary()? },
            _ => {
                if u.ratio(1, 4u8)? {
                    Self::Close
                } else {
                    Self::Act
                }
            }
        })
    }
}

impl<'a> Arbitrary<'a> for Scenario {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let config = Config {
            recursive: u.ratio(7, 8u8)?,
            tells_existing: u.arbitrary()?,
            max_held: *u.choose(&[1_000, 1_000, 4, 20])?,
            max_directories: *u.choose(&[1_000, 1_000, 1_000, 8])?,
            rename_wait: Duration::from_millis(*u.choose(&[5, 0])?),
        };
        let max_queued = *u.choose(&[1_000, 1_000, 4, 12])?;
        let before = (0..u.int_in_range(0..=6u8)?).map(|_| u.arbitrary()).collect::<Result<_>>()?;
        Ok(Self { config, max_queued, before, steps: draw::steps(u, 120)? })
    }
}
