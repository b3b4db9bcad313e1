//! What ends a stream from the server's side: what the client is told, and what becomes of the command.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_core::process::Exit;
use hangar_tests::sim::{
    Request, Setup, World, run,
    world::{ADMIN, at_ms, exec},
};
use serde_json::{Value, json};

const TERM: u8 = 15;
const KILL: u8 = 9;

async fn delete(world: &World, path: &str) -> u16 {
    world.api("DELETE", path, None).await.status
}

async fn post(world: &World, path: &str) -> u16 {
    world.api("POST", path, None).await.status
}

/// A task that reads a stream to its end.
macro_rules! reading {
    ($world:expr, $stream:expr) => {{
        let mut stream = $stream;
        $world.runtime.task(async move { stream.read_to_end().await.unwrap() })
    }};
}

/// The result of a stream that was closed while its command ran.
fn check_closed(result: &Value, reason: &str, ms: u64) {
    // What is killed by the same reason may end before this is told.
    let mut result = result.clone();
    if reason == "revoked" {
        result.as_object_mut().unwrap().remove("signal");
    }
    let expected = json!({
        "exit_code": null, "stdout": "a", "stderr": "", "streamed": true, "duration_ms": ms, "closed": reason,
    });
    assert_eq!(result, expected);
}

#[test]
fn a_revoked_token_ends_its_streams_and_kills_its_commands() {
    run(Setup::default(), async |world: &World| {
        let (id, token) = world.token(json!({ "scope": "user" })).await;
        let (_, other) = world.token(json!({ "scope": "user" })).await;
        let stream = world.stream_as(&token, json!({ "command": "out a; ignore-term; hang" })).await;
        let reading = reading!(world, stream);
        let other =
            reading!(world, world.stream_as(&other, json!({ "command": "sleep 9000; exit 0" })).await);
        world.sleep_until_ms(2_000).await;
        assert_eq!(delete(world, &format!("/api/tokens/{id}")).await, 204);
        let transcript = reading.await;
        assert_eq!(transcript.ended_at, at_ms(2_000));
        check_closed(&transcript.result, "revoked", 2_000);
        world.sleep_until_ms(6_000).await;
        let record = &world.sandbox.records()[0];
        assert_eq!((&record.terminated_at, &record.swept_at), (&vec![at_ms(2_000)], &vec![at_ms(5_000)]));
        assert_eq!(record.exited, Some((at_ms(5_000), Exit::Signal(KILL))));
        assert_eq!(world.ended("revoked"), 1.0);
        let refused =
            world.client().call(&exec(&token, &json!({ "command": "exit 0" }), true)).await.unwrap();
        assert_eq!(refused.refusal(), (401, "unauthorized".to_owned(), String::new()));
        assert_eq!(other.await.result["exit_code"], 0);
    });
}

#[test]
fn an_expired_token_is_seen_by_the_next_recheck() {
    run(Setup::default(), async |world: &World| {
        let (_, token) = world.token(json!({ "scope": "user", "ttl": 7 })).await;
        let stream = world.stream_as(&token, json!({ "command": "out a; hang" })).await;
        let transcript = reading!(world, stream).await;
        // Rechecked every 5 s.
        assert_eq!(transcript.ended_at, at_ms(10_000));
        check_closed(&transcript.result, "revoked", 10_000);
        assert_eq!(world.sandbox.record().exited, Some((at_ms(10_000), Exit::Signal(TERM))));
        assert_eq!(world.ended("revoked"), 1.0);
    });
}

#[test]
fn a_token_expires_by_the_wall_clock_and_nothing_else_does() {
    run(Setup::default(), async |world: &World| {
        let (_, token) = world.token(json!({ "scope": "user", "ttl": 3600 })).await;
        let short = world.stream_as(&token, json!({ "command": "out a; hang" })).await;
        let short = reading!(world, short);
        let body = json!({ "command": "sleep 20000; out a; exit 0", "timeout": 30 });
        let long = reading!(world, world.stream_as(ADMIN, body).await);
        world.sleep_until_ms(6_000).await;
        world.runtime.clock().jump_wall(3_600_000);
        assert_eq!(short.await.ended_at, at_ms(10_000));
        world.runtime.clock().jump_wall(-86_400_000);
        let long = long.await;
        assert_eq!((long.ended_at, &long.result["duration_ms"]), (at_ms(20_000), &json!(20_000)));
    });
}

#[test]
fn a_destroyed_sandbox_ends_its_streams_and_its_commands() {
    run(Setup::default(), async |world: &World| {
        let reading = reading!(world, world.stream("out a; ignore-term; hang").await);
        world.sleep_until_ms(2_000).await;
        assert_eq!(delete(world, "/api/sandboxes/box").await, 204);
        assert_eq!(world.now(), at_ms(5_000), "it was waited for what is in it");
        let transcript = reading.await;
        assert_eq!(transcript.ended_at, at_ms(2_000));
        check_closed(&transcript.result, "destroyed", 2_000);
        let record = world.sandbox.record();
        // By the destroy, not by the stream.
        assert_eq!((record.terminated_at, record.swept_at), (vec![at_ms(2_000)], vec![at_ms(5_000)]));
        assert_eq!(world.ended("destroyed"), 1.0);
        let refused =
            world.api("POST", "/api/sandboxes/box/exec", Some(json!({ "command": "exit 0" }))).await;
        assert_eq!(refused.refusal(), (404, "not_found".to_owned(), String::new()));
    });
}

#[test]
fn a_paused_sandbox_ends_its_streams_and_its_commands_go_on_after_it() {
    run(Setup::default(), async |world: &World| {
        let reading = reading!(world, world.stream("out a; sleep 5000; exit 4").await);
        world.sleep_until_ms(2_000).await;
        assert_eq!(post(world, "/api/sandboxes/box/pause").await, 200);
        let transcript = reading.await;
        assert_eq!(transcript.ended_at, at_ms(2_000));
        check_closed(&transcript.result, "paused", 2_000);
        let body = json!({ "command": "exit 0" });
        for path in ["/api/sandboxes/box/exec", "/api/sandboxes/box/exec/stream"] {
            let refused = world.api("POST", path, Some(body.clone())).await;
            assert_eq!(refused.refusal(), (409, "sandbox_paused".to_owned(), String::new()));
        }
        world.sleep_until_ms(10_000).await;
        assert_eq!(post(world, "/api/sandboxes/box/resume").await, 200);
        assert_eq!(world.stream("exit 7").await.read_to_end().await.unwrap().result["exit_code"], 7);
        world.sleep_until_ms(14_000).await;
        let record = &world.sandbox.records()[0];
        assert_eq!((&record.terminated_at, record.exited), (&vec![], Some((at_ms(13_000), Exit::Code(4)))));
        assert_eq!((world.ended("paused"), world.ended("done")), (1.0, 1.0));
    });
}

#[test]
fn what_is_paused_can_be_destroyed_and_times_out() {
    run(Setup::default(), async |world: &World| {
        let body = json!({ "command": "out a; hang", "timeout": 4 });
        let reading = reading!(world, world.stream_as(ADMIN, body).await);
        let unlimited = reading!(world, world.stream("out a; hang").await);
        world.sleep_until_ms(2_000).await;
        assert_eq!(post(world, "/api/sandboxes/box/pause").await, 200);
        world.sleep_until_ms(6_000).await;
        assert_eq!(delete(world, "/api/sandboxes/box").await, 204);
        let exits: Vec<_> = world.sandbox.records().iter().map(|record| record.exited).collect();
        let at = |ms| Some((at_ms(ms), Exit::Signal(TERM)));
        assert_eq!(exits, [at(4_000), at(6_000)]);
        assert_eq!((reading.await.ended_at, unlimited.await.ended_at), (at_ms(2_000), at_ms(2_000)));
    });
}

#[test]
fn a_shutdown_ends_streams_at_once_and_waits_for_their_commands() {
    run(Setup::default(), async |world: &World| {
        let reading = reading!(world, world.stream("out a; sleep 5000; exit 0").await);
        let mut idle = world.client();
        idle.call(&Request::new("GET", "/healthz")).await.unwrap();
        world.sleep_until_ms(2_000).await;
        world.shut_down();
        let transcript = reading.await;
        assert_eq!(transcript.ended_at, at_ms(2_000));
        check_closed(&transcript.result, "shutdown", 2_000);
        // New ones are refused, on old connections and on new ones, until it is over.
        for request in [
            exec(ADMIN, &json!({ "command": "exit 0" }), true),
            exec(ADMIN, &json!({ "command": "exit 0" }), false),
            Request::new("GET", "/healthz"),
            Request::new("POST", "/api/sandboxes").bearer(ADMIN).json(&json!({})),
        ] {
            for client in [&mut idle, &mut world.client()] {
                let refused = client.call(&request).await.unwrap();
                assert_eq!(refused.refusal(), (503, "shutting_down".to_owned(), String::new()));
                assert_eq!(refused.header("retry-after"), Some("1"));
            }
        }
        drop(idle);
        world.sleep_until_ms(6_000).await;
        assert_eq!(world.sandbox.record().exited, Some((at_ms(5_000), Exit::Code(0))));
        let (at, killed) = world.server_ended().unwrap();
        assert!(at <= at_ms(5_030) && killed == 0, "{at:?}");
        assert_eq!(world.ended("shutdown"), 1.0);
    });
}

#[test]
fn what_does_not_end_within_the_drain_is_killed() {
    run(Setup::default(), async |world: &World| {
        let reading = reading!(world, world.stream("out a; ignore-term; hang").await);
        world.sleep_until_ms(2_000).await;
        world.shut_down();
        check_closed(&reading.await.result, "shutdown", 2_000);
        world.sleep_until_ms(20_000).await;
        let record = world.sandbox.record();
        assert_eq!((record.terminated_at, record.swept_at), (vec![at_ms(12_000)], vec![at_ms(15_000)]));
        assert_eq!(world.server_ended(), Some((at_ms(15_000), 1)));
    });
}

#[test]
fn a_second_signal_ends_the_drain() {
    run(Setup::default(), async |world: &World| {
        let reading = reading!(world, world.stream("out a; hang").await);
        world.sleep_until_ms(2_000).await;
        world.shut_down();
        world.sleep_until_ms(3_000).await;
        world.hurry();
        reading.await;
        world.sleep_until_ms(4_000).await;
        let at = world.sandbox.record().terminated_at[0];
        assert!(at_ms(3_000) <= at && at <= at_ms(3_020), "{at:?}");
        assert_eq!(world.server_ended().map(|(_, killed)| killed), Some(1));
    });
}

#[test]
fn a_sandbox_elsewhere_outlives_the_server() {
    let setup = Setup { ends_with_server: false, ..Setup::default() };
    run(setup, async |world: &World| {
        let reading = reading!(world, world.stream("out a; sleep 60000; exit 0").await);
        world.sleep_until_ms(2_000).await;
        world.shut_down();
        check_closed(&reading.await.result, "shutdown", 2_000);
        world.sleep_until_ms(70_000).await;
        let (at, killed) = world.server_ended().unwrap();
        assert!(at <= at_ms(2_030) && killed == 0, "{at:?}");
        let record = world.sandbox.record();
        assert_eq!((record.exited, record.terminated_at), (Some((at_ms(60_000), Exit::Code(0))), vec![]));
    });
}

/// Ends a stream for a reason.
async fn end(world: &World, token: &str, reason: &str) {
    match reason {
        "revoked" => assert_eq!(delete(world, &format!("/api/tokens/{token}")).await, 204),
        "destroyed" => assert_eq!(delete(world, "/api/sandboxes/box").await, 204),
        "paused" => assert_eq!(post(world, "/api/sandboxes/box/pause").await, 200),
        "shutdown" => world.shut_down(),
        other => panic!("{other}"),
    }
}

#[test]
fn of_several_reasons_the_first_in_their_order_is_told() {
    const ORDER: [&str; 4] = ["revoked", "destroyed", "paused", "shutdown"];
    for (i, first) in ORDER.into_iter().enumerate() {
        for second in ORDER.into_iter().skip(i + 1) {
            for (one, other) in [(first, second), (second, first)] {
                // What is destroyed cannot be paused, and a server that ends answers nobody.
                if (one, other) == ("destroyed", "paused") {
                    continue;
                }
                run(Setup::default(), async |world: &World| {
                    let (id, token) = world.token(json!({ "scope": "user" })).await;
                    // It does not read, so that its stream hears of both at once.
                    let mut stream =
                        world.stream_as(&token, json!({ "command": "flood 3000000; hang" })).await;
                    let ends = [(2_000, one), (2_200, other)].map(|(at, reason)| {
                        let (world, id) = (world.clone(), id.clone());
                        // A destroy waits for what the client has not read.
                        world.runtime.clone().task(async move {
                            world.sleep_until_ms(at).await;
                            end(&world, &id, reason).await;
                        })
                    });
                    world.sleep_until_ms(2_500).await;
                    let transcript = stream.read_to_end().await;
                    let transcript = transcript.unwrap_or_else(|end| panic!("{one}, then {other}: {end:?}"));
                    assert_eq!(transcript.result["closed"], first, "{one}, then {other}");
                    assert_eq!(world.ended(first), 1.0);
                    for end in ends {
                        end.await;
                    }
                });
            }
        }
    }
}

#[test]
fn an_end_of_its_own_yields_to_what_comes_before_it_in_the_order() {
    run(Setup::default(), async |world: &World| {
        let mut stream = world.stream("flood 400000; exit 3").await;
        world.sleep_until_ms(2_000).await;
        world.shut_down();
        world.sleep_until_ms(2_500).await;
        let result = stream.read_to_end().await.unwrap().result;
        assert_eq!((&result["closed"], &result["exit_code"]), (&json!("shutdown"), &json!(3)));
    });
}

#[test]
fn what_ends_while_the_command_starts_ends_its_stream() {
    for reason in ["revoked", "destroyed", "paused", "shutdown"] {
        run(Setup::default(), async |world: &World| {
            let (id, token) = world.token(json!({ "scope": "user" })).await;
            let request = exec(&token, &json!({ "command": "start-delay 1000; hang" }), true);
            let mut client = world.client();
            client.send(&request.bytes()).await.unwrap();
            world.sleep_until_ms(500).await;
            end(world, &id, reason).await;
            let response = client.response().await.unwrap();
            assert_eq!((response.status, world.now()), (200, at_ms(1_000)), "{response:?}");
            let body = String::from_utf8(response.body.to_vec()).unwrap();
            assert!(body.contains(&format!("\"closed\":\"{reason}\"")), "{reason}: {body}");
            world.sleep_until_ms(1_100).await;
            let killed = world.sandbox.record().terminated_at == [at_ms(1_000)];
            assert_eq!(killed, matches!(reason, "revoked" | "destroyed"));
            assert_eq!(world.ended(reason), 1.0);
        });
    }
}
