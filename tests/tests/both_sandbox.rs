//! Sandboxes and servers that are paused and come to their end, on both runtimes, with what runs in them.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    on_both,
    real::{Folder, Gate, Mark, On, Options, line, wait_until},
};
use serde_json::json;
use std::{
    thread,
    time::{Duration, Instant},
};

on_both! {
    a_destroyed_sandbox_ends_everything_in_it
    what_outlived_its_command_ends_with_the_sandbox
    a_paused_sandbox_is_silent_and_runs_on_when_resumed
    a_signal_continues_nothing_that_is_paused
    a_pause_stops_what_left_the_group
    a_shutdown_lets_commands_end
    a_shutdown_kills_what_does_not_end
    a_shutdown_can_be_hurried
}

fn a_destroyed_sandbox_ends_everything_in_it(on: On) {
    let server = on.start();
    let client = server.client();
    let mark = Mark::new();
    assert_eq!(client.post("/api/sandboxes", &json!({ "name": "doomed" })).status, 201);
    let mut stream =
        client.stream_in("doomed", &line("sleep 777 & setsid sleep 778 & echo in; wait").mark(&mark));
    stream.read_until("in\n");
    mark.wait_for("sleep 777");
    mark.wait_for("sleep 778");
    let other = Gate::new();
    let beside = client.stream(&line(other.wait()));
    let reply = client.delete("/api/sandboxes/doomed");
    assert_eq!(reply.status, 204, "{reply:?}");
    assert_eq!(mark.living(), [], "nothing is left once it says so");
    let result = stream.collect().result;
    assert_eq!((result.closed.as_deref(), result.exit_code), (Some("destroyed"), None));
    assert_eq!(result.stdout, "in\n");
    assert_eq!(client.get("/api/sandboxes/doomed").status, 404);
    // Another sandbox notices nothing.
    other.open();
    assert_eq!(beside.collect().result.exit_code, Some(0));
}

fn what_outlived_its_command_ends_with_the_sandbox(on: On) {
    let server = on.start();
    let client = server.client();
    let mark = Mark::new();
    assert_eq!(client.post("/api/sandboxes", &json!({ "name": "doomed" })).status, 201);
    let call = line("setsid sleep 777 >/dev/null 2>&1 & setsid sleep 778 & echo done").mark(&mark);
    assert_eq!(client.stream_in("doomed", &call).collect().result.exit_code, Some(0));
    assert_eq!(mark.named("sleep 777").len() + mark.named("sleep 778").len(), 2);
    assert_eq!(client.delete("/api/sandboxes/doomed").status, 204);
    mark.wait_until_gone();
}

/// The size of a file that a command adds to.
fn size(file: &std::path::Path) -> u64 {
    file.metadata().map_or(0, |file| file.len())
}

fn a_paused_sandbox_is_silent_and_runs_on_when_resumed(on: On) {
    let server = on.start();
    let client = server.client();
    let (mark, folder) = (Mark::new(), Folder::new());
    let file = folder.file("ticks");
    let command = format!("while :; do echo tick | tee -a {}; sleep 0.02; done", file.display());
    let mut stream = client.stream(&line(&command).mark(&mark));
    stream.read_until("tick\n");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| client.exec(&line("echo begun; sleep 777").mark(&mark)));
        mark.wait_for("sleep 777");
        assert_eq!(client.call("POST", "/api/sandboxes/local/pause", None).status / 100, 2);
        let result = waiting.join().unwrap();
        assert_eq!((result.closed.as_deref(), result.exit_code), (Some("paused"), None));
        assert_eq!(result.stdout, "begun\n");
    });
    let result = stream.collect().result;
    assert_eq!((result.closed.as_deref(), result.exit_code), (Some("paused"), None));
    let paused = size(&file);
    thread::sleep(Duration::from_millis(700));
    assert_eq!(size(&file), paused, "it is stopped");
    assert_eq!(client.get("/api/sandboxes/local").json()["state"], "paused");
    let refused = client.try_stream("local", &line("echo no")).unwrap_err();
    assert_eq!(refused.refusal(), (409, "sandbox_paused".to_owned()));
    assert_eq!(client.call("POST", "/api/sandboxes/local/resume", None).status / 100, 2);
    wait_until("it runs on", || size(&file) > paused);
    assert_eq!(client.exec(&line("echo again")).stdout, "again\n");
}

fn a_signal_continues_nothing_that_is_paused(on: On) {
    let server = on.start();
    let client = server.client();
    let folder = Folder::new();
    let file = folder.file("ticks");
    let process =
        client.start_line(&format!("while :; do echo tick >> {}; sleep 0.02; done", file.display()));
    wait_until("it runs", || size(&file) > 0);
    let change = |to: &str| client.call("POST", &format!("/api/sandboxes/local/{to}"), None).status;
    assert_eq!(change("pause") / 100, 2);
    let paused = size(&file);
    let signal = |name: &str| client.of("POST", &process, "/signal", &json!({ "name": name }));
    assert_eq!(signal("SIGCONT").refusal(), (409, "sandbox_paused".to_owned()));
    thread::sleep(Duration::from_millis(300));
    assert_eq!(size(&file), paused, "it is stopped");
    assert_eq!(change("resume") / 100, 2);
    wait_until("it runs on", || size(&file) > paused);
    assert_eq!(signal("SIGCONT").status, 204);
}

fn a_pause_stops_what_left_the_group(on: On) {
    let server = on.start();
    let client = server.client();
    let (mark, folder) = (Mark::new(), Folder::new());
    let file = folder.file("ticks");
    let tick = format!("while :; do echo tick >> {}; sleep 0.02; done", file.display());
    let stream = client.stream(&line(format!("setsid bash -c '{tick}' & wait")).mark(&mark));
    wait_until("it ticks", || size(&file) > 0);
    assert_eq!(client.call("POST", "/api/sandboxes/local/pause", None).status / 100, 2);
    let paused = size(&file);
    thread::sleep(Duration::from_millis(500));
    assert_eq!(size(&file), paused, "it is stopped");
    assert_eq!(stream.collect().result.closed.as_deref(), Some("paused"));
    // What is paused can be ended as well.
    drop(server);
    mark.wait_until_gone();
}

fn a_shutdown_lets_commands_end(on: On) {
    let server = on.start();
    let client = server.client().clone();
    let (gate, folder) = (Gate::new(), Folder::new());
    let file = folder.file("ended");
    let command = format!("echo begun; {}; echo ok > {}", gate.wait(), file.display());
    let mut stream = client.stream(&line(command));
    stream.read_until("begun\n");
    server.shut_down();
    let result = stream.collect().result;
    assert_eq!((result.closed.as_deref(), result.exit_code), (Some("shutdown"), None));
    let refused = client.get("/healthz");
    assert_eq!(refused.refusal(), (503, "shutting_down".to_owned()));
    assert!(refused.head.to_ascii_lowercase().contains("retry-after: 1"), "{refused:?}");
    let refused = client.try_stream("local", &line("echo no")).unwrap_err();
    assert_eq!(refused.refusal(), (503, "shutting_down".to_owned()));
    assert!(!file.exists());
    gate.open();
    assert_eq!(server.wait().killed, 0);
    assert!(file.exists(), "it ran to its end");
}

fn a_shutdown_kills_what_does_not_end(on: On) {
    let mut options = Options::default();
    options.settings.local_drain = Duration::from_secs(1);
    let server = on.start_with(options);
    let mark = Mark::new();
    let command = "trap '' TERM; sleep 777 & setsid sleep 778 & echo begun; sleep 779; wait";
    let mut stream = server.client().stream(&line(command).mark(&mark));
    stream.read_until("begun\n");
    let begun = Instant::now();
    server.shut_down();
    assert_eq!(server.wait().killed, 1);
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert_eq!(mark.living(), []);
    assert_eq!(stream.collect().result.closed.as_deref(), Some("shutdown"));
}

fn a_shutdown_can_be_hurried(on: On) {
    let mut options = Options::default();
    options.settings.local_drain = Duration::from_secs(3600);
    let server = on.start_with(options);
    let mark = Mark::new();
    let mut stream = server.client().stream(&line("echo begun; exec sleep 777").mark(&mark));
    stream.read_until("begun\n");
    server.shut_down();
    assert_eq!(stream.collect().result.closed.as_deref(), Some("shutdown"));
    assert_eq!(mark.wait_for("sleep 777"), mark.named("sleep 777")[0], "it may run on");
    server.hurry();
    assert_eq!(server.wait().killed, 1);
    assert_eq!(mark.living(), []);
}
