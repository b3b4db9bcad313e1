//! Clients that leave, in every way there is, and clients that do not read.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_core::process::Exit;
use hangar_tests::sim::{
    End, Item, Setup, Stream, World,
    client::Request,
    run,
    sandbox::Record,
    script::pattern,
    world::{ADMIN, at_ms, exec},
};
use serde_json::json;

const TERM: u8 = 15;

/// Reads the start of a stream whose command printed something at once.
async fn opened(world: &World, script: &str) -> Stream {
    let mut stream = world.stream(script).await;
    assert!(matches!(stream.next_event().await, Ok(Some(Item::Stdout(_)))));
    stream
}

/// A command whose client left at 500 ms.
async fn check_killed(world: &World) -> Record {
    world.sleep_until_ms(1_000).await;
    let record = world.sandbox.record();
    assert_eq!(record.terminated_at, [at_ms(500)]);
    assert_eq!(record.exited, Some((at_ms(500), Exit::Signal(TERM))));
    assert_eq!(record.released_at, Some(at_ms(500)));
    assert_eq!((world.plane.streams().leased(), world.plane.streams().len()), (0, 0));
    assert_eq!((world.ended("client"), world.metric("hangar_stream_bytes_total{kind=\"exec\"}")), (1.0, 1.0));
    record
}

#[test]
fn a_client_that_goes_away_takes_its_command_with_it() {
    run(Setup::default(), async |world: &World| {
        let stream = opened(world, "out a; hang").await;
        assert_eq!(world.plane.streams().leased(), 1);
        world.sleep_until_ms(500).await;
        drop(stream);
        check_killed(world).await;
        assert_eq!(world.server.connections(), 0);
    });
}

#[test]
fn a_connection_that_is_cut_takes_its_command_with_it() {
    run(Setup::default(), async |world: &World| {
        let mut stream = opened(world, "out a; hang").await;
        world.sleep_until_ms(500).await;
        stream.cutter().cut();
        assert_eq!(stream.next().await, Err(End::Reset));
        check_killed(world).await;
    });
}

#[test]
fn a_client_that_half_closes_has_left() {
    run(Setup::default(), async |world: &World| {
        let mut stream = opened(world, "out a; hang").await;
        world.sleep_until_ms(500).await;
        stream.client().half_close().await;
        check_killed(world).await;
        assert_eq!(stream.next().await, Err(End::Eof));
    });
}

#[test]
fn a_flood_whose_client_goes_away_is_killed_at_once() {
    run(Setup::default(), async |world: &World| {
        let stream = world.stream("flood 5000000; exit 0").await;
        world.sleep_until_ms(500).await;
        // What it was sent and did not read is answered with a reset.
        drop(stream);
        world.sleep_until_ms(501).await;
        assert_eq!(world.sandbox.record().exited, Some((at_ms(500), Exit::Signal(TERM))));
        assert_eq!(world.ended("client"), 1.0);
    });
}

#[test]
fn what_ignores_term_is_killed_although_nobody_waits() {
    run(Setup::default(), async |world: &World| {
        let stream = opened(world, "out a; ignore-term; flood 5000000; exit 0").await;
        world.sleep_until_ms(500).await;
        drop(stream);
        world.sleep_until_ms(600).await;
        assert_eq!(world.plane.streams().leased(), 0, "the lease does not wait for the command");
        world.sleep_until_ms(4_000).await;
        let record = world.sandbox.record();
        // Nobody slows it any more: it was through in no time.
        assert_eq!(
            (record.terminated_at, record.exited),
            (vec![at_ms(500)], Some((at_ms(500), Exit::Code(0))))
        );
    });
}

#[test]
fn a_client_that_leaves_while_its_command_starts_leaves_nothing_behind() {
    for half_close in [false, true] {
        run(Setup::default(), async |world: &World| {
            let mut client = world.client();
            let request = exec(ADMIN, &json!({ "command": "start-delay 1000; out a; hang" }), true);
            client.send(&request.bytes()).await.unwrap();
            world.sleep_until_ms(500).await;
            if half_close {
                client.half_close().await;
            } else {
                client.cutter().cut();
            }
            world.sleep_until_ms(501).await;
            assert_eq!(world.plane.streams().leased(), 0);
            world.sleep_until_ms(2_000).await;
            let record = world.sandbox.record();
            assert_eq!(
                (record.started_at, record.exited),
                (Some(at_ms(1_000)), Some((at_ms(1_000), Exit::Signal(TERM))))
            );
            // It never was an open stream.
            assert_eq!(world.ended("client"), 0.0);
        });
    }
}

#[test]
fn half_a_request_starts_nothing() {
    run(Setup::default(), async |world: &World| {
        let request = exec(ADMIN, &json!({ "command": "out a; hang" }), true).bytes();
        for len in [1, 40, request.len() - 1] {
            let mut client = world.client();
            client.send(&request[..len]).await.unwrap();
            world.sleep_ms(100).await;
            client.half_close().await;
            world.sleep_ms(100).await;
        }
        assert_eq!(world.sandbox.records().len(), 0);
        assert_eq!(world.server.connections(), 0);
    });
}

#[test]
fn a_request_may_come_a_byte_at_a_time() {
    run(Setup::default(), async |world: &World| {
        let request = exec(ADMIN, &json!({ "command": "out a; exit 0" }), true).bytes();
        let mut client = world.client();
        client.send_slowly(&request, 1, std::time::Duration::from_millis(20)).await.unwrap();
        let response = client.response().await.unwrap();
        assert!(response.body.starts_with(b":\n\nevent: stdout\n"), "{response:?}");
    });
}

#[test]
fn a_client_that_sent_more_and_leaves_is_noticed() {
    let whole = Request::new("GET", "/healthz").bytes();
    let much = vec![b'\n'; 50_000];
    for more in [&b"\r\n"[..], b"GET /healthz HTTP/1.1\r\n", &whole, &much] {
        for half_close in [false, true] {
            run(Setup::default(), async |world: &World| {
                let mut stream = opened(world, "out a; hang").await;
                stream.client().send(more).await.unwrap();
                world.sleep_until_ms(500).await;
                if half_close {
                    stream.client().half_close().await;
                    check_killed(world).await;
                } else {
                    drop(stream);
                    check_killed(world).await;
                }
            });
        }
    }
}

#[test]
fn a_request_that_came_in_the_middle_of_an_answer_is_answered_after_it() {
    run(Setup::default(), async |world: &World| {
        let mut client = world.client();
        let stream = exec(ADMIN, &json!({ "command": "out a; sleep 500; exit 0" }), true).bytes();
        let more = Request::new("GET", "/healthz").bytes();
        client.send(&[&stream[..], &more].concat()).await.unwrap();
        world.sleep_until_ms(100).await;
        client.send(&more.repeat(100)).await.unwrap();
        assert_eq!(client.response().await.unwrap().status, 200);
        for _ in 0..101 {
            assert_eq!(client.response().await.unwrap().status, 200);
        }
    });
}

/// A client that reads no more than the head, and how its stream begins.
async fn stalled(world: &World, body: serde_json::Value) -> Stream {
    world.stream_as(ADMIN, body).await
}

#[test]
fn a_stalled_client_slows_its_command_and_misses_nothing() {
    run(Setup::default(), async |world: &World| {
        let mut stream = stalled(world, json!({ "command": "flood 3000000; exit 5" })).await;
        world.sleep_until_ms(60_000).await;
        let record = world.sandbox.record();
        // In the socket, on the way to it, in the log and in the pipe: not more, however long it takes.
        assert!(record.printed < 650_000, "{}", record.printed);
        assert_eq!(record.exited, None);
        let transcript = stream.read_to_end().await.unwrap();
        assert_eq!(transcript.stdout.as_bytes(), &pattern(3_000_000)[..]);
        assert_eq!(transcript.result["exit_code"], 5);
        assert_eq!(transcript.result.get("timed_out"), None);
    });
}

#[test]
fn the_timeout_of_a_stalled_client_comes_on_time() {
    run(Setup::default(), async |world: &World| {
        let body = json!({ "command": "flood 3000000; exit 5", "timeout": 5 });
        let mut stream = stalled(world, body).await;
        world.sleep_until_ms(60_000).await;
        let record = world.sandbox.record();
        assert_eq!(record.exited, Some((at_ms(5_000), Exit::Signal(TERM))));
        // What it printed waits for the client: nothing is missing once it reads.
        let transcript = stream.read_to_end().await.unwrap();
        assert_eq!(transcript.stdout.as_bytes(), &pattern(record.printed)[..]);
        assert_eq!(
            (&transcript.result["timed_out"], &transcript.result["signal"]),
            (&json!(true), &json!("SIGTERM"))
        );
        assert_eq!(transcript.result.get("drain_timed_out"), None);
    });
}

#[test]
fn a_stalled_client_that_comes_back_after_the_exit_misses_nothing() {
    run(Setup::default(), async |world: &World| {
        // As much as fits on the way, so that the command ends while its client reads nothing.
        let mut stream = stalled(world, json!({ "command": "flood 400000; exit 5" })).await;
        world.sleep_until_ms(60_000).await;
        assert_eq!(world.sandbox.record().exited, Some((at_ms(0), Exit::Code(5))));
        let transcript = stream.read_to_end().await.unwrap();
        assert_eq!(transcript.stdout.as_bytes(), &pattern(400_000)[..]);
        assert_eq!(
            (&transcript.result["exit_code"], transcript.result.get("drain_timed_out")),
            (&json!(5), None)
        );
    });
}

#[test]
fn the_time_to_drain_counts_only_while_there_is_room() {
    // What a stalled client makes wait, all in all.
    let mut most = 0;
    run(Setup::default(), async |world: &World| {
        let _stream = stalled(world, json!({ "command": "flood 3000000; exit 0" })).await;
        world.sleep_ms(1_000).await;
        most = world.sandbox.record().printed;
    });
    run(Setup::default(), async |world: &World| {
        // The log is full, the rest is in the pipe, the command is gone, and a child holds the pipe.
        let len = most - 10_000;
        let script = format!("flood {len}; hold 60000; exit 0");
        let mut stream = stalled(world, json!({ "command": script })).await;
        world.sleep_until_ms(10_000).await;
        assert_eq!(world.sandbox.record().exited, Some((at_ms(0), Exit::Code(0))));
        let transcript = stream.read_to_end().await.unwrap();
        assert_eq!(transcript.stdout.as_bytes(), &pattern(len)[..]);
        assert_eq!(
            (transcript.ended_at, &transcript.result["drain_timed_out"]),
            (at_ms(12_000), &json!(true))
        );
    });
}

#[test]
fn a_stalled_client_is_revoked_on_time() {
    run(Setup::default(), async |world: &World| {
        let (id, token) = world.token(json!({ "scope": "user" })).await;
        let mut stream = world.stream_as(&token, json!({ "command": "flood 5000000; exit 0" })).await;
        world.sleep_until_ms(3_000).await;
        assert_eq!(world.api("DELETE", &format!("/api/tokens/{id}"), None).await.status, 204);
        world.sleep_until_ms(3_999).await;
        assert_eq!(world.sandbox.record().exited, Some((at_ms(3_000), Exit::Signal(TERM))));
        assert_eq!(world.plane.streams().leased(), 1);
        world.sleep_until_ms(4_001).await;
        assert_eq!((world.plane.streams().leased(), world.server.connections()), (0, 0));
        assert_eq!(world.sandbox.record().released_at, Some(at_ms(4_000)));
        assert_eq!((world.ended("revoked"), world.ended("client")), (1.0, 0.0));
        // What was on its way may still come; the result does not.
        let mut text = String::new();
        let end = loop {
            match stream.next_event().await {
                Ok(Some(Item::Stdout(piece))) => text += &piece,
                Ok(other) => panic!("{other:?}"),
                Err(end) => break end,
            }
        };
        assert_eq!((text.as_bytes(), end), (&pattern(text.len())[..], End::Eof));
    });
}

#[test]
fn a_result_that_a_stalled_client_does_not_take_goes_with_its_connection() {
    run(Setup::default(), async |world: &World| {
        let (id, token) = world.token(json!({ "scope": "user" })).await;
        // More than the socket takes, and less than the server holds ready for it: the stream itself can end.
        let body = json!({ "command": "flood 80000; hang" });
        let _stream = world.stream_as(&token, body).await;
        world.sleep_until_ms(3_000).await;
        assert_eq!(world.api("DELETE", &format!("/api/tokens/{id}"), None).await.status, 204);
        world.sleep_until_ms(3_999).await;
        assert_eq!((world.plane.streams().leased(), world.server.connections()), (0, 1));
        world.sleep_until_ms(4_001).await;
        assert_eq!((world.server.connections(), world.ended("revoked")), (0, 1.0));
    });
}

#[test]
fn a_stalled_client_does_not_hold_up_a_shutdown() {
    run(Setup::default(), async |world: &World| {
        let mut stream = stalled(world, json!({ "command": "flood 3000000; sleep 2000; exit 0" })).await;
        world.sleep_until_ms(3_000).await;
        world.shut_down();
        world.sleep_until_ms(4_001).await;
        assert_eq!((world.plane.streams().leased(), world.server.connections()), (0, 0));
        assert_eq!(world.ended("shutdown"), 1.0);
        // Its command runs on, and nobody slows it any more.
        world.sleep_until_ms(7_000).await;
        let record = world.sandbox.record();
        assert_eq!((record.exited, record.terminated_at), (Some((at_ms(6_000), Exit::Code(0))), vec![]));
        let (at, killed) = world.server_ended().unwrap();
        assert!(at <= at_ms(6_030) && killed == 0, "{at:?}");
        while matches!(stream.next_event().await, Ok(Some(Item::Stdout(_)))) {}
    });
}

#[test]
fn a_result_that_nobody_reads_does_not_hold_up_a_shutdown() {
    run(Setup::default(), async |world: &World| {
        // More than the socket takes, and less than the server holds ready for it.
        let _stream = stalled(world, json!({ "command": "flood 40000; exit 0" })).await;
        world.sleep_until_ms(3_000).await;
        assert_eq!((world.plane.streams().leased(), world.server.connections()), (0, 1));
        world.shut_down();
        world.sleep_until_ms(4_001).await;
        let (at, killed) = world.server_ended().unwrap();
        assert!(at <= at_ms(4_000) && killed == 0, "{at:?}");
        assert_eq!(world.server.connections(), 0);
    });
}

#[test]
fn a_stalled_client_costs_nobody_else_anything() {
    run(Setup::default(), async |world: &World| {
        let _stalled = stalled(world, json!({ "command": "flood 5000000; exit 0" })).await;
        let other = world.stream("drip 100 10; exit 0").await.read_to_end().await.unwrap();
        assert_eq!((other.ended_at, other.stdout.len()), (at_ms(1_000), 100));
    });
}
