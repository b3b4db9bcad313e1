//! What can be wrong with a file, and what a client is told of it.

use rustix::io::Errno;
use std::{io, path::Path};

/// Why a file operation was not done. What a variant holds is the path that the client gave, where nothing else is said;
/// what is not UTF-8 in it is replaced.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FileError {
    /// There is nothing of this name, or a directory on the way there is missing.
    #[error("{0}: no such file or directory")]
    NotFound(String),
    /// It, or something on the way there, would have to be a directory and is none.
    #[error("{0}: not a directory")]
    NotADirectory(String),
    /// It is a directory, and would have to be a file.
    #[error("{0}: is a directory")]
    IsADirectory(String),
    /// It is there already; where a directory would be replaced: with something in it.
    #[error("{0}: already exists")]
    Exists(String),
    /// The user may not do this.
    #[error("{0}: permission denied")]
    Denied(String),
    /// Symbolic links lead on and on, or in a circle.
    #[error("{0}: too many symbolic links")]
    Loop(String),
    /// It is a FIFO, a socket or a device: no file that has a content of its own.
    #[error("{0}: not a regular file")]
    NotRegular(String),
    /// Somebody else uses it: it is a program that runs, or who has a lease on it has not given that back.
    #[error("{0}: in use")]
    Busy(String),
    /// It is none that has a content of its own: what it gives comes from elsewhere, and there is nothing now.
    #[error("{0}: it has nothing to read now")]
    NothingToRead(String),
    /// The file system is full, or the user's share of it.
    #[error("{0}: no space left")]
    NoSpace(String),
    /// The file system cannot be changed.
    #[error("{0}: the file system is read-only")]
    ReadOnly(String),
    /// The path, or a symbolic link in it, leads out of the directory that files are served from.
    #[error("{0}: outside of the directory that files are served from")]
    OutsideRoot(String),
    /// A listing would have more entries than it may have.
    #[error("{path}: more than {max} entries")]
    TooMany {
        /// The directory.
        path: String,
        /// How many entries there may be.
        max: usize,
    },
    /// A listing would have more bytes of paths, names and what else is said of the entries than it may have.
    #[error("{path}: more than {max} bytes of entries")]
    TooLarge {
        /// The directory.
        path: String,
        /// How many bytes there may be.
        max: usize,
    },
    /// A name in it has more than 255 bytes, or the path more than 4,095.
    #[error("{0}: the name is too long")]
    TooLong(String),
    /// What is renamed is on another file system than this path. It is not copied.
    #[error("{0}: on another file system")]
    CrossDevice(String),
    /// It would become a part of itself: the path is below what is renamed.
    #[error("{0}: within what is renamed")]
    IntoItself(String),
    /// It is the user's home: that is not removed as a whole, as whoever asks for it has rather left a path empty.
    #[error("{0}: a home directory is not removed")]
    Home(String),
    /// The file system holds no metadata.
    #[error("{0}: the file system holds no metadata")]
    MetadataUnsupported(String),
    /// The name or the value of a piece of metadata is longer than the system takes: 255 bytes with its prefix, and
    /// 65,536 bytes.
    #[error("{0}: metadata is too long")]
    MetadataTooLong(String),
    /// The server cannot act as this user: the name is in it.
    #[error("the server cannot act as {0}")]
    User(String),
    /// Everything else: the path, and what the system says.
    #[error("{0}")]
    Io(String),
}

impl FileError {
    /// What the system says about `path`.
    pub(super) fn of(errno: Errno, path: &Path) -> Self {
        let shown = shown(path);
        match errno {
            // The second: below the directory in /proc of a process that has ended.
            Errno::NOENT | Errno::SRCH => Self::NotFound(shown),
            Errno::NOTDIR => Self::NotADirectory(shown),
            Errno::ISDIR => Self::IsADirectory(shown),
            Errno::EXIST | Errno::NOTEMPTY => Self::Exists(shown),
            Errno::ACCESS | Errno::PERM => Self::Denied(shown),
            Errno::LOOP => Self::Loop(shown),
            // A FIFO that nobody reads, or a socket.
            Errno::NXIO => Self::NotRegular(shown),
            Errno::TXTBSY | Errno::AGAIN => Self::Busy(shown),
            Errno::NOSPC | Errno::DQUOT => Self::NoSpace(shown),
            Errno::ROFS => Self::ReadOnly(shown),
            Errno::NAMETOOLONG => Self::TooLong(shown),
            Errno::XDEV => Self::CrossDevice(shown),
            _ => Self::Io(format!("{shown}: {}", io::Error::from(errno))),
        }
    }

    /// What a read of `path` failed with.
    pub fn of_read(error: &io::Error, path: &Path) -> Self {
        if error.kind() == io::ErrorKind::WouldBlock {
            return Self::NothingToRead(shown(path));
        }
        Self::of_io(error, path)
    }

    /// As [`of`](Self::of), of an error of std.
    pub(super) fn of_io(error: &io::Error, path: &Path) -> Self {
        match Errno::from_io_error(error) {
            Some(errno) => Self::of(errno, path),
            None => Self::Io(format!("{}: {error}", shown(path))),
        }
    }
}

/// A path as a client is shown it.
pub(super) fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_error_and_names_the_path() {
        let path = || "/a b".to_owned();
        for (errno, error, message) in [
            (Errno::NOENT, FileError::NotFound(path()), "/a b: no such file or directory"),
            (Errno::SRCH, FileError::NotFound(path()), "/a b: no such file or directory"),
            (Errno::NOTDIR, FileError::NotADirectory(path()), "/a b: not a directory"),
            (Errno::ISDIR, FileError::IsADirectory(path()), "/a b: is a directory"),
            (Errno::EXIST, FileError::Exists(path()), "/a b: already exists"),
            (Errno::NOTEMPTY, FileError::Exists(path()), "/a b: already exists"),
            (Errno::ACCESS, FileError::Denied(path()), "/a b: permission denied"),
            (Errno::PERM, FileError::Denied(path()), "/a b: permission denied"),
            (Errno::LOOP, FileError::Loop(path()), "/a b: too many symbolic links"),
            (Errno::NXIO, FileError::NotRegular(path()), "/a b: not a regular file"),
            (Errno::TXTBSY, FileError::Busy(path()), "/a b: in use"),
            (Errno::AGAIN, FileError::Busy(path()), "/a b: in use"),
            (Errno::NOSPC, FileError::NoSpace(path()), "/a b: no space left"),
            (Errno::DQUOT, FileError::NoSpace(path()), "/a b: no space left"),
            (Errno::ROFS, FileError::ReadOnly(path()), "/a b: the file system is read-only"),
            (Errno::NAMETOOLONG, FileError::TooLong(path()), "/a b: the name is too long"),
            (Errno::XDEV, FileError::CrossDevice(path()), "/a b: on another file system"),
        ] {
            assert_eq!(FileError::of(errno, "/a b".as_ref()), error);
            assert_eq!(FileError::of_io(&errno.into(), "/a b".as_ref()), error);
            assert_eq!(error.to_string(), message);
        }
        let rest = "/a b: Input/output error (os error 5)";
        assert_eq!(FileError::of(Errno::IO, "/a b".as_ref()), FileError::Io(rest.into()));
        let own = FileError::of_io(&io::Error::other("odd"), "/a b".as_ref());
        assert_eq!(own, FileError::Io("/a b: odd".into()));
        let again = io::Error::from(Errno::AGAIN);
        let nothing = FileError::of_read(&again, "/a b".as_ref());
        assert_eq!(nothing, FileError::NothingToRead(path()));
        assert_eq!(nothing.to_string(), "/a b: it has nothing to read now");
        assert_eq!(
            FileError::of_read(&Errno::ISDIR.into(), "/a b".as_ref()),
            FileError::IsADirectory(path())
        );
        let many = FileError::TooMany { path: path(), max: 7 };
        assert_eq!(many.to_string(), "/a b: more than 7 entries");
        assert_eq!(FileError::User("bob".into()).to_string(), "the server cannot act as bob");
    }
}
