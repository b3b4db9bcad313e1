//! Programs of others that tests call: there or not.

use super::{binary, skip};
use std::{
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
