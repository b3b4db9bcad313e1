//! A sandbox without a daemon, as clients see it, on both runtimes.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_backends::local::User;
use hangar_tests::{
    on_both,
    real::{Folder, On, Options, Server, Socket, line, wait_until},
};
use serde_json::{Value, json};
use std::fs;

on_both! {
    it_says_what_it_is
    output_comes_in_one_piece
    of_much_output_the_end_comes
    a_process_gets_no_input
    what_it_cannot_do_is_refused_by_name
    a_process_that_ended_is_told_to_who_waits
    a_start_that_cannot_be_detached_says_why
}

const PROCESSES: &str = "/api/sandboxes/bare/processes";

/// A server with the sandbox `bare`, and the home of its commands.
fn bare(on: On) -> (Server, Folder) {
    let home = Folder::new();
    let mut options = Options::unpaced();
    options.user = Some(User { home: home.path().to_owned(), ..User::current() });
    let server = on.start_with(options);
    let made = server.client().post("/api/sandboxes", &json!({ "name": "bare", "daemon": false }));
    assert_eq!(made.status, 201, "{made:?}");
    (server, home)
}

fn it_says_what_it_is(on: On) {
    let (server, _home) = bare(on);
    let client = server.client();
    let shown = client.get("/api/sandboxes/bare").json();
    assert_eq!((&shown["provider"], &shown["daemon"]), (&json!("local"), &json!(false)));
    assert_eq!(client.get("/api/sandboxes/local").json()["daemon"], Value::Null);
    let asked = json!({ "provider": "envd", "url": "http://127.0.0.1:1", "daemon": false });
    let refused = client.post("/api/sandboxes", &asked);
    assert_eq!(refused.refusal(), (400, "unexpected".to_owned()));
    assert_eq!(refused.json()["error"]["field"], "daemon");
    let refused = client.post("/api/sandboxes", &json!({ "daemon": "no" }));
    assert_eq!((refused.status, &refused.json()["error"]["field"]), (400, &json!("daemon")));
}

fn output_comes_in_one_piece(on: On) {
    let (server, _home) = bare(on);
    let call = line("echo out; echo err >&2; read x; echo $x; exit 3").set("stdin", "input\n");
    let collected = server.client().stream_in("bare", &call).collect();
    assert_eq!((&collected.stdout[..], &collected.stderr[..]), (&b"out\ninput\n"[..], &b"err\n"[..]));
    assert_eq!((collected.result.exit_code, collected.result.streamed), (Some(3), false));
    let reply = server.client().post("/api/sandboxes/bare/exec", &json!({ "command": "echo hi" }));
    assert_eq!((&reply.json()["stdout"], &reply.json()["streamed"]), (&json!("hi\n"), &json!(false)));
    let arguments = json!({ "sandbox": "bare", "command": "echo hi", "stream": true });
    let (output, answer) = server.client().calling("exec", &arguments, Some(json!("progress"))).to_end();
    let content = &answer["result"]["structuredContent"];
    assert_eq!((&content["stdout"], &content["streamed"]), (&json!("hi\n"), &json!(false)), "{answer}");
    assert_eq!(output, "hi\n");
}

fn of_much_output_the_end_comes(on: On) {
    let (server, _home) = bare(on);
    let call = line("echo first >&2; head -c 10000000 /dev/zero | tr '\\0' x; echo last");
    let collected = server.client().stream_in("bare", &call).collect();
    let (stdout, result) = (&collected.stdout, &collected.result);
    assert!(
        stdout.len() >= 4 << 20 && stdout.len() < 10_000_000 && stdout.ends_with(b"xlast\n"),
        "{}",
        stdout.len()
    );
    assert_eq!(collected.stderr, b"first\n");
    assert!(result.output_capped && result.stdout_truncated && !result.stderr_truncated);
    let few = server.client().stream_in("bare", &line("head -c 4000000 /dev/zero | tr '\\0' x")).collect();
    assert_eq!((few.stdout.len(), few.result.output_capped), (4_000_000, false));
}

fn a_process_gets_no_input(on: On) {
    let (server, _home) = bare(on);
    let client = server.client();
    let process = client.start_in("bare", &json!({ "command": "cat; echo end" }));
    let said = client.get(&format!("{PROCESSES}/{process}?wait_seconds=20")).json();
    assert_eq!(said["output"], "end\n", "its input is at its end");
    let sleeping = client.start_in("bare", &json!({ "command": "sleep 60" }));
    let refused = client.post(&format!("{PROCESSES}/{sleeping}/input"), &json!({ "input": "x" }));
    assert_eq!(refused.refusal(), (409, "unsupported".to_owned()));
    let said = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(said.contains("no daemon"), "{said}");
    let access = format!("/v1/sandboxes/bare/processes/{sleeping}/stream-access");
    let access = client.call("PUT", &access, Some(&json!({ "mode": "attach" }))).json();
    let mut socket = Socket::open(access["url"].as_str().unwrap()).unwrap();
    socket.ready();
    socket.input(b"x");
    let end = socket.to_end();
    assert_eq!(end.closed.map(|(code, _)| code), Some(1008));
    let arguments = json!({ "sandbox": "bare", "action": "input", "process_id": sleeping, "input": "x" });
    let refused = client.tool("process", &arguments);
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert_eq!(client.delete("/api/sandboxes/bare").status, 204);
}

fn what_it_cannot_do_is_refused_by_name(on: On) {
    let (server, _home) = bare(on);
    let client = server.client();
    let terminal = json!({ "command": "sh", "tty": { "cols": 80, "rows": 24 } });
    let refused = client.post("/v1/sandboxes/bare/processes", &terminal);
    assert_eq!(refused.refusal(), (400, "unsupported".to_owned()));
    assert_eq!(refused.json()["error"]["field"], "tty");
    let refused = client.post("/api/sandboxes/bare/pause", &json!({}));
    assert_eq!(refused.refusal(), (409, "unsupported".to_owned()));
}

fn a_process_that_ended_is_told_to_who_waits(on: On) {
    let (server, home) = bare(on);
    let client = server.client();
    let process = client.start_in("bare", &json!({ "command": "echo one; sleep 1; echo two; exit 5" }));
    let events = client.get(&format!("{PROCESSES}/{process}/stream")).body;
    assert!(
        events.contains("one") && events.contains("two") && events.contains("\"exit_code\":5"),
        "{events}"
    );
    let files = home.path().join(".hangar/bg");
    assert_eq!(fs::read_to_string(files.join(format!("{process}.out"))).unwrap(), "one\ntwo\n");
    assert_eq!(fs::read_to_string(files.join(format!("{process}.exit"))).unwrap(), "5\n");
    assert_eq!(client.delete("/api/sandboxes/bare").status, 204);
    wait_until("its files are gone", || fs::read_dir(&files).unwrap().next().is_none());
}

fn a_start_that_cannot_be_detached_says_why(on: On) {
    let (server, home) = bare(on);
    fs::write(home.path().join(".hangar"), "a file").unwrap();
    let refused = server.client().post(PROCESSES, &json!({ "command": "true" }));
    assert_eq!(refused.refusal(), (502, "sandbox_unreachable".to_owned()));
    let said = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(said.contains("mkdir"), "{said}");
    // A command needs none of that.
    assert_eq!(server.client().stream_in("bare", &line("echo hi")).collect().stdout, b"hi\n");
}
