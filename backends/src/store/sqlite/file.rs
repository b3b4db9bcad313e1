//! The file: made, recognised, and set up.

use super::{StoreError, fault::of, schema};
use rusqlite::{Connection, OpenFlags};
use std::{
    fs::{self, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// How long another process may hold the file: a backup ends, or somebody looks into it.
const BUSY: Duration = Duration::from_secs(10);

/// Statements that stay prepared: all there are.
const STATEMENTS: usize = 64;

/// Opens the file as a store, and makes it where it is not there.
pub(super) fn open(path: &Path) -> Result<Connection, StoreError> {
    create(path).map_err(|error| fault(&error))?;
    let mut connection = connect(path)?;
    schema::check(&connection)?;
    // Answers with what it is then: on some network file systems it stays what it was.
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", (), |row| row.get(0)).map_err(of)?;
    if mode != "wal" {
        return Err(StoreError::Broken(format!(
            "its file system has no shared memory (journal_mode is {mode})"
        )));
    }
    // At each commit, not only when the WAL is carried over.
    connection.pragma_update(None, "synchronous", "FULL").map_err(of)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(of)?;
    schema::migrate(&mut connection)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// A connection to a file that is there.
pub(super) fn connect(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(of)?;
    connection.busy_timeout(BUSY).map_err(of)?;
    Ok(connection)
}

/// Makes the file before SQLite does, which gives the files beside it the same mode.
fn create(path: &Path) -> io::Result<()> {
    match new_secret(path) {
        Ok(file) => {
            file.sync_all()?;
            sync_folder(path)
        }
        // Not opened to look: to close it again would take away the locks of whoever has it open in this process.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => ["", "-wal", "-shm"]
            .map(|end| beside(path, end))
            .iter()
            .filter(|file| file.exists())
            .try_for_each(|file| fs::set_permissions(file, Permissions::from_mode(0o600))),
        Err(error) => Err(error),
    }
}

/// A new file that nobody else can read.
pub(super) fn new_secret(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Syncs the names in a file's folder.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new("."))).and_then(|folder| folder.sync_all())
}

/// The path with something after its name.
pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// What an error of the system means to whoever called.
pub(super) fn fault(error: &io::Error) -> StoreError {
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        StoreError::Full
    } else {
        StoreError::Broken(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_set_up_to_lose_nothing() {
        let folder = std::env::temp_dir().join(format!("hangar-store-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let connection = open(&folder.join("hangar.db")).unwrap();
        let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        // 2 is FULL.
        assert_eq!((mode.as_str(), number("synchronous"), number("foreign_keys")), ("wal", 2, 1));
        assert_eq!(number("busy_timeout"), 10_000);
        drop(connection);
        fs::remove_dir_all(&folder).unwrap();
    }
}
