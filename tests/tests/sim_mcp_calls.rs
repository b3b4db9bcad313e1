//! Calls of a session of MCP's revisions of 2025 on the virtual clock: they go on when their connection breaks, and their client
//! comes back to them.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_backends::runtime::until;
use hangar_core::wire::mcp::replay::KEEP;
use hangar_tests::{
    mcp::result,
    sim::{
        Link, Setup, World,
        random::Random,
        run,
        script::printed,
        seeds,
        session::{REVISIONS, Session},
        world::ADMIN,
    },
};
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn a_call_goes_on_without_its_connection_and_ends_when_it_is_cancelled() {
    run(Setup::default(), async |world: &World| {
        for revision in REVISIONS {
            let session = Session::begin(world, ADMIN, revision).await;
            let arguments =
                json!({ "command": "out a; sleep 5000; out b; sleep 5000; out c; exit 4", "stream": true });
            let (id, mut call) =
                session.tool(world.client(), "exec", &arguments, Some(json!(0))).await.unwrap();
            let first = call.next().await.unwrap().unwrap();
            assert_eq!(
                (&first["params"]["message"], &first["params"]["progressToken"]),
                (&json!("a"), &json!(0))
            );
            let last = call.last_id().to_owned();
            call.cutter().cut();
            drop(call);
            world.sleep_ms(6_000).await;
            assert_eq!(world.running(), 1, "it goes on");
            // Who comes back hears what was said meanwhile, the rest, and nothing twice.
            let mut rest = session.stream(world.client(), Some(&last)).await.unwrap().unwrap();
            let mut output = String::new();
            let answer = loop {
                let message = rest.next().await.unwrap().unwrap();
                if message.get("id").is_some() {
                    break message;
                }
                output += message["params"]["message"].as_str().unwrap();
            };
            assert_eq!(
                (output.as_str(), &answer["id"], result(&answer)["exit_code"].as_i64()),
                ("bc", &id, Some(4))
            );
            assert!(answer["result"].get("resultType").is_none() && rest.next().await.unwrap().is_none());
            // Whether it was read nobody can be sure: the same can be had again for a while.
            let mut again = session.stream(world.client(), Some(&last)).await.unwrap().unwrap();
            assert_eq!(again.next().await.unwrap().unwrap()["params"]["message"], "b");
            world.sleep_ms(u64::try_from(KEEP.as_millis()).unwrap() + 6_000).await;
            let again = session.stream(world.client(), Some(&last)).await.unwrap().unwrap_err();
            assert_eq!(again.status, 400);
            // Another client's, in another session.
            let other = Session::begin(world, ADMIN, revision).await;
            let hang = json!({ "command": "out x; hang", "stream": true });
            let (theirs, mut hanging) =
                other.tool(world.client(), "exec", &hang, Some(json!(0))).await.unwrap();
            hanging.next().await.unwrap();
            session.tell(world, "notifications/cancelled", &json!({ "requestId": theirs })).await;
            world.sleep_ms(4_000).await;
            assert_eq!(world.running(), 1, "ids are a session's own");
            let elsewhere =
                session.stream(world.client(), Some(hanging.last_id())).await.unwrap().unwrap_err();
            assert_eq!(elsewhere.status, 400);
            other
                .tell(world, "notifications/cancelled", &json!({ "requestId": theirs, "reason": "x" }))
                .await;
            assert!(hanging.next().await.unwrap().is_none(), "it is not answered");
            world.sleep_ms(4_000).await;
            assert_eq!(world.running(), 0);
            // Its id is free.
            other.tell(world, "notifications/cancelled", &json!({ "requestId": theirs })).await;
            let (_, mut hanging) = other.tool(world.client(), "exec", &hang, None).await.unwrap();
            assert_eq!(other.end(world).await.status, 204);
            assert!(hanging.next().await.unwrap().is_none(), "a session's end is that of its calls");
            world.sleep_ms(4_000).await;
            assert_eq!(world.running(), 0);
            session.end(world).await;
        }
    });
}

#[test]
fn an_event_without_data_is_for_those_who_know_it() {
    run(Setup::default(), async |world: &World| {
        for (revision, first) in [("2025-03-26", ""), ("2025-06-18", ""), ("2025-11-25", "1:0")] {
            let session = Session::begin(world, ADMIN, revision).await;
            let arguments = json!({ "command": "sleep 1000; out x", "stream": true });
            let begun = session.tool(world.client(), "exec", &arguments, Some(json!(0))).await;
            let (_, mut call) = begun.unwrap();
            // The stream of changes has no ids: there is nothing on it to come back to.
            let mut told = session.told(world).await;
            until(&*world.runtime, world.now() + Duration::from_millis(500), call.next()).await;
            until(&*world.runtime, world.now() + Duration::from_millis(10), told.next()).await;
            assert_eq!((call.last_id(), told.0.last_id()), (first, ""), "{revision}");
            while call.next().await.unwrap().is_some() {}
            session.end(world).await;
        }
    });
}

#[test]
fn an_answer_that_nobody_read_is_kept_for_a_while() {
    run(Setup::default(), async |world: &World| {
        let session = Session::begin(world, ADMIN, "2025-11-25").await;
        let call = async |script: &str| {
            let arguments = json!({ "command": script, "stream": true });
            let (_, call) = session.tool(world.client(), "exec", &arguments, Some(json!(0))).await.unwrap();
            call
        };
        // It was cut before anything was said: its client knows where to go on all the same.
        let mut quiet = call("sleep 1000; out x").await;
        let none = until(&*world.runtime, world.now() + Duration::from_millis(500), quiet.next()).await;
        assert!(none.is_none() && quiet.last_id().ends_with(":0"));
        quiet.cutter().cut();
        world.sleep_ms(30_000).await;
        let mut rest = session.stream(world.client(), Some(quiet.last_id())).await.unwrap().unwrap();
        assert_eq!(rest.next().await.unwrap().unwrap()["params"]["message"], "x");
        assert_eq!(result(&rest.next().await.unwrap().unwrap())["stdout"], "x");
        // Whoever comes later takes it over.
        let mut first = call("sleep 5000; out y").await;
        until(&*world.runtime, world.now() + Duration::from_millis(10), first.next()).await;
        let mut second = session.stream(world.client(), Some(first.last_id())).await.unwrap().unwrap();
        assert!(first.next().await.unwrap().is_none());
        assert_eq!(second.next().await.unwrap().unwrap()["params"]["message"], "y");
        // Too late.
        let mut late = call("out z; sleep 100").await;
        late.next().await.unwrap();
        late.cutter().cut();
        world.sleep_ms(u64::try_from(KEEP.as_millis()).unwrap() + 6_000).await;
        assert_eq!(
            session.stream(world.client(), Some(late.last_id())).await.unwrap().unwrap_err().status,
            400
        );
        // More than is kept: the last of it, and the answer.
        let mut much = call("out a; sleep 100; flood 300000").await;
        much.next().await.unwrap();
        much.cutter().cut();
        world.sleep_ms(20_000).await;
        let mut rest = session.stream(world.client(), Some(much.last_id())).await.unwrap().unwrap();
        let mut kept = 0;
        while let Some(message) = rest.next().await.unwrap() {
            kept += message["params"]["message"].as_str().map_or(0, str::len);
            if message.get("id").is_some() {
                assert_eq!(result(&message)["exit_code"], 0);
            }
        }
        assert!(kept < 70_000, "{kept}");
        session.end(world).await;
    });
}

#[test]
fn whatever_happens_to_connections_a_calls_output_comes_once() {
    const SCRIPTS: [&str; 4] = [
        "drip 60 211; exit 1",
        "out a; sleep 3000; out b; sleep 20000; out c",
        "sleep 500; flood 30000; sleep 500; out z; exit 2",
        "out x; sleep 100",
    ];
    let mut cuts = 0;
    seeds::each(300, |seed| {
        let mut random = Random::new(seed);
        run(Setup { seed, ..Setup::default() }, async |world: &World| {
            let session = Session::begin(world, ADMIN, "2025-11-25").await;
            let script = *random.pick(&SCRIPTS);
            let arguments = json!({ "command": script, "stream": true });
            let link = Link::any(&mut random);
            let begun = session.tool(world.client_by(link), "exec", &arguments, Some(json!("t"))).await;
            let (id, mut messages) = begun.unwrap();
            let (mut output, mut progress, mut last) = (String::new(), 0.0, String::new());
            let answer = loop {
                let patience = *random.pick(&[5, 100, 4_000, 60_000]);
                let deadline = world.now() + Duration::from_millis(patience);
                let next = until(&*world.runtime, deadline, messages.next()).await;
                if !messages.last_id().is_empty() {
                    messages.last_id().clone_into(&mut last);
                }
                match next {
                    Some(message) => {
                        let message = message.unwrap().expect("an answer");
                        if message.get("id").is_some() {
                            break message;
                        }
                        output += message["params"]["message"].as_str().unwrap_or_default();
                        let told = message["params"]["progress"].as_f64().unwrap();
                        assert!(told > progress, "{told} after {progress}");
                        progress = told;
                    }
                    // Before its first event it does not know where to come back to.
                    None if last.is_empty() => {}
                    None => {
                        messages.cutter().cut();
                        cuts += 1;
                        world.sleep_ms(*random.pick(&[0, 1_000, 30_000])).await;
                        let link = Link::any(&mut random);
                        let resumed = session.stream(world.client_by(link), Some(&last)).await;
                        messages = resumed.unwrap().unwrap();
                    }
                }
            };
            check(script, &output, &id, &answer);
        });
    });
    assert!(cuts > 300, "{cuts} cuts");
}

fn check(script: &str, output: &str, id: &Value, answer: &Value) {
    let [stdout, _] = printed(script);
    let stdout = String::from_utf8(stdout).unwrap();
    let at = output.bytes().zip(stdout.bytes()).take_while(|(one, other)| one == other).count();
    assert!(output == stdout, "{} of {} bytes, alike up to {at}", output.len(), stdout.len());
    assert_eq!((&answer["id"], result(answer)["stdout"].as_str()), (id, Some(output)));
}
