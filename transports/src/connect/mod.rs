//! One sandbox by the protocol of E2B's envd: its clients work against it unchanged. See `docs/envd.md`.
//!
//! ```text
//!  socket ──► http ──► fence (host, origin, token) ──► call (codec, deadline, message) ──► process, filesystem
//!                                                        └──► files, init, health, metrics: plain HTTP
//! ```
//!
//! A process belongs to nobody: whoever may call sees all of them, as with envd. It outlives its clients, and every stream
//! about it is a [`Subscription`](hangar_core::subscription::Subscription) that pulls.

mod answer;
mod body;
mod call;
mod ended;
mod fence;
mod files;
mod filesystem;
mod head;
mod init;
mod input;
mod machine;
mod messages;
mod process;
mod receipts;
mod stream;
mod watch;

use crate::http::{self, Acceptor, Connection, Stuck};
use hangar_backends::{
    Runtime, Sandbox, local::files::Files, pool, runtime::Listener, sandbox::SandboxError,
};
use hangar_core::roster::{self, Roster};
use hyper::{Method, Request, Response, StatusCode, body::Incoming};
use std::{
    fmt,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Semaphore;

pub use body::Body;
pub use fence::{BadToken, Token};

/// The version of envd whose protocol this is.
pub const ENVD_VERSION: &str = "0.6.13";

/// What a client that knows hangar can rely on, for the header `Hangar-Envd`.
pub const FEATURES: &str = "1; log, since, retention, exited, signals, group, watch, acknowledge";

/// What is read of a body that an answer did not read, so that its client reads the answer: as much as the longest message.
const MAX_UNREAD: usize = 16 * 1024 * 1024;

/// Threads that files may have at once: half of those that there are.
const THREADS_FOR_FILES: usize = pool::MAX_THREADS / 2;

/// How a daemon serves its sandbox.
pub struct Config {
    /// Where commands run.
    pub sandbox: Arc<dyn Sandbox>,
    /// The files that are served.
    pub files: Files,
    /// As whom they run where a request names nobody; the sandbox's own user without it.
    pub user: Option<String>,
    /// The token that requests have to carry, until `/init` sets one.
    pub token: Option<Token>,
    /// Variables that every command has.
    pub variables: std::collections::BTreeMap<String, String>,
}

/// A sandbox, and what runs in it.
pub struct Daemon {
    runtime: Arc<dyn Runtime>,
    sandbox: Arc<dyn Sandbox>,
    files: Arc<Files>,
    threads_for_files: Arc<Semaphore>,
    processor: Mutex<machine::Processor>,
    init: Mutex<init::Settings>,
    roster: Mutex<Roster<Arc<process::Entry>>>,
    forgetting: Arc<ended::Forgetting>,
    streams: stream::Streams,
    watches: watch::Watches,
    shutting_down: AtomicBool,
}

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemon").finish_non_exhaustive()
    }
}

impl Daemon {
    /// A daemon of a sandbox.
    pub fn new(runtime: Arc<dyn Runtime>, config: Config) -> Arc<Self> {
        let Config { sandbox, files, user, token, variables } = config;
        Arc::new(Self {
            runtime,
            sandbox,
            files: Arc::new(files),
            threads_for_files: Arc::new(Semaphore::new(THREADS_FOR_FILES)),
            processor: Mutex::default(),
            init: Mutex::new(init::Settings { user, token, directory: None, variables }),
            roster: Mutex::new(Roster::new(roster::Config::default())),
            forgetting: Arc::default(),
            streams: stream::Streams::default(),
            watches: watch::Watches::default(),
            shutting_down: AtomicBool::new(false),
        })
    }

    /// The runtime it is on.
    pub const fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    /// Answers what comes to `listener` until `stop` is ready, then ends the sandbox with everything in it: TERM, and KILL
    /// after 3 s. Nothing is started meanwhile.
    ///
    /// # Errors
    ///
    /// What is left of the sandbox.
    pub async fn run(
        self: &Arc<Self>,
        mut listener: Box<dyn Listener>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), SandboxError> {
        let service = Service(Arc::clone(self));
        let acceptor = Acceptor::new(service, Arc::clone(&self.runtime), Arc::new(Stuck::default()));
        acceptor.accept_until(&mut *listener, stop).await;
        drop(listener);
        self.shutting_down.store(true, Ordering::SeqCst);
        self.remove_watchers();
        let destroyed = self.sandbox.destroy().await;
        acceptor.close().await;
        destroyed
    }

    /// Sends a signal to the group of each process.
    pub fn signal_all(&self, signal: hangar_core::process::Signal) {
        for handle in self.sandbox.processes() {
            handle.command(|process| process.signal(signal, hangar_core::process::Target::Group));
        }
    }

    /// A new id: a ULID.
    fn new_id(&self) -> String {
        let mut random = [0; 16];
        self.runtime.random(&mut random);
        let millis = u64::try_from(self.runtime.wall_ms()).unwrap_or_default();
        ulid::Ulid::from_parts(millis, u128::from_le_bytes(random)).to_string()
    }

    fn settings(&self) -> MutexGuard<'_, init::Settings> {
        self.init.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn roster(&self) -> MutexGuard<'_, Roster<Arc<process::Entry>>> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers requests for a daemon.
#[derive(Debug)]
pub struct Service(pub Arc<Daemon>);

impl http::Service for Service {
    type Body = Body;

    /// As long as envd: clients keep connections for later, and one that is closed just as it is used is a call that fails.
    const IDLE: Duration = Duration::from_secs(640);

    const UNTAKEN: Option<Duration> = Some(Duration::from_secs(60));

    async fn answer(&self, mut request: Request<Incoming>, connection: Arc<Connection>) -> Response<Body> {
        let allows_pages = self.0.settings().token.is_some();
        let mut response = match fence::check(&self.0, &request) {
            Err(fence::Refusal(status, why)) => answer::refused(status, why),
            Ok(()) => match fence::preflight(&request) {
                Some(preflight) => preflight,
                None => self.route(&mut request, connection).await,
            },
        };
        if allows_pages {
            fence::allow_pages(&mut response);
        }
        http::drop_unread(&*self.0.runtime, &mut request, MAX_UNREAD).await;
        response
    }
}

impl Service {
    async fn route(&self, request: &mut Request<Incoming>, connection: Arc<Connection>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let call = |method: &Method| call::Call::new(&self.0, Arc::clone(&connection), method);
        match (path.as_str(), request.method()) {
            ("/health", &Method::GET | &Method::HEAD) => answer::health(),
            ("/init", &Method::POST) => init::init(&self.0, request).await,
            ("/envs", &Method::GET) => init::variables(&self.0),
            ("/metrics", &Method::GET) => machine::metrics(&self.0).await,
            ("/files", _) => files::files(&self.0, &connection, request).await,
            ("/files/compose", &Method::POST) => files::compose(&self.0, request).await,
            ("/health" | "/envs" | "/metrics", _) => answer::not_allowed("GET"),
            ("/init" | "/files/compose", _) => answer::not_allowed("POST"),
            (_, method) => match call(method).answer(&path, request).await {
                Some(response) => response,
                None => answer::plain(StatusCode::NOT_FOUND, "404 page not found\n"),
            },
        }
    }
}
