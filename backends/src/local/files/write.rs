//! Writing a file.

use super::{
    super::{User, user::Names},
    Entry, FileError, act, make, metadata,
    place::{HANDLE, Place},
};
use rustix::fs::{FileType, Mode, OFlags, fstat, ftruncate};
use std::{
    collections::BTreeMap,
    fs::File,
    io::Write,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
};

/// A file that is being written. What was written stays if this is dropped.
#[derive(Debug)]
pub struct Writing {
    file: File,
    path: PathBuf,
    user: User,
}

impl Writing {
    pub(super) const fn new(file: File, path: PathBuf, user: User) -> Self {
        Self { file, path, user }
    }

    /// Writes all of `bytes` behind what was written. As the user, here too: the last blocks of a file system are kept
    /// for root, and a program that another writes to must lose the rights of its owner.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        let (file, path) = (&mut self.file, &self.path);
        act(&self.user, || file.write_all(bytes).map_err(|error| FileError::of_io(&error, path)))
    }

    /// Says each of these about the file; what else was said about it stays. That a file system holds no metadata is an
    /// error only where there is some.
    pub fn set_metadata(&mut self, metadata: &BTreeMap<String, String>) -> Result<(), FileError> {
        act(&self.user, || metadata::write(self.file.as_fd(), metadata, &self.path))
    }

    /// What was written, as it is now. Nothing waits until it is on the disk.
    pub fn finish(self) -> Result<Entry, FileError> {
        let names = Names::read();
        act(&self.user, || {
            let stat = fstat(&self.file).map_err(|errno| FileError::of(errno, &self.path))?;
            Ok(Entry::of(&self.path, &stat, self.file.as_fd(), &names))
        })
    }
}

/// Opens a file for writing that is empty then, and new if there was none; so are the directories that it is in.
///
/// What is to be said about it is said before: a file about which that cannot be said keeps what is in it.
pub(super) fn create(
    place: &Place<'_>,
    mode: u32,
    metadata: &BTreeMap<String, String>,
) -> Result<File, FileError> {
    let flags = OFlags::WRONLY | OFlags::CREATE;
    let mode = Mode::from_raw_mode(mode & 0o777);
    let file = match open_regular(place, flags, mode) {
        Err(FileError::NotFound(_)) => {
            let (parent, _) = place.changeable()?;
            drop(make::ensure(&parent)?);
            open_regular(place, flags, mode)?
        }
        opened => opened?,
    };
    if !metadata.is_empty() {
        metadata::write(file.as_fd(), metadata, place.path())?;
    }
    ftruncate(&file, 0).map_err(|errno| place.fault(errno))?;
    Ok(File::from(file))
}

/// Opens a regular file, and nothing that could block whoever opens it, or reads or writes it then.
pub(super) fn open_regular(place: &Place<'_>, flags: OFlags, mode: Mode) -> Result<OwnedFd, FileError> {
    // Whoever opens a FIFO is its reader, and loses what is written to it by who waited for one.
    match place.open(HANDLE, Mode::empty()) {
        Ok(there) => check_regular(place, &there)?,
        Err(FileError::NotFound(_)) if flags.contains(OFlags::CREATE) => {}
        Err(error) => return Err(error),
    }
    // It stays non-blocking: files on disks do not mind, and one of /proc or of FUSE must not keep a thread.
    let file = place.open(flags | OFlags::NONBLOCK | OFlags::NOCTTY, mode)?;
    // Something else may have come there meanwhile.
    check_regular(place, &file)?;
    Ok(file)
}

fn check_regular(place: &Place<'_>, file: &OwnedFd) -> Result<(), FileError> {
    let stat = fstat(file).map_err(|errno| place.fault(errno))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(FileError::IsADirectory(place.asked())),
        FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Err(FileError::NotRegular(place.asked())),
    }
}
