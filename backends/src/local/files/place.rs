//! Where a path is looked up: below the root that files are served from, or anywhere.

use super::{FileError, error::shown, path::clean};
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, Stat, openat, openat2, readlinkat},
    io::{Errno, retry_on_intr},
};
use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Path, PathBuf},
    rc::Rc,
};

/// A descriptor that stands for something and reads nothing.
pub(super) const HANDLE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// How often something is tried again that others changed in the middle of it.
pub(super) const TRIES: usize = 32;

/// The directory that files are served from.
#[derive(Debug)]
pub(super) struct Root {
    descriptor: OwnedFd,
    /// As clients name it.
    path: PathBuf,
    /// As the system names it.
    real: PathBuf,
}

impl Root {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = clean(&std::path::absolute(path)?);
        // Also asks whether the system has the call.
        let descriptor =
            openat2(CWD, &path, HANDLE | OFlags::DIRECTORY, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?;
        let real = real_path(descriptor.as_fd()).unwrap_or_else(|| path.clone());
        Ok(Self { descriptor, path, real })
    }

    /// Whether it is the place of this path, or above it.
    pub(super) fn holds(&self, real: &Path) -> bool {
        // It may have been moved.
        real_path(self.descriptor.as_fd()).is_some_and(|root| real.starts_with(root))
    }

    fn open_beneath(
        &self,
        path: &Path,
        flags: OFlags,
        mode: Mode,
        resolve: ResolveFlags,
    ) -> Result<OwnedFd, Errno> {
        let resolve = resolve | ResolveFlags::BENEATH;
        let mut found = Err(Errno::AGAIN);
        for _ in 0..TRIES {
            found = retry_on_intr(|| openat2(&self.descriptor, path, flags, mode, resolve));
            // The system does not know whether a `..` left while a directory is renamed, and says so.
            if !matches!(found, Err(Errno::AGAIN)) {
                break;
            }
        }
        found
    }
}

/// A path of a client.
#[derive(Clone, Debug)]
pub(super) struct Place<'a> {
    root: Option<&'a Root>,
    /// As the client names it: absolute and clean.
    path: PathBuf,
    /// What the client asked for, of which errors tell: this, or what is done in it or on the way to it.
    asked: Rc<Path>,
}

impl<'a> Place<'a> {
    pub(super) fn new(root: Option<&'a Root>, path: &Path) -> Result<Self, FileError> {
        let path = clean(path);
        let place = Self { root, asked: path.as_path().into(), path };
        if root.is_some_and(|root| !place.path.starts_with(&root.path)) {
            return Err(FileError::OutsideRoot(place.asked()));
        }
        Ok(place)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What the client asked for, as it is shown that.
    pub(super) fn asked(&self) -> String {
        shown(&self.asked)
    }

    /// Where it is, and its name there. None for the root: what that is in is not served.
    pub(super) fn parent(&self) -> Option<(Self, &OsStr)> {
        if self.root.is_some_and(|root| root.path == self.path) {
            return None;
        }
        Some((self.with(self.path.parent()?.to_owned()), self.path.file_name()?))
    }

    /// As [`parent`](Self::parent), for what is about to change there.
    pub(super) fn changeable(&self) -> Result<(Self, &OsStr), FileError> {
        self.parent().ok_or_else(|| self.fault(Errno::ACCESS))
    }

    pub(super) fn child(&self, name: &OsStr) -> Self {
        self.with(self.path.join(name))
    }

    fn with(&self, path: PathBuf) -> Self {
        Self { root: self.root, path, asked: Rc::clone(&self.asked) }
    }

    /// The error of what the client asked for.
    pub(super) fn fault(&self, errno: Errno) -> FileError {
        FileError::of(errno, &self.asked)
    }

    /// Opens it, for this process alone. Symbolic links are followed, the last one unless `flags` say otherwise.
    pub(super) fn open(&self, flags: OFlags, mode: Mode) -> Result<OwnedFd, FileError> {
        let flags = flags | OFlags::CLOEXEC;
        let Some(root) = self.root else {
            return retry_on_intr(|| openat(CWD, &self.path, flags, mode)).map_err(|errno| self.fault(errno));
        };
        let path = match self.path.strip_prefix(&root.path) {
            Ok(path) if path != Path::new("") => path,
            Ok(_) | Err(_) => Path::new("."),
        };
        let outside = || FileError::OutsideRoot(self.asked());
        match root.open_beneath(path, flags, mode, ResolveFlags::NO_MAGICLINKS) {
            Ok(found) => Ok(found),
            Err(Errno::XDEV) => Err(outside()),
            // A circle, or a link of /proc that leads anywhere.
            Err(Errno::LOOP) => match root.open_beneath(path, HANDLE, Mode::empty(), ResolveFlags::empty()) {
                Err(Errno::XDEV) => Err(outside()),
                Ok(_) | Err(_) => Err(self.fault(Errno::LOOP)),
            },
            Err(errno) => Err(self.fault(errno)),
        }
    }

    /// Stands for the thing itself: a symbolic link is not followed.
    pub(super) fn handle(&self) -> Result<OwnedFd, FileError> {
        self.open(HANDLE | OFlags::NOFOLLOW, Mode::empty())
    }

    /// Stands for the directory that it is, or that it leads to.
    pub(super) fn directory(&self) -> Result<OwnedFd, FileError> {
        self.open(HANDLE | OFlags::DIRECTORY, Mode::empty())
    }

    /// The path of something open, without symbolic links, as the client would name it. None where it has none.
    pub(super) fn resolved(&self, open: BorrowedFd<'_>) -> Option<PathBuf> {
        let real = real_path(open)?;
        let Some(root) = self.root else { return Some(real) };
        real.strip_prefix(&root.real).ok().map(|below| clean(&root.path.join(below)))
    }
}

/// The path by which a descriptor can be asked what only a path can be asked.
pub(super) fn path_of_descriptor(descriptor: BorrowedFd<'_>) -> String {
    format!("/proc/thread-self/fd/{}", descriptor.as_raw_fd())
}

fn real_path(descriptor: BorrowedFd<'_>) -> Option<PathBuf> {
    let path = readlinkat(CWD, path_of_descriptor(descriptor), Vec::new()).ok()?;
    // Something else stands there for what has no path: `pipe:[7]`.
    Some(PathBuf::from(OsString::from_vec(path.into_bytes()))).filter(|path| path.is_absolute())
}

/// Which file something is, as long as it is there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Identity {
    device: u64,
    number: u64,
}

impl Identity {
    pub(super) fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev, number: stat.st_ino }
    }
}
