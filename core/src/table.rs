//! Background processes by owner, place, id and name: who may find which, how many may run, and how long what they
//! printed is kept once they have ended.

use std::collections::BTreeMap;

/// What is kept at the most.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// Processes that run, for each owner.
    pub max_running: usize,
    /// Processes that have ended, for each owner: past it the one that ended first is forgotten.
    pub max_ended: usize,
    /// Bytes of output of all processes that have ended: past it those that ended first lose theirs.
    pub max_ended_bytes: u64,
}

/// A table of processes; `T` is what the shell knows of each.
#[derive(Debug)]
pub struct Table<T> {
    config: Config,
    /// By id. Ids grow with time, so the last is the newest.
    entries: BTreeMap<String, Entry<T>>,
    /// Ids in the order in which they ended.
    ended: Vec<String>,
    /// Places that are held, by owner.
    reserved: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Entry<T> {
    key: Key,
    /// None while it runs.
    ended_bytes: Option<u64>,
    value: T,
}

/// What a process is found by, beside its id.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Key {
    /// Whose it is.
    pub owner: String,
    /// The id of its sandbox.
    pub place: String,
    /// Its name. Several may have the same.
    pub name: Option<String>,
}

/// The owner has as many running processes as one may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("this token has {0} background processes running, as many as one token may have")]
pub struct TooMany(pub usize);

/// What follows from the end of a process.
#[derive(Debug, Eq, PartialEq)]
pub struct Ended<T> {
    /// These lose what they printed, and stay listed.
    pub emptied: Vec<T>,
    /// These are forgotten.
    pub forgotten: Vec<T>,
}

impl<T: Clone> Table<T> {
    /// An empty table.
    pub const fn new(config: Config) -> Self {
        Self { config, entries: BTreeMap::new(), ended: Vec::new(), reserved: BTreeMap::new() }
    }

    /// Holds a place for one more of this owner's that runs, while it is being started.
    pub fn reserve(&mut self, owner: &str) -> Result<(), TooMany> {
        let running = self.running(owner);
        if running >= self.config.max_running {
            return Err(TooMany(running));
        }
        self.reserve_more(owner);
        Ok(())
    }

    /// The same also where all are taken: for what runs already.
    pub fn reserve_more(&mut self, owner: &str) {
        *self.reserved.entry(owner.to_owned()).or_default() += 1;
    }

    /// Holds a place for what is to take that of the process `id` of this owner's: also where all are taken, as long as
    /// that one has its own.
    pub fn reserve_for(&mut self, owner: &str, id: &str) -> Result<(), TooMany> {
        if self.entries.get(id).is_none_or(|entry| entry.ended_bytes.is_some()) {
            return self.reserve(owner);
        }
        self.reserve_more(owner);
        Ok(())
    }

    /// Gives a place back that was held.
    pub fn release(&mut self, owner: &str) {
        if let Some(reserved) = self.reserved.get_mut(owner) {
            *reserved = reserved.saturating_sub(1);
            if *reserved == 0 {
                self.reserved.remove(owner);
            }
        }
    }

    /// Enters a process that was started, in the place that was held for it.
    pub fn insert(&mut self, id: String, key: Key, value: T) {
        self.release(&key.owner);
        self.entries.insert(id, Entry { key, ended_bytes: None, value });
    }

    /// It ended, and `bytes` of its output are kept.
    pub fn handle_ended(&mut self, id: &str, bytes: u64) -> Ended<T> {
        let mut result = Ended { emptied: Vec::new(), forgotten: Vec::new() };
        let Some(entry) = self.entries.get_mut(id).filter(|entry| entry.ended_bytes.is_none()) else {
            return result;
        };
        entry.ended_bytes = Some(bytes);
        let owner = entry.key.owner.clone();
        self.ended.push(id.to_owned());
        let of_owner = |id: &&String| self.entries.get(*id).is_some_and(|entry| entry.key.owner == owner);
        if self.ended.iter().filter(of_owner).count() > self.config.max_ended
            && let Some(first) = self.ended.iter().find(of_owner).cloned()
        {
            result.forgotten.extend(self.forget(&first));
        }
        let mut total: u64 = self.entries.values().filter_map(|entry| entry.ended_bytes).sum();
        for id in &self.ended {
            if total <= self.config.max_ended_bytes {
                break;
            }
            if let Some(Entry { ended_bytes: Some(bytes @ 1..), value, .. }) = self.entries.get_mut(id) {
                total -= std::mem::take(bytes);
                result.emptied.push(value.clone());
            }
        }
        result
    }

    /// Takes it out.
    pub fn forget(&mut self, id: &str) -> Option<T> {
        self.ended.retain(|ended| ended != id);
        self.entries.remove(id).map(|entry| entry.value)
    }

    /// The one of this owner in this place with this id, or the newest with this name.
    pub fn find(&self, owner: &str, place: &str, reference: &str) -> Option<&T> {
        let own = |entry: &&Entry<T>| entry.key.owner == owner && entry.key.place == place;
        let by_id = self.entries.get(reference).filter(own);
        let by_name = || {
            let named = |entry: &&Entry<T>| entry.key.name.as_deref() == Some(reference);
            self.entries.values().rev().filter(own).find(named)
        };
        by_id.or_else(by_name).map(|entry| &entry.value)
    }

    /// Those of this owner in this place, oldest first.
    pub fn list(&self, owner: &str, place: &str) -> impl Iterator<Item = &T> {
        let own = move |entry: &&Entry<T>| entry.key.owner == owner && entry.key.place == place;
        self.entries.values().filter(own).map(|entry| &entry.value)
    }

    /// Those that run, with whose they are.
    pub fn all_running(&self) -> impl Iterator<Item = (&Key, &T)> {
        self.entries
            .values()
            .filter(|entry| entry.ended_bytes.is_none())
            .map(|entry| (&entry.key, &entry.value))
    }

    /// How many of this owner's run, or are being started.
    pub fn running(&self, owner: &str) -> usize {
        let reserved = self.reserved.get(owner).copied().unwrap_or_default();
        reserved + self.all_running().filter(|(key, _)| key.owner == owner).count()
    }

    /// How many there are, running or not.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: Config = Config { max_running: 2, max_ended: 2, max_ended_bytes: 10 };

    fn key(owner: &str, name: Option<&str>) -> Key {
        Key { owner: owner.into(), place: "box".into(), name: name.map(str::to_owned) }
    }

    #[test]
    fn an_owner_finds_its_own_by_id_and_the_newest_by_name() {
        let mut table = Table::new(CONFIG);
        table.insert("01A".into(), key("me", Some("dev")), 1);
        table.insert("01B".into(), key("me", Some("dev")), 2);
        table.insert("01C".into(), key("you", Some("dev")), 3);
        let find = |owner, place, reference| table.find(owner, place, reference).copied();
        assert_eq!((find("me", "box", "01A"), find("me", "box", "dev")), (Some(1), Some(2)));
        assert_eq!((find("me", "box", "01C"), find("me", "other", "01A")), (None, None));
        assert_eq!((find("you", "box", "dev"), find("you", "box", "01A")), (Some(3), None));
        assert_eq!(table.list("me", "box").copied().collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn as_many_run_as_may_and_no_more() {
        let mut table = Table::new(CONFIG);
        let start = |table: &mut Table<u32>, id: &str, owner: &str| {
            table.reserve(owner)?;
            table.insert(id.into(), key(owner, None), 0);
            Ok(())
        };
        assert_eq!(start(&mut table, "01A", "me"), Ok(()));
        // One that is being started counts, until it is given up.
        assert_eq!((table.reserve("me"), table.running("me")), (Ok(()), 2));
        assert_eq!((table.reserve("me"), start(&mut table, "01D", "you")), (Err(TooMany(2)), Ok(())));
        table.release("me");
        assert_eq!(start(&mut table, "01B", "me"), Ok(()));
        assert_eq!((start(&mut table, "01C", "me"), table.running("me")), (Err(TooMany(2)), 2));
        assert_eq!(table.handle_ended("01A", 0), Ended { emptied: vec![], forgotten: vec![] });
        assert_eq!((start(&mut table, "01E", "me"), table.running("me")), (Ok(()), 2));
        // What takes the place of another is held one of its own meanwhile; of one that has ended there is none to take.
        assert_eq!((table.reserve_for("me", "01B"), table.running("me")), (Ok(()), 3));
        table.handle_ended("01B", 0);
        table.insert("01F".into(), key("me", None), 0);
        assert_eq!((table.reserve_for("me", "01B"), table.running("me")), (Err(TooMany(2)), 2));
    }

    #[test]
    fn what_ended_first_loses_its_output_and_is_forgotten_first() {
        let mut table = Table::new(CONFIG);
        let mut end = |id: &str, owner: &str, bytes| {
            table.insert(id.into(), key(owner, None), id.to_owned());
            let Ended { emptied, forgotten } = table.handle_ended(id, bytes);
            (emptied.join(" "), forgotten.join(" "))
        };
        let told = |emptied: &str, forgotten: &str| (emptied.to_owned(), forgotten.to_owned());
        assert_eq!(end("01A", "me", 4), told("", ""));
        assert_eq!(end("01B", "me", 4), told("", ""));
        assert_eq!(end("01C", "you", 4), told("01A", ""));
        assert_eq!(end("01D", "me", 4), told("01B", "01A"));
        assert_eq!(end("01E", "you", 40), told("01C 01D 01E", ""));
        assert_eq!(table.len(), 4);
        assert_eq!((table.forget("01B").as_deref(), table.forget("01B")), (Some("01B"), None));
    }
}
