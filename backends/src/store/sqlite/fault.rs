//! What SQLite says, in the words of the store.

use super::StoreError;
use rusqlite::{Error, ErrorCode, ffi};

/// What an error means to whoever called.
pub(super) fn of(error: Error) -> StoreError {
    let Error::SqliteFailure(failure, _) = &error else { return StoreError::Broken(error.to_string()) };
    match (failure.code, failure.extended_code) {
        // The second is how the index of the WAL says that there was no room for more of it.
        (ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_SHMSIZE) => StoreError::Full,
        (_, ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_UNIQUE) => StoreError::Taken,
        (_, ffi::SQLITE_CONSTRAINT_FOREIGNKEY) => StoreError::NotFound,
        _ => StoreError::Broken(error.to_string()),
    }
}

/// The same of a query that may find nothing.
pub(super) fn or_not_found(error: Error) -> StoreError {
    if error == Error::QueryReturnedNoRows { StoreError::NotFound } else { of(error) }
}
