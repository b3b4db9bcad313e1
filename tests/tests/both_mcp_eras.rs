//! Both eras of MCP over HTTP with real commands, on both runtimes.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    mcp::{request, result},
    on_both,
    real::{Calling, Client, Mark, On, Session, wait_until},
};
use serde_json::{Value, json};
use std::{thread, time::Duration};

on_both! {
    a_sessions_command_outlives_its_connection_and_not_its_end
    both_eras_are_told_what_a_process_prints
    ten_thousand_changes_are_a_few_notices
    what_is_told_ends_with_its_token_and_with_the_server
}

/// Everything that a command can leave.
const FAMILY: &str = "sleep 777 & setsid sleep 778 & (env -i sleep 779 & wait) & echo in; sleep 776";

fn env(mark: &Mark) -> Value {
    json!({ "HOME": "/nonexistent", (Mark::NAME): mark.value() })
}

/// Starts a process: its id, and the URI of its output.
fn start(client: &Client, line: &str, mark: &Mark) -> (String, String) {
    let arguments = json!({ "action": "start", "command": line, "env": env(mark) });
    let started = result(&client.tool("process", &arguments));
    let text = |name: &str| started[name].as_str().unwrap().to_owned();
    (text("process_id"), text("output_uri"))
}

fn input(client: &Client, process: &str, text: &str) {
    result(&client.tool("process", &json!({ "action": "input", "process_id": process, "input": text })));
}

fn read(client: &Client, uri: &str) -> Value {
    let message = request(&json!(1), "resources/read", &json!({ "uri": uri }), None);
    let read = client.mcp(&message).unwrap().into_reply().unwrap().json();
    serde_json::from_str(read["result"]["contents"][0]["text"].as_str().unwrap()).unwrap()
}

/// Reads until it is told that this changed.
fn until_told(stream: &mut Calling, uri: &str) {
    let told = stream.by_ref().find(|message| message["params"]["uri"] == uri);
    assert_eq!(told.unwrap()["method"], "notifications/resources/updated");
}

fn a_sessions_command_outlives_its_connection_and_not_its_end(on: On) {
    let server = on.start();
    for end in ["cancelled", "session"] {
        let (session, mark) = (Session::begin(server.client(), "2025-06-18"), Mark::new());
        let arguments = json!({ "command": FAMILY, "stream": true, "env": env(&mark) });
        let (id, mut call) = session.calling("exec", &arguments);
        call.read_until("in\n");
        mark.wait_for("sleep 778");
        drop(call);
        thread::sleep(Duration::from_millis(300));
        assert!(mark.named("sleep 777").len() == 1 && mark.named("sleep 776").len() == 1);
        match end {
            "cancelled" => session.tell("notifications/cancelled", &json!({ "requestId": id })),
            _ => assert_eq!(session.end(), 204),
        }
        mark.wait_until_gone();
    }
}

fn both_eras_are_told_what_a_process_prints(on: On) {
    let server = on.start();
    let (client, mark) = (server.client(), Mark::new());
    let (process, uri) = start(client, "while read line; do echo got $line; done; exit 3", &mark);
    let session = Session::begin(client, "2025-11-25");
    assert_eq!(session.ask("resources/subscribe", &json!({ "uri": uri })), json!({}));
    let mut old = session.stream();
    let mut new = client.listening(&json!({ "resourceSubscriptions": [uri, "hangar://nothing"] }));
    let acknowledged = new.next().unwrap();
    assert_eq!(acknowledged["params"]["notifications"], json!({ "resourceSubscriptions": [uri] }));
    for line in ["one", "two"] {
        input(client, &process, &format!("{line}\n"));
        until_told(&mut old, &uri);
        until_told(&mut new, &uri);
    }
    assert_eq!(read(client, &format!("{uri}?since=8"))["output"], "got two\n");
    let arguments = json!({ "action": "input", "process_id": process, "eof": true });
    result(&client.tool("process", &arguments));
    until_told(&mut new, &uri);
    until_told(&mut old, &uri);
    assert_eq!(read(client, &uri)["exit_code"], 3);
    // What is not there any more is nobody's.
    assert_eq!(session.ask("resources/unsubscribe", &json!({ "uri": uri })), json!({}));
    drop((old, new));
    assert_eq!(session.end(), 204);
    wait_until("its streams are closed", || server.plane().streams().is_empty());
    assert!(session.try_ask("ping", &json!({})).status == 404);
}

fn ten_thousand_changes_are_a_few_notices(on: On) {
    let server = on.start();
    let (client, mark) = (server.client(), Mark::new());
    // In about a second, each by a write of its own.
    let line =
        "read go; for i in $(seq 100); do for j in $(seq 100); do echo $i; done; sleep 0.01; done; exit 0";
    let (process, uri) = start(client, line, &mark);
    let mut stream = client.listening(&json!({ "resourceSubscriptions": [uri] }));
    stream.next().unwrap();
    input(client, &process, "go\n");
    let (mut notices, mut shown, begun) = (0, Value::Null, std::time::Instant::now());
    while shown["state"] != "exited" || shown["next"] != shown["end"] {
        until_told(&mut stream, &uri);
        notices += 1;
        shown = read(client, &uri);
    }
    // Nothing was missed; one at once, and one every 250 ms.
    assert!(shown["output"].as_str().unwrap().ends_with("100\n100\n"));
    let most = begun.elapsed().as_millis() / 250 + 2;
    assert!(notices <= most, "{notices} notices, and {most} at the most");
}

fn what_is_told_ends_with_its_token_and_with_the_server(on: On) {
    let server = on.start();
    let (id, client) = server.client().new_token(&json!({ "scope": "admin" }));
    let mark = Mark::new();
    let (_, uri) = start(&client, "sleep 777", &mark);
    let session = Session::begin(&client, "2025-06-18");
    session.ask("resources/subscribe", &json!({ "uri": uri }));
    let mut old = session.stream();
    let mut new = client.listening(&json!({ "resourceSubscriptions": [uri] }));
    new.next().unwrap();
    server.client().revoke(&id);
    // One may have been told of the end of the process before.
    assert!(old.all(|message| message["params"]["uri"] == uri));
    assert_eq!(new.last().unwrap()["result"]["resultType"], "complete");
    mark.wait_until_gone();
    assert_eq!(session.try_ask("ping", &json!({})).status, 401);
    let session = Session::begin(server.client(), "2025-11-25");
    let mut old = session.stream();
    let mut new = server.client().listening(&json!({ "resourcesListChanged": true }));
    new.next().unwrap();
    server.shut_down();
    assert_eq!(old.next(), None);
    assert_eq!(new.last().unwrap()["result"]["resultType"], "complete");
}
