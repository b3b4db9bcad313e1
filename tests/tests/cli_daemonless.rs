//! `hangar serve`, killed and started again, with a sandbox that has no daemon.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::real::{Hangar, Mark, Serving, cli, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

const PROCESSES: &str = "/api/sandboxes/bare/processes";

/// The lines from 1 on, slowly enough for a restart in the middle.
const LINES: &str = "for i in $(seq 1 300); do echo $i; sleep 0.01; done; exit 9";

fn serve() -> Serving {
    let serving = Serving::start(|_| {});
    let made = serving.client().post("/api/sandboxes", &json!({ "name": "bare", "daemon": false }));
    assert_eq!(made.status, 201, "{made:?}");
    serving
}

/// Ends it by a signal, and starts it again.
fn restart(serving: Serving, signal: Signal) -> Serving {
    let client = serving.client().clone();
    serving.signal(signal);
    let (_, _, folder) = serving.wait();
    Serving::again(folder, client.address, |command| {
        command.env("HANGAR_TOKEN", &client.token);
    })
}

/// With its processes, and what they left in the home of the server's user.
fn destroy(serving: &Serving) {
    assert_eq!(serving.client().delete("/api/sandboxes/bare").status, 204);
}

#[test]
fn clients_go_on_where_they_were() {
    cli("clients_go_on_where_they_were", || {
        for signal in [Signal::KILL, Signal::TERM] {
            go_on_after(signal);
        }
    });
}

fn go_on_after(signal: Signal) {
    let serving = serve();
    let client = serving.client().clone();
    let process = client.start_in("bare", &json!({ "command": LINES }));
    let mut attach = Hangar::start(&mut client.hangar(["attach", "bare", &process]));
    let mut logs = Hangar::start(&mut client.hangar(["logs", "-f", "bare", &process]));
    for line in 1..=20 {
        assert_eq!(attach.line(), Some(line.to_string()));
        assert_eq!(logs.line(), Some(line.to_string()));
    }
    let serving = restart(serving, signal);
    let (attach, logs) = (attach.wait(), logs.wait());
    let rest: String = (21..=300).map(|line| format!("{line}\n")).collect();
    assert_eq!((attach.code, &attach.stdout), (9, &rest), "{}", attach.stderr);
    assert_eq!((logs.code, &logs.stdout), (0, &rest), "{}", logs.stderr);
    let shown = serving.client().show_in("bare", &process);
    assert_eq!((&shown["adopted"], &shown["exit_code"]), (&json!(true), &json!(9)));
    let all: String = (1..=300).map(|line| format!("{line}\n")).collect();
    assert_eq!((&shown["output"], &shown["gap"]), (&json!(all), &Value::Null));
    destroy(&serving);
}

#[test]
fn a_process_outlives_the_server_and_a_command_does_not() {
    cli("a_process_outlives_the_server_and_a_command_does_not", || {
        let serving = serve();
        let marks = [Mark::new(), Mark::new()];
        let request =
            |mark: &Mark| json!({ "command": "exec sleep 777", "env": { (Mark::NAME): mark.value() } });
        let process = serving.client().start_in("bare", &request(&marks[0]));
        let ask =
            serving.client().ask("POST", "/api/sandboxes/bare/exec", Some(&request(&marks[1]))).unwrap();
        for mark in &marks {
            mark.wait_for("sleep 777");
        }
        serving.signal(Signal::TERM);
        // The second one says that it is not to wait for it.
        let serving = restart(serving, Signal::TERM);
        drop(ask);
        assert_eq!((marks[0].named("sleep 777").len(), marks[1].living()), (1, Vec::new()));
        wait_until("it is found", || serving.client().show_in("bare", &process)["state"] == "running");
        assert_eq!(serving.client().delete(&format!("{PROCESSES}/{process}")).status, 202);
        marks[0].wait_until_gone();
        wait_until("its end is known", || serving.client().show_in("bare", &process)["signal"] == "SIGTERM");
        destroy(&serving);
    });
}

#[test]
fn what_ended_meanwhile_is_told_as_it_was() {
    cli("what_ended_meanwhile_is_told_as_it_was", || {
        let serving = serve();
        let process =
            serving.client().start_in("bare", &json!({ "command": "echo on; sleep 1; echo off; exit 7" }));
        serving.signal(Signal::KILL);
        let client = serving.client().clone();
        let (_, _, folder) = serving.wait();
        std::thread::sleep(std::time::Duration::from_secs(2));
        let serving = Serving::again(folder, client.address, |command| {
            command.env("HANGAR_TOKEN", &client.token);
        });
        wait_until("its end is known", || serving.client().show_in("bare", &process)["exit_code"] == 7);
        assert_eq!(serving.client().show_in("bare", &process)["output"], "on\noff\n");
        destroy(&serving);
    });
}
