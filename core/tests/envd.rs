//! The messages of envd by value: what its clients send and read, byte for byte.

use bytes::{Bytes, BytesMut};
use hangar_core::{
    log::{Channel, Frame},
    process::Exit,
    wire::{
        connect::{Code, Codec, RpcError, envelope},
        envd::{Message, decode, encode, event, filesystem::*, process::*},
    },
};
use std::collections::BTreeMap;

fn written<M: Message>(codec: Codec, message: &M) -> Vec<u8> {
    let mut out = BytesMut::new();
    encode(codec, message, &mut out);
    out.to_vec()
}

fn event(write: impl Fn(Codec, &mut BytesMut)) -> (String, StartResponse) {
    let (mut json, mut proto) = (BytesMut::new(), BytesMut::new());
    write(Codec::Json, &mut json);
    write(Codec::Proto, &mut proto);
    let message: StartResponse = decode(Codec::Json, &json).expect("it was written so");
    assert_eq!(decode::<StartResponse>(Codec::Proto, &proto).as_ref(), Ok(&message));
    assert_eq!(written(Codec::Proto, &message), proto);
    (String::from_utf8(json.to_vec()).expect("JSON is text"), message)
}

#[test]
fn a_command_as_the_python_client_runs_it() {
    let start =
        r#"{"process":{"cmd":"/bin/bash","args":["-l","-c","echo hi; echo er >&2; exit 2"]},"stdin":false}"#;
    let request: StartRequest = decode(Codec::Json, start.as_bytes()).unwrap();
    assert_eq!(written(Codec::Json, &request), start.as_bytes());
    assert_eq!(start.len(), 0x5f, "as it says in the capture");
    let printed = |channel, data: &'static [u8]| {
        let frame = Frame { seq: 1, offset: 0, channel, ts_ms: 0, data: Bytes::from_static(data) };
        event(|codec, out| event::data(codec, &frame, false, out)).0
    };
    assert_eq!(
        event(|codec, out| event::started(codec, 10948, None, out)).0,
        r#"{"event":{"start":{"pid":10948}}}"#
    );
    assert_eq!(printed(Channel::Stderr, b"er\n"), r#"{"event":{"data":{"stderr":"ZXIK"}}}"#);
    assert_eq!(printed(Channel::Stdout, b"hi\n"), r#"{"event":{"data":{"stdout":"aGkK"}}}"#);
    assert_eq!(printed(Channel::Tty, b"\xff\xfe"), r#"{"event":{"data":{"pty":"//4="}}}"#);
    assert_eq!(
        event(|codec, out| event::ended(codec, Exit::Code(2), None, out)).0,
        r#"{"event":{"end":{"exitCode":2,"exited":true,"status":"exit status 2","error":"exit status 2"}}}"#
    );
    let mut out = BytesMut::new();
    envelope::write(0, &mut out, |out| event::keep_alive(Codec::Json, out));
    assert_eq!(out, b"\x00\x00\x00\x00\x1a{\"event\":{\"keepalive\":{}}}"[..]);
}

#[test]
fn an_end_says_how() {
    let end = |exit, extended| event(|codec, out| event::ended(codec, exit, extended, out)).0;
    assert_eq!(end(Exit::Code(0), None), r#"{"event":{"end":{"exited":true,"status":"exit status 0"}}}"#);
    let killed = r#"{"event":{"end":{"exitCode":-1,"status":"signal: killed","error":"signal: killed"}}}"#;
    assert_eq!(end(Exit::Signal(9), None), killed);
    let killed = r#"{"event":{"end":{"exitCode":-1,"status":"signal: killed","error":"signal: killed","signal":9,"drainTimedOut":true}}}"#;
    assert_eq!(end(Exit::Signal(9), Some(true)), killed);
    let unknown = r#"{"event":{"end":{"exitCode":-1,"status":"unknown","error":"unknown"}}}"#;
    assert_eq!(end(Exit::Unknown, Some(false)), unknown);
    let names = [
        (1, "hangup"),
        (2, "interrupt"),
        (3, "quit"),
        (4, "illegal instruction"),
        (5, "trace/breakpoint trap"),
        (6, "aborted"),
        (7, "bus error"),
        (8, "floating point exception"),
        (9, "killed"),
        (10, "user defined signal 1"),
        (11, "segmentation fault"),
        (12, "user defined signal 2"),
        (13, "broken pipe"),
        (14, "alarm clock"),
        (15, "terminated"),
        (16, "SIGSTKFLT"),
        (19, "SIGSTOP"),
        (24, "CPU time limit exceeded"),
        (25, "file size limit exceeded"),
        (31, "bad system call"),
    ];
    for (number, name) in names {
        let (_, message) = event(|codec, out| event::ended(codec, Exit::Signal(number), None, out));
        let end = message.event.unwrap().end.unwrap();
        assert_eq!((end.status, end.exited), (format!("signal: {name}"), false));
    }
    let exited = |exit| event(|codec, out| event::exited(codec, exit, out)).0;
    assert_eq!(exited(Exit::Code(0)), r#"{"event":{"exited":{}}}"#);
    assert_eq!(exited(Exit::Signal(15)), r#"{"event":{"exited":{"exitCode":-1,"signal":15}}}"#);
    assert_eq!(
        event(|codec, out| event::started(codec, 0, Some((1, 0)), out)).0,
        r#"{"event":{"start":{"seq":"1","offset":"0"}}}"#
    );
}

#[test]
fn one_of_several_is_picked() {
    let selector = |text: &str| {
        let request: ConnectRequest = decode(Codec::Json, text.as_bytes()).unwrap();
        selected(request.process)
    };
    assert_eq!(selector(r#"{"process":{"pid":7}}"#), Ok(Selector::Pid(7)));
    assert_eq!(selector(r#"{"process":{"tag":"a"}}"#), Ok(Selector::Tag("a".into())));
    let bad = |message: &'static str| Err(RpcError::new(Code::InvalidArgument, message));
    for none in ["{}", r#"{"process":{}}"#, r#"{"process":{"pid":null}}"#] {
        assert_eq!(selector(none), bad("process: one of pid and tag must be set"), "{none}");
    }
    assert_eq!(selector(r#"{"process":{"pid":7,"tag":"a"}}"#), Ok(Selector::Both(7, "a".into())));
    let input = |text: &str| decode::<ProcessInput>(Codec::Json, text.as_bytes()).unwrap().one();
    assert_eq!(input(r#"{"stdin":"YQ=="}"#), Ok(Input::Stdin(Bytes::from("a"))));
    assert_eq!(input(r#"{"pty":""}"#), Ok(Input::Pty(Bytes::new())));
    let both = input(r#"{"stdin":"","pty":""}"#).unwrap_err();
    assert_eq!(both.message, "input: only one of stdin and pty may be set");
    assert_eq!(input("{}").unwrap_err().message, "input: one of stdin and pty must be set");
}

/// Field numbers and wire types by hand: `number << 3 | type`, where 0 is a varint and 2 has a length.
#[test]
fn protobuf_is_byte_for_byte() {
    let start = StartRequest {
        process: Some(ProcessConfig {
            cmd: "sh".into(),
            args: vec!["-c".into(), String::new()],
            envs: BTreeMap::from([("A".into(), "b".into())]),
            cwd: Some("/".into()),
        }),
        pty: Some(Pty { size: Some(Size { cols: 80, rows: 300 }) }),
        tag: Some("t".into()),
        stdin: Some(false),
    };
    check(
        &start,
        b"\x0a\x15\x0a\x02sh\x12\x02-c\x12\x00\x1a\x06\x0a\x01A\x12\x01b\x22\x01/\
          \x12\x07\x0a\x05\x08\x50\x10\xac\x02\x1a\x01t\x20\x00",
    );
    let data = DataEvent { stdout: Some(Bytes::from("hi")), ..DataEvent::default() };
    let data = ProcessEvent { data: Some(data), ..ProcessEvent::default() };
    check(&StartResponse { event: Some(data) }, b"\x0a\x06\x12\x04\x0a\x02hi");
    // -1 as sint32 is 1; 101 << 3 is 0xa8 0x06.
    let end = EndEvent { exit_code: -1, status: "s".into(), signal: 9, ..EndEvent::default() };
    let end = ProcessEvent { end: Some(end), ..ProcessEvent::default() };
    check(&StartResponse { event: Some(end) }, b"\x0a\x0a\x1a\x08\x08\x01\x1a\x01s\xa8\x06\x09");
    // 104 << 3 | 2 is 0xc2 0x06.
    let exited = ExitedEvent { exit_code: 3, signal: 9 };
    let exited = ProcessEvent { exited: Some(exited), keepalive: Some(Empty {}), ..ProcessEvent::default() };
    check(&StartResponse { event: Some(exited) }, b"\x0a\x09\x22\x00\xc2\x06\x04\x08\x06\x10\x09");
    let start = StartEvent { pid: 300, seq: Some(1), offset: Some(0) };
    check(&start, b"\x08\xac\x02\xa8\x06\x01\xb0\x06\x00");
    let signal = SendSignalRequest {
        process: Some(ProcessSelector { pid: Some(0), tag: None }),
        signal: 15,
        group: true,
        end: false,
    };
    check(&signal, b"\x0a\x02\x08\x00\x10\x0f\xa8\x06\x01");
    let input = ProcessInput { pty: Some(Bytes::from_static(b"\xff")), stdin: None };
    let input = StreamInputRequest { data: Some(DataRequest { input: Some(input) }), ..Default::default() };
    check(&input, b"\x12\x05\x12\x03\x12\x01\xff");
    let entry = EntryInfo {
        name: "a".into(),
        kind: 3,
        path: "/a".into(),
        size: -1,
        mode: 0o644,
        permissions: "p".into(),
        owner: "o".into(),
        group: "g".into(),
        modified_time: Some("1970-01-01T00:00:01.000000002Z".parse().unwrap()),
        symlink_target: Some(String::new()),
        metadata: BTreeMap::from([("k".into(), "v".into())]),
    };
    check(
        &FilesystemEvent { name: "a".into(), kind: 5, entry: Some(entry), ..FilesystemEvent::default() },
        b"\x0a\x01a\x10\x05\x1a\x30\x0a\x01a\x10\x03\x1a\x02/a\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\
          \x28\xa4\x03\x32\x01p\x3a\x01o\x42\x01g\x4a\x04\x08\x01\x10\x02\x52\x00\x5a\x06\x0a\x01k\x12\x01v",
    );
    let watch = WatchDirRequest {
        path: "d".into(),
        recursive: true,
        include_entry: true,
        allow_network_mounts: true,
        tells_existing: false,
    };
    check(&watch, b"\x0a\x01d\x10\x01\x18\x01\x20\x01");
    // What nobody knows is passed over: field 7, and a fixed number in field 8.
    let known: PathRequest = decode(Codec::Proto, b"\x38\x05\x45\x01\x02\x03\x04\x0a\x01p").unwrap();
    assert_eq!(known.path, "p");
    for bad in [&b"\x0a\x05p"[..], b"\x0a", b"\x0a\x01\xff", b"\x08\x01", b"\xff"] {
        let error = decode::<PathRequest>(Codec::Proto, bad).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
    }
}

#[test]
fn what_a_watch_tells_is_byte_for_byte() {
    let started = WatchDirResponse { start: Some(WatchStarted::default()), ..WatchDirResponse::default() };
    assert_eq!(written(Codec::Json, &started), br#"{"start":{}}"#);
    check(&started, b"\x0a\x00");
    let alive = WatchDirResponse { keepalive: Some(Empty {}), ..WatchDirResponse::default() };
    assert_eq!(written(Codec::Json, &alive), br#"{"keepalive":{}}"#);
    check(&alive, b"\x1a\x00");
    let event = FilesystemEvent { name: "f".into(), kind: 1, ..FilesystemEvent::default() };
    let told = WatchDirResponse { filesystem: Some(event.clone()), ..WatchDirResponse::default() };
    assert_eq!(written(Codec::Json, &told), br#"{"filesystem":{"name":"f","type":"EVENT_TYPE_CREATE"}}"#);
    check(&told, b"\x12\x05\x0a\x01f\x10\x01");
    check(&WatcherEventsResponse { events: vec![event] }, b"\x0a\x05\x0a\x01f\x10\x01");
    let watcher = CreateWatcherResponse { watcher_id: "w1".into() };
    assert_eq!(written(Codec::Json, &watcher), br#"{"watcherId":"w1"}"#);
    check(&watcher, b"\x0a\x02w1");
    check(&WatcherRequest { watcher_id: "w1".into() }, b"\x0a\x02w1");
}

#[test]
fn what_hangar_adds_to_a_watch_has_numbers_of_its_own() {
    let watch = WatchDirRequest { tells_existing: true, ..WatchDirRequest::default() };
    assert_eq!(written(Codec::Json, &watch), br#"{"tellsExisting":true}"#);
    check(&watch, b"\xa8\x06\x01");
    check(&WatchStarted { path: "/d".into() }, b"\xaa\x06\x02/d");
    let event = FilesystemEvent {
        name: "\u{fffd}".into(),
        kind: 4,
        name_bytes: Some(Bytes::from_static(b"\xff")),
        from: Some(Bytes::from_static(b"a")),
        ..FilesystemEvent::default()
    };
    assert_eq!(
        String::from_utf8(written(Codec::Json, &event)).unwrap(),
        "{\"name\":\"\u{fffd}\",\"type\":\"EVENT_TYPE_RENAME\",\"nameBytes\":\"/w==\",\"from\":\"YQ==\"}"
    );
    check(&event, b"\x0a\x03\xef\xbf\xbd\x10\x04\xaa\x06\x01\xff\xb2\x06\x01a");
    let told = |bytes: &[u8], event: FilesystemEvent| check(&event, bytes);
    told(b"\xb8\x06\x01", FilesystemEvent { overflow: true, ..FilesystemEvent::default() });
    told(b"\xc0\x06\x01", FilesystemEvent { ready: true, ..FilesystemEvent::default() });
    told(b"\xca\x06\x04gone", FilesystemEvent { blind: Some("gone".into()), ..FilesystemEvent::default() });
    told(b"\xd2\x06\x05moved", FilesystemEvent { end: Some("moved".into()), ..FilesystemEvent::default() });
}

fn check<M: Message + PartialEq>(message: &M, bytes: &[u8]) {
    assert_eq!(written(Codec::Proto, message), bytes);
    assert!(decode::<M>(Codec::Proto, bytes).as_ref() == Ok(message));
    assert!(decode::<M>(Codec::Json, &written(Codec::Json, message)).as_ref() == Ok(message));
}
