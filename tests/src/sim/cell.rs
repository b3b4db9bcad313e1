//! A daemon with a sandbox of scripts, and a client that follows what happens in it.

use super::{
    client::{Client, End, Request},
    net::Link,
    runtime::{Sim, SimRuntime},
    sandbox::{SCRIPT, SimSandbox},
};
use crate::envd::{self, Event};
use async_executor::Task;
use hangar_backends::{Runtime, Sandbox as _, local::files::Files, runtime::Address};
use hangar_core::{
    Time,
    wire::{
        connect::{Codec, Decoder, Kind, RpcError, head::content_type},
        envd::{
            Message,
            process::{ConnectRequest, Empty, ListResponse, ProcessSelector, StartRequest},
        },
    },
};
use hangar_transports::connect::{Config, Daemon};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// A running daemon.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its runtime.
    pub runtime: Arc<SimRuntime>,
    /// Its sandbox.
    pub sandbox: Arc<SimSandbox>,
    address: Address,
    stop: Arc<Notify>,
}

/// Runs a scenario, ends the daemon, and checks that nothing is left.
///
/// # Panics
///
/// If something is.
pub fn run_cell(seed: u64, link: Link, scenario: impl AsyncFnOnce(&Cell)) -> Vec<String> {
    let sim = Sim::new(seed, link);
    sim.block_on(async {
        let (cell, ended) = Cell::start(&sim).await;
        scenario(&cell).await;
        cell.stop();
        ended.await;
        assert_eq!(cell.sandbox.watches.open_now(), 0, "nothing is watched any more");
        assert_eq!(cell.sandbox.processes().len(), 0, "no process is left undriven");
        for record in cell.sandbox.records() {
            assert!(record.released_at.is_some(), "it was let go of: {record:?}");
        }
    });
    sim.runtime().trace().lines()
}

/// This script, with input.
pub fn script(script: &str) -> StartRequest {
    StartRequest { stdin: Some(true), ..envd::argv(&[SCRIPT, script]) }
}

impl Cell {
    async fn start(sim: &Sim) -> (Self, Task<()>) {
        let runtime = Arc::clone(sim.runtime());
        let neutral: Arc<dyn Runtime> = Arc::clone(&runtime) as _;
        let sandbox = SimSandbox::new(Arc::clone(&runtime), true);
        let config = Config {
            sandbox: Arc::clone(&sandbox) as _,
            files: Files::new(None).unwrap(),
            user: None,
            token: None,
            variables: BTreeMap::new(),
        };
        let daemon = Daemon::new(Arc::clone(&neutral), config);
        let listener = neutral.listen(Address::Tcp("127.0.0.1:0".parse().unwrap())).await.unwrap();
        let cell = Self { address: listener.address().clone(), stop: Arc::default(), runtime, sandbox };
        let running = cell.clone();
        let ended = cell.runtime.task(async move {
            let stop = Arc::clone(&running.stop);
            daemon.run(listener, stop.notified()).await.unwrap();
        });
        (cell, ended)
    }

    /// Asks the daemon to end.
    pub fn stop(&self) {
        self.stop.notify_one();
    }

    /// Where the daemon listens.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// A new connection that is like `link`.
    ///
    /// # Panics
    ///
    /// If the daemon does not listen.
    pub fn client_by(&self, link: Link) -> Client {
        let socket = self.runtime.network().connect_by(&self.address, link).unwrap();
        Client::new(socket, Arc::clone(&self.runtime))
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        self.client_by(Link::INSTANT)
    }

    /// Opens a stream about a process on a connection of its own.
    pub async fn follow<Q: Message>(
        &self,
        client: Client,
        method: &str,
        request: &Q,
        headers: &[(&str, &str)],
    ) -> Result<Follower, End> {
        self.stream(client, &format!("process.Process/{method}"), request, headers, envd::event).await
    }

    /// Opens a stream, whose messages are read by `read`.
    pub(super) async fn stream<Q: Message, T>(
        &self,
        mut client: Client,
        method: &str,
        request: &Q,
        headers: &[(&str, &str)],
        read: fn(Codec, &mut Decoder) -> Option<T>,
    ) -> Result<Follower<T>, End> {
        let mut call = Request::new("POST", format!("/{method}"))
            .header("content-type", content_type(Kind::Stream, Codec::Proto))
            .body(envd::messages(Codec::Proto, std::slice::from_ref(request)));
        for (name, value) in headers {
            call = call.header(name, value);
        }
        client.send(&call.bytes()).await?;
        let head = client.head().await?;
        assert_eq!(head.status, 200, "{head:?}");
        let whole = head.header("content-length").map(|len| len.parse().unwrap());
        Ok(Follower { client, decoder: Decoder::new(1 << 20), whole, read })
    }

    /// Starts a script.
    ///
    /// # Panics
    ///
    /// If the connection ends.
    pub async fn start_script(&self, text: &str, headers: &[(&str, &str)]) -> Follower {
        self.follow(self.client(), "Start", &script(text), headers).await.unwrap()
    }

    /// Follows a process.
    ///
    /// # Panics
    ///
    /// If the connection ends.
    pub async fn connect(&self, process: ProcessSelector, headers: &[(&str, &str)]) -> Follower {
        let request = ConnectRequest { process: Some(process) };
        self.follow(self.client(), "Connect", &request, headers).await.unwrap()
    }

    /// A unary call: of `process.Process/List`, say.
    ///
    /// # Panics
    ///
    /// If the connection ends.
    pub async fn call<Q: Message, A: Message>(
        &self,
        method: &str,
        request: &Q,
        headers: &[(&str, &str)],
    ) -> Result<A, RpcError> {
        let mut body = bytes::BytesMut::new();
        hangar_core::wire::envd::encode(Codec::Json, request, &mut body);
        let mut call = Request::new("POST", format!("/{method}"))
            .header("content-type", content_type(Kind::Unary, Codec::Json))
            .body(body.to_vec());
        for (name, value) in headers {
            call = call.header(name, value);
        }
        let response = self.client().call(&call).await.unwrap();
        match response.status {
            200 => Ok(hangar_core::wire::envd::decode(Codec::Json, &response.body).unwrap()),
            status => Err(RpcError::of_http(status, &response.body)),
        }
    }

    /// How many processes run.
    pub async fn running(&self) -> usize {
        self.call::<_, ListResponse>("process.Process/List", &Empty {}, &[]).await.unwrap().processes.len()
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.runtime.now()
    }

    /// Waits.
    pub async fn sleep_ms(&self, ms: u64) {
        self.runtime.sleep(Duration::from_millis(ms)).await;
    }
}

/// The process with this number.
pub const fn pid(pid: u32) -> ProcessSelector {
    ProcessSelector { pid: Some(pid), tag: None }
}

/// A stream of the daemon. Dropped, its client has left.
#[derive(Debug)]
pub struct Follower<T = Event> {
    /// Its connection.
    pub client: Client,
    decoder: Decoder,
    /// The length of an answer that is no stream.
    whole: Option<usize>,
    read: fn(Codec, &mut Decoder) -> Option<T>,
}

impl<T> Follower<T> {
    /// The next event; how the connection ended where that came first.
    pub async fn try_next(&mut self) -> Result<T, End> {
        loop {
            if let Some(event) = (self.read)(Codec::Proto, &mut self.decoder) {
                return Ok(event);
            }
            let piece = match self.whole.take() {
                Some(len) => self.client.bytes(len).await?,
                None => self.client.chunk().await?.ok_or(End::Eof)?,
            };
            self.decoder.push(&piece);
        }
    }

    /// The next event, which has to come.
    ///
    /// # Panics
    ///
    /// If the connection ends.
    pub async fn next(&mut self) -> T {
        self.try_next().await.unwrap()
    }
}

impl Follower {
    /// The number of the process: the first thing that is said.
    ///
    /// # Panics
    ///
    /// If something else is.
    #[expect(clippy::wildcard_enum_match_arm, reason = "what is not expected is all the rest")]
    pub async fn pid(&mut self) -> u32 {
        match self.next().await {
            Event::Start(start) => start.pid,
            other => panic!("{other:?} came first"),
        }
    }
}
