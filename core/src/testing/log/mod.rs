//! A log and its readers against the numbers of the bytes.
//!
//! Each byte that is printed is a function of its offset, so what a reader gets says where it came from.

mod model;

use self::model::Model;
use super::draw;
use crate::log::{Channel, FRAME_MAX, Log, Retention};
use arbitrary::{Arbitrary, Result, Unstructured};

/// A log and what happens to it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it keeps.
    pub retention: Retention,
    /// Bytes of it that readers who come are given.
    pub replay: u64,
    /// What happens.
    pub ops: Vec<Op>,
}

/// What happens to a log.
#[derive(Arbitrary, Clone, Debug)]
pub enum Op {
    /// The process prints.
    Print(#[arbitrary(with = draw::channel)] Channel, #[arbitrary(with = draw::size)] usize),
    /// It prints a byte on each of two channels, this many times: a frame for each byte.
    Alternate(#[arbitrary(with = draw::size)] usize),
    /// A reader takes, this many times.
    Take(u8, #[arbitrary(with = draw::polls)] usize),
    /// A reader comes, at the oldest byte. Where only one may be, it takes the place of the other.
    Oldest,
    /// A reader comes, at a byte that there is or was, or a little ahead.
    At(u16),
    /// A reader comes, at most this far from the newest byte.
    Near(#[arbitrary(with = draw::size)] usize),
    /// A reader comes, after a frame that there is or was, or the one after the newest.
    After(u8),
    /// A reader comes, after the newest byte.
    Newest,
    /// A reader comes for the last lines, so many bytes at the most.
    Tail(u8, #[arbitrary(with = draw::size)] usize),
    /// A reader comes, at the oldest byte that is kept, whatever is replayed.
    OldestKept,
    /// What ends at most this far from the newest byte is dropped.
    Forget(#[arbitrary(with = draw::size)] usize),
    /// It prints a frame.
    Frame(#[arbitrary(with = draw::channel)] Channel, #[arbitrary(with = draw::size)] usize),
    /// So many bytes, in so many frames, are lost on their way.
    Skip(#[arbitrary(with = draw::size)] usize, u8, bool),
    /// Something that happens once in the life of a log.
    Rare(#[arbitrary(with = rare)] Rare),
}

/// What happens once, if at all.
#[derive(Clone, Copy, Debug)]
pub enum Rare {
    /// Nothing does.
    Nothing,
    /// Nothing more will come.
    End,
    /// Nobody will read.
    Abandon,
}

fn rare(u: &mut Unstructured<'_>) -> Result<Rare> {
    use Rare::{Abandon, End, Nothing};
    Ok(*u.choose(&[Nothing, Nothing, Nothing, Nothing, Nothing, End, End, Abandon])?)
}

impl<'a> Arbitrary<'a> for Scenario {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let retention = draw::retention(u)?;
        let replay = if u.ratio(2, 3u8)? { u64::MAX } else { draw::size(u)? as u64 };
        Ok(Self { retention, replay, ops: draw::steps(u, 80)? })
    }
}

/// The byte at an offset.
pub(super) const fn byte(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// The bytes from an offset on.
pub(super) fn bytes(from: u64, len: usize) -> Vec<u8> {
    (from..from + len as u64).map(byte).collect()
}

/// Runs a scenario, and then lets every reader read to the end.
pub fn run(scenario: &Scenario) {
    let mut model = Model::new(scenario);
    for op in &scenario.ops {
        model.apply(op);
        model.check();
    }
    model.end();
    model.read_out();
}

/// Rule 7 for a log.
pub(super) fn check_bounds(log: &Log, retention: Retention) {
    let most = match retention {
        Retention::Ring { bytes } => bytes + FRAME_MAX,
        Retention::UntilRead { bytes } => bytes,
    };
    assert!(log.held() <= most, "rule 7: {} bytes are held by {retention:?}", log.held());
    let frames = log.held_frames();
    assert!(frames <= retention.max_frames(), "rule 7: {frames} frames are held by {retention:?}");
}
