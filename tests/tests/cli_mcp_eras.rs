//! Clients of MCP's revisions of 2025 that start `hangar mcp`, and servers that are restarted under clients of both eras.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_tests::{
    mcp::result,
    real::{Client, Mark, Serving, Session, Stdio, cli, proxy::Proxy},
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::Command;

fn asks(id: u64, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

fn begin(change: impl FnOnce(&mut Command)) -> Stdio {
    let mut session = Stdio::start(change);
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {} });
    session.say(&asks(0, "initialize", &params));
    let begun = session.hear().unwrap();
    assert_eq!(begun["result"]["protocolVersion"], "2025-06-18", "{begun}");
    session.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    session
}

/// The answer to a call, past what is told and answered meanwhile.
fn answer(session: &mut Stdio, id: u64) -> Value {
    loop {
        let said = session.hear().unwrap();
        if said["id"] == id {
            return said;
        }
        assert!(said.get("error").is_none(), "{said}");
    }
}

fn tool(session: &mut Stdio, id: u64, name: &str, arguments: &Value) -> Value {
    session.say(&asks(id, "tools/call", &json!({ "name": name, "arguments": arguments })));
    result(&answer(session, id))
}

fn until_told(session: &mut Stdio, uri: &str) {
    while session.hear().unwrap()["params"]["uri"] != uri {}
}

/// What a client does: a command as it prints, one that is cancelled, a process that it is told of.
fn use_it(session: &mut Stdio, mark: &Mark) -> String {
    let env = json!({ "HOME": "/nonexistent", (Mark::NAME): mark.value() });
    let exec = |command: &str| {
        let arguments = json!({ "command": command, "stream": true, "env": env });
        json!({ "name": "exec", "arguments": arguments, "_meta": { "progressToken": 0 } })
    };
    session.say(&asks(1, "tools/call", &exec("echo in; exit 3")));
    assert_eq!(session.hear().unwrap()["params"]["message"], "in\n");
    assert_eq!(result(&answer(session, 1))["exit_code"], 3);
    session.say(&asks(2, "tools/call", &exec("echo in; sleep 777")));
    assert_eq!(session.hear().unwrap()["params"]["message"], "in\n");
    session.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    mark.wait_until_gone();
    let arguments =
        json!({ "action": "start", "command": "while read line; do echo got $line; done", "env": env });
    let started = tool(session, 3, "process", &arguments);
    let (id, uri) = (started["process_id"].as_str().unwrap(), started["output_uri"].as_str().unwrap());
    session.say(&asks(4, "resources/subscribe", &json!({ "uri": uri })));
    assert_eq!(answer(session, 4)["result"], json!({}));
    input(session, 5, id, "one\n");
    until_told(session, uri);
    session.say(&asks(6, "resources/read", &json!({ "uri": uri })));
    let read = answer(session, 6);
    let shown: Value = serde_json::from_str(read["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(shown["output"], "got one\n");
    uri.to_owned()
}

fn input(session: &mut Stdio, id: u64, process: &str, text: &str) {
    let arguments = json!({ "action": "input", "process_id": process, "input": text });
    session.say(&asks(id, "tools/call", &json!({ "name": "process", "arguments": arguments })));
}

#[test]
fn hangar_mcp_serves_the_older_ones() {
    cli("hangar_mcp_serves_the_older_ones", || {
        let (mut session, mark) = (begin(|_| {}), Mark::new());
        use_it(&mut session, &mark);
        session.input = None;
        assert_eq!(session.ended(), Some(0));
        mark.wait_until_gone();
    });
}

#[test]
fn hangar_mcp_before_a_server_serves_them_over_connections_that_break() {
    cli("hangar_mcp_before_a_server_serves_them_over_connections_that_break", || {
        let (serving, mark) = (Serving::start(|_| {}), Mark::new());
        let proxy = Proxy::start(serving.client().address);
        let url = format!("http://{}", proxy.address());
        let mut session = begin(|command| {
            command.args(["--server", &url]).env("HANGAR_TOKEN", &serving.client().token);
        });
        let uri = use_it(&mut session, &mark);
        // What changes is told by the server, to which there is a new connection: with it, that there may be something new.
        proxy.cut();
        until_told(&mut session, &uri);
        let process = uri.split('/').nth(5).unwrap();
        input(&mut session, 7, process, "two\n");
        until_told(&mut session, &uri);
        tool(&mut session, 8, "process", &json!({ "action": "kill", "process_id": process }));
        session.input = None;
        assert_eq!(session.ended(), Some(0));
        mark.wait_until_gone();
    });
}

#[test]
fn a_restarted_server_has_no_sessions_and_its_clients_begin_anew() {
    cli("a_restarted_server_has_no_sessions_and_its_clients_begin_anew", || {
        let serving = Serving::start(|_| {});
        let client: Client = serving.client().clone();
        let session = Session::begin(&client, "2025-11-25");
        session.ask("resources/subscribe", &json!({ "uri": "hangar://sandboxes" }));
        let (mut old, mut new) =
            (session.stream(), client.listening(&json!({ "resourceSubscriptions": ["hangar://sandboxes"] })));
        assert_eq!(new.next().unwrap()["method"], "notifications/subscriptions/acknowledged");
        serving.signal(Signal::TERM);
        // Each learns that it ends, and that nothing is wrong.
        assert_eq!(old.next(), None);
        assert_eq!(new.next().unwrap()["result"]["resultType"], "complete");
        let (code, _, folder) = serving.wait();
        assert_eq!(code, 0);
        let serving = Serving::again(folder, client.address, |command| {
            command.env("HANGAR_TOKEN", &client.token);
        });
        let gone = session.try_ask("ping", &json!({}));
        assert_eq!((gone.status, gone.json()["error"]["data"]["code"].as_str()), (404, Some("no_session")));
        let session = Session::begin(&client, "2025-11-25");
        session.ask("resources/subscribe", &json!({ "uri": "hangar://sandboxes" }));
        let mut old = session.stream();
        let mut new = client.listening(&json!({ "resourceSubscriptions": ["hangar://sandboxes"] }));
        new.next().unwrap();
        client.post("/api/sandboxes", &json!({ "name": "second" }));
        for stream in [&mut old, &mut new] {
            assert!(stream.any(|told| told["params"]["uri"] == "hangar://sandboxes"));
        }
        drop(serving);
    });
}
