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
    /// How many each token has.
    by_token: BTreeMap<String, usize>,
}

impl Table {
    pub(super) fn insert(&mut self, entry: &Arc<Entry>) {
        self.by_id.insert(entry.id.clone(), Arc::clone(entry));
        *self.by_token.entry(entry.token.clone()).or_default() += 1;
        if let Some(connection) = entry.follows_by() {
            self.following.insert(connection, Arc::clone(entry));
        }
    }

    pub(super) fn remove(&mut self, entry: &Arc<Entry>) {
        if self.by_id.remove(&entry.id).is_none() {
            return;
        }
        if let Some(streams) = self.by_token.get_mut(&entry.token) {
            *streams -= 1;
            if *streams == 0 {
                self.by_token.remove(&entry.token);
            }
        }
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

    /// The tokens of all.
    pub(super) fn tokens(&self) -> impl Iterator<Item = &String> {
        self.by_token.keys()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn entry(id: &str, token: &str) -> Arc<Entry> {
        Arc::new(Entry {
            id: id.to_owned(),
            token: token.to_owned(),
            sandbox: "box".to_owned(),
            command: None,
            place: None,
            connection: None,
            asked: Mutex::default(),
        })
    }

    #[test]
    fn a_token_is_there_while_it_has_a_stream() {
        let (mut table, one, two) = (Table::default(), entry("1", "a"), entry("2", "a"));
        let other = entry("3", "b");
        [&one, &two, &other].into_iter().for_each(|entry| table.insert(entry));
        table.remove(&one);
        table.remove(&one);
        assert_eq!((table.len(), table.contains("1"), table.contains("2")), (2, false, true));
        assert!(table.tokens().eq(["a", "b"]));
        table.remove(&two);
        assert!(table.tokens().eq(["b"]));
        assert!(table.all().all(|entry| entry.id() == "3") && !table.any_follows());
    }
}
