//! Requests that are not what they should be: each refusal has its status, its code and its field, and nothing was
//! done.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_tests::sim::{
    Client, End, Request, Setup, World,
    refusals::{STREAM, nothing_starts, refused},
    run,
    world::{ADMIN, at_ms, exec},
};
use serde_json::{Value, json};
use std::time::Duration;

fn post(body: impl Into<Vec<u8>>) -> Request {
    Request::new("POST", STREAM).bearer(ADMIN).header("content-type", "application/json").body(body)
}

#[test]
fn a_bad_field_is_named() {
    let cases: [(Value, &str, &str); 34] = [
        (json!({}), "missing_field", "command"),
        (json!({ "command": "" }), "empty", "command"),
        (json!({ "command": " \n\t" }), "empty", "command"),
        (json!({ "command": null }), "wrong_type", "command"),
        (json!({ "command": 1 }), "wrong_type", "command"),
        (json!({ "command": ["exit 0"] }), "wrong_type", "command"),
        (json!({ "command": "exit 0\u{0}" }), "nul", "command"),
        (json!({ "command": "exit 0", "cwd": "" }), "empty", "cwd"),
        (json!({ "command": "exit 0", "cwd": "/a\u{0}b" }), "nul", "cwd"),
        (json!({ "command": "exit 0", "cwd": 7 }), "wrong_type", "cwd"),
        (json!({ "command": "exit 0", "env": { "A": "\u{0}" } }), "nul", "env.A"),
        (json!({ "command": "exit 0", "env": { "A": 1 } }), "wrong_type", "env.A"),
        (json!({ "command": "exit 0", "env": { "": "1" } }), "bad_name", "env"),
        (json!({ "command": "exit 0", "env": { "A=B": "1" } }), "bad_name", "env"),
        (json!({ "command": "exit 0", "env": { "A\u{0}": "1" } }), "bad_name", "env"),
        (json!({ "command": "exit 0", "env": ["A=1"] }), "wrong_type", "env"),
        (json!({ "command": "exit 0", "user": "" }), "empty", "user"),
        (json!({ "command": "exit 0", "user": "a\u{0}" }), "nul", "user"),
        (json!({ "command": "exit 0", "timeout": 0 }), "out_of_range", "timeout"),
        (json!({ "command": "exit 0", "timeout": -1 }), "out_of_range", "timeout"),
        (json!({ "command": "exit 0", "timeout": -0.0 }), "out_of_range", "timeout"),
        (json!({ "command": "exit 0", "timeout": 86_400.1 }), "out_of_range", "timeout"),
        (json!({ "command": "exit 0", "timeout": 1e300 }), "out_of_range", "timeout"),
        (json!({ "command": "exit 0", "timeout": u64::MAX }), "out_of_range", "timeout"),
        (json!({ "command": "exit 0", "timeout": "5" }), "wrong_type", "timeout"),
        (json!({ "command": "exit 0", "timeout": true }), "wrong_type", "timeout"),
        (json!({ "command": "exit 0", "stdin": 1 }), "wrong_type", "stdin"),
        (json!({ "command": "exit 0", "stdin": ["a"] }), "wrong_type", "stdin"),
        (json!({ "command": "exit 0", "encoding": "latin1" }), "wrong_type", "encoding"),
        (json!({ "command": "exit 0", "encoding": "Text" }), "wrong_type", "encoding"),
        (json!({ "command": "exit 0", "encoding": 1 }), "wrong_type", "encoding"),
        (json!({ "command": "exit 0", "comand": "x" }), "unknown_field", "comand"),
        (json!({ "command": "exit 0", "Timeout": 1 }), "unknown_field", "Timeout"),
        (json!({ "command": "exit 0", "stream": true }), "unknown_field", "stream"),
    ];
    nothing_starts(Setup::default(), async |world: &World| {
        for (body, code, field) in &cases {
            for stream in [true, false] {
                let response = refused(world, &exec(ADMIN, body, stream), 400, code, field).await;
                let message = response.json()["error"]["message"].as_str().unwrap().to_owned();
                assert!(message.contains(field), "`{message}` names {field}");
            }
        }
        // What has no JSON of its own: a number that is none, one that is too large, a field given twice.
        for (body, code, field) in [
            (r#"{"command":"exit 0","timeout":NaN}"#, "bad_json", ""),
            (r#"{"command":"exit 0","timeout":1e999}"#, "wrong_type", "timeout"),
            (r#"{"command":"exit 0","command":"exit 1"}"#, "duplicate_field", "command"),
            (r#"{"command":"exit 0"} {}"#, "bad_json", ""),
            (r#"{"command":"exit 0",}"#, "bad_json", ""),
            (r#"{"command":"exit 0","timeout":Infinity}"#, "bad_json", ""),
        ] {
            refused(world, &post(body), 400, code, field).await;
        }
    });
}

#[test]
fn what_is_at_a_limit_is_taken() {
    run(Setup::default(), async |world: &World| {
        for body in [
            json!({ "command": "exit 0", "timeout": 86_400 }),
            json!({ "command": "exit 0", "timeout": 0.001 }),
            json!({ "command": "exit 0", "env": {}, "cwd": null, "user": null, "timeout": null, "stdin": null }),
            json!({ "command": "exit 0", "encoding": "text", "env": { "A": "=\n" } }),
        ] {
            let response = world.client().call(&exec(ADMIN, &body, false)).await.unwrap();
            assert_eq!(response.status, 200, "{body}");
        }
    });
}

#[test]
fn what_is_no_json_object_is_refused() {
    nothing_starts(Setup::default(), async |world: &World| {
        for body in ["", "{", "nonsense", "[]", "1", "null", "\"x\"", "\u{FEFF}{}"] {
            refused(world, &post(body), 400, "bad_json", "").await;
        }
        refused(world, &post(&b"{\"command\":\"\xff\"}"[..]), 400, "bad_utf8", "").await;
        let twice = r#"{"command":"exit 0","env":{"A":"1","B":"2","A":"3"}}"#;
        refused(world, &post(twice), 400, "duplicate_field", "env.A").await;
        refused(world, &post("[".repeat(100_000)), 400, "bad_json", "").await;
    });
}

#[test]
fn a_body_has_to_be_json_by_its_type() {
    nothing_starts(Setup::default(), async |world: &World| {
        let body = r#"{"command":"exit 0"}"#;
        for value in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json", ""] {
            let request = post(body).instead("content-type", value);
            refused(world, &request, 415, "unsupported_media_type", "").await;
        }
        let request = Request::new("POST", STREAM).bearer(ADMIN).body(body);
        refused(world, &request, 415, "unsupported_media_type", "").await;
    });
    run(Setup::default(), async |world: &World| {
        for value in ["application/json; charset=utf-8", "Application/JSON", "application/json ;x=y"] {
            let request = post(r#"{"command":"exit 0"}"#).instead("content-type", value);
            assert_eq!(world.client().call(&request).await.unwrap().status, 200, "{value}");
        }
    });
}

#[test]
fn a_body_over_one_mebibyte_is_refused() {
    let padded = |len: usize| {
        let mut body = r#"{"command":"exit 0"}"#.to_owned();
        body.extend(std::iter::repeat_n(' ', len - body.len()));
        body
    };
    run(Setup::default(), async |world: &World| {
        let longest = world.client().call(&post(padded(1 << 20))).await.unwrap();
        assert_eq!(longest.status, 200);
    });
    nothing_starts(Setup::default(), async |world: &World| {
        // By its length alone: nobody waits for what would be thrown away.
        let mut client = world.client();
        let head = format!(
            "POST {STREAM} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ADMIN}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            u64::MAX / 2
        );
        client.send(head.as_bytes()).await.unwrap();
        let response = client.response().await.unwrap();
        assert_eq!(response.refusal(), (413, "body_too_long".to_owned(), String::new()));
        // Chunked, where the length is not known before.
        let mut client = world.client();
        let head = head.replace(&format!("content-length: {}", u64::MAX / 2), "transfer-encoding: chunked");
        client.send(head.as_bytes()).await.unwrap();
        let chunk = format!("4000\r\n{}\r\n", " ".repeat(0x4000));
        for _ in 0..65 {
            client.send(chunk.as_bytes()).await.unwrap();
        }
        let response = client.response().await.unwrap();
        assert_eq!(response.refusal(), (413, "body_too_long".to_owned(), String::new()));
    });
}

#[test]
fn a_head_that_never_ends_is_not_waited_for() {
    nothing_starts(Setup::default(), async |world: &World| {
        let silent = |bytes: &'static [u8]| {
            let mut client = world.client();
            world.runtime.task(async move {
                client.send(bytes).await.unwrap();
                let (answer, end) = client.rest().await;
                (answer, end, client)
            })
        };
        let tasks = [
            silent(b""),
            silent(b"GET /healthz HT"),
            silent(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"),
        ];
        for task in tasks {
            let (_, end, _client) = task.await;
            assert_eq!((world.now(), end), (at_ms(30_000), End::Eof));
        }
        // Neither does a byte now and then help.
        let mut client = world.client();
        let bytes = [b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ".as_slice(), &[b'x'; 100]].concat();
        let sent = client.send_slowly(&bytes, 1, Duration::from_secs(1)).await;
        assert_eq!((sent, world.server.connections()), (Err(End::Reset), 0));
        assert!(world.now() <= at_ms(62_000), "{:?}", world.now());
    });
}

#[test]
fn an_idle_connection_is_closed_after_a_while() {
    run(Setup::default(), async |world: &World| {
        let mut client = world.client();
        let ok = client.call(&Request::new("GET", "/healthz")).await.unwrap();
        assert_eq!((ok.status, &ok.body[..]), (200, &b"{\"status\":\"ok\"}"[..]));
        world.sleep_until_ms(20_000).await;
        assert_eq!(client.call(&Request::new("GET", "/healthz")).await.unwrap().status, 200);
        assert_eq!(client.rest().await, (bytes::Bytes::new(), End::Eof));
        assert_eq!(world.now(), at_ms(50_000));
    });
}

#[test]
fn a_body_that_never_ends_is_not_waited_for() {
    nothing_starts(Setup::default(), async |world: &World| {
        let request = post(r#"{"command":"exit 0"}"#).bytes();
        for missing in [1, 19] {
            let before = world.now();
            let mut client = world.client();
            client.send(&request[..request.len() - missing]).await.unwrap();
            let response = client.response().await.unwrap();
            assert_eq!(response.refusal(), (408, "body_timeout".to_owned(), String::new()));
            assert_eq!(world.now().since(before), Duration::from_secs(30));
            // What would have been the rest of the body is not taken for a request.
            assert_eq!(client.rest().await, (bytes::Bytes::new(), End::Eof));
        }
    });
}

#[test]
fn a_token_that_is_revoked_while_the_body_is_awaited_does_nothing_more() {
    nothing_starts(Setup::default(), async |world: &World| {
        for path in ["/api/tokens", STREAM, "/api/sandboxes/box/exec", "/api/sandboxes"] {
            let (id, token) = world.token(json!({ "scope": "admin" })).await;
            let request = Request::new("POST", path)
                .bearer(&token)
                .json(&json!({ "scope": "admin", "command": "exit 0", "name": "new" }))
                .bytes();
            let mut client = world.client();
            client.send(&request[..request.len() - 1]).await.unwrap();
            world.sleep_ms(1000).await;
            assert_eq!(world.api("DELETE", &format!("/api/tokens/{id}"), None).await.status, 204);
            client.send(&request[request.len() - 1..]).await.unwrap();
            let response = client.response().await.unwrap();
            assert_eq!(response.refusal(), (401, "unauthorized".to_owned(), String::new()), "{path}");
        }
    });
}

#[test]
fn other_paths_and_methods_are_refused() {
    nothing_starts(Setup::default(), async |world: &World| {
        for path in
            ["/", "/api", "/api/", "/api/sandboxes/", "/api/sandboxes/box/exec/", "/API/sandboxes", "/x?y"]
        {
            refused(world, &Request::new("GET", path).bearer(ADMIN), 404, "not_found", "").await;
        }
        for (method, path, allow) in [
            ("GET", STREAM, "POST"),
            ("DELETE", "/api/sandboxes", "GET, POST"),
            ("POST", "/api/sandboxes/box", "GET, DELETE"),
            ("PUT", "/api/tokens/x", "DELETE"),
            ("POST", "/healthz", "GET, HEAD"),
            ("OPTIONS", "/healthz", "GET, HEAD"),
            ("BREW", "/metrics", "GET"),
        ] {
            let response = refused(world, &Request::new(method, path), 405, "method_not_allowed", "").await;
            assert_eq!(response.header("allow"), Some(allow), "{method} {path}");
        }
        for reference in ["nowhere", "01J9F3ZK7QW4B2Y8N5T1QAZ6RX", "BOX", "%62ox", "b%00x"] {
            let path = format!("/api/sandboxes/{reference}/exec/stream");
            let request = Request::new("POST", path).bearer(ADMIN).json(&json!({ "command": "exit 0" }));
            refused(world, &request, 404, "not_found", "").await;
        }
    });
}

#[test]
fn what_is_no_http_is_not_answered_by_anything_else() {
    nothing_starts(Setup::default(), async |world: &World| {
        for bytes in [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"] {
            let mut client = world.client();
            client.send(bytes).await.unwrap();
            let (answer, end) = client.rest().await;
            let bad = answer.starts_with(b"HTTP/1.1 400 ") || answer.starts_with(b"HTTP/1.1 505 ");
            assert!((bad || answer.is_empty()) && end == End::Eof, "{answer:?}");
        }
        // A head without end in one direction, and one with a line too many in the other.
        let mut client: Client = world.client();
        let long = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(200_000));
        client.send(long.as_bytes()).await.ok();
        let (answer, _) = client.rest().await;
        assert!(answer.starts_with(b"HTTP/1.1 431 ") || answer.is_empty(), "{answer:?}");
    });
}

#[test]
fn a_start_that_is_refused_says_why() {
    let cases = [
        ("bad_cwd", 400, "bad_cwd", "cwd"),
        ("bad_user", 400, "bad_user", "user"),
        ("unsupported", 400, "unsupported", "user"),
        ("too_long", 400, "too_long", "command"),
        ("descriptors", 503, "exhausted", ""),
        ("processes", 503, "exhausted", ""),
        ("memory", 503, "exhausted", ""),
        ("disk", 507, "disk_full", ""),
        ("destroyed", 409, "sandbox_destroyed", ""),
        ("broken", 502, "sandbox_unreachable", ""),
    ];
    run(Setup::default(), async |world: &World| {
        for (name, status, code, field) in cases {
            for stream in [true, false] {
                let body = json!({ "command": format!("start-error {name}") });
                let response = refused(world, &exec(ADMIN, &body, stream), status, code, field).await;
                assert_eq!(response.header("retry-after"), (status == 503).then_some("1"), "{name}");
            }
        }
        assert_eq!(world.plane.streams().len(), 0);
    });
}

#[test]
fn a_refusal_is_read_although_the_body_comes_after_it() {
    let body = json!({ "command": "exit 0", "stdin": "x".repeat(600_000) });
    let short = json!({ "command": "exit 0" });
    nothing_starts(Setup::default(), async |world: &World| {
        for (token, path, body, status) in [
            ("wrong", STREAM, &body, 401),
            ("wrong", STREAM, &short, 401),
            (ADMIN, "/api/nowhere", &body, 404),
            (ADMIN, "/api/sandboxes/nowhere/exec", &body, 404),
            (ADMIN, "/healthz", &short, 405),
        ] {
            let request = Request::new("POST", path).bearer(token).json(body).bytes();
            let head = request.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
            let mut client = world.client();
            client.send(&request[..head]).await.unwrap();
            world.sleep_ms(300).await;
            // It writes all of it before it reads.
            assert_eq!(client.send(&request[head..]).await, Ok(()), "{path}");
            assert_eq!(client.response().await.unwrap().status, status);
            // And goes on.
            let again = client.call(&Request::new("GET", "/healthz")).await.unwrap();
            assert_eq!(again.status, 200);
        }
        // What never comes is not waited for, and who waits to be asked is answered.
        let before = world.now();
        let mut client = world.client();
        let request = Request::new("POST", STREAM).bearer("wrong").json(&short).bytes();
        client.send(&request[..request.len() - 1]).await.unwrap();
        assert_eq!(client.response().await.unwrap().status, 401);
        assert_eq!(world.now().since(before), Duration::from_secs(1));
        let mut client = world.client();
        let request =
            Request::new("POST", STREAM).bearer("wrong").header("expect", "100-continue").json(&short);
        let request = request.bytes();
        client.send(&request[..request.len() - short.to_string().len()]).await.unwrap();
        assert_eq!((client.response().await.unwrap().status, world.now().since(before).as_secs()), (401, 1));
    });
}
