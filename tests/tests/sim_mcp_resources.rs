//! hangar's resources on the virtual clock: what a read of one gives.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_tests::sim::{Setup, World, run, world::ADMIN};
use serde_json::{Value, json};

const SANDBOXES: &str = "hangar://sandboxes";

#[test]
fn what_a_process_prints_is_a_resource() {
    run(Setup::default(), async |world: &World| {
        let script = format!("out a\\n; sleep 1000; out {}; sleep 1000; exit 3", "x".repeat(100_000));
        let uri = world.start_process(ADMIN, &script).await;
        let shown = world.read_resource(ADMIN, &uri).await;
        assert_eq!((&shown["output"], &shown["from"], &shown["next"]), (&json!("a\n"), &json!(0), &json!(2)));
        assert_eq!(
            (&shown["state"], &shown["exit_code"], &shown["end"]),
            (&json!("running"), &json!(null), &json!(2))
        );
        world.sleep_ms(3_000).await;
        // Without an offset the last of it; with one what follows that, page by page.
        let last = world.read_resource(ADMIN, &uri).await;
        assert_eq!(
            (&last["state"], &last["exit_code"], &last["next"]),
            (&json!("exited"), &json!(3), &json!(100_002))
        );
        let len = last["output"].as_str().unwrap().len();
        assert!(last["truncated"] == true && (32 * 1024..=64 * 1024).contains(&len), "{len}");
        let (mut since, mut whole) = (0, String::new());
        loop {
            let page = world.read_resource(ADMIN, &format!("{uri}?since={since}")).await;
            assert_eq!(
                (&page["from"], &page["end"], &page["truncated"]),
                (&json!(since), &json!(100_002), &json!(null))
            );
            let text = page["output"].as_str().unwrap();
            assert!(text.len() <= 64 * 1024);
            whole += text;
            since = page["next"].as_u64().unwrap();
            if page["next"] == page["end"] {
                break;
            }
            assert_eq!(page["end"], 100_002);
            assert!(!text.is_empty());
        }
        assert_eq!(whole, format!("a\n{}", "x".repeat(100_000)));
        // Listed with its title, and in the template.
        let listed = world.ask(ADMIN, "resources/list", &json!({})).await.json();
        let listed: Vec<&Value> =
            listed["result"]["resources"].as_array().unwrap().iter().map(|one| &one["uri"]).collect();
        assert_eq!(listed, [&json!(SANDBOXES), &json!(uri)]);
        let templates = world.ask(ADMIN, "resources/templates/list", &json!({})).await.json();
        let template =
            templates["result"]["resourceTemplates"][0]["uriTemplate"].as_str().unwrap().to_owned();
        assert_eq!(template, "hangar://sandboxes/{sandbox}/processes/{process}/output{?since}");
        let (_, other) = world.token(json!({ "scope": "mcp" })).await;
        let gone = format!("{SANDBOXES}/box/processes/nothing/output");
        for (token, uri, is_missing) in [
            (ADMIN, gone.as_str(), true),
            (other.as_str(), uri.as_str(), true),
            (ADMIN, "file:///etc/passwd", true),
            (ADMIN, &format!("{uri}?since=100003"), false),
            (ADMIN, &format!("{uri}?since=x"), false),
            (ADMIN, &format!("{uri}?from=1"), false),
        ] {
            let response = world.ask(token, "resources/read", &json!({ "uri": uri })).await;
            let error = response.json()["error"].clone();
            assert_eq!((response.status, &error["code"]), (400, &json!(-32602)), "{uri}: {error}");
            assert_eq!(error["data"]["uri"] == uri, is_missing, "{error}");
            assert!(error["message"].as_str().unwrap().starts_with("params.uri: "), "{error}");
        }
    });
}

#[test]
fn the_last_output_is_read_to_its_end() {
    run(Setup::default(), async |world: &World| {
        for first in [r"flood 40000", r"flood 60000", r"flood 200000"] {
            let uri = world.start_process(ADMIN, &format!("{first}; sleep 1000; out end; hang")).await;
            world.sleep_ms(500).await;
            let before = world.read_resource(ADMIN, &uri).await;
            assert_eq!(before["next"], before["end"], "{first}");
            // What was read is in pieces that end there.
            world.sleep_ms(1_000).await;
            let after = world.read_resource(ADMIN, &uri).await;
            let output = after["output"].as_str().unwrap();
            assert!(output.ends_with("end") && output.len() <= 64 * 1024, "{first}: {}", output.len());
            assert_eq!(after["next"], after["end"], "{first}");
        }
    });
}
