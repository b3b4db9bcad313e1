//! Tokens and sandboxes, as an administrator makes and ends them.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_backends::sandbox::SandboxError;
use hangar_tests::sim::{
    Request, Setup, World,
    clock::EPOCH_MS,
    run,
    world::{ADMIN, at_ms, exec},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

async fn refused(
    world: &World,
    method: &'static str,
    path: &str,
    body: Option<Value>,
) -> (u16, String, String) {
    world.api(method, path, body).await.refusal()
}

fn refusal(status: u16, code: &str, field: &str) -> (u16, String, String) {
    (status, code.to_owned(), field.to_owned())
}

async fn status_with(world: &World, token: &str) -> u16 {
    let request = Request::new("GET", "/api/sandboxes").bearer(token);
    world.client().call(&request).await.unwrap().status
}

#[test]
fn a_token_is_made_listed_and_revoked() {
    run(Setup::default(), async |world: &World| {
        world.sleep_until_ms(1_000).await;
        let wanted = json!({
            "scope": "user", "person": "ada", "name": "laptop", "sandboxes": ["box"], "ttl": 60,
        });
        let made = world.api("POST", "/api/tokens", Some(wanted.clone())).await;
        assert_eq!(made.status, 201);
        let mut shown = made.json();
        let secret = shown.as_object_mut().unwrap().remove("token").unwrap();
        let (secret, id) = (secret.as_str().unwrap(), shown["id"].as_str().unwrap());
        assert!(secret.starts_with("hgr_") && secret.len() == 68, "{secret}");
        assert_eq!(
            shown,
            json!({
                "id": id, "scope": "user", "person": "ada", "name": "laptop", "sandboxes": ["box"],
                "created_at_ms": EPOCH_MS + 1_000, "expires_at_ms": EPOCH_MS + 61_000,
            })
        );
        assert_eq!(status_with(world, secret).await, 200);
        let list = world.api("GET", "/api/tokens", None).await;
        let text = String::from_utf8(list.body.to_vec()).unwrap();
        assert!(!text.contains(secret) && !text.contains("sha256") && !text.contains(ADMIN), "{text}");
        assert_eq!(
            list.json()["tokens"].as_array().unwrap().iter().filter(|token| **token == shown).count(),
            1
        );
        world.sleep_until_ms(2_000).await;
        for _ in 0..2 {
            // To do so again changes nothing.
            assert_eq!(world.api("DELETE", &format!("/api/tokens/{id}"), None).await.status, 204);
            world.sleep_ms(1_000).await;
        }
        assert_eq!(status_with(world, secret).await, 401);
        let list = world.api("GET", "/api/tokens", None).await.json();
        let kept = list["tokens"].as_array().unwrap().iter().find(|token| token["id"] == id).unwrap();
        assert_eq!(kept["revoked_at_ms"], EPOCH_MS + 2_000);
    });
}

#[test]
fn a_token_ends_when_its_time_is_over() {
    run(Setup::default(), async |world: &World| {
        let (_, token) = world.token(json!({ "scope": "user", "ttl": 2 })).await;
        world.sleep_until_ms(1_999).await;
        assert_eq!(status_with(world, &token).await, 200);
        world.sleep_until_ms(2_000).await;
        assert_eq!(status_with(world, &token).await, 401);
    });
}

#[test]
fn the_token_of_the_configuration_is_not_revoked_here() {
    run(Setup::default(), async |world: &World| {
        let list = world.api("GET", "/api/tokens", None).await.json();
        let id = list["tokens"][0]["id"].as_str().unwrap().to_owned();
        let path = format!("/api/tokens/{id}");
        assert_eq!(refused(world, "DELETE", &path, None).await, refusal(409, "configured_token", ""));
        assert_eq!(status_with(world, ADMIN).await, 200);
    });
}

#[test]
fn what_is_no_token_is_refused() {
    run(Setup::default(), async |world: &World| {
        let cases: [(Value, &str, &str); 15] = [
            (json!({}), "missing_field", "scope"),
            (json!({ "scope": "root" }), "wrong_type", "scope"),
            (json!({ "scope": "Admin" }), "wrong_type", "scope"),
            (json!({ "scope": 1 }), "wrong_type", "scope"),
            (json!({ "scope": "user", "ttl": 0 }), "out_of_range", "ttl"),
            (json!({ "scope": "user", "ttl": -1 }), "wrong_type", "ttl"),
            (json!({ "scope": "user", "ttl": 1.5 }), "wrong_type", "ttl"),
            (json!({ "scope": "user", "ttl": 315_360_001 }), "out_of_range", "ttl"),
            (json!({ "scope": "user", "ttl": u64::MAX }), "out_of_range", "ttl"),
            (json!({ "scope": "user", "person": "" }), "out_of_range", "person"),
            (json!({ "scope": "user", "name": "x".repeat(201) }), "out_of_range", "name"),
            (json!({ "scope": "user", "sandboxes": "box" }), "wrong_type", "sandboxes"),
            (json!({ "scope": "user", "sandboxes": [1] }), "wrong_type", "sandboxes[0]"),
            (json!({ "scope": "user", "expires": 1 }), "unknown_field", "expires"),
            (json!({ "scope": "user", "token": "mine" }), "unknown_field", "token"),
        ];
        for (body, code, field) in cases {
            let found = refused(world, "POST", "/api/tokens", Some(body.clone())).await;
            assert_eq!(found, refusal(400, code, field), "{body}");
        }
        assert_eq!(world.api("GET", "/api/tokens", None).await.json()["tokens"].as_array().unwrap().len(), 1);
        let unknown = "/api/tokens/01J9F3ZK7QW4B2Y8N5T1QAZ6RX";
        assert_eq!(refused(world, "DELETE", unknown, None).await, refusal(404, "not_found", ""));
    });
}

#[test]
fn ids_and_secrets_never_repeat() {
    run(Setup::default(), async |world: &World| {
        let mut seen = BTreeSet::new();
        for _ in 0..50 {
            let (id, secret) = world.token(json!({ "scope": "user" })).await;
            assert!(seen.insert(id) && seen.insert(secret));
        }
    });
}

#[test]
fn a_sandbox_is_made_shown_and_destroyed() {
    run(Setup::default(), async |world: &World| {
        world.sleep_until_ms(1_000).await;
        let made =
            world.api("POST", "/api/sandboxes", Some(json!({ "name": "api-1", "workdir": "/srv" }))).await;
        assert_eq!((made.status, made.header("location")), (201, Some("/api/sandboxes/api-1")));
        let shown = made.json();
        let id = shown["id"].as_str().unwrap().to_owned();
        let expected = json!({
            "id": id, "name": "api-1", "provider": "sim", "state": "running", "created_at_ms": EPOCH_MS + 1_000,
        });
        assert_eq!(shown, expected);
        for reference in ["api-1", &id] {
            let found = world.api("GET", &format!("/api/sandboxes/{reference}"), None).await;
            assert_eq!((found.status, found.json()), (200, shown.clone()));
        }
        let list = world.api("GET", "/api/sandboxes", None).await.json();
        let names: Vec<&Value> =
            list["sandboxes"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["box", "api-1"]);
        let taken = refused(world, "POST", "/api/sandboxes", Some(json!({ "name": "api-1" }))).await;
        assert_eq!(taken, refusal(409, "name_taken", ""));
        let body = json!({ "command": "exit 3" });
        let exec = world.api("POST", &format!("/api/sandboxes/{id}/exec"), Some(body)).await;
        assert_eq!(exec.json()["exit_code"], 3);
        assert_eq!(world.made.lock().unwrap()[0].records().len(), 1);
        assert_eq!(world.api("DELETE", &format!("/api/sandboxes/{id}"), None).await.status, 204);
        for (method, path) in [("GET", "/api/sandboxes/api-1"), ("DELETE", "/api/sandboxes/api-1")] {
            assert_eq!(refused(world, method, path, None).await, refusal(404, "not_found", ""));
        }
        let again = world.api("POST", "/api/sandboxes", Some(json!({ "name": "api-1" }))).await;
        assert!(
            again.status == 201 && again.json()["id"] != id,
            "the name is free, the id is not used again"
        );
    });
}

#[test]
fn a_sandbox_without_a_name_gets_one() {
    run(Setup::default(), async |world: &World| {
        let mut names = BTreeSet::new();
        let request = Request::new("POST", "/api/sandboxes").bearer(ADMIN);
        for request in
            [request.clone(), request.clone().json(&json!({})), request.json(&json!({ "name": null }))]
        {
            let made = world.client().call(&request).await.unwrap();
            assert_eq!(made.status, 201, "{made:?}");
            let name = made.json()["name"].as_str().unwrap().to_owned();
            assert!(name.starts_with("sandbox-"), "{name}");
            assert_eq!(world.api("GET", &format!("/api/sandboxes/{name}"), None).await.status, 200);
            names.insert(name);
        }
        assert_eq!(names.len(), 3);
    });
}

#[test]
fn what_is_no_sandbox_is_refused() {
    run(Setup::default(), async |world: &World| {
        let long = "a".repeat(64);
        for name in
            ["", "-a", ".", "..", "A", "a b", "a/b", "ä", "a\u{0}", &long, "01j9f3zk7qw4b2y8n5t1qaz6rx"]
        {
            let found = refused(world, "POST", "/api/sandboxes", Some(json!({ "name": name }))).await;
            assert_eq!(found, refusal(400, "bad_name", "name"), "{name:?}");
        }
        for (body, code, field) in [
            (json!({ "name": 1 }), "wrong_type", "name"),
            (json!({ "workdir": "srv" }), "bad_workdir", "workdir"),
            (json!({ "kind": "local" }), "unknown_field", "kind"),
        ] {
            let found = refused(world, "POST", "/api/sandboxes", Some(body)).await;
            assert_eq!(found, refusal(400, code, field));
        }
        assert_eq!(world.made.lock().unwrap().len(), 0);
        for name in ["a", "0", "0.x_y-z", &long[..63]] {
            let made = world.api("POST", "/api/sandboxes", Some(json!({ "name": name }))).await;
            assert_eq!(made.status, 201, "{name}");
        }
    });
}

async fn state(world: &World) -> Value {
    world.api("GET", "/api/sandboxes/box", None).await.json()["state"].clone()
}

#[test]
fn to_pause_and_to_resume_twice_changes_nothing() {
    run(Setup::default(), async |world: &World| {
        for (verb, expected) in [
            ("resume", "running"),
            ("pause", "paused"),
            ("pause", "paused"),
            ("resume", "running"),
            ("resume", "running"),
        ] {
            let changed = world.api("POST", &format!("/api/sandboxes/box/{verb}"), None).await;
            assert_eq!((changed.status, &changed.json()["state"]), (200, &json!(expected)), "{verb}");
            assert_eq!(state(world).await, expected);
        }
    });
}

#[test]
fn a_pause_that_fails_changes_nothing() {
    run(Setup::default(), async |world: &World| {
        let stream = world.stream("sleep 5000; exit 0").await;
        let mut reading = stream;
        world.sandbox.break_next(SandboxError::Broken("it does not answer".to_owned()));
        let found = refused(world, "POST", "/api/sandboxes/box/pause", None).await;
        assert_eq!(found, refusal(502, "sandbox_unreachable", ""));
        assert_eq!(state(world).await, "running");
        assert_eq!(reading.read_to_end().await.unwrap().result["exit_code"], 0);
        world.sandbox.break_next(SandboxError::Unsupported("paused"));
        let found = refused(world, "POST", "/api/sandboxes/box/pause", None).await;
        assert_eq!(found, refusal(409, "unsupported", ""));
        assert_eq!(world.api("POST", "/api/sandboxes/box/pause", None).await.status, 200);
        world.sandbox.break_next(SandboxError::Broken("it does not answer".to_owned()));
        let found = refused(world, "POST", "/api/sandboxes/box/resume", None).await;
        assert_eq!((found, state(world).await), (refusal(502, "sandbox_unreachable", ""), json!("paused")));
    });
}

#[test]
fn a_destroy_that_leaves_something_says_so() {
    run(Setup::default(), async |world: &World| {
        let mut stream = world.stream("sweep-delay 60000; out a; hang").await;
        world.sleep_until_ms(1_000).await;
        let found = refused(world, "DELETE", "/api/sandboxes/box", None).await;
        assert_eq!((found, world.now()), (refusal(409, "processes_left", ""), at_ms(11_000)));
        assert_eq!(stream.read_to_end().await.unwrap().result["closed"], "destroyed");
        let body = json!({ "command": "exit 0" });
        let gone = world.client().call(&exec(ADMIN, &body, true)).await.unwrap();
        assert_eq!(gone.refusal(), refusal(404, "not_found", ""));
        world.sleep_until_ms(70_000).await;
    });
}

#[test]
fn two_that_destroy_at_once_end_it_once() {
    run(Setup::default(), async |world: &World| {
        let stream = world.stream("out a; ignore-term; hang").await;
        let destroys = [0, 1].map(|_| {
            let world = world.clone();
            world
                .runtime
                .clone()
                .task(async move { world.api("DELETE", "/api/sandboxes/box", None).await.status })
        });
        let mut statuses = Vec::new();
        for destroy in destroys {
            statuses.push(destroy.await);
        }
        // The second either still found it, and waited with the first, or did not.
        assert!(statuses[0] == 204 && matches!(statuses[1], 204 | 404), "{statuses:?}");
        assert_eq!(world.now(), at_ms(3_000));
        assert_eq!(world.sandbox.record().terminated_at, [at_ms(0)]);
        assert_eq!(refused(world, "DELETE", "/api/sandboxes/box", None).await, refusal(404, "not_found", ""));
        drop(stream);
    });
}
