//! The streams that are open, by what they are looked for.

use super::Entry;
use std::{collections::BTreeMap, sync::Arc};

/// Whoever looks for some again and again finds them without going through all: of ten thousand that are quiet, each is
/// memory that has gone cold.
#[derive(Debug, Default)]
pub(super) struct Table {
    by_id: BTreeMap<String, Arc<Entry>>,
    /// Those that only follow, by the connection that carries them. It carries one at a time.
    following: BTreeMap<u64, Arc<Entry>>,
}

impl Table {
    pub(super) fn insert(&mut self, entry: &Arc<Entry>) {
        self.by_id.insert(entry.id.clone(), Arc::clone(entry));
        if let Some(connection) = entry.follows_by() {
            self.following.insert(connection, Arc::clone(entry));
        }
    }

    pub(super) fn remove(&mut self, entry: &Arc<Entry>) {
        self.by_id.remove(&entry.id);
        if let Some(connection) = entry.follows_by()
            && self.following.get(&connection).is_some_and(|other| Arc::ptr_eq(other, entry))
        {
            self.following.remove(&connection);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.by_id.values()
    }

    /// Whether a stream that only follows is open.
    pub(super) fn any_follows(&self) -> bool {
        !self.following.is_empty()
    }

    /// The stream that follows by this connection.
    pub(super) fn following(&self, connection: u64) -> Option<&Arc<Entry>> {
        self.following.get(&connection)
    }
}
