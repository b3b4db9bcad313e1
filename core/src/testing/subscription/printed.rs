//! All that a process printed, and what a frame has to be of it.

use super::super::log;
use crate::log::{Channel, Frame};
use std::collections::{BTreeMap, BTreeSet};

/// What was printed.
#[derive(Default)]
pub(super) struct Printed {
    /// The channels, by the first byte of what was printed at once.
    pub(super) channels: BTreeMap<u64, Channel>,
    pub(super) end: u64,
    /// Where frames end that somebody took.
    pub(super) ends: BTreeSet<u64>,
}

impl Printed {
    pub(super) fn check(&mut self, frame: &Frame) {
        assert!(frame.end() <= self.end && !frame.data.is_empty(), "more than was printed");
        assert_eq!(frame.data, log::bytes(frame.offset, frame.data.len()), "the bytes at {}", frame.offset);
        let first = self.channels.range(..=frame.offset).next_back().map(|(at, _)| *at).unwrap_or_default();
        let channels: Vec<_> = self.channels.range(first..frame.end()).map(|(_, channel)| *channel).collect();
        assert!(channels.iter().all(|channel| *channel == frame.channel), "{channels:?} of {frame:?}");
        self.ends.insert(frame.end());
    }
}
