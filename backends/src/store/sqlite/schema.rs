//! What is in the file, by version.

use super::{StoreError, fault::of};
use rusqlite::{Connection, TransactionBehavior};

/// `hngr`: what tells the file from other databases.
const APPLICATION: i64 = 0x686e_6772;

/// What makes each version of the one before it, from an empty file on. One that was released is never changed.
const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE tokens (
        id TEXT NOT NULL PRIMARY KEY,
        scope TEXT NOT NULL,
        person TEXT,
        name TEXT,
        -- Whether the grant names sandboxes: there may be none in it.
        limited INTEGER NOT NULL,
        created_at_ms INTEGER NOT NULL,
        expires_at_ms INTEGER,
        revoked_at_ms INTEGER,
        sha256 BLOB NOT NULL
    ) STRICT;
    CREATE TABLE token_sandboxes (
        token TEXT NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
        sandbox TEXT NOT NULL,
        PRIMARY KEY (token, sandbox)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE sandboxes (
        id TEXT NOT NULL PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        provider TEXT NOT NULL,
        url TEXT,
        secret TEXT,
        workdir TEXT,
        daemon INTEGER NOT NULL,
        created_at_ms INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE processes (
        id TEXT NOT NULL PRIMARY KEY,
        token TEXT NOT NULL,
        sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
        name TEXT,
        start TEXT NOT NULL,
        started_at_ms INTEGER NOT NULL,
        pid INTEGER,
        daemon TEXT,
        finished_at_ms INTEGER,
        exit TEXT,
        CHECK ((pid IS NULL) = (daemon IS NULL)),
        CHECK ((finished_at_ms IS NULL) = (exit IS NULL))
    ) STRICT;
    CREATE INDEX processes_by_sandbox ON processes (sandbox, token);
    CREATE TABLE cursors (
        process TEXT NOT NULL PRIMARY KEY REFERENCES processes (id) ON DELETE CASCADE,
        before_offset INTEGER NOT NULL,
        before_seq INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
"];

/// The version that the newest migration makes.
const KNOWN: i64 = MIGRATIONS.len() as i64;

/// Whether it is one of ours, or empty, and of a version that is known. Changes nothing.
pub(super) fn check(connection: &Connection) -> Result<(), StoreError> {
    let entries: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0)).map_err(of)?;
    let found = version(connection)?;
    if (entries, found) != (0, 0) {
        check_ours(connection)?;
    }
    if found > KNOWN {
        return Err(StoreError::Newer { found, known: KNOWN });
    }
    Ok(())
}

/// Whether it is one of ours, whatever its version.
pub(super) fn check_ours(connection: &Connection) -> Result<(), StoreError> {
    if pragma(connection, "application_id")? == APPLICATION {
        Ok(())
    } else {
        Err(StoreError::Broken("it is a database of another program, or empty".to_owned()))
    }
}

/// Brings it to the newest version.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    loop {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(of)?;
        // Within the transaction: whoever was first has done it.
        let found = version(&transaction)?;
        let next = usize::try_from(found).ok().and_then(|found| MIGRATIONS.get(found));
        let Some(migration) = next else { return Ok(()) };
        transaction.execute_batch(migration).map_err(of)?;
        transaction.pragma_update(None, "application_id", APPLICATION).map_err(of)?;
        transaction.pragma_update(None, "user_version", found + 1).map_err(of)?;
        transaction.commit().map_err(of)?;
    }
}

fn version(connection: &Connection) -> Result<i64, StoreError> {
    pragma(connection, "user_version")
}

fn pragma(connection: &Connection, name: &str) -> Result<i64, StoreError> {
    connection.pragma_query_value(None, name, |row| row.get(0)).map_err(of)
}
