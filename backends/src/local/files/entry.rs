//! What a client is told about a file.

use super::{
    super::user::Names,
    FileError,
    error::shown,
    metadata,
    place::{HANDLE, Place},
};
use rustix::fs::{FileType, Mode, Stat, fstat};
use std::{
    collections::BTreeMap,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
};

/// What something is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// A file, a directory, or anything else that has a path.
///
/// Of a symbolic link that leads somewhere, `kind`, `mode` and `metadata` are those of where it leads, and everything else
/// is the link's own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// The last name of the path; what is not UTF-8 in it is replaced.
    pub name: String,
    /// None for what is neither, such as a device, and for a link that leads nowhere or where the user may not look.
    pub kind: Option<Kind>,
    /// The path by which the client asked, or below it; what is not UTF-8 in it is replaced.
    pub path: String,
    /// In bytes.
    pub size: i64,
    /// The nine permission bits; 0 for a link that leads nowhere.
    pub mode: u32,
    /// Type and permissions as Go prints them: `-rw-r--r--`, `drwxr-xr-x`, `Lrwxrwxrwx`, `dtrwxrwxrwx`.
    pub permissions: String,
    /// The name of whom it belongs to, or the number where `/etc/passwd` has none.
    pub owner: String,
    /// The name of its group, or the number where `/etc/group` has none.
    pub group: String,
    /// When its content was last changed: seconds since 1970, and nanoseconds of that second.
    pub modified: (i64, u32),
    /// Of a symbolic link: where it leads, all links on the way resolved, or its own path where it leads nowhere.
    pub symlink_target: Option<String>,
    /// What clients said about it, at most 65,536 bytes of that.
    pub metadata: BTreeMap<String, String>,
}

impl Entry {
    /// What is at this place, by a descriptor that stands for it.
    pub(super) fn at(place: &Place<'_>, thing: BorrowedFd<'_>, names: &Names) -> Result<Self, FileError> {
        let stat = fstat(thing).map_err(|errno| place.fault(errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Ok(Self::of(place.path(), &stat, thing, names));
        }
        let mut entry = Self::plain(place.path(), &stat, names);
        let own = || place.path().to_owned();
        let mut target = None;
        if let Ok(found) = place.open(HANDLE, Mode::empty())
            && let Ok(stat) = fstat(&found)
            // Removed since: what the system says of it then is no path.
            && stat.st_nlink > 0
        {
            (entry.kind, entry.mode) = (kind(&stat), permission_bits(&stat));
            entry.metadata = metadata_of(&stat, found.as_fd());
            target = place.resolved(found.as_fd());
        }
        entry.symlink_target = Some(shown(&target.unwrap_or_else(own)));
        Ok(entry)
    }

    /// What is open, and no link; `path` is how the client calls it.
    pub(super) fn of(path: &Path, stat: &Stat, open: BorrowedFd<'_>, names: &Names) -> Self {
        let (kind, mode, metadata) = (kind(stat), permission_bits(stat), metadata_of(stat, open));
        Self { kind, mode, metadata, ..Self::plain(path, stat, names) }
    }

    /// Bytes of what is as long as somebody made it.
    pub(super) fn text_bytes(&self) -> usize {
        let target = self.symlink_target.as_ref().map_or(0, String::len);
        let metadata = self.metadata.iter().map(|(name, value)| name.len() + value.len());
        self.name.len() + self.path.len() + target + metadata.sum::<usize>()
    }

    /// What a link has of its own.
    fn plain(path: &Path, stat: &Stat, names: &Names) -> Self {
        Self {
            name: path.file_name().unwrap_or_else(|| "/".as_ref()).to_string_lossy().into_owned(),
            kind: None,
            path: shown(path),
            size: stat.st_size,
            mode: 0,
            permissions: permissions(stat.st_mode),
            owner: names.user(stat.st_uid),
            group: names.group(stat.st_gid),
            modified: (stat.st_mtime, u32::try_from(stat.st_mtime_nsec).unwrap_or(0)),
            symlink_target: None,
            metadata: BTreeMap::new(),
        }
    }
}

fn kind(stat: &Stat) -> Option<Kind> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Some(Kind::File),
        FileType::Directory => Some(Kind::Directory),
        FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => None,
    }
}

const fn permission_bits(stat: &Stat) -> u32 {
    stat.st_mode & 0o777
}

/// Nothing else than files and directories has any.
fn metadata_of(stat: &Stat, open: BorrowedFd<'_>) -> BTreeMap<String, String> {
    kind(stat).map(|_| metadata::read(open)).unwrap_or_default()
}

/// Go's `fs.FileMode.String` of a mode of the system.
fn permissions(mode: u32) -> String {
    let file_type = FileType::from_raw_mode(mode);
    let kind = match file_type {
        FileType::RegularFile => "",
        FileType::Directory => "d",
        FileType::Symlink => "L",
        FileType::BlockDevice | FileType::CharacterDevice => "D",
        FileType::Fifo => "p",
        FileType::Socket => "S",
        FileType::Unknown => "?",
    };
    let mut text = String::from(kind);
    for (is_set, letter) in [
        (mode & 0o4000 != 0, 'u'),
        (mode & 0o2000 != 0, 'g'),
        (file_type == FileType::CharacterDevice, 'c'),
        (mode & 0o1000 != 0, 't'),
    ] {
        text.extend(is_set.then_some(letter));
    }
    if text.is_empty() {
        text.push('-');
    }
    let bits = "rwxrwxrwx".chars().enumerate();
    text.extend(bits.map(|(index, letter)| if mode & (0o400 >> index) == 0 { '-' } else { letter }));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_as_go_prints_them() {
        for (mode, text) in [
            (0o100_644, "-rw-r--r--"),
            (0o100_000, "----------"),
            (0o100_777, "-rwxrwxrwx"),
            (0o040_755, "drwxr-xr-x"),
            (0o041_777, "dtrwxrwxrwx"),
            (0o120_777, "Lrwxrwxrwx"),
            (0o104_755, "urwxr-xr-x"),
            (0o102_711, "grwx--x--x"),
            (0o107_750, "ugtrwxr-x---"),
            (0o042_770, "dgrwxrwx---"),
            (0o010_600, "prw-------"),
            (0o140_700, "Srwx------"),
            (0o060_660, "Drw-rw----"),
            (0o020_666, "Dcrw-rw-rw-"),
            (0o021_620, "Dctrw--w----"),
        ] {
            assert_eq!(permissions(mode), text, "{mode:o}");
        }
    }
}
