//! Watched directories on the virtual clock: how many there may be, and what ends them.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_core::watch::Kind;
use hangar_tests::sim::{
    Setup, World, run,
    watch::Watch,
    watching::Reader,
    world::{ADMIN, at_ms},
};
use hangar_transports::Settings;
use serde_json::{Value, json};
use std::time::Duration;

async fn open(world: &World, token: &str, path: &str) -> Reader {
    let mut reader = Reader::open(world, token, &format!("path={path}"), None).await.unwrap();
    assert_eq!(reader.briefs(1).await, ["ready"]);
    reader
}

/// A watch that somebody reads, and one that nobody does any more.
async fn both(world: &World, token: &str) -> (Reader, u64, [Watch; 2]) {
    let left = open(world, token, "left").await;
    let cursor = left.cursor();
    let first = world.sandbox.watches.last();
    drop(left);
    let reader = open(world, token, "read").await;
    (reader, cursor, [first, world.sandbox.watches.last()])
}

/// What a stream ended with: the only thing that came.
async fn closed(reader: &mut Reader) -> Value {
    let last = reader.next().await.unwrap();
    assert_eq!((last.brief().as_str(), reader.next().await, reader.lost), ("close", None, None));
    last.data().clone()
}

fn ended(world: &World, reason: &str) -> f64 {
    world.metric(&format!("hangar_streams_total{{kind=\"watch\",reason=\"{reason}\"}}"))
}

#[test]
fn a_token_watches_as_many_directories_as_it_may() {
    run(Setup::default(), async |world: &World| {
        let (_, other) = world.token(json!({ "scope": "user" })).await;
        let mut readers = Vec::new();
        for at in 0..8 {
            readers.push(open(world, ADMIN, &at.to_string()).await);
        }
        let refused = Reader::open(world, ADMIN, "path=more", None).await.unwrap_err();
        assert_eq!(refused.refusal(), (429, "too_many_watches".to_owned(), String::new()));
        let error = &refused.json()["error"];
        assert_eq!(error["scope"], "token");
        assert!(error["message"].as_str().unwrap().contains("HANGAR_WATCH_MAX_PER_TOKEN"), "{error}");
        assert_eq!(world.plane.streams().leased(), 8, "its lease is back");
        // What is another's counts for them.
        drop(open(world, &other, "theirs").await);
        // Those that nobody reads make room: the one that was left first.
        let watches = world.sandbox.watches.all();
        let cursors = [readers[2].cursor(), readers[5].cursor()];
        drop(readers.remove(5));
        world.sleep_ms(1_000).await;
        drop(readers.remove(2));
        world.sleep_ms(1_000).await;
        readers.push(open(world, ADMIN, "more").await);
        world.sleep_ms(1).await;
        let open_ones: Vec<bool> = watches.iter().map(Watch::is_open).collect();
        assert_eq!(open_ones, [true, true, true, true, true, false, true, true, true]);
        let mut kept = Reader::open(world, ADMIN, "path=2", Some(cursors[0])).await.unwrap();
        assert_eq!(kept.briefs(1).await, ["ready"]);
        assert!(Reader::open(world, ADMIN, "path=5", Some(cursors[1])).await.is_err());
    });
}

#[test]
fn a_watch_takes_one_of_the_streams_of_its_token() {
    let settings = Settings { stream_max_per_token: 2, ..Settings::default() };
    run(Setup { settings, ..Setup::default() }, async |world: &World| {
        let first = open(world, ADMIN, "a").await;
        let second = open(world, ADMIN, "b").await;
        let refused = Reader::open(world, ADMIN, "path=c", None).await.unwrap_err();
        assert_eq!(refused.refusal(), (429, "too_many_streams".to_owned(), String::new()));
        assert_eq!(world.sandbox.watches.all().len(), 2, "it was not opened");
        drop(first);
        world.sleep_ms(1).await;
        drop(open(world, ADMIN, "c").await);
        drop(second);
    });
}

#[test]
fn a_revoked_token_has_none_any_more() {
    run(Setup::default(), async |world: &World| {
        let (id, token) = world.token(json!({ "scope": "user" })).await;
        let (mut reader, _, watches) = both(world, &token).await;
        let others = open(world, ADMIN, "mine").await;
        let deleted = world.api("DELETE", &format!("/api/tokens/{id}"), None).await;
        assert_eq!(deleted.status, 204);
        assert_eq!(closed(&mut reader).await, json!({ "reason": "revoked" }));
        assert_eq!((world.now(), ended(world, "revoked")), (at_ms(0), 1.0));
        assert!(watches.iter().all(|watch| !watch.is_open()));
        assert_eq!(world.plane.watches().len(), 1);
        drop(others);
    });
}

#[test]
fn an_expired_token_is_seen_by_the_next_recheck() {
    run(Setup::default(), async |world: &World| {
        let (_, token) = world.token(json!({ "scope": "user", "ttl": 7 })).await;
        let (mut reader, _, watches) = both(world, &token).await;
        assert_eq!(closed(&mut reader).await, json!({ "reason": "revoked" }));
        assert_eq!(world.now(), at_ms(10_000));
        world.sleep_ms(1).await;
        assert!(watches.iter().all(|watch| !watch.is_open()));
        // Also one that nobody reads, where that is all the token has.
        let (_, token) = world.token(json!({ "scope": "user", "ttl": 7 })).await;
        drop(open(world, &token, "a").await);
        let watch = world.sandbox.watches.last();
        world.sleep_until_ms(15_100).await;
        assert!(watch.is_open());
        world.sleep_until_ms(20_100).await;
        assert!(!watch.is_open());
    });
}

#[test]
fn a_paused_sandbox_ends_them_and_they_begin_anew_after_that() {
    run(Setup::default(), async |world: &World| {
        let (mut reader, left, watches) = both(world, ADMIN).await;
        assert_eq!(world.api("POST", "/api/sandboxes/box/pause", None).await.status, 200);
        assert_eq!(closed(&mut reader).await, json!({ "reason": "paused" }));
        world.sleep_ms(1).await;
        assert!(watches.iter().all(|watch| !watch.is_open()));
        assert_eq!((world.plane.watches().len(), ended(world, "paused")), (0, 1.0));
        let refused = Reader::open(world, ADMIN, "path=read", None).await.unwrap_err();
        assert_eq!(refused.refusal(), (409, "sandbox_paused".to_owned(), String::new()));
        assert_eq!(world.api("POST", "/api/sandboxes/box/resume", None).await.status, 200);
        for (path, cursor) in [("path=read", reader.cursor()), ("path=left", left)] {
            let mut reader = Reader::open(world, ADMIN, path, Some(cursor)).await.unwrap();
            assert_eq!(reader.briefs(3).await, ["gap", "overflow .", "ready"]);
        }
    });
}

#[test]
fn a_destroyed_sandbox_ends_them() {
    run(Setup::default(), async |world: &World| {
        let (mut reader, _, watches) = both(world, ADMIN).await;
        assert_eq!(world.api("DELETE", "/api/sandboxes/box", None).await.status, 204);
        assert_eq!(closed(&mut reader).await, json!({ "reason": "destroyed" }));
        world.sleep_ms(1).await;
        assert!(watches.iter().all(|watch| !watch.is_open()));
        assert_eq!((world.plane.watches().len(), ended(world, "destroyed")), (0, 1.0));
    });
}

#[test]
fn a_shutdown_ends_them_at_once() {
    run(Setup::default(), async |world: &World| {
        let (mut reader, _, watches) = both(world, ADMIN).await;
        let client = world.client();
        world.shut_down();
        assert_eq!(closed(&mut reader).await, json!({ "reason": "shutdown" }));
        assert_eq!((world.now(), ended(world, "shutdown")), (at_ms(0), 1.0));
        world.sleep_ms(1).await;
        assert!(watches.iter().all(|watch| !watch.is_open()));
        drop(client);
    });
}

#[test]
fn a_stream_is_ended_after_hours_and_the_watch_goes_on() {
    let settings = Settings { stream_max: Duration::from_secs(3600), ..Settings::default() };
    run(Setup { settings, ..Setup::default() }, async |world: &World| {
        let mut reader = open(world, ADMIN, "a").await;
        let watch = world.sandbox.watches.last();
        world.sleep_until_ms(3_599_000).await;
        watch.event(Kind::Create, "a");
        assert_eq!(reader.briefs(1).await, ["create a"]);
        assert_eq!(closed(&mut reader).await, json!({ "reason": "lifetime" }));
        assert_eq!((world.now(), ended(world, "lifetime")), (at_ms(3_600_000), 1.0));
        watch.event(Kind::Create, "b");
        let mut again = Reader::open(world, ADMIN, "path=a", Some(reader.cursor())).await.unwrap();
        assert_eq!(again.briefs(2).await, ["create b", "ready"]);
    });
}

#[test]
fn what_ends_while_a_watch_is_opened_ends_it() {
    for (method, path, reason) in [
        ("DELETE", "token", "revoked"),
        ("POST", "/api/sandboxes/box/pause", "paused"),
        ("DELETE", "/api/sandboxes/box", "destroyed"),
    ] {
        run(Setup::default(), async |world: &World| {
            let (id, token) = world.token(json!({ "scope": "user" })).await;
            world.sandbox.watches.set_delay(Duration::from_secs(1));
            let opening = {
                let world = world.clone();
                world.runtime.clone().task(async move {
                    let mut reader = Reader::open(&world, &token, "path=a", None).await.unwrap();
                    closed(&mut reader).await
                })
            };
            world.sleep_ms(500).await;
            let path = if path == "token" { format!("/api/tokens/{id}") } else { path.to_owned() };
            assert!(world.api(method, &path, None).await.status < 300);
            assert_eq!(opening.await, json!({ "reason": reason }));
            world.sleep_ms(1).await;
            assert_eq!((world.sandbox.watches.open_now(), world.plane.watches().len()), (0, 0));
        });
    }
}

#[test]
fn who_leaves_while_it_is_opened_leaves_nothing() {
    let settings = Settings { watch_max_per_token: 1, ..Settings::default() };
    run(Setup { settings, ..Setup::default() }, async |world: &World| {
        world.sandbox.watches.set_delay(Duration::from_secs(1));
        let opening = {
            let world = world.clone();
            world.runtime.clone().task(async move {
                let client = world.client();
                let cutter = client.cutter();
                let opened = Reader::try_open_by(client, ADMIN, "path=a", None);
                let cut = async {
                    world.sleep_ms(500).await;
                    cutter.cut();
                };
                futures_lite::future::zip(opened, cut).await.0.is_none()
            })
        };
        world.sleep_ms(100).await;
        // Its place is taken meanwhile.
        let refused = Reader::open(world, ADMIN, "path=b", None).await.unwrap_err();
        assert_eq!(refused.refusal().1, "too_many_watches");
        assert!(opening.await);
        world.sleep_ms(1_000).await;
        assert_eq!((world.sandbox.watches.all().len(), world.plane.streams().leased()), (0, 0));
        drop(open(world, ADMIN, "b").await);
    });
}
