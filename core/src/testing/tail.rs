//! The tail against the whole of what went through it.

use super::draw;
use crate::tail::Tail;
use arbitrary::{Arbitrary, Result, Unstructured};

/// A tail and what goes through it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Bytes that are kept.
    pub max: usize,
    /// Pieces of output.
    pub pieces: Vec<Vec<u8>>,
}

impl<'a> Arbitrary<'a> for Scenario {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let max = draw::size(u)?;
        let mut pieces = Vec::new();
        while !u.is_empty() && pieces.len() < 40 {
            pieces.push(draw::output(u)?);
        }
        Ok(Self { max, pieces })
    }
}

/// Runs a scenario: what is kept is the end of the whole, and as text the end of the whole text.
pub fn run(scenario: &Scenario) {
    let mut tail = Tail::new(scenario.max);
    let mut all = Vec::new();
    for piece in &scenario.pieces {
        tail.push(piece);
        all.extend_from_slice(piece);
        let kept = &all[all.len().saturating_sub(scenario.max)..];
        assert_eq!(tail.clone().into_bytes(), kept);
        assert_eq!((tail.len(), tail.is_empty()), (kept.len(), kept.is_empty()));
        assert_eq!(tail.is_truncated(), all.len() > scenario.max);
    }
    check_text(&tail.into_text(), &all, scenario.max);
}

/// `text` is the end of `all` as text, from the last `max` bytes of it: without what is left of a character whose
/// beginning is gone, which is at most three bytes that cannot begin one.
pub(super) fn check_text(text: &str, all: &[u8], max: usize) {
    assert!(String::from_utf8_lossy(all).ends_with(text), "not the end of the whole text: {text:?}");
    let mut kept = &all[all.len().saturating_sub(max)..];
    for _ in 0..3 {
        if all.len() > max && matches!(kept.first(), Some(0x80..=0xBF)) {
            kept = &kept[1..];
        }
    }
    assert_eq!(text, String::from_utf8_lossy(kept), "the end of the text");
}
