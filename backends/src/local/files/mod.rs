//! The files of this machine, for a daemon in a sandbox that serves them to clients: each operation as a user.
//!
//! ```text
//!  what a client wrote ──► resolve ──► an absolute path ──► Files, on a thread that may block
//!                                                            │ the thread becomes the user, and itself again after
//!                                                            │ the path is looked up once, from there on descriptors
//!                                                            └ Entry, or a FileError: one variant per fault
//! ```
//!
//! * Every call blocks, and needs no runtime. Nothing here knows a protocol.
//! * An operation may do what its user may do, by the permissions of the system and no others; what it makes belongs to
//!   the user. That takes a server that runs as root, unless the user is the server's own.
//! * With a root, a path leads nowhere else: neither by `..` nor by a symbolic link, also if somebody swaps them meanwhile.
//!   That is for a server whose clients share a machine. A link with an absolute path counts as one that leaves.
//! * No watching for changes.
//!
//! On threads: the ids of the calling thread change during a call. A program that calls `setuid` and its relatives of the
//! C library, which change all threads, must not do so meanwhile. The first operation as another user makes the process
//! one that leaves no core dump.

mod compose;
mod entry;
mod error;
mod list;
mod make;
mod metadata;
mod path;
mod place;
mod remove;
mod write;

use super::{
    User,
    acting::{CannotAct, as_user},
    user::Names,
};
use place::{Place, Root};
use rustix::fs::{Mode, OFlags, fstat};
use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

pub use entry::{Entry, Kind};
pub use error::FileError;
pub use path::{BadPath, resolve};
pub use write::Writing;

/// The files of this machine, or those below one directory.
///
/// Paths are absolute; one that is not is taken as if it were, and `.` and `..` are taken out of its text.
/// [`resolve`] makes one of what a client wrote. With a root, paths begin with the path of the root.
///
/// Every operation can fail with [`FileError::Denied`], [`FileError::Loop`], [`FileError::TooLong`],
/// [`FileError::OutsideRoot`], [`FileError::NotADirectory`] (of something on the way), [`FileError::User`] and
/// [`FileError::Io`].
#[derive(Debug)]
pub struct Files {
    root: Option<Root>,
}

impl Files {
    /// With a `root`, all files are below it; it is opened here, so it may get another name later. Users need no
    /// permission for the directories that it is in. A relative one is below the server's directory, and `/` is none.
    ///
    /// # Errors
    ///
    /// With a root: it cannot be opened, or the system has no `openat2` (Linux 5.6).
    pub fn new(root: Option<PathBuf>) -> io::Result<Self> {
        let root = root.filter(|root| root != Path::new("/"));
        Ok(Self { root: root.map(|root| Root::open(&root)).transpose()? })
    }

    /// Whether the server can act as a user at all.
    ///
    /// # Errors
    ///
    /// [`FileError::User`]: it cannot.
    pub fn check_user(&self, user: &User) -> Result<(), FileError> {
        act(user, || Ok(()))
    }

    /// What is at a path; of a symbolic link, the link and where it leads.
    ///
    /// # Errors
    ///
    /// [`FileError::NotFound`]: nothing is.
    pub fn stat(&self, user: &User, path: &Path) -> Result<Entry, FileError> {
        let (place, names) = (self.place(path)?, Names::read());
        act(user, || Entry::at(&place, place.handle()?.as_fd(), &names))
    }

    /// What is in a directory, and in those below it down to `depth`, where 0 counts as 1: each directory before what is
    /// in it, and the names of one in the order of their bytes. If the path is a symbolic link, it is followed; those
    /// below are listed and not followed. What vanishes meanwhile is left out, and so is what is in a directory that the
    /// user may not read, or whose path is so long that no client could name it.
    ///
    /// # Errors
    ///
    /// [`FileError::NotFound`], [`FileError::NotADirectory`]; [`FileError::TooMany`]: there are more than `max_entries`.
    /// [`FileError::TooLarge`]: what is said of them is more than 16 MiB.
    pub fn list(
        &self,
        user: &User,
        path: &Path,
        depth: u32,
        max_entries: usize,
    ) -> Result<Vec<Entry>, FileError> {
        let (place, names) = (self.place(path)?, Names::read());
        let depth = usize::try_from(depth.max(1)).unwrap_or(usize::MAX);
        act(user, || list::list(&place, depth, max_entries, &names))
    }

    /// Whether not everything is served.
    pub const fn is_fenced(&self) -> bool {
        self.root.is_some()
    }

    /// Checks that a directory is there, and among what is served.
    ///
    /// # Errors
    ///
    /// [`FileError::NotFound`], [`FileError::NotADirectory`], [`FileError::OutsideRoot`].
    pub fn check_directory(&self, user: &User, path: &Path) -> Result<(), FileError> {
        let place = self.place(path)?;
        act(user, || place.directory().map(drop))
    }

    /// Whether what has this path, which has no symbolic links in it, is among what is served.
    pub fn holds(&self, real: &Path) -> bool {
        self.root.as_ref().is_none_or(|root| root.holds(real))
    }

    /// Makes a directory, with those that it is in, of mode `0755` less the server's umask.
    ///
    /// # Errors
    ///
    /// [`FileError::Exists`]: it is there. [`FileError::NotADirectory`]: something else is, there or on the way.
    /// [`FileError::NoSpace`], [`FileError::ReadOnly`].
    pub fn make_dir(&self, user: &User, path: &Path) -> Result<Entry, FileError> {
        let (place, names) = (self.place(path)?, Names::read());
        act(user, || Entry::at(&place, make::make_dir(&place)?.as_fd(), &names))
    }

    /// Gives something another path; the directories of that are made. What is there is replaced, if it is a file and a
    /// file replaces it, or an empty directory and a directory does. A symbolic link is renamed itself.
    ///
    /// # Errors
    ///
    /// [`FileError::NotFound`]: there is nothing at `from`; then nothing was made. [`FileError::Exists`]: a directory at
    /// `to` has something in it. [`FileError::IsADirectory`], [`FileError::NotADirectory`]: one of the two is a directory
    /// and the other is none. [`FileError::IntoItself`]: `to` is below `from`. [`FileError::CrossDevice`]: they are on two file systems; nothing is copied.
    /// [`FileError::NoSpace`], [`FileError::ReadOnly`]. [`FileError::Denied`] also for the root.
    pub fn rename(&self, user: &User, from: &Path, to: &Path) -> Result<Entry, FileError> {
        let (from, to, names) = (self.place(from)?, self.place(to)?, Names::read());
        act(user, || {
            make::rename(&from, &to)?;
            Entry::at(&to, to.handle()?.as_fd(), &names)
        })
    }

    /// Removes something, a directory with all that is in it; it need not be there. A symbolic link is removed itself,
    /// wherever it is. It ends at the first thing that cannot be removed, and what was removed before that is.
    ///
    /// # Errors
    ///
    /// [`FileError::ReadOnly`]. [`FileError::Denied`] also for the root. [`FileError::Home`]: it is the user's home.
    pub fn remove(&self, user: &User, path: &Path) -> Result<(), FileError> {
        let place = self.place(path)?;
        if place.path() == path::clean(&user.home) {
            return Err(FileError::Home(place.asked()));
        }
        act(user, || remove::remove(&place))
    }

    /// Opens a regular file for reading; symbolic links are followed. The entry is that of the file which was opened, and
    /// never of a link. A read that would wait (of `/proc/kmsg`, say) fails instead: [`FileError::of_read`].
    ///
    /// # Errors
    ///
    /// [`FileError::NotFound`], [`FileError::IsADirectory`]. [`FileError::NotRegular`]: a FIFO, a socket or a device;
    /// nothing waits for one. [`FileError::Busy`]: somebody has a lease on it.
    pub fn open(&self, user: &User, path: &Path) -> Result<(File, Entry), FileError> {
        let (place, names) = (self.place(path)?, Names::read());
        act(user, || {
            let file = File::from(write::open_regular(&place, OFlags::RDONLY, Mode::empty())?);
            let stat = fstat(&file).map_err(|errno| place.fault(errno))?;
            let entry = Entry::of(place.path(), &stat, file.as_fd(), &names);
            Ok((file, entry))
        })
    }

    /// Opens a regular file for writing, which is empty then. If it is not there, it is made, of the permission bits `mode`
    /// less the server's umask, and so are the directories that it is in; otherwise it keeps owner and permissions.
    /// Symbolic links are followed.
    ///
    /// # Errors
    ///
    /// [`FileError::IsADirectory`], [`FileError::NotRegular`], [`FileError::Busy`], [`FileError::NoSpace`],
    /// [`FileError::ReadOnly`].
    /// [`FileError::NotFound`]: a link leads to a directory that is not there.
    pub fn create(&self, user: &User, path: &Path, mode: u32) -> Result<Writing, FileError> {
        self.create_with(user, path, mode, &BTreeMap::new())
    }

    /// The same with this said about it, as by [`Writing::set_metadata`]. Where that cannot be said nothing has changed in a
    /// file that was there.
    ///
    /// # Errors
    ///
    /// Those of [`create`](Self::create); [`FileError::MetadataUnsupported`], [`FileError::MetadataTooLong`].
    pub fn create_with(
        &self,
        user: &User,
        path: &Path,
        mode: u32,
        metadata: &BTreeMap<String, String>,
    ) -> Result<Writing, FileError> {
        let place = self.place(path)?;
        let file = act(user, || write::create(&place, mode, metadata))?;
        Ok(Writing::new(file, place.path().to_owned(), user.clone()))
    }

    /// Makes one file of many: what is in `sources`, in their order, is written to a temporary file beside `destination`,
    /// which takes its place, of mode `0666` less the server's umask. The sources are removed after that; the destination
    /// may be one of them. The directories of the destination are made; a symbolic link there is replaced. A source that
    /// is a link is read where it leads, and the link is removed.
    ///
    /// # Errors
    ///
    /// [`FileError::NotFound`], [`FileError::IsADirectory`], [`FileError::NotRegular`] and [`FileError::NothingToRead`] of
    /// a source; [`FileError::IsADirectory`] of the destination; [`FileError::NoSpace`], [`FileError::ReadOnly`]. The sources
    /// and what was at the destination are there then, and no temporary file is left. Only if removing a source fails, which is tried for all of them, the destination
    /// is complete and that source there as well.
    pub fn compose(&self, user: &User, sources: &[PathBuf], destination: &Path) -> Result<Entry, FileError> {
        let sources: Vec<Place<'_>> =
            sources.iter().map(|source| self.place(source)).collect::<Result<_, _>>()?;
        let (destination, names) = (self.place(destination)?, Names::read());
        act(user, || compose::compose(&sources, &destination, &names))
    }

    fn place(&self, path: &Path) -> Result<Place<'_>, FileError> {
        Place::new(self.root.as_ref(), path)
    }
}

/// Does something as a user.
fn act<T>(user: &User, work: impl FnOnce() -> Result<T, FileError>) -> Result<T, FileError> {
    match as_user(user, work) {
        Ok(done) => done,
        Err(CannotAct) => Err(FileError::User(user.name.clone())),
    }
}
