//! Removing a file, or a directory with all that is in it.
//!
//! It goes down by descriptors and never by a path, so a link that somebody puts in the way leads nowhere else. However
//! deep that is, few of them are open: a directory whose own was given up is found again as the `..` of the one below, and
//! if that is another directory by then, everything begins anew from the top.

use super::{
    FileError,
    place::{Identity, Place, TRIES},
};
use rustix::{
    fs::{AtFlags, Dir, Mode, OFlags, fstat, openat, unlinkat},
    io::Errno,
};
use std::{
    ffi::{CStr, CString},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
};

/// How many directories are open at once.
const OPEN: usize = 16;

const READ: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes what is there, if there is something. A link is removed, and not what it leads to.
pub(super) fn remove(place: &Place<'_>) -> Result<(), FileError> {
    let (parent, name) = place.changeable()?;
    let parent = match parent.directory() {
        Ok(parent) => parent,
        Err(FileError::NotFound(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    let name = CString::new(name.as_bytes()).map_err(|_| place.fault(Errno::INVAL))?;
    let mut tries = 0;
    loop {
        match remove_in(parent.as_fd(), &name) {
            // Somebody moves directories out of the tree, or puts new things into it.
            Err(Errno::STALE | Errno::NOTEMPTY) if tries < TRIES => tries += 1,
            Err(Errno::STALE | Errno::NOTEMPTY) => {
                return Err(FileError::Io(format!("{}: it changes while it is removed", place.asked())));
            }
            done => return done.map_err(|errno| place.fault(errno)),
        }
    }
}

/// A directory on the way down.
struct Step {
    name: CString,
    identity: Identity,
    /// None where it was given up.
    directory: Option<Dir>,
}

impl Step {
    /// None where it is no directory any more.
    fn down(parent: BorrowedFd<'_>, name: &CStr) -> Result<Option<Self>, Errno> {
        let directory = match openat(parent, name, READ, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let identity = Identity::of(&fstat(&directory)?);
        Ok(Some(Self { name: name.into(), identity, directory: Some(Dir::new(directory)?) }))
    }

    /// Opens it again, if it was given up, from the one below.
    fn find(&mut self, below: BorrowedFd<'_>) -> Result<(), Errno> {
        if self.directory.is_none() {
            let directory = openat(below, "..", READ, Mode::empty())?;
            if Identity::of(&fstat(&directory)?) != self.identity {
                return Err(Errno::STALE);
            }
            self.directory = Some(Dir::new(directory)?);
        }
        Ok(())
    }

    fn open(&mut self) -> Result<&mut Dir, Errno> {
        self.directory.as_mut().ok_or(Errno::STALE)
    }
}

fn remove_in(top: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    if remove_one(top, name)? {
        return Ok(());
    }
    let mut steps: Vec<Step> = Step::down(top, name)?.into_iter().collect();
    while let Some(step) = steps.last_mut() {
        let directory = step.open()?;
        let name = match directory.read() {
            Some(Ok(entry)) if matches!(entry.file_name().to_bytes(), b"." | b"..") => continue,
            Some(Ok(entry)) => CString::from(entry.file_name()),
            // At its end, or removed by somebody else.
            None | Some(Err(Errno::NOENT)) => {
                leave(top, &mut steps)?;
                continue;
            }
            Some(Err(errno)) => return Err(errno),
        };
        let directory = directory.fd()?;
        if !remove_one(directory, &name)? {
            let below = Step::down(directory, &name)?;
            steps.extend(below);
            if let Some(far) = steps.len().checked_sub(OPEN + 1) {
                steps[far].directory = None;
            }
        }
    }
    // Whatever took the place of something that was no directory any more.
    if remove_one(top, name)? { Ok(()) } else { Err(Errno::NOTEMPTY) }
}

/// Removes the last directory, whose content is.
fn leave(top: BorrowedFd<'_>, steps: &mut Vec<Step>) -> Result<(), Errno> {
    let Some(mut empty) = steps.pop() else { return Ok(()) };
    let parent = match steps.last_mut() {
        None => top,
        Some(parent) => {
            parent.find(empty.open()?.fd()?)?;
            parent.open()?.fd()?
        }
    };
    if remove_one(parent, &empty.name)? { Ok(()) } else { Err(Errno::NOTEMPTY) }
}

/// Removes a file, or an empty directory. False for a directory with something in it.
fn remove_one(parent: BorrowedFd<'_>, name: &CStr) -> Result<bool, Errno> {
    for _ in 0..TRIES {
        let as_file = match unlinkat(parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(true),
            // Some file systems say the second of a directory.
            Err(errno @ (Errno::ISDIR | Errno::PERM)) => errno,
            Err(errno) => return Err(errno),
        };
        match unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(false),
            Err(Errno::NOTDIR) if as_file == Errno::PERM => return Err(as_file),
            // A file took its place.
            Err(Errno::NOTDIR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::STALE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_directory_that_was_given_up_is_found_from_below_unless_that_was_moved() {
        let folder = std::env::temp_dir().join(format!("hangar-remove-{}", std::process::id()));
        fs::create_dir_all(folder.join("a/b/c")).unwrap();
        let top = std::os::fd::OwnedFd::from(fs::File::open(&folder).unwrap());
        let down = |parent: &mut Step, name| Step::down(parent.open().unwrap().fd().unwrap(), name).unwrap();
        let mut a = Step::down(top.as_fd(), c"a").unwrap().unwrap();
        let mut b = down(&mut a, c"b").unwrap();
        let mut c = down(&mut b, c"c").unwrap();
        assert!(down(&mut c, c"d").is_none());
        a.directory = None;
        assert_eq!(a.find(b.open().unwrap().fd().unwrap()), Ok(()));
        a.directory = None;
        b.directory = None;
        fs::rename(folder.join("a/b/c"), folder.join("c")).unwrap();
        // What is above it now is another, in which nothing is to be removed.
        assert_eq!(b.find(c.open().unwrap().fd().unwrap()), Err(Errno::STALE));
        assert!(b.directory.is_none());
        fs::rename(folder.join("c"), folder.join("a/b/c")).unwrap();
        assert_eq!(b.find(c.open().unwrap().fd().unwrap()), Ok(()));
        fs::remove_dir_all(folder).unwrap();
    }
}
