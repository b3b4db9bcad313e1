//! curl as a client, on both runtimes.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    on_both,
    real::{Client, Gate, Hangar, Mark, On, line, peers, server::TOKEN, wait_until},
};
use serde_json::Value;
use std::process::Command;

on_both! {
    curl_shows_lines_as_they_come
    curl_gets_the_whole_of_it_by_http_1_0
    a_curl_that_is_interrupted_ends_the_command
    curl_is_told_what_is_wrong
}

/// curl with its switches, to run a command.
fn curl(client: &Client, curl: std::path::PathBuf, call: &Value) -> Command {
    let mut command = Command::new(curl);
    command.args(["--silent", "--show-error", "--no-buffer", "--noproxy", "*", "--max-time", "60"]);
    command.arg("-H").arg(format!("Authorization: Bearer {}", client.token));
    command.args(["-H", "Content-Type: application/json", "-d"]).arg(call.to_string());
    command.arg(format!("http://{}/api/sandboxes/local/exec/stream", client.address));
    command
}

fn curl_shows_lines_as_they_come(on: On) {
    let Some(program) = peers::curl("curl_shows_lines_as_they_come") else { return };
    let server = on.start();
    let gate = Gate::new();
    let call = line(format!("echo one; {}; echo two", gate.wait()));
    let mut curl = Hangar::start(curl(server.client(), program, &call.0).arg("--include"));
    let mut head = Vec::new();
    loop {
        let line = curl.line().unwrap().trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        head.push(line);
    }
    assert_eq!(head[0], "http/1.1 200 ok");
    for header in
        ["content-type: text/event-stream", "cache-control: no-cache, no-transform", "x-accel-buffering: no"]
    {
        assert!(head.iter().any(|line| line == header), "{header} in {head:?}");
    }
    let mut until = |wanted: &str| while curl.line().unwrap() != wanted {};
    until("data: {\"data\":\"one\\n\"}");
    gate.open();
    until("data: {\"data\":\"two\\n\"}");
    until("event: result");
    let ended = curl.wait();
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
}

fn curl_gets_the_whole_of_it_by_http_1_0(on: On) {
    let Some(program) = peers::curl("curl_gets_the_whole_of_it_by_http_1_0") else { return };
    let server = on.start();
    let ended = Hangar::run(curl(server.client(), program, &line("echo one").0).arg("--http1.0"));
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.contains("data: {\"data\":\"one\\n\"}\n\nevent: result\n"), "{ended:?}");
    assert!(ended.stdout.ends_with("\n\n"), "{ended:?}");
}

fn a_curl_that_is_interrupted_ends_the_command(on: On) {
    let Some(program) = peers::curl("a_curl_that_is_interrupted_ends_the_command") else { return };
    let server = on.start();
    let mark = Mark::new();
    let call = line("sleep 777 & setsid sleep 778 & echo begun; wait").mark(&mark);
    let curl = Hangar::start(&mut curl(server.client(), program, &call.0));
    mark.wait_for("sleep 777");
    mark.wait_for("sleep 778");
    curl.signal(rustix::process::Signal::INT);
    curl.wait();
    mark.wait_until_gone();
    wait_until("the lease is given back", || server.plane().streams().leased() == 0);
}

fn curl_is_told_what_is_wrong(on: On) {
    let Some(program) = peers::curl("curl_is_told_what_is_wrong") else { return };
    let server = on.start();
    let wrong = server.client().with_token(&format!("{TOKEN}x"));
    let mut call = curl(&wrong, program, &line("echo one").0);
    let ended = Hangar::run(call.args(["--fail-with-body", "--write-out", "%{http_code}"]));
    assert!(ended.code == 22 && ended.stdout.ends_with("401"), "{ended:?}");
    assert!(ended.stdout.starts_with("{\"error\":{\"code\":\"unauthorized\""), "{ended:?}");
}
