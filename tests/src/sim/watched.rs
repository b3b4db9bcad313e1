//! A daemon with a sandbox in which nothing runs and whose directories change as a test says.

use super::{
    client::{Client, End, Request},
    net::Link,
    runtime::{Sim, SimRuntime},
};
use crate::envd;
use bytes::Bytes;
use hangar_backends::{
    Handle, Runtime, Sandbox,
    local::files::Files,
    runtime::{Address, BoxFuture},
    sandbox::{Adoption, Capabilities, SandboxError, Spec, StartError},
    watching::{Change, WatchError, WatchSpec, Watching},
};
use hangar_core::{
    Time,
    watch::{Event, Kind},
    wire::{
        connect::{self, Codec, Decoder, Kind as CallKind, RpcError, head::content_type},
        envd::{
            Message, decode, encode,
            filesystem::{FilesystemEvent, WatchDirRequest, WatchDirResponse},
        },
    },
};
use hangar_transports::connect::{Config, Daemon};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::sync::Notify;

/// A sandbox whose directories change as a test says.
#[derive(Clone, Debug, Default)]
pub struct WatchedSandbox(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    watches: Vec<Watch>,
    /// What is in each directory.
    is_there: Vec<&'static str>,
    /// Why the next one is not watched.
    refused: VecDeque<WatchError>,
    /// `Ready` is said by the test.
    is_slow: bool,
}

/// One that was asked for.
#[derive(Debug)]
struct Watch {
    spec: WatchSpec,
    changes: VecDeque<Change>,
    waker: Option<Waker>,
    is_open: bool,
}

impl Watch {
    fn tell(&mut self, change: Change) {
        self.changes.push_back(change);
        self.waker.take().into_iter().for_each(Waker::wake);
    }
}

impl WatchedSandbox {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Tells those that watch.
    pub fn tell(&self, change: &Change) {
        let mut state = self.state();
        state.watches.iter_mut().filter(|watch| watch.is_open).for_each(|watch| watch.tell(change.clone()));
    }

    /// Tells them of a change.
    pub fn change(&self, kind: Kind, name: &'static str) {
        self.tell(&Change::Event(Event::new(kind, Bytes::from_static(name.as_bytes()))));
    }

    /// From here on this is in each directory.
    pub fn put(&self, names: &[&'static str]) {
        self.state().is_there = names.to_vec();
    }

    /// The next watch is refused.
    pub fn refuse(&self, error: WatchError) {
        self.state().refused.push_back(error);
    }

    /// From here on nobody is told that everything is watched.
    pub fn be_slow(&self) {
        self.state().is_slow = true;
    }

    /// What was asked for, in that order.
    pub fn specs(&self) -> Vec<WatchSpec> {
        self.state().watches.iter().map(|watch| watch.spec.clone()).collect()
    }

    /// How many watch.
    pub fn open(&self) -> usize {
        self.state().watches.iter().filter(|watch| watch.is_open).count()
    }
}

/// A watch of it: its number.
struct Scripted {
    sandbox: WatchedSandbox,
    number: usize,
    path: String,
}

impl Watching for Scripted {
    fn path(&self) -> &str {
        &self.path
    }

    fn poll_change(&mut self, cx: &mut Context<'_>) -> Poll<Change> {
        let watch = &mut self.sandbox.state().watches[self.number];
        watch.waker = Some(cx.waker().clone());
        watch.changes.pop_front().map_or(Poll::Pending, Poll::Ready)
    }

    fn retell(&mut self) {
        let mut state = self.sandbox.state();
        let is_there = state.is_there.clone();
        let watch = &mut state.watches[self.number];
        watch.tell(Change::Event(Event::overflow()));
        existing(&is_there).for_each(|change| watch.tell(change));
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.sandbox.state().watches[self.number].is_open = false;
    }
}

fn existing(names: &[&'static str]) -> impl Iterator<Item = Change> {
    let created = |name: &&'static str| Event::new(Kind::Create, Bytes::from_static(name.as_bytes()));
    names.iter().map(created).map(Change::Event)
}

impl Sandbox for WatchedSandbox {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            streaming: true,
            stdin: false,
            stdin_end: false,
            tty: false,
            signals: false,
            users: true,
            pause: false,
        }
    }

    fn start(&self, _: Spec) -> BoxFuture<'_, Result<Arc<Handle>, StartError>> {
        Box::pin(async { Err(StartError::Unsupported { field: "command", what: "commands" }) })
    }

    fn watch(&self, spec: WatchSpec) -> BoxFuture<'_, Result<Box<dyn Watching>, WatchError>> {
        Box::pin(async move {
            let mut state = self.state();
            if let Some(error) = state.refused.pop_front() {
                return Err(error);
            }
            let (number, path) = (state.watches.len(), spec.path.clone());
            let mut changes = VecDeque::new();
            if spec.tells_existing {
                changes.extend(existing(&state.is_there));
            }
            changes.extend((!state.is_slow).then_some(Change::Ready));
            state.watches.push(Watch { spec, changes, waker: None, is_open: true });
            drop(state);
            Ok(Box::new(Scripted { sandbox: self.clone(), number, path }) as Box<dyn Watching>)
        })
    }

    fn pause(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async { Err(SandboxError::Unsupported("paused")) })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async { Err(SandboxError::Unsupported("resumed")) })
    }

    fn destroy(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async { Ok(()) })
    }

    fn adopt(&self, _: Adoption) -> Option<Arc<Handle>> {
        None
    }

    fn processes(&self) -> Vec<Arc<Handle>> {
        Vec::new()
    }

    fn ending_with_server(&self) -> Vec<Arc<Handle>> {
        Vec::new()
    }

    fn shut_down(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async { Ok(()) })
    }
}

/// A daemon of such a sandbox.
#[derive(Clone, Debug)]
pub struct Lookout {
    /// Its runtime.
    pub runtime: Arc<SimRuntime>,
    /// Its sandbox.
    pub sandbox: WatchedSandbox,
    address: Address,
    stop: Arc<Notify>,
}

/// Runs a scenario, ends the daemon, and checks that nothing is watched any more.
///
/// # Panics
///
/// If something is.
pub fn run_lookout(scenario: impl AsyncFnOnce(&Lookout)) {
    let sim = Sim::new(0, Link::INSTANT);
    let neutral: Arc<dyn Runtime> = Arc::clone(sim.runtime()) as _;
    sim.block_on(async {
        let sandbox = WatchedSandbox::default();
        let config = Config {
            sandbox: Arc::new(sandbox.clone()),
            files: Files::new(None).unwrap(),
            user: None,
            token: None,
            variables: BTreeMap::new(),
        };
        let daemon = Daemon::new(Arc::clone(&neutral), config);
        let listener = neutral.listen(Address::Tcp("127.0.0.1:0".parse().unwrap())).await.unwrap();
        let address = listener.address().clone();
        let lookout = Lookout { runtime: Arc::clone(sim.runtime()), sandbox, address, stop: Arc::default() };
        let stop = Arc::clone(&lookout.stop);
        let ended = sim.runtime().task(async move { daemon.run(listener, stop.notified()).await.unwrap() });
        scenario(&lookout).await;
        lookout.stop();
        ended.await;
        assert_eq!(lookout.sandbox.open(), 0, "nothing is watched any more");
    });
}

impl Lookout {
    /// Where the daemon listens.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Asks the daemon to end.
    pub fn stop(&self) {
        self.stop.notify_one();
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.runtime.now()
    }

    /// Waits.
    pub async fn sleep_ms(&self, ms: u64) {
        self.runtime.sleep(Duration::from_millis(ms)).await;
    }

    /// A new connection.
    ///
    /// # Panics
    ///
    /// If the daemon does not listen.
    pub fn client_by(&self, link: Link) -> Client {
        Client::new(
            self.runtime.network().connect_by(&self.address, link).unwrap(),
            Arc::clone(&self.runtime),
        )
    }

    /// Watches a directory.
    ///
    /// # Panics
    ///
    /// If the connection ends.
    pub async fn watch(&self, request: &WatchDirRequest, headers: &[(&str, &str)]) -> WatchReader {
        self.watch_by(Link::INSTANT, request, headers).await
    }

    /// The same on such a link.
    ///
    /// # Panics
    ///
    /// If the connection ends.
    pub async fn watch_by(
        &self,
        link: Link,
        request: &WatchDirRequest,
        headers: &[(&str, &str)],
    ) -> WatchReader {
        let mut client = self.client_by(link);
        let mut call = Request::new("POST", "/filesystem.Filesystem/WatchDir")
            .header("content-type", content_type(CallKind::Stream, Codec::Proto))
            .body(envd::messages(Codec::Proto, std::slice::from_ref(request)));
        for (name, value) in headers {
            call = call.header(name, value);
        }
        client.send(&call.bytes()).await.unwrap();
        let head = client.head().await.unwrap();
        assert_eq!(head.status, 200, "{head:?}");
        let whole = head.header("content-length").map(|len| len.parse().unwrap());
        WatchReader { client, decoder: Decoder::new(1 << 20), whole }
    }

    /// A unary call.
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
        encode(Codec::Json, request, &mut body);
        let mut call = Request::new("POST", format!("/filesystem.Filesystem/{method}"))
            .header("content-type", content_type(CallKind::Unary, Codec::Json))
            .body(body.to_vec());
        for (name, value) in headers {
            call = call.header(name, value);
        }
        let response = self.client_by(Link::INSTANT).call(&call).await.unwrap();
        match response.status {
            200 => Ok(decode(Codec::Json, &response.body).unwrap()),
            status => Err(RpcError::of_http(status, &response.body)),
        }
    }
}

/// What a stream about a directory says.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// It is watched; the path of hangar's own.
    Start(String),
    /// Something changed.
    Event(Box<FilesystemEvent>),
    /// Nothing.
    KeepAlive,
    /// The stream ended.
    Closed(Option<RpcError>),
}

/// A stream about a directory. Dropped, its client has left.
#[derive(Debug)]
pub struct WatchReader {
    client: Client,
    decoder: Decoder,
    /// The length of an answer that is no stream.
    whole: Option<usize>,
}

impl WatchReader {
    /// What is said next; how the connection ended where that came first.
    pub async fn try_next(&mut self) -> Result<Told, End> {
        loop {
            if let Some(envelope) = self.decoder.next_envelope().unwrap() {
                return Ok(told(&envelope));
            }
            let piece = match self.whole.take() {
                Some(len) => self.client.bytes(len).await?,
                None => self.client.chunk().await?.ok_or(End::Eof)?,
            };
            self.decoder.push(&piece);
        }
    }

    /// What is said next.
    ///
    /// # Panics
    ///
    /// If the connection ends.
    pub async fn next(&mut self) -> Told {
        self.try_next().await.unwrap()
    }
}

fn told(envelope: &connect::Envelope) -> Told {
    if envelope.is_end() {
        return Told::Closed(connect::End::parse(&envelope.data).unwrap().error);
    }
    let WatchDirResponse { start, filesystem, keepalive } = decode(Codec::Proto, &envelope.data).unwrap();
    let all = [
        start.map(|start| Told::Start(start.path)),
        filesystem.map(|event| Told::Event(Box::new(event))),
        keepalive.map(|_| Told::KeepAlive),
    ];
    let mut all = all.into_iter().flatten();
    let told = all.next().expect("a message says something");
    assert_eq!(all.next(), None, "a message says one thing");
    told
}
