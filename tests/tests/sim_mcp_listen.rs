//! `subscriptions/listen` and hangar's resources on the virtual clock: what is granted, when it is told, and what ends it.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_backends::runtime::until;
use hangar_tests::sim::{Link, Setup, World, random::Random, run, script::printed, seeds, world::ADMIN};
use serde_json::{Value, json};
use std::time::Duration;

const SANDBOXES: &str = "hangar://sandboxes";

fn resources(uris: &[&str]) -> Value {
    json!({ "resourceSubscriptions": uris })
}

#[test]
fn what_is_granted_is_acknowledged_first_and_nothing_else_is_told() {
    run(Setup::default(), async |world: &World| {
        let (_, other) = world.token(json!({ "scope": "mcp" })).await;
        let (mine, theirs) = (
            world.start_process(ADMIN, "flood 20; drip 20 100").await,
            world.start_process(&other, "drip 20 100").await,
        );
        let since = format!("{mine}?since=20");
        let wanted = json!({
            "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true, "taskIds": ["x"],
            "resourceSubscriptions": [mine, theirs, mine, "hangar://nothing", "file:///x", "", since, SANDBOXES],
        });
        for id in [json!(7), json!("listen-1"), json!(""), json!(-1)] {
            let mut listening = world.listen(world.client(), ADMIN, id, &wanted).await.unwrap();
            assert_eq!(
                listening.granted,
                json!({ "resourcesListChanged": true, "resourceSubscriptions": [mine, since, SANDBOXES] })
            );
            let told = listening.next().await.unwrap().unwrap();
            assert!(told == mine || told == since, "{told}");
        }
        // Nothing is granted, and that is said.
        let nothing = world.listen(world.client(), ADMIN, json!(1), &resources(&[&theirs])).await.unwrap();
        assert_eq!(nothing.granted, json!({}));
        world.sleep_ms(5_000).await;
        for (wanted, field) in [
            (json!(null), "params.notifications"),
            (json!([]), "params.notifications"),
            (json!({ "toolsListChanged": 1 }), "params.notifications.toolsListChanged"),
            (json!({ "resourceSubscriptions": "x" }), "params.notifications.resourceSubscriptions"),
            (json!({ "resourceSubscriptions": ["x", 7] }), "params.notifications.resourceSubscriptions[1]"),
            (
                json!({ "resourceSubscriptions": vec!["x"; 1025] }),
                "params.notifications.resourceSubscriptions",
            ),
        ] {
            let refused = world.ask(ADMIN, "subscriptions/listen", &json!({ "notifications": wanted })).await;
            let error = refused.json()["error"].clone();
            assert_eq!((refused.status, &error["code"]), (400, &json!(-32602)), "{error}");
            assert!(error["message"].as_str().unwrap().starts_with(&format!("{field}: ")), "{error}");
        }
        let many: Vec<String> = (0..1024).map(|at| format!("hangar://nothing/{at}")).collect();
        let many = json!({ "resourceSubscriptions": many });
        let listening = world.listen(world.client(), ADMIN, json!(1), &many).await.unwrap();
        assert_eq!(listening.granted, json!({}));
    });
}

#[test]
fn a_change_is_told_at_once_and_then_the_last_of_many() {
    run(Setup::default(), async |world: &World| {
        // A thousand changes in a second, one, and the end.
        let uri = world
            .start_process(ADMIN, "sleep 1000; drip 1000 1; sleep 5000; out x; sleep 5000; exit 1")
            .await;
        let begun = world.now();
        let mut listening = world.listen(world.client(), ADMIN, json!(1), &resources(&[&uri])).await.unwrap();
        let mut told = Vec::new();
        let mut shown = Value::Null;
        while shown["state"] != "exited" {
            assert_eq!(listening.next().await.unwrap().as_deref(), Some(&*uri));
            told.push(u64::try_from(world.now().since(begun).as_millis()).unwrap());
            shown = world.read_resource(ADMIN, &uri).await;
        }
        // The first when it was printed, the last once it was over: nothing after that was missed.
        assert_eq!(told, [1000, 1250, 1500, 1750, 2000, 7000, 12000]);
        assert_eq!(shown["next"], 1001);
        world.shut_down();
        assert!(listening.to_end().await.unwrap().is_empty());
    });
}

#[test]
fn what_is_there_already_is_told_to_who_says_where_they_are() {
    run(Setup::default(), async |world: &World| {
        let uri = world.start_process(ADMIN, "out abc; sleep 10000; exit 0").await;
        let behind = format!("{uri}?since=2");
        let there = format!("{uri}?since=3");
        let uris = [&*uri, &*behind, &*there];
        let mut listening = world.listen(world.client(), ADMIN, json!(1), &resources(&uris)).await.unwrap();
        assert_eq!(listening.next().await.unwrap(), Some(behind.clone()));
        let begun = world.now();
        let mut ends = vec![listening.next().await.unwrap().unwrap()];
        assert!(world.now().since(begun) > Duration::from_secs(9));
        ends.push(listening.next().await.unwrap().unwrap());
        ends.push(listening.next().await.unwrap().unwrap());
        ends.sort();
        assert_eq!(ends, uris);
        // One that had ended, without another word, before anybody listened.
        let silent = format!("{}?since=0", world.start_process(ADMIN, "exit 7").await);
        world.sleep_ms(1_000).await;
        let ahead = format!("{uri}?since=4");
        let wanted = resources(&[&silent, &there, &ahead]);
        let mut listening = world.listen(world.client(), ADMIN, json!(1), &wanted).await.unwrap();
        assert_eq!(listening.granted, resources(&[&silent, &there]));
        let mut ends = [listening.next().await.unwrap().unwrap(), listening.next().await.unwrap().unwrap()];
        ends.sort();
        let mut expected = [silent, there];
        expected.sort();
        assert_eq!(ends, expected);
    });
}

#[test]
fn lists_and_sandboxes_change_for_who_sees_them() {
    run(Setup::default(), async |world: &World| {
        let (_, user) = world.token(json!({ "scope": "user", "sandboxes": ["box"] })).await;
        let wanted = json!({ "resourcesListChanged": true, "resourceSubscriptions": [SANDBOXES] });
        let mut mine = world.listen(world.client(), ADMIN, json!("mine"), &wanted).await.unwrap();
        let mut theirs = world.listen(world.client(), &user, json!("theirs"), &wanted).await.unwrap();
        world.start_process(ADMIN, "exit 0").await;
        assert_eq!(mine.next().await.unwrap().as_deref(), Some("resources"));
        world.sleep_ms(1_000).await;
        let paused = world.api("POST", "/api/sandboxes/box/pause", None).await;
        assert_eq!(paused.status, 200);
        // Both see it; the list of resources is as it was, and nobody else's processes are told of.
        for listening in [&mut mine, &mut theirs] {
            assert_eq!(listening.next().await.unwrap().as_deref(), Some(SANDBOXES));
        }
        assert_eq!(world.read_resource(&user, SANDBOXES).await["sandboxes"][0]["state"], "paused");
        world.sleep_ms(1_000).await;
        // What they may not see is not told of.
        world.api("POST", "/api/sandboxes", Some(json!({ "name": "other" }))).await;
        assert_eq!(mine.next().await.unwrap().as_deref(), Some(SANDBOXES));
        // Ten minutes after its end a process is forgotten.
        world.sleep_ms(700_000).await;
        assert_eq!(mine.next().await.unwrap().as_deref(), Some("resources"));
        world.shut_down();
        assert!(theirs.to_end().await.unwrap().is_empty());
    });
}

#[test]
fn each_resource_has_a_place_and_a_stream_without_one_has_its_own() {
    let mut setup = Setup::default();
    setup.settings.stream_max_per_token = 3;
    run(setup, async |world: &World| {
        let mut uris = Vec::new();
        for _ in 0..5 {
            uris.push(world.start_process(ADMIN, "hang").await);
        }
        let all = json!({ "resourcesListChanged": true, "resourceSubscriptions": uris });
        let listening = world.listen(world.client(), ADMIN, json!(1), &all).await.unwrap();
        assert_eq!(listening.granted["resourceSubscriptions"], json!(uris[..3]));
        assert_eq!(
            (listening.granted["resourcesListChanged"].clone(), world.plane.streams().leased()),
            (json!(true), 3)
        );
        assert_eq!(world.metric("hangar_streams_open{kind=\"listen\"}"), 1.0);
        for wanted in [resources(&[&uris[4]]), json!({})] {
            let refused = world.ask(ADMIN, "subscriptions/listen", &json!({ "notifications": wanted })).await;
            let error = refused.json()["error"].clone();
            assert_eq!(
                (refused.status, &error["data"]["code"]),
                (429, &json!("too_many_streams")),
                "{error}"
            );
        }
        listening.cutter().cut();
        world.sleep_ms(100).await;
        assert_eq!(world.plane.streams().leased(), 0);
        let listening = world.listen(world.client(), ADMIN, json!(1), &json!({})).await.unwrap();
        assert_eq!((listening.granted.clone(), world.plane.streams().leased()), (json!({}), 1));
        drop(listening);
        world.sleep_ms(100).await;
        assert_eq!(world.metric("hangar_streams_total{kind=\"listen\",reason=\"client\"}"), 2.0);
        for uri in uris {
            let id = uri.split('/').nth(5).unwrap().to_owned();
            world.tool(ADMIN, "process", &json!({ "action": "kill", "process_id": id })).await;
        }
    });
}

#[test]
fn what_has_ended_holds_no_place() {
    let mut setup = Setup::default();
    setup.settings.stream_max_per_token = 1;
    run(setup, async |world: &World| {
        let ended = world.start_process(ADMIN, "out x; exit 0").await;
        world.sleep_ms(100).await;
        // Whether its end is told, or was before.
        for (uri, is_told) in [(format!("{ended}?since=0"), true), (ended, false)] {
            let mut listening =
                world.listen(world.client(), ADMIN, json!(1), &resources(&[&uri])).await.unwrap();
            assert_eq!(listening.granted, resources(&[&uri]));
            if is_told {
                assert_eq!(listening.next().await.unwrap(), Some(uri));
            }
            world.sleep_ms(10).await;
            assert_eq!(world.plane.streams().leased(), 0);
        }
    });
}

#[test]
fn a_stream_ends_with_its_result() {
    let mut setup = Setup::default();
    setup.settings.stream_max = Duration::from_secs(3600);
    run(setup, async |world: &World| {
        let (id, token) = world.token(json!({ "scope": "mcp" })).await;
        let uri = world.start_process(&token, "drip 8000 1000").await;
        let begun = world.now();
        let mut old = world.listen(world.client(), &token, json!(1), &resources(&[&uri])).await.unwrap();
        assert!(old.to_end().await.unwrap().len() > 3_000);
        assert_eq!(world.now().since(begun).as_secs(), 3600);
        assert_eq!(world.metric("hangar_streams_total{kind=\"listen\",reason=\"lifetime\"}"), 1.0);
        let mut revoked = world.listen(world.client(), &token, json!(1), &resources(&[&uri])).await.unwrap();
        world.api("DELETE", &format!("/api/tokens/{id}"), None).await;
        revoked.to_end().await.unwrap();
        assert_eq!(world.metric("hangar_streams_total{kind=\"listen\",reason=\"revoked\"}"), 1.0);
        // One whose token expires by itself.
        let (_, brief) = world.token(json!({ "scope": "mcp", "ttl": 60 })).await;
        let mut expired = world.listen(world.client(), &brief, json!(1), &json!({})).await.unwrap();
        let begun = world.now();
        expired.to_end().await.unwrap();
        assert!((60..=65).contains(&world.now().since(begun).as_secs()));
        let mut last = world.listen(world.client(), ADMIN, json!(1), &json!({})).await.unwrap();
        world.shut_down();
        last.to_end().await.unwrap();
        assert_eq!(world.metric("hangar_streams_total{kind=\"listen\",reason=\"shutdown\"}"), 1.0);
    });
}

#[test]
fn a_client_that_takes_nothing_is_given_up() {
    run(Setup::default(), async |world: &World| {
        let uri = world.start_process(ADMIN, "drip 200 500").await;
        let client = world.client_by(Link { capacity: 4096, ..Link::INSTANT });
        let mut slow = world.listen(client, ADMIN, json!(1), &resources(&[&uri])).await.unwrap();
        slow.next().await.unwrap();
        // It does not read, and there is more than fits on its way.
        world.sleep_ms(60_000).await;
        assert_eq!(world.plane.streams().leased(), 1);
        world.sleep_ms(100_000).await;
        assert_eq!(world.plane.streams().leased(), 0);
        assert_eq!(world.metric("hangar_streams_total{kind=\"listen\",reason=\"slow_consumer\"}"), 1.0);
    });
}

/// Processes that print, rest and end in all ways.
const SCRIPTS: [&str; 5] = [
    r"out a\n; sleep 10; err \xe2\x82; sleep 300; err \xac; out \xff; exit 2",
    "flood 100000; sleep 40000; out end",
    "drip 400 7",
    "sleep 700; close; sleep 700; exit 3",
    "drip 3 249; drip 3 250; drip 3 251; signal 9",
];

#[test]
fn who_reads_only_when_told_reads_all_whatever_happens_to_the_connection() {
    let (mut cuts, mut notices) = (0, 0);
    seeds::each(300, |seed| {
        let mut random = Random::new(seed);
        run(Setup { seed, ..Setup::default() }, async |world: &World| {
            let script = *random.pick(&SCRIPTS);
            let uri = world.start_process(ADMIN, script).await;
            let (mut next, mut text, mut exited) = (0, String::new(), false);
            'connections: while !exited {
                // From where they are on: what came before that is told at once.
                let from = format!("{uri}?since={next}");
                let link = Link::any(&mut random);
                let wanted = resources(&[&from]);
                let mut listening =
                    world.listen(world.client_by(link), ADMIN, json!(seed), &wanted).await.unwrap();
                loop {
                    let patience = *random.pick(&[100, 5_000, 300_000]);
                    let deadline = world.now() + Duration::from_millis(patience);
                    let runtime = &*world.runtime;
                    let Some(told) = until(runtime, deadline, listening.next()).await else {
                        assert!(patience < 300_000, "it was never told");
                        listening.cutter().cut();
                        cuts += 1;
                        continue 'connections;
                    };
                    assert_eq!(told.unwrap().as_deref(), Some(&*from));
                    notices += 1;
                    world.sleep_ms(*random.pick(&[0, 0, 100, 1_000])).await;
                    loop {
                        let shown = world.read_resource(ADMIN, &format!("{uri}?since={next}")).await;
                        assert_eq!((&shown["from"], &shown["gap"]), (&json!(next), &json!(null)));
                        text += shown["output"].as_str().unwrap();
                        let end = shown["end"].as_u64().unwrap();
                        next = shown["next"].as_u64().unwrap();
                        exited = shown["state"] == "exited";
                        if next == end {
                            break;
                        }
                    }
                    if exited {
                        break 'connections;
                    }
                }
            }
            let [stdout, stderr] = printed(script);
            let expected = [stdout, stderr].concat();
            if let Ok(expected) = String::from_utf8(expected) {
                assert_eq!(text, expected);
            } else {
                assert_eq!(text, "a\n\u{20ac}\u{fffd}");
            }
        });
    });
    assert!(cuts > 100 && notices > 1_000, "{cuts} cuts, {notices} notices");
}
