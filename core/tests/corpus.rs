//! Replays what the fuzz targets found worth keeping: every file of `fuzz/corpus/<target>/` is a scenario that has to
//! pass.

use hangar_core::testing::{
    self, attach, changes, connect, control, detached, envd, exec, limits, listen, log, mcp, pace, process,
    sse, subscription, tail, text, watch,
};
use std::{fs, path::Path};

fn replay(target: &str, run: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> =
        entries.map(|entry| entry.expect("a readable folder").path()).filter(|path| path.is_file()).collect();
    files.sort();
    assert!(!files.is_empty(), "there is no corpus in {}", folder.display());
    for file in files {
        // Shown where the run fails, with the scenario.
        println!("{}", file.display());
        run(&fs::read(&file).expect("a readable file"));
    }
}

#[test]
fn process() {
    replay("process", |bytes| testing::run(bytes, process::run));
}

#[test]
fn attach() {
    replay("attach", |bytes| testing::run(bytes, attach::run));
}

#[test]
fn connect_envelope() {
    replay("connect_envelope", |bytes| testing::run(bytes, connect::run));
}

#[test]
fn envd_json() {
    replay("envd_json", envd::run_json);
}

#[test]
fn envd_proto() {
    replay("envd_proto", envd::run_proto);
}

#[test]
fn subscription() {
    replay("subscription", |bytes| testing::run(bytes, subscription::run));
}

#[test]
fn control() {
    replay("control", control::run);
}

#[test]
fn detached() {
    replay("detached", detached::run);
}

#[test]
fn exec() {
    replay("exec", |bytes| testing::run(bytes, exec::run));
}

#[test]
fn log() {
    replay("log", |bytes| testing::run(bytes, log::run));
}

#[test]
fn text() {
    replay("text", |bytes| testing::run(bytes, text::run));
}

#[test]
fn tail() {
    replay("tail", |bytes| testing::run(bytes, tail::run));
}

#[test]
fn sse_decode() {
    replay("sse_decode", |bytes| testing::run(bytes, sse::run_decode));
}

#[test]
fn sse_roundtrip() {
    replay("sse_roundtrip", |bytes| testing::run(bytes, sse::run_round_trip));
}

#[test]
fn pacer() {
    replay("pacer", |bytes| testing::run(bytes, pace::run));
}

#[test]
fn limits() {
    replay("limits", |bytes| testing::run(bytes, limits::run));
}

#[test]
fn mcp_request() {
    replay("mcp_request", |bytes| testing::run(bytes, mcp::run_request));
}

#[test]
fn changes() {
    replay("changes", |bytes| testing::run(bytes, changes::run));
}

#[test]
fn mcp_listen() {
    replay("mcp_listen", |bytes| testing::run(bytes, listen::run));
}

#[test]
fn mcp_answered() {
    replay("mcp_answered", |bytes| testing::run(bytes, mcp::run_answered));
}

#[test]
fn watch() {
    replay("watch", |bytes| testing::run(bytes, watch::run));
}

#[test]
fn watch_history() {
    replay("watch_history", |bytes| testing::run(bytes, watch::run_history));
}
