//! A store small enough to be seen to be right, and random operations for it and for another.

#![allow(unreachable_pub, reason = "it is a module of a test binary")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::support::{process, sandbox, token};
use hangar_backends::store::{
    Cursor, ProcessEnd, ProcessRun, Store, StoreError, StoredProcess, StoredSandbox, StoredToken,
};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A call of a store. Ids are of four each, so that they meet.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    InsertToken {
        id: String,
        sandboxes: Option<BTreeSet<String>>,
    },
    Revoke {
        id: String,
        at_ms: i64,
    },
    InsertSandbox {
        id: String,
        name: String,
    },
    RemoveSandbox {
        id: String,
    },
    InsertProcess {
        id: String,
        token: String,
        sandbox: String,
    },
    Run {
        id: String,
        pid: u32,
    },
    End {
        id: String,
        at_ms: i64,
    },
    RemoveProcess {
        id: String,
    },
    Reserve {
        id: String,
        cursor: Cursor,
    },
    /// Only of one in a file.
    Reopen,
}

/// What a call gave.
#[derive(Debug, PartialEq)]
pub enum Given {
    Done,
    Time(i64),
    End(ProcessEnd),
    Cursor(Cursor),
}

type Result<T = Given> = std::result::Result<T, StoreError>;

/// All that can be read.
#[derive(Debug, PartialEq)]
pub struct Everything {
    tokens: Vec<StoredToken>,
    sandboxes: Vec<StoredSandbox>,
    processes: Vec<(StoredProcess, Cursor)>,
    /// Of each pair of a token and a sandbox.
    owned: Vec<Vec<StoredProcess>>,
}

const IDS: [&str; 4] = ["0", "1", "2", "3"];

fn id() -> impl Strategy<Value = String> {
    prop::sample::select(&IDS[..]).prop_map(str::to_owned)
}

pub fn operation() -> impl Strategy<Value = Operation> {
    let sandboxes = prop::option::of(prop::collection::btree_set(id(), 0..3));
    let cursor = (0..5_u64, 0..5_u64).prop_map(|(offset, seq)| Cursor { offset, seq });
    prop_oneof![
        2 => (id(), sandboxes).prop_map(|(id, sandboxes)| Operation::InsertToken { id, sandboxes }),
        1 => (id(), 0..5_i64).prop_map(|(id, at_ms)| Operation::Revoke { id, at_ms }),
        3 => (id(), id()).prop_map(|(id, name)| Operation::InsertSandbox { id, name }),
        1 => id().prop_map(|id| Operation::RemoveSandbox { id }),
        5 => (id(), id(), id())
            .prop_map(|(id, token, sandbox)| Operation::InsertProcess { id, token, sandbox }),
        2 => (id(), 0..5_u32).prop_map(|(id, pid)| Operation::Run { id, pid }),
        2 => (id(), 0..5_i64).prop_map(|(id, at_ms)| Operation::End { id, at_ms }),
        1 => id().prop_map(|id| Operation::RemoveProcess { id }),
        3 => (id(), cursor).prop_map(|(id, cursor)| Operation::Reserve { id, cursor }),
        1 => Just(Operation::Reopen),
    ]
}

fn run(pid: u32) -> ProcessRun {
    ProcessRun { pid, daemon: format!("of {pid}") }
}

fn end(at_ms: i64) -> ProcessEnd {
    ProcessEnd { finished_at_ms: at_ms, exit: format!("at {at_ms}") }
}

/// Does it to a store.
pub async fn carry_out(store: &dyn Store, operation: &Operation) -> Result {
    let done = |()| Given::Done;
    match operation.clone() {
        Operation::InsertToken { id, sandboxes } => {
            store.insert_token(StoredToken { sandboxes, ..token(&id) }).await.map(done)
        }
        Operation::Revoke { id, at_ms } => store.revoke_token(&id, at_ms).await.map(Given::Time),
        Operation::InsertSandbox { id, name } => store.insert_sandbox(sandbox(&id, &name)).await.map(done),
        Operation::RemoveSandbox { id } => store.remove_sandbox(&id).await.map(done),
        Operation::InsertProcess { id, token, sandbox } => {
            store.insert_process(process(&id, &token, &sandbox)).await.map(done)
        }
        Operation::Run { id, pid } => store.note_process_run(&id, run(pid)).await.map(done),
        Operation::End { id, at_ms } => store.note_process_end(&id, end(at_ms)).await.map(Given::End),
        Operation::RemoveProcess { id } => store.remove_process(&id).await.map(done),
        Operation::Reserve { id, cursor } => store.reserve_cursor(&id, cursor).await.map(Given::Cursor),
        Operation::Reopen => Ok(Given::Done),
    }
}

/// Reads all of a store.
pub async fn everything(store: &dyn Store) -> Everything {
    let mut all = Everything {
        tokens: store.tokens().await.unwrap(),
        sandboxes: store.sandboxes().await.unwrap(),
        processes: Vec::new(),
        owned: Vec::new(),
    };
    for id in IDS {
        if let Some(process) = store.process(id).await.unwrap() {
            all.processes.push((process, store.cursor(id).await.unwrap()));
        }
        for sandbox in IDS {
            all.owned.push(store.processes_of(id, sandbox).await.unwrap());
        }
    }
    all
}

/// Lists, in the order in which things came.
#[derive(Default)]
pub struct Model {
    tokens: Vec<StoredToken>,
    sandboxes: Vec<StoredSandbox>,
    processes: Vec<(StoredProcess, Cursor)>,
}

impl Model {
    fn process(&mut self, id: &str) -> Result<&mut (StoredProcess, Cursor)> {
        self.processes.iter_mut().find(|(process, _)| process.id == id).ok_or(StoreError::NotFound)
    }

    pub fn carry_out(&mut self, operation: &Operation) -> Result {
        match operation.clone() {
            Operation::InsertToken { id, .. } if self.tokens.iter().any(|token| token.id == id) => {
                return Err(StoreError::Taken);
            }
            Operation::InsertToken { id, sandboxes } => {
                self.tokens.push(StoredToken { sandboxes, ..token(&id) });
            }
            Operation::Revoke { id, at_ms } => {
                let token =
                    self.tokens.iter_mut().find(|token| token.id == id).ok_or(StoreError::NotFound)?;
                return Ok(Given::Time(*token.revoked_at_ms.get_or_insert(at_ms)));
            }
            Operation::InsertSandbox { id, name } => {
                if self.sandboxes.iter().any(|sandbox| sandbox.id == id || sandbox.name == name) {
                    return Err(StoreError::Taken);
                }
                self.sandboxes.push(sandbox(&id, &name));
            }
            Operation::RemoveSandbox { id } => {
                let before = self.sandboxes.len();
                self.sandboxes.retain(|sandbox| sandbox.id != id);
                if self.sandboxes.len() == before {
                    return Err(StoreError::NotFound);
                }
                self.processes.retain(|(process, _)| process.sandbox != id);
            }
            Operation::InsertProcess { id, token, sandbox } => {
                if self.process(&id).is_ok() {
                    return Err(StoreError::Taken);
                }
                if self.sandboxes.iter().all(|other| other.id != sandbox) {
                    return Err(StoreError::NotFound);
                }
                self.processes.push((process(&id, &token, &sandbox), Cursor::default()));
            }
            Operation::Run { id, pid } => self.process(&id)?.0.run = Some(run(pid)),
            Operation::End { id, at_ms } => {
                let noted = &mut self.process(&id)?.0.end;
                return Ok(Given::End(noted.get_or_insert_with(|| end(at_ms)).clone()));
            }
            Operation::RemoveProcess { id } => {
                self.process(&id)?;
                self.processes.retain(|(process, _)| process.id != id);
            }
            Operation::Reserve { id, cursor } => {
                let reserved = &mut self.process(&id)?.1;
                reserved.offset = reserved.offset.max(cursor.offset);
                reserved.seq = reserved.seq.max(cursor.seq);
                return Ok(Given::Cursor(*reserved));
            }
            Operation::Reopen => {}
        }
        Ok(Given::Done)
    }

    pub fn everything(&self) -> Everything {
        let (mut tokens, mut sandboxes) = (self.tokens.clone(), self.sandboxes.clone());
        let mut processes = self.processes.clone();
        tokens.sort_by(|a, b| a.id.cmp(&b.id));
        sandboxes.sort_by(|a, b| a.id.cmp(&b.id));
        processes.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
        let owned = IDS.iter().flat_map(|token| IDS.iter().map(move |sandbox| (*token, *sandbox)));
        let owned = owned.map(|(token, sandbox)| {
            let all = processes.iter().map(|(process, _)| process);
            let these = all.filter(|process| process.token == token && process.sandbox == sandbox);
            these.cloned().collect()
        });
        Everything { owned: owned.collect(), tokens, sandboxes, processes }
    }
}
