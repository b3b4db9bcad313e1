//! A store in a file, by SQLite.
//!
//! One thread has the connection; whoever calls waits in a queue for it, and then for the disk, without a thread of its
//! own. What waits together is committed together, so that many callers share one wait for the disk (`thread.rs`). The
//! statements are in `processes.rs`, `sandboxes.rs` and `tokens.rs`, what they are about in `schema.rs`.
//!
//! The file is in WAL mode and synced at each commit: beside `hangar.db` there are `hangar.db-wal`, which is part of it, and
//! `hangar.db-shm`, while it is open. Another process may read it meanwhile, as [`backup`] does.

mod backup;
mod fault;
mod file;
mod processes;
mod sandboxes;
mod schema;
mod thread;
mod tokens;

pub use backup::{BackupError, backup};

use super::{
    Answer, Cursor, ProcessEnd, ProcessRun, Store, StoreError, StoredProcess, StoredSandbox, StoredToken,
};
use std::{fmt, path::Path};
use thread::Thread;

/// Remembers in a file. Dropping it waits until what is queued is stored, and closes the file.
pub struct SqliteStore(Thread);

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the file, and makes it (mode 0600) where it is not there; its folder has to be. One of an older version is
    /// brought to this one. It blocks. [`StoreError::Newer`] for a newer version, and [`StoreError::Broken`] for a file
    /// that is something else; neither is changed.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Thread::start(file::open(path)?).map(Self)
    }
}

impl Store for SqliteStore {
    fn insert_token(&self, token: StoredToken) -> Answer<'_, ()> {
        let bytes = tokens::size(&token);
        self.0.call(bytes, move |connection| tokens::insert(connection, &token))
    }

    fn revoke_token<'a>(&'a self, id: &'a str, at_ms: i64) -> Answer<'a, i64> {
        let id = id.to_owned();
        self.0.call(id.len(), move |connection| tokens::revoke(connection, &id, at_ms))
    }

    fn tokens(&self) -> Answer<'_, Vec<StoredToken>> {
        self.0.call(0, tokens::all)
    }

    fn insert_sandbox(&self, sandbox: StoredSandbox) -> Answer<'_, ()> {
        let bytes = sandboxes::size(&sandbox);
        self.0.call(bytes, move |connection| sandboxes::insert(connection, &sandbox))
    }

    fn remove_sandbox<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        let id = id.to_owned();
        self.0.call(id.len(), move |connection| sandboxes::remove(connection, &id))
    }

    fn sandboxes(&self) -> Answer<'_, Vec<StoredSandbox>> {
        self.0.call(0, sandboxes::all)
    }

    fn insert_process(&self, process: StoredProcess) -> Answer<'_, ()> {
        let bytes = processes::size(&process);
        self.0.call(bytes, move |connection| processes::insert(connection, &process))
    }

    fn note_process_run<'a>(&'a self, id: &'a str, run: ProcessRun) -> Answer<'a, ()> {
        let id = id.to_owned();
        let bytes = id.len() + run.daemon.len();
        self.0.call(bytes, move |connection| processes::note_run(connection, &id, &run))
    }

    fn note_process_end<'a>(&'a self, id: &'a str, end: ProcessEnd) -> Answer<'a, ProcessEnd> {
        let id = id.to_owned();
        let bytes = id.len() + end.exit.len();
        self.0.call(bytes, move |connection| processes::note_end(connection, &id, &end))
    }

    fn remove_process<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        let id = id.to_owned();
        self.0.call(id.len(), move |connection| processes::remove(connection, &id))
    }

    fn process<'a>(&'a self, id: &'a str) -> Answer<'a, Option<StoredProcess>> {
        let id = id.to_owned();
        self.0.call(id.len(), move |connection| processes::one(connection, &id))
    }

    fn processes_of<'a>(&'a self, token: &'a str, sandbox: &'a str) -> Answer<'a, Vec<StoredProcess>> {
        let (token, sandbox) = (token.to_owned(), sandbox.to_owned());
        let bytes = token.len() + sandbox.len();
        self.0.call(bytes, move |connection| processes::of_token(connection, &token, &sandbox))
    }

    fn processes_in<'a>(&'a self, sandbox: &'a str) -> Answer<'a, Vec<StoredProcess>> {
        let sandbox = sandbox.to_owned();
        self.0.call(sandbox.len(), move |connection| processes::within(connection, &sandbox))
    }

    fn reserve_cursor<'a>(&'a self, process: &'a str, cursor: Cursor) -> Answer<'a, Cursor> {
        let process = process.to_owned();
        let bytes = process.len();
        self.0.call(bytes, move |connection| processes::reserve_cursor(connection, &process, cursor))
    }

    fn cursor<'a>(&'a self, process: &'a str) -> Answer<'a, Cursor> {
        let process = process.to_owned();
        self.0.call(process.len(), move |connection| processes::cursor(connection, &process))
    }
}
