//! Who somebody is, and for how long.
//!
//! A token is a secret that is shown once. What is kept of it is its SHA-256, in memory and, where the plane has a
//! data folder, in `tokens.json` there (mode 0600, replaced as a whole).

mod store;

use super::{lock, new_id};
use crate::ApiError;
use hangar_backends::{Runtime, runtime::blocking};
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};
use subtle::ConstantTimeEq;

pub use store::StoreError;

/// What a token reaches.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Tokens, sandboxes, and everything of its own.
    Admin,
    /// Its own commands and processes, in the sandboxes granted to it.
    User,
    /// The MCP endpoint only.
    Mcp,
    /// Its own jobs only.
    Jobs,
    /// The metrics only.
    Metrics,
}

/// Whether a token may still be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// It may.
    Valid,
    /// It was revoked, or nobody knows it.
    Revoked,
    /// Its time is over.
    Expired,
}

/// A token as it is kept and shown: everything but the secret.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Record {
    /// A ULID.
    pub id: String,
    /// What it reaches.
    pub scope: Scope,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// What it is for, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The sandboxes granted to it, by id or name; all that are open to users where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandboxes: Option<BTreeSet<String>>,
    /// When it was made: milliseconds since 1970.
    pub created_at_ms: i64,
    /// When its time is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<i64>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at_ms: Option<i64>,
}

impl Record {
    fn standing(&self, now_ms: i64) -> Standing {
        if self.revoked_at_ms.is_some() {
            Standing::Revoked
        } else if self.expires_at_ms.is_some_and(|at| now_ms >= at) {
            Standing::Expired
        } else {
            Standing::Valid
        }
    }
}

/// Somebody who showed a valid token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Caller {
    token: String,
    scope: Scope,
    sandboxes: Option<BTreeSet<String>>,
}

/// The token id of [`Caller::owner`].
const OWNER: &str = "owner";

impl Caller {
    /// The program that the plane is part of: it needs no token, and may everything.
    pub fn owner() -> Self {
        Self { token: OWNER.to_owned(), scope: Scope::Admin, sandboxes: None }
    }

    /// The id of their token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// What it reaches.
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// Whether it is an admin's.
    pub fn is_admin(&self) -> bool {
        self.scope == Scope::Admin
    }

    /// Whether a sandbox was granted to it, by its id or its name; None where the grant names no sandbox, which means
    /// all that are open to users.
    pub fn is_granted(&self, id: &str, name: &str) -> Option<bool> {
        self.sandboxes.as_ref().map(|granted| granted.contains(id) || granted.contains(name))
    }
}

/// The SHA-256 of a secret.
pub(super) type Hash = [u8; 32];

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Kept {
    #[serde(flatten)]
    record: Record,
    /// In hexadecimal.
    #[serde(with = "store::hexadecimal")]
    sha256: Hash,
}

/// The tokens of a plane.
#[derive(Debug)]
pub struct Tokens {
    by_id: Mutex<BTreeMap<String, Kept>>,
    /// Of the token that the configuration gives: it is not in the file, and is not revoked here.
    configured: Option<String>,
    file: Option<PathBuf>,
    /// Held while the file is written, so that an older state never replaces a newer one.
    writing: tokio::sync::Mutex<()>,
}

/// What a new token is to be.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// What it reaches.
    pub scope: Scope,
    /// Whose it is.
    pub person: Option<String>,
    /// What it is for.
    pub name: Option<String>,
    /// The sandboxes granted to it; all that are open to users for None.
    pub sandboxes: Option<BTreeSet<String>>,
    /// How long it is valid; for ever for None.
    pub ttl: Option<Duration>,
}

impl Tokens {
    /// The tokens kept in `file`, where there is one, and the admin token `configured`. A file that is not there is
    /// empty; one that cannot be read is an error, because what was revoked must stay so.
    pub fn load(configured: Option<&str>, file: Option<PathBuf>) -> Result<Self, StoreError> {
        let kept = file.as_deref().map(store::load).transpose()?.unwrap_or_default();
        let mut by_id: BTreeMap<String, Kept> =
            kept.into_iter().map(|kept| (kept.record.id.clone(), kept)).collect();
        let configured = configured.map(|secret| {
            let sha256 = hash(secret);
            // A prefix of the hash: the same after a restart, and for every server with the same configuration.
            let mut prefix = [0; 16];
            prefix.copy_from_slice(&sha256[..16]);
            let id = ulid::Ulid::from_bytes(prefix).to_string();
            let record = Record {
                id: id.clone(),
                scope: Scope::Admin,
                person: None,
                name: Some("HANGAR_TOKEN".to_owned()),
                sandboxes: None,
                created_at_ms: 0,
                expires_at_ms: None,
                revoked_at_ms: None,
            };
            by_id.insert(id.clone(), Kept { record, sha256 });
            id
        });
        Ok(Self { by_id: Mutex::new(by_id), configured, file, writing: tokio::sync::Mutex::new(()) })
    }

    /// Who shows this secret. Its hash is compared in constant time, with each.
    pub fn authenticate(&self, secret: &str, now_ms: i64) -> Option<Caller> {
        let sha256 = hash(secret);
        let by_id = lock(&self.by_id);
        let mut found = None;
        for kept in by_id.values() {
            // The configured token is what it is, whatever else has the same secret.
            if bool::from(kept.sha256.ct_eq(&sha256))
                && (found.is_none() || self.configured.as_ref() == Some(&kept.record.id))
            {
                found = Some(&kept.record);
            }
        }
        let record = found.filter(|record| record.standing(now_ms) == Standing::Valid)?;
        Some(Caller { token: record.id.clone(), scope: record.scope, sandboxes: record.sandboxes.clone() })
    }

    /// Whether a token may still be used.
    pub fn standing(&self, id: &str, now_ms: i64) -> Standing {
        if id == OWNER {
            return Standing::Valid;
        }
        lock(&self.by_id).get(id).map_or(Standing::Revoked, |kept| kept.record.standing(now_ms))
    }

    /// All of them, oldest first, revoked ones included.
    pub fn list(&self) -> Vec<Record> {
        lock(&self.by_id).values().map(|kept| kept.record.clone()).collect()
    }

    /// Makes a token. The secret is in the answer and nowhere else.
    pub(super) async fn create(
        &self,
        new: NewToken,
        runtime: &Arc<dyn Runtime>,
    ) -> Result<(Record, String), ApiError> {
        let mut random = [0; 32];
        runtime.random(&mut random);
        let secret = secret(&random);
        let now = runtime.wall_ms();
        let ttl = new.ttl.map(|ttl| i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
        let record = Record {
            id: new_id(&**runtime),
            scope: new.scope,
            person: new.person,
            name: new.name,
            sandboxes: new.sandboxes,
            created_at_ms: now,
            expires_at_ms: ttl.map(|ttl| now.saturating_add(ttl)),
            revoked_at_ms: None,
        };
        let kept = Kept { record: record.clone(), sha256: hash(&secret) };
        self.change(runtime, |by_id| {
            by_id.insert(kept.record.id.clone(), kept);
        })
        .await?;
        Ok((record, secret))
    }

    /// Revokes a token; that it is revoked is remembered. To do so again changes nothing.
    pub(super) async fn revoke(&self, id: &str, runtime: &Arc<dyn Runtime>) -> Result<(), ApiError> {
        if self.configured.as_deref() == Some(id) {
            return Err(ApiError::new(
                StatusCode::CONFLICT,
                "configured_token",
                "this is the server's first token: change HANGAR_TOKEN, or remove the file `token` from the data \
                 folder where it was made there, and restart the server",
            ));
        }
        if !lock(&self.by_id).contains_key(id) {
            return Err(ApiError::not_found("token"));
        }
        let now = runtime.wall_ms();
        self.change(runtime, |by_id| {
            if let Some(kept) = by_id.get_mut(id) {
                kept.record.revoked_at_ms.get_or_insert(now);
            }
        })
        .await
    }

    /// Changes what is kept: on the disk first, so that what a client was told outlives a restart. It has to run to its
    /// end: dropped half-way, the disk would say one thing and the memory another.
    async fn change(
        &self,
        runtime: &Arc<dyn Runtime>,
        change: impl FnOnce(&mut BTreeMap<String, Kept>),
    ) -> Result<(), ApiError> {
        let _writing = self.writing.lock().await;
        let mut changed = lock(&self.by_id).clone();
        change(&mut changed);
        if let Some(file) = self.file.clone() {
            let kept: Vec<Kept> = changed
                .values()
                .filter(|kept| self.configured.as_ref() != Some(&kept.record.id))
                .cloned()
                .collect();
            let written = blocking(&**runtime, move || store::save(&file, &kept)).await;
            written.ok_or_else(ApiError::shutting_down)??;
        }
        *lock(&self.by_id) = changed;
        Ok(())
    }
}

/// The secret that these random bytes make.
pub(crate) fn secret(random: &[u8; 32]) -> String {
    format!("hgr_{}", store::to_hexadecimal(random))
}

/// The secret of a ticket that these random bytes make.
pub(super) fn ticket(random: &[u8; 32]) -> String {
    format!("tok_{}", store::to_hexadecimal(random))
}

pub(super) fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}
