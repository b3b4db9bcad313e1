//! What a client knows of a directory by what it was told, as docs/watches.md says how it is kept.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::super::{Told, Watches, told::told};
use crate::{measure::sink::Lines, wire::Sink};
use bytes::Bytes;
use hangar_core::watch::{self, Event, Kind};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Picture {
    lines: Lines,
    directory: PathBuf,
    known: watch::Picture,
    ready: bool,
    told: u64,
    overflows: u64,
}

impl Picture {
    /// Of an empty directory.
    pub(super) fn new(directory: &Path) -> Self {
        let (directory, known) = (directory.to_owned(), watch::Picture::default());
        Self { lines: Lines::new(), directory, known, ready: false, told: 0, overflows: 0 }
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
        let known = there.iter().filter(|name| self.known.contains(name.as_bytes())).count();
        there.len() - known + self.known.paths().count() - known
    }
}

impl Watches for Picture {
    fn is_ready(&self) -> bool {
        self.ready
    }
}

impl Sink for Picture {
    fn payload(&mut self, _at_ns: u64, bytes: &[u8]) {
        let Self { lines, directory, known, ready, told: count, overflows } = self;
        lines.feed(bytes, |line| {
            let Some(told) = told(line, directory) else { return };
            *count += u64::from(told != Told::Ready);
            let name = |name: &str| Bytes::copy_from_slice(name.as_bytes());
            known.apply(&match told {
                Told::Ready => {
                    *ready = true;
                    return;
                }
                Told::Overflow => {
                    *overflows += 1;
                    Event::overflow()
                }
                Told::Created(created) => Event::new(Kind::Create, name(created)),
                Told::Removed(removed) => Event::new(Kind::Remove, name(removed)),
                Told::Renamed { name: to, from } => Event::rename(name(from), name(to)),
                Told::Other => return,
            });
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
        picture(lines).known.paths().map(|name| String::from_utf8(name.to_vec()).unwrap()).collect()
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
