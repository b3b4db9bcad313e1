//! Background processes as a tool of MCP on the virtual clock: what a model is told of them, and that no byte of their output
//! is missing or comes twice.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_tests::{
    mcp::{refusal, result},
    sim::{
        Setup, World,
        mcp::{attach, process, start},
        random::Random,
        run,
        script::{pattern, printed},
        seeds,
        world::ADMIN,
    },
};
use serde_json::json;
use std::time::Duration;

#[test]
fn a_process_is_started_followed_written_to_and_killed() {
    run(Setup::default(), async |world: &World| {
        let id = start(world, r"out one\n; sleep 1000; out two\n; cat; out three; exit 4").await;
        // What is there, at once.
        let told = attach(world, &json!({ "process_id": id }), None).await.to_end(world).await.unwrap();
        let shown = result(&told.answer);
        assert_eq!((&shown["output"], &shown["state"]), (&json!("one\n"), &json!("running")));
        assert_eq!((&shown["from"], &shown["next"], &shown["end"]), (&json!(0), &json!(4), &json!(4)));
        // What comes, from there on, for as long as is waited for.
        let begun = world.now();
        let arguments = json!({ "process_id": id, "since": 4, "wait_seconds": 3 });
        let told = attach(world, &arguments, Some(json!("p"))).await.to_end(world).await.unwrap();
        assert_eq!((told.output.as_str(), &result(&told.answer)["output"]), ("two\n", &json!("two\n")));
        assert_eq!(world.now().since(begun), Duration::from_secs(3));
        let input = json!({ "action": "input", "process_id": id, "input": "in\n", "eof": true });
        assert_eq!(process(world, &input).await["process_id"], id.as_str());
        // To its end, which comes before the wait is over.
        let arguments = json!({ "process_id": id, "since": 8, "wait_seconds": 600 });
        let told = attach(world, &arguments, Some(json!("p"))).await.to_end(world).await.unwrap();
        let shown = result(&told.answer);
        assert_eq!((told.output.as_str(), &shown["output"]), ("in\nthree", &json!("in\nthree")));
        assert_eq!((&shown["state"], &shown["exit_code"]), (&json!("exited"), &json!(4)));
        // Or only until something comes.
        let drips = start(world, "sleep 2000; out one; sleep 2000; out two").await;
        let begun = world.now();
        let arguments = json!({ "process_id": drips, "wait_seconds": 600, "until_output": true });
        let told = attach(world, &arguments, None).await.to_end(world).await.unwrap();
        assert_eq!(result(&told.answer)["output"], "one");
        assert_eq!(world.now().since(begun), Duration::from_secs(2));
        process(world, &json!({ "action": "kill", "process_id": drips })).await;
        let other = start(world, "hang").await;
        let killed = process(world, &json!({ "action": "kill", "process_id": other })).await;
        assert_eq!((&killed["state"], &killed["signal"]), (&json!("exited"), &json!("SIGTERM")));
        let listed = process(world, &json!({ "action": "list" })).await;
        let ids: Vec<&str> = listed["processes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["process_id"].as_str().unwrap())
            .collect();
        assert_eq!(ids, [id.as_str(), drips.as_str(), other.as_str()]);
    });
}

#[test]
fn a_gap_and_a_tail_are_told_with_their_offsets() {
    run(Setup::default(), async |world: &World| {
        let len = 600_000;
        let id = start(world, &format!("flood {len}")).await;
        world.sleep_ms(100).await;
        let told =
            attach(world, &json!({ "process_id": id, "since": 0 }), None).await.to_end(world).await.unwrap();
        let shown = result(&told.answer);
        let output = shown["output"].as_str().unwrap();
        assert_eq!(output.as_bytes(), &pattern(len)[len - 64 * 1024..]);
        assert_eq!((&shown["next"], &shown["from"]), (&json!(len), &json!(len - 64 * 1024)));
        assert_eq!(shown["truncated"], true);
        let gap = &shown["gap"];
        assert_eq!((&gap["from_offset"], &gap["reason"]), (&json!(0), &json!("evicted")));
        let lost = gap["bytes"].as_u64().unwrap();
        assert_eq!(gap["to_offset"], lost);
        // As much as is kept comes as progress.
        let told =
            attach(world, &json!({ "process_id": id }), Some(json!(1))).await.to_end(world).await.unwrap();
        assert_eq!(told.output.as_bytes(), &pattern(len)[usize::try_from(lost).unwrap()..]);
    });
}

#[test]
fn what_is_wrong_is_told_with_what_to_do_next() {
    run(Setup::default(), async |world: &World| {
        let id = start(world, "out x").await;
        world.sleep_ms(100).await;
        for (tool, arguments, code, field, text) in [
            ("exec", json!({}), "missing_field", "command", "command"),
            ("exec", json!([1]), "wrong_type", "arguments", "an object"),
            ("exec", json!({ "command": 1 }), "wrong_type", "command", "string"),
            ("exec", json!({ "command": " " }), "empty", "command", "nothing to run"),
            ("exec", json!({ "command": "x", "comand": "y" }), "unknown_field", "comand", "comand"),
            ("exec", json!({ "command": "x", "timeout": 0 }), "out_of_range", "timeout", "above 0"),
            ("exec", json!({ "command": "x", "sandbox": "nowhere" }), "not_found", "", "There is box"),
            ("process", json!({}), "missing_field", "action", "action"),
            (
                "process",
                json!({ "action": "stop" }),
                "unknown_action",
                "action",
                "start, attach, input, kill, list",
            ),
            (
                "process",
                json!({ "action": "list", "process_id": "x" }),
                "unknown_field",
                "process_id",
                "process_id",
            ),
            ("process", json!({ "action": "attach", "process_id": "x" }), "not_found", "", "Use action list"),
            (
                "process",
                json!({ "action": "attach", "process_id": id, "since": -1 }),
                "wrong_type",
                "since",
                "since",
            ),
            (
                "process",
                json!({ "action": "attach", "process_id": id, "since": 100 }),
                "cursor_ahead",
                "since",
                "since: ",
            ),
            (
                "process",
                json!({ "action": "attach", "process_id": id, "wait_seconds": 601 }),
                "out_of_range",
                "wait_seconds",
                "600",
            ),
            (
                "process",
                json!({ "action": "input", "process_id": id, "input": "x" }),
                "process_exited",
                "",
                "attach",
            ),
            ("process", json!({ "action": "input", "process_id": id }), "missing_field", "input", "eof"),
            ("sandboxes", json!({ "action": "create", "name": "X" }), "bad_name", "name", "match"),
            ("sandboxes", json!({ "action": "destroy" }), "missing_field", "sandbox", "sandbox"),
        ] {
            let told = refusal(&world.tool(ADMIN, tool, &arguments).await);
            assert_eq!((told.0.as_str(), told.1.as_str()), (code, field), "{arguments}: {told:?}");
            assert!(told.2.contains(text) && !told.2.contains(" at line "), "{arguments}: {}", told.2);
        }
        assert_eq!(world.sandbox.records().len(), 1);
        let made =
            result(&world.tool(ADMIN, "sandboxes", &json!({ "action": "create", "name": "two" })).await);
        assert_eq!(made["created"]["name"], "two");
        let told = refusal(&world.tool(ADMIN, "exec", &json!({ "command": "out x" })).await);
        assert_eq!((told.0.as_str(), told.1.as_str()), ("missing_field", "sandbox"));
        assert!(told.2.contains("box, two"), "{}", told.2);
        let gone =
            result(&world.tool(ADMIN, "sandboxes", &json!({ "action": "destroy", "sandbox": "two" })).await);
        assert_eq!(gone["destroyed"], "two");
        // A user of the server may not.
        let (_, user) = world.token(json!({ "scope": "mcp" })).await;
        let told = refusal(&world.tool(&user, "sandboxes", &json!({ "action": "create" })).await);
        assert_eq!(told.0, "forbidden");
    });
}

#[test]
fn each_byte_comes_once_over_any_number_of_calls() {
    // Frames that end inside a character, others between its pieces, and one that never becomes whole.
    const SCRIPT: &str = r"out a\xe2; sleep 2000; err b; out \x82; sleep 3000; err \xe2\x82; out \xac!; drip 30 400; \
        err \xac; out \xf0\x9f\x98\x80; sleep 700; out \xe2\x82; exit 5";
    let script = SCRIPT.replace("\\\n", "");
    seeds::each(200, |seed| {
        let mut random = Random::new(seed);
        run(Setup { seed, ..Setup::default() }, async |world: &World| {
            let id = start(world, &script).await;
            let (mut next, mut pages) = (0, Vec::new());
            loop {
                let wait = *random.pick(&[0.0, 0.5, 3.0, 20.0]);
                let arguments = json!({ "process_id": id, "since": next, "wait_seconds": wait });
                let mut call = attach(world, &arguments, None).await;
                if random.once_in(3) {
                    // The answer does not come: nothing was taken.
                    world.sleep_ms(random.below(4_000)).await;
                    continue;
                }
                let shown = result(&call.to_end(world).await.unwrap().answer);
                assert_eq!((&shown["from"], &shown["gap"]), (&json!(next), &json!(null)));
                pages.push(shown["output"].as_str().unwrap().to_owned());
                next = shown["next"].as_u64().unwrap();
                if shown["state"] == "exited" && shown["next"] == shown["end"] {
                    assert_eq!(shown["exit_code"], 5);
                    break;
                }
                world.sleep_ms(random.below(2_000)).await;
            }
            let [stdout, stderr] = printed(&script);
            assert_eq!(usize::try_from(next).unwrap(), stdout.len() + stderr.len());
            let text = pages.concat();
            // Which of two outputs a byte is of is not told, but each has its bytes in their order.
            let dripped = String::from_utf8(pattern(30).to_vec()).unwrap();
            let whole = ["ab", "\u{20ac}!", &dripped, "\u{20ac}\u{1f600}", "\u{fffd}"].concat();
            assert_eq!(text, whole, "{pages:?}");
        });
    });
}
