//! What a server remembers: tokens and which of them were revoked, sandboxes, whose the processes in them are, and how
//! far their cursors were given out.
//!
//! * [`memory`]: for as long as the process lives.
//! * `sqlite`: in a file (feature `sqlite`).

mod error;
pub mod memory;
mod records;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use error::StoreError;
pub use memory::MemoryStore;
pub use records::{Cursor, ProcessEnd, ProcessRun, StoredProcess, StoredSandbox, StoredToken};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;

use crate::runtime::BoxFuture;

/// The answer of a store.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Where a server remembers what has to outlive it.
///
/// * Each call is one transaction: what has to change together is one call. It resolves once the change would outlive
///   the machine's sudden end, as far as the implementation outlives anything, and everybody who asks after that sees it.
/// * The store is the truth, and several servers may have the same one. What a server keeps in memory of it is a copy
///   that another server's change has made old; which of two servers comes first is decided here, by the error or the
///   answer of the second.
/// * A future does nothing before it is polled. One that is dropped later may have been carried out or not, and so may
///   one that failed with [`StoreError::Broken`].
/// * Lists are sorted by id; ids are given by the caller, and ULIDs sort by their age.
pub trait Store: Send + Sync + 'static {
    /// Keeps a new token. [`StoreError::Taken`] where its id is.
    fn insert_token(&self, token: StoredToken) -> Answer<'_, ()>;

    /// Revokes a token, and gives when that was: the first time counts. [`StoreError::NotFound`] for no token.
    fn revoke_token<'a>(&'a self, id: &'a str, at_ms: i64) -> Answer<'a, i64>;

    /// All tokens, revoked and expired ones included.
    fn tokens(&self) -> Answer<'_, Vec<StoredToken>>;

    /// Keeps a new sandbox. [`StoreError::Taken`] where its id or its name is.
    fn insert_sandbox(&self, sandbox: StoredSandbox) -> Answer<'_, ()>;

    /// Forgets a sandbox, and its processes with their cursors; its name is free. [`StoreError::NotFound`] for none.
    fn remove_sandbox<'a>(&'a self, id: &'a str) -> Answer<'a, ()>;

    /// All sandboxes.
    fn sandboxes(&self) -> Answer<'_, Vec<StoredSandbox>>;

    /// Keeps a new process. [`StoreError::Taken`] where its id is, [`StoreError::NotFound`] where its sandbox is not
    /// there. Its token need not be: the one of the configuration is in no store.
    fn insert_process(&self, process: StoredProcess) -> Answer<'_, ()>;

    /// Notes what the process is in its sandbox, in place of what was noted before. [`StoreError::NotFound`] for none.
    fn note_process_run<'a>(&'a self, id: &'a str, run: ProcessRun) -> Answer<'a, ()>;

    /// Notes how the process ended, and gives what is noted: the first end counts. [`StoreError::NotFound`] for no
    /// process.
    fn note_process_end<'a>(&'a self, id: &'a str, end: ProcessEnd) -> Answer<'a, ProcessEnd>;

    /// Forgets a process, and its cursor. [`StoreError::NotFound`] for none.
    fn remove_process<'a>(&'a self, id: &'a str) -> Answer<'a, ()>;

    /// The process with this id, if there is one.
    fn process<'a>(&'a self, id: &'a str) -> Answer<'a, Option<StoredProcess>>;

    /// The processes of a token in a sandbox.
    fn processes_of<'a>(&'a self, token: &'a str, sandbox: &'a str) -> Answer<'a, Vec<StoredProcess>>;

    /// All processes in a sandbox.
    fn processes_in<'a>(&'a self, sandbox: &'a str) -> Answer<'a, Vec<StoredProcess>>;

    /// Reserves what is before `cursor` for this run of the server, and gives what is reserved now: each of its two
    /// numbers is at least what was asked for, and never goes back. [`StoreError::NotFound`] for no process.
    fn reserve_cursor<'a>(&'a self, process: &'a str, cursor: Cursor) -> Answer<'a, Cursor>;

    /// What is reserved of a process: nothing at first. [`StoreError::NotFound`] for no process.
    fn cursor<'a>(&'a self, process: &'a str) -> Answer<'a, Cursor>;
}
