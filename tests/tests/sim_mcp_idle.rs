//! Sessions of MCP clients that nobody uses, and calls of theirs that nobody reads, on the virtual clock.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_core::wire::sse::Decoder;
use hangar_tests::sim::{Link, Request, Setup, World, mcp::PATH, run, world::ADMIN};
use serde_json::{Value, json};
use std::time::Duration;

fn post(body: &Value, session: Option<&str>) -> Request {
    let request = Request::new("POST", PATH)
        .bearer(ADMIN)
        .json(body)
        .header("accept", "application/json, text/event-stream");
    match session {
        Some(id) => request.header("mcp-session-id", id).header("mcp-protocol-version", "2025-11-25"),
        None => request,
    }
}

async fn begin(world: &World) -> String {
    let client = json!({ "name": "tests", "version": "0" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let begin = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let begun = world.client().call(&post(&begin, None)).await.unwrap();
    begun.header("mcp-session-id").unwrap().to_owned()
}

#[test]
fn what_was_answered_at_once_does_not_keep_a_session() {
    let mut setup = Setup::default();
    setup.settings.mcp_session = Duration::from_secs(1);
    run(setup, async |world: &World| {
        for calls in [0, 1, 5] {
            let id = begin(world).await;
            let ping =
                |call: u64| post(&json!({ "jsonrpc": "2.0", "id": call, "method": "ping" }), Some(&id));
            for call in 0..calls {
                let answer = world.client().call(&ping(call)).await.unwrap();
                assert_eq!((answer.status, &answer.json()["result"]), (200, &json!({})));
            }
            // It is looked for such sessions every 5 s.
            world.sleep_ms(7_000).await;
            assert_eq!(world.client().call(&ping(9)).await.unwrap().status, 404, "after {calls} calls");
        }
    });
}

#[test]
fn a_call_whose_client_does_not_read_waits_for_it() {
    let mut setup = Setup::default();
    setup.settings.stream_bytes_per_second = 1 << 40;
    run(setup, async |world: &World| {
        let id = begin(world).await;
        let exec = json!({ "name": "exec", "arguments": { "command": "flood 2000000", "stream": true },
            "_meta": { "progressToken": 7 } });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": exec });
        let mut client = world.client_by(Link { capacity: 4096, ..Link::INSTANT });
        client.send(&post(&call, Some(&id)).bytes()).await.unwrap();
        assert_eq!(client.head().await.unwrap().status, 200);
        world.sleep_ms(100_000).await;
        let printed = world.sandbox.record().printed;
        assert!(printed < 1_000_000, "{printed}");
        let (mut decoder, mut last) = (Decoder::new(16 << 20), Value::Null);
        let mut told = 0.0;
        while let Some(chunk) = client.chunk().await.unwrap() {
            decoder.push(&chunk).unwrap();
            while let Some(event) = decoder.next_event() {
                // The first one has nothing but an id.
                last = serde_json::from_str(&event.data).unwrap_or_default();
                told = last["params"]["progress"].as_f64().unwrap_or(told);
            }
        }
        assert_eq!((told, &last["result"]["structuredContent"]["exit_code"]), (2_000_000.0, &json!(0)));
    });
}
