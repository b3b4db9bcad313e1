//! `hangar mcp`: calls as lines, and nothing else on standard output.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_tests::{
    mcp::{request, result},
    real::{Gate, Mark, Serving, Stdio, cli, wait_until},
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    io::BufReader,
    process::{self, Command},
};

#[test]
fn calls_are_answered_at_once_and_in_their_own_time() {
    cli("calls_are_answered_at_once_and_in_their_own_time", || {
        let (mut session, mark) = (Stdio::start(|_| {}), Mark::new());
        let gate = Gate::new();
        session.exec(&json!("slow"), &format!("echo a; {}; echo b", gate.wait()), &mark, Some(&json!(0)));
        session.exec(&json!(7), "echo quick", &mark, None);
        session.say("");
        let mut heard = vec![session.hear().unwrap(), session.hear().unwrap()];
        gate.open();
        heard.extend([session.hear().unwrap(), session.hear().unwrap()]);
        let ids: Vec<&Value> =
            heard.iter().map(|message| &message["id"]).filter(|id| !id.is_null()).collect();
        assert_eq!(ids, [&json!(7), &json!("slow")], "{heard:?}");
        assert_eq!(result(heard.last().unwrap())["stdout"], "a\nb\n");
        // The end of the input is the end.
        session.input = None;
        assert_eq!((session.hear(), session.ended()), (None, Some(0)));
    });
}

#[test]
fn what_is_no_call_is_told_and_the_next_one_is_answered() {
    cli("what_is_no_call_is_told_and_the_next_one_is_answered", || {
        let (mut session, mark) = (Stdio::start(|_| {}), Mark::new());
        let list = request(&json!(1), "tools/list", &json!({}), None).to_string();
        for (line, code, id) in [
            ("nonsense".to_owned(), -32700, json!(null)),
            (format!("[{list}]"), -32600, json!(null)),
            (r#"{"jsonrpc":"2.0","id":3,"method":"initialize","params":{}}"#.to_owned(), -32602, json!(3)),
            (list.replace("tools/list", "tools/nothing"), -32601, json!(1)),
            ("x".repeat(3 << 20), -32600, json!(null)),
        ] {
            session.say(&line);
            let said = session.hear().unwrap();
            assert_eq!((&said["error"]["code"], &said["id"]), (&json!(code), &id), "{said}");
        }
        // An id that is in use names no second call.
        let gate = Gate::new();
        session.exec(&json!(5), &gate.wait(), &mark, None);
        session.exec(&json!(5), "echo other", &mark, None);
        assert_eq!(session.hear().unwrap()["error"]["code"], -32600);
        gate.open();
        assert_eq!(result(&session.hear().unwrap())["stdout"], "");
        session.say(&list);
        assert_eq!(session.hear().unwrap()["result"]["tools"].as_array().unwrap().len(), 3);
    });
}

#[test]
fn what_is_cancelled_is_killed_and_not_answered() {
    cli("what_is_cancelled_is_killed_and_not_answered", || {
        let (mut session, mark) = (Stdio::start(|_| {}), Mark::new());
        session.exec(&json!(1), "echo in; sleep 777 & setsid sleep 778 & wait", &mark, Some(&json!("p")));
        assert_eq!(session.hear().unwrap()["params"]["message"], "in\n");
        mark.wait_for("sleep 778");
        for id in [json!("1"), json!(2)] {
            session.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }).to_string());
        }
        session.say(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } })
                .to_string(),
        );
        mark.wait_until_gone();
        session.exec(&json!(2), "echo next", &mark, None);
        assert_eq!(session.hear().unwrap()["id"], 2);
    });
}

#[test]
fn whatever_ends_it_ends_what_it_started() {
    cli("whatever_ends_it_ends_what_it_started", || {
        for end in ["input", "signal", "output"] {
            let (mut session, mark) = (Stdio::start(|_| {}), Mark::new());
            let env = json!({ "HOME": "/nonexistent", (Mark::NAME): mark.value() });
            let arguments = json!({ "action": "start", "command": "setsid sleep 778 & wait", "env": env });
            let params = json!({ "name": "process", "arguments": arguments });
            session.say(&request(&json!(1), "tools/call", &params, None).to_string());
            assert_eq!(result(&session.hear().unwrap())["state"], "running");
            session.exec(&json!(2), "echo in; sleep 777", &mark, Some(&json!(0)));
            assert_eq!(session.hear().unwrap()["params"]["message"], "in\n");
            mark.wait_for("sleep 777");
            mark.wait_for("sleep 778");
            let code = match end {
                "input" => {
                    session.input = None;
                    Some(0)
                }
                "signal" => {
                    session.signal(Signal::TERM);
                    Some(143)
                }
                _ => {
                    // Nobody reads it any more; the next message finds out.
                    let unread = Command::new("true").stdout(process::Stdio::piped()).spawn().unwrap();
                    let mut child = unread;
                    session.output = BufReader::new(child.stdout.take().unwrap());
                    child.wait().unwrap();
                    session.say("nonsense");
                    Some(125)
                }
            };
            assert_eq!(session.ended(), code, "{end}");
            mark.wait_until_gone();
        }
    });
}

/// As the clients of others do it: the input is closed, a signal comes 2 s later.
#[test]
fn what_ignores_its_end_is_killed_while_its_client_waits() {
    cli("what_ignores_its_end_is_killed_while_its_client_waits", || {
        let (mut session, mark) = (Stdio::start(|_| {}), Mark::new());
        let command = "trap '' TERM; echo in; while :; do sleep 0.1; done";
        session.exec(&json!(1), command, &mark, Some(&json!(0)));
        assert_eq!(session.hear().unwrap()["params"]["message"], "in\n");
        session.input = None;
        std::thread::sleep(std::time::Duration::from_secs(2));
        session.signal(Signal::TERM);
        assert_eq!(session.ended(), Some(0));
        assert!(mark.living().is_empty(), "{:?}", mark.living());
    });
}

#[test]
fn what_prints_without_end_does_not_keep_it() {
    cli("what_prints_without_end_does_not_keep_it", || {
        let mut session = Stdio::start(|command| {
            command.env("HANGAR_STREAM_BYTES_PER_SECOND", "100000000000");
            command.env("HANGAR_STREAM_MAX_BYTES", "100000000000");
        });
        let mark = Mark::new();
        for id in 1..=4 {
            session.exec(&json!(id), "exec yes", &mark, Some(&json!(id)));
        }
        session.hear().unwrap();
        session.input = None;
        // What comes is read, for as long as anything does.
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let output = &mut session.output;
            scope.spawn(move || {
                std::io::copy(output, &mut std::io::sink()).unwrap();
                done.send(()).unwrap();
            });
            ended.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
        });
        assert_eq!(session.ended(), Some(0));
        mark.wait_until_gone();
    });
}

#[test]
fn it_stands_before_a_server() {
    cli("it_stands_before_a_server", || {
        let serving = Serving::start(|_| {});
        let client = serving.client();
        let url = format!("http://{}", client.address);
        let (mut session, mark) = (
            Stdio::start(|command| {
                command.args(["--server", &url]).env("HANGAR_TOKEN", &client.token);
            }),
            Mark::new(),
        );
        session.exec(&json!(1), "echo in; sleep 777", &mark, Some(&json!(0)));
        assert_eq!(session.hear().unwrap()["params"]["message"], "in\n");
        let env = json!({ "HOME": "/nonexistent", (Mark::NAME): mark.value() });
        let arguments = json!({ "action": "start", "command": "sleep 778", "env": env });
        session.say(
            &request(&json!(2), "tools/call", &json!({ "name": "process", "arguments": arguments }), None)
                .to_string(),
        );
        let process = result(&session.hear().unwrap())["process_id"].as_str().unwrap().to_owned();
        session.say(&request(&json!(3), "tools/call", &json!({ "name": "x" }), None).to_string());
        assert_eq!(session.hear().unwrap()["error"]["code"], -32602);
        // The command ends with the session, and the process does not.
        session.input = None;
        assert_eq!(session.ended(), Some(0));
        wait_until("the command is killed", || mark.named("sleep 777").is_empty());
        assert_eq!(client.show(&process)["status"], "running");
        // A token that is not valid, and a server that is not there.
        let nowhere = "http://127.0.0.1:9";
        for (url, token, text) in [(url.as_str(), "nonsense", "unknown"), (nowhere, "x", "cannot be reached")]
        {
            let mut session = Stdio::start(|command| {
                command.args(["--server", url]).env("HANGAR_TOKEN", token);
            });
            session.say(&request(&json!("a"), "tools/list", &json!({}), None).to_string());
            let said = session.hear().unwrap();
            assert_eq!(said["id"], "a");
            assert!(said["error"]["message"].as_str().unwrap().contains(text), "{said}");
        }
    });
}
