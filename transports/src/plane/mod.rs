//! The plane: who may do what in which sandbox, what is open, and what ends it.
//!
//! * [`tokens`]: who somebody is, and for how long.
//! * [`sandboxes`]: sandboxes by name.
//! * [`streams`]: leases, and an abort handle for each open stream.
//! * [`exec`]: one command for one client.
//! * [`processes`]: background processes, by whose they are; [`background`]: one of them; [`follow`], [`page`]: who follows
//!   it, or polls it; [`tickets`]: what lets a WebSocket do so.
//! * [`memory`]: what outlives the server, and is there again after a restart.
//! * [`watches`]: directories that are watched for changes.
//! * [`notices`]: what changes, for clients that are told that it did.
//! * `local`: sandboxes on this machine (feature `local`); [`envd`]: sandboxes behind a daemon.
//! * [`shutdown`]: the end of it all.

pub mod background;
mod bell;
pub mod envd;
pub mod exec;
pub mod follow;
#[cfg(feature = "local")]
pub mod local;
pub mod memory;
pub mod notices;
pub mod page;
pub mod processes;
pub mod sandboxes;
pub mod shutdown;
pub mod streams;
pub mod tickets;
pub mod tokens;
pub mod watches;

use crate::{ApiError, Settings, metrics::Metrics};
use hangar_backends::{Runtime, runtime::sleep_until};
use hangar_core::{Close, tickets::Tickets};
use processes::Processes;
use sandboxes::Sandboxes;
use std::collections::BTreeMap;
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
    atomic::{AtomicBool, Ordering},
};
use streams::Streams;
use tokens::{Caller, Hash, NewToken, Record, Standing, Tokens};
use watches::Watches;

/// Everything that one server, or one embedding program, offers.
pub struct Plane {
    runtime: Arc<dyn Runtime>,
    settings: Settings,
    tokens: Tokens,
    /// What processes that outlive the server are marked with; None where nothing does.
    key: OnceLock<memory::Key>,
    sandboxes: Sandboxes,
    streams: Streams,
    processes: Processes,
    watches: Arc<Watches>,
    /// By token.
    tickets: Mutex<BTreeMap<String, Tickets<Hash, tickets::Ticket>>>,
    metrics: Arc<Metrics>,
    shutting_down: AtomicBool,
    /// A shutdown does not wait any longer.
    hurried: AtomicBool,
}

impl std::fmt::Debug for Plane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plane").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Plane {
    /// A plane with these tokens and no sandbox. It rechecks its open streams until it is dropped.
    pub fn new(runtime: Arc<dyn Runtime>, settings: Settings, tokens: Tokens) -> Arc<Self> {
        let metrics = Arc::new(Metrics::default());
        let plane = Arc::new(Self {
            streams: Streams::new(&settings, Arc::clone(&metrics)),
            sandboxes: Sandboxes::default(),
            processes: Processes::new(&settings),
            watches: Watches::new(&settings),
            tickets: Mutex::default(),
            runtime: Arc::clone(&runtime),
            settings,
            tokens,
            key: OnceLock::new(),
            metrics,
            shutting_down: AtomicBool::new(false),
            hurried: AtomicBool::new(false),
        });
        runtime.spawn(Box::pin(recheck(Arc::downgrade(&plane), Arc::clone(&runtime))));
        runtime.spawn(Box::pin(follow::give_up_the_slow(Arc::downgrade(&plane), Arc::clone(&runtime))));
        plane
    }

    /// The runtime it runs on.
    pub fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    /// Its limits.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Who may.
    pub const fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Where.
    pub const fn sandboxes(&self) -> &Sandboxes {
        &self.sandboxes
    }

    /// What is open.
    pub const fn streams(&self) -> &Streams {
        &self.streams
    }

    /// What is counted.
    pub const fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Whether it ends: nothing new is started.
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::SeqCst)
    }

    /// Who calls, by the token they show.
    pub fn authenticate(&self, bearer: &str) -> Result<Caller, ApiError> {
        self.tokens
            .authenticate(bearer, self.runtime.wall_ms())
            .ok_or_else(|| ApiError::unauthorized("the token is unknown, revoked or expired"))
    }

    /// Asks again whether a caller still may: time has passed since they showed their token.
    pub fn recheck(&self, caller: &Caller) -> Result<(), ApiError> {
        match self.tokens.standing(caller.token(), self.runtime.wall_ms()) {
            Standing::Valid => Ok(()),
            Standing::Revoked | Standing::Expired => {
                Err(ApiError::unauthorized("the token was revoked or has expired"))
            }
        }
    }

    /// Whether a token may still be used.
    pub(crate) fn is_valid(&self, token: &str) -> bool {
        self.tokens.standing(token, self.runtime.wall_ms()) == Standing::Valid
    }

    /// Whether a token was revoked: not only has it expired.
    fn is_revoked(&self, token: &str) -> bool {
        self.tokens.standing(token, self.runtime.wall_ms()) == Standing::Revoked
    }

    /// Makes a token. The secret is in the answer and nowhere else.
    pub async fn create_token(self: &Arc<Self>, new: NewToken) -> Result<(Record, String), ApiError> {
        let plane = Arc::clone(self);
        self.to_its_end(async move { plane.tokens.create(new, &*plane.runtime).await }).await
    }

    /// Revokes a token, and with it everything that it has open.
    pub async fn revoke(self: &Arc<Self>, id: &str) -> Result<(), ApiError> {
        let (plane, id) = (Arc::clone(self), id.to_owned());
        self.to_its_end(async move {
            plane.tokens.revoke(&id, &*plane.runtime).await?;
            plane.close_streams(Close::Revoked, |stream| stream.token() == id);
            plane.watches.end(Close::Revoked, |watched| watched.token() == id);
            plane.stop_processes_of_revoked();
            Ok(())
        })
        .await
    }

    /// Does something in a task of its own: what is begun is carried out, also when its client leaves half-way.
    async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
    ) -> Result<T, ApiError> {
        let (done, result) = tokio::sync::oneshot::channel();
        self.runtime.spawn(Box::pin(async move {
            // Whoever waited may have left.
            drop(done.send(work.await));
        }));
        result.await.map_err(|_| ApiError::shutting_down())?
    }

    /// A new id: a ULID of the wall clock's time and randomness.
    pub fn new_id(&self) -> String {
        new_id(&*self.runtime)
    }

    /// While a stream was being opened its token, its sandbox or the server may have come to an end: whoever ended them
    /// did not find it yet.
    fn close_if_late(&self, open: &streams::Open, caller: &Caller, entry: &sandboxes::Entry) {
        if let Some(reason) = entry.close_reason() {
            self.close_streams(reason, |stream| stream.id() == open.id());
        }
        self.close_if_over(open, caller);
    }

    /// The same for one that is about no sandbox.
    fn close_if_over(&self, open: &streams::Open, caller: &Caller) {
        let standing = self.tokens.standing(caller.token(), self.runtime.wall_ms());
        let late = [
            (standing != Standing::Valid).then_some(Close::Revoked),
            self.is_shutting_down().then_some(Close::Shutdown),
        ];
        for reason in late.into_iter().flatten() {
            self.close_streams(reason, |stream| stream.id() == open.id());
        }
    }

    /// Ends the open streams that `which` picks, and aborts the connections that do not take it.
    pub fn close_streams(&self, reason: Close, which: impl Fn(&streams::Entry) -> bool) {
        self.streams.close(reason, which, &self.runtime);
    }
}

fn new_id(runtime: &dyn Runtime) -> String {
    let mut random = [0; 16];
    runtime.random(&mut random);
    let ms = u64::try_from(runtime.wall_ms()).unwrap_or(0);
    ulid::Ulid::from_parts(ms, u128::from_le_bytes(random)).to_string()
}

/// Ends the streams and the watches whose token is no longer valid, every `HANGAR_STREAM_RECHECK_SECONDS`.
async fn recheck(plane: Weak<Plane>, runtime: Arc<dyn Runtime>) {
    while let Some(plane) = plane.upgrade() {
        let now = plane.runtime.wall_ms();
        let mut bad = plane.streams.tokens();
        bad.extend(plane.watches.tokens());
        bad.retain(|token| plane.tokens.standing(token, now) != Standing::Valid);
        if !bad.is_empty() {
            let is_bad = |other: &str| bad.iter().any(|token| token == other);
            plane.close_streams(Close::Revoked, |stream| is_bad(stream.token()));
            plane.watches.end(Close::Revoked, |watched| is_bad(watched.token()));
        }
        let next = runtime.now() + plane.settings.stream_recheck;
        plane.stop_processes_of_revoked();
        plane.purge_tickets();
        drop(plane);
        sleep_until(&*runtime, next).await;
    }
}

/// Locks, whoever panicked while they held it: what is behind these locks is whole between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
