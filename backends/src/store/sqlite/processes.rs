//! Processes and their cursors in tables.

use super::{
    Cursor, ProcessEnd, ProcessRun, StoreError, StoredProcess,
    fault::{of, or_not_found},
};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

/// Bytes of it.
pub(super) fn size(process: &StoredProcess) -> usize {
    let texts = [&process.id, &process.token, &process.sandbox, &process.start].map(String::len);
    let optional = [
        process.name.as_ref(),
        process.run.as_ref().map(|run| &run.daemon),
        process.end.as_ref().map(|end| &end.exit),
    ];
    texts.iter().sum::<usize>() + optional.into_iter().flatten().map(String::len).sum::<usize>()
}

pub(super) fn insert(connection: &Connection, process: &StoredProcess) -> Result<(), StoreError> {
    let (run, end) = (process.run.as_ref(), process.end.as_ref());
    let mut statement = connection
        .prepare_cached(
            "INSERT INTO processes
                (id, token, sandbox, name, start, started_at_ms, pid, daemon, finished_at_ms, exit)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .map_err(of)?;
    let inserted = statement.execute(params![
        process.id,
        process.token,
        process.sandbox,
        process.name,
        process.start,
        process.started_at_ms,
        run.map(|run| run.pid),
        run.map(|run| &run.daemon),
        end.map(|end| end.finished_at_ms),
        end.map(|end| &end.exit),
    ]);
    inserted.map(|_| ()).map_err(of)
}

pub(super) fn note_run(connection: &Connection, id: &str, run: &ProcessRun) -> Result<(), StoreError> {
    let sql = "UPDATE processes SET pid = ?2, daemon = ?3 WHERE id = ?1";
    change(connection, sql, params![id, run.pid, run.daemon])
}

pub(super) fn note_end(
    connection: &Connection,
    id: &str,
    end: &ProcessEnd,
) -> Result<ProcessEnd, StoreError> {
    let mut statement = connection
        .prepare_cached(
            "UPDATE processes
             SET finished_at_ms = coalesce(finished_at_ms, ?2), exit = coalesce(exit, ?3) WHERE id = ?1
             RETURNING finished_at_ms, exit",
        )
        .map_err(of)?;
    let noted = statement.query_row(params![id, end.finished_at_ms, end.exit], |row| {
        Ok(ProcessEnd { finished_at_ms: row.get(0)?, exit: row.get(1)? })
    });
    noted.map_err(or_not_found)
}

pub(super) fn remove(connection: &Connection, id: &str) -> Result<(), StoreError> {
    change(connection, "DELETE FROM processes WHERE id = ?", [id])
}

pub(super) fn one(connection: &Connection, id: &str) -> Result<Option<StoredProcess>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT * FROM processes WHERE id = ?").map_err(of)?;
    statement.query_row([id], read).optional().map_err(of)
}

pub(super) fn of_token(
    connection: &Connection,
    token: &str,
    sandbox: &str,
) -> Result<Vec<StoredProcess>, StoreError> {
    let sql = "SELECT * FROM processes WHERE token = ? AND sandbox = ? ORDER BY id";
    list(connection, sql, [token, sandbox])
}

pub(super) fn within(connection: &Connection, sandbox: &str) -> Result<Vec<StoredProcess>, StoreError> {
    list(connection, "SELECT * FROM processes WHERE sandbox = ? ORDER BY id", [sandbox])
}

pub(super) fn reserve_cursor(
    connection: &Connection,
    process: &str,
    cursor: Cursor,
) -> Result<Cursor, StoreError> {
    let mut statement = connection
        .prepare_cached(
            "INSERT INTO cursors (process, before_offset, before_seq) VALUES (?, ?, ?)
             ON CONFLICT (process) DO UPDATE SET
                before_offset = max(before_offset, excluded.before_offset),
                before_seq = max(before_seq, excluded.before_seq)
             RETURNING before_offset, before_seq",
        )
        .map_err(of)?;
    // A parameter of a statement is signed.
    let Cursor { offset, seq } = cursor.or_later(Cursor::default());
    let given = params![process, offset.cast_signed(), seq.cast_signed()];
    statement.query_row(given, read_cursor).map_err(of)
}

pub(super) fn cursor(connection: &Connection, process: &str) -> Result<Cursor, StoreError> {
    let mut statement = connection
        .prepare_cached(
            "SELECT coalesce(before_offset, 0), coalesce(before_seq, 0)
             FROM processes LEFT JOIN cursors ON process = id WHERE id = ?",
        )
        .map_err(of)?;
    statement.query_row([process], read_cursor).map_err(or_not_found)
}

fn change(connection: &Connection, sql: &str, given: impl Params) -> Result<(), StoreError> {
    let changed = connection.prepare_cached(sql).and_then(|mut statement| statement.execute(given));
    if changed.map_err(of)? == 0 { Err(StoreError::NotFound) } else { Ok(()) }
}

fn list(connection: &Connection, sql: &str, given: impl Params) -> Result<Vec<StoredProcess>, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(of)?;
    let processes = statement.query_map(given, read).map_err(of)?;
    processes.collect::<Result<_, _>>().map_err(of)
}

fn read(row: &Row<'_>) -> rusqlite::Result<StoredProcess> {
    let (pid, daemon): (Option<u32>, Option<String>) = (row.get("pid")?, row.get("daemon")?);
    let (finished_at_ms, exit): (Option<i64>, Option<String>) =
        (row.get("finished_at_ms")?, row.get("exit")?);
    Ok(StoredProcess {
        id: row.get("id")?,
        token: row.get("token")?,
        sandbox: row.get("sandbox")?,
        name: row.get("name")?,
        start: row.get("start")?,
        started_at_ms: row.get("started_at_ms")?,
        run: pid.zip(daemon).map(|(pid, daemon)| ProcessRun { pid, daemon }),
        end: finished_at_ms.zip(exit).map(|(finished_at_ms, exit)| ProcessEnd { finished_at_ms, exit }),
    })
}

fn read_cursor(row: &Row<'_>) -> rusqlite::Result<Cursor> {
    let number = |index| row.get::<_, i64>(index).map(i64::cast_unsigned);
    Ok(Cursor { offset: number(0)?, seq: number(1)? })
}
