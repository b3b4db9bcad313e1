//! The changes below one directory, as inotify tells them: none missed, none twice, and what was lost is said.
//!
//! ```text
//!            ┌─────────────── Scan: arm it, then list it ◄──────────────┐
//!  a directory appears                                                  │ something on its path changed meanwhile:
//!            └─► scanned ─► every notice up to there handed in ─► drained ──┤ it may be another one
//!                                                                       └► what is there is told, what came in
//!                                                                          between is told as it happened
//! ```
//!
//! inotify watches directories one by one and tells a change after it was made, so what it tells is about a tree that has
//! moved on. Three rules make it exact:
//!
//! * A directory is **armed before it is listed**. Between the two a name may be told by both: those that notices told of
//!   are left out of the listing.
//! * A listing counts once it is **drained**: once every notice of what happened before is handed in. Had one of them
//!   touched the path by which the directory was opened, then it may have been another directory; nothing was told of
//!   it, and it is scanned again.
//! * What was **lost** is told: `overflow`, and then everything that is there, as if it had just been created.
//!
//! So whoever starts with nothing (or with a listing of their own, made after `Ready`), forgets everything at an
//! `overflow` and does what the events say, has what is there. A `remove` and the `from` of a `rename` mean everything
//! below a name; a `rename` replaces what had the name; a `rename` from an unknown name is a `create`.
//!
//! [`Watch`] is the tree, [`History`] the last events and who reads them, [`Foreign`] makes events of what another daemon
//! says of its own watches, [`Picture`] what is there of events.

mod event;
mod foreign;
mod history;
mod listing;
mod picture;
mod state;
mod tree;

use crate::Time;
use bytes::Bytes;
use std::time::Duration;

pub use event::{Event, Kind};
pub use foreign::Foreign;
pub use history::{Gap, History, KEPT, Told};
pub use picture::Picture;
pub use state::Watch;
pub use tree::Dir;

/// How a directory is watched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// What is below it, too.
    pub recursive: bool,
    /// What is there already is told as if it had just been created.
    pub tells_existing: bool,
    /// Notices, and names of a directory that is being listed, that are held at most; what is more is an overflow.
    pub max_held: usize,
    /// Directories below it, with it, at most.
    pub max_directories: usize,
    /// How long the first half of a rename waits for the second.
    pub rename_wait: Duration,
}

/// The system's number for a watched directory: the same for the same directory, whatever its path is. It is not given
/// to another one.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Wd(pub i32);

/// What the system tells of a watched directory: an event of inotify.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Notice {
    /// Which directory.
    pub wd: Wd,
    /// What happened.
    pub what: What,
    /// It happened to a directory.
    pub is_dir: bool,
    /// What the two halves of a rename have in common.
    pub cookie: u32,
    /// To what in the directory; None for the directory itself.
    pub name: Option<Bytes>,
}

/// What happened, as inotify tells it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum What {
    /// `IN_CREATE`.
    Create,
    /// `IN_MODIFY`.
    Modify,
    /// `IN_ATTRIB`.
    Attrib,
    /// `IN_DELETE`.
    Delete,
    /// `IN_MOVED_FROM`.
    MovedFrom,
    /// `IN_MOVED_TO`.
    MovedTo,
    /// `IN_DELETE_SELF`.
    DeleteSelf,
    /// `IN_MOVE_SELF`.
    MoveSelf,
    /// `IN_UNMOUNT`.
    Unmount,
    /// `IN_IGNORED`: the directory is watched no longer.
    Ignored,
}

/// What a directory has in it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// Its name.
    pub name: Bytes,
    /// It is a directory itself; a symbolic link to one is not.
    pub is_dir: bool,
}

/// A directory that was armed and, after that, listed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Scanned {
    /// Its number.
    pub wd: Wd,
    /// Of the watched directory itself: the number of the one that it is in, and its name there.
    pub above: Option<(Wd, Bytes)>,
    /// The first of what is in it.
    pub entries: Vec<Entry>,
    /// There is nothing more in it.
    pub is_all: bool,
}

/// Why a directory is not watched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Blind {
    /// It is not there, or something else is.
    Gone,
    /// It may not be read.
    Denied,
    /// It is on a file system whose changes the system does not see.
    Network,
    /// It is there twice, and watched at its other place.
    Twice,
}

/// Why a watch ended by itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// The watched directory was removed.
    Removed,
    /// It was given another path.
    Moved,
    /// Its file system was unmounted.
    Unmounted,
    /// There are more directories below it than are watched.
    TooManyDirectories,
    /// It was closed.
    Closed,
}

impl Blind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Gone, Self::Denied, Self::Network, Self::Twice];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Denied => "denied",
            Self::Network => "network",
            Self::Twice => "twice",
        }
    }
}

impl End {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Removed, Self::Moved, Self::Unmounted, Self::TooManyDirectories, Self::Closed];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Moved => "moved",
            Self::Unmounted => "unmounted",
            Self::TooManyDirectories => "too_many_directories",
            Self::Closed => "closed",
        }
    }
}

/// What the shell has to do next.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Output {
    /// Arm the directory at this path (empty: the watched one itself), then list it, and say so:
    /// [`Watch::handle_scanned`]. No symbolic link is followed on the way.
    Scan {
        /// Which one.
        dir: Dir,
        /// Relative to the watched directory.
        path: Bytes,
    },
    /// List the directory that was scanned last further: [`Watch::handle_listed`].
    List {
        /// Which one.
        dir: Dir,
    },
    /// See whether there is anything at this path: [`Watch::handle_looked`].
    Look {
        /// Relative to the watched directory.
        path: Bytes,
    },
    /// Watch it no longer. It may be gone by now.
    Disarm(Wd),
    /// Tell this.
    Event(Event),
    /// From here on every change is told; what was there before was, if it was to be.
    Ready,
    /// Say that what is below this is not told.
    Blind {
        /// Relative to the watched directory.
        name: Bytes,
        /// Why.
        why: Blind,
    },
    /// End, and watch nothing of it any longer.
    Closed(End),
    /// Nothing before this time, or before the next input.
    Wait(Option<Time>),
}
