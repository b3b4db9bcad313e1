//! MCP as the Python client speaks it, in each of its modes. `tests/peers/install.sh` installs it.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    on_both,
    real::{Folder, Mark, On, Server, binary, cli, peers, wait_until},
};
use std::{path::Path, process::Command};

on_both! {
    it_uses_all_of_it
    the_examples_of_the_documentation_run
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
            peers::run_before_a_server(mode, &STEPS, |arguments| script(&python, arguments));
        }
    });
}

fn the_examples_of_the_documentation_run(on: On) {
    let Some(python) = peers::python("the_examples_of_the_documentation_run") else { return };
    let server = on.start();
    let client = server.client();
    let examples = peers::examples("mcp.md", "python");
    let [program, follow] = examples.as_slice() else { panic!("two: {examples:?}") };
    let program = program.replace("127.0.0.1:8484", &client.address.to_string());
    // The other one is called by the program of the first, in place of what that does.
    let (head, _) = program.split_once("        async def progress").unwrap();
    let (imports, main) = head.split_once("async def main").unwrap();
    let follows =
        r#"        print(await follow(client, "for i in 1 2 3; do echo $i; sleep 0.2; done; exit 5"))"#;
    let following =
        format!("import json\n{imports}{follow}\n\nasync def main{main}{follows}\n\nasyncio.run(main())\n");
    for (text, steps) in [(&program, ["1", "2", "3", "0"]), (&following, ["1", "2", "3", "5"])] {
        let mut command = Command::new(&python);
        command.args(["-c", text]).env("HANGAR_TOKEN", &client.token).env("HOME", "/nonexistent");
        peers::run_steps(&mut command, &steps, |_| {});
    }
    wait_until_left(&server);
}
