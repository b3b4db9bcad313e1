//! Programs of others that tests call: there or not.

use super::{
    Mark,
    binary::{self, Ended, Hangar, Serving},
    skip,
};
use rustix::process::Signal;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A peer that was found, or a line that says what is missing. With `HANGAR_PEERS=1` that is a failure.
pub fn found<T>(test: &str, peer: Option<T>, missing: &str) -> Option<T> {
    if peer.is_none() {
        let required = std::env::var("HANGAR_PEERS").is_ok_and(|value| value == "1");
        assert!(!required, "{test}: {missing}");
        skip(test, missing);
    }
    peer
}

/// Whether a program runs.
pub fn runs(program: &Path, argument: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// `curl`.
pub fn curl(test: &str) -> Option<PathBuf> {
    let curl = PathBuf::from("curl");
    found(test, runs(&curl, "--version").then_some(curl), "there is no curl")
}

/// `tmux`.
pub fn tmux(test: &str) -> Option<PathBuf> {
    let tmux = PathBuf::from("tmux");
    found(test, runs(&tmux, "-V").then_some(tmux), "there is no tmux")
}

/// Where `tests/peers/install.sh` puts what it installs.
pub fn folder() -> PathBuf {
    binary::target().0.join("peers")
}

/// A script of `tests/peers`.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name)
}

/// A Python that has the client of MCP.
pub fn python(test: &str) -> Option<PathBuf> {
    python_with(test, "mcp")
}

/// A Python that has these modules: their names, with commas between them.
pub fn python_with(test: &str, modules: &str) -> Option<PathBuf> {
    let python = folder().join("python/bin/python");
    let installed = python.exists() && {
        let mut import = Command::new(&python);
        import.args(["-c", &format!("import {modules}")]).stderr(Stdio::null());
        import.status().is_ok_and(|status| status.success())
    };
    let missing = format!("{modules} is not installed; tests/peers/install.sh does that");
    found(test, installed.then_some(python), &missing)
}

/// The node that what is of MCP needs, which is not the machine's; `package` is to be there for it.
pub fn node(test: &str, package: &str) -> Option<PathBuf> {
    let node = folder().join("node_modules/node/bin/node");
    let installed = folder().join("node_modules").join(package).exists() && runs(&node, "--version");
    let missing = format!("{package} is not installed; tests/peers/install.sh does that");
    found(test, installed.then_some(node), &missing)
}

/// A module for that node, which finds the packages, wherever its text is from.
pub fn module(node: &Path, text: &str) -> Command {
    let mut command = Command::new(node);
    command.current_dir(folder()).args(["--input-type=module", "--eval", text, "--"]);
    command
}

/// The examples of a language in a page of the documentation, in their order.
pub fn examples(page: &str, language: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    let page = fs::read_to_string(&path).unwrap();
    let begun = format!("\n```{language}\n");
    let blocks = page.split(&begun).skip(1).filter_map(|rest| rest.split_once("\n```\n"));
    blocks.map(|(block, _)| block.to_owned()).collect()
}

/// Runs a client that prints a line for each step; `said` hears of each.
///
/// # Panics
///
/// If the steps are others, or it fails.
pub fn run_steps(command: &mut Command, steps: &[&str], mut said: impl FnMut(&str)) -> Ended {
    let mut client = Hangar::start(command);
    let mut lines = Vec::new();
    while let Some(line) = client.line() {
        said(&line);
        lines.push(line);
    }
    let ended = client.wait();
    assert!(ended.code == 0 && lines == steps, "{}: {lines:?}\n{}", ended.code, ended.stderr);
    ended
}

/// Runs a client that prints a line for each check, and at last how many they were, which it gives.
///
/// # Panics
///
/// If a check fails, or one is missing.
pub fn run_checks(command: &mut Command) -> usize {
    // They find their peer on this machine, whatever proxy it has.
    let mut client = Hangar::start(command.env("HOME", "/nonexistent").env("NO_PROXY", "127.0.0.1"));
    let lines: Vec<String> = std::iter::from_fn(|| client.line()).collect();
    let ended = client.wait();
    let count = lines.last().and_then(|line| line.strip_prefix("done ")?.parse().ok());
    let last = lines.len().saturating_sub(1);
    assert!(ended.code == 0 && count == Some(last), "{} after {lines:#?}\n{}", ended.code, ended.stderr);
    last
}

/// Runs an MCP client that starts `hangar mcp` before a server, with the steps that it prints; what it is told of is ended by
/// the server's end, but for one of the revisions of 2025. `script` is its command with those arguments.
///
/// # Panics
///
/// If the steps are others, or it fails, or anything is left of what it started.
pub fn run_before_a_server(mode: &str, steps: &[&str], script: impl FnOnce(&[&str]) -> Command) {
    let (mark, serving) = (Mark::new(), Serving::start(|_| {}));
    let hangar = binary::path().to_str().unwrap();
    let (url, token) = (format!("http://{}", serving.client().address), &serving.client().token);
    let arguments = [mode, "front", mark.value(), hangar, "mcp", "--server", &url, "--token", token];
    let ends: &[&str] = if mode == "legacy" { &["done"] } else { &["listening", "ended", "done"] };
    run_steps(&mut script(&arguments), &[steps, ends].concat(), |said| {
        if said == "listening" {
            serving.signal(Signal::TERM);
        }
    });
    mark.wait_until_gone();
}
