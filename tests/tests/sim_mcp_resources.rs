//! MCP's resources on the virtual clock: what a read of one gives.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_tests::{
    mcp::result,
    sim::{Setup, World, run, world::ADMIN},
};
use serde_json::{Value, json};

async fn read(world: &World, uri: &str) -> Value {
    let read = world.ask(ADMIN, "resources/read", &json!({ "uri": uri })).await.json();
    serde_json::from_str(read["result"]["contents"][0]["text"].as_str().unwrap()).unwrap()
}

#[test]
fn the_last_output_is_read_to_its_end() {
    run(Setup::default(), async |world: &World| {
        for first in [r"flood 40000", r"flood 60000", r"flood 200000"] {
            let start =
                json!({ "action": "start", "command": format!("{first}; sleep 1000; out end; hang") });
            let id = result(&world.tool(ADMIN, "process", &start).await)["process_id"].clone();
            let uri = format!("hangar://sandboxes/box/processes/{}/output", id.as_str().unwrap());
            world.sleep_ms(500).await;
            let before = read(world, &uri).await;
            assert_eq!(before["next"], before["end"], "{first}");
            // What was read is in pieces that end there.
            world.sleep_ms(1_000).await;
            let after = read(world, &uri).await;
            let output = after["output"].as_str().unwrap();
            assert!(output.ends_with("end") && output.len() <= 64 * 1024, "{first}: {}", output.len());
            assert_eq!(after["next"], after["end"], "{first}");
        }
    });
}
