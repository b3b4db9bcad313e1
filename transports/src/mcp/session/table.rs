//! The sessions of a server by their ids, each the token's that began it.

use super::Session;
use crate::metrics::Metrics;
use hangar_backends::{Runtime, runtime::sleep_until};
use hangar_core::wire::mcp::sessions::{Config, InUse, Sessions as Table};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

/// Sessions of one token.
pub const MAX_PER_TOKEN: usize = 64;

/// Sessions of all tokens.
pub const MAX_TOTAL: usize = 4096;

/// How often it is looked for sessions that are over.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The sessions of a server.
pub struct Sessions {
    table: Mutex<Table<Arc<Session>>>,
    runtime: Arc<dyn Runtime>,
    metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// A session that is in use. Dropped, it is by one less.
pub struct Held {
    sessions: Arc<Sessions>,
    id: Arc<str>,
    owner: Arc<str>,
    session: Arc<Session>,
}

impl Sessions {
    /// None yet. One that nobody uses is ended after `idle`, and one whose token is no longer `valid` at once.
    pub fn new(
        runtime: Arc<dyn Runtime>,
        metrics: Arc<Metrics>,
        idle: Duration,
        valid: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Arc<Self> {
        let config = Config { max_per_owner: MAX_PER_TOKEN, max_total: MAX_TOTAL, idle };
        let table = Mutex::new(Table::new(config));
        let sessions = Arc::new(Self { table, runtime: Arc::clone(&runtime), metrics });
        let weak = Arc::downgrade(&sessions);
        runtime.spawn(Box::pin(tend(weak, Arc::clone(&runtime), valid)));
        sessions
    }

    fn lock(&self) -> MutexGuard<'_, Table<Arc<Session>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a session of a token's; its id is nobody's to guess.
    pub fn open(self: &Arc<Self>, token: &str, session: Arc<Session>) -> Result<Held, InUse> {
        let mut random = [0; 16];
        self.runtime.random(&mut random);
        let id = format!("{:032x}", u128::from_le_bytes(random));
        let mut table = self.lock();
        let evicted = table.open(id.clone(), token, Arc::clone(&session), self.runtime.now())?;
        self.metrics.mcp_sessions(table.len());
        drop(table);
        if let Some(evicted) = evicted {
            evicted.close();
        }
        Ok(Held { sessions: Arc::clone(self), id: id.into(), owner: token.into(), session })
    }

    /// The token's session of this id.
    pub fn hold(self: &Arc<Self>, token: &str, id: &str) -> Option<Held> {
        let session = self.lock().hold(token, id, self.runtime.now())?;
        Some(Held { sessions: Arc::clone(self), id: id.into(), owner: token.into(), session })
    }

    /// Ends the token's session of this id. Whether there was one.
    pub fn close(&self, token: &str, id: &str) -> bool {
        let mut table = self.lock();
        let closed = table.close(token, id, self.runtime.now());
        self.metrics.mcp_sessions(table.len());
        drop(table);
        closed.as_deref().map(Session::close).is_some()
    }

    /// Ends all of them.
    pub fn close_all(&self) {
        let all = self.lock().close_of(|_| true);
        self.metrics.mcp_sessions(0);
        all.into_iter().for_each(|session| session.close());
    }

    fn close_over(&self, valid: impl Fn(&str) -> bool) {
        let mut table = self.lock();
        let mut over = table.expire(self.runtime.now());
        over.extend(table.close_of(|token| !valid(token)));
        self.metrics.mcp_sessions(table.len());
        let all: Vec<Arc<Session>> = table.all().cloned().collect();
        drop(table);
        over.into_iter().for_each(|session| session.close());
        all.into_iter().for_each(|session| session.purge());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Held {
    /// What it is.
    pub const fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        // It is in use: its time is not over.
        self.sessions.lock().hold(&self.owner, &self.id, self.sessions.runtime.now());
        Self {
            sessions: Arc::clone(&self.sessions),
            id: Arc::clone(&self.id),
            owner: Arc::clone(&self.owner),
            session: Arc::clone(&self.session),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let now = self.sessions.runtime.now();
        self.sessions.lock().release(&self.id, now);
    }
}

/// Ends the sessions that are over.
async fn tend(
    sessions: Weak<Sessions>,
    runtime: Arc<dyn Runtime>,
    valid: impl Fn(&str) -> bool + Send + Sync,
) {
    while let Some(sessions) = sessions.upgrade() {
        sessions.close_over(&valid);
        drop(sessions);
        sleep_until(&*runtime, runtime.now() + LOOK_EVERY).await;
    }
}
