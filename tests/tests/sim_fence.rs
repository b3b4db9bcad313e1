//! Who may ask for what: tokens and their scopes, hosts and origins.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_tests::sim::{
    Request, Setup, World,
    refusals::{STREAM, nothing_starts, refused},
    run,
    world::{ADMIN, exec},
};
use hangar_transports::rest::Guard;
use serde_json::json;

#[test]
fn who_shows_no_valid_token_is_told_so() {
    nothing_starts(Setup::default(), async |world: &World| {
        let body = json!({ "command": "exit 0" });
        let without = Request::new("POST", STREAM).json(&body);
        let with = |value: &str| without.clone().header("authorization", value);
        let lower = format!("bearer{ADMIN}");
        for request in [
            without.clone(),
            with("Basic dXNlcjpwYXNz"),
            with("Bearer"),
            with("Bearer "),
            with("Bearer wrong"),
            with(&lower),
            with(&format!("Bearer {ADMIN}x")),
            with(&format!("Bearer {}", &ADMIN[1..])),
            with(&format!("Bearer {ADMIN} {ADMIN}")),
        ] {
            let response = refused(world, &request, 401, "unauthorized", "").await;
            assert_eq!(response.header("www-authenticate"), Some("Bearer realm=\"hangar\""));
        }
        // Who may not ask is not told what there is.
        let nowhere = Request::new("POST", "/api/sandboxes/nowhere/exec").json(&body);
        refused(world, &nowhere, 401, "unauthorized", "").await;
    });
}

#[test]
fn a_scope_reaches_what_it_says() {
    run(Setup::default(), async |world: &World| {
        let body = json!({ "command": "exit 0" });
        for (scope, allowed) in [
            ("admin", &["exec", "metrics", "tokens", "sandboxes", "create"][..]),
            ("user", &["exec", "sandboxes"][..]),
            ("mcp", &[][..]),
            ("jobs", &[][..]),
            ("metrics", &["metrics"][..]),
        ] {
            let (_, token) = world.token(json!({ "scope": scope })).await;
            for (what, request) in [
                ("exec", Request::new("POST", STREAM).json(&body)),
                ("exec", Request::new("POST", "/api/sandboxes/box/exec").json(&body)),
                ("metrics", Request::new("GET", "/metrics")),
                ("tokens", Request::new("GET", "/api/tokens")),
                ("tokens", Request::new("POST", "/api/tokens").json(&json!({ "scope": "user" }))),
                ("sandboxes", Request::new("GET", "/api/sandboxes")),
                ("sandboxes", Request::new("GET", "/api/sandboxes/box")),
                ("create", Request::new("POST", "/api/sandboxes").json(&json!({}))),
                ("create", Request::new("POST", "/api/sandboxes/box/resume")),
            ] {
                let request = request.bearer(&token);
                if allowed.contains(&what) {
                    let status = world.client().call(&request).await.unwrap().status;
                    assert!(matches!(status, 200..=204), "{scope} {what}: {status}");
                } else {
                    refused(world, &request, 403, "forbidden", "").await;
                }
            }
        }
    });
}

#[test]
fn a_user_sees_the_sandboxes_granted_and_chooses_no_user() {
    nothing_starts(Setup::default(), async |world: &World| {
        let (_, token) = world.token(json!({ "scope": "user", "sandboxes": ["other"] })).await;
        let body = json!({ "command": "exit 0" });
        refused(world, &exec(&token, &body, true), 404, "not_found", "").await;
        let list = world.client().call(&Request::new("GET", "/api/sandboxes").bearer(&token)).await.unwrap();
        assert_eq!(list.json(), json!({ "sandboxes": [] }));
        let (_, token) = world.token(json!({ "scope": "user" })).await;
        let body = json!({ "command": "exit 0", "user": "root" });
        refused(world, &exec(&token, &body, true), 403, "forbidden", "").await;
    });
}

#[test]
fn other_hosts_and_origins_are_refused() {
    let guard = Guard::new(Some("https://hangar.example"), &["https://app.example".to_owned()]).unwrap();
    let setup = Setup { guard, ..Setup::default() };
    nothing_starts(setup, async |world: &World| {
        let ask = Request::new("GET", "/api/sandboxes").bearer(ADMIN);
        for host in ["evil.example", "127.0.0.1.evil.example", "10.0.0.1:8484", "hangar.example:8443", ""] {
            refused(world, &ask.clone().instead("host", host), 403, "forbidden_host", "").await;
        }
        refused(world, &ask.clone().header("host", "evil.example"), 400, "bad_host", "").await;
        for host in ["localhost:1", "127.0.0.1", "[::1]:8484", "hangar.example"] {
            let response = world.client().call(&ask.clone().instead("host", host)).await.unwrap();
            assert_eq!((response.status, response.header("access-control-allow-origin")), (200, None));
        }
        for origin in ["https://evil.example", "null", "http://app.example", "https://app.example:8443"] {
            for method in ["GET", "OPTIONS", "POST"] {
                let request = Request::new(method, "/api/sandboxes").bearer(ADMIN).header("origin", origin);
                let request = request.header("access-control-request-method", "POST");
                refused(world, &request, 403, "forbidden_origin", "").await;
            }
        }
        for origin in ["https://app.example", "https://hangar.example", "http://localhost:3000"] {
            let response = world.client().call(&ask.clone().header("origin", origin)).await.unwrap();
            assert_eq!(
                (response.status, response.header("access-control-allow-origin")),
                (200, Some(origin))
            );
            assert_eq!(response.header("vary"), Some("origin"));
            // A refusal can be read by the page too.
            let nobody = Request::new("GET", "/api/sandboxes").header("origin", origin);
            let response = refused(world, &nobody, 401, "unauthorized", "").await;
            assert_eq!(response.header("access-control-allow-origin"), Some(origin));
        }
        let preflight = Request::new("OPTIONS", STREAM)
            .header("origin", "https://app.example")
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization");
        let response = world.client().call(&preflight).await.unwrap();
        assert_eq!((response.status, response.body.len()), (204, 0));
        assert_eq!(response.header("access-control-allow-origin"), Some("https://app.example"));
        assert!(response.header("access-control-allow-methods").unwrap().contains("POST"));
        assert!(response.header("access-control-allow-headers").unwrap().contains("mcp-session-id"));
        assert!(response.header("access-control-expose-headers").unwrap().contains("mcp-session-id"));
        for name in ["authorization", "content-type", "last-event-id"] {
            assert!(response.header("access-control-allow-headers").unwrap().contains(name), "{name}");
        }
    });
}
