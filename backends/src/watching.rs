//! The changes below a directory of a sandbox, for who watches it.

use hangar_core::watch::{Blind, End, Event};
use std::{
    fmt,
    task::{Context, Poll},
};

/// What is to be watched.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WatchSpec {
    /// A directory: absolute, or relative to the one that commands start in. A symbolic link to one is followed.
    pub path: String,
    /// What is below it, too.
    pub recursive: bool,
    /// What is there already is told as if it had just been created.
    pub tells_existing: bool,
    /// As whom it is read; as the sandbox's own user without it.
    pub user: Option<String>,
    /// Also where the system does not see the changes of others: NFS, SMB, FUSE and the like.
    pub network: bool,
}

/// Something of a watch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Change {
    /// Something changed.
    Event(Event),
    /// From here on every change is told.
    Ready,
    /// What is below this is not told.
    Blind {
        /// Relative to the watched directory.
        name: bytes::Bytes,
        /// Why.
        why: Blind,
    },
    /// The watch ended by itself.
    Ended(End),
    /// The sandbox's side broke, or has no room for it any more.
    Broken(WatchError),
}

/// A watch. Dropped, it ends.
///
/// What is not taken is held in bounds; past them it is lost, which an `overflow` says, and then what is there follows.
pub trait Watching: Send {
    /// The path that is watched: absolute, and as the sandbox would name it.
    fn path(&self) -> &str;

    /// The next of it. Nothing comes after [`Change::Ended`] and [`Change::Broken`].
    fn poll_change(&mut self, cx: &mut Context<'_>) -> Poll<Change>;

    /// Tells an `overflow` and what is there, for a reader that has lost some of it.
    fn retell(&mut self);
}

impl fmt::Debug for dyn Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watching").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// Why a directory is not watched, or no longer.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum WatchError {
    /// It is not there.
    #[error("path: there is no directory {0}")]
    NotFound(String),
    /// Something else is.
    #[error("path: {0} is not a directory")]
    NotADirectory(String),
    /// It may not be read.
    #[error("path: {0} may not be read by the user of the watch")]
    Denied(String),
    /// It leads out of the directory that this sandbox is.
    #[error("path: {0} is outside of this sandbox's directory")]
    OutsideRoot(String),
    /// It is no path: empty, with a zero in it, or too long.
    #[error("path: {0}")]
    BadPath(String),
    /// Its file system does not tell the changes of others.
    #[error(
        "path: {0} is on a network or FUSE file system, whose changes are not all seen here; ask for it with network=true"
    )]
    Network(String),
    /// There is no such user, or it cannot be acted as.
    #[error("user: {0}")]
    BadUser(String),
    /// The system watches no more directories for this user.
    #[error(
        "the system watches no more directories for this user: raise the sysctl fs.inotify.max_user_watches"
    )]
    TooManyWatches,
    /// The system has no more instances of inotify for this user.
    #[error(
        "the system has no more inotify instances for this user: raise the sysctl fs.inotify.max_user_instances"
    )]
    TooManyInstances,
    /// There are more directories below it than are watched.
    #[error("path: there are more than {0} directories below it")]
    TooManyDirectories(usize),
    /// As many directories of the sandbox are watched as can be.
    #[error("the sandbox has no room for another watch: {0}")]
    Exhausted(String),
    /// The sandbox has no daemon that could watch.
    #[error("this sandbox has no daemon, and watching a directory needs one")]
    NeedsDaemon,
    /// Everything in the sandbox is stopped.
    #[error("the sandbox is paused; resume it first")]
    Paused,
    /// The sandbox is ending.
    #[error("the sandbox is being destroyed")]
    Destroyed,
    /// The sandbox's side broke.
    #[error("the sandbox cannot be reached: {0}")]
    Broken(String),
}
