//! MCP as rmcp's client speaks it: of the revisions of 2025, as it does by default, of the newest, and as it finds.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    on_both,
    real::{Client, Folder, Mark, On, Serving, binary, cli, wait_until},
};
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        CallToolRequestParams, ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams,
        ResourceContents, ResourceUpdatedNotificationParam, ServerNotification, SubscribeRequestParams,
        SubscriptionFilter, UnsubscribeRequestParams,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt, NotificationContext, RunningService, Subscription,
        SubscriptionEnd,
    },
    transport::{
        IntoTransport, StreamableHttpClientTransport, TokioChildProcess,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::{Value, json};
use std::error::Error;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

on_both! {
    it_uses_all_of_it
    a_server_says_that_it_ends
}

/// What a client is told.
#[derive(Debug)]
enum Told {
    Progress(f64, String),
    Updated(String),
    Listed,
}

/// Hears of it.
struct Hearing(UnboundedSender<Told>);

impl Hearing {
    fn hear(&self, told: Told) {
        // Nobody listens any more once the client has done what it is to do.
        self.0.send(told).ok();
    }
}

impl ClientHandler for Hearing {
    async fn on_progress(&self, told: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        self.hear(Told::Progress(told.progress, told.message.unwrap_or_default()));
    }

    async fn on_resource_updated(
        &self,
        told: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.hear(Told::Updated(told.uri));
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.hear(Told::Listed);
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    Initialize,
    Discover,
    Auto,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Initialize, Self::Discover, Self::Auto];

    fn lifecycle(self) -> ClientLifecycleMode {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        match self {
            Self::Initialize => ClientLifecycleMode::Initialize,
            Self::Discover => ClientLifecycleMode::Discover { preferred_versions },
            Self::Auto => ClientLifecycleMode::Auto { preferred_versions, legacy_version: None },
        }
    }

    const fn revision(self) -> ProtocolVersion {
        match self {
            Self::Initialize => ProtocolVersion::V_2025_11_25,
            Self::Discover | Self::Auto => ProtocolVersion::V_2026_07_28,
        }
    }
}

fn on_tokio<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(future)
}

/// A client that is connected, and what it is told outside of what listens.
struct Connected {
    client: RunningService<RoleClient, Hearing>,
    told: UnboundedReceiver<Told>,
}

impl Connected {
    async fn new<T, E, A>(transport: T, mode: Mode) -> Self
    where
        T: IntoTransport<RoleClient, E, A>,
        E: Error + Send + Sync + 'static,
    {
        let (tell, told) = unbounded_channel();
        let client = Hearing(tell).serve_with_lifecycle(transport, mode.lifecycle()).await.unwrap();
        assert_eq!(client.peer_info().unwrap().protocol_version, mode.revision());
        Self { client, told }
    }

    async fn call(&self, tool: &'static str, arguments: Value) -> Value {
        self.client.call_tool(call(tool, arguments)).await.unwrap().structured_content.unwrap()
    }

    async fn read(&self, uri: impl Into<String>) -> Value {
        let read = self.client.read_resource(ReadResourceRequestParams::new(uri)).await.unwrap();
        let [ResourceContents::TextResourceContents { text, .. }] = &*read.contents else {
            panic!("{read:?}");
        };
        serde_json::from_str(text).unwrap()
    }

    /// The pieces of progress that there were.
    fn progress(&mut self) -> Vec<(f64, String)> {
        let all = std::iter::from_fn(|| self.told.try_recv().ok());
        all.filter_map(|told| match told {
            Told::Progress(at, text) => Some((at, text)),
            Told::Updated(_) | Told::Listed => None,
        })
        .collect()
    }

    /// The resource that changed next.
    async fn updated(&mut self) -> String {
        loop {
            match self.told.recv().await.unwrap() {
                Told::Updated(uri) => return uri,
                Told::Progress(..) | Told::Listed => {}
            }
        }
    }
}

fn call(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { unreachable!() };
    CallToolRequestParams::new(tool).with_arguments(arguments)
}

/// A process that prints what it is told to.
struct Printing {
    id: String,
    uri: String,
    next: u64,
}

impl Printing {
    async fn start(connected: &Connected, mark: &Mark) -> Self {
        let env = json!({ "HOME": "/nonexistent", (Mark::NAME): mark.value() });
        let arguments = json!({ "action": "start", "command": "exec cat", "env": env });
        let started = connected.call("process", arguments).await;
        let id = started["process_id"].as_str().unwrap().to_owned();
        let uri = output_of(&id);
        let listed = connected.client.list_all_resources().await.unwrap();
        assert!(listed.iter().any(|resource| resource.uri == uri), "{listed:?}");
        Self { id, uri, next: 0 }
    }

    async fn print(&self, connected: &Connected, text: &str) {
        let arguments = json!({ "action": "input", "process_id": self.id, "input": text });
        connected.call("process", arguments).await;
    }

    /// What it printed since the last time.
    async fn new_output(&mut self, connected: &Connected) -> String {
        let read = connected.read(format!("{}?since={}", self.uri, self.next)).await;
        self.next = read["next"].as_u64().unwrap();
        read["output"].as_str().unwrap().to_owned()
    }

    async fn kill(self, connected: &Connected) {
        connected.call("process", json!({ "action": "kill", "process_id": self.id })).await;
    }
}

fn output_of(process: &str) -> String {
    format!("hangar://sandboxes/local/processes/{process}/output")
}

/// All that a client is to get of a server.
async fn use_it(mut connected: Connected, mode: Mode) {
    let tools = connected.client.list_all_tools().await.unwrap();
    assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["exec", "process", "sandboxes"]);
    streams(&mut connected).await;
    let mark = Mark::new();
    if mode == Mode::Initialize {
        subscribes(&mut connected, &mark).await;
    } else {
        listens(&connected, &mark).await;
    }
    leaves(&mut connected).await;
    connected.client.cancel().await.unwrap();
    mark.wait_until_gone();
}

async fn streams(connected: &mut Connected) {
    let arguments = json!({
        "command": "for i in 1 2 3; do echo $i; sleep 0.1; done; exit 3", "stream": true,
        "env": { "HOME": "/nonexistent" },
    });
    let result = connected.call("exec", arguments).await;
    assert_eq!((&result["exit_code"], &result["stdout"]), (&json!(3), &json!("1\n2\n3\n")));
    let heard = connected.progress();
    assert_eq!(heard.iter().map(|(_, text)| text.as_str()).collect::<String>(), "1\n2\n3\n");
    assert!(heard.is_sorted_by(|one, next| one.0 < next.0), "{heard:?}");
}

#[expect(deprecated, reason = "it is of these revisions")]
async fn subscribes(connected: &mut Connected, mark: &Mark) {
    let (mut printing, other) =
        (Printing::start(connected, mark).await, Printing::start(connected, mark).await);
    assert!(matches!(connected.told.recv().await.unwrap(), Told::Listed));
    connected.client.subscribe(SubscribeRequestParams::new(output_of("nobody"))).await.unwrap_err();
    connected.client.subscribe(SubscribeRequestParams::new(&printing.uri)).await.unwrap();
    for text in ["one\n", "two\n"] {
        printing.print(connected, text).await;
        assert_eq!(connected.updated().await, printing.uri);
        assert_eq!(printing.new_output(connected).await, text);
    }
    connected.client.unsubscribe(UnsubscribeRequestParams::new(&printing.uri)).await.unwrap();
    printing.print(connected, "three\n").await;
    while printing.new_output(connected).await != "three\n" {}
    // What is told of one resource is told at a pace: the second time of another comes after it would have been told.
    connected.client.subscribe(SubscribeRequestParams::new(&other.uri)).await.unwrap();
    for _ in 0..2 {
        other.print(connected, "on\n").await;
        assert_eq!(connected.updated().await, other.uri);
    }
    printing.kill(connected).await;
    other.kill(connected).await;
}

async fn listens(connected: &Connected, mark: &Mark) {
    let mut printing = Printing::start(connected, mark).await;
    let filter = |uris: &[&str]| {
        SubscriptionFilter::builder()
            .resources_list_changed()
            .resource_subscriptions(uris.iter().copied())
            .build()
    };
    let mut told = connected.client.listen(filter(&[&output_of("nobody"), &printing.uri])).await.unwrap();
    assert_eq!(told.acknowledged(), &filter(&[&printing.uri]));
    for text in ["one\n", "two\n"] {
        printing.print(connected, text).await;
        assert_eq!(updated(&mut told).await, printing.uri);
        assert_eq!(printing.new_output(connected).await, text);
    }
    let other = Printing::start(connected, mark).await;
    let next = told.next().await.unwrap();
    assert!(matches!(next, Some(ServerNotification::ResourceListChangedNotification(_))), "{next:?}");
    other.print(connected, "not followed\n").await;
    let uri = printing.uri.clone();
    printing.kill(connected).await;
    // How it ended belongs to what is read of it.
    assert_eq!(updated(&mut told).await, uri);
    assert_eq!(connected.read(uri).await["signal"], "SIGTERM");
    told.cancel().await.unwrap();
    other.kill(connected).await;
}

async fn updated(told: &mut Subscription) -> String {
    match told.next().await.unwrap() {
        Some(ServerNotification::ResourceUpdatedNotification(updated)) => updated.params.uri,
        other => panic!("{other:?}"),
    }
}

/// A call that its caller drops is one that is cancelled.
async fn leaves(connected: &mut Connected) {
    let mark = Mark::new();
    let env = json!({ "HOME": "/nonexistent", (Mark::NAME): mark.value() });
    let arguments = json!({ "command": "echo begun; exec sleep 777", "stream": true, "env": env });
    tokio::select! {
        result = connected.client.call_tool(call("exec", arguments)) => panic!("{result:?}"),
        () = async {
            while !matches!(connected.told.recv().await.unwrap(), Told::Progress(_, text) if text == "begun\n") {}
        } => {}
    }
    // Another thread carries the client on meanwhile.
    mark.wait_until_gone();
    // The connection is as good as before.
    let arguments = json!({ "command": "echo on", "env": { "HOME": "/nonexistent" } });
    assert_eq!(connected.call("exec", arguments).await["stdout"], "on\n");
}

async fn connect_over_http(server: &Client, mode: Mode) -> Connected {
    let config = StreamableHttpClientTransportConfig::with_uri(format!("http://{}/mcp", server.address))
        .auth_header(server.token.clone());
    Connected::new(StreamableHttpClientTransport::from_config(config), mode).await
}

fn it_uses_all_of_it(on: On) {
    let server = on.start();
    for mode in Mode::ALL {
        on_tokio(async {
            let connected = connect_over_http(server.client(), mode).await;
            assert_eq!(server.sessions().len(), usize::from(mode == Mode::Initialize));
            use_it(connected, mode).await;
        });
        wait_until("its streams are closed", || server.plane().streams().is_empty());
        wait_until("its sessions are closed", || server.sessions().is_empty());
    }
}

fn a_server_says_that_it_ends(on: On) {
    let server = on.start();
    on_tokio(async {
        let connected = connect_over_http(server.client(), Mode::Discover).await;
        let wanted = SubscriptionFilter::builder().resources_list_changed().build();
        let mut told = connected.client.listen(wanted).await.unwrap();
        server.shut_down();
        assert!(told.next().await.unwrap().is_none());
        assert!(matches!(told.end(), Some(SubscriptionEnd::Graceful(_))), "{:?}", told.end());
        connected.client.cancel().await.unwrap();
    });
    assert_eq!(server.wait().killed, 0);
}

#[test]
fn it_starts_hangar_mcp() {
    cli("it_starts_hangar_mcp", || {
        let serving = Serving::start(|_| {});
        let url = format!("http://{}", serving.client().address);
        for mode in Mode::ALL {
            let folder = Folder::new();
            // Alone, and in front of a server.
            for front in [&[][..], &["--server", &url, "--token", &serving.client().token]] {
                let mut command = tokio::process::Command::new(binary::path());
                command.arg("mcp").args(front).current_dir(folder.path());
                on_tokio(async {
                    use_it(Connected::new(TokioChildProcess::new(command).unwrap(), mode).await, mode).await;
                });
            }
        }
    });
}
