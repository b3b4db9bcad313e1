//! What goes through the WebSocket of a process, by value.

use hangar_core::{
    Close,
    log::{Channel, Gap, GapReason},
    process::{Exit, Signal, TtySize},
    wire::process::{
        BadControl, BadFrame, ClientControl, FinishReason, GapView, Header, ServerControl, Status, View,
    },
};
use proptest::prelude::*;

#[test]
fn a_frame_begins_with_17_bytes() {
    let header = Header { seq: 0x0102_0304_0506_0708, channel: Channel::Stderr, ts_ms: -2 };
    let mut message = header.encode().to_vec();
    assert_eq!(message, [1, 2, 3, 4, 5, 6, 7, 8, 2, 255, 255, 255, 255, 255, 255, 255, 254]);
    assert_eq!(Header::decode(&message), Ok((header, &[][..])));
    message.extend(b"\0data");
    assert_eq!(Header::decode(&message), Ok((header, &b"\0data"[..])));
    for len in 0..17 {
        assert_eq!(Header::decode(&message[..len]), Err(BadFrame::Short(len)));
    }
    for stream in [0, 4, 255] {
        message[8] = stream;
        assert_eq!(Header::decode(&message), Err(BadFrame::Stream(stream)));
    }
}

fn running() -> View {
    View {
        id: "01J9F3ZK7QW4B2Y8N5T1QAZ6RX".into(),
        name: Some("dev-server".into()),
        command: Some("npm run dev".into()),
        status: Status::Running,
        exit_code: None,
        signal: None,
        finish_reason: None,
        started_at_ms: 1_751_792_400_000,
        finished_at_ms: None,
        restarted_from: None,
        tty: Some(TtySize { cols: 120, rows: 30 }),
    }
}

#[test]
fn ready_leaves_out_what_is_not_set() {
    let ready = ServerControl::Ready { process: Box::new(running()), logging_disabled: false };
    let expected = r#"{"type":"ready","process":{"id":"01J9F3ZK7QW4B2Y8N5T1QAZ6RX","name":"dev-server","command":"npm run dev","status":"running","exit_code":null,"started_at_ms":1751792400000,"tty":{"cols":120,"rows":30}},"logging_disabled":false}"#;
    assert_eq!(ready.encode(), expected);
    let ended = View {
        name: None,
        command: None,
        tty: None,
        status: Status::Failed,
        signal: Some("SIGKILL".into()),
        finish_reason: Some(FinishReason::StartFailed),
        finished_at_ms: Some(2),
        restarted_from: Some("01A".into()),
        ..running()
    };
    let ready = ServerControl::Ready { process: Box::new(ended), logging_disabled: true };
    let expected = r#"{"type":"ready","process":{"id":"01J9F3ZK7QW4B2Y8N5T1QAZ6RX","status":"failed","exit_code":null,"signal":"SIGKILL","finish_reason":"start_failed","started_at_ms":1751792400000,"finished_at_ms":2,"restarted_from":"01A"},"logging_disabled":true}"#;
    assert_eq!(ready.encode(), expected);
    assert_eq!(serde_json::from_str::<ServerControl>(expected).ok(), Some(ready));
}

#[test]
fn an_end_says_how_the_process_ended_and_nothing_else() {
    let end = |close, exit| ServerControl::end(close, exit).map(|end| end.encode());
    let exited = r#"{"type":"end","reason":"process_exited","exit_code":0}"#;
    assert_eq!(end(Close::Done, Some(Exit::Code(0))).as_deref(), Some(exited));
    let killed = r#"{"type":"end","reason":"process_exited","signal":"SIGKILL"}"#;
    assert_eq!(end(Close::Done, Some(Exit::Signal(9))).as_deref(), Some(killed));
    assert_eq!(end(Close::Shutdown, None).as_deref(), Some(r#"{"type":"end","reason":"server_shutdown"}"#));
    assert_eq!(end(Close::SlowConsumer, None), None);
}

#[test]
fn a_gap_leaves_out_what_is_not_known() {
    let gap = Gap {
        from_seq: Some(2),
        to_seq: 5,
        from_offset: None,
        to_offset: 90,
        reason: GapReason::SlowConsumer,
    };
    let text = ServerControl::Gap(GapView::from(&gap)).encode();
    assert_eq!(text, r#"{"type":"gap","from_seq":2,"to_seq":5,"to_offset":90,"reason":"slow_consumer"}"#);
    let gap = Gap { from_seq: None, from_offset: Some(10), reason: GapReason::Evicted, ..gap };
    let text = ServerControl::Gap(GapView::from(&gap)).encode();
    assert_eq!(
        text,
        r#"{"type":"gap","to_seq":5,"from_offset":10,"to_offset":90,"bytes":80,"reason":"evicted"}"#
    );
}

#[test]
fn what_a_client_says_is_read_strictly() {
    let read = ClientControl::decode;
    let resize = ClientControl::Resize(TtySize { cols: 200, rows: 50 });
    assert_eq!(read(r#"{ "type": "resize", "cols": 200, "rows": 50 }"#), Ok(resize));
    assert_eq!(read(r#"{"name":"INT","type":"signal"}"#), Ok(ClientControl::Signal(Signal::INT)));
    assert_eq!(read(r#"{"type":"signal","name":"SIGINT"}"#), Ok(ClientControl::Signal(Signal::INT)));
    assert_eq!(read(r#"{"type":"eof"}"#), Ok(ClientControl::Eof));
    let size = |cols, rows| read(&format!(r#"{{"type":"resize","cols":{cols},"rows":{rows}}}"#));
    assert_eq!(size(0, 1), Err(BadControl::Size("cols")));
    assert_eq!(size(70_000, 1), Err(BadControl::Size("cols")));
    assert_eq!(size(10_001, 1), Err(BadControl::Size("cols")));
    assert_eq!(size(10_000, 0), Err(BadControl::Size("rows")));
    assert!(size(10_000, 10_000).is_ok() && size(1, 1).is_ok());
    let unknown = read(r#"{"type":"signal","name":"SIGSEGV"}"#).unwrap_err();
    assert_eq!(unknown.to_string(), "signal: no signal is named SIGSEGV");
    for bad in [
        "",
        "x",
        "[]",
        r#"["eof"]"#,
        r#" ["resize",80,24]"#,
        r#"["signal",{"name":"SIGKILL"}]"#,
        "null",
        "{}",
        r#"{"type":"ready"}"#,
        r#"{"type":"eof","more":1}"#,
        r#"{"type":"resize","cols":1}"#,
        r#"{"type":"resize","cols":-1,"rows":1}"#,
        r#"{"type":"resize","cols":"1","rows":1}"#,
        r#"{"type":"resize","cols":1,"rows":1,"x":1}"#,
        r#"{"type":"signal"}"#,
        r#"{"type":"signal","name":2}"#,
    ] {
        assert!(matches!(read(bad), Err(BadControl::Json(_))), "{bad}");
    }
}

proptest! {
    #[test]
    fn frames_and_controls_are_read_as_they_were_written(
        seq: u64, stream in 0..3_usize, ts_ms: i64, data: Vec<u8>, cols in 1..=10_000_u16, rows in 1..=10_000_u16,
        signal in 0..9_usize,
    ) {
        let channel = [Channel::Stdout, Channel::Stderr, Channel::Tty][stream];
        let header = Header { seq, channel, ts_ms };
        let message = [&header.encode()[..], &data].concat();
        prop_assert_eq!(Header::decode(&message), Ok((header, &data[..])));
        for control in [
            ClientControl::Resize(TtySize { cols, rows }),
            ClientControl::Signal(Signal::STANDARD[signal]),
            ClientControl::Eof,
        ] {
            prop_assert_eq!(ClientControl::decode(&control.encode()), Ok(control));
        }
    }

    #[test]
    fn no_message_makes_the_decoders_panic(message: Vec<u8>, text: String) {
        drop((Header::decode(&message), ClientControl::decode(&text)));
    }
}
