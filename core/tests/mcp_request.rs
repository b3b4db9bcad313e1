//! MCP, revision 2026-07-28, by value: each rung of the ladder from a request to a call, and what a listen asks for.

use hangar_core::{
    testing::mcp::{OFFERS, Request, run_request},
    wire::mcp::{
        head::{Head, Header, decoded, encoded},
        listen::{Filter, List, MAX_RESOURCES},
        message::{Id, code},
        meta::LogLevel,
        request::{Refusal, Verdict, accept, accept_line},
    },
};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

const META: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

fn head() -> Head<'static> {
    Head {
        content_type: Some(b"application/json"),
        accept: vec![b"application/json, text/event-stream"],
        version: Header::Once(b"2026-07-28"),
        method: Header::Once(b"tools/call"),
        name: Header::Once(b"exec"),
        session: Header::Missing,
    }
}

fn body() -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"exec","arguments":{{"a":1}},"_meta":{META}}}}}"#
    )
}

fn refused(head: &Head<'_>, body: &str) -> (u16, i32, Option<Id>) {
    match accept(head, body.as_bytes(), &OFFERS) {
        Verdict::Refused(refusal) => (refusal.status, refusal.error.code, refusal.id),
        other @ (Verdict::Call(_) | Verdict::Notification { .. } | Verdict::Legacy(_)) => {
            panic!("{body}: {other:?}")
        }
    }
}

fn number(id: i64) -> Option<Id> {
    Some(Id::Number(id.into()))
}

#[test]
fn a_whole_request_is_a_call() {
    let Verdict::Call(call) = accept(&head(), body().as_bytes(), &OFFERS) else { panic!("a call") };
    assert_eq!((call.id, call.method.as_str()), (Id::Number(1.into()), "tools/call"));
    assert_eq!(call.params.get(), format!(r#"{{"name":"exec","arguments":{{"a":1}},"_meta":{META}}}"#));
    assert_eq!(call.meta.progress_token, None);
    // Nothing but the name and the version of the client is optional in it; unknown members are passed over.
    let meta = META.replace(
        "{\"io",
        r#"{"progressToken":0,"traceparent":"x","io.modelcontextprotocol/logLevel":"warning","io"#,
    );
    let body = body().replace(META, &meta).replace("{\"jsonrpc", r#"{"x":[],"jsonrpc"#);
    let Verdict::Call(call) = accept(&head(), body.as_bytes(), &OFFERS) else { panic!("a call") };
    assert_eq!((call.meta.progress_token, call.meta.log_level), (number(0), Some(LogLevel::Warning)));
}

#[test]
fn the_types_are_settled_first() {
    for (content_type, expected) in [
        (Some("application/json; charset=utf-8"), None),
        (Some("APPLICATION/JSON"), None),
        (Some("text/plain"), Some(415)),
        (Some("application/jsonx"), Some(415)),
        (Some(""), Some(415)),
        (None, Some(415)),
    ] {
        let head = Head { content_type: content_type.map(str::as_bytes), ..head() };
        // Whatever the body is.
        match expected {
            Some(status) => assert_eq!(refused(&head, "nonsense").0, status, "{content_type:?}"),
            None => assert!(matches!(accept(&head, body().as_bytes(), &OFFERS), Verdict::Call(_))),
        }
    }
    for (accepted, is_call) in [
        (vec![], true),
        (vec!["*/*"], true),
        (vec!["text/event-stream", "application/json;q=0.5"], true),
        (vec!["application/*, TEXT/*"], true),
        (vec!["application/json"], false),
        (vec!["text/event-stream"], false),
        (vec!["text/html"], false),
    ] {
        let head = Head { accept: accepted.iter().map(|value| value.as_bytes()).collect(), ..head() };
        assert_eq!(
            matches!(accept(&head, body().as_bytes(), &OFFERS), Verdict::Call(_)),
            is_call,
            "{accepted:?}"
        );
        if !is_call {
            assert_eq!(refused(&head, &body()), (406, code::INVALID_REQUEST, None));
        }
    }
}

#[test]
fn what_is_no_message_is_refused() {
    let with = |from: &str, to: &str| body().replace(from, to);
    for (body, status, expected, id) in [
        (String::new(), 400, code::PARSE, None),
        ("{".to_owned(), 400, code::PARSE, None),
        (body() + "{}", 400, code::PARSE, None),
        ("nonsense".to_owned(), 400, code::PARSE, None),
        ("1".to_owned(), 400, code::INVALID_REQUEST, None),
        ("null".to_owned(), 400, code::INVALID_REQUEST, None),
        ("[]".to_owned(), 400, code::INVALID_REQUEST, None),
        (format!("[{}]", body()), 400, code::INVALID_REQUEST, None),
        ("{}".to_owned(), 400, code::INVALID_REQUEST, None),
        (with("\"2.0\"", "\"1.0\""), 400, code::INVALID_REQUEST, number(1)),
        (with("\"2.0\"", "2.0"), 400, code::INVALID_REQUEST, number(1)),
        (with("\"jsonrpc\":\"2.0\",", ""), 400, code::INVALID_REQUEST, number(1)),
        (with("\"id\":1", "\"id\":null"), 400, code::INVALID_REQUEST, None),
        (with("\"id\":1", "\"id\":1.5"), 400, code::INVALID_REQUEST, None),
        (with("\"id\":1", "\"id\":1e300"), 400, code::INVALID_REQUEST, None),
        (with("\"id\":1", "\"id\":true"), 400, code::INVALID_REQUEST, None),
        (with("\"id\":1", "\"id\":[1]"), 400, code::INVALID_REQUEST, None),
        (with("\"id\":1", "\"id\":1,\"id\":2"), 400, code::INVALID_REQUEST, None),
        (with("\"tools/call\"", "7"), 400, code::INVALID_REQUEST, number(1)),
        (with("\"method\":\"tools/call\",", ""), 400, code::INVALID_REQUEST, number(1)),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned(), 400, code::INVALID_REQUEST, None),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}"#.to_owned(),
            400,
            code::INVALID_PARAMS,
            number(1),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":null}"#.to_owned(),
            400,
            code::INVALID_PARAMS,
            number(1),
        ),
    ] {
        assert_eq!(refused(&head(), &body), (status, expected, id), "{body}");
    }
    let bad = accept(&head(), b"{\"id\":\"\xff\"}", &OFFERS);
    assert!(matches!(bad, Verdict::Refused(refusal) if refusal.error.code == code::PARSE));
}

#[test]
fn ids_come_back_as_they_were() {
    for id in [json!(0), json!(-3), json!(u64::MAX), json!(""), json!("a\n\"b\""), json!("1")] {
        let body = body().replace("\"id\":1", &format!("\"id\":{id}"));
        let Verdict::Call(call) = accept(&head(), body.as_bytes(), &OFFERS) else { panic!("{id}") };
        assert_eq!(serde_json::to_value(&call.id).unwrap(), id);
    }
}

#[test]
fn a_notification_is_taken_unless_its_headers_contradict_it() {
    let bare = Head { version: Header::Missing, method: Header::Missing, name: Header::Twice, ..head() };
    let body = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    for head in [
        bare.clone(),
        Head { method: Header::Once(b"notifications/cancelled"), ..bare.clone() },
        Head { version: Header::Once(b"2026-07-28"), ..bare.clone() },
    ] {
        let Verdict::Notification { method, params } = accept(&head, body.as_bytes(), &OFFERS) else {
            panic!("a notification")
        };
        assert_eq!(
            (method.as_str(), params.unwrap().get()),
            ("notifications/cancelled", r#"{"requestId":7}"#)
        );
    }
    for head in [
        Head { method: Header::Once(b"tools/call"), ..bare.clone() },
        Head { version: Header::Twice, ..bare.clone() },
    ] {
        assert_eq!(refused(&head, body), (400, code::HEADER_MISMATCH, None));
    }
}

#[test]
fn what_is_no_request_is_not_answered_over_lines() {
    let answerable = |line: &str| match accept_line(line.as_bytes(), &OFFERS) {
        Verdict::Refused(refusal) => refusal.answerable,
        other @ (Verdict::Call(_) | Verdict::Notification { .. } | Verdict::Legacy(_)) => {
            panic!("{line}: {other:?}")
        }
    };
    for line in [
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":null}"#,
        r#"{"jsonrpc":"1.0","method":"notifications/cancelled"}"#,
        r#"{"jsonrpc":"2.0","method":7}"#,
    ] {
        assert!(!answerable(line), "{line}");
    }
    for line in
        ["nonsense", "[]", "{}", r#"{"jsonrpc":"2.0","id":7}"#, r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#]
    {
        assert!(answerable(line), "{line}");
    }
}

#[test]
fn a_name_goes_into_a_header_and_comes_back() {
    for (name, plain) in [
        ("exec", true),
        ("a b", true),
        ("", true),
        (" a", false),
        ("é", false),
        ("=?base64?x?=", false),
        ("a\n", false),
    ] {
        let header = encoded(name);
        assert_eq!(header == name, plain, "{name:?}");
        assert!(header.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        assert_eq!(decoded(header.as_bytes()).as_deref(), Some(name.as_bytes()));
    }
    let Verdict::Call(call) = accept(&head(), body().as_bytes(), &OFFERS) else { panic!("a call") };
    assert_eq!(call.mcp_name().as_deref(), Some("exec"));
}

#[test]
fn every_request_says_its_revision_and_what_its_client_can() {
    let version = "\"io.modelcontextprotocol/protocolVersion\"";
    let capabilities = "\"io.modelcontextprotocol/clientCapabilities\"";
    for (meta, field) in [
        (String::new(), "params._meta"),
        ("null".to_owned(), "params._meta"),
        ("[]".to_owned(), "params._meta"),
        (r#"["2026-07-28",{},null,7]"#.to_owned(), "params._meta"),
        ("{}".to_owned(), "protocolVersion"),
        (format!("{{{version}:1,{capabilities}:{{}}}}"), "protocolVersion"),
        (format!("{{{version}:\"2026-07-28\"}}"), "clientCapabilities"),
        (format!("{{{version}:\"2026-07-28\",{capabilities}:[]}}"), "clientCapabilities"),
        (META.replace("{\"io", "{\"progressToken\":null,\"io"), "progressToken"),
        (META.replace("{\"io", "{\"progressToken\":1.5,\"io"), "progressToken"),
        (META.replace("{\"io", "{\"io.modelcontextprotocol/logLevel\":\"loud\",\"io"), "logLevel"),
    ] {
        let with = if meta.is_empty() { String::new() } else { format!(",\"_meta\":{meta}") };
        let body = body().replace(&format!(",\"_meta\":{META}"), &with);
        let Verdict::Refused(refusal) = accept(&head(), body.as_bytes(), &OFFERS) else { panic!("{body}") };
        let Refusal { status, id, error, .. } = *refusal;
        assert_eq!((status, error.code, id), (400, code::INVALID_PARAMS, number(1)), "{body}");
        assert!(error.message.contains(field), "{meta}: {}", error.message);
    }
    // A revision that is not known may have another shape.
    let other = body().replace(META, r#"{"io.modelcontextprotocol/protocolVersion":"2031-01-01"}"#);
    let newer = Head { version: Header::Once(b"2031-01-01"), ..head() };
    assert_eq!(refused(&newer, &other), (400, code::UNSUPPORTED_VERSION, number(1)));
    // Before the headers, the revision and the method are looked at.
    let none = r#"{"jsonrpc":"2.0","id":"a","method":"nonsense"}"#;
    assert_eq!(refused(&newer, none), (400, code::INVALID_PARAMS, Some(Id::Text("a".into()))));
}

#[test]
fn the_headers_say_what_the_body_says() {
    let wrong = (400, code::HEADER_MISMATCH, number(1));
    let body = body();
    for header in [Header::Missing, Header::Twice, Header::Once(b""), Header::Once(b"2025-11-25")] {
        assert_eq!(refused(&Head { version: header, ..head() }, &body), wrong, "{header:?}");
    }
    for header in [Header::Missing, Header::Twice, Header::Once(b"Tools/call"), Header::Once(b"tools/list")] {
        assert_eq!(refused(&Head { method: header, ..head() }, &body), wrong, "{header:?}");
    }
    for header in [
        Header::Missing,
        Header::Twice,
        Header::Once(b"Exec"),
        Header::Once(b"=?base64?ZXhlYw=?="),
        Header::Once(b"=?base64?/w==?="),
        Header::Once(b"=?BASE64?ZXhlYw==?="),
    ] {
        assert_eq!(refused(&Head { name: header, ..head() }, &body), wrong, "{header:?}");
    }
    let wrapped = Head { name: Header::Once(b"=?base64?ZXhlYw==?="), ..head() };
    assert!(matches!(accept(&wrapped, body.as_bytes(), &OFFERS), Verdict::Call(_)));
    assert_eq!(Header::of([b" a ".as_slice()].into_iter()), Header::Once(b"a"));
    // A method without a name needs no header for it, and one without the header is refused before it is looked for.
    let list = Head { method: Header::Once(b"tools/list"), name: Header::Missing, ..head() };
    let listed = body.replace("tools/call", "tools/list");
    assert!(matches!(accept(&list, listed.as_bytes(), &OFFERS), Verdict::Call(_)));
    let uri = body.replace("tools/call", "resources/read").replace("\"name\":\"exec\"", "\"uri\":\"a://é\"");
    let read = Head {
        method: Header::Once(b"resources/read"),
        name: Header::Once(b"=?base64?YTovL8Op?="),
        ..head()
    };
    assert!(matches!(accept(&read, uri.as_bytes(), &OFFERS), Verdict::Call(_)));
    // A line has no headers.
    assert!(matches!(accept_line(body.as_bytes(), &OFFERS), Verdict::Call(_)));
}

#[test]
fn then_the_revision_then_the_method_then_its_parameters() {
    let other = body().replace("2026-07-28", "2031-01-01");
    let head_of = Head { version: Header::Once(b"2031-01-01"), ..head() };
    let Verdict::Refused(refusal) = accept(&head_of, other.as_bytes(), &OFFERS) else { panic!("refused") };
    assert_eq!((refusal.status, refusal.error.code), (400, code::UNSUPPORTED_VERSION));
    let supported = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"];
    assert_eq!(refusal.error.data, Some(json!({ "supported": supported, "requested": "2031-01-01" })));
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "tools/callx", ""] {
        let body = body().replace("tools/call", method);
        let head = Head { method: Header::Once(method.as_bytes()), ..head() };
        assert_eq!(refused(&head, &body), (404, code::METHOD_NOT_FOUND, number(1)), "{method}");
    }
    for name in ["", "\"name\":7,", "\"name\":null,"] {
        let body = body().replace("\"name\":\"exec\",", name);
        assert_eq!(refused(&head(), &body), (400, code::INVALID_PARAMS, number(1)), "{name}");
    }
}

#[test]
fn depth_and_length_break_nothing() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let Verdict::Call(call) = accept(&head(), body().replace("{\"a\":1}", &deep).as_bytes(), &OFFERS) else {
        panic!("arguments are not looked into")
    };
    assert!(call.params::<Value>().is_err());
    let body = body().replace(
        "\"io.modelcontextprotocol/clientCapabilities\":{}",
        &format!("\"io.modelcontextprotocol/clientCapabilities\":{{\"x\":{deep}}}"),
    );
    assert_eq!(refused(&head(), &body).1, code::INVALID_PARAMS);
    let long = "x".repeat(1 << 20);
    let body = self::body().replace("{\"a\":1}", &format!("{{\"a\":\"{long}\"}}"));
    assert!(matches!(accept(&head(), body.as_bytes(), &OFFERS), Verdict::Call(_)));
}

#[test]
fn a_filter_says_what_is_wished_or_what_is_wrong_with_it() {
    let parse = |params: Value| Filter::parse(params.as_object().expect("an object"));
    let filter = parse(json!({ "notifications": {
        "toolsListChanged": true,
        "promptsListChanged": false,
        "resourceSubscriptions": ["b://", "a://1", "b://", ""],
        "taskIds": ["1"],
    }}))
    .unwrap();
    assert_eq!(filter.lists.into_iter().collect::<Vec<_>>(), [List::Tools]);
    assert_eq!(filter.resources.iter().map(|uri| &**uri).collect::<Vec<_>>(), ["b://", "a://1", ""]);
    assert_eq!(parse(json!({ "notifications": {} })), Ok(Filter::default()));
    assert_eq!(Filter::default().to_json(), json!({}));

    let many = |count: usize| json!({ "notifications": { "resourceSubscriptions": vec!["a://"; count] } });
    assert_eq!(parse(many(MAX_RESOURCES)).unwrap().resources.len(), 1);
    for (params, field) in [
        (json!({}), ": it is missing"),
        (json!({ "notifications": null }), ": it must be an object"),
        (json!({ "notifications": [] }), ": it must be an object"),
        (
            json!({ "notifications": { "resourcesListChanged": 1 } }),
            ".resourcesListChanged: it must be true or false",
        ),
        (
            json!({ "notifications": { "promptsListChanged": null } }),
            ".promptsListChanged: it must be true or false",
        ),
        (
            json!({ "notifications": { "resourceSubscriptions": "a://" } }),
            ".resourceSubscriptions: it must be an array",
        ),
        (
            json!({ "notifications": { "resourceSubscriptions": ["a://", 1] } }),
            ".resourceSubscriptions[1]: it must be a string",
        ),
        (many(MAX_RESOURCES + 1), ".resourceSubscriptions: it has more than 1024 URIs"),
    ] {
        let error = parse(params).unwrap_err();
        assert_eq!(error.code, code::INVALID_PARAMS);
        assert_eq!(error.message, format!("params.notifications{field}"));
    }
}

/// Bodies that are nearly right: each member is as it should be, missing, there twice, or of another type.
fn nearly() -> impl Strategy<Value = String> {
    let members = [
        r#""jsonrpc":"2.0""#,
        r#""id":7"#,
        r#""id":"a""#,
        r#""id":null"#,
        r#""method":"tools/call""#,
        r#""method":"tools/list""#,
        r#""method":"nonsense""#,
        r#""params":{"name":"exec","_meta":META}"#,
        r#""params":{"uri":"x","_meta":META}"#,
        r#""params":{"name":1,"_meta":{"progressToken":0}}"#,
        r#""params":[]"#,
        r#""result":{}"#,
    ];
    vec(select(members.to_vec()), 0..7)
        .prop_map(|members| format!("{{{}}}", members.join(",")).replace("META", META))
}

proptest! {
    #[test]
    fn whatever_is_nearly_right_is_judged(
        body in nearly(),
        version in proptest::option::of(vec(select(vec!["2026-07-28", "2025-11-25", ""]), 0..3)),
        method in proptest::option::of(vec(select(vec!["tools/call", "tools/list"]), 0..3)),
        name in proptest::option::of(vec(select(vec!["exec", "=?base64?ZXhlYw==?="]), 0..3)),
    ) {
        let bytes = |values: Vec<&str>| values.into_iter().map(|value| value.as_bytes().to_vec()).collect();
        run_request(&Request {
            content_type: None,
            accept: Vec::new(),
            version: version.map(bytes),
            method: method.map(bytes),
            name: name.map(bytes),
            body: body.into_bytes(),
        });
    }
}
