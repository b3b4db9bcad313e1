//! MCP as the TypeScript client speaks it, as it does by default and as it does where it may choose.
//! `tests/peers/install.sh` installs it.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    on_both,
    real::{Mark, On, Server, binary, cli, peers, wait_until},
};
use std::{fs, path::Path, process::Command};

on_both! {
    it_uses_all_of_it
    the_example_of_the_documentation_runs
}

const PACKAGE: &str = "@modelcontextprotocol/client";

const MODES: [&str; 2] = ["legacy", "auto"];

const STEPS: [&str; 4] = ["lists", "streamed", "told", "aborted"];

fn script(node: &Path, arguments: &[&str]) -> Command {
    let text = fs::read_to_string(peers::script("mcp_client.mjs")).unwrap();
    let mut command = peers::module(node, &text);
    command.args(arguments);
    command
}

fn wait_until_left(server: &Server) {
    wait_until("its streams are closed", || server.plane().streams().is_empty());
    wait_until("its sessions are closed", || server.sessions().is_empty());
}

fn it_uses_all_of_it(on: On) {
    let Some(node) = peers::node("it_uses_all_of_it", PACKAGE) else { return };
    for mode in MODES {
        let (server, mark) = (on.start(), Mark::new());
        let client = server.client();
        let url = format!("http://{}/mcp", client.address);
        let mut command = script(&node, &[mode, "http", &url, &client.token, mark.value()]);
        let ends: &[&str] =
            if mode == "legacy" { &["terminated", "done"] } else { &["listening", "ended", "done"] };
        peers::run_steps(&mut command, &[&STEPS, ends].concat(), |said| match said {
            "told" => assert_eq!(server.sessions().len(), usize::from(mode == "legacy")),
            "terminated" => assert!(server.sessions().is_empty()),
            "listening" => server.shut_down(),
            _ => {}
        });
        mark.wait_until_gone();
        wait_until_left(&server);
    }
}

#[test]
fn it_starts_hangar_mcp() {
    let Some(node) = peers::node("it_starts_hangar_mcp", PACKAGE) else { return };
    cli("it_starts_hangar_mcp", move || {
        for mode in MODES {
            let mark = Mark::new();
            let hangar = binary::path().to_str().unwrap();
            let mut command = script(&node, &[mode, "stdio", mark.value(), hangar, "mcp"]);
            peers::run_steps(&mut command, &[&STEPS[..], &["done"]].concat(), |_| {});
            mark.wait_until_gone();
        }
    });
}

#[test]
fn it_starts_hangar_mcp_before_a_server() {
    let Some(node) = peers::node("it_starts_hangar_mcp_before_a_server", PACKAGE) else { return };
    cli("it_starts_hangar_mcp_before_a_server", move || {
        for mode in MODES {
            peers::run_before_a_server(mode, &STEPS, |arguments| script(&node, arguments));
        }
    });
}

fn the_example_of_the_documentation_runs(on: On) {
    let Some(node) = peers::node("the_example_of_the_documentation_runs", PACKAGE) else { return };
    let server = on.start();
    let client = server.client();
    let text = peers::examples("mcp.md", "js")[0].replace("127.0.0.1:8484", &client.address.to_string());
    let mut command = peers::module(&node, &text);
    command.env("HANGAR_TOKEN", &client.token);
    peers::run_steps(&mut command, &["1", "2", "3", "0"], |_| {});
    wait_until_left(&server);
}
