//! How protobuf is read and written as JSON: <https://protobuf.dev/programming-guides/json/>, rule by rule.

use bytes::BytesMut;
use hangar_core::{
    process::Signal,
    wire::{
        connect::{Code, Codec},
        envd::{Message, decode, encode, filesystem::*, process::*},
    },
};

fn written<M: Message>(codec: Codec, message: &M) -> Vec<u8> {
    let mut out = BytesMut::new();
    encode(codec, message, &mut out);
    out.to_vec()
}

/// What JSON is read as, written again.
fn json<M: Message>(text: &str) -> Result<String, String> {
    let message: M = decode(Codec::Json, text.as_bytes()).map_err(|error| {
        assert_eq!(error.code, Code::InvalidArgument);
        error.message.into_owned()
    })?;
    Ok(String::from_utf8(written(Codec::Json, &message)).expect("JSON is text"))
}

fn same<M: Message>(text: &str) {
    assert_eq!(json::<M>(text).as_deref(), Ok(text));
}

fn becomes<M: Message>(text: &str, expected: &str) {
    assert_eq!(json::<M>(text).as_deref(), Ok(expected), "{text}");
}

fn refused<M: Message>(text: &str, prefix: &str) {
    let error = json::<M>(text).expect_err(text);
    assert!(error.starts_with(prefix), "{text}: {error}");
}

#[test]
fn what_has_its_default_is_left_out() {
    for text in
        ["{}", r#"{"cmd":"","args":[],"envs":{}}"#, r#"{"cmd":null,"args":null,"envs":null,"cwd":null}"#]
    {
        becomes::<ProcessConfig>(text, "{}");
    }
    becomes::<EndEvent>(
        r#"{"exitCode":0,"exited":false,"status":"","signal":0,"drainTimedOut":false}"#,
        "{}",
    );
    becomes::<EntryInfo>(
        r#"{"name":"","type":"FILE_TYPE_UNSPECIFIED","path":"","size":"0","mode":0,"metadata":{}}"#,
        "{}",
    );
    becomes::<WatchDirRequest>(
        r#"{"path":null,"recursive":null,"includeEntry":false,"tellsExisting":null}"#,
        "{}",
    );
    becomes::<FilesystemEvent>(
        r#"{"nameBytes":null,"from":null,"overflow":false,"ready":null,"blind":null,"end":null}"#,
        "{}",
    );
    becomes::<SendSignalRequest>(r#"{"process":null,"signal":null,"group":null}"#, "{}");
    // What may be left out is told apart from what is empty.
    same::<StartRequest>(r#"{"process":{"cwd":""},"pty":{},"tag":"","stdin":false}"#);
    same::<ProcessSelector>(r#"{"pid":0,"tag":""}"#);
    same::<ProcessInput>(r#"{"stdin":"","pty":""}"#);
    same::<EndEvent>(r#"{"error":""}"#);
    same::<EntryInfo>(r#"{"symlinkTarget":""}"#);
}

#[test]
fn bytes_are_base64_of_any_kind() {
    for text in ["//79", "__79"] {
        becomes::<ProcessInput>(&format!(r#"{{"stdin":"{text}"}}"#), r#"{"stdin":"//79"}"#);
    }
    for text in ["+/8=", "+/8", "-_8=", "-_8", "+/9="] {
        becomes::<ProcessInput>(&format!(r#"{{"pty":"{text}"}}"#), r#"{"pty":"+/8="}"#);
    }
    for text in ["-w==", "-w"] {
        becomes::<ProcessInput>(&format!(r#"{{"pty":"{text}"}}"#), r#"{"pty":"+w=="}"#);
    }
    for text in ["YQ==", "YQ"] {
        becomes::<ProcessInput>(&format!(r#"{{"pty":"{text}"}}"#), r#"{"pty":"YQ=="}"#);
    }
    for bad in [r#""+_8=""#, r#""Y""#, r#""Y Q=""#, r#""YQ=a""#, "7", "[]", "true"] {
        refused::<ProcessInput>(&format!(r#"{{"stdin":{bad}}}"#), "stdin: ");
    }
    becomes::<ProcessInput>(r#"{"stdin":null}"#, "{}");
}

#[test]
fn numbers_are_read_from_any_form() {
    for text in ["7", "\"7\"", "7.0", "\"7.0\"", "7e0", "0.7e1", "\"7e0\""] {
        becomes::<Size>(&format!(r#"{{"cols":{text}}}"#), r#"{"cols":7}"#);
        becomes::<EntryInfo>(&format!(r#"{{"size":{text}}}"#), r#"{"size":"7"}"#);
    }
    for bad in [
        "-1",
        "4294967296",
        "\"4294967296\"",
        "1.5",
        "\"1.5\"",
        "\"\"",
        "\"x\"",
        "\" 7\"",
        "\"inf\"",
        "\"NaN\"",
    ] {
        refused::<Size>(&format!(r#"{{"rows":{bad}}}"#), "rows: ");
    }
    for bad in ["true", "[]", "{}"] {
        refused::<Size>(&format!(r#"{{"rows":{bad}}}"#), "rows: ");
    }
    same::<Size>(r#"{"cols":4294967295,"rows":1}"#);
    same::<EntryInfo>(r#"{"size":"-9223372036854775808"}"#);
    same::<EntryInfo>(r#"{"size":"9223372036854775807"}"#);
    refused::<EntryInfo>(r#"{"size":"9223372036854775808"}"#, "size: ");
    same::<StartEvent>(r#"{"seq":"18446744073709551615","offset":"0"}"#);
    becomes::<StartEvent>(r#"{"seq":18446744073709551615}"#, r#"{"seq":"18446744073709551615"}"#);
    refused::<StartEvent>(r#"{"seq":"18446744073709551616"}"#, "seq: ");
    refused::<StartEvent>(r#"{"seq":-1}"#, "seq: ");
    same::<DataEvent>(r#"{"tsMs":"-9223372036854775808"}"#);
    same::<EndEvent>(r#"{"exitCode":-2147483648}"#);
    refused::<EndEvent>(r#"{"exitCode":2147483648}"#, "exitCode: ");
}

#[test]
fn enums_go_by_name() {
    for (text, expected) in [
        ("\"SIGNAL_SIGKILL\"", r#"{"signal":"SIGNAL_SIGKILL"}"#),
        ("9", r#"{"signal":"SIGNAL_SIGKILL"}"#),
        ("\"SIGNAL_SIGTERM\"", r#"{"signal":"SIGNAL_SIGTERM"}"#),
        ("15", r#"{"signal":"SIGNAL_SIGTERM"}"#),
        ("2", r#"{"signal":2}"#),
        ("-2147483648", r#"{"signal":-2147483648}"#),
        ("0", "{}"),
        ("\"SIGNAL_UNSPECIFIED\"", "{}"),
        // A name of a later version.
        ("\"SIGNAL_SIGHUP\"", "{}"),
        ("\"\"", "{}"),
        ("null", "{}"),
    ] {
        becomes::<SendSignalRequest>(&format!(r#"{{"signal":{text}}}"#), expected);
    }
    for bad in ["2147483648", "-2147483649", "true", "[]", "{}"] {
        refused::<SendSignalRequest>(&format!(r#"{{"signal":{bad}}}"#), "signal: ");
    }
    for (number, name) in ["FILE", "DIRECTORY", "SYMLINK"].iter().enumerate() {
        let text = format!(r#"{{"type":"FILE_TYPE_{name}"}}"#);
        same::<EntryInfo>(&text);
        becomes::<EntryInfo>(&format!(r#"{{"type":{}}}"#, number + 1), &text);
    }
    for (number, name) in ["CREATE", "WRITE", "REMOVE", "RENAME", "CHMOD"].iter().enumerate() {
        let text = format!(r#"{{"type":"EVENT_TYPE_{name}"}}"#);
        same::<FilesystemEvent>(&text);
        becomes::<FilesystemEvent>(&format!(r#"{{"type":{}}}"#, number + 1), &text);
    }
    let signal = |signal| SendSignalRequest { signal, ..SendSignalRequest::default() }.checked_signal();
    assert_eq!(signal(9), Ok(Signal::KILL));
    for number in [0, 32, -1, 265] {
        assert_eq!(signal(number).unwrap_err().code, Code::Unimplemented, "{number}");
    }
}

#[test]
fn times_are_rfc_3339() {
    let time = |text: &str| format!(r#"{{"modifiedTime":"{text}"}}"#);
    for text in [
        "1970-01-01T00:00:00Z",
        "2026-11-29T01:02:03.500Z",
        "2026-11-29T01:02:03.000004Z",
        "2026-11-29T01:02:03.000000005Z",
        "1969-12-31T23:59:59.999999999Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999999Z",
    ] {
        same::<EntryInfo>(&time(text));
    }
    becomes::<EntryInfo>(&time("2026-11-29T01:02:03.5+01:00"), &time("2026-11-29T00:02:03.500Z"));
    for bad in ["", "now", "2026-13-01T00:00:00Z", "2026-11-29T25:00:00Z"] {
        refused::<EntryInfo>(&time(bad), "modifiedTime: ");
    }
    refused::<EntryInfo>(r#"{"modifiedTime":7}"#, "modifiedTime: ");
}

#[test]
fn names_are_read_as_the_protocol_has_them_too() {
    becomes::<EndEvent>(
        r#"{"exit_code":1,"drain_timed_out":true}"#,
        r#"{"exitCode":1,"drainTimedOut":true}"#,
    );
    becomes::<ExitedEvent>(r#"{"exit_code":1}"#, r#"{"exitCode":1}"#);
    becomes::<DataEvent>(r#"{"ts_ms":1}"#, r#"{"tsMs":"1"}"#);
    becomes::<EntryInfo>(
        r#"{"modified_time":"1970-01-01T00:00:00Z","symlink_target":"a"}"#,
        r#"{"modifiedTime":"1970-01-01T00:00:00Z","symlinkTarget":"a"}"#,
    );
    becomes::<WatchDirRequest>(
        r#"{"include_entry":true,"allow_network_mounts":true}"#,
        r#"{"includeEntry":true,"allowNetworkMounts":true}"#,
    );
    becomes::<WatchDirRequest>(r#"{"tells_existing":true}"#, r#"{"tellsExisting":true}"#);
    becomes::<FilesystemEvent>(r#"{"name_bytes":"YQ"}"#, r#"{"nameBytes":"YQ=="}"#);
    becomes::<CreateWatcherResponse>(r#"{"watcher_id":"w"}"#, r#"{"watcherId":"w"}"#);
    becomes::<WatcherRequest>(r#"{"watcher_id":"w"}"#, r#"{"watcherId":"w"}"#);
}

#[test]
fn what_nobody_knows_is_ignored_and_what_is_said_twice_is_not() {
    becomes::<StartRequest>(
        r#"{"x":[{"y":null}],"process":{"cmd":"a","z":7}}"#,
        r#"{"process":{"cmd":"a"}}"#,
    );
    becomes::<StreamInputRequest>(r#"{"keepalive":{"x":1}}"#, r#"{"keepalive":{}}"#);
    refused::<ProcessSelector>(r#"{"pid":1,"pid":1}"#, "");
    refused::<EndEvent>(r#"{"exitCode":1,"exit_code":1}"#, "");
    refused::<StartRequest>(r#"{"process":{"cmd":"a","cmd":"a"}}"#, "process");
}

#[test]
fn an_error_names_the_field() {
    refused::<StartRequest>(r#"{"process":{"envs":{"A":1}}}"#, "process.envs");
    refused::<StartRequest>(r#"{"process":{"args":["a",7]}}"#, "process.args[1]: ");
    refused::<StartRequest>(r#"{"process":{"args":[null]}}"#, "process.args[0]: ");
    refused::<StartRequest>(r#"{"process":{"cmd":7}}"#, "process.cmd: ");
    refused::<StartRequest>(r#"{"process":7}"#, "process: ");
    refused::<StartRequest>(r#"{"pty":{"size":{"cols":-1}}}"#, "pty.size.cols: ");
    refused::<StartRequest>(r#"{"stdin":"true"}"#, "stdin: ");
    refused::<StartRequest>(r#"{"tag":7}"#, "tag: ");
    refused::<SendInputRequest>(r#"{"input":{"stdin":"!"}}"#, "input.stdin: ");
    refused::<StreamInputRequest>(r#"{"data":{"input":{"pty":7}}}"#, "data.input.pty: ");
    for text in ["", "{", "7", "null", "{} {}", "{}x", "\u{feff}{}"] {
        refused::<StartRequest>(text, "");
    }
}
