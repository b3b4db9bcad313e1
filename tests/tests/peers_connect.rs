//! The Connect implementation of Python on the other side of ours: its client before `hangar-envd`, and its server before our
//! codec. `tests/peers/install.sh` installs it.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use bytes::BytesMut;
use hangar_core::wire::{
    connect::{Code, Codec, Kind, envelope, head::content_type},
    envd::{
        self,
        filesystem::{
            EntryInfo, EntryResponse, ListDirRequest, ListDirResponse, MoveRequest, PathRequest, Timestamp,
        },
        process::{
            CloseStdinRequest, ConnectRequest, DataRequest, Empty, ListResponse, ProcessConfig, ProcessInfo,
            ProcessInput, Pty, SendInputRequest, Size, StartRequest, StartResponse, StreamInputRequest,
            UpdateRequest,
        },
    },
};
use hangar_tests::real::{
    Folder, Hangar,
    envd::{Client, Running, launching, pid, tag},
    peers,
};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    path::Path,
    process::Command,
};

fn script(python: &Path, name: &str) -> Command {
    let mut command = Command::new(python);
    command.arg(peers::script(name)).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

#[test]
fn its_client_understands_the_daemon() {
    let test = "its_client_understands_the_daemon";
    let Some(python) = peers::python_with(test, "connectrpc, e2b") else { return };
    launching(test, move || {
        let (folder, daemon) = (Folder::new(), Running::start(|_| {}));
        let mut command = script(&python, "envd/connect_client.py");
        let checks = peers::run_checks(command.arg(daemon.url()).arg(folder.path()));
        assert!(checks >= 200, "{checks} checks");
        daemon.end();
    });
}

/// How the bodies of answers are cut: as they are written, within heads and messages, and all in one piece.
const PIECES: [Option<&str>; 4] = [None, Some("7"), Some("1000"), Some("100000000")];

#[test]
fn its_server_understands_the_codec() {
    let test = "its_server_understands_the_codec";
    let Some(python) = peers::python_with(test, "connectrpc, e2b, uvicorn") else { return };
    launching(test, move || {
        let mut server = Hangar::start(&mut script(&python, "envd/connect_server.py"));
        let line = server.line().unwrap();
        let address = line.strip_prefix("listening on ").unwrap().parse().unwrap();
        for (codec, pieces) in [Codec::Json, Codec::Proto].into_iter().zip([PIECES; 2]) {
            let client = Client::new(address, codec);
            unary(&client, codec);
            errors(&client);
            stream_of_input(&client, codec);
            for pieces in pieces {
                let client = match pieces {
                    Some(pieces) => client.with("X-Pieces", pieces),
                    None => client.clone(),
                };
                files(&client);
                streams(&client);
            }
        }
    });
}

fn info(path: impl Into<String>) -> EntryInfo {
    EntryInfo { path: path.into(), ..EntryInfo::default() }
}

fn path(path: &str) -> PathRequest {
    PathRequest { path: path.to_owned() }
}

/// A request as the server understood it.
fn understood(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

fn unary(client: &Client, codec: Codec) {
    let listed: ListResponse = client.call("/process.Process/List", &Empty {}).unwrap();
    let envs = [("A", "b"), ("", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let every = ProcessConfig {
        cmd: "c".to_owned(),
        args: vec![String::new(), "ä".to_owned()],
        envs: envs.into(),
        cwd: Some(String::new()),
    };
    let expected = [
        ProcessInfo { config: Some(every), pid: u32::MAX, tag: Some(String::new()) },
        ProcessInfo { config: Some(ProcessConfig::default()), pid: 1, tag: Some("t".to_owned()) },
        ProcessInfo::default(),
    ];
    assert_eq!(listed.processes, expected);
    let request = CloseStdinRequest { process: pid(0) };
    assert_eq!(client.call("/process.Process/CloseStdin", &request), Ok(Empty {}));

    let understood = |error: hangar_core::wire::connect::RpcError| {
        assert_eq!(error.code, Code::Aborted, "{error}");
        understood(&error.message)
    };
    let size = |cols, rows| Some(Pty { size: Some(Size { cols, rows }) });
    for (request, expected) in [
        (UpdateRequest { process: pid(7), pty: None }, json!({ "process": { "pid": 7 } })),
        (
            UpdateRequest { process: tag(""), pty: size(0, u32::MAX) },
            json!({ "process": { "tag": "" }, "pty": { "size": { "rows": u32::MAX } } }),
        ),
        (UpdateRequest::default(), json!({})),
    ] {
        let error = client.call::<_, Empty>("/process.Process/Update", &request).unwrap_err();
        assert_eq!(understood(error), expected);
    }
    // What is hangar's own it passes over; in JSON a number without a name, too.
    let unnamed = if codec == Codec::Json { json!({}) } else { json!({ "signal": 2 }) };
    for (signal, group, expected) in [
        (9, false, json!({ "signal": "SIGNAL_SIGKILL" })),
        (15, true, json!({ "signal": "SIGNAL_SIGTERM" })),
        (2, true, unnamed),
    ] {
        let mut understood = understood(client.signal(tag("ä"), signal, group).unwrap_err());
        let process = understood.as_object_mut().unwrap().remove("process");
        assert_eq!((process, understood), (Some(json!({ "tag": "ä" })), expected));
    }
    let all: Vec<u8> = (0..=255).collect();
    let base64 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0BBQkNERUZHSElKS0xNTk9QUVJTVFVWV1hZWltcXV5fYGFiY2RlZmdoaWprbG1ub3BxcnN0dXZ3eHl6e3x9fn+AgYKDhIWGh4iJiouMjY6PkJGSk5SVlpeYmZqbnJ2en6ChoqOkpaanqKmqq6ytrq+wsbKztLW2t7i5uru8vb6/wMHCw8TFxsfIycrLzM3Oz9DR0tPU1dbX2Nna29zd3t/g4eLj5OXm5+jp6uvs7e7v8PHy8/T19vf4+fr7/P3+/w==";
    for (input, expected) in [
        (ProcessInput { stdin: Some(all.into()), pty: None }, json!({ "stdin": base64 })),
        (ProcessInput { stdin: None, pty: Some("".into()) }, json!({ "pty": "" })),
    ] {
        let request = SendInputRequest { process: pid(u32::MAX), input: Some(input) };
        let error = client.call::<_, Empty>("/process.Process/SendInput", &request).unwrap_err();
        assert_eq!(understood(error), json!({ "process": { "pid": u32::MAX }, "input": expected }));
    }
}

fn files(client: &Client) {
    let every = EntryInfo {
        name: "n €".to_owned(),
        kind: 3,
        size: i64::MAX,
        mode: 0o7777,
        permissions: "Lrwxrwxrwx".to_owned(),
        owner: "o".to_owned(),
        group: "g".to_owned(),
        modified_time: Some(Timestamp { seconds: -1, nanos: 500_000_000 }),
        symlink_target: Some(String::new()),
        metadata: [("a", "b"), ("", "")].map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..info("/ä")
    };
    let entry = |method: &str, at: &str| {
        client.call::<_, EntryResponse>(&format!("/{method}"), &path(at)).unwrap().entry
    };
    assert_eq!(entry("filesystem.Filesystem/Stat", "/ä"), Some(every));
    assert_eq!(entry("filesystem.Filesystem/Stat", ""), None);
    let made = entry("filesystem.Filesystem/MakeDir", "/\u{1}\"\\").unwrap();
    assert_eq!(understood(&made.path), json!({ "path": "/\u{1}\"\\" }));
    assert_eq!((made.size, made.modified_time), (-1, Some(Timestamp::default())));
    let request = MoveRequest { source: "a".to_owned(), destination: String::new() };
    let moved: EntryResponse = client.call("/filesystem.Filesystem/Move", &request).unwrap();
    let moved = moved.entry.unwrap();
    assert_eq!((understood(&moved.path), moved.kind), (json!({ "source": "a" }), 1));
    for depth in [0, 1, 300] {
        let request = ListDirRequest { path: "x".to_owned(), depth };
        let listed: ListDirResponse = client.call("/filesystem.Filesystem/ListDir", &request).unwrap();
        let names: Vec<String> = listed.entries.iter().map(|entry| entry.name.clone()).collect();
        assert_eq!(names, (0..depth).map(|i| i.to_string()).collect::<Vec<_>>());
        for entry in listed.entries {
            assert_eq!(understood(&entry.path), json!({ "path": "x", "depth": depth }));
        }
    }
    assert_eq!(client.call("/filesystem.Filesystem/Remove", &path("x")), Ok(Empty {}));
}

fn errors(client: &Client) {
    for code in Code::ALL {
        let message = format!("refused: {} €", code.name());
        let request = path(code.name());
        let error = client.call::<_, EntryResponse>("/filesystem.Filesystem/Stat", &request).unwrap_err();
        assert_eq!((error.code, &*error.message), (code, &*message));
        for (command, has_begun) in [("refused", 0), ("refused later", 1)] {
            let (messages, error) = start(client, command, code.name()).messages::<StartResponse>();
            let error = error.unwrap();
            assert_eq!((messages.len(), error.code, &*error.message), (has_begun, code, &*message));
        }
    }
    // Where there is no such method it has no words of the protocol's own.
    let error = client.call::<_, Empty>("/process.Process/Nothing", &Empty {}).unwrap_err();
    assert_eq!(error.code, Code::NotFound);
}

fn start(client: &Client, command: &str, argument: &str) -> hangar_tests::real::Followed {
    let config = ProcessConfig {
        cmd: command.to_owned(),
        args: vec![argument.to_owned()],
        ..ProcessConfig::default()
    };
    client.start(StartRequest { process: Some(config), ..StartRequest::default() })
}

fn streams(client: &Client) {
    let config = ProcessConfig {
        cmd: "large".to_owned(),
        args: vec!["a".to_owned(), String::new()],
        envs: [("A".to_owned(), "€".to_owned())].into(),
        cwd: Some(String::new()),
    };
    let size = Some(Size { cols: 80, rows: 0 });
    let tag_of_it = Some(String::new());
    let every =
        StartRequest { process: Some(config), pty: Some(Pty { size }), tag: tag_of_it, stdin: Some(false) };
    let expected = json!({
        "process": { "cmd": "large", "args": ["a", ""], "envs": { "A": "€" }, "cwd": "" },
        "pty": { "size": { "cols": 80 } },
        "tag": "",
        "stdin": false,
    });
    let whole = client.start(every).collect();
    let end = whole.end.unwrap();
    assert_eq!((whole.pid, whole.error, end.exit_code, end.exited), (7, None, -1, false));
    assert_eq!((&*end.status, end.error.as_deref()), ("signal: killed", Some("signal: killed")));
    let large: Vec<u8> = (0..=255).cycle().take(4 * 256 * 1024).collect();
    let (said, rest) = whole.stdout.split_at(whole.stdout.len() - large.len());
    assert_eq!(understood(str::from_utf8(said).unwrap()), expected);
    assert!(rest == large, "each byte as it is");

    let whole = client.start(StartRequest::default()).collect();
    assert_eq!(understood(str::from_utf8(&whole.stdout).unwrap()), json!({}));
    assert_eq!(start(client, "trailers", "").collect().error, None);

    let whole = client.connect(pid(u32::MAX)).collect();
    let end = whole.end.unwrap();
    assert_eq!((whole.pid, end.exit_code, end.exited, end.error), (u32::MAX, 0, true, None));
    let connect = |process| client.stream("/process.Process/Connect", &[ConnectRequest { process }]);
    let (messages, error) = connect(tag("nothing")).messages::<StartResponse>();
    assert_eq!((messages, error), (vec![StartResponse::default()], None));
    let (messages, error) = connect(tag("nobody")).messages::<StartResponse>();
    assert_eq!((messages, error), (vec![], None));
}

fn input(data: Vec<u8>) -> StreamInputRequest {
    let input = Some(ProcessInput { stdin: Some(data.into()), pty: None });
    StreamInputRequest { data: Some(DataRequest { input }), ..StreamInputRequest::default() }
}

fn stream_of_input(client: &Client, codec: Codec) {
    const PATH: &str = "/process.Process/StreamInput";
    let select = |process| StreamInputRequest {
        start: Some(ConnectRequest { process }),
        ..StreamInputRequest::default()
    };
    let keep_alive = StreamInputRequest { keepalive: Some(Empty {}), ..StreamInputRequest::default() };
    let mut sent = vec![select(pid(7)), input(vec![1, 255]), input(vec![]), select(tag("ä"))];
    let answered = client.stream(PATH, &sent).messages::<Empty>();
    assert_eq!(answered, (vec![Empty {}], None));
    assert_eq!(client.stream(PATH, &Vec::<StreamInputRequest>::new()).messages(), (vec![Empty {}], None));
    let refused = client.stream(PATH, &[input(b"refuse".to_vec())]).messages::<Empty>();
    assert_eq!((refused.0, refused.1.unwrap().code), (vec![], Code::Aborted));
    // What it heard, however it was cut.
    sent.extend([input(vec![1; 100_000]), keep_alive]);
    let heard = "start 7, stdin 2 256, stdin 0 0, start ä, stdin 100000 100000, keepalive";
    let mut body = BytesMut::new();
    for message in &sent {
        envelope::write(0, &mut body, |out| envd::encode(codec, message, out));
    }
    for pieces in [7, 4096, usize::MAX] {
        let kind = content_type(Kind::Stream, codec);
        let mut socket = client.with("Connection", "close").open("POST", PATH, Some(kind), None).unwrap();
        let mut chunked = Vec::new();
        for piece in body.chunks(pieces) {
            write!(chunked, "{:x}\r\n", piece.len()).unwrap();
            chunked.extend([piece, b"\r\n"].concat());
        }
        chunked.extend(b"0\r\n\r\n");
        socket.write_all(&chunked).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("data_loss") && answer.contains(&escaped(heard)), "{pieces}: {answer}");
    }
}

/// As Python writes it in JSON.
fn escaped(text: &str) -> String {
    text.replace('ä', "\\u00e4")
}
