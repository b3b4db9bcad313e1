//! Tokens in tables.

use super::{
    StoreError, StoredToken,
    fault::{of, or_not_found},
};
use rusqlite::{Connection, Row, params};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of it.
pub(super) fn size(token: &StoredToken) -> usize {
    let sandboxes = token.sandboxes.iter().flatten().map(String::len).sum::<usize>();
    let texts = [&token.person, &token.name].into_iter().flatten().map(String::len).sum::<usize>();
    token.id.len() + token.scope.len() + texts + sandboxes
}

pub(super) fn insert(connection: &Connection, token: &StoredToken) -> Result<(), StoreError> {
    let mut statement = connection
        .prepare_cached(
            "INSERT INTO tokens
                (id, scope, person, name, limited, created_at_ms, expires_at_ms, revoked_at_ms, sha256)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .map_err(of)?;
    let limited = token.sandboxes.is_some();
    statement
        .execute(params![
            token.id,
            token.scope,
            token.person,
            token.name,
            limited,
            token.created_at_ms,
            token.expires_at_ms,
            token.revoked_at_ms,
            token.sha256,
        ])
        .map_err(of)?;
    let mut statement = connection
        .prepare_cached("INSERT INTO token_sandboxes (token, sandbox) VALUES (?, ?)")
        .map_err(of)?;
    for sandbox in token.sandboxes.iter().flatten() {
        statement.execute([&token.id, sandbox]).map_err(of)?;
    }
    Ok(())
}

pub(super) fn revoke(connection: &Connection, id: &str, at_ms: i64) -> Result<i64, StoreError> {
    let mut statement = connection
        .prepare_cached(
            "UPDATE tokens SET revoked_at_ms = coalesce(revoked_at_ms, ?2) WHERE id = ?1
             RETURNING revoked_at_ms",
        )
        .map_err(of)?;
    statement.query_row(params![id, at_ms], |row| row.get(0)).map_err(or_not_found)
}

pub(super) fn all(connection: &Connection) -> Result<Vec<StoredToken>, StoreError> {
    let mut granted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut statement =
        connection.prepare_cached("SELECT token, sandbox FROM token_sandboxes").map_err(of)?;
    let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).map_err(of)?;
    for row in rows {
        let (token, sandbox) = row.map_err(of)?;
        granted.entry(token).or_default().insert(sandbox);
    }
    let mut statement = connection.prepare_cached("SELECT * FROM tokens ORDER BY id").map_err(of)?;
    let tokens = statement.query_map((), |row| read(row, &mut granted)).map_err(of)?;
    tokens.collect::<Result<_, _>>().map_err(of)
}

fn read(row: &Row<'_>, granted: &mut BTreeMap<String, BTreeSet<String>>) -> rusqlite::Result<StoredToken> {
    let id: String = row.get("id")?;
    let limited: bool = row.get("limited")?;
    Ok(StoredToken {
        sandboxes: limited.then(|| granted.remove(&id).unwrap_or_default()),
        id,
        scope: row.get("scope")?,
        person: row.get("person")?,
        name: row.get("name")?,
        created_at_ms: row.get("created_at_ms")?,
        expires_at_ms: row.get("expires_at_ms")?,
        revoked_at_ms: row.get("revoked_at_ms")?,
        sha256: row.get("sha256")?,
    })
}
