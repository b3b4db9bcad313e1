//! The WebSocket of a process, on both runtimes, spoken by a library of others: how it is opened, and what goes
//! through it. How it ends is in `both_socket_end`.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_core::{
    log::Channel,
    wire::process::{GapView, ServerControl},
};
use hangar_tests::{
    on_each,
    real::{Client, Folder, Gate, Mark, On, Options, Said, Socket, Whole, wait_until},
};
use serde_json::{Value, json};
use std::{net::Shutdown, thread};

on_each! {
    nothing_is_lost_or_doubled_over_twenty_cuts
    what_is_gone_is_a_gap
    a_ticket_is_used_once
    what_cannot_be_opened_is_refused_before_it_is;
    a_terminal_is_typed_at_and_resized
    input_waits_for_who_reads_late_and_holds_up_nothing_else
    ready_then_replay_then_live_then_the_end
    without_a_log_there_is_only_what_comes
    a_tail_is_as_many_lines
    a_client_that_comes_back_goes_on_after_its_frame
}

/// A process whose lines were read one by one, so that they are frames, with all that it printed.
fn in_frames(client: &Client, lines: &str) -> (String, Whole) {
    let gate = Gate::new();
    let process =
        client.start_line(&format!("{}; for i in $({lines}); do echo $i; sleep 0.02; done", gate.wait()));
    let mut socket = client.open(&process, "logs", "");
    socket.ready();
    gate.open();
    let whole = socket.to_end();
    client.wait_until_ended(&process);
    (process, whole)
}

fn ready_then_replay_then_live_then_the_end(on: On) {
    let server = on.start();
    let client = server.client();
    let gate = Gate::new();
    let command = format!("echo out; sleep 0.1; echo err >&2; {}; echo late; exit 3", gate.wait());
    let process = client.start(&json!({ "command": command, "name": "dev" }));
    wait_until("it prints", || {
        client.get(&format!("/api/sandboxes/local/processes/{process}")).json()["next"] == 8
    });
    let mut socket = client.open("dev", "logs", "");
    let ready = socket.ready();
    let shown = &ready["process"];
    assert_eq!((&shown["id"], &shown["name"]), (&process.as_str().into(), &"dev".into()));
    assert_eq!((&shown["status"], &shown["exit_code"]), (&"running".into(), &Value::Null));
    assert_eq!(
        (&ready["logging_disabled"], shown.get("tty"), shown.get("signal")),
        (&false.into(), None, None)
    );
    let frame = |seq, channel, data: &str| Said::Frame { seq, channel, data: data.into() };
    assert_eq!(socket.hear(), frame(1, Channel::Stdout, "out\n"));
    assert_eq!(socket.hear(), frame(2, Channel::Stderr, "err\n"));
    gate.open();
    assert_eq!(socket.hear(), frame(3, Channel::Stdout, "late\n"));
    let rest = socket.to_end();
    assert_eq!(rest.end_json(), json!({ "type": "end", "reason": "process_exited", "exit_code": 3 }));
    assert_eq!(rest.closed, Socket::closed(1000, "process_exited"));
    // And for who comes when it is over.
    let mut late = client.open("dev", "logs", "");
    assert_eq!(late.ready()["process"]["finish_reason"], "exited");
    let whole = late.to_end();
    assert_eq!((whole.text().as_str(), whole.last), ("out\nerr\nlate\n", 3));
    assert_eq!(whole.closed, Socket::closed(1000, "process_exited"));
}

fn a_terminal_is_typed_at_and_resized(on: On) {
    let server = on.start();
    let client = server.client();
    let mark = Mark::new();
    let env = json!({ (Mark::NAME): mark.value() });
    let tty = json!({ "cols": 90, "rows": 33 });
    let process = client.start(&json!({ "command": "exec bash --norc", "tty": tty, "env": env }));
    let mut socket = client.open(&process, "attach", "");
    assert_eq!(socket.ready()["process"]["tty"], json!({ "cols": 90, "rows": 33 }));
    socket.input(b"PS1=; stty size\r");
    socket.read_until("33 90");
    socket.say(r#"{"type":"resize","cols":132,"rows":50}"#);
    socket.input(b"stty size\r");
    socket.read_until("50 132");
    assert_eq!(client.show(&process)["tty"], json!({ "cols": 132, "rows": 50 }));
    assert_eq!(client.of("POST", &process, "/resize", &json!({ "cols": 70, "rows": 20 })).status, 204);
    // What is typed is shown, too: what is waited for is not in it.
    socket.input(b"stty size; echo go$((1+1)); sleep 600\r");
    assert!(socket.read_until("go2").contains("20 70"));
    // Until then the terminal is not its own.
    mark.wait_for("sleep 600");
    socket.input(b"\x03");
    socket.input(b"echo in$((1+1))terrupted\r");
    socket.read_until("in2terrupted");
    socket.say(r#"{"type":"eof"}"#);
    assert_eq!(socket.to_end().closed, Socket::closed(1000, "process_exited"));
}

fn a_client_that_comes_back_goes_on_after_its_frame(on: On) {
    let server = on.start();
    let client = server.client();
    let (process, whole) = in_frames(client, "seq 1 5");
    let frames = whole.last;
    assert!(frames > 1, "all of it is one frame");
    for seq in 0..=frames {
        let rest = client.open(&process, "attach", &format!("&seq={seq}")).to_end();
        assert!(whole.text().ends_with(&rest.text()) && rest.gaps.is_empty(), "{seq}: {rest:?}");
        assert_eq!(rest.output.is_empty(), seq == frames);
    }
    let refused =
        Socket::open(&format!("{}&seq={}", client.access(&process, "logs"), frames + 1)).unwrap_err();
    assert_eq!(refused, (400, "cursor_ahead".to_owned()));
}

fn nothing_is_lost_or_doubled_over_twenty_cuts(on: On) {
    let server = on.start_with(Options::unpaced());
    let client = server.client();
    let request = json!({ "command": "seq 1 200000; sleep 0.2; seq 1 9", "max_log_bytes": 8 << 20 });
    let process = client.start(&request);
    let (mut output, mut last) = (Vec::new(), 0);
    for cut in 0..=20 {
        let mut socket = client.open(&process, "attach", &format!("&seq={last}"));
        socket.ready();
        for _ in 0..=cut % 2 {
            match socket.hear() {
                Said::Frame { seq, data, .. } => {
                    assert_eq!(seq, last + 1);
                    last = seq;
                    output.extend(data);
                }
                other @ (Said::Control(_) | Said::Closed(..)) => panic!("{other:?}"),
            }
        }
        socket.tcp().shutdown(if cut % 2 == 0 { Shutdown::Both } else { Shutdown::Write }).unwrap();
    }
    let rest = client.open(&process, "attach", &format!("&seq={last}")).to_end();
    assert_eq!(rest.closed, Socket::closed(1000, "process_exited"));
    output.extend(rest.output);
    let expected: String = (1..=200_000).chain(1..=9).map(|number| format!("{number}\n")).collect();
    assert!(output == expected.as_bytes(), "{} bytes of {}", output.len(), expected.len());
    wait_until("no lease is held", || server.plane().streams().leased() == 0);
}

fn a_tail_is_as_many_lines(on: On) {
    let server = on.start();
    let client = server.client();
    let (process, whole) = in_frames(client, "seq 1 40");
    let tail = |mode, hint: &str| client.open(&process, mode, hint).to_end();
    assert_eq!(tail("logs", "&tail=0").text(), "");
    let three = tail("logs", "&tail=3").text();
    // From the beginning of a frame, so there may be more where a reader was slow.
    assert!(three.lines().count() >= 3 && three.len() < whole.output.len(), "{three}");
    assert!(whole.text().ends_with(&three));
    assert_eq!(tail("logs", "&tail=all").text(), whole.text());
    let screenful = tail("attach", "").text();
    assert!(
        (24..40).contains(&screenful.lines().count()) && whole.text().ends_with(&screenful),
        "{screenful}"
    );
    // `seq` counts more.
    assert_eq!(tail("attach", &format!("&tail=0&seq={}", whole.last - 1)).last, whole.last);
}

fn what_is_gone_is_a_gap(on: On) {
    let server = on.start_with(Options::unpaced());
    let client = server.client();
    let process = client.start(&json!({ "command": "seq 1 100000", "max_log_bytes": 1 }));
    let all: usize = (1..=100_000).map(|number: u32| number.to_string().len() + 1).sum();
    // That it has ended may be known before the last of its output is here.
    wait_until("all of it is here", || {
        client.get(&format!("/api/sandboxes/local/processes/{process}")).json()["next"] == all
    });
    client.wait_until_ended(&process);
    let whole = client.open(&process, "logs", "").to_end();
    assert!(whole.gaps.is_empty() && whole.text().ends_with("\n100000\n"));
    let rest = client.open(&process, "logs", "&seq=2").to_end();
    let [ServerControl::Gap(GapView { from_seq: Some(3), from_offset: None, bytes: None, to_offset, .. })] =
        rest.gaps[..]
    else {
        panic!("{:?}", rest.gaps)
    };
    assert_eq!(rest.output, whole.output);
    assert_eq!(to_offset as usize + rest.output.len(), all);
}

fn without_a_log_there_is_only_what_comes(on: On) {
    let server = on.start();
    let client = server.client();
    let command = "echo before; read line; echo got $line";
    let process = client.start(&json!({ "command": command, "max_log_bytes": 0 }));
    wait_until("it prints", || {
        client.get(&format!("/api/sandboxes/local/processes/{process}")).json()["next"] == 7
    });
    let reply = client.of("PUT", &process, "/stream-access", &json!({ "mode": "logs" }));
    assert_eq!(reply.refusal(), (409, "logging_disabled".to_owned()));
    let mut socket = client.open(&process, "attach", "");
    assert_eq!(socket.ready()["logging_disabled"], true);
    socket.input(b"it\n");
    assert_eq!(socket.to_end().text(), "got it\n");
}

fn a_ticket_is_used_once(on: On) {
    let server = on.start();
    let client = server.client();
    let process = client.start_line("sleep 60");
    let url = client.access(&process, "attach");
    let results: Vec<Result<Socket, (u16, String)>> = thread::scope(|scope| {
        let tries: Vec<_> = (0..8).map(|_| scope.spawn(|| Socket::open(&url))).collect();
        tries.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|one| one.is_ok()).count(), 1);
    for refused in results.iter().filter_map(|one| one.as_ref().err()) {
        assert_eq!(*refused, (401, "bad_ticket".to_owned()));
    }
    // One that was refused for another reason can still be used.
    let url = client.access(&process, "attach");
    assert_eq!(Socket::open(&format!("{url}&seq=99")).unwrap_err().1, "cursor_ahead");
    assert!(Socket::open(&url).is_ok());
    // Its token is asked again.
    let reply = client.post("/api/tokens", &json!({ "scope": "admin" })).json();
    let (id, other) = (reply["id"].as_str().unwrap(), client.with_token(reply["token"].as_str().unwrap()));
    let process = other.start_line("sleep 60");
    let url = other.access(&process, "attach");
    assert_eq!(client.delete(&format!("/api/tokens/{id}")).status, 204);
    assert_eq!(Socket::open(&url).unwrap_err(), (401, "bad_ticket".to_owned()));
}

fn what_cannot_be_opened_is_refused_before_it_is(on: On) {
    let mut options = Options::default();
    options.settings.stream_max_per_token = 1;
    let server = on.start_with(options);
    let client = server.client();
    let process = client.start_line("sleep 60");
    let base = format!("ws://{}/v1/sandbox-process-stream", client.address);
    let refused = |url: &str| Socket::open(url).unwrap_err();
    let bad = |code: &str| (400, code.to_owned());
    assert_eq!(refused(&base), (401, "bad_ticket".to_owned()));
    assert_eq!(refused(&format!("{base}?token=tok_0")), (401, "bad_ticket".to_owned()));
    let url = client.access(&process, "logs");
    for hint in
        ["seq=x", "seq=-1", "seq=", "seq=18446744073709551616", "seq=1%00", "tail=x", "tail=-1", "tail="]
    {
        assert_eq!(refused(&format!("{url}&{hint}")), bad("bad_cursor"), "{hint}");
    }
    assert_eq!(refused(&format!("{url}&mode=attach")), bad("unknown_field"));
    let path = &url[url.find("/v1").unwrap()..];
    let plain = client.get(path);
    assert_eq!(plain.refusal(), (426, "upgrade_required".to_owned()));
    assert!(plain.head.to_ascii_lowercase().contains("upgrade: websocket"), "{}", plain.head);
    let _open = Socket::open(&url).unwrap();
    let url = client.access(&process, "logs");
    assert_eq!(refused(&url), (429, "too_many_streams".to_owned()));
    let missing = client.of("PUT", "nowhere", "/stream-access", &json!({ "mode": "logs" }));
    assert_eq!(missing.refusal(), (404, "not_found".to_owned()));
    let wrong = client.of("PUT", &process, "/stream-access", &json!({ "mode": "write" }));
    assert_eq!((wrong.status, &wrong.json()["error"]["field"]), (400, &"mode".into()));
}

fn input_waits_for_who_reads_late_and_holds_up_nothing_else(on: On) {
    let server = on.start();
    let client = server.client();
    let folder = Folder::new();
    let go = folder.file("go");
    // Everything else in the group ignores this signal.
    let command = format!(
        "trap 'echo got' CONT; echo ready; while [ ! -e {} ]; do sleep 0.02; done; wc -c; :",
        go.display()
    );
    let process = client.start_line(&command);
    let mut socket = client.open(&process, "attach", "");
    socket.read_until("ready");
    let piece = vec![b'x'; 250_000];
    for _ in 0..4 {
        socket.input(&piece);
    }
    socket.say(r#"{"type":"eof"}"#);
    socket.say(r#"{"type":"eof"}"#);
    socket.say(r#"{"type":"signal","name":"SIGCONT"}"#);
    // While all of the input waits.
    socket.read_until("got");
    std::fs::write(go, "").unwrap();
    assert_eq!(socket.to_end().text(), "1000000\n");
}
