//! What a session of MCP's revisions of 2025 is told of changes, on the virtual clock: on the stream that was opened last,
//! beginning with what changed before that.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_backends::runtime::until;
use hangar_tests::sim::{
    Link, Setup, World,
    messages::changed,
    random::Random,
    run,
    script::printed,
    seeds,
    session::{REVISIONS, Session},
    world::ADMIN,
};
use serde_json::json;
use std::time::Duration;

#[test]
fn what_is_subscribed_to_is_told_on_the_stream_that_was_opened_last() {
    run(Setup::default(), async |world: &World| {
        let session = Session::begin(world, ADMIN, "2025-06-18").await;
        let uri = session
            .start(world, "sleep 1000; drip 1000 1; sleep 9000; out x; sleep 100000; out y; hang")
            .await;
        let begun = world.now();
        session.subscribe(world, &uri).await;
        session.subscribe(world, &uri).await;
        assert_eq!(world.plane.streams().leased(), 0, "nobody is told yet");
        let mut first = session.told(world).await;
        world.sleep_ms(10).await;
        assert_eq!(world.plane.streams().leased(), 1);
        // The list has changed since the session began, which needs no subscription; told once, and asked for.
        assert_eq!(first.next().await.unwrap(), "resources");
        session.ask(world, "resources/list", &json!({})).await;
        let mut at = Vec::new();
        for _ in 0..5 {
            assert_eq!(first.next().await.unwrap(), uri);
            at.push(u64::try_from(world.now().since(begun).as_millis()).unwrap());
        }
        assert_eq!(at, [1000, 1250, 1500, 1750, 2000]);
        assert_eq!(session.read(world, &uri).await["next"], 1000);
        // The next one replaces it, whether or not it was known to be dead, and nothing else ends.
        let mut second = session.told(world).await;
        assert!(first.next().await.is_none());
        assert_eq!(second.next().await.unwrap(), uri);
        assert_eq!(world.now().since(begun).as_secs(), 11);
        second.0.cutter().cut();
        world.sleep_ms(1_000).await;
        assert_eq!(world.plane.streams().leased(), 0);
        // What changed between two streams is told by the second of them.
        world.sleep_ms(120_000).await;
        let mut third = session.told(world).await;
        assert_eq!(third.next().await.unwrap(), uri);
        assert!(until(&*world.runtime, world.now() + Duration::from_secs(60), third.next()).await.is_none());
        // And not what is not followed any more.
        assert_eq!(
            session.ask(world, "resources/unsubscribe", &json!({ "uri": uri })).await["result"],
            json!({})
        );
        assert_eq!(
            session.ask(world, "resources/unsubscribe", &json!({ "uri": "x" })).await["result"],
            json!({})
        );
        assert_eq!(world.plane.streams().leased(), 0);
        let id = uri.split('/').nth(5).unwrap();
        let arguments = json!({ "action": "kill", "process_id": id });
        session.ask(world, "tools/call", &json!({ "name": "process", "arguments": arguments })).await;
        // Between two streams, too.
        drop(third);
        session.start(world, "exit 0").await;
        let mut third = session.told(world).await;
        assert_eq!(third.next().await.unwrap(), "resources");
        let (_, other) = world.token(json!({ "scope": "mcp" })).await;
        let theirs = Session::begin(world, &other, "2025-06-18").await;
        let of_others = theirs.ask(world, "resources/subscribe", &json!({ "uri": uri })).await;
        assert_eq!(of_others["error"]["code"], -32002);
        session.end(world).await;
        assert!(third.next().await.is_none());
    });
}

#[test]
fn a_resource_that_is_gone_is_told_of_once_and_one_without_a_place_is_not_followed() {
    let mut setup = Setup::default();
    setup.settings.stream_max_per_token = 2;
    run(setup, async |world: &World| {
        let session = Session::begin(world, ADMIN, "2025-11-25").await;
        let mut uris = Vec::new();
        for _ in 0..3 {
            uris.push(session.start(world, "sleep 50000; exit 0").await);
        }
        for uri in &uris[..2] {
            session.subscribe(world, uri).await;
        }
        // Whether or not a stream is open, there has to be a place for each.
        let refused = session.ask(world, "resources/subscribe", &json!({ "uri": uris[2] })).await;
        assert_eq!(refused["error"]["data"]["code"], "too_many_streams");
        let open = session.told(world).await;
        let refused = session.ask(world, "resources/subscribe", &json!({ "uri": uris[2] })).await;
        assert_eq!(refused["error"]["data"]["code"], "too_many_streams");
        // Another of the token's sessions has none either, as long as this one does.
        let other = Session::begin(world, ADMIN, "2025-11-25").await;
        let refused = other.ask(world, "resources/subscribe", &json!({ "uri": uris[2] })).await;
        assert_eq!(refused["error"]["data"]["code"], "too_many_streams");
        drop(open);
        world.sleep_ms(100).await;
        other.subscribe(world, &uris[2]).await;
        let theirs = other.told(world).await;
        world.sleep_ms(10).await;
        let refused = session.stream(world.client(), None).await.unwrap().unwrap_err();
        assert_eq!(
            (refused.status, &refused.json()["error"]["data"]["code"]),
            (429, &json!("too_many_streams"))
        );
        drop(theirs);
        // They are forgotten ten minutes after their end.
        world.sleep_ms(700_000).await;
        let mut open = session.told(world).await;
        let mut gone = [open.next().await.unwrap(), open.next().await.unwrap()];
        gone.sort();
        uris.truncate(2);
        uris.sort();
        assert_eq!(gone, *uris);
        assert_eq!(
            session.ask(world, "resources/read", &json!({ "uri": uris[0] })).await["error"]["code"],
            -32002
        );
        session.end(world).await;
    });
}

#[test]
fn who_reads_only_when_told_reads_all_over_any_number_of_streams() {
    const SCRIPTS: [&str; 4] = [
        "drip 100 97; exit 1",
        "flood 100000; sleep 40000; out end",
        "sleep 700; close; sleep 700",
        "drip 3 250; signal 9",
    ];
    let (mut cuts, mut notices) = (0, 0);
    seeds::each(300, |seed| {
        let mut random = Random::new(seed);
        run(Setup { seed, ..Setup::default() }, async |world: &World| {
            let revision = random.pick(&REVISIONS).to_owned();
            let session = Session::begin(world, ADMIN, revision).await;
            let script = *random.pick(&SCRIPTS);
            let uri = session.start(world, script).await;
            session.subscribe(world, &uri).await;
            let mut next = 0;
            let mut text = String::new();
            // What it printed before it was subscribed to.
            let first = session.read(world, &format!("{uri}?since=0")).await;
            text += first["output"].as_str().unwrap();
            next = first["next"].as_u64().unwrap().max(next);
            let mut exited = first["state"] == "exited" && first["next"] == first["end"];
            'streams: while !exited {
                let link = Link::any(&mut random);
                let mut stream = session.stream(world.client_by(link), None).await.unwrap().unwrap();
                loop {
                    let patience = *random.pick(&[100, 5_000, 300_000]);
                    let deadline = world.now() + Duration::from_millis(patience);
                    let Some(message) = until(&*world.runtime, deadline, stream.next()).await else {
                        assert!(patience < 300_000, "it was never told");
                        // Sometimes it is not known to be dead when the next one comes.
                        if random.once_in(2) {
                            stream.cutter().cut();
                        }
                        cuts += 1;
                        // What was on its way is lost, and told again.
                        continue 'streams;
                    };
                    let what = changed(&message.unwrap().unwrap());
                    if what == "resources" {
                        continue;
                    }
                    assert_eq!(what, uri);
                    notices += 1;
                    world.sleep_ms(*random.pick(&[0, 0, 100, 1_000])).await;
                    loop {
                        let shown = session.read(world, &format!("{uri}?since={next}")).await;
                        assert_eq!((&shown["from"], &shown["gap"]), (&json!(next), &json!(null)));
                        text += shown["output"].as_str().unwrap();
                        next = shown["next"].as_u64().unwrap();
                        exited = shown["state"] == "exited";
                        if shown["next"] == shown["end"] {
                            break;
                        }
                    }
                    if exited {
                        break 'streams;
                    }
                }
            }
            let [stdout, _] = printed(script);
            assert_eq!(text, String::from_utf8(stdout).unwrap());
        });
    });
    assert!(cuts > 100 && notices > 500, "{cuts} cuts, {notices} notices");
}
