//! MCP, revision 2026-07-28, by value: what an answer looks like, and the progress before it.

use bytes::{Bytes, BytesMut};
use hangar_core::{
    Time,
    text::Text,
    wire::mcp::{
        message::{Id, RpcError, code},
        response::{Answering, Framing, HEARTBEAT, Progress},
        types::{Cache, Implementation, ToolResult, cacheable, complete},
    },
};
use serde_json::{Map, Value, json};
use std::time::Duration;

fn text(text: &'static str) -> Text {
    Text::from(Bytes::from_static(text.as_bytes()))
}

fn written(out: &mut BytesMut) -> String {
    String::from_utf8(out.split().to_vec()).expect("messages are UTF-8")
}

#[test]
fn progress_counts_bytes_and_a_silence_adds_a_little() {
    let (mut now, mut out) = (Time::ZERO, BytesMut::new());
    let token = Id::Number(0.into());
    let mut answering = Answering::new(Id::Text("é".into()), Some(&token), Framing::Events, now);
    assert_eq!(answering.heartbeat_at(), Some(now + HEARTBEAT));
    assert!(answering.output(&text("a\"\n"), now, &mut out));
    assert_eq!(
        written(&mut out),
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":0,\
         \"progress\":3,\"message\":\"a\\\"\\n\"}}\n\n"
    );
    for beat in 1..=3 {
        assert!(!answering.heartbeat(now + Duration::from_secs(14), &mut out));
        now = now + HEARTBEAT;
        assert!(answering.heartbeat(now, &mut out));
        assert!(written(&mut out).contains(&format!("\"progress\":3.000{beat}}}}}")));
    }
    assert!(answering.output_base64(&text("b"), now, &mut out));
    assert!(written(&mut out).contains("\"progress\":4,\"message\":\"Yg==\"}"));
    assert!(answering.answer(&Ok(Map::new()), &mut out));
    assert_eq!(written(&mut out), "data: {\"jsonrpc\":\"2.0\",\"id\":\"é\",\"result\":{}}\n\n");
    // Nothing follows, and the other answer is none.
    assert!(!answering.output(&text("c"), now, &mut out) && !answering.heartbeat(now + HEARTBEAT, &mut out));
    assert!(!answering.notification("x", &json!({}), now, &mut out));
    assert!(!answering.answer(&Err(RpcError::new(code::INTERNAL, "x")), &mut out));
    assert!(out.is_empty() && answering.is_answered());
}

#[test]
fn who_asked_for_no_progress_gets_none() {
    let (now, mut out) = (Time::ZERO, BytesMut::new());
    let mut answering = Answering::new(Id::Number(1.into()), None, Framing::Lines, now);
    assert!(!answering.wants_progress() && !answering.output(&text("a"), now, &mut out));
    assert_eq!(answering.heartbeat_at(), None);
    assert!(answering.answer(&Err(RpcError::new(code::INTERNAL, "no")), &mut out));
    assert_eq!(
        written(&mut out),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32603,\"message\":\"no\"}}\n"
    );
}

#[test]
fn a_day_of_silence_does_not_outgrow_the_next_byte() {
    let (mut now, mut out) = (Time::ZERO, BytesMut::new());
    let mut answering =
        Answering::new(Id::Number(1.into()), Some(&Id::Text(String::new())), Framing::Lines, now);
    for _ in 0..20_000 {
        now = now + HEARTBEAT;
        answering.heartbeat(now, &mut out);
        assert!(answering.heartbeat_at().unwrap() > now);
    }
    assert_eq!(written(&mut out).lines().count(), 9_999);
    assert!(answering.output(&text("a"), now, &mut out));
}

#[test]
fn progress_of_another_kind_grows_too() {
    let (now, mut out) = (Time::ZERO, BytesMut::new());
    let mut answering =
        Answering::new(Id::Number(1.into()), Some(&Id::Text("t".into())), Framing::Lines, now);
    let at = |progress| Progress { progress, total: Some(100.0), message: Some("half\n".into()) };
    assert!(answering.progress(&at(0.0), now, &mut out));
    assert!(answering.progress(&at(50.5), now, &mut out));
    for bad in [50.5, 12.0, f64::NAN, f64::INFINITY] {
        assert!(!answering.progress(&at(bad), now, &mut out));
    }
    assert!(written(&mut out).ends_with("\"progress\":50.5,\"total\":100,\"message\":\"half\\n\"}}\n"));
    // Output counts on from there.
    assert!(answering.output(&text("ab"), now, &mut out));
    assert!(written(&mut out).contains("\"progress\":52.5,"));
    let mut answering =
        Answering::new(Id::Number(1.into()), Some(&Id::Text("t".into())), Framing::Lines, now);
    assert!(answering.progress(&at(-20.0), now, &mut out) && answering.progress(&at(-10.0), now, &mut out));
    out.clear();
}

#[test]
fn results_say_who_gives_them_and_for_how_long() {
    let server = Implementation { name: "hangar", version: "1" };
    let result = complete(ToolResult::structured(json!({ "a": 1 })), &server);
    assert_eq!(
        Value::Object(result),
        json!({
            "resultType": "complete", "content": [{ "type": "text", "text": "{\"a\":1}" }], "structuredContent": { "a": 1 },
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "hangar", "version": "1" } },
        })
    );
    let cached = cacheable(json!({ "tools": [] }), Cache::Public(Duration::from_secs(1)), &server);
    assert_eq!((&cached["ttlMs"], &cached["cacheScope"]), (&json!(1000), &json!("public")));
    let live = cacheable(json!({ "resultType": "input_required" }), Cache::Live, &server);
    assert_eq!(
        (&live["ttlMs"], &live["cacheScope"], &live["resultType"]),
        (&json!(0), &json!("private"), &json!("input_required"))
    );
}
