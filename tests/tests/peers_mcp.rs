//! MCP as others speak it: the conformance suite, the Python client and rmcp's. `tests/peers/install.sh` installs the
//! first two.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    on_both,
    real::{Client, Folder, Hangar, Mark, On, Serving, binary, peers, wait_until},
};
use rmcp::{
    ClientHandler, RoleClient,
    model::{CallToolRequestParams, ProgressNotificationParam, ProtocolVersion},
    service::{ClientLifecycleMode, ClientServiceExt, NotificationContext},
    transport::{
        StreamableHttpClientTransport, TokioChildProcess,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
};

on_both! {
    hangar_conforms_where_that_needs_no_fixtures
    the_python_client_uses_all_of_it
    rmcp_uses_it_over_http
}

fn python(test: &str) -> Option<PathBuf> {
    let python = peers::folder().join("python/bin/python");
    let installed = python.exists() && {
        let mut import = Command::new(&python);
        import.args(["-c", "import mcp"]).stderr(Stdio::null());
        import.status().is_ok_and(|status| status.success())
    };
    peers::found(test, installed.then_some(python), "mcp is not installed; tests/peers/install.sh does that")
}

/// Runs a script of the Python client to its end.
fn run_python(python: &Path, mark: &Mark, arguments: &[&str], change: impl FnOnce(&mut Command)) {
    let mut command = Command::new(python);
    command.arg(peers::script("mcp_client.py")).args(arguments).env("PYTHONDONTWRITEBYTECODE", "1");
    change(&mut command);
    let ended = Hangar::run(&mut command);
    let steps: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(steps, ["lists", "streamed", "long", "process", "cancelled", "refused", "done"], "{ended:?}");
    // What was cancelled was killed, and what was killed is gone.
    mark.wait_until_gone();
}

fn the_python_client_uses_all_of_it(on: On) {
    let Some(python) = python("the_python_client_uses_all_of_it") else { return };
    let (server, mark) = (on.start(), Mark::new());
    let client = server.client();
    let url = format!("http://{}/mcp", client.address);
    run_python(&python, &mark, &["http", &url, &client.token, mark.value()], |_| {});
    wait_until("its streams are closed", || server.plane().streams().is_empty());
}

#[test]
fn the_python_client_starts_hangar_mcp() {
    let Some(python) = python("the_python_client_starts_hangar_mcp") else { return };
    let (mark, folder) = (Mark::new(), Folder::new());
    let hangar = binary::path().to_str().unwrap();
    run_python(&python, &mark, &["stdio", mark.value(), hangar, "mcp"], |command| {
        command.current_dir(folder.path());
    });
    // The same in front of a server.
    let serving = Serving::start(|_| {});
    let (url, token) = (format!("http://{}", serving.client().address), &serving.client().token);
    let arguments = ["stdio", mark.value(), hangar, "mcp", "--server", &url, "--token", token];
    run_python(&python, &mark, &arguments, |_| {});
}

/// Runs scenarios of the conformance suite at a revision.
fn conform(node: &Path, target: &Client, revision: &str, scenarios: &[&str]) {
    let folder = Folder::new();
    let mut command = Command::new(node);
    command.arg(peers::folder().join("conformance.mjs"));
    command
        .arg(format!("http://{}/mcp", target.address))
        .arg(&target.token)
        .arg(folder.path())
        .arg(revision)
        .args(scenarios);
    let ended = Hangar::run(&mut command);
    assert_eq!(ended.code, 0, "{}\n{}", ended.stdout, ended.stderr);
    let passed = ended.stdout.lines().filter(|line| line.ends_with(": passed")).count();
    assert_eq!(passed, scenarios.len(), "{}", ended.stdout);
}

/// The node that the suite needs, which is not the machine's.
fn node(test: &str) -> Option<PathBuf> {
    let node = peers::folder().join("node_modules/node/bin/node");
    let suite = peers::folder().join("node_modules/@modelcontextprotocol/conformance");
    let installed = suite.exists() && peers::runs(&node, "--version");
    peers::found(
        test,
        installed.then_some(node),
        "the suite is not installed; tests/peers/install.sh does that",
    )
}

fn hangar_conforms_where_that_needs_no_fixtures(on: On) {
    let Some(node) = node("hangar_conforms_where_that_needs_no_fixtures") else { return };
    let server = on.start();
    for (revision, scenarios) in [
        (
            "2026-07-28",
            &[
                "tools-list",
                "resources-list",
                "prompts-list",
                "server-sse-multiple-streams",
                "sep-2164-resource-not-found",
                "dns-rebinding-protection",
                "caching",
                "http-header-validation",
                "input-required-result-unsupported-methods",
            ][..],
        ),
        (
            "2025-11-25",
            &[
                "server-initialize",
                "ping",
                "tools-list",
                "resources-list",
                "prompts-list",
                "server-sse-multiple-streams",
                "dns-rebinding-protection",
                "server-session-lifecycle",
            ],
        ),
        (
            "2025-06-18",
            &[
                "server-initialize",
                "ping",
                "tools-list",
                "resources-list",
                "prompts-list",
                "server-session-lifecycle",
            ],
        ),
        ("2025-03-26", &["server-session-lifecycle"]),
    ] {
        conform(&node, server.client(), revision, scenarios);
    }
}

#[test]
fn the_fixture_conforms() {
    let Some(node) = node("the_fixture_conforms") else { return };
    let token = "hangar-tests-fixture";
    let mut command = binary::example("hangar-transports", "mcp_fixture");
    let mut fixture = Hangar::start(command.arg("127.0.0.1:0").env("HANGAR_TOKEN", token));
    let said = fixture.line().unwrap();
    let address = said.strip_prefix("the fixture listens on http://").unwrap().trim_end_matches("/mcp");
    let target = Client { address: address.parse().unwrap(), token: token.to_owned() };
    for revision in ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"] {
        conform(&node, &target, revision, &["all"]);
    }
}

/// Hears of progress.
#[derive(Clone, Default)]
struct Hearing(Arc<Mutex<Vec<(f64, String)>>>);

impl ClientHandler for Hearing {
    async fn on_progress(&self, told: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        self.0.lock().unwrap().push((told.progress, told.message.unwrap_or_default()));
    }
}

fn lifecycle() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

fn on_tokio<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(future)
}

/// What a client of rmcp's is to get of a server.
macro_rules! use_it {
    ($transport:expr) => {{
        let hearing = Hearing::default();
        let client = hearing.clone().serve_with_lifecycle($transport, lifecycle()).await.unwrap();
        let tools = client.list_all_tools().await.unwrap();
        assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["exec", "process", "sandboxes"]);
        let arguments = json!({
            "command": "for i in 1 2 3; do echo $i; sleep 0.1; done; exit 3", "stream": true,
            "env": { "HOME": "/nonexistent" },
        });
        let Value::Object(arguments) = arguments else { unreachable!() };
        let call = CallToolRequestParams::new("exec").with_arguments(arguments);
        let result = client.call_tool(call).await.unwrap();
        let structured = result.structured_content.unwrap();
        assert_eq!((&structured["exit_code"], &structured["stdout"]), (&json!(3), &json!("1\n2\n3\n")));
        let heard = hearing.0.lock().unwrap().clone();
        assert_eq!(heard.iter().map(|(_, text)| text.as_str()).collect::<String>(), "1\n2\n3\n");
        assert!(heard.is_sorted_by(|one, next| one.0 < next.0), "{heard:?}");
        client.cancel().await.unwrap();
    }};
}

fn rmcp_uses_it_over_http(on: On) {
    let server = on.start();
    let client = server.client();
    let config = StreamableHttpClientTransportConfig::with_uri(format!("http://{}/mcp", client.address))
        .auth_header(client.token.clone());
    on_tokio(async { use_it!(StreamableHttpClientTransport::from_config(config)) });
    wait_until("its streams are closed", || server.plane().streams().is_empty());
}

#[test]
fn rmcp_starts_hangar_mcp() {
    on_tokio(async {
        let mut command = tokio::process::Command::new(binary::path());
        command.arg("mcp");
        use_it!(TokioChildProcess::new(command).unwrap());
    });
}
