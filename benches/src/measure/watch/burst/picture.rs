//! What a client knows of a directory by what it was told, as docs/watches.md says how it is kept.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::super::{Told, Watches, told::told};
use crate::{measure::sink::Lines, wire::Sink};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Picture {
    lines: Lines,
    directory: PathBuf,
    names: BTreeSet<String>,
    ready: bool,
    told: u64,
    overflows: u64,
}

impl Picture {
    /// Of an empty directory.
    pub(super) fn new(directory: &Path) -> Self {
        let directory = directory.to_owned();
        Self { lines: Lines::new(), directory, names: BTreeSet::new(), ready: false, told: 0, overflows: 0 }
    }

    /// Events that were told.
    pub(super) const fn told(&self) -> u64 {
        self.told
    }

    /// How often it was told that changes were lost.
    pub(super) const fn overflows(&self) -> u64 {
        self.overflows
    }

    /// How many names it lacks of those that are `there`, and has that are not.
    pub(super) fn wrong(&self, there: &BTreeSet<String>) -> usize {
        self.names.symmetric_difference(there).count()
    }
}

/// Takes out what has a name, or is below what has it.
fn take(names: &mut BTreeSet<String>, name: &str) -> Vec<String> {
    let below = format!("{name}/");
    let found = names.range(below.clone()..).take_while(|other| other.starts_with(&below));
    let mut taken: Vec<_> = found.cloned().collect();
    taken.extend(names.get(name).cloned());
    for name in &taken {
        names.remove(name);
    }
    taken
}

impl Watches for Picture {
    fn is_ready(&self) -> bool {
        self.ready
    }
}

impl Sink for Picture {
    fn payload(&mut self, _at_ns: u64, bytes: &[u8]) {
        let Self { lines, directory, names, ready, told: count, overflows } = self;
        lines.feed(bytes, |line| {
            let Some(told) = told(line, directory) else { return };
            *count += u64::from(told != Told::Ready);
            match told {
                Told::Ready => *ready = true,
                Told::Overflow => {
                    *overflows += 1;
                    names.clear();
                }
                Told::Created(name) => {
                    take(names, name);
                    names.insert(name.to_owned());
                }
                Told::Removed(name) => drop(take(names, name)),
                Told::Renamed { name, from } => {
                    take(names, name);
                    let renamed = |before: String| format!("{name}{}", &before[from.len()..]);
                    let moved = take(names, from).into_iter().map(renamed).collect::<Vec<_>>();
                    names.extend(moved.into_iter().chain([name.to_owned()]));
                }
                Told::Other => {}
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(lines: &str) -> Picture {
        let mut picture = Picture::new(Path::new("/x"));
        picture.payload(1, lines.as_bytes());
        picture
    }

    fn names(lines: &str) -> Vec<String> {
        picture(lines).names.into_iter().collect()
    }

    #[test]
    fn what_is_below_a_name_goes_and_moves_with_it() {
        let made = "ready .\ncreate a\ncreate a/b\ncreate a/b/c\ncreate ab\nwrite ab\n";
        assert_eq!(names(made), ["a", "a/b", "a/b/c", "ab"]);
        assert_eq!(names(&format!("{made}remove a\n")), ["ab"]);
        assert_eq!(names(&format!("{made}create a\n")), ["a", "ab"]);
        assert_eq!(names(&format!("{made}rename d a\n")), ["ab", "d", "d/b", "d/b/c"]);
        assert_eq!(names(&format!("{made}rename a/b ab\n")), ["a", "a/b"]);
        assert_eq!(names("rename new old\n"), ["new"]);
    }

    #[test]
    fn after_an_overflow_only_what_follows_is_known() {
        let picture = picture("ready .\ncreate a\ncreate b\noverflow .\ncreate b\nready .\n");
        assert_eq!((picture.told(), picture.overflows(), picture.is_ready()), (4, 1, true));
        let there = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(picture.wrong(&there(&["b"])), 0);
        assert_eq!(picture.wrong(&there(&["a", "c"])), 3);
    }
}
