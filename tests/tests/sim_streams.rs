//! A streamed command, from its first byte to its result.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_core::Time;
use hangar_tests::sim::{
    Item, Setup, Stream, Transcript, World, run,
    script::pattern,
    world::{ADMIN, at_ms},
};
use hangar_transports::Settings;
use serde_json::{Value, json};

/// Everything that comes of a command.
fn transcript(body: Value) -> Transcript {
    transcript_with(Settings::default(), body)
}

fn transcript_with(settings: Settings, body: Value) -> Transcript {
    let mut transcript = Transcript::default();
    run(Setup { settings, ..Setup::default() }, async |world: &World| {
        transcript = world.stream_as(ADMIN, body).await.read_to_end().await.unwrap();
    });
    transcript
}

fn of(script: &str) -> Transcript {
    transcript(json!({ "command": script }))
}

fn text(text: &str) -> String {
    text.to_owned()
}

#[test]
fn output_comes_as_it_is_printed_and_in_its_order() {
    let transcript = of("out a\\n; sleep 100; err b\\n; out c\\n; sleep 100; out d; exit 3");
    let result = json!({
        "exit_code": 3, "stdout": "a\nc\nd", "stderr": "b\n", "streamed": true, "duration_ms": 200,
    });
    assert_eq!(
        transcript.items,
        [
            (at_ms(0), Item::Comment),
            (at_ms(0), Item::Stdout(text("a\n"))),
            (at_ms(100), Item::Stderr(text("b\n"))),
            (at_ms(100), Item::Stdout(text("c\n"))),
            (at_ms(200), Item::Stdout(text("d"))),
            (at_ms(200), Item::Result(result)),
        ]
    );
    assert_eq!(transcript.ended_at, at_ms(200));
}

#[test]
fn the_head_keeps_proxies_from_gathering_and_the_first_byte_comes_at_once() {
    run(Setup::default(), async |world: &World| {
        let mut stream = world.stream("sleep 60000; exit 0").await;
        let head = stream.head().clone();
        assert_eq!(head.status, 200);
        for (name, value) in [
            ("content-type", "text/event-stream"),
            ("cache-control", "no-cache, no-transform"),
            ("x-accel-buffering", "no"),
            ("transfer-encoding", "chunked"),
        ] {
            assert_eq!(head.header(name), Some(value), "{name}");
        }
        assert_eq!(stream.next().await, Ok(Some(Item::Comment)));
        assert_eq!(world.now(), at_ms(0));
    });
}

#[test]
fn a_comment_breaks_each_silence_of_fifteen_seconds() {
    let transcript = of("sleep 40000; out x; sleep 14999; out y; sleep 15001; exit 0");
    assert_eq!(transcript.comments(), [0, 15_000, 30_000, 69_999].map(at_ms));
    assert_eq!((transcript.stdout.as_str(), transcript.ended_at), ("xy", at_ms(70_000)));
}

#[test]
fn eleven_hours_of_silence_are_kept_alive() {
    let transcript = transcript(json!({ "command": "sleep 39610000; out x; exit 0", "timeout": 86_400 }));
    assert_eq!(transcript.comments().len(), 39_610 / 15 + 1);
    assert_eq!((transcript.stdout.as_str(), transcript.ended_at), ("x", at_ms(39_610_000)));
}

#[test]
fn no_character_is_cut() {
    let split = of("out \\xe2\\x82; err \\xac; sleep 300; out \\xac euro\\n; sleep 1; out end\\xf0\\x9f");
    assert_eq!(split.texts(), ["\u{FFFD}", "€ euro\n", "end", "\u{FFFD}"]);
    assert_eq!(split.items[2].0, at_ms(300));
    assert_eq!(split.result["stdout"], "€ euro\nend\u{FFFD}");
    // One for each maximal bad sequence.
    assert_eq!(of("out a\\xff\\xfe\\xe2\\x28b").stdout, "a\u{FFFD}\u{FFFD}\u{FFFD}(b");
}

#[test]
fn no_byte_is_changed() {
    let script = "out 10%\\x0d20%\\x0d\\n\\n; out \\x01\\x01\\x01A\\x02\\x02\\x02B\\x00\\x1b[0m\"\\\\; \
                  err line one\\x0devent: steal\\n\\ndata: x\\n\\n";
    let transcript = of(script);
    assert_eq!(transcript.stdout, "10%\r20%\r\n\n\x01\x01\x01A\x02\x02\x02B\0\x1b[0m\"\\");
    assert_eq!(transcript.stderr, "line one\revent: steal\n\ndata: x\n\n");
    assert_eq!(transcript.result["stdout"].as_str(), Some(transcript.stdout.as_str()));
    assert_eq!(transcript.result["stderr"].as_str(), Some(transcript.stderr.as_str()));
}

#[test]
fn base64_is_byte_for_byte() {
    let transcript = transcript(json!({ "command": "out \\xff\\x00\\xe2; err e", "encoding": "base64" }));
    let items: Vec<&Item> = transcript.items.iter().map(|(_, item)| item).collect();
    assert_eq!(items[1..3], [&Item::Base64("stdout", text("/wDi")), &Item::Base64("stderr", text("ZQ=="))]);
    assert_eq!(transcript.result["encoding"], "base64");
    assert_eq!(
        (&transcript.result["stdout"], &transcript.result["stderr"]),
        (&json!("/wDi"), &json!("ZQ=="))
    );
}

#[test]
fn an_end_is_told_as_it_was() {
    let ended = |script: &str, expected: Value| {
        let result = of(script).result;
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(result.get(name).unwrap_or(&Value::Null), value, "{name} of `{script}`: {result}");
        }
    };
    ended("exit 0", json!({ "exit_code": 0, "signal": null, "closed": null, "error": null }));
    ended("exit 255", json!({ "exit_code": 255, "signal": null }));
    ended("signal 9", json!({ "exit_code": null, "signal": "SIGKILL", "timed_out": null, "closed": null }));
    ended("signal 11", json!({ "exit_code": null, "signal": "SIGSEGV" }));
    ended("signal 35", json!({ "exit_code": null, "signal": "SIGRTMIN+1" }));
    ended("out a; fail", json!({ "exit_code": null, "signal": null, "closed": "error", "stdout": "a" }));
    assert_eq!(of("fail").result["error"]["code"], "process_lost");
    let not_found = "start-fail 127 bash: nonsense: command not found";
    ended(not_found, json!({ "exit_code": 127, "stderr": "bash: nonsense: command not found\n" }));
    ended("start-fail 126 bash: x: Permission denied", json!({ "exit_code": 126, "closed": null }));
}

#[test]
fn output_that_is_closed_early_does_not_end_the_command() {
    let transcript = of("out a; close; sleep 2000; exit 4");
    assert_eq!((transcript.ended_at, &transcript.result["exit_code"]), (at_ms(2_000), &json!(4)));
    assert_eq!(transcript.result.get("drain_timed_out"), None);
}

#[test]
fn a_timeout_ends_it_with_term() {
    run(Setup::default(), async |world: &World| {
        let body = json!({ "command": "out a; hang", "timeout": 2.5 });
        let transcript = world.stream_as(ADMIN, body).await.read_to_end().await.unwrap();
        assert_eq!(transcript.ended_at, at_ms(2_500));
        assert_eq!(transcript.result["timed_out"], true);
        assert_eq!(transcript.result["signal"], "SIGTERM");
        assert_eq!(transcript.result.get("closed"), None);
        assert_eq!(world.sandbox.record().terminated_at, [at_ms(2_500)]);
        assert_eq!(world.ended("done"), 1.0);
    });
}

#[test]
fn what_ignores_term_is_killed_three_seconds_later() {
    run(Setup::default(), async |world: &World| {
        let body = json!({ "command": "ignore-term; out a; hang", "timeout": 2 });
        let transcript = world.stream_as(ADMIN, body).await.read_to_end().await.unwrap();
        assert_eq!(transcript.ended_at, at_ms(5_000));
        assert_eq!(
            (&transcript.result["timed_out"], &transcript.result["signal"]),
            (&json!(true), &json!("SIGKILL"))
        );
        let record = world.sandbox.record();
        assert_eq!((record.terminated_at, record.swept_at), (vec![at_ms(2_000)], vec![at_ms(5_000)]));
    });
}

#[test]
fn a_member_of_the_group_that_ignores_term_is_killed_too() {
    run(Setup::default(), async |world: &World| {
        let body = json!({ "command": "linger; out a; hang", "timeout": 2 });
        let transcript = world.stream_as(ADMIN, body).await.read_to_end().await.unwrap();
        // The leader ended at 2 s; two more were waited for the output that the member holds open.
        assert_eq!(transcript.ended_at, at_ms(4_000));
        assert_eq!(transcript.result["signal"], "SIGTERM");
        assert_eq!(transcript.result["drain_timed_out"], true);
        world.sleep_until_ms(6_000).await;
        let record = world.sandbox.record();
        assert_eq!((record.swept_at, record.released_at), (vec![at_ms(5_000)], Some(at_ms(5_000))));
    });
}

#[test]
fn a_command_without_a_timeout_has_ten_minutes() {
    assert_eq!(of("hang").ended_at, at_ms(600_000));
}

#[test]
fn a_child_that_holds_the_output_is_waited_for_two_seconds() {
    run(Setup::default(), async |world: &World| {
        let transcript = world.stream("out done; hold 60000; exit 0").await.read_to_end().await.unwrap();
        assert_eq!(transcript.ended_at, at_ms(2_000));
        assert_eq!(transcript.result["drain_timed_out"], true);
        assert_eq!(
            (&transcript.result["exit_code"], &transcript.result["stdout"]),
            (&json!(0), &json!("done"))
        );
        // It is read on, so that the child gets no SIGPIPE, and nobody kills it.
        world.sleep_until_ms(70_000).await;
        let record = world.sandbox.record();
        assert_eq!((record.released_at, record.terminated_at), (Some(at_ms(60_000)), vec![]));
    });
    let in_time = of("out done; hold 1999; exit 0");
    assert_eq!((in_time.ended_at, in_time.result.get("drain_timed_out")), (at_ms(1_999), None));
}

#[test]
fn the_result_has_the_end_of_each_output() {
    let transcript = of("flood 300000; err x; exit 0");
    let all = pattern(300_000);
    assert_eq!(transcript.stdout.as_bytes(), &all[..]);
    assert_eq!(transcript.result["stdout"].as_str().unwrap().as_bytes(), &all[300_000 - 262_144..]);
    assert_eq!(transcript.result["stdout_truncated"], true);
    assert_eq!(
        (&transcript.result["stderr"], transcript.result.get("stderr_truncated")),
        (&json!("x"), None)
    );
}

/// What a message costs.
fn costs(transcript: &Transcript) -> Vec<(Time, u64)> {
    let texts = transcript.items.iter().filter_map(|(at, item)| match item {
        Item::Stdout(text) | Item::Stderr(text) => Some((*at, text.len() as u64 + 64)),
        Item::Comment | Item::Base64(..) | Item::Result(_) => None,
    });
    texts.collect()
}

/// Each message comes when the bucket allows it: neither earlier nor, where something waits, later.
fn check_pace(transcript: &Transcript, rate: u64, something_waits: bool) {
    let mut spent = 0;
    for (at, cost) in costs(transcript) {
        let earned = u128::from(rate) + u128::from(rate) * u128::from(at.as_nanos()) / 1_000_000_000;
        assert!(spent <= earned, "{spent} of {earned} at {at:?}");
        assert!(
            !something_waits || spent <= u128::from(rate) || spent + 2 >= earned,
            "late: {spent} of {earned}"
        );
        spent += u128::from(cost);
    }
}

#[test]
fn a_stream_is_paced_at_one_mebibyte_a_second() {
    let transcript = of("flood 4194304; exit 0");
    assert_eq!(transcript.stdout.as_bytes(), &pattern(4 << 20)[..]);
    check_pace(&transcript, 1 << 20, true);
    // One is the burst; the messages cost a little more than their bytes.
    let ended = transcript.ended_at;
    assert!(at_ms(2_950) < ended && ended < at_ms(3_020), "{ended:?}");
}

#[test]
fn a_byte_at_a_time_is_merged_when_it_is_too_much() {
    let settings = Settings { stream_bytes_per_second: 6_500, ..Settings::default() };
    let transcript = transcript_with(settings, json!({ "command": "drip 20000 1; exit 0" }));
    assert_eq!(transcript.stdout.as_bytes(), &pattern(20_000)[..]);
    check_pace(&transcript, 6_500, false);
    let messages = costs(&transcript).len();
    // Twenty seconds of 6,500 bytes a second, each message of about twelve of them.
    assert!((1_300..2_000).contains(&messages), "{messages}");
    assert!(transcript.ended_at < at_ms(20_100), "{:?}", transcript.ended_at);
}

#[test]
fn past_the_cap_nothing_more_is_sent_and_the_command_runs_on() {
    let settings = Settings { stream_max_bytes: 100_000, ..Settings::default() };
    let script = "flood 3000000; sleep 1000; out end; exit 6";
    let transcript = transcript_with(settings.clone(), json!({ "command": script }));
    assert_eq!(transcript.stdout.as_bytes(), &pattern(100_000)[..]);
    // What is not sent is not paced.
    assert_eq!(transcript.ended_at, at_ms(1_000));
    let result = &transcript.result;
    assert_eq!((&result["exit_code"], &result["output_capped"]), (&json!(6), &json!(true)));
    assert!(result["stdout"].as_str().unwrap().ends_with("187499\nend"));
    let slow = Settings { stream_bytes_per_second: 10_000, stream_max_bytes: 50_000, ..Settings::default() };
    let slow = transcript_with(slow, json!({ "command": "flood 3000000; exit 0" }));
    assert_eq!((slow.stdout.len(), costs(&slow).len()), (50_000, 2));
    assert_eq!(slow.ended_at, costs(&slow)[1].0);
    let exact = transcript_with(settings, json!({ "command": "flood 100000; exit 0" }));
    assert_eq!((exact.stdout.len(), exact.result.get("output_capped")), (100_000, None));
    let settings = Settings { stream_max_bytes: 4, ..Settings::default() };
    let cut = transcript_with(settings, json!({ "command": "out €\\xe2\\x82\\xacx; exit 0" }));
    assert_eq!((cut.stdout.as_str(), &cut.result["output_capped"]), ("€", &json!(true)));
}

#[test]
fn a_silent_command_past_its_cap_is_kept_alive() {
    let settings = Settings { stream_max_bytes: 1, ..Settings::default() };
    let transcript = transcript_with(settings, json!({ "command": "drip 40 1000; exit 0" }));
    assert_eq!((transcript.stdout.as_str(), transcript.comments().len()), ("0", 3));
}

#[test]
fn input_is_given_and_then_ended() {
    let given = transcript(json!({ "command": "cat; out .; exit 0", "stdin": "hello\n" }));
    assert_eq!((given.stdout.as_str(), given.ended_at), ("hello\n.", at_ms(0)));
    assert_eq!(of("cat; out .; exit 0").stdout, ".");
    assert_eq!(transcript(json!({ "command": "cat; out .; exit 0", "stdin": "" })).stdout, ".");
    let long = "0123456789".repeat(80_000);
    let cat = transcript(json!({ "command": "sleep 4000; cat; exit 0", "stdin": long }));
    assert_eq!(cat.stdout, long);
    // A command that reads none of it is not held up.
    assert_eq!(transcript(json!({ "command": "exit 2", "stdin": long })).result["exit_code"], 2);
}

#[test]
fn the_sandbox_gets_what_was_asked_for() {
    run(Setup::default(), async |world: &World| {
        let body = json!({
            "command": "exit 0", "cwd": "/srv", "env": { "A": "1", "B": "" }, "user": "nobody", "timeout": 7,
        });
        world.stream_as(ADMIN, body).await.read_to_end().await.unwrap();
        let spec = world.sandbox.record().spec;
        assert_eq!((spec.cwd.as_deref(), spec.user.as_deref()), (Some("/srv"), Some("nobody")));
        assert_eq!(spec.env.into_iter().collect::<Vec<_>>(), [(text("A"), text("1")), (text("B"), text(""))]);
        assert!(!spec.stdin.is_some() && spec.process.tty.is_none());
    });
}

#[test]
fn a_connection_takes_one_stream_after_another() {
    run(Setup::default(), async |world: &World| {
        let mut client = world.client();
        for code in 0..3 {
            let body = json!({ "command": format!("out {code}; sleep 20000; exit {code}") });
            let mut stream: Stream =
                client.stream(&hangar_tests::sim::world::exec(ADMIN, &body, true)).await.unwrap();
            let transcript = stream.read_to_end().await.unwrap();
            assert_eq!(transcript.result["exit_code"], code);
            client = stream.into_client();
        }
        assert_eq!((world.now(), world.server.connections()), (at_ms(60_000), 1));
    });
}
