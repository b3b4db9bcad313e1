//! Sessions of MCP clients that nobody uses, and calls of theirs that nobody reads, on the virtual clock.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_tests::{
    mcp::result,
    sim::{Link, Setup, World, run, session::Session, world::ADMIN},
};
use serde_json::json;
use std::time::Duration;

#[test]
fn what_was_answered_at_once_does_not_keep_a_session() {
    let mut setup = Setup::default();
    setup.settings.mcp_session = Duration::from_secs(1);
    run(setup, async |world: &World| {
        for calls in [0, 1, 5] {
            let session = Session::begin(world, ADMIN, "2025-11-25").await;
            for _ in 0..calls {
                assert_eq!(session.ask(world, "ping", &json!({})).await["result"], json!({}));
            }
            world.sleep_ms(900).await;
            assert_eq!(session.ask(world, "ping", &json!({})).await["result"], json!({}));
            // By the clock, whenever it is looked for.
            world.sleep_ms(1_000).await;
            assert_eq!(session.end(world).await.status, 404, "{calls} calls");
        }
    });
}

#[test]
fn a_call_whose_client_does_not_read_waits_for_it() {
    let mut setup = Setup::default();
    setup.settings.stream_bytes_per_second = 1 << 40;
    run(setup, async |world: &World| {
        let session = Session::begin(world, ADMIN, "2025-11-25").await;
        let arguments = json!({ "command": "flood 2000000", "stream": true });
        let client = world.client_by(Link { capacity: 4096, ..Link::INSTANT });
        let (_, mut call) = session.tool(client, "exec", &arguments, Some(json!(7))).await.unwrap();
        world.sleep_ms(100_000).await;
        let printed = world.sandbox.record().printed;
        assert!(printed < 1_000_000, "{printed}");
        let (mut told, mut answer) = (0.0, json!(null));
        while let Some(message) = call.next().await.unwrap() {
            told = message["params"]["progress"].as_f64().unwrap_or(told);
            answer = message;
        }
        assert_eq!((told, &result(&answer)["exit_code"]), (2_000_000.0, &json!(0)));
        session.end(world).await;
    });
}
