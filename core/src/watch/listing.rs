//! The directory that is being listed: its names, between the time that it was armed and the time that all of them were
//! told.

use super::{Dir, Entry};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) dir: Dir,
    /// What was listed and is not told yet.
    entries: VecDeque<Entry>,
    pub(super) is_all: bool,
    /// What notices told of it since it was armed, and what was told of the listing: whether it is there.
    known: BTreeMap<Bytes, bool>,
    /// More was told than `known` holds: what it does not know may have been told.
    forgot: bool,
    max: usize,
}

impl Listing {
    pub(super) const fn new(dir: Dir, max: usize) -> Self {
        Self { dir, entries: VecDeque::new(), is_all: false, known: BTreeMap::new(), forgot: false, max }
    }

    pub(super) fn add(&mut self, entries: Vec<Entry>, is_all: bool) {
        self.entries.extend(entries);
        self.is_all = is_all;
    }

    /// Names that it holds.
    pub(super) fn len(&self) -> usize {
        self.entries.len() + self.known.len()
    }

    /// Notices told of more names than may be held.
    pub(super) fn is_full(&self) -> bool {
        self.known.len() > self.max
    }

    /// Whether the reader has been told that this is there.
    pub(super) fn was_told(&self, name: &Bytes) -> bool {
        self.known.get(name).copied().unwrap_or(self.forgot)
    }

    /// Whether a notice told of it, or it was told.
    pub(super) fn knows(&self, name: &Bytes) -> bool {
        self.known.contains_key(name)
    }

    /// A notice says that this is there now, or that it is not.
    pub(super) fn set(&mut self, name: Bytes, is_there: bool) {
        self.known.insert(name, is_there);
    }

    /// The next one to tell.
    pub(super) fn next(&mut self) -> Option<Entry> {
        while let Some(entry) = self.entries.pop_front() {
            if self.known.contains_key(&entry.name) {
                continue;
            }
            if self.known.len() < self.max {
                self.known.insert(entry.name.clone(), true);
            } else {
                self.forgot = true;
            }
            return Some(entry);
        }
        None
    }
}
