//! Which token reaches what: every path with every scope.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_tests::sim::{Request, Response, Setup, World, run, world::ADMIN};
use serde_json::{Value, json};

const PROCESSES: &str = "/api/sandboxes/box/processes";
const V1: &str = "/v1/sandboxes/box/processes";

/// Every call that needs a token, who reaches it, and who may not see the sandbox that it is about. Everybody else
/// gets 403. `{mine}` is a process of the caller, `{own}` a token, `{new}` a sandbox.
const CALLS: [(&str, &str, &str); 30] = [
    ("GET /metrics", "", "admin metrics"),
    ("GET /api/tokens", "", "admin"),
    ("POST /api/tokens", r#"{"scope":"user"}"#, "admin"),
    ("DELETE /api/tokens/{own}", "", "admin"),
    ("GET /api/sandboxes", "", "admin user granted elsewhere"),
    ("POST /api/sandboxes", "", "admin"),
    ("GET /api/sandboxes/box", "", "admin user granted | elsewhere"),
    ("POST /api/sandboxes/box/pause", "{}", "admin"),
    ("POST /api/sandboxes/box/resume", "{}", "admin"),
    ("DELETE /api/sandboxes/{new}", "", "admin"),
    ("POST /api/sandboxes/box/exec", r#"{"command":"out x"}"#, "admin user granted | elsewhere"),
    ("POST /api/sandboxes/box/exec/stream", r#"{"command":"out x"}"#, "admin user granted | elsewhere"),
    ("GET /api/sandboxes/box/processes", "", "admin user granted | elsewhere"),
    ("POST /api/sandboxes/box/processes", r#"{"command":"out x"}"#, "admin user granted | elsewhere"),
    ("GET /api/sandboxes/box/processes/{mine}", "", "admin user granted | elsewhere"),
    ("GET /api/sandboxes/box/processes/{mine}/stream", "", "admin user granted | elsewhere"),
    ("POST /api/sandboxes/box/processes/{mine}/input", r#"{"input":"x"}"#, "admin user granted | elsewhere"),
    ("DELETE /api/sandboxes/box/processes/{mine}", "", "admin user granted | elsewhere"),
    ("GET /v1/sandboxes/box/processes", "", "admin user granted | elsewhere"),
    ("POST /v1/sandboxes/box/processes", r#"{"command":"out x"}"#, "admin user granted | elsewhere"),
    ("GET /v1/sandboxes/box/processes/{mine}", "", "admin user granted | elsewhere"),
    (
        "PUT /v1/sandboxes/box/processes/{mine}/stream-access",
        r#"{"mode":"attach"}"#,
        "admin user granted | elsewhere",
    ),
    (
        "PUT /v1/sandboxes/box/processes/{mine}/stream-access",
        r#"{"mode":"logs"}"#,
        "admin user granted | elsewhere",
    ),
    (
        "POST /v1/sandboxes/box/processes/{mine}/signal",
        r#"{"name":"TERM"}"#,
        "admin user granted | elsewhere",
    ),
    (
        "POST /v1/sandboxes/box/processes/{mine}/resize",
        r#"{"cols":80,"rows":24}"#,
        "admin user granted | elsewhere",
    ),
    ("POST /v1/sandboxes/box/processes/{mine}/restart", "{}", "admin user granted | elsewhere"),
    ("DELETE /v1/sandboxes/box/processes/{mine}", "", "admin user granted | elsewhere"),
    ("GET /api/sandboxes/nowhere", "", "| admin user granted elsewhere"),
    ("GET /api/sandboxes/nowhere/processes", "", "| admin user granted elsewhere"),
    ("GET /v1/sandboxes/nowhere/processes", "", "| admin user granted elsewhere"),
];

/// Tokens of every kind, each with its name here.
async fn everybody(world: &World) -> Vec<(&'static str, String)> {
    let mut all = vec![("admin", ADMIN.to_owned())];
    for (name, wanted) in [
        ("user", json!({ "scope": "user", "person": "ada" })),
        ("granted", json!({ "scope": "user", "person": "ada", "sandboxes": ["box"] })),
        ("elsewhere", json!({ "scope": "user", "person": "ada", "sandboxes": ["other"] })),
        ("mcp", json!({ "scope": "mcp" })),
        ("jobs", json!({ "scope": "jobs" })),
        ("metrics", json!({ "scope": "metrics" })),
    ] {
        all.push((name, world.token(wanted).await.1));
    }
    all
}

/// Calls with a token, or without one where it is empty.
async fn call(world: &World, token: &str, what: &str, body: &str) -> Response {
    let (method, path) = what.split_once(' ').unwrap();
    let method = ["GET", "POST", "PUT", "DELETE"].into_iter().find(|known| *known == method).unwrap();
    let request = Request::new(method, path);
    let request = if token.is_empty() { request } else { request.bearer(token) };
    let request = match body {
        "" => request,
        body => request.header("content-type", "application/json").body(body),
    };
    world.client().call(&request).await.unwrap()
}

/// A process of this token's that has ended, if it may have one; a stream of it ends.
async fn mine(world: &World, token: &str) -> String {
    let started = call(world, token, &format!("POST {PROCESSES}"), r#"{"command":"out hi"}"#).await;
    if started.status != 201 {
        return "none".to_owned();
    }
    world.sleep_ms(100).await;
    started.json()["process_id"].as_str().unwrap().to_owned()
}

#[test]
fn each_scope_reaches_what_it_is_for_and_nothing_else() {
    run(Setup::default(), async |world: &World| {
        let everybody = everybody(world).await;
        for (what, body, who) in CALLS {
            let (reaches, blind) = who.split_once('|').unwrap_or((who, ""));
            for (name, token) in &everybody {
                let is_in = |names: &str| names.split_whitespace().any(|other| other == *name);
                let mut path = what.to_owned();
                if what.contains("{mine}") {
                    path = path.replace("{mine}", &mine(world, token).await);
                }
                if what.contains("{own}") {
                    path = path.replace("{own}", &world.token(json!({ "scope": "metrics" })).await.0);
                }
                if what.contains("{new}") {
                    let made = world.api("POST", "/api/sandboxes", None).await.json();
                    path = path.replace("{new}", made["id"].as_str().unwrap());
                }
                let status = call(world, token, &path, body).await.status;
                let right = if is_in(reaches) {
                    // A resize of no terminal and input after the end are refused for what they are.
                    (200..300).contains(&status) || status == 409
                } else {
                    status == if is_in(blind) { 404 } else { 403 }
                };
                assert!(right, "{name}: {path} gave {status}");
            }
            for token in ["", "hgr_nobody"] {
                assert_eq!(call(world, token, what, body).await.status, 401, "{what}");
            }
        }
    });
}

async fn ids(world: &World, token: &str, path: &str, field: &str) -> Vec<String> {
    let list = call(world, token, &format!("GET {path}"), "").await.json();
    let of = |one: &Value| one[field].as_str().unwrap().to_owned();
    list.as_object().unwrap().values().next().unwrap().as_array().unwrap().iter().map(of).collect()
}

#[test]
fn processes_belong_to_the_token_and_not_to_the_person() {
    run(Setup::default(), async |world: &World| {
        let everybody = everybody(world).await;
        let of = |wanted| &everybody.iter().find(|(name, _)| *name == wanted).unwrap().1;
        let (user, granted) = (of("user"), of("granted"));
        let process = mine(world, user).await;
        for (path, field) in [(PROCESSES, "process_id"), (V1, "id")] {
            assert_eq!(ids(world, user, path, field).await, [process.as_str()]);
            for other in [granted.as_str(), ADMIN] {
                assert!(ids(world, other, path, field).await.is_empty());
                let shown = call(world, other, &format!("GET {path}/{process}"), "").await;
                assert_eq!(shown.refusal(), (404, "not_found".to_owned(), String::new()));
            }
        }
        // What a token is not granted it does not see.
        let none: [&str; 0] = [];
        assert_eq!(ids(world, granted, "/api/sandboxes", "name").await, ["box"]);
        assert_eq!(ids(world, of("elsewhere"), "/api/sandboxes", "name").await, none);
    });
}
