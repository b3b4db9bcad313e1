//! MCP as the Python client speaks it, in each of its modes. `tests/peers/install.sh` installs it.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    on_both,
    real::{Folder, Mark, On, Server, Serving, binary, cli, peers, wait_until},
};
use rustix::process::Signal;
use std::{path::Path, process::Command};

on_both! {
    it_uses_all_of_it
    the_example_of_the_documentation_runs
}

/// As it is to be told: one revision, whichever the server speaks, and one of 2025.
const MODES: [&str; 3] = ["2026-07-28", "auto", "legacy"];

const STEPS: [&str; 7] = ["lists", "streamed", "long", "process", "told", "cancelled", "refused"];

fn script(python: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(python);
    command.arg(peers::script("mcp_client.py")).args(arguments).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn wait_until_left(server: &Server) {
    wait_until("its streams are closed", || server.plane().streams().is_empty());
    wait_until("its sessions are closed", || server.sessions().is_empty());
}

fn it_uses_all_of_it(on: On) {
    let Some(python) = peers::python("it_uses_all_of_it") else { return };
    for mode in MODES {
        let (server, mark) = (on.start(), Mark::new());
        let client = server.client();
        let url = format!("http://{}/mcp", client.address);
        let mut command = script(&python, &[mode, "http", &url, &client.token, mark.value()]);
        let ends: &[&str] = if mode == "legacy" { &["done"] } else { &["listening", "ended", "done"] };
        peers::run_steps(&mut command, &[&STEPS, ends].concat(), |said| {
            if said == "listening" {
                server.shut_down();
            }
        });
        // What was cancelled was killed, and what was killed is gone.
        mark.wait_until_gone();
        wait_until_left(&server);
    }
}

#[test]
fn it_starts_hangar_mcp() {
    let Some(python) = peers::python("it_starts_hangar_mcp") else { return };
    cli("it_starts_hangar_mcp", move || {
        for mode in MODES {
            let (mark, folder) = (Mark::new(), Folder::new());
            let hangar = binary::path().to_str().unwrap();
            let mut command = script(&python, &[mode, "stdio", mark.value(), hangar, "mcp"]);
            peers::run_steps(command.current_dir(folder.path()), &[&STEPS[..], &["done"]].concat(), |_| {});
            mark.wait_until_gone();
        }
    });
}

#[test]
fn it_starts_hangar_mcp_before_a_server() {
    let Some(python) = peers::python("it_starts_hangar_mcp_before_a_server") else { return };
    cli("it_starts_hangar_mcp_before_a_server", move || {
        for mode in MODES {
            let (mark, serving) = (Mark::new(), Serving::start(|_| {}));
            let hangar = binary::path().to_str().unwrap();
            let (url, token) = (format!("http://{}", serving.client().address), &serving.client().token);
            let arguments = [mode, "front", mark.value(), hangar, "mcp", "--server", &url, "--token", token];
            let ends: &[&str] = if mode == "legacy" { &["done"] } else { &["listening", "ended", "done"] };
            peers::run_steps(&mut script(&python, &arguments), &[&STEPS, ends].concat(), |said| {
                if said == "listening" {
                    serving.signal(Signal::TERM);
                }
            });
            mark.wait_until_gone();
        }
    });
}

fn the_example_of_the_documentation_runs(on: On) {
    let Some(python) = peers::python("the_example_of_the_documentation_runs") else { return };
    let server = on.start();
    let client = server.client();
    let text = peers::example("mcp.md", "python").replace("127.0.0.1:8484", &client.address.to_string());
    let mut command = Command::new(python);
    command.args(["-c", &text]).env("HANGAR_TOKEN", &client.token);
    peers::run_steps(&mut command, &["1", "2", "3", "0"], |_| {});
    wait_until_left(&server);
}
