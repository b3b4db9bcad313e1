//! Making directories, and giving things another name.

use super::{
    FileError,
    place::{HANDLE, Place, TRIES},
};
use rustix::{
    fs::{Access, AtFlags, FileType, Mode, OFlags, accessat, fstat, mkdirat, openat, renameat, statat},
    io::Errno,
};
use std::os::fd::OwnedFd;

/// What a new directory may be used for; the server's umask takes from it.
const MODE: Mode = Mode::from_raw_mode(0o755);

/// Makes a directory that was not there, with those that it is in.
pub(super) fn make_dir(place: &Place<'_>) -> Result<OwnedFd, FileError> {
    match place.open(HANDLE, Mode::empty()) {
        Ok(there) => {
            let stat = fstat(&there).map_err(|errno| place.fault(errno))?;
            return Err(place.fault(taken_by(stat.st_mode)));
        }
        Err(FileError::NotFound(_)) => {}
        Err(error) => return Err(error),
    }
    let (parent, name) = place.changeable()?;
    let parent = ensure(&parent)?;
    match mkdirat(&parent, name, MODE) {
        Ok(()) => {}
        Err(Errno::EXIST) => {
            // Since a moment ago, or a link that leads nowhere.
            let there = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW);
            let mode = there.map_err(|errno| place.fault(errno))?.st_mode;
            return Err(place.fault(taken_by(mode)));
        }
        Err(errno) => return Err(place.fault(errno)),
    }
    openat(&parent, name, HANDLE | OFlags::NOFOLLOW, Mode::empty()).map_err(|errno| place.fault(errno))
}

fn taken_by(mode: u32) -> Errno {
    if FileType::from_raw_mode(mode) == FileType::Directory { Errno::EXIST } else { Errno::NOTDIR }
}

/// Stands for a directory, which is made if it is not there, with those that it is in.
pub(super) fn ensure(place: &Place<'_>) -> Result<OwnedFd, FileError> {
    let open = |place: &Place<'_>| match place.directory() {
        Ok(there) => Ok(Some(there)),
        Err(FileError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    };
    // Others may make and remove the same ones.
    for _ in 0..TRIES {
        if let Some(there) = open(place)? {
            return Ok(there);
        }
        let mut missing = Vec::new();
        let mut above = place.clone();
        let mut directory = loop {
            let Some((parent, name)) = above.parent() else { return Err(place.fault(Errno::NOENT)) };
            missing.push(name.to_owned());
            if let Some(there) = open(&parent)? {
                break there;
            }
            above = parent;
        };
        loop {
            let Some(name) = missing.pop() else { return Ok(directory) };
            match mkdirat(&directory, &name, MODE) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(Errno::NOENT) => break,
                Err(errno) => return Err(place.fault(errno)),
            }
            let flags = HANDLE | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            match openat(&directory, &name, flags, Mode::empty()) {
                Ok(next) => directory = next,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => break,
                Err(errno) => return Err(place.fault(errno)),
            }
        }
    }
    // What is in the way was no directory again and again: a link that leads nowhere.
    Err(place.fault(Errno::NOTDIR))
}

/// Gives it another name, in a directory that is made if it is not there.
pub(super) fn rename(from: &Place<'_>, to: &Place<'_>) -> Result<(), FileError> {
    let (from_parent, from_name) = from.changeable()?;
    let (to_parent, to_name) = to.changeable()?;
    // Before directories are made for it.
    drop(from.handle()?);
    let from_directory = from_parent.directory()?;
    let to_directory = ensure(&to_parent)?;
    renameat(&from_directory, from_name, &to_directory, to_name).map_err(|errno| match errno {
        Errno::NOENT => from.fault(errno),
        // It is not said of which of the two; EPERM: it belongs to somebody else, in a directory for all.
        Errno::PERM => from.fault(errno),
        Errno::ACCESS if !can_change(&from_directory) => from.fault(errno),
        Errno::INVAL => FileError::IntoItself(to.asked()),
        _ => to.fault(errno),
    })
}

/// Whether the thread may make and remove names in a directory.
pub(super) fn can_change(directory: &OwnedFd) -> bool {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    match accessat(directory, ".", access, AtFlags::EACCESS) {
        // Before Linux 5.8 nobody can be asked.
        Ok(()) | Err(Errno::NOSYS) => true,
        Err(_) => false,
    }
}
