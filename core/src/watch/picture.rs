//! What is there, by the events alone.

use super::{Event, Kind};
use bytes::Bytes;
use std::{collections::BTreeSet, ops::Bound};

/// What a reader of a watch knows to be there: all paths below the watched directory, relative to it.
///
/// Of a watch that tells what is there already it is right from `Ready` on, after every event; after an overflow from the next
/// `Ready` on. Of another one it begins with a listing that was made after `Ready`.
///
/// ```
/// use bytes::Bytes;
/// use hangar_core::watch::{Event, Kind, Picture};
///
/// let mut picture = Picture::default();
/// for name in ["a", "a/x", "ab"] {
///     picture.apply(&Event::new(Kind::Create, Bytes::from_static(name.as_bytes())));
/// }
/// picture.apply(&Event::rename(Bytes::from_static(b"a"), Bytes::from_static(b"b")));
/// assert!(picture.paths().eq(["ab", "b", "b/x"]));
/// picture.apply(&Event::overflow());
/// assert_eq!(picture, Picture::default());
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Picture {
    paths: BTreeSet<Bytes>,
}

impl Picture {
    /// Does what an event says.
    pub fn apply(&mut self, event: &Event) {
        match event.kind {
            Kind::Create => {
                self.forget(&event.name);
                self.paths.insert(event.name.clone());
            }
            Kind::Remove => _ = self.forget(&event.name),
            Kind::Rename => {
                let from = event.from.as_deref().unwrap_or_default();
                let moved = self.forget(from);
                self.forget(&event.name);
                let renamed = |path: Bytes| Bytes::from([&event.name, &path[from.len()..]].concat());
                self.paths.extend(moved.into_iter().map(renamed));
                // It may not have been known by its old name.
                self.paths.insert(event.name.clone());
            }
            Kind::Overflow => self.paths.clear(),
            Kind::Write | Kind::Chmod => {}
        }
    }

    /// Forgets a path and everything below it, and gives those that were known.
    pub fn forget(&mut self, path: &[u8]) -> Vec<Bytes> {
        let below = [path, b"/"].concat();
        let inside = self.paths.range::<[u8], _>((Bound::Included(&*below), Bound::Unbounded));
        let inside = inside.take_while(|other| other.starts_with(&below));
        let forgotten: Vec<_> = self.paths.get(path).into_iter().chain(inside).cloned().collect();
        for path in &forgotten {
            self.paths.remove(path);
        }
        forgotten
    }

    /// Whether this is there.
    pub fn contains(&self, path: &[u8]) -> bool {
        self.paths.contains(path)
    }

    /// Everything that is there, in the order of the bytes.
    pub fn paths(&self) -> impl Iterator<Item = &Bytes> {
        self.paths.iter()
    }
}

impl<P: Into<Bytes>> FromIterator<P> for Picture {
    fn from_iter<I: IntoIterator<Item = P>>(paths: I) -> Self {
        Self { paths: paths.into_iter().map(Into::into).collect() }
    }
}

impl<P: Into<Bytes>> Extend<P> for Picture {
    fn extend<I: IntoIterator<Item = P>>(&mut self, paths: I) {
        self.paths.extend(paths.into_iter().map(Into::into));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn picture(paths: &[&'static str]) -> Picture {
        paths.iter().copied().collect()
    }

    #[test]
    fn what_is_below_goes_with_it_and_nothing_else() {
        let all = ["a", "a b", "a.x", "a/x", "a/x/y", "aa", "b/a"];
        let mut of = picture(&all);
        of.apply(&Event::new(Kind::Remove, name("a")));
        assert_eq!(of, picture(&["a b", "a.x", "aa", "b/a"]));
        let mut of = picture(&all);
        of.apply(&Event::rename(name("a"), name("b")));
        assert_eq!(of, picture(&["a b", "a.x", "aa", "b", "b/x", "b/x/y"]), "what had the name is gone");
    }

    #[test]
    fn what_takes_a_name_begins_anew() {
        let mut of = picture(&["a", "a/x"]);
        of.apply(&Event::new(Kind::Create, name("a")));
        assert_eq!(of, picture(&["a"]));
        of.apply(&Event::rename(name("unknown"), name("b")));
        of.apply(&Event::new(Kind::Write, name("c")));
        assert_eq!(of, picture(&["a", "b"]));
    }

    #[test]
    fn a_directory_may_go_below_what_it_replaces() {
        let mut of = picture(&["a", "a/b", "a/b/c"]);
        of.apply(&Event::rename(name("a/b"), name("a")));
        assert_eq!(of, picture(&["a", "a/c"]));
    }
}
