//! A store that lives as long as its process: for planes of one command, and for tests.

use super::{
    Answer, Cursor, ProcessEnd, ProcessRun, Store, StoreError, StoredProcess, StoredSandbox, StoredToken,
};
use std::{
    collections::{BTreeMap, btree_map},
    fmt,
    sync::{Mutex, PoisonError},
};

/// Remembers until it is dropped.
#[derive(Default)]
pub struct MemoryStore(Mutex<State>);

#[derive(Default)]
struct State {
    tokens: BTreeMap<String, StoredToken>,
    sandboxes: BTreeMap<String, StoredSandbox>,
    processes: BTreeMap<String, Process>,
}

struct Process {
    stored: StoredProcess,
    cursor: Cursor,
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl MemoryStore {
    fn with<'a, T: Send>(
        &'a self,
        work: impl FnOnce(&mut State) -> Result<T, StoreError> + Send + 'a,
    ) -> Answer<'a, T> {
        // No call leaves the state half changed, so it is whole whoever panicked.
        Box::pin(async move { work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)) })
    }

    fn with_process<'a, T: Send>(
        &'a self,
        id: &'a str,
        work: impl FnOnce(&mut Process) -> T + Send + 'a,
    ) -> Answer<'a, T> {
        self.with(move |state| state.processes.get_mut(id).map(work).ok_or(StoreError::NotFound))
    }

    fn processes_that<'a>(
        &'a self,
        which: impl Fn(&StoredProcess) -> bool + Send + 'a,
    ) -> Answer<'a, Vec<StoredProcess>> {
        self.with(move |state| {
            let all = state.processes.values().map(|process| &process.stored);
            Ok(all.filter(|process| which(process)).cloned().collect())
        })
    }
}

fn insert<T>(all: &mut BTreeMap<String, T>, id: String, new: T) -> Result<(), StoreError> {
    match all.entry(id) {
        btree_map::Entry::Occupied(_) => Err(StoreError::Taken),
        btree_map::Entry::Vacant(place) => {
            place.insert(new);
            Ok(())
        }
    }
}

impl Store for MemoryStore {
    fn insert_token(&self, token: StoredToken) -> Answer<'_, ()> {
        self.with(move |state| insert(&mut state.tokens, token.id.clone(), token))
    }

    fn revoke_token<'a>(&'a self, id: &'a str, at_ms: i64) -> Answer<'a, i64> {
        self.with(move |state| {
            let token = state.tokens.get_mut(id).ok_or(StoreError::NotFound)?;
            Ok(*token.revoked_at_ms.get_or_insert(at_ms))
        })
    }

    fn tokens(&self) -> Answer<'_, Vec<StoredToken>> {
        self.with(|state| Ok(state.tokens.values().cloned().collect()))
    }

    fn insert_sandbox(&self, sandbox: StoredSandbox) -> Answer<'_, ()> {
        self.with(move |state| {
            if state.sandboxes.values().any(|other| other.name == sandbox.name) {
                return Err(StoreError::Taken);
            }
            insert(&mut state.sandboxes, sandbox.id.clone(), sandbox)
        })
    }

    fn remove_sandbox<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        self.with(move |state| {
            state.sandboxes.remove(id).ok_or(StoreError::NotFound)?;
            state.processes.retain(|_, process| process.stored.sandbox != id);
            Ok(())
        })
    }

    fn sandboxes(&self) -> Answer<'_, Vec<StoredSandbox>> {
        self.with(|state| Ok(state.sandboxes.values().cloned().collect()))
    }

    fn insert_process(&self, process: StoredProcess) -> Answer<'_, ()> {
        self.with(move |state| {
            let is_taken = state.processes.contains_key(&process.id);
            if !is_taken && !state.sandboxes.contains_key(&process.sandbox) {
                return Err(StoreError::NotFound);
            }
            let id = process.id.clone();
            insert(&mut state.processes, id, Process { stored: process, cursor: Cursor::default() })
        })
    }

    fn note_process_run<'a>(&'a self, id: &'a str, run: ProcessRun) -> Answer<'a, ()> {
        self.with_process(id, move |process| process.stored.run = Some(run))
    }

    fn note_process_end<'a>(&'a self, id: &'a str, end: ProcessEnd) -> Answer<'a, ProcessEnd> {
        self.with_process(id, move |process| process.stored.end.get_or_insert(end).clone())
    }

    fn remove_process<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        self.with(move |state| state.processes.remove(id).map(|_| ()).ok_or(StoreError::NotFound))
    }

    fn process<'a>(&'a self, id: &'a str) -> Answer<'a, Option<StoredProcess>> {
        self.with(move |state| Ok(state.processes.get(id).map(|process| process.stored.clone())))
    }

    fn processes_of<'a>(&'a self, token: &'a str, sandbox: &'a str) -> Answer<'a, Vec<StoredProcess>> {
        self.processes_that(move |process| process.token == token && process.sandbox == sandbox)
    }

    fn processes_in<'a>(&'a self, sandbox: &'a str) -> Answer<'a, Vec<StoredProcess>> {
        self.processes_that(move |process| process.sandbox == sandbox)
    }

    fn reserve_cursor<'a>(&'a self, process: &'a str, cursor: Cursor) -> Answer<'a, Cursor> {
        self.with_process(process, move |process| {
            process.cursor = process.cursor.or_later(cursor);
            process.cursor
        })
    }

    fn cursor<'a>(&'a self, process: &'a str) -> Answer<'a, Cursor> {
        self.with_process(process, |process| process.cursor)
    }
}
