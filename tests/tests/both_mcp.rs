//! MCP over HTTP with real commands, on both runtimes.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    mcp::{refusal, result},
    on_both,
    real::{Client, Gate, Mark, On, Options, wait_until},
};
use serde_json::{Value, json};
use std::{thread, time::Duration};

on_both! {
    the_first_byte_comes_at_once
    leaving_kills_all_of_a_command
    a_process_outlives_its_calls
    a_kill_is_told_when_it_is_done
    many_follow_one_process
    what_prints_without_end_holds_up_nothing
    a_reader_that_stops_loses_nothing
    a_revoked_token_ends_what_it_called
    what_cannot_start_says_so
}

/// Everything that a command can leave.
const FAMILY: &str = "sleep 777 & setsid sleep 778 & (env -i sleep 779 & wait) & echo in; sleep 776";

fn command(line: &str, mark: &Mark) -> Value {
    json!({ "command": line, "stream": true, "env": { "HOME": "/nonexistent", (Mark::NAME): mark.value() } })
}

fn start(client: &Client, line: &str, mark: &Mark) -> String {
    let env = json!({ "HOME": "/nonexistent", (Mark::NAME): mark.value() });
    let arguments = json!({ "action": "start", "command": line, "env": env });
    result(&client.tool("process", &arguments))["process_id"].as_str().unwrap().to_owned()
}

fn attach(process: &str, since: u64, wait_seconds: u64) -> Value {
    json!({ "action": "attach", "process_id": process, "since": since, "wait_seconds": wait_seconds })
}

fn the_first_byte_comes_at_once(on: On) {
    let server = on.start();
    let (mark, gate) = (Mark::new(), Gate::new());
    for token in [None, Some(json!(0))] {
        let mut call = server.client().calling("exec", &command(&gate.wait(), &mark), token);
        // The command waits for what comes after it.
        assert_eq!(call.first_byte(), b':');
        gate.open();
        assert_eq!(result(&call.to_end().1)["exit_code"], 0);
    }
}

fn leaving_kills_all_of_a_command(on: On) {
    let server = on.start();
    for (stream, token) in [(true, Some(json!("t"))), (false, Some(json!("t"))), (false, None)] {
        let mark = Mark::new();
        let mut arguments = command(FAMILY, &mark);
        arguments["stream"] = stream.into();
        let call = server.client().calling("exec", &arguments, token);
        for line in ["sleep 776", "sleep 777", "sleep 778"] {
            mark.wait_for(line);
        }
        drop(call);
        mark.wait_until_gone();
    }
    wait_until("its streams are closed", || server.plane().streams().is_empty());
}

fn a_process_outlives_its_calls(on: On) {
    let server = on.start();
    let client = server.client();
    let (mark, gate) = (Mark::new(), Gate::new());
    let process = start(client, &format!("echo one; {}; echo two; exit 3", gate.wait()), &mark);
    let mut call = client.calling("process", &attach(&process, 0, 60), Some(json!(1)));
    call.read_until("one\n");
    drop(call);
    wait_until("the call is over", || server.plane().streams().is_empty());
    gate.open();
    let (output, answer) = client.calling("process", &attach(&process, 4, 60), Some(json!(1))).to_end();
    let shown = result(&answer);
    assert_eq!(
        (output.as_str(), &shown["output"], &shown["exit_code"]),
        ("two\n", &json!("two\n"), &json!(3))
    );
}

fn a_kill_is_told_when_it_is_done(on: On) {
    let server = on.start();
    let client = server.client();
    for (line, signal) in
        [("sleep 777", "SIGTERM"), ("trap '' TERM; echo up; while :; do sleep 0.1; done", "SIGKILL")]
    {
        let mark = Mark::new();
        let process = start(client, line, &mark);
        wait_until("it is up", || !mark.living().is_empty());
        if signal == "SIGKILL" {
            client.calling("process", &attach(&process, 0, 60), Some(json!(1))).read_until("up\n");
        }
        let killed = result(&client.tool("process", &json!({ "action": "kill", "process_id": process })));
        assert_eq!((&killed["state"], &killed["signal"]), (&json!("exited"), &json!(signal)));
        mark.wait_until_gone();
    }
}

fn many_follow_one_process(on: On) {
    let server = on.start();
    let client = server.client();
    let (mark, gate) = (Mark::new(), Gate::new());
    let process = start(client, &format!("{}; seq 1 2000", gate.wait()), &mark);
    let calls: Vec<_> = (0..10)
        .map(|number| client.calling("process", &attach(&process, 0, 60), Some(json!(number))))
        .collect();
    gate.open();
    let expected: String = (1..=2000).map(|line| format!("{line}\n")).collect();
    thread::scope(|scope| {
        for mut call in calls {
            let expected = &expected;
            scope.spawn(move || {
                let (output, answer) = call.to_end();
                assert_eq!((&output, &result(&answer)["output"]), (expected, &json!(expected)));
            });
        }
    });
}

fn what_prints_without_end_holds_up_nothing(on: On) {
    let server = on.start_with(Options::unpaced());
    let client = server.client();
    let mark = Mark::new();
    let process = start(client, "exec yes", &mark);
    for (wait, token) in [(0, None), (1, None), (0, Some(json!(1))), (1, Some(json!(1)))] {
        let (_, answer) = client.calling("process", &attach(&process, 0, wait), token).to_end();
        let shown = result(&answer);
        assert_eq!(shown["state"], "running");
        assert!(shown["next"].as_u64().unwrap() <= shown["end"].as_u64().unwrap());
    }
    client.tool("process", &json!({ "action": "kill", "process_id": process }));
}

fn a_reader_that_stops_loses_nothing(on: On) {
    let server = on.start_with(Options::unpaced());
    let mark = Mark::new();
    let mut call = server.client().calling("exec", &command("seq 1 3000000", &mark), Some(json!(1)));
    call.read_until("\n");
    // In the middle of progress; the command waits, and lives.
    thread::sleep(Duration::from_millis(500));
    assert!(!mark.living().is_empty());
    let (output, answer) = call.to_end();
    assert_eq!(result(&answer)["exit_code"], 0);
    // The first of it was read before.
    let whole: String = (1..=3_000_000).map(|line| format!("{line}\n")).collect();
    assert!(whole.ends_with(&output) && output.len() > whole.len() - 64 * 1024);
}

fn a_revoked_token_ends_what_it_called(on: On) {
    let server = on.start();
    let (id, client) = server.client().new_token(&json!({ "scope": "admin" }));
    let mark = Mark::new();
    let mut calls: Vec<_> = [Some(json!(1)), None]
        .into_iter()
        .map(|token| client.calling("exec", &command("echo in; sleep 777", &mark), token))
        .collect();
    let process = start(&client, "echo in; sleep 778", &mark);
    calls.push(client.calling("process", &attach(&process, 0, 600), None));
    mark.wait_for("sleep 778");
    wait_until("both run", || mark.named("sleep 777").len() == 2);
    server.client().revoke(&id);
    for mut call in calls {
        assert_eq!(result(&call.to_end().1)["closed"], "revoked");
    }
    mark.wait_until_gone();
}

fn what_cannot_start_says_so(on: On) {
    let server = on.start();
    let client = server.client();
    let refused = refusal(&client.tool("exec", &json!({ "command": "x", "cwd": "/nowhere" })));
    assert_eq!((refused.0.as_str(), refused.1.as_str()), ("bad_cwd", "cwd"));
    let mark = Mark::new();
    let (_, answer) = client.calling("exec", &command("exec /nowhere/at-all", &mark), None).to_end();
    assert_eq!(result(&answer)["exit_code"], 127);
    let process = result(&client.tool("process", &json!({ "action": "start", "argv": ["/nowhere/at-all"] })));
    let process = process["process_id"].as_str().unwrap().to_owned();
    let (_, answer) = client.calling("process", &attach(&process, 0, 60), None).to_end();
    let shown = result(&answer);
    assert_eq!((&shown["state"], &shown["exit_code"]), (&json!("exited"), &json!(127)));
    assert!(shown["output"].as_str().unwrap().contains("No such file"));
}
