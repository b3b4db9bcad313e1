//! MCP with clients that are clumsy, hostile or unlucky, on the virtual clock.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_tests::sim::{
    Setup, World,
    messages::changed,
    run,
    session::{Session, post},
    stdio,
    world::ADMIN,
};
use serde_json::json;

#[test]
fn the_list_that_changed_between_two_streams_is_told_on_the_second() {
    run(Setup::default(), async |world: &World| {
        let session = Session::begin(world, ADMIN, "2025-11-25").await;
        drop(session.told(world).await);
        world.sleep_ms(1_000).await;
        session.start(world, "hang").await;
        let mut told = session.told(world).await;
        assert_eq!(told.next().await.unwrap(), "resources");
    });
}

#[test]
fn what_is_gone_takes_no_place_of_what_is_followed_after_it() {
    let mut setup = Setup::default();
    setup.settings.stream_max_per_token = 600;
    setup.settings.stream_max_total = 600;
    run(setup, async |world: &World| {
        let session = Session::begin(world, ADMIN, "2025-11-25").await;
        let gone = session.start(world, "flood 300; exit 0").await;
        for since in 0..256 {
            session.subscribe(world, &format!("{gone}?since={since}")).await;
        }
        world.sleep_ms(700_000).await;
        let mut told = session.told(world).await;
        for _ in 0..256 {
            assert!(told.next().await.unwrap().starts_with(&gone));
        }
        let uri = session.start(world, "out 12345678; sleep 5000; out x; hang").await;
        for since in 0..8 {
            session.subscribe(world, &format!("{uri}?since={since}")).await;
        }
        assert_eq!(told.next().await.unwrap(), "resources");
        for since in 0..8 {
            assert_eq!(told.next().await.unwrap(), format!("{uri}?since={since}"));
        }
    });
}

#[test]
fn an_event_that_was_never_said_is_nothing_to_go_on_from() {
    run(Setup::default(), async |world: &World| {
        let session = Session::begin(world, ADMIN, "2025-11-25").await;
        let arguments = json!({ "command": "sleep 1000; exit 0" });
        let (_, mut call) = session.tool(world.client(), "exec", &arguments, None).await.unwrap();
        for (last, code) in [
            ("1:1", "cursor_ahead"),
            ("1:99", "cursor_ahead"),
            ("1:18446744073709551615", "cursor_ahead"),
            ("2:0", "gone"),
            ("1", "bad_cursor"),
        ] {
            let refused = session.stream(world.client(), Some(last)).await.unwrap().unwrap_err();
            assert_eq!((refused.status, &refused.json()["error"]["data"]["code"]), (400, &json!(code)));
        }
        assert!(call.next().await.unwrap().unwrap().get("result").is_some());
    });
}

#[test]
fn what_a_session_keeps_of_its_client_is_short() {
    run(Setup::default(), async |world: &World| {
        let initialize = |len| {
            let capabilities = json!({ "experimental": { "x": "x".repeat(len) } });
            let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities });
            post(ADMIN, &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }))
        };
        let refused = world.client().call(&initialize(9_000)).await.unwrap();
        assert_eq!(
            refused.json()["error"]["message"],
            "params.capabilities: they are longer than 8192 bytes"
        );
        assert!(refused.header("mcp-session-id").is_none());
        assert!(world.client().call(&initialize(8_000)).await.unwrap().header("mcp-session-id").is_some());
        let session = Session::begin(world, ADMIN, "2025-11-25").await;
        let uri = format!("{}?since={}", session.start(world, "hang").await, "0".repeat(1_000));
        let refused = session.ask(world, "resources/subscribe", &json!({ "uri": uri })).await;
        assert_eq!(refused["error"]["message"], "params.uri: it is longer than 1024 bytes");
    });
}

#[test]
fn over_lines_what_changes_is_told_for_longer_than_a_stream_lives() {
    run(Setup::default(), async |world: &World| {
        let mut session = stdio::Session::start(world, 1 << 20);
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
        let begins = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        session.say(&begins.to_string()).await;
        assert_eq!(session.hear().await.unwrap()["id"], 0);
        world.sleep_ms(13 * 3600 * 1000).await;
        let arguments = json!({ "name": "process", "arguments": { "action": "start", "command": "hang" } });
        let start = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": arguments });
        session.say(&start.to_string()).await;
        let mut said = [session.hear().await.unwrap(), session.hear().await.unwrap()];
        said.sort_by_key(|message| message["id"].is_null());
        assert_eq!((&said[0]["id"], changed(&said[1]).as_str()), (&json!(1), "resources"));
    });
}

#[test]
fn each_message_of_a_line_is_answered_however_slowly_that_is_read() {
    run(Setup::default(), async |world: &World| {
        let mut session = stdio::Session::start(world, 1 << 20);
        let params = json!({ "protocolVersion": "2025-03-26", "capabilities": {} });
        let begins = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        session.say(&begins.to_string()).await;
        session.hear().await.unwrap();
        let id = |number: usize| format!("{number}{}", "x".repeat(150_000));
        let bad = |number| json!({ "jsonrpc": "2.0", "id": id(number), "method": "ping", "params": [] });
        session.say(&json!((0..6).map(bad).collect::<Vec<_>>()).to_string()).await;
        for number in 0..6 {
            assert_eq!(session.hear().await.unwrap()["id"], id(number));
        }
    });
}

#[test]
fn a_name_that_another_process_takes_is_followed_to_that() {
    run(Setup::default(), async |world: &World| {
        let session = Session::begin(world, ADMIN, "2025-11-25").await;
        let start = async |script: &str| {
            let arguments = json!({ "action": "start", "command": script, "name": "web" });
            session.ask(world, "tools/call", &json!({ "name": "process", "arguments": arguments })).await;
        };
        start("out x; exit 0").await;
        world.sleep_ms(1_000).await;
        let uri = "hangar://sandboxes/box/processes/web/output";
        session.subscribe(world, uri).await;
        let mut told = session.told(world).await;
        world.sleep_ms(1_000).await;
        start("out x; exit 0").await;
        let mut both = [told.next().await.unwrap(), told.next().await.unwrap()];
        both.sort();
        assert_eq!(both, [uri, "resources"]);
        drop(told);
        // The next one prints as much, between two streams.
        world.sleep_ms(1_000).await;
        start("out x; exit 0").await;
        world.sleep_ms(1_000).await;
        let mut told = session.told(world).await;
        let mut both = [told.next().await.unwrap(), told.next().await.unwrap()];
        both.sort();
        assert_eq!(both, [uri, "resources"]);
    });
}

#[test]
fn what_waits_for_who_asks_for_much_at_once_is_bounded() {
    run(Setup::default(), async |world: &World| {
        let session = Session::begin(world, ADMIN, "2025-03-26").await;
        let uri = session.start(world, "flood 100000; hang").await;
        world.sleep_ms(10_000).await;
        let asks = || session.asks("resources/read", &json!({ "uri": uri }));
        let batch: Vec<_> = (0..64).map(|_| asks()).collect();
        let response = world.client().call(&session.request(&json!(batch))).await.unwrap();
        let answers = response.json();
        let answers = answers.as_array().unwrap();
        assert_eq!(answers.len(), 64);
        assert!(answers[0].get("result").is_some() && answers[63]["error"]["code"] == -32603);
        assert!(response.body.len() < 3 << 20, "{}", response.body.len());
    });
}
