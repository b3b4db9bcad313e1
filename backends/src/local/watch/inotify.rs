//! One instance of inotify: which directories it watches, and what it tells of them.

use bytes::Bytes;
use hangar_core::watch::{Notice, Wd, What};
use rustix::{
    fs::inotify::{CreateFlags, ReadFlags, WatchFlags, add_watch, init, remove_watch},
    io::{Errno, ioctl_fionread, retry_on_intr},
};
use std::{
    ffi::OsStr,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
};

/// Bytes that are read at a time: a notice with the longest name takes 272.
pub(super) const BUFFER: usize = 64 * 1024;

/// What is told of a watched directory.
const ALL: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

/// What is told of the directory that the watched one is in.
const ABOVE: WatchFlags = WatchFlags::DELETE.union(WatchFlags::MOVED_FROM).union(WatchFlags::MOVED_TO);

/// What holds for both: a directory that is watched twice tells what either asked for, and what was removed tells no more.
const MANNER: WatchFlags = WatchFlags::ONLYDIR.union(WatchFlags::MASK_ADD).union(WatchFlags::EXCL_UNLINK);

/// Something that was read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Read {
    Notice(Notice),
    /// Notices were lost, of any directory.
    Overflow,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Inotify {
    descriptor: OwnedFd,
}

impl Inotify {
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Self { descriptor: init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)? })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Watches an open directory.
    pub(super) fn add(&self, directory: BorrowedFd<'_>) -> Result<Wd, Errno> {
        self.add_path(&format!("/proc/thread-self/fd/{}", directory.as_raw_fd()), ALL)
    }

    /// Watches the directory that an open one is in, for what happens to that.
    pub(super) fn add_above(&self, directory: BorrowedFd<'_>) -> Result<Wd, Errno> {
        self.add_path(&format!("/proc/thread-self/fd/{}/..", directory.as_raw_fd()), ABOVE)
    }

    fn add_path(&self, path: &str, what: WatchFlags) -> Result<Wd, Errno> {
        add_watch(&self.descriptor, path, what | MANNER).map(Wd)
    }

    /// Watches a directory no longer; it may be gone.
    pub(super) fn remove(&self, wd: Wd) {
        // An error says that it was told before.
        remove_watch(&self.descriptor, wd.0).ok();
    }

    /// Bytes that wait to be read.
    pub(super) fn waiting(&self) -> u64 {
        ioctl_fionread(&self.descriptor).unwrap_or(0)
    }

    /// Reads what fits; 0 where nothing waits.
    pub(super) fn read(&self, buffer: &mut [u8]) -> usize {
        retry_on_intr(|| rustix::io::read(&self.descriptor, &mut *buffer)).unwrap_or(0)
    }
}

/// The notices in what was read, which has whole ones.
pub(super) fn parse(mut bytes: &[u8]) -> impl Iterator<Item = Read> {
    std::iter::from_fn(move || {
        while let Some((head, rest)) = bytes.split_first_chunk::<16>() {
            let number = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            let length = usize::try_from(number(12)).unwrap_or(usize::MAX).min(rest.len());
            let (name, rest) = rest.split_at(length);
            bytes = rest;
            if let Some(read) = read(number(0).cast_signed(), number(4), number(8), name) {
                return Some(read);
            }
        }
        None
    })
}

fn read(wd: i32, mask: u32, cookie: u32, name: &[u8]) -> Option<Read> {
    let flags = ReadFlags::from_bits_retain(mask);
    if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
        return Some(Read::Overflow);
    }
    let what = [
        (ReadFlags::CREATE, What::Create),
        (ReadFlags::MODIFY, What::Modify),
        (ReadFlags::ATTRIB, What::Attrib),
        (ReadFlags::DELETE, What::Delete),
        (ReadFlags::MOVED_FROM, What::MovedFrom),
        (ReadFlags::MOVED_TO, What::MovedTo),
        (ReadFlags::DELETE_SELF, What::DeleteSelf),
        (ReadFlags::MOVE_SELF, What::MoveSelf),
        (ReadFlags::UNMOUNT, What::Unmount),
        (ReadFlags::IGNORED, What::Ignored),
    ];
    let (_, what) = what.into_iter().find(|(flag, _)| flags.contains(*flag))?;
    // It is filled up with zeros.
    let name = name.split(|byte| *byte == 0).next().filter(|name| !name.is_empty());
    let name = name.map(Bytes::copy_from_slice);
    Some(Read::Notice(Notice { wd: Wd(wd), what, is_dir: flags.contains(ReadFlags::ISDIR), cookie, name }))
}

/// A name as the system takes it. It has no zero in it, since it came from there.
pub(super) fn as_path(name: &[u8]) -> &OsStr {
    OsStr::from_bytes(name)
}
