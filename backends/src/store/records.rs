//! What is kept.

use std::{collections::BTreeSet, fmt};

/// A token: everything but its secret.
#[derive(Clone, Eq, PartialEq)]
pub struct StoredToken {
    /// A ULID.
    pub id: String,
    /// What it reaches, in the plane's words.
    pub scope: String,
    /// Whose it is.
    pub person: Option<String>,
    /// What it is for, for people.
    pub name: Option<String>,
    /// The sandboxes granted to it, by id or name; None where the grant names none.
    pub sandboxes: Option<BTreeSet<String>>,
    /// When it was made: milliseconds since 1970.
    pub created_at_ms: i64,
    /// When its time is over.
    pub expires_at_ms: Option<i64>,
    /// When it was revoked.
    pub revoked_at_ms: Option<i64>,
    /// Of its secret.
    pub sha256: [u8; 32],
}

impl fmt::Debug for StoredToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredToken")
            .field("id", &self.id)
            .field("scope", &self.scope)
            .field("person", &self.person)
            .field("name", &self.name)
            .field("sandboxes", &self.sandboxes)
            .field("created_at_ms", &self.created_at_ms)
            .field("expires_at_ms", &self.expires_at_ms)
            .field("revoked_at_ms", &self.revoked_at_ms)
            .finish_non_exhaustive()
    }
}

/// A sandbox that outlives the server.
#[derive(Clone, Eq, PartialEq)]
pub struct StoredSandbox {
    /// A ULID.
    pub id: String,
    /// Its name: no two have the same.
    pub name: String,
    /// What offers it, in the plane's words.
    pub provider: String,
    /// Where it is reached.
    pub url: Option<String>,
    /// The secret that is shown there.
    pub secret: Option<String>,
    /// The directory that its commands start in.
    pub workdir: Option<String>,
    /// Whether a daemon in it runs the commands.
    pub daemon: bool,
    /// When it was made: milliseconds since 1970.
    pub created_at_ms: i64,
}

impl fmt::Debug for StoredSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredSandbox")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("provider", &self.provider)
            .field("url", &self.url)
            .field("workdir", &self.workdir)
            .field("daemon", &self.daemon)
            .field("created_at_ms", &self.created_at_ms)
            .finish_non_exhaustive()
    }
}

/// Whose a process is, and what it is in its sandbox.
#[derive(Clone, Eq, PartialEq)]
pub struct StoredProcess {
    /// A ULID.
    pub id: String,
    /// The id of its owner's token.
    pub token: String,
    /// The id of its sandbox.
    pub sandbox: String,
    /// Its name; others may have the same.
    pub name: Option<String>,
    /// How it was started, as JSON in the plane's words.
    pub start: String,
    /// When it was started: milliseconds since 1970.
    pub started_at_ms: i64,
    /// What it is in its sandbox, once that is known.
    pub run: Option<ProcessRun>,
    /// How it ended, once it has.
    pub end: Option<ProcessEnd>,
}

impl fmt::Debug for StoredProcess {
    /// Without how it was started: there may be secrets in its environment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredProcess")
            .field("id", &self.id)
            .field("token", &self.token)
            .field("sandbox", &self.sandbox)
            .field("name", &self.name)
            .field("started_at_ms", &self.started_at_ms)
            .field("run", &self.run)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// What a process is in its sandbox.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProcessRun {
    /// Its number there.
    pub pid: u32,
    /// What tells this run of the sandbox's daemon from another, whose numbers mean other processes: the time it was
    /// started, or an identity that it has.
    pub daemon: String,
}

/// How a process ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProcessEnd {
    /// When: milliseconds since 1970.
    pub finished_at_ms: i64,
    /// How, in the plane's words.
    pub exit: String,
}

/// A place in a process's output.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Cursor {
    /// Bytes before it; `i64::MAX` at the most, which is taken for whatever is more.
    pub offset: u64,
    /// Messages before it; likewise.
    pub seq: u64,
}

impl Cursor {
    /// The later place, of each of the two numbers.
    #[must_use]
    pub fn or_later(self, other: Self) -> Self {
        const MAX: u64 = i64::MAX.cast_unsigned();
        Self { offset: self.offset.max(other.offset).min(MAX), seq: self.seq.max(other.seq).min(MAX) }
    }
}
