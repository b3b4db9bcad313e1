//! MCP as the conformance suite speaks it. `tests/peers/install.sh` installs that.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    on_both,
    real::{Client, Folder, Hangar, On, binary, peers},
};
use std::{path::Path, process::Command};

on_both! {
    hangar_conforms_where_that_needs_no_fixtures
}

/// What the suite is called.
const SUITE: &str = "@modelcontextprotocol/conformance";

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

fn hangar_conforms_where_that_needs_no_fixtures(on: On) {
    let Some(node) = peers::node("hangar_conforms_where_that_needs_no_fixtures", SUITE) else { return };
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
    let Some(node) = peers::node("the_fixture_conforms", SUITE) else { return };
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
