//! A sandbox behind a daemon, where the way to it breaks and comes back.
//!
//! What is the same as on this machine is in the other suites, which run behind a daemon as well.
#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    on_both,
    real::{
        Call, Folder, Gate, Mark, On,
        far::{Far, PROCESSES},
        is_root, line, skip, wait_until,
    },
};
use serde_json::{Value, json};
use std::fs;

on_both! {
    a_sandbox_is_made_where_a_daemon_is
    what_no_daemon_can_be_is_refused
    a_cut_goes_on_where_it_was
    a_cut_at_any_byte_loses_and_doubles_nothing
    a_streamed_command_survives_cuts
    so_does_one_that_prints_faster_than_it_is_read
    what_ended_meanwhile_is_told
    what_the_daemon_no_longer_has_is_a_gap
    input_comes_once
    a_kill_arrives_when_the_daemon_is_back
    a_daemon_that_started_again_has_lost_its_processes
    commands_run_where_and_as_whom_they_are_told
    a_daemon_asks_for_its_token
    a_sandbox_can_be_destroyed_without_its_daemon
    a_restart_does_not_wait_for_who_is_away
}

fn a_sandbox_is_made_where_a_daemon_is(on: On) {
    let far = Far::new(on);
    let url = format!("http://{}", far.proxy.address());
    let shown = far.client().get("/api/sandboxes").json()["sandboxes"][1].clone();
    assert_eq!(
        (&shown["name"], &shown["provider"], &shown["url"]),
        (&json!("far"), &json!("envd"), &json!(url))
    );
    let result = far.exec(&line("echo out; echo err >&2; exit 3"));
    assert_eq!((result.exit_code, &*result.stdout, &*result.stderr), (Some(3), "out\n", "err\n"));
    assert_eq!(far.client().delete("/api/sandboxes/far").status, 204);
    // The daemon is as it was.
    assert!(far.envd.json().list().is_empty());
}

fn what_no_daemon_can_be_is_refused(on: On) {
    let server = on.start();
    for (request, field) in [
        (json!({ "provider": "envd" }), "url"),
        (json!({ "provider": "envd", "url": "ftp://x" }), "url"),
        (json!({ "provider": "envd", "url": "http://x", "token": "a b" }), "token"),
        (json!({ "provider": "envd", "url": "http://x", "token": "" }), "token"),
        (json!({ "provider": "envd", "url": "http://x", "workdir": "x" }), "workdir"),
        (json!({ "provider": "other" }), "provider"),
        (json!({ "url": "http://x" }), "url"),
        (json!({ "token": "x" }), "token"),
        (json!({ "workdir": "/no/such/directory" }), "workdir"),
    ] {
        let reply = server.client().post("/api/sandboxes", &request);
        assert_eq!((reply.status, &reply.json()["error"]["field"]), (400, &json!(field)), "{request}");
    }
    // One that is not there yet is one that cannot be reached.
    let nobody = json!({ "name": "nobody", "provider": "envd", "url": "http://127.0.0.1:1" });
    assert_eq!(server.client().post("/api/sandboxes", &nobody).status, 201);
    let refused = server.client().post("/api/sandboxes/nobody/exec", &json!({ "command": "true" }));
    assert_eq!(refused.refusal(), (502, "sandbox_unreachable".to_owned()));
}

/// Prints a thousand lines, slowly enough to be cut in the middle.
const LINES: &str = "for i in $(seq 1 1000); do echo line $i; [ $((i % 20)) = 0 ] && sleep 0.01; done";

fn lines() -> String {
    (1..=1000).map(|number| format!("line {number}\n")).collect()
}

fn a_cut_goes_on_where_it_was(on: On) {
    let far = Far::new(on);
    let (first, second, folder) = (Gate::new(), Gate::new(), Folder::new());
    let printed = folder.file("printed");
    let (one, two, mark) = (first.wait(), second.wait(), printed.display());
    let command = format!("echo one; {one}; echo two; touch {mark}; {two}; exit 4");
    let process = far.start(&json!({ "command": command }));
    wait_until("one", || far.output(&process) == "one\n");
    far.leave();
    // Printed while nobody can come.
    first.open();
    wait_until("it is printed", || printed.exists());
    far.come_back();
    wait_until("two", || far.output(&process) == "one\ntwo\n");
    far.proxy.cut();
    second.open();
    assert_eq!(far.wait_until_ended(&process)["exit_code"], 4);
    assert_eq!(
        (far.output(&process), &far.show(&process, "?since=0")["gap"]),
        ("one\ntwo\n".into(), &Value::Null)
    );
}

fn a_cut_at_any_byte_loses_and_doubles_nothing(on: On) {
    let far = Far::new(on);
    // The daemon is asked what it is before anything is cut.
    far.exec(&line("true"));
    for cut in [400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 500, 1000, 2000, 3001, 5002] {
        far.proxy.cut_after(&[cut, cut, cut]);
        let process = far.start(&json!({ "command": LINES }));
        far.wait_until_ended(&process);
        assert_eq!(far.output(&process), lines(), "cut after {cut}");
        far.proxy.cut_after(&[]);
    }
}

fn a_streamed_command_survives_cuts(on: On) {
    let far = Far::new(on);
    far.exec(&line("true"));
    far.proxy.cut_after(&[300, 700, 1500, 2500]);
    let result = far.exec(&line(format!("{LINES}; exit 5")));
    assert_eq!((result.exit_code, result.stdout), (Some(5), lines()));
}

fn so_does_one_that_prints_faster_than_it_is_read(on: On) {
    let far = Far::new(on);
    let mut stream = far.client().stream_in("far", &line("seq 1 1000000; exit 5"));
    let mut events = 0;
    let whole = stream.collect_by(16 * 1024, || {
        events += 1;
        if events % 60 == 0 {
            far.proxy.cut();
        }
    });
    assert!(events > 180, "it was cut a few times: {events}");
    assert_eq!(whole.result.exit_code, Some(5));
    let printed: Vec<u8> =
        (1..=1_000_000).flat_map(|number: u32| format!("{number}\n").into_bytes()).collect();
    assert!(whole.stdout == printed, "{} bytes of {}", whole.stdout.len(), printed.len());
}

fn what_ended_meanwhile_is_told(on: On) {
    let far = Far::new(on);
    let process = far.start_and_miss_end("echo end; exit 6");
    assert_eq!(far.wait_until_ended(&process)["exit_code"], 6);
    assert_eq!(far.output(&process), "end\n");
}

fn what_the_daemon_no_longer_has_is_a_gap(on: On) {
    let far = Far::new(on);
    let (gate, last, folder) = (Gate::new(), Gate::new(), Folder::new());
    let printed = folder.file("printed");
    let (wait, end) = (gate.wait(), last.wait());
    let command =
        format!("echo one; {wait}; head -c 500000 /dev/zero; echo two; touch {}; {end}", printed.display());
    let process = far.start(&json!({ "command": command, "max_log_bytes": 1000 }));
    wait_until("one", || far.output(&process) == "one\n");
    far.leave();
    gate.open();
    wait_until("it is printed", || printed.exists());
    far.come_back();
    wait_until("two", || far.show(&process, "?since=4")["next"] == 500_008);
    let shown = far.show(&process, "?since=4");
    let gap = &shown["gap"];
    assert_eq!((&gap["reason"], &gap["from_offset"]), (&json!("evicted"), &json!(4)), "{gap}");
    let kept = shown["output"].as_str().unwrap();
    assert!(kept.ends_with("\0two\n"));
    assert_eq!(gap["bytes"].as_u64().unwrap() + kept.len() as u64, 500_004, "{gap}");
    last.open();
    assert_eq!(far.wait_until_ended(&process)["exit_code"], 0);
}

fn input_comes_once(on: On) {
    let far = Far::new(on);
    let process = far.start(&json!({ "command": "cat" }));
    let input = |text: &str, eof: bool| {
        let path = format!("{PROCESSES}/{process}/input");
        assert_eq!(far.client().post(&path, &json!({ "input": text, "eof": eof })).status, 204);
    };
    input("one\n", false);
    wait_until("one", || far.output(&process) == "one\n");
    far.leave();
    input("two\n", false);
    input("three\n", true);
    far.come_back();
    assert_eq!(far.wait_until_ended(&process)["exit_code"], 0);
    assert_eq!(far.output(&process), "one\ntwo\nthree\n");
}

fn a_kill_arrives_when_the_daemon_is_back(on: On) {
    let far = Far::new(on);
    let mark = Mark::new();
    let request = json!({ "command": "sleep 777", "env": { (Mark::NAME): mark.value() } });
    let process = far.start(&request);
    mark.wait_for("sleep 777");
    far.leave();
    assert_eq!(far.client().delete(&format!("{PROCESSES}/{process}")).status, 202);
    far.come_back();
    mark.wait_until_gone();
    assert_eq!(far.wait_until_ended(&process)["exit_code"], Value::Null);
}

fn a_daemon_that_started_again_has_lost_its_processes(on: On) {
    let Far { server, proxy, envd } = Far::new(on);
    let far = Far { server, proxy, envd: on.envd() };
    let process = far.start(&json!({ "command": "echo one; sleep 777" }));
    wait_until("one", || far.output(&process) == "one\n");
    far.leave();
    drop(envd);
    far.proxy.lead_to(far.envd.address());
    far.come_back();
    let shown = far.wait_until_ended(&process);
    assert_eq!((&shown["exit_code"], shown.get("signal")), (&Value::Null, None));
    assert_eq!(far.output(&process), "one\n");
    // What is started there next runs.
    assert_eq!(far.exec(&line("exit 3")).exit_code, Some(3));
}

fn commands_run_where_and_as_whom_they_are_told(on: On) {
    let far = Far::new(on);
    let folder = Folder::new();
    fs::create_dir(folder.file("below")).unwrap();
    let workdir = folder.path().display().to_string();
    assert_eq!(far.make(&json!({ "name": "there", "workdir": workdir })).status, 201);
    let pwd = |call: &Call| far.client().stream_in("there", call).collect().result.stdout;
    assert_eq!(pwd(&line("pwd")), format!("{workdir}\n"));
    assert_eq!(pwd(&line("pwd").set("cwd", "below")), format!("{workdir}/below\n"));
    assert_eq!(pwd(&line("pwd").set("cwd", "/")), "/\n");
    let refused = |call: &Call| far.client().try_stream("there", call).unwrap_err();
    let missing = refused(&line("pwd").set("cwd", "no/such"));
    assert_eq!(missing.refusal(), (400, "bad_cwd".to_owned()));
    let unknown = refused(&line("id").set("user", "no-such-user"));
    assert_eq!(unknown.refusal(), (400, "bad_user".to_owned()));
    if !is_root() {
        return skip("commands_run_where_and_as_whom_they_are_told", "only root can act as others");
    }
    assert_eq!(pwd(&line("id -un").set("user", "games").set("cwd", "/")), "games\n");
}

fn a_daemon_asks_for_its_token(on: On) {
    let (server, envd) = (on.start(), on.envd_with_token("secret"));
    let url = format!("http://{}", envd.address());
    for (name, token) in [("right", json!("secret")), ("wrong", json!("other")), ("none", Value::Null)] {
        let request = json!({ "name": name, "provider": "envd", "url": url, "token": token });
        assert_eq!(server.client().post("/api/sandboxes", &request).status, 201);
    }
    assert_eq!(server.client().stream_in("right", &line("exit 3")).collect().result.exit_code, Some(3));
    for name in ["wrong", "none"] {
        let refused = server.client().try_stream(name, &line("true")).unwrap_err();
        assert_eq!(refused.refusal(), (502, "sandbox_unreachable".to_owned()), "{name}");
        assert!(!refused.body.contains("secret"));
    }
    // Nobody is shown it.
    assert!(!server.client().get("/api/sandboxes").body.contains("secret"));
}

fn a_sandbox_can_be_destroyed_without_its_daemon(on: On) {
    let far = Far::new(on);
    let mark = Mark::new();
    let process = far.start(&json!({ "command": "sleep 777", "env": { (Mark::NAME): mark.value() } }));
    mark.wait_for("sleep 777");
    far.leave();
    assert_eq!(far.client().delete("/api/sandboxes/far").status, 204);
    assert_eq!(far.client().get(&format!("{PROCESSES}/{process}")).status, 404);
    let sandboxes = far.client().get("/api/sandboxes").json();
    assert_eq!(sandboxes["sandboxes"].as_array().map(Vec::len), Some(1), "{sandboxes}");
    // What ran there is told as soon as that can be.
    assert_eq!(mark.named("sleep 777").len(), 1);
    far.come_back();
    mark.wait_until_gone();
}

fn a_restart_does_not_wait_for_who_is_away(on: On) {
    let far = Far::new(on);
    let process = far.start(&json!({ "command": "sleep 777" }));
    far.leave();
    let path = format!("/v1/sandboxes/far/processes/{process}/restart");
    let refused = far.client().post(&path, &json!({}));
    assert_eq!(refused.refusal(), (503, "sandbox_unreachable".to_owned()));
    far.come_back();
    // By KILL: the time to end by itself is over.
    assert!(far.wait_until_ended(&process)["signal"].is_string());
    let listed = far.client().get(PROCESSES).json();
    assert_eq!(listed["processes"].as_array().unwrap().len(), 1, "it was not started again");
}
