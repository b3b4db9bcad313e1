//! The watched directories, as the notices told of them so far.

use super::Wd;
use bytes::{BufMut, Bytes, BytesMut};
use std::collections::BTreeMap;

/// A directory in a watch. The number is not given again: a directory that is scanned anew has another one.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Dir(pub(super) u64);

/// Something in a directory.
pub(super) type Place = (Dir, Bytes);

#[derive(Debug)]
struct Node {
    /// Where it is; None for the watched directory itself.
    place: Option<Place>,
    /// Once it is armed.
    wd: Option<Wd>,
    children: BTreeMap<Bytes, Dir>,
}

/// All of them, by number.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: BTreeMap<Dir, Node>,
    by_wd: BTreeMap<Wd, Dir>,
    next: u64,
}

impl Tree {
    /// A new directory. What had its place loses it, and has to be [removed](Self::remove) before.
    pub(super) fn add(&mut self, place: Option<Place>) -> Dir {
        let dir = Dir(self.next);
        self.next += 1;
        if let Some((parent, name)) = &place
            && let Some(parent) = self.nodes.get_mut(parent)
        {
            parent.children.insert(name.clone(), dir);
        }
        self.nodes.insert(dir, Node { place, wd: None, children: BTreeMap::new() });
        dir
    }

    /// The numbers stay used: what is still said of one of the directories is about none.
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.by_wd.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn contains(&self, dir: Dir) -> bool {
        self.nodes.contains_key(&dir)
    }

    pub(super) fn by_wd(&self, wd: Wd) -> Option<Dir> {
        self.by_wd.get(&wd).copied()
    }

    /// All that are armed.
    pub(super) fn armed(&self) -> impl Iterator<Item = Wd> {
        self.by_wd.keys().copied()
    }

    pub(super) fn wd(&self, dir: Dir) -> Option<Wd> {
        self.nodes.get(&dir).and_then(|node| node.wd)
    }

    pub(super) fn child(&self, (dir, name): &Place) -> Option<Dir> {
        self.nodes.get(dir).and_then(|node| node.children.get(name)).copied()
    }

    pub(super) fn place(&self, dir: Dir) -> Option<&Place> {
        self.nodes.get(&dir).and_then(|node| node.place.as_ref())
    }

    /// It has this number, which no other one has.
    pub(super) fn arm(&mut self, dir: Dir, wd: Wd) {
        if let Some(node) = self.nodes.get_mut(&dir) {
            node.wd = Some(wd);
            self.by_wd.insert(wd, dir);
        }
    }

    /// The system watches it no longer.
    pub(super) fn disarm(&mut self, wd: Wd) {
        if let Some(dir) = self.by_wd.remove(&wd)
            && let Some(node) = self.nodes.get_mut(&dir)
        {
            node.wd = None;
        }
    }

    /// Forgets a directory and those below it; gives those that were armed.
    pub(super) fn remove(&mut self, dir: Dir) -> Vec<Wd> {
        let (mut armed, mut left) = (Vec::new(), vec![dir]);
        self.leave(dir);
        while let Some(dir) = left.pop() {
            let Some(node) = self.nodes.remove(&dir) else { continue };
            left.extend(node.children.into_values());
            if let Some(wd) = node.wd {
                self.by_wd.remove(&wd);
                armed.push(wd);
            }
        }
        armed
    }

    /// Gives a directory another place, with those below it.
    pub(super) fn relocate(&mut self, dir: Dir, to: Place) {
        self.leave(dir);
        if let Some(parent) = self.nodes.get_mut(&to.0) {
            parent.children.insert(to.1.clone(), dir);
        }
        if let Some(node) = self.nodes.get_mut(&dir) {
            node.place = Some(to);
        }
    }

    fn leave(&mut self, dir: Dir) {
        let Some((parent, name)) = self.place(dir).cloned() else { return };
        if let Some(parent) = self.nodes.get_mut(&parent)
            && parent.children.get(&name) == Some(&dir)
        {
            parent.children.remove(&name);
        }
    }

    /// The places that lead to a directory, its own first.
    pub(super) fn chain(&self, dir: Dir) -> impl Iterator<Item = &Place> {
        std::iter::successors(self.place(dir), |(parent, _)| self.place(*parent))
    }

    /// Whether one directory is the other, or is in it.
    pub(super) fn is_below(&self, dir: Dir, above: Dir) -> bool {
        dir == above || self.chain(dir).any(|(parent, _)| *parent == above)
    }

    /// The path of a directory from the watched one, which has an empty one.
    pub(super) fn path(&self, dir: Dir) -> Bytes {
        let names: Vec<&Bytes> = self.chain(dir).map(|(_, name)| name).collect();
        join(names.into_iter().rev())
    }

    /// The path of something in a directory.
    pub(super) fn path_of(&self, (dir, name): &Place) -> Bytes {
        let names: Vec<&Bytes> = self.chain(*dir).map(|(_, name)| name).collect();
        join(names.into_iter().rev().chain([name]))
    }
}

fn join<'a>(names: impl Iterator<Item = &'a Bytes>) -> Bytes {
    let mut path = BytesMut::new();
    for name in names {
        if !path.is_empty() {
            path.put_u8(b'/');
        }
        path.put_slice(name);
    }
    path.freeze()
}
