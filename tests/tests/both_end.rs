//! How a command ends, and what ends with it, on both runtimes.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_core::exec::ExecResult;
use hangar_tests::{
    on_each,
    real::{Client, Folder, Gate, Mark, On, Options, Server, line, wait_until},
};
use serde_json::json;
use std::{
    net::Shutdown,
    thread,
    time::{Duration, Instant},
};

on_each! {
    what_holds_the_output_open_does_not_hold_up_the_end
    what_still_prints_after_the_end_is_not_ended_by_it
    a_background_command_without_output_holds_up_nothing
    a_timeout_ends_a_command
    a_timeout_ends_a_command_that_ignores_term
    a_client_that_drops_its_stream_ends_everything
    a_client_that_half_closes_has_left
    a_member_that_ignores_term_is_killed_after_its_leader_ended
    a_revoked_token_ends_everything
    an_expired_token_ends_everything
    a_command_that_is_not_streamed_outlives_its_connection
    a_command_that_is_not_streamed_ends_with_its_token
}

/// Longer than anything here takes, shorter than a command that was not ended.
const WELL_UNDER_A_MINUTE: Duration = Duration::from_secs(40);

/// Three members: one has left the process group and the session.
const FAMILY: &str = "sleep 777 & setsid sleep 778 & echo started; sleep 779; wait";

fn what_holds_the_output_open_does_not_hold_up_the_end(on: On) {
    let server = on.start();
    let run = |command: &str, streamed: bool| {
        let mark = Mark::new();
        let begun = Instant::now();
        let call = line(command).mark(&mark);
        let result = if streamed {
            let collected = server.client().stream(&call).collect();
            assert_eq!(collected.stdout, b"done\n");
            collected.result
        } else {
            server.client().exec(&call)
        };
        assert_eq!((result.exit_code, &*result.stdout), (Some(0), "done\n"), "{command}");
        assert!(result.drain_timed_out, "{command}");
        assert!(begun.elapsed() < WELL_UNDER_A_MINUTE, "{command}: {:?}", begun.elapsed());
        assert_eq!(mark.named("sleep 60").len(), 1, "{command}: a normal end kills nothing");
    };
    thread::scope(|scope| {
        for command in ["sleep 60 & echo done", "setsid sleep 60 & echo done"] {
            scope.spawn(move || run(command, true));
            scope.spawn(move || run(command, false));
        }
    });
}

fn what_still_prints_after_the_end_is_not_ended_by_it(on: On) {
    let server = on.start();
    let (gate, folder, mark) = (Gate::new(), Folder::new(), Mark::new());
    let file = folder.file("printed");
    let command = format!(
        "({}; head -c 200000 /dev/zero; echo late; echo ok > {}) & echo done",
        gate.wait(),
        file.display()
    );
    let result = server.client().stream(&line(command).mark(&mark)).collect().result;
    assert!(result.drain_timed_out && result.exit_code == Some(0));
    gate.open();
    // Neither SIGPIPE nor a full pipe is in its way.
    wait_until("the background command prints to its end", || file.exists());
    mark.wait_until_gone();
}

fn a_background_command_without_output_holds_up_nothing(on: On) {
    let server = on.start();
    let mark = Mark::new();
    let call = line("sleep 60 > /dev/null 2>&1 & echo done").mark(&mark);
    let result = server.client().stream(&call).collect().result;
    assert!(!result.drain_timed_out && result.exit_code == Some(0));
    // The shell may end before what it forked has become `sleep`.
    wait_until("it runs on", || mark.named("sleep 60").len() == 1);
}

fn a_timeout_ends_a_command(on: On) {
    let server = on.start();
    for streamed in [true, false] {
        let mark = Mark::new();
        let call = line("echo begun; sleep 776 & sleep 777").mark(&mark).set("timeout", 0.5);
        let result = if streamed {
            server.client().stream(&call).collect().result
        } else {
            server.client().exec(&call)
        };
        assert!(result.timed_out && result.exit_code.is_none(), "{result:?}");
        assert_eq!((result.signal.as_deref(), &*result.stdout), (Some("SIGTERM"), "begun\n"));
        assert!(result.duration_ms >= 500, "{result:?}");
        mark.wait_until_gone();
    }
}

fn a_timeout_ends_a_command_that_ignores_term(on: On) {
    let server = on.start();
    let mark = Mark::new();
    let command = "trap '' TERM; echo begun; sleep 777 & while :; do sleep 0.2; done";
    let begun = Instant::now();
    let result = server.client().stream(&line(command).mark(&mark).set("timeout", 1)).collect().result;
    assert!(result.timed_out && result.exit_code.is_none(), "{result:?}");
    assert_eq!((result.signal.as_deref(), &*result.stdout), (Some("SIGKILL"), "begun\n"));
    // Its second and the grace time.
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(begun.elapsed() < WELL_UNDER_A_MINUTE, "{:?}", begun.elapsed());
    mark.wait_until_gone();
}

/// Starts the family with a client, and waits until all of it runs.
fn family(on: On, client: &Client, mark: &Mark) -> hangar_tests::real::Stream {
    let mut stream = client.stream(&line(FAMILY).mark(mark));
    if on.streams() {
        stream.read_until("started\n");
    }
    for member in ["sleep 777", "sleep 778", "sleep 779"] {
        mark.wait_for(member);
    }
    stream
}

fn nothing_is_left(server: &Server, mark: &Mark) {
    let took = mark.wait_until_gone();
    assert!(took < WELL_UNDER_A_MINUTE, "{took:?}");
    wait_until("the lease is given back", || server.plane().streams().leased() == 0);
}

fn a_client_that_drops_its_stream_ends_everything(on: On) {
    let server = on.start();
    let mark = Mark::new();
    drop(family(on, server.client(), &mark));
    nothing_is_left(&server, &mark);
}

fn a_client_that_half_closes_has_left(on: On) {
    let server = on.start();
    let mark = Mark::new();
    let stream = family(on, server.client(), &mark);
    stream.half_close();
    nothing_is_left(&server, &mark);
}

fn a_member_that_ignores_term_is_killed_after_its_leader_ended(on: On) {
    let server = on.start();
    let mark = Mark::new();
    let command = "(trap '' TERM; echo started; exec sleep 777) & wait";
    let mut stream = server.client().stream(&line(command).mark(&mark));
    if on.streams() {
        stream.read_until("started\n");
    }
    mark.wait_for("sleep 777");
    drop(stream);
    nothing_is_left(&server, &mark);
}

fn revoked(on: On, result: &ExecResult) {
    assert_eq!(result.closed.as_deref(), Some("revoked"), "{result:?}");
    assert_eq!((result.exit_code, result.streamed), (None, on.streams()));
    assert_eq!(result.stdout, if on.streams() { "started\n" } else { "" });
}

fn a_revoked_token_ends_everything(on: On) {
    let server = on.start();
    let mark = Mark::new();
    let (id, client) = server.client().new_token(&json!({ "scope": "admin" }));
    let stream = family(on, &client, &mark);
    server.client().revoke(&id);
    revoked(on, &stream.collect().result);
    nothing_is_left(&server, &mark);
    assert_eq!(client.get("/api/sandboxes").refusal(), (401, "unauthorized".to_owned()));
}

fn an_expired_token_ends_everything(on: On) {
    let mut options = Options::default();
    options.settings.stream_recheck = Duration::from_secs(1);
    let server = on.start_with(options);
    let mark = Mark::new();
    let (_, client) = server.client().new_token(&json!({ "scope": "admin", "ttl": 3 }));
    let stream = family(on, &client, &mark);
    revoked(on, &stream.collect().result);
    nothing_is_left(&server, &mark);
    assert_eq!(client.get("/api/sandboxes").status, 401);
}

fn a_command_that_is_not_streamed_outlives_its_connection(on: On) {
    let server = on.start();
    for half in [false, true] {
        let (gate, folder, mark) = (Gate::new(), Folder::new(), Mark::new());
        let file = folder.file("ended");
        let call = line(format!("{}; echo ok > {}", gate.wait(), file.display())).mark(&mark);
        let socket = server.client().ask("POST", "/api/sandboxes/local/exec", Some(&call.0)).unwrap();
        wait_until("the command runs", || server.plane().streams().len() == 1 && !mark.living().is_empty());
        if half {
            socket.shutdown(Shutdown::Write).unwrap();
        } else {
            drop(socket);
        }
        // Whatever would end it has had the time to.
        thread::sleep(Duration::from_millis(500));
        assert_eq!(server.plane().streams().len(), 1);
        gate.open();
        wait_until("the command runs to its end", || file.exists());
        wait_until("it is let go of", || server.plane().streams().is_empty());
    }
}

fn a_command_that_is_not_streamed_ends_with_its_token(on: On) {
    let server = on.start();
    let mark = Mark::new();
    let (id, client) = server.client().new_token(&json!({ "scope": "admin" }));
    thread::scope(|scope| {
        // Once a pipe's worth went in behind it, the first line was read.
        let command = format!("echo started; head -c 65536 /dev/zero; {FAMILY}");
        let waiting = scope.spawn(|| client.exec(&line(command).mark(&mark)));
        mark.wait_for("sleep 779");
        server.client().revoke(&id);
        let result = waiting.join().unwrap();
        assert_eq!(result.closed.as_deref(), Some("revoked"), "{result:?}");
        assert_eq!(result.exit_code, None);
        assert_eq!(result.stdout.starts_with("started\n"), on.streams(), "{result:?}");
    });
    nothing_is_left(&server, &mark);
}
