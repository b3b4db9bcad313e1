//! A command whose result is waited for, without a stream.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_core::process::Exit;
use hangar_tests::sim::{
    Client, Setup, World, run,
    script::pattern,
    world::{ADMIN, at_ms, exec},
};
use serde_json::{Value, json};

/// Asks for a command, and does not wait.
async fn asked(world: &World, token: &str, body: Value) -> Client {
    let mut client = world.client();
    client.send(&exec(token, &body, false).bytes()).await.unwrap();
    client
}

async fn result(world: &World, body: Value) -> Value {
    let response = asked(world, ADMIN, body).await.response().await.unwrap();
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
    response.json()
}

#[test]
fn the_result_comes_at_the_end_with_all_of_it() {
    run(Setup::default(), async |world: &World| {
        let body = json!({ "command": "out a; sleep 1000; err b; out c; exit 3" });
        let expected = json!({
            "exit_code": 3, "stdout": "ac", "stderr": "b", "streamed": false, "duration_ms": 1_000,
        });
        assert_eq!(result(world, body).await, expected);
        assert_eq!(world.now(), at_ms(1_000));
        let metrics = world.plane.metrics().text();
        assert!(!metrics.contains("kind=\"exec\""), "it is no open stream: {metrics}");
    });
}

#[test]
fn it_is_neither_paced_nor_capped_nor_slowed_by_anybody() {
    run(Setup::default(), async |world: &World| {
        let result = result(world, json!({ "command": "flood 4000000; exit 0" })).await;
        let all = pattern(4_000_000);
        assert_eq!(result["stdout"].as_str().unwrap().as_bytes(), &all[4_000_000 - 262_144..]);
        assert_eq!((&result["stdout_truncated"], result.get("output_capped")), (&json!(true), None));
        assert_eq!(world.now(), at_ms(0));
    });
}

#[test]
fn it_runs_on_when_its_client_leaves() {
    for how in ["drop", "half-close", "cut"] {
        run(Setup::default(), async |world: &World| {
            let mut client = asked(world, ADMIN, json!({ "command": "out a; sleep 5000; exit 0" })).await;
            world.sleep_until_ms(1_000).await;
            match how {
                "drop" => drop(client),
                "half-close" => client.half_close().await,
                _ => client.cutter().cut(),
            }
            world.sleep_until_ms(6_000).await;
            let record = world.sandbox.record();
            assert_eq!(
                (record.terminated_at, record.exited),
                (vec![], Some((at_ms(5_000), Exit::Code(0)))),
                "{how}"
            );
            assert_eq!(world.plane.streams().len(), 0);
        });
    }
}

#[test]
fn it_has_its_timeout_although_its_client_left() {
    run(Setup::default(), async |world: &World| {
        let client = asked(world, ADMIN, json!({ "command": "hang", "timeout": 3 })).await;
        world.sleep_until_ms(100).await;
        drop(client);
        world.sleep_until_ms(4_000).await;
        assert_eq!(world.sandbox.record().exited, Some((at_ms(3_000), Exit::Signal(15))));
    });
    run(Setup::default(), async |world: &World| {
        let result = result(world, json!({ "command": "out a; hang", "timeout": 3 })).await;
        let expected = json!({
            "exit_code": null, "signal": "SIGTERM", "timed_out": true,
            "stdout": "a", "stderr": "", "streamed": false, "duration_ms": 3_000,
        });
        assert_eq!(result, expected);
    });
}

#[test]
fn a_held_output_is_waited_for_two_seconds() {
    run(Setup::default(), async |world: &World| {
        let result = result(world, json!({ "command": "out a; hold 9000; exit 0" })).await;
        assert_eq!((&result["drain_timed_out"], &result["duration_ms"]), (&json!(true), &json!(2_000)));
        world.sleep_until_ms(10_000).await;
    });
}

#[test]
fn a_revoked_token_kills_it_whether_or_not_anybody_waits() {
    for waits in [true, false] {
        run(Setup::default(), async |world: &World| {
            let (id, token) = world.token(json!({ "scope": "user" })).await;
            let mut client = asked(world, &token, json!({ "command": "out a; ignore-term; hang" })).await;
            world.sleep_until_ms(2_000).await;
            if !waits {
                client = world.client();
            }
            assert_eq!(world.api("DELETE", &format!("/api/tokens/{id}"), None).await.status, 204);
            if waits {
                let result = client.response().await.unwrap().json();
                assert_eq!((&result["closed"], &result["exit_code"]), (&json!("revoked"), &json!(null)));
                assert_eq!(world.now(), at_ms(2_000));
            }
            world.sleep_until_ms(6_000).await;
            let record = world.sandbox.record();
            assert_eq!((record.terminated_at, record.swept_at), (vec![at_ms(2_000)], vec![at_ms(5_000)]));
            assert_eq!(world.plane.streams().len(), 0);
        });
    }
}

#[test]
fn an_expired_token_kills_it_at_the_next_recheck() {
    run(Setup::default(), async |world: &World| {
        let (_, token) = world.token(json!({ "scope": "user", "ttl": 3 })).await;
        let mut client = asked(world, &token, json!({ "command": "hang" })).await;
        assert_eq!(client.response().await.unwrap().json()["closed"], "revoked");
        assert_eq!(world.now(), at_ms(5_000));
    });
}

#[test]
fn a_shutdown_a_pause_and_a_destroy_answer_at_once() {
    for reason in ["shutdown", "paused", "destroyed"] {
        run(Setup::default(), async |world: &World| {
            let mut client = asked(world, ADMIN, json!({ "command": "out a; sleep 4000; exit 0" })).await;
            world.sleep_until_ms(2_000).await;
            match reason {
                "shutdown" => world.shut_down(),
                "paused" => assert_eq!(world.api("POST", "/api/sandboxes/box/pause", None).await.status, 200),
                _ => assert_eq!(world.api("DELETE", "/api/sandboxes/box", None).await.status, 204),
            }
            let response = client.response().await.unwrap();
            let result = response.json();
            assert_eq!(
                (response.status, &result["closed"], &result["stdout"]),
                (200, &json!(reason), &json!("a"))
            );
            assert_eq!((world.now(), &result["exit_code"]), (at_ms(2_000), &json!(null)));
            world.sleep_until_ms(5_000).await;
            let exited = world.sandbox.record().exited;
            let expected = match reason {
                "shutdown" => Some((at_ms(4_000), Exit::Code(0))),
                "paused" => None,
                _ => Some((at_ms(2_000), Exit::Signal(15))),
            };
            assert_eq!(exited, expected);
        });
    }
}

#[test]
fn a_lost_command_is_told_as_lost() {
    run(Setup::default(), async |world: &World| {
        let result = result(world, json!({ "command": "out a; sleep 10; fail" })).await;
        assert_eq!((&result["closed"], &result["error"]["code"]), (&json!("error"), &json!("process_lost")));
        assert_eq!((&result["exit_code"], &result["stdout"]), (&json!(null), &json!("a")));
    });
}
