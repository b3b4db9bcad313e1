//! What is in a directory, and below it.

use super::{
    super::user::Names,
    Entry, FileError,
    place::{HANDLE, Identity, Place},
};
use rustix::{
    fs::{Dir, FileType, Mode, OFlags, fstat, openat},
    io::Errno,
};
use std::{
    ffi::{CString, OsStr},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
};

/// Bytes of all that is text in a listing, at the most: of paths, which repeat the directory's, names, links and metadata.
const MAX_BYTES: usize = 16 * 1024 * 1024;

const READ: OFlags = OFlags::DIRECTORY;

/// Everything below `place`, in the order in which a walk comes by: a directory before what is in it, and the names of
/// each in the order of their bytes.
///
/// A directory is read at once and let go: one descriptor is open however deep this goes.
pub(super) fn list(
    place: &Place<'_>,
    depth: usize,
    max: usize,
    names: &Names,
) -> Result<Vec<Entry>, FileError> {
    let mut listing = Listing { names, max, found: 0, bytes: 0 };
    let mut entries = Vec::new();
    let mut ways = vec![listing.read(place, place.open(READ, Mode::empty())?)?.into_iter()];
    while let Some(way) = ways.last_mut() {
        let Some(found) = way.next() else {
            ways.pop();
            continue;
        };
        entries.push(found.entry);
        if let Some((below, identity)) = found.directory
            && ways.len() < depth
            && let Some(found) = listing.enter(&below, identity)?
        {
            ways.push(found.into_iter());
        }
    }
    Ok(entries)
}

struct Listing<'a> {
    names: &'a Names,
    max: usize,
    /// Entries, those too that are still to come.
    found: usize,
    /// Bytes of what is said of those that were looked at.
    bytes: usize,
}

struct Found<'a> {
    entry: Entry,
    /// Where it goes on.
    directory: Option<(Place<'a>, Identity)>,
}

impl<'a> Listing<'a> {
    /// What is in a directory below the top. None where it cannot be read, and where it is not there any more.
    fn enter(&mut self, place: &Place<'a>, identity: Identity) -> Result<Option<Vec<Found<'a>>>, FileError> {
        let open = |directory: OwnedFd| match fstat(&directory) {
            Ok(stat) if Identity::of(&stat) == identity => self.read(place, directory).map(Some),
            Ok(_) => Ok(None),
            Err(errno) => Err(place.fault(errno)),
        };
        match place.open(READ | OFlags::NOFOLLOW, Mode::empty()).and_then(open) {
            Err(
                FileError::NotFound(_)
                | FileError::NotADirectory(_)
                | FileError::Denied(_)
                | FileError::Loop(_)
                | FileError::OutsideRoot(_)
                | FileError::TooLong(_),
            ) => Ok(None),
            found => found,
        }
    }

    fn read(&mut self, place: &Place<'a>, directory: OwnedFd) -> Result<Vec<Found<'a>>, FileError> {
        let mut directory = Dir::new(directory).map_err(|errno| place.fault(errno))?;
        let mut names = Vec::new();
        while let Some(found) = directory.read() {
            let found = found.map_err(|errno| place.fault(errno))?;
            let name = found.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if self.found == self.max {
                return Err(FileError::TooMany { path: place.asked(), max: self.max });
            }
            self.found += 1;
            names.push(CString::from(name));
        }
        names.sort_unstable();
        let directory = directory.fd().map_err(|errno| place.fault(errno))?;
        let mut entries = Vec::with_capacity(names.len());
        for name in names {
            let below = place.child(OsStr::from_bytes(name.to_bytes()));
            let handle = match openat(directory, &name, HANDLE | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(handle) => handle,
                // Gone since.
                Err(Errno::NOENT | Errno::SRCH) => continue,
                Err(errno) => return Err(place.fault(errno)),
            };
            let stat = fstat(&handle).map_err(|errno| place.fault(errno))?;
            let entry = Entry::at(&below, handle.as_fd(), self.names)?;
            self.bytes += entry.text_bytes();
            if self.bytes > MAX_BYTES {
                return Err(FileError::TooLarge { path: place.asked(), max: MAX_BYTES });
            }
            let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            let directory = is_directory.then(|| (below, Identity::of(&stat)));
            entries.push(Found { entry, directory });
        }
        Ok(entries)
    }
}
