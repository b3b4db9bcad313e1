//! What a client says about a file beside its content: extended attributes `user.e2b.*`.

use super::{FileError, error::shown, place::path_of_descriptor};
use rustix::{
    fs::{XattrFlags, fsetxattr, getxattr, getxattr_query, listxattr, listxattr_query},
    io::Errno,
};
use std::{collections::BTreeMap, os::fd::BorrowedFd, path::Path};

/// What the name of each begins with; clients are not shown it.
const PREFIX: &str = "user.e2b.";

/// How much of one file is read: the bytes of all names and values. Some file systems hold any number of them.
const MAX: usize = 64 * 1024;

/// Reads what is said about a file; what the user may not read, and what cannot be read, is left out. The descriptor may
/// be one that reads nothing.
pub(super) fn read(file: BorrowedFd<'_>) -> BTreeMap<String, String> {
    // Such a descriptor itself cannot be asked.
    let path = path_of_descriptor(file);
    let mut metadata = BTreeMap::new();
    let mut room = MAX;
    let Some(list) = sized(|| listxattr_query(&path), |buffer| listxattr(&path, buffer)) else {
        return metadata;
    };
    for name in list.split(|byte| *byte == 0) {
        let Some(key) = name.strip_prefix(PREFIX.as_bytes()) else { continue };
        let value = sized(|| getxattr_query(&path, name), |buffer| getxattr(&path, name, buffer));
        let Some(value) = value else { continue };
        let Some(left) = room.checked_sub(key.len() + value.len()) else { break };
        room = left;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        metadata.insert(text(key), text(&value));
    }
    metadata
}

/// Asks how much there is, and then for that. None where it cannot be had.
fn sized(
    size: impl Fn() -> Result<usize, Errno>,
    ask: impl Fn(&mut [u8]) -> Result<usize, Errno>,
) -> Option<Vec<u8>> {
    // It may have grown meanwhile.
    for _ in 0..8 {
        let mut buffer = vec![0; size().ok()?];
        if buffer.is_empty() {
            return Some(buffer);
        }
        match ask(&mut buffer) {
            Ok(len) => {
                buffer.truncate(len);
                return Some(buffer);
            }
            Err(Errno::RANGE) => {}
            Err(_) => return None,
        }
    }
    None
}

/// Says each of these about a file that is open for writing; what else is said about it stays. `path` is for the error.
pub(super) fn write(
    file: BorrowedFd<'_>,
    metadata: &BTreeMap<String, String>,
    path: &Path,
) -> Result<(), FileError> {
    for (key, value) in metadata {
        fsetxattr(file, format!("{PREFIX}{key}"), value.as_bytes(), XattrFlags::empty()).map_err(
            |errno| match errno {
                Errno::OPNOTSUPP | Errno::NOSYS => FileError::MetadataUnsupported(shown(path)),
                Errno::RANGE | Errno::TOOBIG => FileError::MetadataTooLong(shown(path)),
                // The disk is full, or the room beside this file is.
                Errno::NOSPC | Errno::DQUOT => FileError::NoSpace(format!("{}: its metadata", shown(path))),
                _ => FileError::of(errno, path),
            },
        )?;
    }
    Ok(())
}
