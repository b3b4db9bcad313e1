//! How the WebSocket of a process ends, on both runtimes: every reason, and every client that is at fault.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_core::{Close, close::CloseFrame, wire::process::ServerControl};
use hangar_tests::{
    on_each,
    real::{Client, Gate, On, Options, Said, Server, Socket, wait_until},
};
use serde_json::json;
use std::{io::Read, net::Shutdown, time::Duration};
use tungstenite::{
    Message,
    protocol::frame::{
        Frame,
        coding::{Data, OpCode},
    },
};

on_each! {
    every_reason_has_its_frame_and_its_code
    a_token_that_expires_says_what_one_that_is_revoked_does
    a_killed_process_says_by_which_signal
    a_reader_of_logs_says_nothing
    who_leaves_is_not_missed
    a_reader_that_stalls_is_given_up_and_nobody_notices
    a_slow_reader_is_told_what_it_missed
    answers_to_who_does_not_read_them_do_not_pile_up;
    what_is_no_message_ends_the_stream_and_says_why
}

/// A socket that was opened with a token of its own, whose id this is.
fn with_own_token(client: &Client) -> (String, Socket) {
    let (id, other) = client.new_token(&json!({ "scope": "admin" }));
    let process = other.start_line("sleep 60");
    let mut socket = other.open(&process, "attach", "");
    socket.ready();
    (id, socket)
}

fn open_in(client: &Client, sandbox: &str) -> Socket {
    let path = format!("/v1/sandboxes/{sandbox}/processes");
    let reply = client.post(&path, &json!({ "command": "sleep 60", "env": { "HOME": "/nonexistent" } }));
    assert_eq!(reply.status, 201, "{reply:?}");
    let access = format!("{path}/{}/stream-access", reply.json()["id"].as_str().unwrap());
    let access = client.call("PUT", &access, Some(&json!({ "mode": "attach" }))).json();
    let mut socket = Socket::open(access["url"].as_str().unwrap()).unwrap();
    socket.ready();
    socket
}

/// A socket that ends for this reason, if a process can have one; the server is gone after [`Close::Shutdown`].
fn ending(server: &Server, reason: Close) -> Option<Socket> {
    let client = server.client();
    let sandbox = |name: &str| {
        assert_eq!(client.post("/api/sandboxes", &server.another(name)).status, 201);
        open_in(client, name)
    };
    let socket = match reason {
        Close::Revoked => {
            let (id, socket) = with_own_token(client);
            assert_eq!(client.delete(&format!("/api/tokens/{id}")).status, 204);
            socket
        }
        Close::Destroyed => {
            let socket = sandbox("doomed");
            assert_eq!(client.delete("/api/sandboxes/doomed").status, 204);
            socket
        }
        Close::Paused if !server.is_local() => return None,
        Close::Paused => {
            let socket = sandbox("stopped");
            assert_eq!(client.post("/api/sandboxes/stopped/pause", &json!({})).status, 200);
            socket
        }
        Close::Shutdown => {
            let socket = open_in(client, "local");
            server.shut_down();
            socket
        }
        Close::Done => client.open(&client.start_line("exit 3"), "logs", ""),
        Close::ClientData => {
            let mut socket = client.open(&client.start_line("sleep 60"), "logs", "");
            socket.input(b"x");
            socket
        }
        Close::Limit => {
            let process = client.start_line("seq 1 10000");
            client.wait_until_ended(&process);
            client.open(&process, "logs", "")
        }
        Close::Error => {
            let process = client.start_line("sleep 60");
            let mut socket = client.open(&process, "logs", "");
            socket.ready();
            let local = server.plane().sandboxes().all().into_iter().find(|entry| entry.name() == "local");
            let handles = local.unwrap().sandbox().processes();
            let handle = handles.iter().find(|handle| handle.id() == process).unwrap();
            handle.command(|process| {
                process.kill();
                process.handle_lost();
            });
            socket
        }
        // Events and watches have a lifetime; who is slow has a test of its own; who has left hears nothing.
        Close::Lifetime | Close::SlowConsumer | Close::Client => return None,
    };
    Some(socket)
}

fn every_reason_has_its_frame_and_its_code(on: On) {
    let mut options = Options::default();
    options.settings.local_drain = Duration::from_millis(10);
    options.settings.stream_max_bytes = 5000;
    let server = on.start_with(options);
    let mut reasons = Close::ALL.to_vec();
    // With it the server ends.
    reasons.sort_by_key(|reason| *reason == Close::Shutdown);
    for reason in reasons {
        let Some(mut socket) = ending(&server, reason) else { continue };
        let CloseFrame { code, reason, end } = reason.row().websocket.unwrap();
        let whole = socket.to_end();
        assert_eq!(whole.closed, Socket::closed(code, reason), "{whole:?}");
        let said = match (end, reason) {
            (false, _) => json!(null),
            (true, "process_exited") => json!({ "type": "end", "reason": reason, "exit_code": 3 }),
            (true, _) => json!({ "type": "end", "reason": reason }),
        };
        assert_eq!(whole.end_json(), said);
        if reason == "limit" {
            assert!((5000..40_000).contains(&whole.output.len()), "{}", whole.output.len());
        }
    }
    server.hurry();
    assert_eq!(server.wait().left, (0, 0));
}

fn a_token_that_expires_says_what_one_that_is_revoked_does(on: On) {
    let mut options = Options::default();
    options.settings.stream_recheck = Duration::from_millis(100);
    let server = on.start_with(options);
    let (_, client) = server.client().new_token(&json!({ "scope": "admin", "ttl": 1 }));
    let process = client.start_line("sleep 60");
    let mut socket = client.open(&process, "attach", "");
    socket.ready();
    assert_eq!(socket.to_end().closed, Socket::closed(1008, "token_revoked"));
}

fn a_killed_process_says_by_which_signal(on: On) {
    let server = on.start();
    let client = server.client();
    let process = client.start_line("kill -9 $$");
    let end = client.open(&process, "attach", "").to_end().end_json();
    assert_eq!(end, json!({ "type": "end", "reason": "process_exited", "signal": "SIGKILL" }));
}

fn a_reader_of_logs_says_nothing(on: On) {
    let server = on.start();
    let client = server.client();
    let process = client.start_line("read line; echo got $line");
    for message in [Message::binary(&b"x\n"[..]), Message::text(r#"{"type":"resize","cols":1,"rows":1}"#)] {
        let mut socket = client.open(&process, "logs", "");
        socket.send(Message::Ping(tungstenite::Bytes::new())).unwrap();
        socket.send(message).unwrap();
        let whole = socket.to_end();
        assert_eq!((whole.end, whole.closed), (None, Socket::closed(1008, "client_data_on_logs")));
    }
    assert_eq!(client.show(&process)["status"], "running");
}

fn what_is_no_message_ends_the_stream_and_says_why(on: On) {
    let server = on.start();
    let client = server.client();
    let process = client.start(&json!({ "command": "cat", "tty": { "cols": 80, "rows": 24 } }));
    let frame = |data, fin, payload: &'static [u8]| Frame::message(payload, OpCode::Data(data), fin);
    for (message, code, why) in [
        (Message::text("nonsense"), 1008, "bad_control"),
        (Message::text(r#"{"type":"ready"}"#), 1008, "bad_control"),
        (Message::text(r#"{"type":"resize","cols":0,"rows":1}"#), 1008, "cols"),
        (Message::text(r#"{"type":"resize","cols":70000,"rows":1}"#), 1008, "cols"),
        (Message::text(r#"{"type":"signal","name":"SIGSEGV"}"#), 1008, "SIGSEGV"),
        (Message::text(format!(r#"{{"type":"signal","name":"{}"}}"#, "é".repeat(300))), 1008, "é"),
        (Message::binary(vec![b'x'; 2 << 20]), 1009, ""),
        (Message::Frame(frame(Data::Text, true, b"\xff\xfe")), 1007, ""),
        (Message::Frame(frame(Data::Continue, true, b"x")), 1002, ""),
    ] {
        let mut socket = client.open(&process, "attach", "&tail=0");
        socket.ready();
        let shown = format!("{:.60}", message.to_string());
        // A long one may be refused before all of it was sent.
        socket.send(message).ok();
        match socket.hear() {
            Said::Closed(closed, reason) => {
                assert!(
                    closed == code && reason.contains(why) && reason.len() <= 123,
                    "{shown}: {closed} {reason}"
                );
            }
            other @ (Said::Control(_) | Said::Frame { .. }) => panic!("{shown}: {other:?}"),
        }
    }
    // One in pieces is one.
    let mut socket = client.open(&process, "attach", "&tail=0");
    socket.ready();
    socket.send(Message::Frame(frame(Data::Binary, false, b"in "))).unwrap();
    socket.send(Message::Frame(frame(Data::Continue, true, b"pieces\r"))).unwrap();
    socket.read_until("in pieces");
    client.of("DELETE", &process, "", &json!({}));
}

fn who_leaves_is_not_missed(on: On) {
    let server = on.start();
    let client = server.client();
    let process = client.start_line("sleep 0.5; echo done; sleep 60");
    let leased = || server.plane().streams().leased();
    for leave in [
        |socket: &mut Socket| socket.close(),
        |socket: &mut Socket| socket.tcp().shutdown(Shutdown::Write).unwrap(),
        |socket: &mut Socket| socket.tcp().shutdown(Shutdown::Both).unwrap(),
    ] {
        let mut socket = client.open(&process, "attach", "");
        socket.ready();
        assert_eq!(leased(), 1);
        leave(&mut socket);
        wait_until("its lease is given back", || leased() == 0);
    }
    let mut socket = client.open(&process, "attach", "");
    socket.read_until("done");
    assert_eq!(client.show(&process)["status"], "running");
}

/// A process that prints without an end, and a reader of it that does not read.
fn stalled(server: &Server) -> (String, Socket) {
    let client = server.client();
    let process = client.start_line("while :; do echo 0123456789012345678901234567890123456789; done");
    let mut socket = client.open(&process, "logs", "");
    socket.ready();
    (process, socket)
}

fn a_reader_that_stalls_is_given_up_and_nobody_notices(on: On) {
    let server = on.start_with(Options::unpaced());
    let client = server.client();
    let (process, mut socket) = stalled(&server);
    // Somebody else reads the same all the while.
    let mut other = client.open(&process, "logs", "&tail=0");
    other.ready();
    let mut last = 0;
    wait_until("it is given up", || {
        for _ in 0..100 {
            if let Said::Frame { seq, .. } = other.hear() {
                assert!(seq > last);
                last = seq;
            }
        }
        server.plane().streams().leased() == 1
    });
    let whole = socket.to_end();
    assert_eq!((whole.end, whole.closed), (None, Socket::closed(1013, "slow_consumer")));
    // It comes back where it was, and is told what it missed.
    let mut again = client.open(&process, "logs", &format!("&seq={}", whole.last));
    again.ready();
    assert!(matches!(again.hear(), Said::Control(ServerControl::Gap(_))));
    client.of("DELETE", &process, "", &json!({}));
}

fn a_slow_reader_is_told_what_it_missed(on: On) {
    let mut options = Options::default();
    options.settings.stream_bytes_per_second = 20_000;
    options.settings.stream_max_bytes = 1 << 40;
    let server = on.start_with(options);
    let client = server.client();
    let gate = Gate::new();
    let process = client.start_line(&format!("echo first; {}; seq 1 200000; echo end", gate.wait()));
    let mut socket = client.open(&process, "logs", "");
    socket.read_until("first");
    gate.open();
    let (mut next, mut gaps) = (2, 0);
    for _ in 0..40 {
        match socket.hear() {
            Said::Frame { seq, .. } => {
                assert_eq!(seq, next);
                next = seq + 1;
            }
            Said::Control(ServerControl::Gap(gap)) => {
                assert_eq!((gap.from_seq, gap.reason.name()), (Some(next), "slow_consumer"));
                next = gap.to_seq;
                gaps += 1;
            }
            other @ (Said::Control(_) | Said::Closed(..)) => panic!("{other:?}"),
        }
        if gaps > 0 {
            break;
        }
    }
    assert_eq!(gaps, 1);
    // The process was not slowed.
    client.wait_until_ended(&process);
    let mut rest = Vec::new();
    assert!(socket.tcp().shutdown(Shutdown::Write).is_ok());
    socket.tcp().try_clone().unwrap().read_to_end(&mut rest).ok();
}

fn answers_to_who_does_not_read_them_do_not_pile_up(on: On) {
    let server = on.start();
    let client = server.client();
    let process = client.start_line("sleep 60");
    let mut socket = client.open(&process, "logs", "");
    socket.tcp().set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    // As much as kernels hold, and then the server reads no more.
    let ping = Message::Ping(tungstenite::Bytes::from_static(&[b'x'; 125]));
    let stopped = (0..1_000_000).position(|_| socket.send(ping.clone()).is_err());
    assert!(stopped.is_some(), "125 MB of pings were taken, and nobody reads what they are answered with");
}
