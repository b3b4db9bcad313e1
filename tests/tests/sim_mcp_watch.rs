//! Watched directories as resources of MCP, on the virtual clock: in both eras.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_backends::watching::{Change, WatchError};
use hangar_core::watch::{Blind, End, Kind};
use hangar_tests::sim::{
    Setup, World, run,
    session::{REVISIONS, Session},
    world::{ADMIN, at_ms},
};
use hangar_transports::{Settings, plane::sandboxes::Made};
use serde_json::{Value, json};
use std::{cell::Cell, sync::Arc, time::Duration};

const URI: &str = "hangar://sandboxes/box/watch?path=src%2Fa&recursive=true";

fn resources(uris: &[&str]) -> Value {
    json!({ "resourceSubscriptions": uris })
}

/// The types and names of the events in what was read.
fn briefs(read: &Value) -> Vec<String> {
    let events = read["events"].as_array().unwrap().iter();
    events
        .map(|event| format!("{} {}", event["type"].as_str().unwrap(), event["name"].as_str().unwrap()))
        .collect()
}

fn after(since: &Value) -> String {
    format!("{URI}&since={since}")
}

#[test]
fn the_template_says_how_a_directory_is_named() {
    run(Setup::default(), async |world: &World| {
        let templates = world.ask(ADMIN, "resources/templates/list", &json!({})).await.json();
        let templates = templates["result"]["resourceTemplates"].as_array().unwrap().clone();
        let named = templates.iter().find(|template| template["name"] == "watch").unwrap();
        assert_eq!(named["uriTemplate"], "hangar://sandboxes/{sandbox}/watch{?path,recursive,since}");
    });
}

#[test]
fn what_nobody_subscribed_to_is_not_watched_which_a_read_says() {
    run(Setup::default(), async |world: &World| {
        let read = world.read_resource(ADMIN, URI).await;
        assert_eq!((&read["watching"], &read["events"]), (&json!(false), &json!([])));
        assert_eq!(read["path"], "src/a");
        assert!(read["note"].as_str().unwrap().contains("subscribe"), "{read}");
        assert_eq!(world.read_resource(ADMIN, &after(&json!(7))).await["next"], 7);
        assert!(world.sandbox.watches.all().is_empty());
        for (uri, is_missing) in [
            ("hangar://sandboxes/nowhere/watch?path=a", true),
            ("hangar://sandboxes/box/watch", false),
            ("hangar://sandboxes/box/watch?path=%ff", false),
            ("hangar://sandboxes/box/watch?path=a&recursive=yes", false),
            ("hangar://sandboxes/box/watch?path=a&since=x", false),
            ("hangar://sandboxes/box/watch?path=a&depth=1", false),
        ] {
            let refused = world.ask(ADMIN, "resources/read", &json!({ "uri": uri })).await;
            let error = refused.json()["error"].clone();
            assert_eq!((refused.status, &error["code"]), (400, &json!(-32602)), "{uri}: {error}");
            assert_eq!(error["data"]["uri"] == uri, is_missing, "{error}");
        }
    });
}

#[test]
fn a_subscription_watches_and_tells_that_something_changed() {
    run(Setup::default(), async |world: &World| {
        let mut listening = world.listen(world.client(), ADMIN, json!(1), &resources(&[URI])).await.unwrap();
        assert_eq!(listening.granted, resources(&[URI]));
        let watch = world.sandbox.watches.last();
        assert_eq!(
            (&*watch.spec().path, watch.spec().recursive, watch.spec().tells_existing),
            ("src/a", true, false)
        );
        let begun = world.read_resource(ADMIN, URI).await;
        assert_eq!(
            (&begun["path"], &begun["watching"], &begun["events"]),
            (&json!("/srv/src/a"), &json!(true), &json!([]))
        );
        assert!(
            ["gap", "unwatched", "ended", "note"].iter().all(|field| begun.get(field).is_none()),
            "{begun}"
        );
        world.sleep_ms(1_000).await;
        watch.event(Kind::Create, "x");
        assert_eq!(listening.next().await.unwrap().as_deref(), Some(URI));
        assert_eq!(world.now(), at_ms(1_000));
        let first = world.read_resource(ADMIN, &after(&begun["next"])).await;
        assert_eq!(briefs(&first), ["create x"]);
        let event = &first["events"][0];
        assert_eq!(
            (event["seq"].as_u64(), &event["seq"]),
            (begun["next"].as_u64().map(|next| next + 1), &first["next"])
        );
        // However many there are, it is told four times a second.
        watch.create(0, 150);
        assert_eq!(listening.next().await.unwrap().as_deref(), Some(URI));
        assert_eq!(world.now(), at_ms(1_250));
        let more = world.read_resource(ADMIN, &after(&first["next"])).await;
        assert_eq!(briefs(&more).len(), 150);
        watch.tell(Change::Blind { name: "x".into(), why: Blind::Denied });
        assert_eq!(listening.next().await.unwrap().as_deref(), Some(URI));
        let unwatched = world.read_resource(ADMIN, &after(&more["next"])).await;
        assert_eq!(
            (&unwatched["events"], &unwatched["unwatched"]),
            (&json!([]), &json!([{ "name": "x", "reason": "denied" }]))
        );
        // What is lost is told anew, that too.
        watch.overflow();
        assert_eq!(listening.next().await.unwrap().as_deref(), Some(URI));
        let more = world.read_resource(ADMIN, &after(&more["next"])).await;
        assert_eq!((briefs(&more), more.get("unwatched")), (vec!["overflow .".to_owned()], None));
        // Nobody is waited for; what is not kept any more is a gap.
        watch.create(0, 1_000);
        assert_eq!(listening.next().await.unwrap().as_deref(), Some(URI));
        assert_eq!(watch.waiting(), 0);
        let last = world.read_resource(ADMIN, &after(&more["next"])).await;
        let (from, to) = (more["next"].as_u64().unwrap() + 1, more["next"].as_u64().unwrap() + 800);
        assert_eq!(last["gap"], json!({ "from_seq": from, "to_seq": to, "reason": "evicted" }));
        assert_eq!((briefs(&last).len(), briefs(&last).last().unwrap().as_str()), (200, "create 999"));
        // The last that are kept, where nothing is asked for.
        assert_eq!(world.read_resource(ADMIN, URI).await["events"], last["events"]);
        let odd = world.read_resource(ADMIN, &after(&json!(3))).await;
        assert_eq!(odd["gap"]["reason"], "adopted");
    });
}

#[test]
fn two_subscriptions_of_a_token_share_a_watch_as_long_as_one_is_there() {
    run(Setup::default(), async |world: &World| {
        let (_, other) = world.token(json!({ "scope": "mcp" })).await;
        let first = world.listen(world.client(), ADMIN, json!(1), &resources(&[URI])).await.unwrap();
        let since = after(&world.read_resource(ADMIN, URI).await["next"]);
        let mut second =
            world.listen(world.client(), ADMIN, json!(2), &resources(&[URI, &since])).await.unwrap();
        assert_eq!((world.sandbox.watches.all().len(), world.plane.streams().leased()), (1, 3));
        let theirs = world.listen(world.client(), &other, json!(1), &resources(&[URI])).await.unwrap();
        let watches = world.sandbox.watches.all();
        assert_eq!(watches.len(), 2);
        drop(first);
        world.sleep_ms(100_000).await;
        watches[0].event(Kind::Create, "x");
        let mut told = [second.next().await.unwrap().unwrap(), second.next().await.unwrap().unwrap()];
        told.sort();
        assert_eq!(told, [URI.to_owned(), since.clone()]);
        // It goes on for a while, so that who comes back misses nothing.
        drop(second);
        world.sleep_ms(50_000).await;
        watches[0].event(Kind::Create, "y");
        let mut again = world.listen(world.client(), ADMIN, json!(3), &resources(&[&since])).await.unwrap();
        assert_eq!(again.next().await.unwrap().as_deref(), Some(&*since), "it was behind");
        assert_eq!(briefs(&world.read_resource(ADMIN, &since).await), ["create x", "create y"]);
        drop((again, theirs));
        world.sleep_ms(59_000).await;
        assert!(watches.iter().all(hangar_tests::sim::watch::Watch::is_open));
        world.sleep_ms(2_000).await;
        assert_eq!((world.sandbox.watches.open_now(), world.plane.watches().len()), (0, 0));
        assert_eq!(world.read_resource(ADMIN, URI).await["watching"], false);
    });
}

#[test]
fn a_subscription_is_acknowledged_once_everything_is_watched() {
    run(Setup::default(), async |world: &World| {
        let watches = &world.sandbox.watches;
        watches.be_slow();
        let is_ready = Cell::new(false);
        let listening = async {
            let listening = world.listen(world.client(), ADMIN, json!(1), &resources(&[URI])).await.unwrap();
            assert!(is_ready.get(), "what changed in between is told to nobody");
            listening
        };
        let telling = async {
            world.sleep_ms(1_000).await;
            is_ready.set(true);
            watches.last().tell(Change::Ready);
        };
        let (mut listening, ()) = futures_lite::future::zip(listening, telling).await;
        watches.last().event(Kind::Create, "new");
        assert_eq!(listening.next().await.unwrap().as_deref(), Some(URI));
        // One that ends before that is acknowledged as well, and says so.
        let listening = async {
            world.listen(world.client(), ADMIN, json!(2), &resources(&[&URI.replace("src", "lib")])).await
        };
        let telling = async {
            world.sleep_ms(1_000).await;
            watches.last().tell(Change::Broken(WatchError::TooManyWatches));
        };
        let (listening, ()) = futures_lite::future::zip(listening, telling).await;
        assert_eq!(listening.unwrap().granted, resources(&[&URI.replace("src", "lib")]));
        let read = world.read_resource(ADMIN, &URI.replace("src", "lib")).await;
        assert_eq!((&read["watching"], &read["ended"]), (&json!(false), &json!("error")));
    });
}

#[test]
fn two_that_subscribe_at_the_same_time_share_a_watch_too() {
    run(Setup::default(), async |world: &World| {
        world.sandbox.watches.set_delay(Duration::from_secs(1));
        let listen = |id| async move {
            world.listen(world.client(), ADMIN, json!(id), &resources(&[URI])).await.unwrap()
        };
        let both = futures_lite::future::zip(listen(1), listen(2)).await;
        world.sleep_ms(1).await;
        assert_eq!((world.sandbox.watches.open_now(), world.plane.watches().len()), (1, 1));
        drop(both);
    });
}

#[test]
fn a_watch_that_ends_is_told_and_says_why() {
    run(Setup::default(), async |world: &World| {
        for (change, ended, note) in [
            (Some(Change::Ended(End::Removed)), "removed", None),
            (Some(Change::Ended(End::Moved)), "moved", None),
            (
                Some(Change::Broken(WatchError::Broken("no route".to_owned()))),
                "error",
                Some("the sandbox cannot be reached: no route"),
            ),
            (None, "paused", None),
        ] {
            let mut listening =
                world.listen(world.client(), ADMIN, json!(1), &resources(&[URI])).await.unwrap();
            let watch = world.sandbox.watches.last();
            watch.event(Kind::Remove, "x");
            assert_eq!(listening.next().await.unwrap().as_deref(), Some(URI));
            match change {
                Some(change) => watch.tell(change),
                None => assert_eq!(world.api("POST", "/api/sandboxes/box/pause", None).await.status, 200),
            }
            assert_eq!(listening.next().await.unwrap().as_deref(), Some(URI));
            assert!(!watch.is_open());
            let read = world.read_resource(ADMIN, URI).await;
            assert_eq!((&read["watching"], &read["ended"]), (&json!(false), &json!(ended)));
            assert_eq!(
                (briefs(&read), read.get("note").and_then(Value::as_str)),
                (vec!["remove x".to_owned()], note)
            );
            // Its place is free, and who subscribes again has another one.
            assert_eq!(world.plane.streams().leased(), 0);
            drop(listening);
        }
        // Nothing is watched in a paused sandbox.
        let nothing = world.listen(world.client(), ADMIN, json!(1), &resources(&[URI])).await.unwrap();
        assert_eq!(nothing.granted, json!({}));
        drop(nothing);
        assert_eq!(world.api("POST", "/api/sandboxes/box/resume", None).await.status, 200);
        let again = world.listen(world.client(), ADMIN, json!(1), &resources(&[URI])).await.unwrap();
        assert_eq!(world.read_resource(ADMIN, URI).await["watching"], true);
        assert_eq!(world.api("DELETE", "/api/sandboxes/box", None).await.status, 204);
        drop(again);
        let gone = world.ask(ADMIN, "resources/read", &json!({ "uri": URI })).await;
        assert_eq!(gone.json()["error"]["data"]["uri"], URI);
    });
}

#[test]
fn a_sandbox_without_a_daemon_says_that_watching_needs_one() {
    run(Setup::default(), async |world: &World| {
        let sandbox = Arc::clone(&world.sandbox);
        let made = Made {
            sandbox: sandbox as _,
            provider: "sim",
            url: None,
            workdir: None,
            daemon: false,
            is_remembered: false,
            open_to_users: true,
        };
        world.plane.add_sandbox("bare", made).unwrap();
        let uri = "hangar://sandboxes/bare/watch?path=src";
        let read = world.read_resource(ADMIN, uri).await;
        let needs = "this sandbox has no daemon, and watching a directory needs one";
        assert_eq!((&read["watching"], &read["note"]), (&json!(false), &json!(needs)));
        world.sandbox.watches.refuse_next(WatchError::NeedsDaemon);
        let listening = world.listen(world.client(), ADMIN, json!(1), &resources(&[uri])).await.unwrap();
        assert_eq!(listening.granted, json!({}));
        drop(listening);
        let session = Session::begin(world, ADMIN, "2025-11-25").await;
        world.sandbox.watches.refuse_next(WatchError::NeedsDaemon);
        let refused = session.ask(world, "resources/subscribe", &json!({ "uri": uri })).await;
        assert!(refused["error"]["message"].as_str().unwrap().ends_with(needs), "{refused}");
    });
}

#[test]
fn a_session_subscribes_is_told_and_unsubscribes() {
    run(Setup::default(), async |world: &World| {
        for revision in REVISIONS {
            let session = Session::begin(world, ADMIN, revision).await;
            session.subscribe(world, URI).await;
            let watch = world.sandbox.watches.last();
            let begun = session.read(world, URI).await;
            // What changes before there is a stream is told on it.
            watch.event(Kind::Create, "x");
            world.sleep_ms(1_000).await;
            let mut told = session.told(world).await;
            assert_eq!(told.next().await.as_deref(), Some(URI));
            assert_eq!(briefs(&session.read(world, &after(&begun["next"])).await), ["create x"]);
            watch.event(Kind::Create, "y");
            assert_eq!(told.next().await.as_deref(), Some(URI));
            // One that breaks is gone on with.
            let last = session.read(world, URI).await;
            drop(told);
            watch.event(Kind::Create, "z");
            world.sleep_ms(30_000).await;
            let mut told = session.told(world).await;
            assert_eq!(told.next().await.as_deref(), Some(URI));
            assert_eq!(briefs(&session.read(world, &after(&last["next"])).await), ["create z"]);
            assert!(watch.is_open());
            let unsubscribed = session.ask(world, "resources/unsubscribe", &json!({ "uri": URI })).await;
            assert_eq!(unsubscribed["result"], json!({}));
            world.sleep_ms(1).await;
            assert_eq!((watch.is_open(), world.plane.watches().len()), (false, 0));
            assert_eq!(session.read(world, URI).await["watching"], false);
            // So does the end of the session.
            session.subscribe(world, URI).await;
            let watch = world.sandbox.watches.last();
            assert_eq!(session.end(world).await.status, 204);
            world.sleep_ms(1).await;
            assert!(!watch.is_open());
            assert_eq!(told.next().await, None);
        }
    });
}

#[test]
fn a_session_whose_watch_has_ended_has_its_stream_all_the_same() {
    run(Setup::default(), async |world: &World| {
        let session = Session::begin(world, ADMIN, "2025-11-25").await;
        session.subscribe(world, URI).await;
        // Without a stream it goes on for a minute.
        world.sleep_ms(61_000).await;
        assert_eq!(world.sandbox.watches.open_now(), 0);
        let mut told = session.told(world).await;
        assert_eq!(told.next().await.as_deref(), Some(URI), "some of it may be lost");
        assert_eq!(world.sandbox.watches.open_now(), 1);
        drop(told);
        world.sleep_ms(61_000).await;
        world.sandbox.watches.refuse_next(WatchError::NotFound("src/a".to_owned()));
        let mut told = session.told(world).await;
        assert_eq!(told.next().await.as_deref(), Some(URI), "which a read says");
        assert_eq!(session.read(world, URI).await["watching"], false);
    });
}

#[test]
fn there_are_as_many_as_a_token_may_have() {
    let settings = Settings { watch_max_per_token: 2, ..Settings::default() };
    run(Setup { settings, ..Setup::default() }, async |world: &World| {
        let uris: Vec<String> = (0..3).map(|at| format!("hangar://sandboxes/box/watch?path={at}")).collect();
        let wanted = resources(&[&uris[0], &uris[1], &uris[2]]);
        let listening = world.listen(world.client(), ADMIN, json!(1), &wanted).await.unwrap();
        assert_eq!(listening.granted, resources(&[&uris[0], &uris[1]]));
        let session = Session::begin(world, ADMIN, "2025-11-25").await;
        let refused = session.ask(world, "resources/subscribe", &json!({ "uri": uris[2] })).await;
        assert_eq!(refused["error"]["data"]["code"], "too_many_watches", "{refused}");
        // Those that nobody is told of make room.
        drop(listening);
        world.sleep_ms(1).await;
        session.subscribe(world, &uris[2]).await;
        world.sleep_ms(1).await;
        assert_eq!(world.sandbox.watches.open_now(), 2);
    });
}
