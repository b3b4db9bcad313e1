//! MCP on the virtual clock: what is refused, what a call tells of its progress, and what ends it.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_tests::{
    mcp::{refusal, request, result},
    sim::{
        Link, Request, Setup, World,
        mcp::{Call, PATH, attach, http, start},
        random::Random,
        run, seeds,
        world::ADMIN,
    },
};
use serde_json::{Value, json};

async fn exec(world: &World, arguments: &Value, token: Option<Value>) -> Call {
    Call::tool(world.client(), ADMIN, "exec", arguments, token).await.unwrap()
}

#[test]
fn what_is_refused_is_a_json_rpc_error_with_its_status() {
    run(Setup::default(), async |world: &World| {
        let list = request(&json!(1), "tools/list", &json!({}), None);
        let good = http(ADMIN, &list);
        for (what, request, status, code) in [
            ("no token", Request::new("POST", PATH).json(&list), 401, -32600),
            ("another's token", http("nonsense", &list), 401, -32600),
            ("no JSON", good.clone().instead("content-type", "text/plain"), 415, -32600),
            ("no events", good.clone().instead("accept", "application/json"), 406, -32600),
            ("a body that breaks off", good.clone().body("{"), 400, -32700),
            ("a batch", good.clone().body("[]"), 400, -32600),
            (
                "another revision in the header",
                good.clone().instead("mcp-protocol-version", "2025-11-25"),
                400,
                -32020,
            ),
            ("a header twice", good.clone().header("mcp-method", "tools/list"), 400, -32020),
            ("no such method", http(ADMIN, &request(&json!(1), "ping", &json!({}), None)), 404, -32601),
            ("no _meta", good.clone().body(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#), 400, -32602),
            (
                "no such tool",
                http(ADMIN, &request(&json!(1), "tools/call", &json!({ "name": "x" }), None)),
                400,
                -32602,
            ),
            (
                "no such resource",
                http(ADMIN, &request(&json!(1), "resources/read", &json!({ "uri": "x" }), None)),
                400,
                -32602,
            ),
            (
                "a cursor",
                http(ADMIN, &request(&json!(1), "tools/list", &json!({ "cursor": "x" }), None)),
                400,
                -32602,
            ),
        ] {
            let response = world.client().call(&request).await.unwrap();
            let said = response.json();
            assert_eq!((response.status, &said["error"]["code"]), (status, &json!(code)), "{what}: {said}");
            assert_eq!(said["jsonrpc"], "2.0");
            assert!(said.get("result").is_none() && said.get("id").is_some());
            assert_eq!(response.header("www-authenticate").is_some(), status == 401, "{what}");
            assert_eq!(response.header("content-type"), Some("application/json"));
        }
        for method in ["GET", "DELETE"] {
            let request =
                Request::new(method, PATH).bearer(ADMIN).header("mcp-protocol-version", "2026-07-28");
            let refused = world.client().call(&request).await.unwrap();
            assert_eq!((refused.status, refused.header("allow")), (405, Some("POST")));
            assert_eq!(refused.json()["error"]["code"], -32600);
        }
        for scope in ["jobs", "metrics"] {
            let (_, token) = world.token(json!({ "scope": scope })).await;
            assert_eq!(world.ask(&token, "tools/list", &json!({})).await.status, 403, "{scope}");
        }
        let evil = world.client().call(&good.clone().header("origin", "https://evil.example")).await.unwrap();
        assert_eq!((evil.status, &evil.json()["error"]["data"]["code"]), (403, &json!("forbidden_origin")));
        // Whatever its headers, and without anything done for it.
        let notification =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"call"}}"#;
        let bare = Request::new("POST", PATH)
            .bearer(ADMIN)
            .header("content-type", "application/json")
            .body(notification);
        let taken = world.client().call(&bare).await.unwrap();
        assert_eq!((taken.status, taken.body.len()), (202, 0));
        assert_eq!(world.sandbox.records().len(), 0);
    });
}

#[test]
fn what_is_offered_is_there() {
    run(Setup::default(), async |world: &World| {
        let found = world.ask(ADMIN, "server/discover", &json!({})).await.json();
        let found = &found["result"];
        let versions = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"];
        assert_eq!(found["supportedVersions"], json!(versions));
        let resources = json!({ "subscribe": true, "listChanged": true });
        assert_eq!(found["capabilities"], json!({ "tools": {}, "resources": resources, "prompts": {} }));
        assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "hangar");
        let tools = world.ask(ADMIN, "tools/list", &json!({})).await.json();
        let names: Vec<&str> = tools["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["exec", "process", "sandboxes"]);
        assert_eq!(world.ask(ADMIN, "prompts/list", &json!({})).await.json()["result"]["prompts"], json!([]));
        let listed = world.ask(ADMIN, "resources/list", &json!({})).await.json();
        let uri = listed["result"]["resources"][0]["uri"].clone();
        let read = world.ask(ADMIN, "resources/read", &json!({ "uri": uri })).await.json();
        let text = read["result"]["contents"][0]["text"].as_str().unwrap();
        let sandboxes: Value = serde_json::from_str(text).unwrap();
        assert_eq!(sandboxes["sandboxes"][0]["name"], "box");
        // What one may not see is not listed.
        let (_, elsewhere) = world.token(json!({ "scope": "mcp", "sandboxes": ["other"] })).await;
        let read = world.ask(&elsewhere, "resources/read", &json!({ "uri": uri })).await.json();
        assert_eq!(read["result"]["contents"][0]["text"], r#"{"sandboxes":[]}"#);
    });
}

#[test]
fn output_comes_as_progress_and_the_result_last() {
    run(Setup::default(), async |world: &World| {
        let script = r"out a\n; sleep 100; err \xe2\x82; sleep 100; err \xac; sleep 100; out b; exit 3";
        for token in [json!(0), json!(""), json!("t"), json!(-7)] {
            let arguments = json!({ "command": script, "stream": true });
            let mut call = exec(world, &arguments, Some(token)).await;
            let told = call.to_end(world).await.unwrap();
            assert_eq!(told.output, "a\n€b");
            assert_eq!(told.progress.iter().map(|(_, bytes)| *bytes as u64).collect::<Vec<_>>(), [2, 5, 6]);
            let result = result(&told.answer);
            assert_eq!((&result["exit_code"], &result["streamed"]), (&json!(3), &json!(true)));
            assert_eq!((&result["stdout"], &result["stderr"]), (&json!("a\nb"), &json!("€")));
        }
        // Byte for byte.
        let arguments = json!({ "command": r"out \xff\x00", "stream": true, "encoding": "base64" });
        let told = exec(world, &arguments, Some(json!(1))).await.to_end(world).await.unwrap();
        assert_eq!((told.output.as_str(), &result(&told.answer)["stdout"]), ("/wA=", &json!("/wA=")));
        assert_eq!(world.ended("done"), 5.0);
    });
}

#[test]
fn a_long_argument_is_taken() {
    run(Setup::default(), async |world: &World| {
        let arguments = json!({ "command": format!("out {}", "x".repeat(1_000_000)) });
        let told = exec(world, &arguments, None).await.to_end(world).await.unwrap();
        let result = result(&told.answer);
        assert_eq!(
            (result["stdout"].as_str().unwrap().len(), &result["stdout_truncated"]),
            (256 * 1024, &json!(true))
        );
    });
}

#[test]
fn who_asks_for_no_progress_gets_the_result() {
    run(Setup::default(), async |world: &World| {
        let arguments = json!({ "command": "out a; sleep 60000; out b", "stream": true, "sandbox": "box" });
        let told = exec(world, &arguments, None).await.to_end(world).await.unwrap();
        assert!(told.progress.is_empty());
        let result = result(&told.answer);
        assert_eq!((&result["streamed"], &result["stdout"]), (&json!(false), &json!("ab")));
        // It held no place among the streams.
        assert_eq!(world.metric("hangar_streams_total{kind=\"exec\",reason=\"done\"}"), 0.0);
    });
}

#[test]
fn a_silence_has_a_sign_of_life_every_15_seconds() {
    run(Setup::default(), async |world: &World| {
        let begun = world.now();
        // Whether or not output is streamed: what the client asked for is progress.
        for stream in [true, false] {
            let arguments = json!({ "command": "sleep 50000; out x", "stream": stream });
            let mut call = exec(world, &arguments, Some(json!(0))).await;
            let told = call.to_end(world).await.unwrap();
            let expected: &[f64] =
                if stream { &[0.0001, 0.0002, 0.0003, 1.0] } else { &[0.0001, 0.0002, 0.0003] };
            assert_eq!(told.progress.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>(), expected);
            let at: Vec<u64> = told.progress.iter().map(|(at, _)| at.since(begun).as_secs() % 50).collect();
            assert_eq!(at[..3], [15, 30, 45]);
        }
    });
}

#[test]
fn a_client_that_leaves_ends_its_command_and_no_process() {
    run(Setup::default(), async |world: &World| {
        for (stream, token) in [(true, Some(json!(1))), (false, Some(json!(1))), (false, None)] {
            let before = world.sandbox.records().len();
            let call = exec(world, &json!({ "command": "hang", "stream": stream }), token).await;
            world.sleep_ms(1_000).await;
            drop(call);
            world.sleep_ms(100).await;
            let record = &world.sandbox.records()[before];
            assert_eq!(record.terminated_at.len(), 1, "{record:?}");
            assert!(record.released_at.is_some());
        }
        assert_eq!(world.ended("client"), 1.0);
        let id = start(world, "sleep 5000; out late").await;
        let call = attach(world, &json!({ "process_id": id, "wait_seconds": 60 }), Some(json!(1))).await;
        world.sleep_ms(1_000).await;
        drop(call);
        let told = attach(world, &json!({ "process_id": id, "wait_seconds": 60 }), None)
            .await
            .to_end(world)
            .await
            .unwrap();
        assert_eq!(result(&told.answer)["output"], "late");
    });
}

#[test]
fn limits_are_told_as_over_rest() {
    let mut setup = Setup::default();
    setup.settings.stream_max_per_token = 1;
    setup.settings.background_max_per_token = 1;
    run(setup, async |world: &World| {
        let hang = json!({ "command": "hang", "stream": true });
        let first = exec(world, &hang, Some(json!(1))).await;
        let rest =
            world.api("POST", "/api/sandboxes/box/exec/stream", Some(json!({ "command": "hang" }))).await;
        let message = rest.json()["error"]["message"].as_str().unwrap().to_owned();
        let refused = |answer: &Value| refusal(answer);
        let params = json!({ "name": "exec", "arguments": hang });
        let asked = http(ADMIN, &request(&json!("call"), "tools/call", &params, Some(&json!(2))));
        let told = refused(&world.client().call(&asked).await.unwrap().json());
        assert_eq!(told.0, "too_many_streams");
        assert!(told.2.starts_with(&message), "{}", told.2);
        let id = start(world, "hang").await;
        let told =
            refused(&world.tool(ADMIN, "process", &json!({ "action": "start", "command": "hang" })).await);
        assert_eq!(told.0, "too_many_processes");
        // Who only looks holds nothing.
        attach(world, &json!({ "process_id": id }), None).await.to_end(world).await.unwrap();
        drop(first);
        world.sleep_ms(100).await;
        exec(world, &json!({ "command": "out x", "stream": true }), Some(json!(3)))
            .await
            .to_end(world)
            .await
            .unwrap();
    });
}

#[test]
fn what_ends_a_stream_is_in_its_result() {
    run(Setup::default(), async |world: &World| {
        let (id, token) = world.token(json!({ "scope": "mcp" })).await;
        let hang = json!({ "command": "out x; hang", "stream": true });
        let mut call = Call::tool(world.client(), &token, "exec", &hang, Some(json!(1))).await.unwrap();
        call.next().await.unwrap();
        world.api("DELETE", &format!("/api/tokens/{id}"), None).await;
        let told = call.to_end(world).await.unwrap();
        assert_eq!(result(&told.answer)["closed"], "revoked");
        assert_eq!(world.sandbox.record().terminated_at.len(), 1);

        let process = start(world, "out x; hang").await;
        let mut following =
            attach(world, &json!({ "process_id": process, "wait_seconds": 60 }), Some(json!(1))).await;
        following.next().await.unwrap();
        let mut unstreamed = exec(world, &json!({ "command": "out y; sleep 2000" }), None).await;
        let mut streamed = exec(world, &hang, Some(json!(1))).await;
        streamed.next().await.unwrap();
        world.shut_down();
        for call in [&mut following, &mut unstreamed, &mut streamed] {
            let told = call.to_end(world).await.unwrap();
            assert_eq!(result(&told.answer)["closed"], "shutdown");
        }
        world.sleep_ms(1).await;
    });
}

#[test]
fn a_reader_that_is_slow_slows_its_command_and_loses_nothing() {
    let mut setup = Setup::default();
    setup.settings.stream_bytes_per_second = 1 << 40;
    run(setup, async |world: &World| {
        let len = 2_000_000;
        let link = Link { capacity: 4096, ..Link::INSTANT };
        let arguments = json!({ "command": format!("flood {len}"), "stream": true });
        let client = world.client_by(link);
        let mut call = Call::tool(client, ADMIN, "exec", &arguments, Some(json!(1))).await.unwrap();
        call.next().await.unwrap();
        // In the middle of progress it stops reading.
        world.sleep_ms(100_000).await;
        let printed = world.sandbox.record().printed;
        assert!(printed < 1_000_000, "{printed}");
        let told = call.to_end(world).await.unwrap();
        assert_eq!(result(&told.answer)["exit_code"], 0);
        assert_eq!(told.progress.last().unwrap().1, 2_000_000.0);
    });
}

/// Commands that print, rest and end in all ways, or do not end.
const SCRIPTS: [&str; 6] = [
    r"out a\n; sleep 10; err \xe2\x82; sleep 10; err \xac; out \xff; exit 2",
    "flood 300000; sleep 40000; out end",
    "drip 40 700; signal 9",
    "ignore-term; out x; hang",
    "linger; out y; hang",
    "start-delay 50; out z; hold 3000; exit 0",
];

#[test]
fn whatever_happens_to_a_connection_a_call_ends_once_and_leaves_nothing() {
    let mut cuts = 0;
    seeds::each(300, |seed| {
        let mut random = Random::new(seed);
        run(Setup { seed, ..Setup::default() }, async |world: &World| {
            for _ in 0..random.between(1, 5) {
                let client = world.client_by(Link::any(&mut random));
                let arguments = json!({ "command": random.pick(&SCRIPTS), "stream": random.once_in(2) });
                let token = random.pick(&[None, Some(json!(0)), Some(json!("x"))]).clone();
                let Ok(mut call) = Call::tool(client, ADMIN, "exec", &arguments, token).await else {
                    continue;
                };
                let mut left = *random.pick(&[0, 1, 3, 1_000_000]);
                while left > 0 && matches!(call.next().await, Ok(Some(_))) {
                    if random.once_in(20) {
                        world.sleep_ms(*random.pick(&[10, 1_000, 40_000])).await;
                    }
                    // A command that never ends is left at some time.
                    let endless =
                        arguments["command"].as_str().is_some_and(|script| script.ends_with("hang"));
                    left -= if endless { left } else { 1 };
                }
                if random.once_in(2) {
                    call.cutter().cut();
                    cuts += 1;
                }
            }
            world.sleep_ms(20_000).await;
            assert!(world.sandbox.records().iter().all(|record| record.released_at.is_some()));
        });
    });
    assert!(cuts > 100, "{cuts} connections were cut");
}
