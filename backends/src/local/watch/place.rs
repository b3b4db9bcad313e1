//! The directories of a watch on the disk: opened and listed as its user, without following a link below the watched one.

use super::{
    inotify::{Inotify, as_path},
    mounts::{identity, is_network},
};
use crate::{
    local::{User, acting::as_user, files::BadPath},
    watching::WatchError,
};
use bytes::Bytes;
use hangar_core::watch::{Blind, Entry, Scanned};
use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, readlinkat, statat},
    io::{Errno, retry_on_intr},
};
use std::{
    ffi::OsString,
    mem::replace,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
};

/// Names that are listed at a time.
const NAMES: usize = 512;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// To find a directory nothing is read, so nobody has to be allowed to, and its file system is not asked.
const FOUND: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Below the watched one no link is followed.
const WAY: OFlags = FOUND.union(OFlags::NOFOLLOW);

/// The directory that is watched.
#[derive(Debug)]
pub(super) struct Root {
    /// Without symbolic links.
    real: PathBuf,
    /// Which one it is: its path may be another's by now.
    identity: (u64, u64),
    user: User,
    network: bool,
}

/// Why a directory was not scanned.
#[derive(Debug)]
pub(super) enum Fault {
    /// It is watched not; what else there is is.
    Blind(Blind),
    /// Nothing more can be watched.
    Watch(WatchError),
}

/// A directory that is being listed.
#[derive(Debug)]
pub(super) struct Open {
    directory: Dir,
    path: Bytes,
    /// Its file system failed in the middle of it.
    is_broken: bool,
}

impl Root {
    /// Finds it. `path` is absolute.
    pub(super) fn find(path: &Path, user: User, network: bool) -> Result<Self, WatchError> {
        let shown = || path.to_string_lossy().into_owned();
        let failed = |errno| fault(errno, shown());
        let found = as_user(&user, || {
            let directory = retry_on_intr(|| openat(CWD, path, FOUND, Mode::empty())).map_err(failed)?;
            let identity = identity(directory.as_fd()).map_err(failed)?;
            if !network && is_network(directory.as_fd(), identity.0) {
                return Err(WatchError::Network(shown()));
            }
            let no_proc = |_| WatchError::Broken("there is no /proc, which watching needs".into());
            let real = real_path(directory.as_fd()).map_err(no_proc)?;
            // Whether it may be read.
            readable(directory.as_fd()).map_err(failed)?;
            Ok((real, identity))
        });
        let denied = |_| Err(WatchError::BadUser(format!("nothing can be read as {}", user.name)));
        let (real, identity) = found.unwrap_or_else(denied)?;
        Ok(Self { real, identity, user, network })
    }

    /// Without symbolic links.
    pub(super) fn path(&self) -> &Path {
        &self.real
    }

    /// Arms the directory at `path`, and begins to list it.
    pub(super) fn scan(&self, inotify: &Inotify, path: &[u8]) -> Result<(Scanned, Open), Fault> {
        let scanned = self.act(|| {
            let (found, above) = self.open(path)?;
            if !self.network && self.enters_network(found.as_fd(), above)? {
                return Err(Fault::Blind(Blind::Network));
            }
            let directory = readable(found.as_fd()).map_err(not_opened)?;
            let wd = inotify.add(directory.as_fd()).map_err(not_added)?;
            Ok((wd, directory))
        });
        let (wd, directory) = scanned.map_err(|fault| match fault {
            // Without it there is nothing to watch.
            Fault::Blind(Blind::Denied) if path.is_empty() => {
                Fault::Watch(WatchError::Denied(self.real.to_string_lossy().into_owned()))
            }
            fault @ (Fault::Blind(_) | Fault::Watch(_)) => fault,
        })?;
        let above = match self.real.file_name().filter(|_| path.is_empty()) {
            // As the server: its user need not be allowed to read it, and learns nothing of it.
            Some(name) => inotify
                .add_above(directory.as_fd())
                .ok()
                .map(|above| (above, Bytes::copy_from_slice(name.as_bytes()))),
            None => None,
        };
        let mut open = Open::new(directory, path).map_err(not_opened)?;
        let (entries, is_all) = open.list();
        Ok((Scanned { wd, above, entries, is_all }, open))
    }

    /// Whether there is something at `path`.
    pub(super) fn look(&self, path: &[u8]) -> bool {
        let (way, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&path[..0], path),
        };
        let found = self.act(|| {
            let (directory, _) = self.open(way)?;
            statat(&directory, as_path(name), AtFlags::SYMLINK_NOFOLLOW).map_err(not_opened)
        });
        found.is_ok()
    }

    fn act<T>(&self, work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
        let denied =
            |_| Err(Fault::Watch(WatchError::BadUser(format!("nothing can be read as {}", self.user.name))));
        as_user(&self.user, work).unwrap_or_else(denied)
    }

    /// Finds the directory at `path`, name by name: a path may be longer than the system takes. With the one that it is in.
    fn open(&self, path: &[u8]) -> Result<(OwnedFd, Option<OwnedFd>), Fault> {
        let mut directory =
            retry_on_intr(|| openat(CWD, &self.real, WAY, Mode::empty())).map_err(not_opened)?;
        if identity(directory.as_fd()).map_err(not_opened)? != self.identity {
            return Err(Fault::Blind(Blind::Gone));
        }
        let mut above = None;
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            let next = retry_on_intr(|| openat(&directory, as_path(name), WAY, Mode::empty()));
            above = Some(replace(&mut directory, next.map_err(not_opened)?));
        }
        Ok((directory, above))
    }

    /// Whether a directory is on a file system whose changes are not all seen, which the one that it is in is not on.
    fn enters_network(&self, directory: BorrowedFd<'_>, above: Option<OwnedFd>) -> Result<bool, Fault> {
        let before = match above {
            Some(above) => identity(above.as_fd()).map_err(not_opened)?.0,
            None => self.identity.0,
        };
        let (device, _) = identity(directory).map_err(not_opened)?;
        Ok(device != before && is_network(directory, device))
    }
}

impl Open {
    fn new(directory: OwnedFd, path: &[u8]) -> Result<Self, Errno> {
        let path = Bytes::copy_from_slice(if path.is_empty() { b"." } else { path });
        Ok(Self { directory: Dir::new(directory)?, path, is_broken: false })
    }

    /// What it is called, if its file system does not say what else is in it.
    pub(super) fn broken(&self) -> Option<Bytes> {
        self.is_broken.then(|| self.path.clone())
    }

    /// The next names, and whether those are the last.
    pub(super) fn list(&mut self) -> (Vec<Entry>, bool) {
        let mut entries = Vec::new();
        while entries.len() < NAMES {
            let found = match self.directory.read() {
                Some(Ok(found)) => found,
                // It was removed meanwhile.
                None | Some(Err(Errno::NOENT)) => return (entries, true),
                Some(Err(_)) => {
                    self.is_broken = true;
                    return (entries, true);
                }
            };
            let name = found.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = found.file_type();
            let is_dir = kind == FileType::Directory || kind == FileType::Unknown && self.is_dir(name);
            entries.push(Entry { name: Bytes::copy_from_slice(name), is_dir });
        }
        (entries, false)
    }

    fn is_dir(&self, name: &[u8]) -> bool {
        let stat = self.directory.fd().and_then(|fd| statat(fd, as_path(name), AtFlags::SYMLINK_NOFOLLOW));
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }
}

/// Opens a directory that was found, to read it.
fn readable(directory: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/thread-self/fd/{}", directory.as_raw_fd());
    retry_on_intr(|| openat(CWD, &path, DIRECTORY, Mode::empty()))
}

fn real_path(directory: BorrowedFd<'_>) -> Result<PathBuf, Errno> {
    let path = readlinkat(CWD, format!("/proc/thread-self/fd/{}", directory.as_raw_fd()), Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(path.into_bytes())))
}

fn not_opened(errno: Errno) -> Fault {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE => Fault::Blind(Blind::Gone),
        // These are about the server. Everything else is about the directory, whatever its file system says.
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => Fault::Watch(WatchError::Broken(errno.to_string())),
        _ => Fault::Blind(Blind::Denied),
    }
}

fn not_added(errno: Errno) -> Fault {
    match errno {
        Errno::NOSPC => Fault::Watch(WatchError::TooManyWatches),
        errno => not_opened(errno),
    }
}

fn fault(errno: Errno, path: String) -> WatchError {
    match errno {
        Errno::NOENT => WatchError::NotFound(path),
        Errno::NOTDIR => WatchError::NotADirectory(path),
        Errno::ACCESS | Errno::PERM => WatchError::Denied(path),
        Errno::LOOP => WatchError::BadPath("it goes through too many symbolic links".into()),
        Errno::NAMETOOLONG => WatchError::BadPath("it is longer than the system takes".into()),
        errno => WatchError::Broken(errno.to_string()),
    }
}

impl From<BadPath> for WatchError {
    fn from(error: BadPath) -> Self {
        Self::BadPath(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_that_fails_in_the_middle_is_not_a_whole_one() {
        let null = retry_on_intr(|| openat(CWD, "/dev/null", OFlags::RDONLY, Mode::empty())).unwrap();
        let mut open = Open::new(null, b"a/b").unwrap();
        assert_eq!((open.list(), open.broken()), ((Vec::new(), true), Some(Bytes::from_static(b"a/b"))));
        let root = retry_on_intr(|| openat(CWD, "/", DIRECTORY, Mode::empty())).unwrap();
        let mut open = Open::new(root, b"").unwrap();
        assert!(!open.list().0.is_empty());
        assert_eq!(open.broken(), None);
    }
}
