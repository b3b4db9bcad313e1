//! One file of many.

use super::{
    super::user::Names,
    Entry, FileError, make,
    place::{Identity, Place},
    write::open_regular,
};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, fdatasync, fstat, openat, renameat, statat, unlinkat},
    io::Errno,
    process::getpid,
};
use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering},
};

/// Concatenates the sources, puts that in the place of the destination, and removes the sources then: each where it still
/// is what was read.
pub(super) fn compose(
    sources: &[Place<'_>],
    destination: &Place<'_>,
    names: &Names,
) -> Result<Entry, FileError> {
    let (parent, name) = destination.changeable()?;
    // Whatever can be known to fail does so before anything is made.
    let read: Vec<Identity> = sources.iter().map(source).collect::<Result<_, _>>()?;
    let directory = make::ensure(&parent)?;
    if let Ok(stat) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)
        && FileType::from_raw_mode(stat.st_mode) == FileType::Directory
    {
        return Err(destination.fault(Errno::ISDIR));
    }
    let mut temporary = Temporary::new(directory, destination)?;
    for source in sources {
        let mut file = File::from(open_regular(source, OFlags::RDONLY, Mode::empty())?);
        io::copy(&mut file, &mut temporary.file).map_err(|error| {
            // That is never said of the temporary file, which is on a disk.
            let is_source = error.kind() == io::ErrorKind::WouldBlock;
            FileError::of_read(&error, if is_source { source.path() } else { destination.path() })
        })?;
    }
    // Before the sources go: some file systems find out only here that they are full.
    fdatasync(&temporary.file).map_err(|errno| destination.fault(errno))?;
    renameat(&temporary.directory, &temporary.name, &temporary.directory, name)
        .map_err(|errno| destination.fault(errno))?;
    temporary.is_renamed = true;
    // Each of them, whatever becomes of the others.
    let removed: Vec<_> =
        sources.iter().zip(read).map(|(source, identity)| remove(source, identity)).collect();
    removed.into_iter().collect::<Result<(), _>>()?;
    let stat = fstat(&temporary.file).map_err(|errno| destination.fault(errno))?;
    Ok(Entry::of(destination.path(), &stat, temporary.file.as_fd(), names))
}

/// Which file it is, if it can be read, and removed as far as can be known.
fn source(place: &Place<'_>) -> Result<Identity, FileError> {
    drop(open_regular(place, OFlags::RDONLY, Mode::empty())?);
    let (parent, name) = place.changeable()?;
    let directory = parent.directory()?;
    if !make::can_change(&directory) {
        return Err(place.fault(Errno::ACCESS));
    }
    // Of the link, where it is one: that is what is removed.
    let stat = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|errno| place.fault(errno))?;
    Ok(Identity::of(&stat))
}

/// Removes a source, unless something else is there: the destination, or what somebody put there meanwhile.
fn remove(place: &Place<'_>, identity: Identity) -> Result<(), FileError> {
    let (parent, name) = place.changeable()?;
    let directory = match parent.directory() {
        Ok(directory) => directory,
        Err(FileError::NotFound(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    let removed = match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if Identity::of(&stat) == identity => unlinkat(&directory, name, AtFlags::empty()),
        Ok(_) => Ok(()),
        Err(errno) => Err(errno),
    };
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(place.fault(errno)),
    }
}

/// A new file beside the destination. It is removed unless it was renamed.
struct Temporary {
    directory: OwnedFd,
    name: String,
    file: File,
    is_renamed: bool,
}

impl Temporary {
    fn new(directory: OwnedFd, destination: &Place<'_>) -> Result<Self, FileError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            // Not made of the destination's name, which may be as long as a name may be.
            let name = format!(".hangar-compose-{}-{next}", getpid().as_raw_pid());
            match openat(&directory, &name, flags, Mode::from_raw_mode(0o666)) {
                Ok(file) => return Ok(Self { directory, name, file: file.into(), is_renamed: false }),
                // Left by a server that was killed.
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(destination.fault(errno)),
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_renamed {
            // Whoever removed it was faster.
            unlinkat(&self.directory, &self.name, AtFlags::empty()).ok();
        }
    }
}
