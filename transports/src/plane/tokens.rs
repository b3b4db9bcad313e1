//! Who somebody is, and for how long.
//!
//! A token is a secret that is shown once. What is kept of it is its SHA-256, in the store and, as every request is
//! compared with all of them, in memory.

use super::{lock, new_id};
use crate::ApiError;
use hangar_backends::{
    Runtime,
    store::{Store, StoreError, StoredToken},
};
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};
use subtle::ConstantTimeEq;

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

impl Scope {
    const ALL: [Self; 5] = [Self::Admin, Self::User, Self::Mcp, Self::Jobs, Self::Metrics];

    /// Its name, to clients and in the store.
    const fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::User => "user",
            Self::Mcp => "mcp",
            Self::Jobs => "jobs",
            Self::Metrics => "metrics",
        }
    }
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

/// A token as it is shown: everything but the secret.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Record {
    /// A ULID.
    pub id: String,
    /// What it reaches.
    pub scope: Scope,
    /// Whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// What it is for, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The sandboxes granted to it, by id or name; all that are open to users where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandboxes: Option<BTreeSet<String>>,
    /// When it was made: milliseconds since 1970.
    pub created_at_ms: i64,
    /// When its time is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<i64>,
    /// When it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
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

struct Kept {
    record: Record,
    sha256: Hash,
}

impl Kept {
    fn from_store(token: StoredToken) -> Result<Self, LoadError> {
        let Some(scope) = Scope::ALL.into_iter().find(|scope| scope.name() == token.scope) else {
            return Err(LoadError::Scope { id: token.id, scope: token.scope });
        };
        let record = Record {
            id: token.id,
            scope,
            person: token.person,
            name: token.name,
            sandboxes: token.sandboxes,
            created_at_ms: token.created_at_ms,
            expires_at_ms: token.expires_at_ms,
            revoked_at_ms: token.revoked_at_ms,
        };
        Ok(Self { record, sha256: token.sha256 })
    }

    fn for_store(&self) -> StoredToken {
        let record = self.record.clone();
        StoredToken {
            id: record.id,
            scope: record.scope.name().to_owned(),
            person: record.person,
            name: record.name,
            sandboxes: record.sandboxes,
            created_at_ms: record.created_at_ms,
            expires_at_ms: record.expires_at_ms,
            revoked_at_ms: record.revoked_at_ms,
            sha256: self.sha256,
        }
    }
}

/// Why tokens could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// They cannot be read.
    #[error("the tokens cannot be read: {0}")]
    Store(#[from] StoreError),
    /// One may do something that this hangar knows nothing of.
    #[error("the token {id} has the scope {scope}, which this hangar does not know")]
    Scope {
        /// Its id.
        id: String,
        /// Its scope.
        scope: String,
    },
}

/// The tokens of a plane.
pub struct Tokens {
    by_id: Mutex<BTreeMap<String, Kept>>,
    /// Of the token that the configuration gives: it is not in the store, and is not revoked here.
    configured: Option<String>,
    store: Arc<dyn Store>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("configured", &self.configured).finish_non_exhaustive()
    }
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
    /// The tokens in the store, and the admin token `configured`. One that cannot be read is an error, because what was
    /// revoked must stay so.
    pub async fn load(configured: Option<&str>, store: Arc<dyn Store>) -> Result<Self, LoadError> {
        let mut by_id = BTreeMap::new();
        for token in store.tokens().await? {
            let kept = Kept::from_store(token)?;
            by_id.insert(kept.record.id.clone(), kept);
        }
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
        Ok(Self { by_id: Mutex::new(by_id), configured, store })
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

    /// Where they are kept, and whatever else outlives the server.
    pub(super) const fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// All of them, oldest first, revoked ones included.
    pub fn list(&self) -> Vec<Record> {
        lock(&self.by_id).values().map(|kept| kept.record.clone()).collect()
    }

    /// Makes a token: in the store first, so that what a client was told outlives a restart. The secret is in the answer
    /// and nowhere else. It has to run to its end: dropped half-way, the store would say one thing and the memory another.
    pub(super) async fn create(
        &self,
        new: NewToken,
        runtime: &dyn Runtime,
    ) -> Result<(Record, String), ApiError> {
        let mut random = [0; 32];
        runtime.random(&mut random);
        let secret = secret(&random);
        let now = runtime.wall_ms();
        let ttl = new.ttl.map(|ttl| i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
        let record = Record {
            id: new_id(runtime),
            scope: new.scope,
            person: new.person,
            name: new.name,
            sandboxes: new.sandboxes,
            created_at_ms: now,
            expires_at_ms: ttl.map(|ttl| now.saturating_add(ttl)),
            revoked_at_ms: None,
        };
        let kept = Kept { record: record.clone(), sha256: hash(&secret) };
        self.store.insert_token(kept.for_store()).await?;
        lock(&self.by_id).insert(kept.record.id.clone(), kept);
        Ok((record, secret))
    }

    /// Revokes a token; that it is revoked is remembered. To do so again changes nothing. It has to run to its end, too.
    pub(super) async fn revoke(&self, id: &str, runtime: &dyn Runtime) -> Result<(), ApiError> {
        if self.configured.as_deref() == Some(id) {
            return Err(ApiError::new(
                StatusCode::CONFLICT,
                "configured_token",
                "this is the server's first token: change HANGAR_TOKEN, or remove the file `token` from the data \
                 folder where it was made there, and restart the server",
            ));
        }
        let revoked_at_ms = match self.store.revoke_token(id, runtime.wall_ms()).await {
            Ok(revoked_at_ms) => revoked_at_ms,
            Err(StoreError::NotFound) => return Err(ApiError::not_found("token")),
            Err(error) => return Err(error.into()),
        };
        if let Some(kept) = lock(&self.by_id).get_mut(id) {
            kept.record.revoked_at_ms = Some(revoked_at_ms);
        }
        Ok(())
    }
}

/// The secret that these random bytes make.
pub(crate) fn secret(random: &[u8; 32]) -> String {
    format!("hgr_{}", hexadecimal(random))
}

/// The secret of a ticket that these random bytes make.
pub(super) fn ticket(random: &[u8; 32]) -> String {
    format!("tok_{}", hexadecimal(random))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hangar_backends::store::MemoryStore;

    #[test]
    fn a_scope_is_stored_by_the_name_that_clients_know() {
        for scope in Scope::ALL {
            assert_eq!(serde_json::to_value(scope).unwrap(), scope.name());
        }
    }

    #[test]
    fn what_is_stored_is_what_was_loaded() {
        let token = StoredToken {
            id: "a".to_owned(),
            scope: "mcp".to_owned(),
            person: Some("b".to_owned()),
            name: Some("c".to_owned()),
            sandboxes: Some(BTreeSet::from(["d".to_owned()])),
            created_at_ms: 1,
            expires_at_ms: Some(2),
            revoked_at_ms: Some(3),
            sha256: [4; 32],
        };
        assert_eq!(Kept::from_store(token.clone()).unwrap().for_store(), token);
    }

    #[test]
    fn a_scope_that_is_not_known_is_none_that_was_meant() {
        async_io::block_on(async {
            let store = Arc::new(MemoryStore::default());
            let mut tokens = Vec::new();
            for (id, scope) in [("a", "admin"), ("b", "Admin")] {
                let record = Record {
                    id: id.to_owned(),
                    scope: Scope::Admin,
                    person: None,
                    name: None,
                    sandboxes: None,
                    created_at_ms: 1,
                    expires_at_ms: None,
                    revoked_at_ms: None,
                };
                let token = Kept { record, sha256: hash("secret") }.for_store();
                store.insert_token(StoredToken { scope: scope.to_owned(), ..token }).await.unwrap();
                tokens.push(Tokens::load(None, Arc::clone(&store) as _).await);
            }
            assert_eq!(tokens[0].as_ref().unwrap().list().len(), 1);
            let Err(LoadError::Scope { id, scope }) = &tokens[1] else { panic!("it is refused") };
            assert_eq!((id.as_str(), scope.as_str()), ("b", "Admin"));
        });
    }
}
