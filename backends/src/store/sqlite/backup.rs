//! A copy of the file, while it is in use or not.

use super::{StoreError, fault::of, file, schema};
use rusqlite::{
    Connection, OpenFlags,
    backup::{Backup, StepResult},
};
use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is nothing to back up.
    #[error("there is no {0}: has a server used this folder?")]
    NoDatabase(PathBuf),
    /// What would be written to is there.
    #[error("{0} is there already, and is not replaced")]
    Exists(PathBuf),
    /// It cannot be read.
    #[error("{path}: {error}")]
    Source {
        /// The database.
        path: PathBuf,
        /// Why.
        error: StoreError,
    },
    /// It cannot be copied to where it shall be.
    #[error("{path}: {error}")]
    Target {
        /// The backup.
        path: PathBuf,
        /// Why.
        error: StoreError,
    },
}

/// Writes a copy of the store in `database` to the new file `to`, with mode 0600: what was stored when it began, all of it,
/// whoever writes meanwhile. A server that has the store open is not held up. It blocks. `to` is there once it is whole;
/// until then it has `.partial` after its name.
pub fn backup(database: &Path, to: &Path) -> Result<(), BackupError> {
    let exists = || BackupError::Exists(to.to_owned());
    let failed = |error| BackupError::Target { path: to.to_owned(), error };
    let source = open(database)?;
    if to.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let partial = file::beside(to, ".partial");
    let written = write(&source, database, &partial, to).and_then(|()| {
        put(&partial, to).map_err(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists { exists() } else { failed(file::fault(&error)) }
        })
    });
    if written.is_err() {
        // There may be none, and the first error is the one that counts.
        drop(fs::remove_file(&partial));
    }
    written
}

fn open(database: &Path) -> Result<Connection, BackupError> {
    match database.try_exists() {
        Ok(true) => {}
        Ok(false) => return Err(BackupError::NoDatabase(database.to_owned())),
        Err(error) => return Err(BackupError::source(database, file::fault(&error))),
    }
    let checked = file::connect(database).and_then(|source| schema::check_ours(&source).map(|()| source));
    checked.map_err(|error| BackupError::source(database, error))
}

fn write(source: &Connection, database: &Path, partial: &Path, to: &Path) -> Result<(), BackupError> {
    let failed = |error| BackupError::Target { path: to.to_owned(), error };
    // Left of one that was killed.
    match fs::remove_file(partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(file::fault(&error))),
        Ok(()) | Err(_) => {}
    }
    let new = file::new_secret(partial).map_err(|error| failed(file::fault(&error)))?;
    let copied =
        Connection::open_with_flags(partial, OpenFlags::SQLITE_OPEN_READ_WRITE).and_then(|mut copy| {
            // No file beside it: what is not whole is removed.
            copy.pragma_update(None, "journal_mode", "MEMORY")?;
            // All in one step: between two, a write would make it begin again.
            let step = Backup::new(source, &mut copy)?.step(-1)?;
            Ok(step == StepResult::Done)
        });
    match copied {
        Ok(true) => new.sync_all().map_err(|error| failed(file::fault(&error))),
        Ok(false) => {
            let busy = StoreError::Broken("another process does not let go of it".to_owned());
            Err(BackupError::source(database, busy))
        }
        Err(error) => Err(failed(of(error))),
    }
}

/// Gives it its name, if that is free.
fn put(partial: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, partial, CWD, to, RenameFlags::NOREPLACE) {
        // A file system that cannot do that; who is as fast as that is not expected.
        Err(Errno::INVAL) if to.symlink_metadata().is_err() => fs::rename(partial, to)?,
        Err(error) => return Err(error.into()),
        Ok(()) => {}
    }
    file::sync_folder(to)
}

impl BackupError {
    fn source(database: &Path, error: StoreError) -> Self {
        Self::Source { path: database.to_owned(), error }
    }
}
