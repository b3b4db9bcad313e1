//! A file system as inotify sees it: a tree of numbered things, marks on directories, and one queue of notices.

use crate::watch::{Blind, Entry, Notice, Picture, Scanned, Wd, What};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The number of a thing.
pub(super) type Number = usize;

/// A name in a directory.
pub(super) type Name = &'static str;

/// The directory that everything is in.
pub(super) const TOP: Number = 0;
/// The watched directory: `w` in it.
pub(super) const WATCHED: Number = 1;

/// A directory with this name cannot be read.
pub(super) const SECRET: Name = "secret";

/// Names listed at a time.
pub(super) const CHUNK: usize = 2;

/// Something in the queue.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Queued {
    Notice(Notice),
    Overflow,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Disk {
    /// What is in each directory; None for a file.
    things: Vec<Option<BTreeMap<Name, Number>>>,
    marks: BTreeMap<Number, Wd>,
    next_wd: i32,
    next_cookie: u32,
    queue: VecDeque<Queued>,
    max_queued: usize,
    /// The directory that was scanned last, and the last name that was listed of it.
    open: Option<(Number, Option<Name>)>,
}

impl Disk {
    pub(super) fn new(max_queued: usize) -> Self {
        let top = BTreeMap::from([("w", WATCHED), ("outside", 2)]);
        Self {
            things: vec![Some(top), Some(BTreeMap::new()), Some(BTreeMap::new())],
            marks: BTreeMap::new(),
            next_wd: 1,
            next_cookie: 1,
            queue: VecDeque::new(),
            max_queued,
            open: None,
        }
    }

    fn names(&self, dir: Number) -> impl Iterator<Item = (Name, Number)> + '_ {
        self.things[dir].iter().flatten().map(|(name, number)| (*name, *number))
    }

    fn is_dir(&self, number: Number) -> bool {
        self.things[number].is_some()
    }

    /// Everything below a directory, each after the one that it is in: where it is, and what.
    pub(super) fn below(&self, dir: Number) -> Vec<(Number, Name, Number)> {
        let mut found = Vec::new();
        let mut left = vec![dir];
        while let Some(dir) = left.pop() {
            for (name, number) in self.names(dir) {
                found.push((dir, name, number));
                left.push(number);
            }
        }
        found
    }

    /// The directories that things can be made in.
    pub(super) fn dirs(&self) -> Vec<Number> {
        let all = self.below(TOP).into_iter().map(|(_, _, number)| number);
        all.filter(|number| self.is_dir(*number)).collect()
    }

    /// What can be renamed and removed.
    pub(super) fn movable(&self) -> Vec<(Number, Name, Number)> {
        self.below(TOP).into_iter().filter(|(dir, _, _)| *dir != TOP).collect()
    }

    /// What is below the watched directory.
    pub(super) fn picture(&self, is_recursive: bool) -> Picture {
        fn add(disk: &Disk, dir: Number, prefix: &str, deep: bool, paths: &mut Picture) {
            for (name, number) in disk.names(dir) {
                let path = format!("{prefix}{name}");
                if deep {
                    add(disk, number, &format!("{path}/"), deep, paths);
                }
                paths.extend([path]);
            }
        }
        let mut picture = Picture::default();
        add(self, WATCHED, "", is_recursive, &mut picture);
        picture
    }

    fn queue(&mut self, queued: Queued) {
        if self.queue.back() == Some(&queued) {
            return;
        }
        if self.queue.len() < self.max_queued {
            self.queue.push_back(queued);
        } else if self.queue.back() != Some(&Queued::Overflow) {
            self.queue.push_back(Queued::Overflow);
        }
    }

    fn tell(&mut self, dir: Number, what: What, name: Option<(Name, bool)>, cookie: u32) {
        if let Some(wd) = self.marks.get(&dir).copied() {
            let (name, is_dir) = name
                .map_or((None, true), |(name, is_dir)| (Some(Bytes::from_static(name.as_bytes())), is_dir));
            self.queue(Queued::Notice(Notice { wd, what, is_dir, cookie, name }));
        }
    }

    fn tell_of(&mut self, dir: Number, what: What, name: Name, number: Number) {
        self.tell(dir, what, Some((name, self.is_dir(number))), 0);
    }

    fn entries(&mut self, dir: Number) -> &mut BTreeMap<Name, Number> {
        self.things[dir].as_mut().expect("a directory")
    }

    pub(super) fn make(&mut self, dir: Number, name: Name, is_dir: bool) -> Option<Number> {
        if self.names(dir).any(|(other, _)| other == name) {
            return None;
        }
        let number = self.things.len();
        self.things.push(is_dir.then(BTreeMap::new));
        self.entries(dir).insert(name, number);
        self.tell_of(dir, What::Create, name, number);
        Some(number)
    }

    /// A change of contents or of permissions: to a directory's own watch, too.
    pub(super) fn change(&mut self, (dir, name, number): (Number, Name, Number), is_chmod: bool) {
        if is_chmod {
            self.tell_of(dir, What::Attrib, name, number);
            self.tell(number, What::Attrib, None, 0);
        } else if !self.is_dir(number) {
            self.tell_of(dir, What::Modify, name, number);
        }
    }

    /// Removes something, and before it all that is in it.
    pub(super) fn remove(&mut self, (dir, name, number): (Number, Name, Number)) {
        let inside: Vec<_> = self.names(number).map(|(name, inner)| (number, name, inner)).collect();
        for thing in inside {
            self.remove(thing);
        }
        self.entries(dir).remove(name);
        self.unmark(number, true);
        self.tell_of(dir, What::Delete, name, number);
    }

    fn unmark(&mut self, number: Number, is_removed: bool) {
        if is_removed {
            self.tell(number, What::DeleteSelf, None, 0);
        }
        self.tell(number, What::Ignored, None, 0);
        self.marks.remove(&number);
    }

    fn is_in(&self, dir: Number, number: Number) -> bool {
        dir == number || self.below(number).iter().any(|(_, _, inner)| *inner == dir)
    }

    fn moved(&mut self, from: (Number, Name), to: (Number, Name), number: Number) {
        let (cookie, is_dir) = (self.next_cookie, self.is_dir(number));
        self.next_cookie += 1;
        self.tell(from.0, What::MovedFrom, Some((from.1, is_dir)), cookie);
        self.tell(to.0, What::MovedTo, Some((to.1, is_dir)), cookie);
        if is_dir {
            self.tell(number, What::MoveSelf, None, 0);
        }
    }

    /// Gives something another name, if it may have that; where there is something with that name it is replaced, if it may be.
    pub(super) fn rename(
        &mut self,
        (dir, name, number): (Number, Name, Number),
        to: Number,
        new: Name,
    ) -> bool {
        if self.is_in(to, number) || (dir, name) == (to, new) {
            return false;
        }
        let replaced = self.names(to).find(|(other, _)| *other == new).map(|(_, other)| other);
        if let Some(replaced) = replaced {
            if self.is_dir(replaced) != self.is_dir(number) || self.names(replaced).next().is_some() {
                return false;
            }
            self.entries(to).remove(new);
        }
        self.entries(dir).remove(name);
        self.entries(to).insert(new, number);
        self.moved((dir, name), (to, new), number);
        if let Some(replaced) = replaced {
            self.unmark(replaced, true);
        }
        true
    }

    /// Exchanges two names in one step.
    pub(super) fn exchange(&mut self, one: (Number, Name, Number), other: (Number, Name, Number)) {
        if self.is_in(one.0, other.2) || self.is_in(other.0, one.2) || one.2 == other.2 {
            return;
        }
        self.entries(one.0).insert(one.1, other.2);
        self.entries(other.0).insert(other.1, one.2);
        self.moved((one.0, one.1), (other.0, other.1), one.2);
        self.moved((other.0, other.1), (one.0, one.1), other.2);
    }

    /// The thing at a path of the watched directory, if that is still there.
    fn find(&self, path: &[u8]) -> Option<Number> {
        let path = std::str::from_utf8(path).expect("the names are text");
        let mut number = self.names(TOP).find(|(_, number)| *number == WATCHED)?.1;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            number = self.names(number).find(|(name, _)| *name == part)?.1;
        }
        Some(number)
    }

    pub(super) fn is_there(&self, path: &[u8]) -> bool {
        self.find(path).is_some()
    }

    fn arm(&mut self, number: Number) -> Wd {
        let next = Wd(self.next_wd);
        let wd = *self.marks.entry(number).or_insert(next);
        if wd == next {
            self.next_wd += 1;
        }
        wd
    }

    pub(super) fn disarm(&mut self, wd: Wd) {
        if let Some(number) = self.marks.iter().find(|(_, mark)| **mark == wd).map(|(number, _)| *number) {
            self.unmark(number, false);
        }
    }

    pub(super) fn scan(&mut self, path: &[u8]) -> Result<Scanned, Blind> {
        let number = self.find(path).filter(|number| self.is_dir(*number)).ok_or(Blind::Gone)?;
        if path.ends_with(SECRET.as_bytes()) {
            return Err(Blind::Denied);
        }
        let above = (number == WATCHED).then(|| (self.arm(TOP), Bytes::from_static(b"w")));
        let wd = self.arm(number);
        self.open = Some((number, None));
        let (entries, is_all) = self.list();
        Ok(Scanned { wd, above, entries, is_all })
    }

    /// What comes next of the directory that was scanned last.
    pub(super) fn list(&mut self) -> (Vec<Entry>, bool) {
        let Some((number, last)) = self.open else { return (Vec::new(), true) };
        let left: Vec<_> = self.names(number).filter(|(name, _)| Some(*name) > last).collect();
        let entry = |(name, inner): &(Name, Number)| Entry {
            name: Bytes::from_static(name.as_bytes()),
            is_dir: self.is_dir(*inner),
        };
        let entries: Vec<Entry> = left.iter().take(CHUNK).map(entry).collect();
        let is_all = left.len() <= CHUNK;
        self.open = left.get(CHUNK.min(left.len()).wrapping_sub(1)).map(|(name, _)| (number, Some(*name)));
        (entries, is_all)
    }

    /// The next notice that nobody has read.
    pub(super) fn read(&mut self) -> Option<Queued> {
        self.queue.pop_front()
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes the watched directory away.
    pub(super) fn take_root(&mut self, is_removed: bool) {
        if !self.is_there(b"") {
            return;
        }
        if is_removed {
            self.remove((TOP, "w", WATCHED));
        } else {
            self.rename((TOP, "w", WATCHED), 2, "w");
        }
    }

    /// Marks that nobody needs: the armed directories that are not to be.
    pub(super) fn marks(&self) -> BTreeSet<Wd> {
        self.marks.values().copied().collect()
    }

    /// The directories below the watched one that can be read, with it, and the one above.
    pub(super) fn to_be_marked(&self, is_recursive: bool) -> BTreeSet<Wd> {
        let mut numbers = vec![TOP, WATCHED];
        if is_recursive {
            numbers.extend(self.below(WATCHED).into_iter().map(|(_, _, number)| number));
        }
        numbers.iter().filter_map(|number| self.marks.get(number).copied()).collect()
    }
}
