//! Background processes over REST and events, on both runtimes.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use base64::prelude::{BASE64_STANDARD, Engine};
use hangar_core::wire::sse::Decoder;
use hangar_tests::{
    on_each,
    real::{Client, Gate, Mark, On, Options, wait_until},
};
use serde_json::{Value, json};
use std::{io::Read, time::Duration};

on_each! {
    who_comes_later_misses_nothing_that_is_kept
    what_is_gone_is_a_gap_of_its_size
    a_poll_waits_for_something
    a_kill_leaves_nothing
    a_hundred_starts_leave_no_zombie
    a_signal_reaches_the_group
    a_restart_is_another_process
    restarts_at_once_make_one_process
    a_command_that_cannot_start_has_failed
    nobody_else_sees_it
    a_revoked_token_loses_its_processes_and_an_expired_one_does_not
    as_many_run_as_may
    a_name_means_the_newest
    a_bad_request_names_its_field
    a_shutdown_ends_them;
    events_go_on_at_their_id
    input_is_read_and_ends
}

const PROCESSES: &str = "/api/sandboxes/local/processes";

fn poll(client: &Client, process: &str, query: &str) -> Value {
    let reply = client.get(&format!("{PROCESSES}/{process}{query}"));
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

/// The events of a stream to its end: name, id and data.
fn events(client: &Client, process: &str, query: &str) -> Vec<(String, String, Value)> {
    let path = format!("{PROCESSES}/{process}/stream{query}");
    let mut response = client.send("GET", &path, None).unwrap();
    assert_eq!(response.status, 200, "{}", response.head);
    let (mut decoder, mut all, mut bytes) = (Decoder::new(1 << 20), Vec::new(), [0; 4096]);
    loop {
        let len = response.read(&mut bytes).unwrap();
        if len == 0 {
            return all;
        }
        decoder.push(&bytes[..len]).unwrap();
        while let Some(event) = decoder.next_event() {
            let data = serde_json::from_str(&event.data).unwrap();
            all.push((event.name, event.id.to_string(), data));
        }
    }
}

fn who_comes_later_misses_nothing_that_is_kept(on: On) {
    let server = on.start();
    let client = server.client();
    let process = client.start_line("echo out; sleep 0.1; echo err >&2; sleep 0.1; echo end");
    wait_until("it ends", || client.show(&process)["status"] == "exited");
    let polled = poll(client, &process, "");
    assert_eq!(
        (&polled["output"], &polled["from"], &polled["next"]),
        (&"out\nerr\nend\n".into(), &0.into(), &12.into())
    );
    assert_eq!((&polled["state"], &polled["exit_code"]), (&"exited".into(), &0.into()));
    assert!(polled["finished_at_ms"].as_i64() >= polled["started_at_ms"].as_i64());
    let rest = poll(client, &process, "?since=4&encoding=base64");
    assert_eq!(BASE64_STANDARD.decode(rest["base64"].as_str().unwrap()).unwrap(), b"err\nend\n");
    let events = events(client, &process, "");
    let data: String = events.iter().filter_map(|(_, _, data)| data["data"].as_str()).collect();
    assert_eq!(data, "out\nerr\nend\n");
    let (name, _, end) = events.last().unwrap();
    assert_eq!((name.as_str(), end), ("end", &json!({ "exit_code": 0 })));
    let listed = client.get(PROCESSES).json();
    assert_eq!(listed["processes"][0]["process_id"], process.as_str());
}

fn what_is_gone_is_a_gap_of_its_size(on: On) {
    let server = on.start_with(Options::unpaced());
    let client = server.client();
    let request = json!({ "command": "seq 1 100000", "max_log_bytes": 1000 });
    let process = client.start(&request);
    wait_until("it ends", || client.show(&process)["status"] == "exited");
    let polled = poll(client, &process, "?since=0");
    let gap = &polled["gap"];
    assert_eq!((&gap["from_offset"], &gap["reason"]), (&0.into(), &"evicted".into()));
    assert_eq!((&gap["bytes"], &gap["to_offset"]), (&gap["to_offset"], &polled["from"]));
    let (output, next) = (polled["output"].as_str().unwrap(), polled["next"].as_u64().unwrap());
    assert_eq!(gap["bytes"].as_u64().unwrap() + output.len() as u64, next);
    assert!(output.ends_with("\n100000\n") && output.len() >= 1000);
    // Who did not ask for it is not told of it.
    assert_eq!(poll(client, &process, "")["gap"], Value::Null);
    let (name, id, data) = events(client, &process, "?since=5").remove(0);
    assert_eq!((name.as_str(), id, &data["from_offset"]), ("gap", data["to_offset"].to_string(), &5.into()));
}

fn events_go_on_at_their_id(on: On) {
    let server = on.start();
    let client = server.client();
    let gate = Gate::new();
    let process = client.start_line(&format!(
        "printf 'a\\xe2'; sleep 0.1; echo x >&2; {}; printf '\\x82\\xac!'",
        gate.wait()
    ));
    wait_until("it prints", || poll(client, &process, "")["next"] == 4);
    gate.open();
    wait_until("it ends", || client.show(&process)["status"] == "exited");
    let whole: String =
        events(client, &process, "").iter().filter_map(|(_, _, data)| data["data"].as_str()).collect();
    // In the order in which characters became whole.
    assert_eq!(whole, "ax\n€!");
    for since in 0..=7 {
        let rest = events(client, &process, &format!("?since={since}"));
        let text: String = rest.iter().filter_map(|(_, _, data)| data["data"].as_str()).collect();
        let expected = ["ax\n€!", "x\n€!", "x\n€!", "\n€!", "€!", "€!", "!", ""];
        assert_eq!(text, expected[since], "since {since}");
    }
}

fn a_poll_waits_for_something(on: On) {
    let server = on.start();
    let client = server.client();
    let gate = Gate::new();
    let process = client.start_line(&format!("{}; echo here; sleep 60", gate.wait()));
    let empty = poll(client, &process, "?wait_seconds=0.1");
    assert_eq!((&empty["output"], &empty["next"]), (&"".into(), &0.into()));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| poll(client, &process, "?wait_seconds=60"));
        wait_until("it waits", || server.plane().streams().leased() == 1);
        gate.open();
        assert_eq!(waiting.join().unwrap()["output"], "here\n");
    });
    assert_eq!(server.plane().streams().leased(), 0);
    if !on.is_local() {
        return;
    }
    // It does not outwait its sandbox.
    let next = poll(client, &process, "")["next"].as_u64().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| poll(client, &process, &format!("?since={next}&wait_seconds=60")));
        wait_until("it waits", || server.plane().streams().leased() == 1);
        assert_eq!(client.post("/api/sandboxes/local/pause", &json!({})).status, 200);
        assert_eq!(waiting.join().unwrap()["output"], "");
    });
    assert_eq!(client.post("/api/sandboxes/local/resume", &json!({})).status, 200);
    client.delete(&format!("{PROCESSES}/{process}"));
}

fn input_is_read_and_ends(on: On) {
    let server = on.start();
    let client = server.client();
    let process = client.start_line("cat; echo end");
    let input = |body: Value| client.post(&format!("{PROCESSES}/{process}/input"), &body);
    assert_eq!(input(json!({ "input": "hé\n" })).status, 204);
    assert_eq!(input(json!({ "base64": BASE64_STANDARD.encode(b"\xff\n") })).status, 204);
    assert_eq!(input(json!({ "input": "", "eof": true })).status, 204);
    wait_until("it ends", || client.show(&process)["status"] == "exited");
    let printed = poll(client, &process, "?encoding=base64");
    assert_eq!(
        BASE64_STANDARD.decode(printed["base64"].as_str().unwrap()).unwrap(),
        b"h\xc3\xa9\n\xff\nend\n"
    );
    assert_eq!(input(json!({ "input": "x" })).refusal(), (409, "process_exited".to_owned()));
    // One that runs on without its input: nothing more is taken and dropped.
    let ended = client.start_line("exec sleep 60");
    let more = |body: Value| client.post(&format!("{PROCESSES}/{ended}/input"), &body);
    assert_eq!(more(json!({ "input": "x", "eof": true })).status, 204);
    assert_eq!(more(json!({ "input": "y" })).refusal(), (409, "stdin_closed".to_owned()));
    assert_eq!(more(json!({ "eof": true })).status, 204);
    let deaf = client.start(&json!({ "command": "sleep 60", "stdin": false }));
    let refused = client.post(&format!("{PROCESSES}/{deaf}/input"), &json!({ "input": "x" }));
    assert_eq!(refused.refusal(), (409, "no_stdin".to_owned()));
    let never = client.start_line("sleep 60");
    let fill = json!({ "input": "x".repeat(1_000_000) });
    let path = format!("{PROCESSES}/{never}/input");
    wait_until("it is full", || client.post(&path, &fill).status == 429);
    for process in [ended, deaf, never] {
        assert_eq!(client.delete(&format!("{PROCESSES}/{process}")).status, 202);
    }
}

fn a_kill_leaves_nothing(on: On) {
    let server = on.start();
    let client = server.client();
    let mark = Mark::new();
    let command = "sleep 777 & setsid sleep 778 & (env -i sleep 779 & echo up; wait)& sleep 776";
    let request = json!({ "command": command, "env": { (Mark::NAME): mark.value() } });
    let process = client.start(&request);
    mark.wait_for("sleep 777");
    mark.wait_for("sleep 778");
    wait_until("it is up", || poll(client, &process, "")["output"] == "up\n");
    let reply = client.of("DELETE", &process, "", &json!({}));
    assert_eq!(reply.status, 202, "{reply:?}");
    mark.wait_until_gone();
    wait_until("it has ended", || client.show(&process)["status"] == "stopped");
    let shown = client.show(&process);
    assert_eq!((&shown["finish_reason"], &shown["signal"]), (&"stopped".into(), &"SIGTERM".into()));
    assert_eq!(shown["exit_code"], Value::Null);
}

/// Whether this is a child of ours that has ended and was not waited for.
fn is_our_zombie(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ours = std::process::id().to_string();
    let mut after_name = stat.rsplit(") ").next().unwrap_or_default().split_whitespace();
    after_name.next() == Some("Z") && after_name.next() == Some(ours.as_str())
}

fn a_hundred_starts_leave_no_zombie(on: On) {
    let mut options = Options::default();
    options.settings.background_max_per_token = 100;
    let server = on.start_with(options);
    let client = server.client();
    let leader = |number| match number % 4 {
        0 => "echo $$",
        1 => "echo $$; exit 3",
        2 => "echo $$; kill -KILL $$",
        _ => "echo $$; exec sleep 60",
    };
    let ids: Vec<String> = (0..100).map(|number| client.start_line(leader(number))).collect();
    let pid = |id: &String| {
        let mut said = String::new();
        wait_until("it says its number", || {
            poll(client, id, "")["output"].as_str().unwrap().clone_into(&mut said);
            said.ends_with('\n')
        });
        said.trim_end().to_owned()
    };
    let pids: Vec<String> = ids.iter().map(pid).collect();
    for id in ids.iter().skip(3).step_by(4) {
        client.of("DELETE", id, "", &json!({}));
    }
    wait_until("all have ended", || ids.iter().all(|id| client.show(id)["finished_at_ms"].is_i64()));
    wait_until("none is a zombie", || !pids.iter().any(|pid| is_our_zombie(pid)));
}

fn a_signal_reaches_the_group(on: On) {
    let server = on.start();
    let client = server.client();
    let process = client.start_line("trap 'echo got; exit 4' USR1; echo ready; while :; do sleep 0.05; done");
    wait_until("it is ready", || poll(client, &process, "")["output"] == "ready\n");
    assert_eq!(client.of("POST", &process, "/signal", &json!({ "name": "USR1" })).status, 204);
    wait_until("it ends", || client.show(&process)["exit_code"] == 4);
    let reply = client.of("POST", &process, "/signal", &json!({ "name": "SIGTERM" }));
    assert_eq!(reply.refusal(), (409, "process_exited".to_owned()));
    let reply = client.of("POST", &process, "/signal", &json!({ "name": "SIGSEGV" }));
    assert_eq!(reply.refusal(), (400, "unknown_signal".to_owned()));
    let reply = client.of("POST", &process, "/resize", &json!({ "cols": 80, "rows": 24 }));
    assert_eq!(reply.refusal(), (409, "no_tty".to_owned()));
}

fn a_restart_is_another_process(on: On) {
    let server = on.start();
    let client = server.client();
    let first = client.start(&json!({ "command": "echo $$; sleep 60", "name": "server" }));
    let reply = client.of("POST", &first, "/restart", &json!({}));
    assert_eq!(reply.status, 201, "{reply:?}");
    let second = reply.json();
    assert_eq!((&second["restarted_from"], &second["name"]), (&first.as_str().into(), &"server".into()));
    assert_eq!(client.show(&first)["status"], "stopped");
    assert_eq!(client.show("server")["id"], second["id"]);
    client.of("DELETE", "server", "", &json!({}));
}

fn restarts_at_once_make_one_process(on: On) {
    let mut options = Options::default();
    options.settings.background_max_per_token = 1;
    let server = on.start_with(options);
    let client = server.client();
    let request = json!({ "command": "trap '' TERM; while :; do sleep 0.1; done", "name": "server" });
    let first = client.start(&request);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let restart = || client.of("POST", "server", "/restart", &json!({})).status;
        let all: Vec<_> = (0..4).map(|_| scope.spawn(restart)).collect();
        // Nor is its place given to another.
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(client.post(PROCESSES, &request).status, 429);
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let made = statuses.iter().filter(|status| **status == 201).count();
    assert_eq!((made, statuses.iter().all(|status| matches!(status, 201 | 409))), (1, true), "{statuses:?}");
    let listed = client.get(PROCESSES).json();
    let running =
        listed["processes"].as_array().unwrap().iter().filter(|one| one["state"] == "running").count();
    assert_eq!((running, &client.show("server")["restarted_from"]), (1, &first.as_str().into()));
    client.of("DELETE", "server", "", &json!({}));
}

fn a_command_that_cannot_start_has_failed(on: On) {
    let server = on.start();
    let client = server.client();
    let process = client.start(&json!({ "argv": ["/nowhere/at-all"] }));
    wait_until("it has failed", || client.show(&process)["status"] == "failed");
    let shown = client.show(&process);
    assert_eq!((&shown["finish_reason"], &shown["exit_code"]), (&"start_failed".into(), &127.into()));
    let said = poll(client, &process, "");
    assert_eq!(said["output"], "/nowhere/at-all: No such file or directory\n");
    let refused = client.post(PROCESSES, &json!({ "command": "x", "cwd": "/nowhere" }));
    assert_eq!(refused.json()["error"]["field"], "cwd");
}

fn token(client: &Client, request: Value) -> (String, Client) {
    let reply = client.post("/api/tokens", &request);
    assert_eq!(reply.status, 201, "{reply:?}");
    let made = reply.json();
    (made["id"].as_str().unwrap().to_owned(), client.with_token(made["token"].as_str().unwrap()))
}

fn nobody_else_sees_it(on: On) {
    let server = on.start();
    let client = server.client();
    let process = client.start_line("sleep 60");
    let (_, other) = token(client, json!({ "scope": "admin" }));
    assert_eq!(other.get(PROCESSES).json()["processes"], json!([]));
    let own = format!("{PROCESSES}/{process}");
    for (method, path, body) in [
        ("GET", own.clone(), None),
        ("DELETE", own.clone(), None),
        ("GET", format!("{own}/stream"), None),
        ("POST", format!("{own}/input"), Some(json!({ "input": "x" }))),
        (
            "PUT",
            format!("/v1/sandboxes/local/processes/{process}/stream-access"),
            Some(json!({ "mode": "logs" })),
        ),
        ("POST", format!("/v1/sandboxes/local/processes/{process}/signal"), Some(json!({ "name": "KILL" }))),
    ] {
        let refused = other.call(method, &path, body.as_ref()).refusal();
        assert_eq!(refused, (404, "not_found".to_owned()), "{method} {path}");
    }
    let (_, nothing) = token(client, json!({ "scope": "mcp" }));
    assert_eq!(nothing.get(PROCESSES).status, 403);
    client.delete(&own);
}

fn a_revoked_token_loses_its_processes_and_an_expired_one_does_not(on: On) {
    let server = on.start();
    let client = server.client();
    let marks = [Mark::new(), Mark::new()];
    let (id, revoked) = token(client, json!({ "scope": "admin" }));
    let (_, expired) = token(client, json!({ "scope": "admin", "ttl": 1 }));
    for (client, mark) in [&revoked, &expired].into_iter().zip(&marks) {
        client.start(&json!({ "command": "sleep 777", "env": { (Mark::NAME): mark.value() } }));
        mark.wait_for("sleep 777");
    }
    assert_eq!(client.delete(&format!("/api/tokens/{id}")).status, 204);
    marks[0].wait_until_gone();
    wait_until("the other has expired", || expired.get(PROCESSES).status == 401);
    assert_eq!(marks[1].named("sleep 777").len(), 1);
}

fn as_many_run_as_may(on: On) {
    let mut options = Options::default();
    options.settings.background_max_per_token = 2;
    let server = on.start_with(options);
    let client = server.client();
    let [first, mut second] = [(), ()].map(|()| client.start_line("sleep 60"));
    let refused = client.post(PROCESSES, &json!({ "command": "sleep 60" }));
    assert_eq!(refused.refusal(), (429, "too_many_processes".to_owned()));
    client.delete(&format!("{PROCESSES}/{first}"));
    // A restart takes the place of what it ends.
    for _ in 0..5 {
        let reply = client.of("POST", &second, "/restart", &json!({}));
        assert_eq!(reply.status, 201, "{reply:?}");
        second = reply.json()["id"].as_str().unwrap().to_owned();
    }
    // What would refuse the start refuses before it is ended.
    let paused = client.post("/api/sandboxes/local/pause", &json!({}));
    if on.is_local() {
        let refused = client.of("POST", &second, "/restart", &json!({}));
        assert_eq!(refused.refusal(), (409, "sandbox_paused".to_owned()));
        assert_eq!(client.post("/api/sandboxes/local/resume", &json!({})).status, 200);
    } else {
        assert_eq!(paused.refusal(), (409, "unsupported".to_owned()));
    }
    assert_eq!(client.show(&second)["status"], "running");
    wait_until("one may run again", || client.post(PROCESSES, &json!({ "command": "true" })).status == 201);
}

fn a_name_means_the_newest(on: On) {
    let server = on.start();
    let client = server.client();
    let ids =
        [1, 2].map(|number| client.start(&json!({ "command": format!("echo {number}"), "name": "job" })));
    wait_until("they end", || ids.iter().all(|id| client.show(id)["status"] == "exited"));
    assert_eq!(client.show("job")["id"], ids[1].as_str());
    assert_eq!(poll(client, "job", "")["output"], "2\n");
}

fn a_bad_request_names_its_field(on: On) {
    let server = on.start();
    let client = server.client();
    let process = client.start_line("echo 12345");
    wait_until("it ends", || client.show(&process)["status"] == "exited");
    for (query, code, field) in [
        ("?since=abc", "bad_cursor", "since"),
        ("?since=-1", "bad_cursor", "since"),
        ("?since=", "bad_cursor", "since"),
        ("?since=18446744073709551616", "bad_cursor", "since"),
        ("?encoding=hex", "wrong_type", "encoding"),
        ("?wait_seconds=601", "out_of_range", "wait_seconds"),
        ("?sinse=1", "unknown_field", "sinse"),
    ] {
        let reply = client.get(&format!("{PROCESSES}/{process}{query}"));
        assert_eq!(reply.refusal(), (400, code.to_owned()), "{query}");
        assert_eq!(reply.json()["error"]["field"], field, "{query}");
    }
    for path in [format!("{PROCESSES}/{process}?since=7"), format!("{PROCESSES}/{process}/stream?since=7")] {
        assert_eq!(client.get(&path).refusal(), (400, "cursor_ahead".to_owned()), "{path}");
    }
    for (request, field) in [
        (json!({ "command": "x", "tty": { "cols": 80 } }), "rows"),
        (json!({ "command": "x", "tty": { "cols": 80, "rows": 70_000 } }), "tty.rows"),
        (json!({ "command": "x", "max_log_bytes": -1 }), "max_log_bytes"),
        (json!({ "comand": "x" }), "comand"),
    ] {
        let reply = client.post(PROCESSES, &request);
        assert_eq!((reply.status, &reply.json()["error"]["field"]), (400, &field.into()), "{request}");
    }
}

fn a_shutdown_ends_them(on: On) {
    let mut options = Options::default();
    options.settings.local_drain = Duration::from_millis(100);
    let server = on.start_with(options);
    let mark = Mark::new();
    let client = server.client();
    let process = client.start(&json!({ "command": "sleep 777", "env": { (Mark::NAME): mark.value() } }));
    mark.wait_for("sleep 777");
    let path = format!("{PROCESSES}/{process}/stream");
    let mut stream = client.send("GET", &path, None).unwrap();
    server.shut_down();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.ends_with("event: close\ndata: {\"reason\":\"shutdown\"}\n\n"), "{said}");
    let end = server.wait();
    if on.is_local() {
        assert_eq!((end.killed, end.left), (1, (0, 0)));
        mark.wait_until_gone();
    } else {
        assert_eq!((end.killed, end.left), (0, (0, 0)));
    }
}
