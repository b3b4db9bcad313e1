//! Sessions of MCP's revisions of 2025 on the virtual clock: what begins one, who has it, and what ends it.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_tests::{
    mcp::result,
    sim::{
        Request, Setup, World,
        mcp::{PATH, http},
        messages::Messages,
        run,
        session::{REVISIONS, Session, post},
        world::ADMIN,
    },
};
use hangar_transports::mcp::session::table::MAX_PER_TOKEN;
use serde_json::{Value, json};
use std::time::Duration;

fn sessions(world: &World) -> usize {
    let counted = world.metric("hangar_mcp_sessions");
    assert_eq!(counted as usize, world.server.service().mcp_sessions().len());
    world.server.service().mcp_sessions().len()
}

#[test]
fn each_revision_begins_with_initialize() {
    run(Setup::default(), async |world: &World| {
        for revision in REVISIONS {
            let session = Session::begin(world, ADMIN, revision).await;
            let result = &session.result;
            assert_eq!(result["serverInfo"]["name"], "hangar");
            assert_eq!(
                result["capabilities"]["resources"],
                json!({ "subscribe": true, "listChanged": true })
            );
            assert!(result["instructions"].is_string() && result.get("resultType").is_none());
            assert_eq!(session.ask(world, "ping", &json!({})).await["result"], json!({}));
            let tools = session.ask(world, "tools/list", &json!({})).await["result"].clone();
            assert_eq!(tools["tools"].as_array().unwrap().len(), 3);
            assert_eq!(tools.as_object().unwrap().len(), 1, "nothing of the newest revision: {tools}");
            // What is wrong with a request is said with 200: for these clients another status is a broken connection.
            for (method, params, code) in [
                ("nonsense", json!({}), -32601),
                ("subscriptions/listen", json!({ "notifications": {} }), -32601),
                ("logging/setLevel", json!({ "level": "info" }), -32601),
                ("tools/call", json!({ "name": "nothing" }), -32602),
                ("tools/call", json!({}), -32602),
                ("tools/list", json!({ "_meta": { "progressToken": null } }), -32602),
                ("resources/read", json!({ "uri": "hangar://nothing" }), -32002),
                ("resources/subscribe", json!({ "uri": "hangar://nothing" }), -32002),
                ("resources/subscribe", json!({ "uri": 7 }), -32602),
                ("resources/subscribe", json!({}), -32602),
            ] {
                let answer = session.ask(world, method, &params).await;
                assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
            }
            assert_eq!(session.end(world).await.status, 204);
        }
        assert_eq!(sessions(world), 0);
        // One of a revision that nobody knows, and one that cannot be.
        let asks =
            |params: Value| json!({ "jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params });
        let other = asks(json!({ "protocolVersion": "2031-01-01", "capabilities": {}, "clientInfo": {} }));
        let begun = world.client().call(&post(ADMIN, &other)).await.unwrap();
        assert_eq!(begun.json()["result"]["protocolVersion"], "2025-11-25");
        let refused = world.client().call(&post(ADMIN, &asks(json!({})))).await.unwrap();
        assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!(-32602)));
        assert!(refused.header("mcp-session-id").is_none());
        let nobody = world.client().call(&post("nonsense", &other)).await.unwrap();
        assert_eq!((nobody.status, nobody.header("www-authenticate").is_some()), (401, true));
    });
}

#[test]
fn a_session_that_is_not_there_is_404_and_a_message() {
    run(Setup::default(), async |world: &World| {
        let session = Session::begin(world, ADMIN, "2025-11-25").await;
        let (_, other) = world.token(json!({ "scope": "mcp" })).await;
        let ping = session.asks("ping", &json!({}));
        let cancelled =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
        let with = |request: Request, id: &str| request.header("mcp-session-id", id);
        let get = |token: &str| Request::new("GET", PATH).bearer(token).header("accept", "text/event-stream");
        let delete = |token: &str| Request::new("DELETE", PATH).bearer(token);
        let id = session.id.clone();
        let mut forged = id.clone();
        forged.replace_range(0..1, if id.starts_with('0') { "1" } else { "0" });
        for (what, request, status) in [
            ("forged", with(post(ADMIN, &ping), &forged), 404),
            ("none", with(post(ADMIN, &ping), ""), 404),
            ("another's", with(post(&other, &ping), &id), 404),
            ("another's, cancelled", with(post(&other, &cancelled), &id), 404),
            ("another's stream", with(get(&other), &id), 404),
            ("another's end", with(delete(&other), &id), 404),
            ("a forged stream", with(get(ADMIN), &forged), 404),
            ("missing", post(ADMIN, &ping), 400),
            ("a missing one's stream", get(ADMIN), 400),
            ("a missing one's end", delete(ADMIN), 400),
            ("twice", with(with(post(ADMIN, &ping), &id), &id), 400),
            ("no events", with(get(ADMIN), &id).instead("accept", "application/json"), 406),
            ("a revision", with(post(ADMIN, &ping), &id).header("mcp-protocol-version", "1999-01-01"), 400),
            ("a stream's revision", with(get(ADMIN), &id).header("mcp-protocol-version", "x1"), 400),
            ("a revision without", with(get(ADMIN), &id).header("mcp-protocol-version", "2026-07-28"), 405),
            ("an end without", with(delete(ADMIN), &id).header("mcp-protocol-version", "2026-07-28"), 405),
            ("no token", with(Request::new("GET", PATH).header("accept", "text/event-stream"), &id), 401),
            ("an event", with(get(ADMIN), &id).header("last-event-id", "7:1"), 400),
        ] {
            let response = world.client().call(&request).await.unwrap();
            assert_eq!(response.status, status, "{what}: {response:?}");
            let said = response.json();
            // Whose answer it is can be told wherever the request was read.
            if what == "forged" {
                assert_eq!(said["id"], ping["id"]);
            }
            assert_eq!(
                (&said["jsonrpc"], said["error"]["code"].is_i64()),
                (&json!("2.0"), true),
                "{what}: {said}"
            );
        }
        assert_eq!(session.ask(world, "ping", &json!({})).await["result"], json!({}));
        assert_eq!((session.end(world).await.status, session.end(world).await.status), (204, 404));
        let gone = world.client().call(&session.request(&ping)).await.unwrap();
        assert_eq!(gone.status, 404);
    });
}

#[test]
fn sessions_end_when_nobody_uses_them_and_when_their_place_is_needed() {
    let mut setup = Setup::default();
    setup.settings.mcp_session = Duration::from_secs(600);
    run(setup, async |world: &World| {
        let idle = Session::begin(world, ADMIN, "2025-11-25").await;
        let followed = Session::begin(world, ADMIN, "2025-11-25").await;
        let busy = Session::begin(world, ADMIN, "2025-11-25").await;
        let open = followed.told(world).await;
        let arguments = json!({ "command": "sleep 2000000; out x", "stream": true, "timeout": 86400 });
        let (_, mut call) = busy.tool(world.client(), "exec", &arguments, None).await.unwrap();
        world.sleep_ms(590_000).await;
        idle.ask(world, "ping", &json!({})).await;
        world.sleep_ms(590_000).await;
        assert_eq!(sessions(world), 3);
        world.sleep_ms(20_000).await;
        assert_eq!(sessions(world), 2);
        assert_eq!(idle.end(world).await.status, 404);
        assert_eq!(result(&call.next().await.unwrap().unwrap())["stdout"], "x");
        drop(open);
        world.sleep_ms(610_000).await;
        assert_eq!(sessions(world), 0);
        // The one that was idle for the longest time makes room.
        let mut all = Vec::new();
        for _ in 0..MAX_PER_TOKEN {
            all.push(Session::begin(world, ADMIN, "2025-11-25").await);
            world.sleep_ms(10).await;
        }
        let (first, mut streams) = (all[0].id.clone(), Vec::new());
        for session in &all[1..] {
            streams.push(session.told(world).await);
        }
        let next = Session::begin(world, ADMIN, "2025-11-25").await;
        assert_ne!(next.id, first);
        assert_eq!((sessions(world), all[0].end(world).await.status), (MAX_PER_TOKEN, 404));
        streams.push(next.told(world).await);
        // All are in use; another token's do not count.
        let (_, other) = world.token(json!({ "scope": "mcp" })).await;
        Session::begin(world, &other, "2025-11-25").await;
        let begins = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": "2025-11-25" } });
        let refused = world.client().call(&post(ADMIN, &begins)).await.unwrap();
        assert_eq!(
            (refused.status, &refused.json()["error"]["data"]["code"]),
            (429, &json!("too_many_sessions"))
        );
    });
}

#[test]
fn a_token_that_is_revoked_has_no_sessions() {
    run(Setup::default(), async |world: &World| {
        let (id, token) = world.token(json!({ "scope": "mcp" })).await;
        let session = Session::begin(world, &token, "2025-11-25").await;
        let uri = session.start(world, "hang").await;
        session.subscribe(world, &uri).await;
        let mut open = session.told(world).await;
        let hang = json!({ "command": "out x; hang", "stream": true });
        let (_, mut call) = session.tool(world.client(), "exec", &hang, Some(json!(0))).await.unwrap();
        call.next().await.unwrap();
        assert_eq!(open.next().await.as_deref(), Some("resources"));
        world.api("DELETE", &format!("/api/tokens/{id}"), None).await;
        assert!(open.next().await.is_none());
        while call.next().await.unwrap().is_some() {}
        world.sleep_ms(6_000).await;
        assert_eq!((sessions(world), world.running()), (0, 0));
        assert_eq!(world.plane.streams().leased(), 0);
        // At the end of the server both streams end.
        let session = Session::begin(world, ADMIN, "2025-11-25").await;
        let mut open = session.told(world).await;
        let (_, mut call) = session.tool(world.client(), "exec", &hang, None).await.unwrap();
        world.shut_down();
        assert!(open.next().await.is_none());
        assert_eq!(result(&call.next().await.unwrap().unwrap())["closed"], "shutdown");
        world.sleep_ms(1).await;
    });
}

#[test]
fn several_messages_in_a_body_are_of_the_first_revision_alone() {
    run(Setup::default(), async |world: &World| {
        let exec = |id: u64, script: &str| {
            let arguments = json!({ "command": script, "stream": true });
            let params = json!({ "name": "exec", "arguments": arguments, "_meta": { "progressToken": id } });
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
        };
        for revision in ["2025-06-18", "2025-11-25"] {
            let session = Session::begin(world, ADMIN, revision).await;
            let refused = world
                .client()
                .call(&session.request(&json!([session.asks("ping", &json!({}))])))
                .await
                .unwrap();
            assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!(-32600)));
        }
        let session = Session::begin(world, ADMIN, "2025-03-26").await;
        let (one, two) = (session.asks("ping", &json!({})), session.asks("nonsense", &json!({})));
        let body = json!([one, { "jsonrpc": "2.0", "method": "notifications/x" }, two, 7]);
        let answers = world.client().call(&session.request(&body)).await.unwrap().json();
        assert_eq!((&answers[0]["id"], &answers[0]["result"]), (&one["id"], &json!({})));
        assert_eq!((&answers[1]["id"], &answers[1]["error"]["code"]), (&two["id"], &json!(-32601)));
        assert_eq!((answers.as_array().unwrap().len(), &answers[2]["error"]["code"]), (3, &json!(-32600)));
        let told = json!([{ "jsonrpc": "2.0", "method": "notifications/x" }]);
        assert_eq!(world.client().call(&session.request(&told)).await.unwrap().status, 202);
        // Those that take a while are answered as a stream, each in its own time.
        let ping = session.asks("ping", &json!({}));
        let body = json!([
            exec(100, "sleep 3000; out slow"),
            exec(101, "sleep 1000; out quick"),
            exec(101, "out x"),
            ping
        ]);
        let mut all = Messages::open(world.client(), &session.request(&body)).await.unwrap().unwrap();
        let mut answers = Vec::new();
        while let Some(message) = all.next().await.unwrap() {
            if message.get("id").is_some() {
                answers.push(message);
            }
        }
        let ids: Vec<u64> = answers.iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
        assert_eq!(ids, [101, ping["id"].as_u64().unwrap(), 101, 100]);
        assert_eq!(answers[0]["error"]["code"], -32600);
        assert_eq!(
            (&result(&answers[2])["stdout"], &result(&answers[3])["stdout"]),
            (&json!("quick"), &json!("slow"))
        );
    });
}

#[test]
fn one_connection_carries_both_eras() {
    run(Setup::default(), async |world: &World| {
        let session = Session::begin(world, ADMIN, "2025-06-18").await;
        let mut client = world.client();
        for _ in 0..3 {
            let newest = hangar_tests::mcp::request(&json!(1), "tools/list", &json!({}), None);
            // A session's id says nothing there, and is not given back.
            let request = http(ADMIN, &newest).header("mcp-session-id", &session.id);
            let answer = client.call(&request).await.unwrap();
            assert_eq!(
                (answer.json()["result"]["resultType"].clone(), answer.header("mcp-session-id")),
                (json!("complete"), None)
            );
            let answer =
                client.call(&session.request(&session.asks("tools/list", &json!({})))).await.unwrap();
            assert!(answer.json()["result"].get("resultType").is_none());
            for method in ["initialize", "ping", "resources/subscribe"] {
                let message = hangar_tests::mcp::request(&json!(1), method, &json!({}), None);
                let refused = client.call(&http(ADMIN, &message)).await.unwrap();
                assert_eq!((refused.status, &refused.json()["error"]["code"]), (404, &json!(-32601)));
            }
        }
        assert_eq!(sessions(world), 1);
    });
}
