//! A whole server in this process.

use super::{
    On,
    client::Client,
    envd::Envd,
    machine::{Folder, PATIENCE},
};
use hangar_backends::{
    Runtime,
    local::User,
    runtime::{Address, sleep_until},
    store::{MemoryStore, SqliteStore, Store},
};
use hangar_transports::{
    Plane, Settings,
    mcp::session::table::Sessions,
    plane::{
        envd::NewEnvd,
        local::Local,
        sandboxes::{NewLocal, NewSandbox},
        tokens::Tokens,
    },
    rest::{Guard, Service},
};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::sync::Notify;

/// The admin's token of every server.
pub const TOKEN: &str = "hangar-tests-admin";

/// What a server is to be.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Its limits.
    pub settings: Settings,
    /// As whom its commands run.
    pub user: Option<User>,
    /// Where its store is; in memory without it.
    pub store: Option<PathBuf>,
}

impl Options {
    /// With a pace that no test notices, and no cap.
    #[must_use]
    pub fn unpaced() -> Self {
        let mut options = Self::default();
        options.settings.stream_bytes_per_second = 1 << 40;
        options.settings.stream_max_bytes = 1 << 40;
        options
    }
}

/// A server that listens on a port of its own, with the sandbox `local`. Dropped, it is shut down without waiting for
/// its commands; nothing may be open after that.
#[derive(Debug)]
pub struct Server {
    plane: Arc<Plane>,
    sessions: Arc<Sessions>,
    client: Client,
    shutdown: Arc<Notify>,
    hurry: Arc<Notify>,
    ended: Mutex<mpsc::Receiver<End>>,
    thread: Option<JoinHandle<()>>,
    /// Where its commands run: it ends after the server.
    daemon: Option<Envd>,
    /// The home of its commands, where they leave something there.
    home: Option<Folder>,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct End {
    /// Commands that it had to kill.
    pub killed: usize,
    /// Streams that were still open, and leases that were held.
    pub left: (usize, usize),
}

struct Parts {
    on: On,
    options: Options,
    /// Where the daemon is behind which commands run.
    url: Option<String>,
    shutdown: Arc<Notify>,
    hurry: Arc<Notify>,
    ready: mpsc::Sender<(Arc<Plane>, Arc<Sessions>, SocketAddr)>,
}

impl Server {
    pub(super) fn start(on: On, mut options: Options) -> Self {
        let home = (on == On::Daemonless).then(Folder::new);
        if let Some(home) = &home {
            let user = options.user.take().unwrap_or_else(User::current);
            options.user = Some(User { home: home.path().to_owned(), ..user });
        }
        let (shutdown, hurry) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (ready, started) = mpsc::channel();
        let (done, ended) = mpsc::channel();
        let daemon = (on == On::Envd).then(|| On::Smol.envd());
        let url = daemon.as_ref().map(|daemon| format!("http://{}", daemon.address()));
        let parts =
            Parts { on, options, url, shutdown: Arc::clone(&shutdown), hurry: Arc::clone(&hurry), ready };
        let thread = thread::Builder::new().name(format!("a server on {on}")).spawn(move || {
            let end = match on {
                On::Tokio | On::Envd | On::Daemonless => {
                    let threads = hangar::Threads::new().unwrap();
                    let end = threads.block_on(serve(Arc::new(threads.runtime()), parts));
                    threads.shutdown(Duration::from_secs(1));
                    end
                }
                On::Smol => {
                    let threads = hangar_smol::Threads::new(2).unwrap();
                    threads.block_on(serve(Arc::new(threads.runtime()), parts))
                }
            };
            // A failed test has gone.
            done.send(end).ok();
        });
        let (plane, sessions, address) = started.recv_timeout(PATIENCE).expect("the server starts");
        let client = Client { address, token: TOKEN.to_owned() };
        let (ended, thread) = (Mutex::new(ended), Some(thread.unwrap()));
        Self { plane, sessions, client, shutdown, hurry, ended, thread, daemon, home }
    }

    /// A client with the admin's token.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Whether the sandbox `local` is this machine as it is: it can be paused, and ends with its server.
    pub const fn is_local(&self) -> bool {
        self.daemon.is_none() && self.home.is_none()
    }

    /// The daemon behind which its sandbox is.
    pub const fn daemon(&self) -> Option<&Envd> {
        self.daemon.as_ref()
    }

    /// What to ask for to have another sandbox like `local`.
    pub fn another(&self, name: &str) -> Value {
        match &self.daemon {
            None if self.home.is_some() => json!({ "name": name, "daemon": false }),
            None => json!({ "name": name }),
            Some(daemon) => {
                json!({ "name": name, "provider": "envd", "url": format!("http://{}", daemon.address()) })
            }
        }
    }

    /// What it serves.
    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// The sessions of clients of MCP that have one.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Asks it to shut down; [`wait`](Self::wait) waits for that.
    pub fn shut_down(&self) {
        self.shutdown.notify_one();
    }

    /// Asks it to hurry with that.
    pub fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// Waits until it has shut down.
    pub fn wait(mut self) -> End {
        self.join()
    }

    fn join(&mut self) -> End {
        let end = self.ended.lock().unwrap().recv_timeout(PATIENCE).expect("the server ends");
        self.thread.take().unwrap().join().unwrap();
        assert_eq!(end.left, (0, 0), "streams and leases that were not given back");
        end
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shut_down();
        self.hurry();
        if self.thread.is_some() && !thread::panicking() {
            self.join();
        }
    }
}

async fn serve(runtime: Arc<dyn Runtime>, parts: Parts) -> End {
    let Parts { on, options, url, shutdown, hurry, ready } = parts;
    let store: Arc<dyn Store> = match options.store {
        Some(file) => Arc::new(SqliteStore::open(&file).unwrap()),
        None => Arc::new(MemoryStore::default()),
    };
    let tokens = Tokens::load(Some(TOKEN), store).await.unwrap();
    let plane = Plane::new(Arc::clone(&runtime), options.settings, tokens);
    match url {
        None if on == On::Daemonless => {
            plane.sandboxes().set_factory(Arc::new(Local::new(Arc::clone(&runtime), options.user)));
            let new = NewLocal { workdir: None, daemon: false };
            plane.create_sandbox(Some("local"), NewSandbox::Local(new)).await.unwrap();
        }
        None => Local::new(Arc::clone(&runtime), options.user).offer(&plane).unwrap(),
        Some(url) => {
            let new = NewEnvd { url, token: None, workdir: None };
            plane.create_sandbox(Some("local"), NewSandbox::Envd(new)).await.unwrap();
        }
    }
    let listener = runtime.listen(Address::Tcp(([127, 0, 0, 1], 0).into())).await.unwrap();
    let Address::Tcp(address) = *listener.address() else { panic!("it listens on TCP") };
    let service = Service::new(Arc::clone(&plane), Guard::default());
    ready.send((Arc::clone(&plane), Arc::clone(service.mcp_sessions()), address)).unwrap();
    let server = hangar_transports::server::Server::of(service);
    let killed = server.run(listener, shutdown.notified(), hurry.notified()).await;
    if on == On::Daemonless {
        // What is detached there outlives servers, and is not to outlive the test.
        for entry in plane.sandboxes().all() {
            entry.sandbox().destroy().await.unwrap();
        }
    }
    // Aborted connections let go of their streams in their own tasks.
    let left = || (plane.streams().len(), plane.streams().leased());
    for _ in 0..500 {
        if left() == (0, 0) {
            break;
        }
        sleep_until(&*runtime, runtime.now() + Duration::from_millis(10)).await;
    }
    End { killed, left: left() }
}
