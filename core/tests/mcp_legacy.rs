//! MCP, the revisions of 2025, by value: which requests are of a session, what begins one, and what differs in an answer.

use hangar_core::{
    testing::mcp::OFFERS,
    wire::mcp::{
        head::{Head, Header},
        legacy::{Incoming, Initialize, Legacy, MAX_BATCH, adapted, initialized},
        message::{Id, RpcError, code},
        request::{Verdict, accept, accept_line},
        revision::Revision,
    },
};
use serde_json::{Map, Value, json};

const META: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
const CANCELLED: &str = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#;

fn head(session: Header<'static>) -> Head<'static> {
    Head {
        content_type: Some(b"application/json"),
        accept: vec![b"application/json, text/event-stream"],
        session,
        ..Head::default()
    }
}

const SESSION: Header<'_> = Header::Once(b"a-session");

fn refused(head: &Head<'_>, body: &str) -> (u16, i32, Option<Id>) {
    match accept(head, body.as_bytes(), &OFFERS) {
        Verdict::Refused(refusal) => (refusal.status, refusal.error.code, refusal.id),
        other @ (Verdict::Call(_) | Verdict::Notification { .. } | Verdict::Legacy(_)) => {
            panic!("{body}: {other:?}")
        }
    }
}

fn begun(params: &Value) -> Initialize {
    let body = json!({ "jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params }).to_string();
    for session in [Header::Missing, SESSION] {
        let Verdict::Legacy(Legacy::Initialize(begun)) = accept(&head(session), body.as_bytes(), &OFFERS)
        else {
            panic!("{params}")
        };
        assert_eq!(begun.id, Id::Text("i".to_owned()));
    }
    let Verdict::Legacy(Legacy::Initialize(begun)) = accept_line(body.as_bytes(), &OFFERS) else {
        panic!("{params}")
    };
    begun
}

#[test]
fn a_session_has_the_revision_that_was_asked_for_or_the_newest_that_has_sessions() {
    for revision in [Revision::V2025_03_26, Revision::V2025_06_18, Revision::V2025_11_25] {
        assert_eq!(begun(&json!({ "protocolVersion": revision.name() })).revision, revision);
        assert!(revision.has_sessions());
        assert_eq!(revision.has_batches(), revision == Revision::V2025_03_26);
    }
    for other in ["2024-11-05", "2026-07-28", "2031-01-01", "", "x"] {
        assert_eq!(begun(&json!({ "protocolVersion": other })).revision, Revision::V2025_11_25, "{other}");
    }
    let able =
        json!({ "protocolVersion": "2025-06-18", "capabilities": { "sampling": {} }, "clientInfo": 7 });
    assert!(begun(&able).capabilities.contains_key("sampling"));
    for (params, field) in [
        (json!({}), "params.protocolVersion"),
        (json!({ "protocolVersion": 7 }), "params.protocolVersion"),
        (json!({ "protocolVersion": "2025-06-18", "capabilities": [] }), "params.capabilities"),
    ] {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string();
        let Verdict::Refused(refusal) = accept_line(body.as_bytes(), &OFFERS) else { panic!("{body}") };
        assert_eq!(refusal.error.code, code::INVALID_PARAMS);
        assert!(refusal.error.message.starts_with(field), "{}", refusal.error);
    }
}

#[test]
fn what_names_a_session_is_of_it() {
    let of_session = |body: &str| match accept(&head(SESSION), body.as_bytes(), &OFFERS) {
        Verdict::Legacy(Legacy::Message(message)) => message,
        other @ (Verdict::Legacy(_)
        | Verdict::Call(_)
        | Verdict::Notification { .. }
        | Verdict::Refused(_)) => {
            panic!("{body}: {other:?}")
        }
    };
    let Incoming::Request(request) = of_session(LIST) else { panic!("a request") };
    assert_eq!((request.method.as_str(), request.params.get()), ("tools/list", "{}"));
    assert!(matches!(of_session(CANCELLED), Incoming::Notification { params: Some(_), .. }));
    let Incoming::Response { id, outcome } = of_session(ANSWER) else { panic!("a response") };
    assert_eq!((id, outcome), (Some(Id::Number(7.into())), Ok(json!({ "a": 1 }))));
    let error = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}"#;
    let Incoming::Response { outcome, .. } = of_session(error) else { panic!("a response") };
    assert_eq!(outcome, Err(RpcError::new(-1, "no")));
    // One of a shape that nobody knows is an error, too.
    let error = r#"{"jsonrpc":"2.0","id":7,"error":7}"#;
    assert!(matches!(of_session(error), Incoming::Response { outcome: Err(_), .. }));
    // Whatever the method is: the session knows.
    assert!(matches!(of_session(&LIST.replace("tools/list", "nonsense")), Incoming::Request(_)));
}

#[test]
fn what_names_none_is_of_the_newest_revision() {
    let nobodys = head(Header::Missing);
    assert_eq!(refused(&nobodys, LIST), (400, code::INVALID_PARAMS, Some(Id::Number(1.into()))));
    assert_eq!(refused(&nobodys, ANSWER), (400, code::INVALID_REQUEST, None));
    assert_eq!(refused(&nobodys, &format!("[{LIST}]")), (400, code::INVALID_REQUEST, None));
    assert!(matches!(accept(&nobodys, CANCELLED.as_bytes(), &OFFERS), Verdict::Notification { .. }));
    // It finds out what there is without any session.
    let discover = LIST.replace("tools/list", "server/discover");
    for session in [Header::Missing, SESSION] {
        assert_eq!(refused(&head(session), &discover).1, code::INVALID_PARAMS);
    }
}

#[test]
fn the_newest_revision_passes_sessions_over() {
    let newest =
        Head { version: Header::Once(b"2026-07-28"), method: Header::Once(b"tools/list"), ..head(SESSION) };
    let with_meta =
        LIST.replace("\"tools/list\"", &format!("\"tools/list\",\"params\":{{\"_meta\":{META}}}"));
    assert!(matches!(accept(&newest, with_meta.as_bytes(), &OFFERS), Verdict::Call(_)));
    // By its head alone: a probe is told what it lacks.
    assert_eq!(refused(&newest, LIST).1, code::INVALID_PARAMS);
    let begins = LIST.replace("tools/list", "initialize");
    assert_eq!(refused(&newest, &begins).1, code::INVALID_PARAMS);
    assert_eq!(refused(&newest, &format!("[{LIST}]")).1, code::INVALID_REQUEST);
    // By its body alone: what its head lacks.
    assert_eq!(refused(&head(SESSION), &with_meta).1, code::HEADER_MISMATCH);
    let Verdict::Notification { .. } =
        accept(&Head { method: Header::Missing, ..newest }, CANCELLED.as_bytes(), &OFFERS)
    else {
        panic!("a notification")
    };
}

#[test]
fn the_head_names_a_revision_that_has_sessions() {
    for version in [&b"2025-03-26"[..], b"2025-06-18", b"2025-11-25"] {
        let head = Head { version: Header::Once(version), ..head(SESSION) };
        assert!(matches!(accept(&head, LIST.as_bytes(), &OFFERS), Verdict::Legacy(_)));
    }
    for version in [Header::Once(b"2024-11-05"), Header::Once(b"x"), Header::Once(b"\xff"), Header::Twice] {
        let head = Head { version, ..head(SESSION) };
        assert!(!head.is_without_sessions());
        for body in [LIST, CANCELLED, ANSWER, "[{}]"] {
            let (status, code, _) = refused(&head, body);
            assert_eq!((status, code), (400, code::INVALID_REQUEST), "{version:?} {body}");
        }
    }
}

#[test]
fn a_batch_has_its_messages_each_for_itself() {
    let batch = |body: &str| match accept(&head(SESSION), body.as_bytes(), &OFFERS) {
        Verdict::Legacy(Legacy::Batch(messages)) => Ok(messages),
        Verdict::Refused(refusal) => Err(refusal.error.code),
        other @ (Verdict::Legacy(_) | Verdict::Call(_) | Verdict::Notification { .. }) => {
            panic!("{body}: {other:?}")
        }
    };
    let messages = batch(&format!(" [{LIST},{CANCELLED}, {ANSWER},7,{{}},[]]")).unwrap();
    assert!(matches!(messages[0], Ok(Incoming::Request(_))));
    assert!(matches!(messages[1], Ok(Incoming::Notification { .. })));
    assert!(matches!(messages[2], Ok(Incoming::Response { .. })));
    assert!(
        messages[3..].iter().all(|message| message.as_ref().is_err_and(|malformed| malformed.answerable))
    );
    assert_eq!(messages.len(), 6);
    assert_eq!(batch("[]").unwrap_err(), code::INVALID_REQUEST);
    assert_eq!(batch("[").unwrap_err(), code::PARSE);
    assert_eq!(batch("[{}").unwrap_err(), code::PARSE);
    let many = |count: usize| format!("[{}]", vec!["{}"; count].join(","));
    assert_eq!(batch(&many(MAX_BATCH)).unwrap().len(), MAX_BATCH);
    assert_eq!(batch(&many(MAX_BATCH + 1)).unwrap_err(), code::INVALID_REQUEST);
    assert!(matches!(accept_line(many(2).as_bytes(), &OFFERS), Verdict::Legacy(Legacy::Batch(_))));
    let bytes = accept(&head(SESSION), b"[\"\xff\"]", &OFFERS);
    assert!(matches!(bytes, Verdict::Refused(refusal) if refusal.error.code == code::PARSE));
}

#[test]
fn a_request_is_a_call_of_its_sessions_client() {
    let call = |params: Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
        let Verdict::Legacy(Legacy::Message(Incoming::Request(request))) =
            accept_line(body.as_bytes(), &OFFERS)
        else {
            panic!("{body}")
        };
        let able = Map::from_iter([("sampling".to_owned(), json!({}))]);
        request.call(Revision::V2025_06_18, &able, None)
    };
    let given = call(json!({ "name": "exec", "_meta": { "progressToken": 0 } })).unwrap();
    assert_eq!(
        (given.revision, given.meta.progress_token.clone()),
        (Revision::V2025_06_18, Some(Id::Number(0.into())))
    );
    assert!(given.meta.capabilities.contains_key("sampling"));
    // Sent on to a server of the newest revision, it is whole.
    let sent = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": serde_json::from_str::<Value>(given.newest_params().get()).unwrap(),
    });
    let Verdict::Call(sent) = accept_line(sent.to_string().as_bytes(), &OFFERS) else { panic!("{sent}") };
    assert_eq!(
        (sent.meta.progress_token.clone(), sent.meta.capabilities.clone()),
        (given.meta.progress_token, given.meta.capabilities)
    );
    assert_eq!(sent.newest_params().get(), sent.params.get());
    assert_eq!(call(json!({ "name": "exec" })).unwrap().meta.progress_token, None);
    for (params, field) in [
        (json!({}), "params.name"),
        (json!({ "name": 7 }), "params.name"),
        (json!({ "name": "exec", "_meta": 7 }), "params._meta"),
        (json!({ "name": "exec", "_meta": { "progressToken": null } }), "params._meta.progressToken"),
    ] {
        let error = call(params.clone()).unwrap_err();
        assert_eq!(error.code, code::INVALID_PARAMS);
        assert!(error.message.starts_with(field), "{params}: {error}");
    }
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

#[test]
fn an_answer_has_nothing_of_the_newest_revision() {
    let server = json!({ "io.modelcontextprotocol/serverInfo": { "name": "s", "version": "1" } });
    let newest = json!({
        "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "_meta": server, "tools": [], "isError": true,
    });
    let expected = json!({ "tools": [], "isError": true });
    assert_eq!(adapted("tools/list", Ok(object(newest))), Ok(object(expected)));
    let kept = json!({ "_meta": { "other": 1, "io.modelcontextprotocol/serverInfo": {} } });
    assert_eq!(adapted("tools/list", Ok(object(kept))), Ok(object(json!({ "_meta": { "other": 1 } }))));
    let missing = RpcError::invalid_params("x").with(json!({ "uri": "u" }));
    for (method, code) in
        [("resources/read", -32002), ("resources/subscribe", -32002), ("tools/call", -32602)]
    {
        assert_eq!(adapted(method, Err(missing.clone())).unwrap_err().code, code, "{method}");
    }
    assert_eq!(adapted("resources/read", Err(RpcError::invalid_params("x"))).unwrap_err().code, -32602);
    let found = json!({
        "resultType": "complete", "supportedVersions": [], "capabilities": { "tools": {} }, "instructions": "do",
        "ttlMs": 1, "cacheScope": "public", "_meta": server,
    });
    let expected = json!({
        "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "instructions": "do",
        "serverInfo": { "name": "s", "version": "1" },
    });
    assert_eq!(initialized(Revision::V2025_06_18, object(found)), object(expected));
    let unnamed = initialized(Revision::V2025_06_18, Map::new());
    assert!(unnamed["serverInfo"]["name"].is_string() && unnamed["capabilities"].is_object());
}
