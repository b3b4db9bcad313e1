//! A sandbox behind a daemon of E2B's: it keeps no output, knows two signals, and no groups.
//!
//! Hangar's own plays it: a client that says nothing of hangar is served as E2B's serves it.
#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    on_both,
    real::{
        Folder, Gate, Mark, On,
        far::{Far, PROCESSES},
        line, wait_until,
    },
};
use serde_json::{Value, json};

on_both! {
    commands_and_processes_are_the_same
    what_was_printed_while_it_was_cut_off_is_a_gap
    a_streamed_command_that_is_cut_off_has_failed
    how_it_ended_meanwhile_is_told
    a_kill_reaches_the_group
    a_signal_reaches_the_group
    input_and_terminals_are_the_same
}

fn commands_and_processes_are_the_same(on: On) {
    let far = Far::plain(on);
    let result = far.exec(&line("echo out; echo err >&2; exit 3"));
    assert_eq!((result.exit_code, &*result.stdout, &*result.stderr), (Some(3), "out\n", "err\n"));
    let result = far.exec(&line("kill -9 $$"));
    assert_eq!((result.exit_code, result.signal.as_deref()), (None, Some("SIGKILL")));
    let result = far.exec(&line("sleep 60").set("timeout", 0.2));
    assert_eq!((result.exit_code, result.timed_out), (None, true));
    let process = far.start(&json!({ "command": "seq 1 20000" }));
    assert_eq!(far.wait_until_ended(&process)["exit_code"], 0);
    assert!(far.output(&process).ends_with("\n19999\n20000\n"));
    let missing = far.client().post(PROCESSES, &json!({ "argv": ["hangar-no-such-program"] })).json();
    let missing = far.wait_until_ended(missing["process_id"].as_str().unwrap());
    assert_eq!(missing["exit_code"], 127);
}

fn what_was_printed_while_it_was_cut_off_is_a_gap(on: On) {
    let far = Far::plain(on);
    let (first, second, folder) = (Gate::new(), Gate::new(), Folder::new());
    let printed = folder.file("printed");
    let (one, two) = (first.wait(), second.wait());
    let command =
        format!("echo one; {one}; echo two; touch {}; {two}; echo three; exit 4", printed.display());
    let process = far.start(&json!({ "command": command }));
    wait_until("one", || far.output(&process) == "one\n");
    far.leave();
    first.open();
    wait_until("it is printed", || printed.exists());
    far.come_back();
    wait_until("it is found again", || far.show(&process, "?since=4")["gap"].is_object());
    second.open();
    assert_eq!(far.wait_until_ended(&process)["exit_code"], 4);
    let shown = far.show(&process, "?since=4");
    let gap = &shown["gap"];
    assert_eq!((&gap["reason"], gap.get("bytes")), (&json!("disconnected"), None), "{gap}");
    assert_eq!(shown["output"], "three\n");
    // The cursors go on.
    assert!(gap["to_offset"].as_u64() > Some(4), "{gap}");
    // What was kept before is kept, and is given up to there.
    let all = far.show(&process, "?since=0");
    assert_eq!((&all["output"], &all["next"], &all["truncated"]), (&json!("one\n"), &json!(4), &json!(true)));
    assert_eq!(all["gap"], Value::Null);
    let path = format!("{PROCESSES}/{process}/stream?since=0");
    let events = far.client().get(&path).body;
    let order = ["one", "event: gap", "three"].map(|part| events.find(part));
    assert!(order.is_sorted() && order[0].is_some(), "{events}");
}

fn a_streamed_command_that_is_cut_off_has_failed(on: On) {
    let far = Far::plain(on);
    let (gate, mark) = (Gate::new(), Mark::new());
    let call = line(format!("echo one; {}; echo two; sleep 777", gate.wait())).mark(&mark);
    let mut stream = far.client().stream_in("far", &call);
    stream.read_until("one\n");
    far.proxy.cut();
    gate.open();
    let result = stream.collect().result;
    assert_eq!((result.exit_code, result.closed.as_deref()), (None, Some("error")));
    mark.wait_until_gone();
}

fn how_it_ended_meanwhile_is_told(on: On) {
    let far = Far::plain(on);
    let process = far.start_and_miss_end("exit 6");
    assert_eq!(far.wait_until_ended(&process)["exit_code"], 6);
}

fn a_kill_reaches_the_group(on: On) {
    let far = Far::plain(on);
    let mark = Mark::new();
    let command = "sleep 777 & (trap '' TERM; sleep 778)& echo up; wait";
    let process = far.start(&json!({ "command": command, "env": { (Mark::NAME): mark.value() } }));
    wait_until("up", || far.output(&process) == "up\n");
    mark.wait_for("sleep 778");
    assert_eq!(far.client().delete(&format!("{PROCESSES}/{process}")).status, 202);
    mark.wait_until_gone();
    let shown = far.wait_until_ended(&process);
    assert_eq!((&shown["exit_code"], &shown["signal"]), (&Value::Null, &json!("SIGTERM")));
}

fn a_signal_reaches_the_group(on: On) {
    let far = Far::plain(on);
    let command = "trap 'echo leader' USR1; (trap 'echo member; exit' USR1; echo up; while :; do sleep 0.05; done)& \
        while :; do sleep 0.05; done";
    let process = far.start(&json!({ "command": command }));
    wait_until("up", || far.output(&process) == "up\n");
    let path = format!("/v1/sandboxes/far/processes/{process}/signal");
    assert_eq!(far.client().post(&path, &json!({ "name": "SIGUSR1" })).status, 204);
    wait_until("both", || {
        let output = far.output(&process);
        output.contains("leader\n") && output.contains("member\n")
    });
    far.client().delete(&format!("{PROCESSES}/{process}"));
    far.wait_until_ended(&process);
}

fn input_and_terminals_are_the_same(on: On) {
    let far = Far::plain(on);
    let process = far.start(&json!({ "command": "cat" }));
    let path = format!("{PROCESSES}/{process}/input");
    assert_eq!(far.client().post(&path, &json!({ "input": "hello\n", "eof": true })).status, 204);
    assert_eq!(far.wait_until_ended(&process)["exit_code"], 0);
    assert_eq!(far.output(&process), "hello\n");
    let request = json!({ "command": "stty size; read x; stty size", "tty": { "cols": 90, "rows": 30 } });
    let process = far.client().post("/v1/sandboxes/far/processes", &request).json()["id"].clone();
    let process = process.as_str().unwrap();
    wait_until("the first size", || far.output(process).contains("30 90"));
    let resize = format!("/v1/sandboxes/far/processes/{process}/resize");
    assert_eq!(far.client().post(&resize, &json!({ "cols": 100, "rows": 40 })).status, 204);
    // It is told before what is typed next, or after: it is asked until it was told.
    let path = format!("{PROCESSES}/{process}/input");
    wait_until("the daemon was told", || {
        let told = far.client().post(&path, &json!({ "input": "x\n" }));
        told.status != 204 || far.output(process).contains("40 100")
    });
    far.wait_until_ended(process);
}
