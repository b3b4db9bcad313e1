//! Sandboxes in a table.

use super::{StoreError, StoredSandbox, fault::of};
use rusqlite::{Connection, Row, params};

/// Bytes of it.
pub(super) fn size(sandbox: &StoredSandbox) -> usize {
    let texts = [&sandbox.url, &sandbox.secret, &sandbox.workdir].into_iter().flatten().map(String::len);
    sandbox.id.len() + sandbox.name.len() + sandbox.provider.len() + texts.sum::<usize>()
}

pub(super) fn insert(connection: &Connection, sandbox: &StoredSandbox) -> Result<(), StoreError> {
    let mut statement = connection
        .prepare_cached(
            "INSERT INTO sandboxes (id, name, provider, url, secret, workdir, daemon, created_at_ms)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .map_err(of)?;
    let inserted = statement.execute(params![
        sandbox.id,
        sandbox.name,
        sandbox.provider,
        sandbox.url,
        sandbox.secret,
        sandbox.workdir,
        sandbox.daemon,
        sandbox.created_at_ms,
    ]);
    inserted.map(|_| ()).map_err(of)
}

pub(super) fn remove(connection: &Connection, id: &str) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached("DELETE FROM sandboxes WHERE id = ?").map_err(of)?;
    if statement.execute([id]).map_err(of)? == 0 { Err(StoreError::NotFound) } else { Ok(()) }
}

pub(super) fn all(connection: &Connection) -> Result<Vec<StoredSandbox>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT * FROM sandboxes ORDER BY id").map_err(of)?;
    let sandboxes = statement.query_map((), read).map_err(of)?;
    sandboxes.collect::<Result<_, _>>().map_err(of)
}

fn read(row: &Row<'_>) -> rusqlite::Result<StoredSandbox> {
    Ok(StoredSandbox {
        id: row.get("id")?,
        name: row.get("name")?,
        provider: row.get("provider")?,
        url: row.get("url")?,
        secret: row.get("secret")?,
        workdir: row.get("workdir")?,
        daemon: row.get("daemon")?,
        created_at_ms: row.get("created_at_ms")?,
    })
}
