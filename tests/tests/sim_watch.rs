//! Watched directories on the virtual clock: what is asked for, what is told, and how a slow client is waited for.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use bytes::Bytes;
use hangar_backends::watching::{Change, WatchError};
use hangar_core::{
    Time,
    watch::{Blind, End, Event, Kind},
};
use hangar_tests::sim::{
    Link, Request, Setup, World, run,
    watching::{Reader, Told},
    world::{ADMIN, at_ms},
};
use hangar_transports::Settings;
use serde_json::json;

const fn name(bytes: &'static [u8]) -> Bytes {
    Bytes::from_static(bytes)
}

async fn open(world: &World, query: &str) -> Reader {
    Reader::open(world, ADMIN, query, None).await.unwrap()
}

async fn refused(world: &World, token: &str, query: &str) -> (u16, String, String) {
    let refused = Reader::open(world, token, query, None).await.unwrap_err();
    refused.refusal()
}

fn refusal(status: u16, code: &str, field: &str) -> (u16, String, String) {
    (status, code.to_owned(), field.to_owned())
}

#[test]
fn changes_are_told_as_they_come_each_with_its_number() {
    run(Setup::default(), async |world: &World| {
        let mut reader = open(world, "path=src&recursive=true").await;
        for (name, value) in [
            ("content-type", "text/event-stream"),
            ("cache-control", "no-cache, no-transform"),
            ("x-accel-buffering", "no"),
        ] {
            assert_eq!(reader.head().header(name), Some(value), "{name}");
        }
        assert_eq!(reader.next_of_any_kind().await, Some(Told::Comment));
        let ready = reader.next().await.unwrap();
        let first = ready.data()["next"].as_u64().unwrap() + 1;
        assert_eq!(ready, Told::event("ready", "", json!({ "path": "/srv/src", "next": first - 1 })));
        let watch = world.sandbox.watches.last();
        world.sleep_ms(1_000).await;
        watch.event(Kind::Create, "a/\u{e4} b");
        watch.event(Kind::Chmod, ".");
        watch.tell(Change::Event(Event::rename(name(b"a"), name(b"b"))));
        let ts = world.plane.runtime().wall_ms();
        for (at, event) in [
            json!({ "name": "a/\u{e4} b", "type": "create" }),
            json!({ "name": ".", "type": "chmod" }),
            json!({ "name": "b", "type": "rename", "from": "a" }),
        ]
        .into_iter()
        .enumerate()
        {
            let seq = first + at as u64;
            let mut expected = event;
            (expected["seq"], expected["ts"]) = (seq.into(), ts.into());
            assert_eq!(reader.next().await, Some(Told::event("message", &seq.to_string(), expected)));
        }
        assert_eq!(world.now(), at_ms(1_000));
        // A silence is filled.
        assert_eq!(reader.next_of_any_kind().await, Some(Told::Comment));
        assert_eq!(world.now(), at_ms(16_000));
        assert_eq!(world.metric("hangar_streams_open{kind=\"watch\"}"), 1.0);
        drop(reader);
        world.sleep_ms(1).await;
        assert_eq!(world.metric("hangar_streams_total{kind=\"watch\",reason=\"client\"}"), 1.0);
        let told = "a/\u{e4} b".len() + ".".len() + "ab".len();
        assert_eq!(world.metric("hangar_stream_bytes_total{kind=\"watch\"}"), told as f64);
    });
}

#[test]
fn the_sandbox_gets_what_was_asked_for() {
    run(Setup::default(), async |world: &World| {
        for (query, path, flags, user) in [
            ("path=a", "a", [false, false, false], None),
            (
                "path=/srv/%C3%A4%20b+c%2b&recursive=false&snapshot=true",
                "/srv/\u{e4} b c+",
                [false, true, false],
                None,
            ),
            ("user=nobody&network=true&recursive=true&path=.", ".", [true, false, true], Some("nobody")),
        ] {
            drop(open(world, query).await);
            let spec = world.sandbox.watches.last().spec();
            assert_eq!(spec.path, path);
            assert_eq!([spec.recursive, spec.tells_existing, spec.network], flags, "{query}");
            assert_eq!(spec.user.as_deref(), user);
        }
    });
}

#[test]
fn what_is_there_is_told_first_where_that_is_asked_for() {
    run(Setup::default(), async |world: &World| {
        world.sandbox.watches.set_existing(["a", "b"]);
        let mut reader = open(world, "path=/&snapshot=true").await;
        assert_eq!(reader.briefs(3).await, ["create a", "create b", "ready"]);
        // Lost changes, and everything that is there after that.
        let watch = world.sandbox.watches.last();
        watch.event(Kind::Write, "a");
        watch.tell(Change::Event(Event::overflow()));
        watch.event(Kind::Create, "a");
        watch.tell(Change::Ready);
        assert_eq!(reader.briefs(4).await, ["write a", "overflow .", "create a", "ready"]);
        drop(reader);
        let mut reader = open(world, "path=/").await;
        assert_eq!(reader.briefs(1).await, ["ready"]);
    });
}

#[test]
fn what_is_wrong_with_a_request_is_said_by_name() {
    run(Setup::default(), async |world: &World| {
        for (query, code, field) in [
            ("", "missing_field", "path"),
            ("recursive=true", "missing_field", "path"),
            ("path=", "empty", "path"),
            ("path=a%00b", "nul", "path"),
            ("path=%ff", "bad_encoding", "path"),
            ("path=%2", "bad_encoding", "path"),
            ("path=a&path=b", "duplicate_field", "path"),
            ("path=a&recursive=1", "wrong_type", "recursive"),
            ("path=a&recursive", "wrong_type", "recursive"),
            ("path=a&snapshot=yes", "wrong_type", "snapshot"),
            ("path=a&network=TRUE", "wrong_type", "network"),
            ("path=a&user=", "empty", "user"),
            ("path=a&since=-1", "bad_cursor", "since"),
            ("path=a&since=18446744073709551616", "bad_cursor", "since"),
            ("path=a&depth=2", "unknown_field", "depth"),
        ] {
            assert_eq!(refused(world, ADMIN, query).await, refusal(400, code, field), "{query}");
        }
        for id in ["", "x", "-1"] {
            let request = Request::new("GET", "/api/sandboxes/box/watch?path=a&since=1")
                .bearer(ADMIN)
                .header("Last-Event-ID", id);
            let response = world.client().call(&request).await.unwrap();
            assert_eq!(response.refusal(), refusal(400, "bad_cursor", "Last-Event-ID"), "{id:?}");
        }
        assert!(world.sandbox.watches.all().is_empty());
        let nowhere = world.api("GET", "/api/sandboxes/nowhere/watch?path=a", None).await;
        assert_eq!(nowhere.refusal(), refusal(404, "not_found", ""));
        let (_, mcp) = world.token(json!({ "scope": "mcp" })).await;
        assert_eq!(refused(world, &mcp, "path=a").await, refusal(403, "forbidden", ""));
        let (_, user) = world.token(json!({ "scope": "user" })).await;
        assert!(Reader::open(world, &user, "path=a", None).await.is_ok());
        let posted = world.api("POST", "/api/sandboxes/box/watch?path=a", Some(json!({}))).await;
        assert_eq!((posted.status, posted.header("allow")), (405, Some("GET")));
    });
}

#[test]
fn what_the_sandbox_does_not_watch_is_refused_with_its_reason() {
    run(Setup::default(), async |world: &World| {
        let path = || "/srv".to_owned();
        for (error, expected) in [
            (WatchError::NotFound(path()), refusal(400, "no_directory", "path")),
            (WatchError::NotADirectory(path()), refusal(400, "no_directory", "path")),
            (WatchError::Denied(path()), refusal(400, "denied", "path")),
            (WatchError::OutsideRoot(path()), refusal(400, "outside_root", "path")),
            (WatchError::BadPath("it is too long".to_owned()), refusal(400, "bad_path", "path")),
            (WatchError::Network(path()), refusal(400, "network", "path")),
            (WatchError::TooManyDirectories(7), refusal(400, "too_many_directories", "path")),
            (WatchError::BadUser("there is none".to_owned()), refusal(400, "bad_user", "user")),
            (WatchError::TooManyWatches, refusal(503, "exhausted", "")),
            (WatchError::TooManyInstances, refusal(503, "exhausted", "")),
            (WatchError::NeedsDaemon, refusal(409, "unsupported", "")),
            (WatchError::Paused, refusal(409, "sandbox_paused", "")),
            (WatchError::Destroyed, refusal(409, "sandbox_destroyed", "")),
            (WatchError::Broken("gone".to_owned()), refusal(502, "sandbox_unreachable", "")),
        ] {
            let message = error.to_string();
            world.sandbox.watches.refuse_next(error);
            let response = Reader::open(world, ADMIN, "path=/srv", None).await.unwrap_err();
            assert_eq!(response.refusal(), expected, "{message}");
            assert_eq!(response.json()["error"]["message"], message);
        }
        assert_eq!((world.plane.watches().len(), world.plane.streams().leased()), (0, 0));
    });
}

#[test]
fn names_that_are_not_utf_8_are_told_as_base64() {
    run(Setup::default(), async |world: &World| {
        let mut reader = open(world, "path=/").await;
        assert_eq!(reader.briefs(1).await, ["ready"]);
        let watch = world.sandbox.watches.last();
        watch.tell(Change::Blind { name: name(b"\xfe"), why: Blind::Denied });
        watch.tell(Change::Event(Event::new(Kind::Create, name(b"a\xff"))));
        watch.tell(Change::Event(Event::rename(name(b"a\xff"), name(b"\xc3\xa4"))));
        watch.tell(Change::Event(Event::rename(name(b"a"), name(b"\xff"))));
        let mut told = Vec::new();
        for _ in 0..4 {
            let mut data = reader.next().await.unwrap().data().clone();
            let event = data.as_object_mut().unwrap();
            event.retain(|field, _| field != "seq" && field != "ts");
            told.push(data);
        }
        assert_eq!(
            told,
            [
                json!({ "base64": "/g==", "reason": "denied" }),
                json!({ "base64": "Yf8=", "type": "create" }),
                json!({ "name": "\u{e4}", "type": "rename", "from_base64": "Yf8=" }),
                json!({ "base64": "/w==", "type": "rename", "from": "a" }),
            ]
        );
    });
}

#[test]
fn what_is_not_watched_is_told_in_its_place() {
    run(Setup::default(), async |world: &World| {
        let mut reader = open(world, "path=/&recursive=true").await;
        let watch = world.sandbox.watches.last();
        for (at, (why, reason)) in [
            (Blind::Denied, "denied"),
            (Blind::Network, "network"),
            (Blind::Twice, "twice"),
            (Blind::Gone, "gone"),
        ]
        .into_iter()
        .enumerate()
        {
            let name = at.to_string();
            watch.tell(Change::Event(Event::new(Kind::Create, name.clone().into())));
            watch.tell(Change::Blind { name: name.clone().into(), why });
            watch.event(Kind::Chmod, ".");
            assert_eq!(reader.briefs(1 + usize::from(at == 0)).await.pop().unwrap(), format!("create {at}"));
            let unwatched = reader.next().await.unwrap();
            assert_eq!(
                (unwatched.brief(), unwatched.data()),
                ("unwatched".to_owned(), &json!({ "name": name, "reason": reason }))
            );
            assert_eq!(reader.briefs(1).await, ["chmod ."]);
        }
        // Of so many, none is lost to a slow client either.
        drop(reader);
        let link = Link { capacity: 4096, ..Link::INSTANT };
        let mut reader = Reader::open_by(world.client_by(link), ADMIN, "path=/", None).await.unwrap();
        assert_eq!(reader.briefs(1).await, ["ready"]);
        let watch = world.sandbox.watches.last();
        for at in 0..MANY {
            watch.tell(Change::Blind { name: at.to_string().into(), why: Blind::Denied });
        }
        watch.tell(Change::Ended(End::Removed));
        world.sleep_ms(30_000).await;
        assert!(watch.waiting() > MANY / 2, "{} wait", watch.waiting());
        let told = reader.to_end().await;
        assert_eq!((told.len(), told.last().unwrap().as_str()), (MANY + 1, "end"));
    });
}

/// Changes far beyond what a connection holds.
const MANY: usize = 20_000;

fn created(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|at| format!("create {at}")).collect()
}

#[test]
fn a_slow_client_is_waited_for_and_nothing_grows() {
    run(Setup::default(), async |world: &World| {
        let link = Link { capacity: 4096, ..Link::INSTANT };
        let mut reader = Reader::open_by(world.client_by(link), ADMIN, "path=/", None).await.unwrap();
        assert_eq!(reader.briefs(1).await, ["ready"]);
        let watch = world.sandbox.watches.last();
        watch.create(0, MANY);
        world.sleep_ms(30_000).await;
        // What hyper and the socket hold, a batch, and what a reader may be behind.
        let taken = MANY - watch.waiting();
        assert!((256..4_000).contains(&taken), "{taken} were taken");
        assert_eq!(reader.briefs(MANY).await, created(0, MANY));
        assert_eq!(watch.waiting(), 0);
    });
}

#[test]
fn a_client_that_takes_nothing_for_a_minute_is_given_up_and_may_come_back() {
    run(Setup::default(), async |world: &World| {
        let mut reader = open(world, "path=/").await;
        assert_eq!(reader.briefs(1).await, ["ready"]);
        let watch = world.sandbox.watches.last();
        watch.create(0, MANY);
        let given_up = || world.metric("hangar_streams_total{kind=\"watch\",reason=\"slow_consumer\"}");
        world.sleep_ms(59_000).await;
        assert_eq!((given_up(), watch.is_open()), (0.0, true));
        world.sleep_ms(5_000).await;
        assert_eq!((given_up(), watch.is_open()), (1.0, true));
        // What was in its socket; what follows that is kept, or told again.
        let told = reader.to_end().await;
        let cursor = reader.cursor();
        let mut again = Reader::open(world, ADMIN, "path=/", Some(cursor)).await.unwrap();
        assert_eq!(again.briefs(1).await, ["gap"], "{} were told", told.len());
        while again.next().await.unwrap().brief() != "overflow ." {}
        assert_eq!((again.briefs(1).await, watch.retold()), (vec!["ready".to_owned()], 1));
    });
}

#[test]
fn changes_are_paced_and_capped_and_the_rest_comes_on_the_next_stream() {
    let settings = Settings { stream_bytes_per_second: 6_600, stream_max_bytes: 500, ..Settings::default() };
    run(Setup { settings, ..Setup::default() }, async |world: &World| {
        let mut reader = open(world, "path=/").await;
        assert_eq!(reader.briefs(1).await, ["ready"]);
        // Each has a name of two bytes, so it costs 66; a hundred of them go at once.
        let watch = world.sandbox.watches.last();
        (0..3).for_each(|_| watch.create(10, 90));
        assert_eq!(reader.briefs(100).await.len(), 100);
        assert_eq!(world.now(), at_ms(0));
        let rest = reader.to_end().await;
        assert_eq!((rest.len(), rest.last().unwrap().as_str()), (151, "close"));
        assert_eq!(world.metric("hangar_streams_total{kind=\"watch\",reason=\"limit\"}"), 1.0);
        let seconds = world.now().since(Time::ZERO);
        assert!((1_480..1_520).contains(&seconds.as_millis()), "{seconds:?}");
        let mut again = Reader::open(world, ADMIN, "path=/", Some(reader.cursor())).await.unwrap();
        let told = again.briefs(21).await;
        assert_eq!((&told[..20], &*told[20]), (&created(80, 100)[..], "ready"));
        assert_eq!(world.sandbox.watches.all().len(), 1);
    });
}

#[test]
fn a_sandbox_that_breaks_ends_the_stream_with_what_it_says() {
    run(Setup::default(), async |world: &World| {
        for (change, event, data, reason) in [
            (Change::Ended(End::Removed), "end", json!({ "reason": "removed" }), "done"),
            (Change::Ended(End::Moved), "end", json!({ "reason": "moved" }), "done"),
            (Change::Ended(End::Unmounted), "end", json!({ "reason": "unmounted" }), "done"),
            (
                Change::Broken(WatchError::Broken("no route".to_owned())),
                "close",
                json!({ "reason": "error", "message": "the sandbox cannot be reached: no route" }),
                "error",
            ),
            (Change::Broken(WatchError::Paused), "close", json!({ "reason": "paused" }), "paused"),
            (Change::Broken(WatchError::Destroyed), "close", json!({ "reason": "destroyed" }), "destroyed"),
        ] {
            let ended =
                || world.metric(&format!("hangar_streams_total{{kind=\"watch\",reason=\"{reason}\"}}"));
            let before = ended();
            let mut reader = open(world, "path=/").await;
            let watch = world.sandbox.watches.last();
            watch.event(Kind::Remove, "a");
            watch.tell(change);
            watch.event(Kind::Remove, "never");
            assert_eq!(reader.briefs(2).await, ["ready", "remove a"]);
            let last: Told = reader.next().await.unwrap();
            assert_eq!((last.brief().as_str(), last.data()), (event, &data));
            assert_eq!((reader.next().await, reader.lost), (None, None));
            assert_eq!((ended(), watch.is_open()), (before + 1.0, false));
        }
    });
}
