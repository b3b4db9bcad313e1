//! MCP over lines on the virtual clock: what changes, in both eras, and a client of the revisions of 2025.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_tests::{
    mcp::{request, result},
    sim::{Setup, World, messages::changed, run, stdio::Session},
};
use serde_json::{Value, json};
use std::time::Duration;

fn asks(id: u64, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

fn begins(revision: &str) -> Value {
    json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": "tests", "version": "0" } })
}

async fn begin(session: &mut Session, revision: &str) -> Value {
    session.say(&asks(0, "initialize", &begins(revision))).await;
    let begun = session.hear().await.unwrap();
    assert_eq!((&begun["id"], &begun["result"]["protocolVersion"]), (&json!(0), &json!(revision)));
    session.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    begun["result"].clone()
}

async fn start(session: &mut Session, id: u64, script: &str) -> String {
    let arguments = json!({ "action": "start", "command": script });
    session.say(&asks(id, "tools/call", &json!({ "name": "process", "arguments": arguments }))).await;
    let mut uri = None;
    // The list changes with it.
    for _ in 0..2 {
        let said = session.hear().await.unwrap();
        if said["id"] == id {
            uri = Some(result(&said)["output_uri"].as_str().unwrap().to_owned());
        } else {
            assert_eq!(changed(&said), "resources");
        }
    }
    uri.unwrap()
}

#[test]
fn a_session_begins_with_its_first_line_and_ends_with_the_last() {
    run(Setup::default(), async |world: &World| {
        for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
            let mut session = Session::start(world, 1 << 20);
            // Nothing before that is of one.
            session.say(&asks(9, "ping", &json!({}))).await;
            assert_eq!(session.hear().await.unwrap()["error"]["code"], -32602);
            session.say(&asks(8, "initialize", &json!({ "protocolVersion": 1 }))).await;
            assert_eq!(session.hear().await.unwrap()["error"]["code"], -32602);
            assert_eq!(begin(&mut session, revision).await["serverInfo"]["name"], "hangar");
            session.say(&asks(1, "ping", &json!({}))).await;
            assert_eq!(session.hear().await.unwrap(), json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
            session.say(&asks(2, "tools/list", &json!({}))).await;
            assert_eq!(session.hear().await.unwrap()["result"].as_object().unwrap().len(), 1);
            for (method, code) in
                [("initialize", -32600), ("nonsense", -32601), ("subscriptions/listen", -32601)]
            {
                session.say(&asks(3, method, &begins(revision))).await;
                let refused = session.hear().await.unwrap();
                assert_eq!(
                    (&refused["id"], &refused["error"]["code"]),
                    (&json!(3), &json!(code)),
                    "{method}"
                );
            }
            // The newest revision needs no session, and takes nothing from this one.
            session.say(&request(&json!(4), "tools/list", &json!({}), None).to_string()).await;
            assert_eq!(session.hear().await.unwrap()["result"]["resultType"], "complete");
            // What it answers to what it was not asked is passed over.
            session.say(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
            let both = format!("[{},{}]", asks(5, "ping", &json!({})), asks(6, "ping", &json!({})));
            session.say(&both).await;
            if revision == "2025-03-26" {
                // One that is cancelled among several is, too.
                let arguments = json!({ "command": "hang" });
                let params = json!({ "name": "exec", "arguments": arguments });
                let call = asks(7, "tools/call", &params);
                session.say(&call).await;
                world.sleep_ms(10).await;
                assert_eq!(world.running(), 1);
                let cancelled = json!([{
                    "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 },
                }]);
                session.say(&cancelled.to_string()).await;
                world.sleep_ms(100).await;
                assert_eq!(world.running(), 0);
                let ids = [
                    session.hear().await.unwrap()["id"].clone(),
                    session.hear().await.unwrap()["id"].clone(),
                ];
                assert!(ids.contains(&json!(5)) && ids.contains(&json!(6)));
            } else {
                assert_eq!(session.hear().await.unwrap()["error"]["code"], -32600);
            }
            session.input = None;
            assert_eq!(session.hear().await, None);
            world.sleep_ms(10).await;
            assert!(session.has_ended());
        }
    });
}

#[test]
fn a_call_of_a_session_has_its_progress_and_ends_when_it_is_cancelled() {
    run(Setup::default(), async |world: &World| {
        let mut session = Session::start(world, 1 << 20);
        begin(&mut session, "2025-06-18").await;
        let exec = |script: &str| {
            let arguments = json!({ "command": script, "stream": true });
            json!({ "name": "exec", "arguments": arguments, "_meta": { "progressToken": "t" } })
        };
        session.say(&asks(1, "tools/call", &exec("out a; sleep 100; exit 3"))).await;
        let told = session.hear().await.unwrap();
        assert_eq!(
            (&told["params"]["message"], &told["params"]["progressToken"]),
            (&json!("a"), &json!("t"))
        );
        let answer = session.hear().await.unwrap();
        assert_eq!((&answer["id"], &result(&answer)["exit_code"]), (&json!(1), &json!(3)));
        session.say(&asks(2, "tools/call", &exec("out b; hang"))).await;
        session.hear().await.unwrap();
        session.say(&asks(2, "ping", &json!({}))).await;
        assert_eq!(session.hear().await.unwrap()["error"]["code"], -32600, "its id is in use");
        session.cancel(2).await;
        world.sleep_ms(100).await;
        assert_eq!(world.running(), 0);
        session.say(&asks(2, "ping", &json!({}))).await;
        assert_eq!(session.hear().await.unwrap()["result"], json!({}));
        session.input = None;
        assert_eq!(session.hear().await, None);
    });
}

#[test]
fn what_changes_is_told_between_the_answers() {
    run(Setup::default(), async |world: &World| {
        let mut session = Session::start(world, 1 << 20);
        begin(&mut session, "2025-11-25").await;
        let uri = start(&mut session, 1, "sleep 1000; drip 1000 1; sleep 1000; hang").await;
        session.say(&asks(2, "resources/subscribe", &json!({ "uri": uri }))).await;
        assert_eq!(session.hear().await.unwrap()["result"], json!({}));
        let begun = world.now();
        for at in [1000, 1250, 1500, 1750, 2000] {
            assert_eq!(changed(&session.hear().await.unwrap()), uri);
            assert_eq!(world.now().since(begun).as_millis(), at);
        }
        session.say(&asks(3, "resources/unsubscribe", &json!({ "uri": uri }))).await;
        assert_eq!(session.hear().await.unwrap()["result"], json!({}));
        session.say(&asks(4, "resources/subscribe", &json!({ "uri": "hangar://nothing" }))).await;
        assert_eq!(session.hear().await.unwrap()["error"]["code"], -32002);
        session.input = None;
        assert_eq!(session.hear().await, None);
        let id = uri.split('/').nth(5).unwrap();
        let found = world.plane.find_process(&hangar_transports::plane::tokens::Caller::owner(), "box", id);
        found.unwrap().stop();
    });
}

#[test]
fn what_is_told_over_lines_has_no_end_but_the_sessions() {
    let mut setup = Setup::default();
    setup.settings.stream_max = Duration::from_secs(3600);
    setup.settings.stream_max_per_token = 1;
    run(setup, async |world: &World| {
        let mut session = Session::start(world, 1 << 20);
        begin(&mut session, "2025-11-25").await;
        let uri = start(&mut session, 1, "sleep 9000000; out x; sleep 9000000; out y; exit 0").await;
        session.say(&asks(2, "resources/list", &json!({}))).await;
        assert_eq!(session.hear().await.unwrap()["id"], 2);
        session.say(&asks(3, "resources/subscribe", &json!({ "uri": uri }))).await;
        assert_eq!(session.hear().await.unwrap()["id"], 3);
        // After two and a half hours, as after five.
        assert_eq!(changed(&session.hear().await.unwrap()), uri);
        session.say(&asks(4, "resources/read", &json!({ "uri": uri }))).await;
        assert_eq!(session.hear().await.unwrap()["id"], 4);
        assert_eq!(changed(&session.hear().await.unwrap()), uri);
        assert!(world.now().since(hangar_core::Time::ZERO).as_secs() >= 18_000);
        session.input = None;
        while session.hear().await.is_some() {}
    });
}

#[test]
fn who_listens_is_told_until_they_cancel_it() {
    run(Setup::default(), async |world: &World| {
        let mut session = Session::start(world, 1 << 20);
        let arguments = json!({ "action": "start", "command": "sleep 1000; drip 20 100; hang" });
        let started = json!({ "name": "process", "arguments": arguments });
        session.say(&request(&json!(1), "tools/call", &started, None).to_string()).await;
        let started = result(&session.hear().await.unwrap());
        let uri = started["output_uri"].as_str().unwrap();
        let wanted = json!({ "notifications": { "resourceSubscriptions": [uri, "x"] } });
        session.say(&request(&json!("l"), "subscriptions/listen", &wanted, None).to_string()).await;
        let acknowledged = session.hear().await.unwrap();
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(acknowledged["params"]["notifications"], json!({ "resourceSubscriptions": [uri] }));
        let told = session.hear().await.unwrap();
        assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "l");
        assert_eq!(changed(&told), uri);
        let cancelled = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "l" },
        });
        session.say(&cancelled.to_string()).await;
        world.sleep_ms(3_000).await;
        assert_eq!(world.plane.streams().leased(), 0);
        let kill = json!({ "action": "kill", "process_id": started["process_id"] });
        session
            .say(
                &request(&json!(2), "tools/call", &json!({ "name": "process", "arguments": kill }), None)
                    .to_string(),
            )
            .await;
        // Nothing more was told before this.
        assert_eq!(session.hear().await.unwrap()["id"], 2);
        session.input = None;
        assert_eq!(session.hear().await, None);
    });
}
