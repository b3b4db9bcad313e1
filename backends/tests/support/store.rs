//! Stores of tests, and what is put into them.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part of it")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use hangar_backends::store::{SqliteStore, Store, StoreError, StoredProcess, StoredSandbox, StoredToken};
use std::path::Path;

pub fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path).unwrap()
}

/// What a file that is no store of ours is refused with.
pub fn refused(path: &Path) -> StoreError {
    SqliteStore::open(path).expect_err("it is refused")
}

pub use async_io::block_on;

pub fn token(id: &str) -> StoredToken {
    StoredToken {
        id: id.to_owned(),
        scope: "user".to_owned(),
        person: None,
        name: None,
        sandboxes: None,
        created_at_ms: 1,
        expires_at_ms: None,
        revoked_at_ms: None,
        sha256: [7; 32],
    }
}

pub fn sandbox(id: &str, name: &str) -> StoredSandbox {
    StoredSandbox {
        id: id.to_owned(),
        name: name.to_owned(),
        provider: "remote".to_owned(),
        url: None,
        secret: None,
        workdir: None,
        daemon: false,
        created_at_ms: 2,
    }
}

pub fn process(id: &str, token: &str, sandbox: &str) -> StoredProcess {
    StoredProcess {
        id: id.to_owned(),
        token: token.to_owned(),
        sandbox: sandbox.to_owned(),
        name: None,
        start: r#"{"command":"true"}"#.to_owned(),
        started_at_ms: 3,
        run: None,
        end: None,
    }
}

/// The ids of all tokens.
pub fn token_ids(store: &dyn Store) -> Vec<String> {
    block_on(store.tokens()).unwrap().into_iter().map(|token| token.id).collect()
}
