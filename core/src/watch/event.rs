//! What is told of a change.

use bytes::Bytes;

/// What happened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Something is there that was not.
    Create,
    /// A file has other contents.
    Write,
    /// Something is gone, with all that is below it.
    Remove,
    /// Something has another name, with all that is below it.
    Rename,
    /// Something has other permissions, another owner or other times.
    Chmod,
    /// Changes were lost: what is there now follows.
    Overflow,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Create, Self::Write, Self::Remove, Self::Rename, Self::Chmod, Self::Overflow];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Write => "write",
            Self::Remove => "remove",
            Self::Rename => "rename",
            Self::Chmod => "chmod",
            Self::Overflow => "overflow",
        }
    }
}

/// A change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Event {
    /// What happened.
    pub kind: Kind,
    /// To what: a path relative to the watched directory, which is itself `.`. A name is any bytes.
    pub name: Bytes,
    /// What it was called before, for a rename.
    pub from: Option<Bytes>,
}

impl Event {
    /// Something happened to `name`.
    pub const fn new(kind: Kind, name: Bytes) -> Self {
        Self { kind, name, from: None }
    }

    /// Changes were lost.
    pub const fn overflow() -> Self {
        Self::new(Kind::Overflow, Bytes::from_static(b"."))
    }

    /// `from` is called `name` now.
    pub const fn rename(from: Bytes, name: Bytes) -> Self {
        Self { kind: Kind::Rename, name, from: Some(from) }
    }

    /// Bytes that it takes.
    pub fn len(&self) -> usize {
        self.name.len() + self.from.as_ref().map_or(0, Bytes::len)
    }

    /// Whether it has no name, which none has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
