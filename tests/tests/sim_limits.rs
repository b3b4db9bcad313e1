//! How many streams there may be, that every lease comes back, and what is counted.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_tests::sim::{
    Item, Request, Response, Setup, Stream, World, run,
    world::{ADMIN, at_ms, exec},
};
use hangar_transports::Settings;
use serde_json::{Value, json};

fn settings(stream_max_per_token: usize, stream_max_total: usize) -> Setup {
    let settings = Settings { stream_max_per_token, stream_max_total, ..Settings::default() };
    Setup { settings, ..Setup::default() }
}

async fn hang(world: &World, token: &str) -> Stream {
    world.stream_as(token, json!({ "command": "hang" })).await
}

/// Asks for one stream too many.
async fn refused(world: &World, token: &str) -> Response {
    let request = exec(token, &json!({ "command": "exit 0" }), true);
    let response = world.client().call(&request).await.unwrap();
    assert_eq!(response.refusal(), (429, "too_many_streams".to_owned(), String::new()));
    response
}

fn scope(response: &Response) -> Value {
    response.json()["error"]["scope"].clone()
}

#[test]
fn a_token_has_so_many_streams_and_no_more() {
    run(settings(2, 512), async |world: &World| {
        let (_, other) = world.token(json!({ "scope": "user" })).await;
        let first = hang(world, ADMIN).await;
        let _second = hang(world, ADMIN).await;
        assert_eq!(scope(&refused(world, ADMIN).await), "token");
        // Another token has its own, and what is not streamed is no stream.
        let _theirs = hang(world, &other).await;
        let body = json!({ "command": "exit 0" });
        assert_eq!(world.api("POST", "/api/sandboxes/box/exec", Some(body)).await.status, 200);
        assert_eq!((world.plane.streams().leased(), world.sandbox.records().len()), (3, 4));
        drop(first);
        world.sleep_ms(1).await;
        let _third = hang(world, ADMIN).await;
        assert_eq!(scope(&refused(world, ADMIN).await), "token");
    });
}

#[test]
fn there_are_so_many_streams_in_all() {
    run(settings(2, 3), async |world: &World| {
        let (_, other) = world.token(json!({ "scope": "user" })).await;
        let mut open = vec![hang(world, ADMIN).await, hang(world, ADMIN).await, hang(world, &other).await];
        assert_eq!(scope(&refused(world, &other).await), "total");
        // Both are reached: the token's own is the one that it can do something about.
        assert_eq!(scope(&refused(world, ADMIN).await), "token");
        open.pop();
        world.sleep_ms(1).await;
        let _again = hang(world, &other).await;
    });
}

#[test]
fn the_defaults_are_sixteen_and_five_hundred_and_twelve() {
    run(Setup::default(), async |world: &World| {
        let mut open = Vec::new();
        for _ in 0..32 {
            let (_, token) = world.token(json!({ "scope": "user" })).await;
            for _ in 0..16 {
                open.push(hang(world, &token).await);
            }
            assert_eq!(scope(&refused(world, &token).await), "token");
        }
        assert_eq!(scope(&refused(world, ADMIN).await), "total");
    });
}

/// How a stream comes to its end, and the reason that is counted.
const ENDS: [(&str, &str, &str); 13] = [
    ("done", "sleep 100; exit 0", "done"),
    ("signal", "sleep 100; signal 9", "done"),
    ("lost", "sleep 100; fail", "error"),
    ("not started", "start-fail 127 bash: x: command not found", "done"),
    ("timed out", "out a; hang", "done"),
    ("drained", "sleep 100; hold 60000; exit 0", "done"),
    ("dropped", "out a; hang", "client"),
    ("cut", "out a; hang", "client"),
    ("half-closed", "out a; hang", "client"),
    ("revoked", "out a; hang", "revoked"),
    ("paused", "out a; hang", "paused"),
    ("destroyed", "out a; hang", "destroyed"),
    ("shutdown", "out a; hang", "shutdown"),
];

#[test]
fn the_lease_comes_back_after_every_kind_of_end() {
    for (how, script, reason) in ENDS {
        run(settings(1, 1), async |world: &World| {
            let (id, token) = world.token(json!({ "scope": "user" })).await;
            let mut stream = world.stream_as(&token, json!({ "command": script, "timeout": 4 })).await;
            if how != "not started" {
                assert_eq!(world.plane.streams().leased(), 1, "{how}");
                assert_eq!(world.metric("hangar_streams_open{kind=\"exec\"}"), 1.0);
            }
            world.sleep_until_ms(500).await;
            match how {
                "dropped" => drop(stream),
                "cut" => stream.cutter().cut(),
                "half-closed" => stream.client().half_close().await,
                "revoked" => {
                    assert_eq!(world.api("DELETE", &format!("/api/tokens/{id}"), None).await.status, 204)
                }
                "paused" => assert_eq!(world.api("POST", "/api/sandboxes/box/pause", None).await.status, 200),
                "destroyed" => assert_eq!(world.api("DELETE", "/api/sandboxes/box", None).await.status, 204),
                "shutdown" => world.shut_down(),
                _ => assert!(stream.read_to_end().await.is_ok(), "{how}"),
            }
            world.sleep_until_ms(5_000).await;
            assert_eq!(world.plane.streams().leased(), 0, "{how}");
            assert_eq!(world.metric("hangar_streams_open{kind=\"exec\"}"), 0.0, "{how}");
            assert_eq!(world.ended(reason), 1.0, "{how}");
            let text = world.plane.metrics().text();
            let ended: Vec<&str> =
                text.lines().filter(|line| line.starts_with("hangar_streams_total{")).collect();
            assert_eq!(ended.len(), 1, "{how}: {ended:?}");
            if matches!(how, "revoked" | "paused" | "destroyed" | "shutdown") {
                return;
            }
            // And can be had again.
            let again = world.stream_as(&token, json!({ "command": "exit 0" })).await.read_to_end().await;
            assert_eq!(again.unwrap().result["exit_code"], 0, "{how}");
        });
    }
}

#[test]
fn a_refused_start_gives_its_lease_back() {
    run(settings(1, 1), async |world: &World| {
        for _ in 0..3 {
            let body = json!({ "command": "start-delay 100; start-error processes" });
            let refused = world.client().call(&exec(ADMIN, &body, true)).await.unwrap();
            assert_eq!(refused.status, 503);
            assert_eq!(world.plane.streams().leased(), 0);
        }
        assert_eq!(world.plane.metrics().text().matches("hangar_streams_total{").count(), 0);
    });
}

#[test]
fn a_lease_is_held_while_the_command_starts() {
    run(settings(1, 1), async |world: &World| {
        let mut client = world.client();
        let body = json!({ "command": "start-delay 1000; exit 0" });
        client.send(&exec(ADMIN, &body, true).bytes()).await.unwrap();
        world.sleep_until_ms(500).await;
        refused(world, ADMIN).await;
        assert_eq!(client.response().await.unwrap().status, 200);
        assert_eq!((world.now(), world.plane.streams().leased()), (at_ms(1_000), 0));
    });
}

#[test]
fn what_was_streamed_is_counted() {
    run(Setup::default(), async |world: &World| {
        let (_, token) = world.token(json!({ "scope": "metrics" })).await;
        world.stream("sleep 100; out €; err abc; exit 0").await.read_to_end().await.unwrap();
        world.stream("exit 0").await.read_to_end().await.unwrap();
        let mut open = world.stream("sleep 300; flood 1000; hang").await;
        assert!(matches!(open.next_event().await, Ok(Some(Item::Stdout(_)))));
        let response = world.client().call(&Request::new("GET", "/metrics").bearer(&token)).await.unwrap();
        assert_eq!(response.status, 200);
        assert!(response.header("content-type").unwrap().starts_with("text/plain"), "{response:?}");
        let text = String::from_utf8(response.body.to_vec()).unwrap();
        for line in [
            "hangar_streams_open{kind=\"exec\"} 1",
            "hangar_streams_total{kind=\"exec\",reason=\"done\"} 2",
            // Of those that ended.
            "hangar_stream_bytes_total{kind=\"exec\"} 6",
            "hangar_stream_first_output_seconds_count{kind=\"exec\"} 2",
            "hangar_stream_first_output_seconds_bucket{kind=\"exec\",le=\"0.05\"} 0",
            "hangar_stream_first_output_seconds_bucket{kind=\"exec\",le=\"0.1\"} 1",
            "hangar_stream_first_output_seconds_bucket{kind=\"exec\",le=\"0.5\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        drop(open);
        world.sleep_ms(1).await;
        assert_eq!(world.metric("hangar_stream_bytes_total{kind=\"exec\"}"), 1_006.0);
    });
}
