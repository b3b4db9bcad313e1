//! What a line says that a server or `inotifywait` has told.

use std::path::Path;

use crate::watcher::ESTABLISHED;

/// What a client is told. Names are relative to the watched directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Told<'a> {
    /// Everything from here on is told.
    Ready,
    /// Something was lost; what is there follows, where the one who tells can do that.
    Overflow,
    /// Something has this name that had not.
    Created(&'a str),
    /// Nothing has this name that something had.
    Removed(&'a str),
    /// What was called `from` has this name.
    Renamed { name: &'a str, from: &'a str },
    /// What does not matter for who has which name.
    Other,
}

/// Reads a line about what is in `directory`. None for one that is about something else.
pub(super) fn told<'a>(line: &'a [u8], directory: &Path) -> Option<Told<'a>> {
    let line = str::from_utf8(line).ok()?;
    if line == ESTABLISHED {
        return Some(Told::Ready);
    }
    let (kind, name) = line.split_once(' ')?;
    if kind.starts_with(|first: char| first.is_ascii_lowercase()) {
        return Some(match kind {
            "ready" => Told::Ready,
            "overflow" => Told::Overflow,
            "create" => Told::Created(name),
            "remove" => Told::Removed(name),
            "rename" => name.split_once(' ').map(|(name, from)| Told::Renamed { name, from })?,
            "write" | "chmod" => Told::Other,
            _ => return None,
        });
    }
    let has = |event| kind.split(',').any(|word| word == event);
    if has("Q_OVERFLOW") {
        return Some(Told::Overflow);
    }
    let name = name.strip_prefix(directory.to_str()?)?.trim_matches('/');
    if has("CREATE") || has("MOVED_TO") {
        return Some(Told::Created(name));
    }
    Some(if has("DELETE") || has("MOVED_FROM") { Told::Removed(name) } else { Told::Other })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tell_the_same_in_their_words() {
        let read = |line: &'static str| told(line.as_bytes(), Path::new("/tmp/x"));
        for (line, expected) in [
            ("ready .", Told::Ready),
            ("Watches established.", Told::Ready),
            ("overflow .", Told::Overflow),
            ("Q_OVERFLOW ", Told::Overflow),
            ("create a/b", Told::Created("a/b")),
            ("CREATE,ISDIR /tmp/x/a/b", Told::Created("a/b")),
            ("MOVED_TO /tmp/x/a", Told::Created("a")),
            ("remove a", Told::Removed("a")),
            ("DELETE /tmp/x/a", Told::Removed("a")),
            ("MOVED_FROM /tmp/x/a", Told::Removed("a")),
            ("rename a/b c", Told::Renamed { name: "a/b", from: "c" }),
            ("write a", Told::Other),
            ("CLOSE_WRITE,CLOSE /tmp/x/a", Told::Other),
            ("DELETE_SELF /tmp/x/a", Told::Other),
        ] {
            assert_eq!(read(line), Some(expected), "{line}");
        }
        for line in ["Setting up watches.", "Couldn't watch new directory /tmp/x/a", "rename a", "later a"] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
