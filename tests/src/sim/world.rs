//! The whole server with a sandbox of scripts, and what must hold at the end of every scenario.

use super::{
    client::{Client, Request, Response},
    net::Link,
    runtime::{Sim, SimRuntime},
    sandbox::SimSandbox,
    stream::Stream,
};
use async_executor::Task;
use hangar_backends::{
    Runtime, Sandbox,
    runtime::{Address, sleep_until},
    store::MemoryStore,
};
use hangar_core::Time;
use hangar_transports::{
    ApiError, Plane, Settings,
    mcp::Handler,
    plane::{
        sandboxes::{Factory, Made, NewLocal},
        tokens::Tokens,
    },
    rest::{Guard, ProtectedResource, Service},
    server::Server,
};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::Notify;

/// The first admin token.
pub const ADMIN: &str = "the-admin-token";

/// What a run starts with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What everything random comes from.
    pub seed: u64,
    /// What connections are like.
    pub link: Link,
    /// The limits.
    pub settings: Settings,
    /// The hosts and origins that are answered.
    pub guard: Guard,
    /// Where clients of MCP get tokens of others.
    pub oauth: Option<ProtectedResource>,
    /// What answers calls over MCP; the plane's own tools without it.
    pub mcp: Option<fn() -> Arc<dyn Handler>>,
    /// Whether the sandbox ends with the server, as those on this machine do.
    pub ends_with_server: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            seed: 0,
            link: Link::INSTANT,
            settings: Settings::default(),
            guard: Guard::default(),
            oauth: None,
            mcp: None,
            ends_with_server: true,
        }
    }
}

/// A running server: with the sandbox `box`, which is open to users, and the token [`ADMIN`].
#[derive(Clone)]
pub struct World {
    /// Its runtime.
    pub runtime: Arc<SimRuntime>,
    /// Its plane.
    pub plane: Arc<Plane>,
    /// Its server.
    pub server: Arc<Server>,
    /// The sandbox `box`.
    pub sandbox: Arc<SimSandbox>,
    /// The sandboxes that were made on request.
    pub made: Arc<Mutex<Vec<Arc<SimSandbox>>>>,
    address: Address,
    stop: Arc<Notify>,
    hurry: Arc<Notify>,
    /// When the server had ended, and how many commands it had to kill.
    ended: Arc<Mutex<Option<(Time, usize)>>>,
}

/// Runs a scenario, ends the server, and checks that nothing is left. Returns the trace.
pub fn run(setup: Setup, scenario: impl AsyncFnOnce(&World)) -> Vec<String> {
    let sim = Sim::new(setup.seed, setup.link);
    let shown = Shown(Arc::clone(sim.runtime()));
    sim.block_on(async {
        let (world, ended) = World::start(&sim, setup).await;
        scenario(&world).await;
        world.settle().await;
        world.shut_down();
        ended.await;
        world.check_nothing_is_left().await;
    });
    drop(shown);
    sim.runtime().trace().lines()
}

/// Shows the last of the trace where a scenario fails.
struct Shown(Arc<SimRuntime>);

impl Drop for Shown {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let lines = self.0.trace().lines();
            let last = &lines[lines.len().saturating_sub(100)..];
            eprintln!("the last of what happened:\n{}", last.join("\n"));
        }
    }
}

impl World {
    async fn start(sim: &Sim, setup: Setup) -> (Self, Task<()>) {
        let runtime = Arc::clone(sim.runtime());
        let neutral: Arc<dyn Runtime> = Arc::clone(&runtime) as _;
        let tokens = Tokens::load(Some(ADMIN), Arc::new(MemoryStore::default())).await.unwrap();
        let plane = Plane::new(Arc::clone(&neutral), setup.settings, tokens);
        let sandbox = SimSandbox::new(Arc::clone(&runtime), setup.ends_with_server);
        plane.add_sandbox("box", made(&sandbox)).unwrap();
        let made = Arc::default();
        let factory = SimFactory { runtime: Arc::clone(&runtime), made: Arc::clone(&made) };
        plane.sandboxes().set_factory(Arc::new(factory));
        let service = match setup.mcp {
            None => Service::new(Arc::clone(&plane), setup.guard),
            Some(handler) => Service::with_mcp(Arc::clone(&plane), setup.guard, handler()),
        };
        let service = match setup.oauth {
            None => service,
            Some(resource) => service.with_oauth(resource),
        };
        let server = Arc::new(Server::of(service));
        let listener = neutral.listen(Address::Tcp("127.0.0.1:0".parse().unwrap())).await.unwrap();
        let world = Self {
            address: listener.address().clone(),
            stop: Arc::default(),
            hurry: Arc::default(),
            ended: Arc::default(),
            runtime,
            plane,
            server,
            sandbox,
            made,
        };
        let running = world.clone();
        let ended = world.runtime.task(async move {
            let Self { server, stop, hurry, runtime, ended, .. } = running;
            let killed = server.run(listener, stop.notified(), hurry.notified()).await;
            runtime.trace().note(format_args!("the server has ended, {killed} commands were killed"));
            *ended.lock().unwrap() = Some((runtime.now(), killed));
        });
        (world, ended)
    }

    /// A new connection.
    ///
    /// # Panics
    ///
    /// If the server does not listen.
    pub fn client(&self) -> Client {
        Client::new(self.runtime.network().connect(&self.address).unwrap(), Arc::clone(&self.runtime))
    }

    /// Where the server listens.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// A new connection, if the server listens.
    pub fn try_client(&self) -> Option<Client> {
        let socket = self.runtime.network().connect(&self.address).ok()?;
        Some(Client::new(socket, Arc::clone(&self.runtime)))
    }

    /// A new connection that is like `link`.
    ///
    /// # Panics
    ///
    /// If the server does not listen.
    pub fn client_by(&self, link: Link) -> Client {
        let socket = self.runtime.network().connect_by(&self.address, link).unwrap();
        Client::new(socket, Arc::clone(&self.runtime))
    }

    /// Whether the server listens.
    pub fn listens(&self) -> bool {
        self.runtime.network().connect(&self.address).is_ok()
    }

    /// Calls the server on a connection of its own, as the admin.
    pub async fn api(&self, method: &'static str, path: &str, body: Option<Value>) -> Response {
        let request = Request::new(method, path).bearer(ADMIN);
        let request = match &body {
            Some(body) => request.json(body),
            None => request,
        };
        self.client().call(&request).await.unwrap()
    }

    /// A new token: its id and its secret.
    pub async fn token(&self, wanted: Value) -> (String, String) {
        let response = self.api("POST", "/api/tokens", Some(wanted)).await;
        assert_eq!(response.status, 201, "{response:?}");
        let json = response.json();
        let text = |name: &str| json[name].as_str().unwrap().to_owned();
        (text("id"), text("token"))
    }

    /// Streams a command as the admin.
    pub async fn stream(&self, script: &str) -> Stream {
        self.stream_as(ADMIN, json!({ "command": script })).await
    }

    /// Streams a command with a token.
    pub async fn stream_as(&self, token: &str, body: Value) -> Stream {
        self.client().stream(&exec(token, &body, true)).await.unwrap()
    }

    /// Asks the server to end.
    pub fn shut_down(&self) {
        self.runtime.trace().note("shutdown");
        self.stop.notify_one();
    }

    /// Asks it to end without waiting.
    pub fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// When the server had ended, and how many commands it had to kill; once it has.
    pub fn server_ended(&self) -> Option<(Time, usize)> {
        *self.ended.lock().unwrap()
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.runtime.now()
    }

    /// Waits.
    pub async fn sleep_ms(&self, ms: u64) {
        self.runtime.sleep(Duration::from_millis(ms)).await;
    }

    /// Waits for a time.
    pub async fn sleep_until_ms(&self, ms: u64) {
        sleep_until(&*self.runtime, at_ms(ms)).await;
    }

    /// The value of a metric by its whole name, labels included; 0 where it is not there.
    ///
    /// # Panics
    ///
    /// If its value is no number.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.plane.metrics().text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Streams that ended for a reason.
    pub fn ended(&self, reason: &str) -> f64 {
        self.metric(&format!("hangar_streams_total{{kind=\"exec\",reason=\"{reason}\"}}"))
    }

    /// Commands that run in `box`.
    pub fn running(&self) -> usize {
        self.sandbox.records().iter().filter(|record| record.released_at.is_none()).count()
    }

    /// The clients have left: no stream is open, no lease is held.
    ///
    /// # Panics
    ///
    /// If one is.
    pub async fn settle(&self) {
        // As long as the slowest connection takes, and a stream that was asked to end may.
        self.sleep_ms(3_000).await;
        assert_eq!(self.plane.streams().leased(), 0, "all leases are back");
        assert_eq!(self.metric("hangar_streams_open{kind=\"exec\"}"), 0.0, "no stream counts as open");
    }

    async fn check_nothing_is_left(&self) {
        // Whoever was told of the end has heard of it.
        self.sleep_ms(1).await;
        assert!(!self.listens(), "it does not listen");
        assert_eq!(self.server.connections(), 0, "no connection is open");
        assert_eq!(self.plane.streams().len(), 0, "nothing is followed");
        assert_eq!(self.plane.watches().len(), 0, "no directory is watched");
        let made = self.made.lock().unwrap().clone();
        for sandbox in made.iter().chain([&self.sandbox]) {
            if !sandbox.ends_with_server() {
                sandbox.destroy().await.unwrap();
            }
            assert_eq!(sandbox.processes().len(), 0, "no process is left undriven");
            assert_eq!(sandbox.watches.open_now(), 0, "no watch is left");
            for record in sandbox.records() {
                assert!(record.released_at.is_some(), "it was let go of: {record:?}");
            }
        }
    }
}

/// The time so many milliseconds after the start.
pub const fn at_ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

/// The request for a command in `box`.
pub fn exec(token: &str, body: &Value, stream: bool) -> Request {
    let path = if stream { "/api/sandboxes/box/exec/stream" } else { "/api/sandboxes/box/exec" };
    Request::new("POST", path).bearer(token).json(body)
}

fn made(sandbox: &Arc<SimSandbox>) -> Made {
    Made {
        sandbox: Arc::clone(sandbox) as _,
        provider: "sim",
        url: None,
        workdir: None,
        daemon: true,
        is_remembered: false,
        open_to_users: true,
    }
}

struct SimFactory {
    runtime: Arc<SimRuntime>,
    made: Arc<Mutex<Vec<Arc<SimSandbox>>>>,
}

impl Factory for SimFactory {
    fn create(&self, _: &str, new: &NewLocal) -> Result<Made, ApiError> {
        if new.workdir.as_ref().is_some_and(|workdir| !workdir.starts_with('/')) {
            return Err(ApiError::bad_field("workdir", "bad_workdir", "workdir: it is not absolute"));
        }
        let sandbox = SimSandbox::new(Arc::clone(&self.runtime), true);
        self.made.lock().unwrap().push(Arc::clone(&sandbox));
        Ok(made(&sandbox))
    }

    fn create_again(&self, id: &str, new: &NewLocal) -> Made {
        self.create(id, new).unwrap()
    }
}
