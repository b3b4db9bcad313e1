//! The SDKs of E2B, unmodified, against `hangar-envd`. `tests/peers/install.sh` installs them.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_backends::local::User;
use hangar_tests::real::{
    Folder, Mark,
    envd::{Running, launching},
    is_root, peers, skip,
};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

/// A user with a home of little consequence, that every Linux has.
const USER: &str = "games";

/// Runs a client against a daemon; both get what they need to know of each other. Nothing is left of either.
fn run(change: impl FnOnce(&mut Command), client: impl FnOnce(&str, &Path) -> Command, at_least: usize) {
    let (folder, mark) = (Folder::new(), Mark::new());
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let daemon = Running::start(change);
    let mut command = client(&daemon.url(), folder.path());
    let checks = peers::run_checks(command.env(Mark::NAME, mark.value()));
    assert!(checks >= at_least, "{checks} checks");
    daemon.end();
    mark.wait_until_gone();
}

fn python(test: &'static str, way: &'static str, token: &'static str, user: &'static str) {
    let Some(python) = peers::python_with(test, "e2b") else { return };
    launching(test, move || {
        let of_daemon = |command: &mut Command| {
            if way == "control-plane" {
                command.env("HANGAR_ENVD_TOKEN", token);
            }
            if !user.is_empty() {
                command.args(["--user", user]);
            }
        };
        let client = |url: &str, folder: &Path| {
            let mut command = Command::new(python);
            command.arg(peers::script("envd/e2b_client.py")).args([way, url]).arg(folder).args([token, user]);
            command.env("PYTHONDONTWRITEBYTECODE", "1");
            command
        };
        run(of_daemon, client, 200);
    });
}

#[test]
fn python_without_a_control_plane() {
    python("python_without_a_control_plane", "debug", "", "");
}

#[test]
fn python_with_a_control_plane_that_gives_out_the_token() {
    let test = "python_with_a_control_plane_that_gives_out_the_token";
    let user = if is_root() && User::named(USER).is_ok() { USER } else { "" };
    if user.is_empty() {
        skip(test, "as another user: only root can act as one");
    }
    // With what has to be encoded in a URL, and what must not be.
    python(test, "control-plane", "a-token+of/the=control~plane", user);
}

#[test]
fn python_with_a_token_that_the_daemon_is_told() {
    python("python_with_a_token_that_the_daemon_is_told", "constructor", "a-token-of-init", "");
}

#[test]
fn javascript_without_a_control_plane() {
    let test = "javascript_without_a_control_plane";
    let Some(node) = peers::node(test, "e2b") else { return };
    launching(test, move || {
        let text = fs::read_to_string(peers::script("envd/e2b_client.mjs")).unwrap();
        let client = |url: &str, folder: &Path| {
            let mut command = peers::module(&node, &text);
            command.arg(url).arg(folder);
            command
        };
        run(|_| {}, client, 60);
    });
}
