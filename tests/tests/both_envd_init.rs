//! What a daemon is told once it runs, and does not take, on both runtimes.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    on_both,
    real::{On, envd::Client},
};
use serde_json::{Value, json};
use std::io::Read;

on_both! {
    a_field_that_cannot_be_used_is_named_and_nothing_is_taken
    who_may_not_call_is_not_told_who_is_a_user
    a_body_has_a_limit_of_its_own
    a_directory_may_be_in_the_home
}

fn init(client: &Client, body: &Value) -> (u16, String) {
    let sent = client.raw("POST", "/init", Some("application/json"), body.to_string().as_bytes());
    let mut answer = sent.unwrap();
    let mut text = String::new();
    answer.read_to_string(&mut text).unwrap();
    (answer.status, text)
}

fn a_field_that_cannot_be_used_is_named_and_nothing_is_taken(on: On) {
    let envd = on.envd();
    let client = envd.json();
    for (field, value) in [
        ("accessToken", "a b"),
        ("accessToken", "\n"),
        ("accessToken", "s\u{e9}cret"),
        ("accessToken", "a\u{7f}"),
        ("defaultUser", "no-such-user"),
        ("defaultUser", "a:b"),
        ("defaultWorkdir", "relative"),
        ("defaultWorkdir", "./x"),
        ("defaultWorkdir", "/a\0b"),
        ("defaultWorkdir", "~other/x"),
    ] {
        let mut body = json!({ "envVars": { "A": "b" }, "accessToken": "one", "defaultWorkdir": "/usr" });
        body[field] = value.into();
        let (status, text) = init(&client, &body);
        let refused: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, &refused["code"]), (400, &json!(400)), "{field} {value:?}");
        assert!(refused["message"].as_str().unwrap().starts_with(&format!("{field}: ")), "{text}");
        let mut envs = client.raw("GET", "/envs", None, b"").unwrap();
        let mut text = String::new();
        envs.read_to_string(&mut text).unwrap();
        assert_eq!((envs.status, text.contains("\"A\"")), (200, false), "no token is set, and no variable");
    }
    assert_eq!(init(&client, &json!({ "accessToken": "", "defaultUser": "", "defaultWorkdir": "" })).0, 204);
}

fn who_may_not_call_is_not_told_who_is_a_user(on: On) {
    let envd = on.envd_with_token("secret");
    for token in [json!({}), json!({ "accessToken": "other" })] {
        let mut body = token;
        body["defaultUser"] = "no-such-user".into();
        assert_eq!(init(&envd.json(), &body).0, 401);
        assert_eq!(
            init(&envd.json().with("X-Access-Token", "secret"), &body).0,
            match body.get("accessToken") {
                None => 400,
                Some(_) => 401,
            }
        );
    }
}

fn a_body_has_a_limit_of_its_own(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let with = |len: usize| json!({ "envVars": { "A": "x".repeat(len) } });
    assert_eq!(init(&client, &with(1024 * 1024 - 100)).0, 204);
    let (status, text) = init(&client, &with(1024 * 1024));
    assert!(status == 400 && text.contains("longer than 1048576 bytes"), "{text}");
}

fn a_directory_may_be_in_the_home(on: On) {
    let envd = on.envd();
    let client = envd.json();
    assert_eq!(init(&client, &json!({ "defaultWorkdir": "~/.." })).0, 204);
    let above = client.start(hangar_tests::real::envd::bash("pwd")).collect().text();
    let mut list = client
        .raw("POST", "/filesystem.Filesystem/ListDir", Some("application/json"), br#"{"path":""}"#)
        .unwrap();
    let mut text = String::new();
    list.read_to_string(&mut text).unwrap();
    let listed: Value = serde_json::from_str(&text).unwrap();
    let path = listed["entries"][0]["path"].as_str().unwrap_or_default();
    assert!(path.starts_with(above.trim_end()), "{above}: {text}");
}
