//! Who may call a daemon, on both runtimes: pages, hosts, tokens, signatures.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use base64::prelude::{BASE64_STANDARD_NO_PAD, Engine};
use hangar_tests::{
    on_both,
    real::{
        Folder, On,
        client::Response,
        envd::{Client, bash},
        is_root, skip,
    },
};
use std::io::Read;

on_both! {
    a_page_of_elsewhere_starts_nothing
    only_numbers_and_localhost_are_hosts
    with_a_token_pages_may_call_that_have_it
    without_its_token_nothing_is_answered
    the_first_to_say_so_sets_the_token
    what_a_daemon_is_told_counts_for_what_is_started
    a_signature_stands_for_the_token
    what_is_no_call_is_refused_as_http_has_it
}

const START: &str = "/process.Process/Start";
const KIND: &str = "application/connect+json";

/// The bytes of a request that would leave a file behind.
fn start(file: &std::path::Path) -> Vec<u8> {
    let message = format!(r#"{{"process":{{"cmd":"/bin/touch","args":["{}"]}}}}"#, file.display());
    [&[0], &u32::try_from(message.len()).unwrap().to_be_bytes()[..], message.as_bytes()].concat()
}

fn text(mut response: Response) -> (u16, String) {
    let mut body = String::new();
    response.read_to_string(&mut body).unwrap();
    (response.status, body)
}

fn post(client: &Client, path: &str, body: &str) -> (u16, String) {
    text(client.raw("POST", path, Some("application/json"), body.as_bytes()).unwrap())
}

fn a_page_of_elsewhere_starts_nothing(on: On) {
    let envd = on.envd();
    let folder = Folder::new();
    let file = folder.file("started");
    let body = start(&file);
    for origin in ["https://evil.example", "http://localhost:3000", "http://127.0.0.1", "null", "file://"] {
        let page = envd.json().with("Origin", origin);
        // What a page may send without asking, in each of the types that a browser lets it.
        for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some(KIND)] {
            let refused = page.raw("POST", START, kind, &body).unwrap();
            assert_eq!(
                (refused.status, refused.header("access-control-allow-origin")),
                (403, None),
                "{origin}"
            );
        }
        // What it has to ask for first.
        let asking = page
            .with("Access-Control-Request-Method", "POST")
            .with("Access-Control-Request-Headers", "content-type,connect-protocol-version");
        let refused = asking.raw("OPTIONS", START, None, b"").unwrap();
        assert_eq!((refused.status, refused.header("access-control-allow-origin")), (403, None), "{origin}");
        for path in ["/files?path=/etc/passwd", "/envs", "/metrics", "/health"] {
            assert_eq!(page.raw("GET", path, None, b"").unwrap().status, 403, "{origin} {path}");
        }
        assert_eq!(
            text(page.raw("POST", "/init", Some("text/plain"), b"{\"accessToken\":\"x\"}").unwrap()).0,
            403
        );
    }
    // A browser says where a request is from also where it sends no origin.
    for (site, status) in [("cross-site", 403), ("same-site", 403), ("none", 200), ("same-origin", 200)] {
        let page = envd.json().with("Sec-Fetch-Site", site);
        assert_eq!(page.raw("GET", "/envs", None, b"").unwrap().status, status, "{site}");
    }
    assert!(!file.exists(), "nothing was started");
    assert_eq!(envd.json().list(), []);
    assert_eq!(envd.json().start(bash("true")).collect().code(), Some(0));
}

fn only_numbers_and_localhost_are_hosts(on: On) {
    let envd = on.envd();
    let host = |host: &str| envd.json().with("Host", host).raw("GET", "/envs", None, b"").unwrap().status;
    for good in [
        "localhost",
        "LOCALHOST:49983",
        "127.0.0.1",
        "127.0.0.1:80",
        "10.1.2.3:49983",
        "[::1]:49983",
        "[fe80::1]",
    ] {
        assert_eq!(host(good), 200, "{good}");
    }
    for bad in [
        "evil.example",
        "evil.example:49983",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "1.2.3",
        "",
    ] {
        assert_eq!(host(bad), 403, "{bad}");
    }
    let two = envd.json().with("Host", "localhost").with("Host", "evil.example");
    assert_eq!(two.raw("GET", "/envs", None, b"").unwrap().status, 403);
}

fn with_a_token_pages_may_call_that_have_it(on: On) {
    let envd = on.envd_with_token("secret");
    let page = envd.json().with("Host", "49983-x.sandbox.example").with("Origin", "https://app.example");
    let asking = page.with("Access-Control-Request-Method", "POST");
    let allowed = asking.raw("OPTIONS", START, None, b"").unwrap();
    assert_eq!((allowed.status, allowed.header("access-control-allow-origin")), (204, Some("*")));
    assert!(
        allowed.header("access-control-allow-headers").is_some_and(|names| names.contains("authorization"))
    );
    let refused = page.raw("GET", "/envs", None, b"").unwrap();
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (401, Some("*")));
    let answered = page.with("X-Access-Token", "secret").raw("GET", "/envs", None, b"").unwrap();
    assert_eq!((answered.status, answered.header("access-control-allow-origin")), (200, Some("*")));
}

fn without_its_token_nothing_is_answered(on: On) {
    let envd = on.envd_with_token("secret");
    for client in
        [envd.json(), envd.json().with("X-Access-Token", "secre"), envd.json().with("X-Access-Token", "")]
    {
        for (method, path) in [
            ("POST", "/process.Process/List"),
            ("POST", START),
            ("GET", "/envs"),
            ("GET", "/metrics"),
            ("POST", "/files/compose"),
        ] {
            let (status, body) = text(client.raw(method, path, Some("application/json"), b"{}").unwrap());
            let body: serde_json::Value = serde_json::from_str(&body).unwrap();
            assert_eq!((status, &body["code"]), (401, &401.into()), "{path}");
        }
        let files = client.raw("GET", "/files?path=/etc/passwd", None, b"").unwrap();
        assert_eq!(files.status, 401);
        assert_eq!(client.raw("GET", "/health", None, b"").unwrap().status, 204);
    }
    let client = envd.json().with("X-Access-Token", "secret");
    assert_eq!(client.start(bash("true")).collect().code(), Some(0));
}

fn the_first_to_say_so_sets_the_token(on: On) {
    let envd = on.envd();
    let client = envd.json();
    assert_eq!(post(&client, "/init", "").0, 204);
    assert_eq!(post(&client, "/init", "{\"accessToken\":").0, 400);
    assert_eq!(post(&client, "/init", "[]").0, 400);
    assert_eq!(post(&client, "/init", "{\"envVars\":[]}").0, 400);
    for bad in [r#"{"":"x"}"#, r#"{"A=B":"x"}"#, r#"{"A":"\u0000"}"#] {
        assert_eq!(post(&client, "/init", &format!("{{\"envVars\":{bad}}}")).0, 400, "{bad}");
    }
    let set = client.raw(
        "POST",
        "/init",
        Some("application/json"),
        b"{\"accessToken\":\"one\",\"timestamp\":\"2001-01-01T00:00:00Z\"}",
    );
    let set = set.unwrap();
    assert_eq!((set.status, set.header("x-envd-version")), (204, Some("0.6.13")));
    assert_eq!(client.raw("GET", "/envs", None, b"").unwrap().status, 401);
    assert_eq!(
        post(&client, "/init", "{\"accessToken\":\"two\"}"),
        (401, "access token validation failed\n".to_owned())
    );
    assert_eq!(post(&client, "/init", "{}"), (401, "access token reset not authorized\n".to_owned()));
    assert_eq!(post(&client, "/init", "{\"accessToken\":\"one\"}").0, 204);
    assert_eq!(post(&client.with("X-Access-Token", "one"), "/init", "{}").0, 204);
}

fn what_a_daemon_is_told_counts_for_what_is_started(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let told = r#"{"envVars":{"GREETING":"hi","HOME":"/nonexistent"},"defaultWorkdir":"/usr"}"#;
    assert_eq!(post(&client, "/init", told).0, 204);
    assert_eq!(client.start(bash("echo $GREETING; pwd")).collect().text(), "hi\n/usr\n");
    let mut request = bash("echo $GREETING");
    request.process.as_mut().unwrap().envs.insert("GREETING".to_owned(), "mine".to_owned());
    assert_eq!(client.start(request).collect().text(), "mine\n");
    let (_, envs) = text(client.raw("GET", "/envs", None, b"").unwrap());
    assert_eq!(envs, r#"{"GREETING":"hi","HOME":"/nonexistent"}"#);
    // Those of before are gone with the next ones.
    assert_eq!(post(&client, "/init", r#"{"envVars":{"HOME":"/nonexistent"}}"#).0, 204);
    assert_eq!(client.start(bash("echo $GREETING")).collect().text(), "\n");
    if !is_root() {
        return skip(
            "what_a_daemon_is_told_counts_for_what_is_started",
            "only root can run commands as others",
        );
    }
    assert_eq!(post(&client, "/init", r#"{"defaultUser":"games"}"#).0, 204);
    assert_eq!(client.start(bash("id -un")).collect().text(), "games\n");
    let root = client.with("Authorization", "Basic cm9vdDpwYXNzd29yZA==");
    assert_eq!(root.start(bash("id -un")).collect().text(), "root\n");
}

/// A signature, as clients make it.
fn signed(path: &str, operation: &str, user: &str, token: &str, until: Option<i64>) -> String {
    use sha2::{Digest, Sha256};
    let mut text = format!("{path}:{operation}:{user}:{token}");
    if let Some(until) = until {
        text += &format!(":{until}");
    }
    let hash = BASE64_STANDARD_NO_PAD.encode(Sha256::digest(text));
    let escaped = hash.replace('+', "%2B").replace('/', "%2F");
    let until = until.map(|until| format!("&signature_expiration={until}")).unwrap_or_default();
    format!("signature=v1_{escaped}{until}")
}

fn a_signature_stands_for_the_token(on: On) {
    let envd = on.envd_with_token("secret");
    let client = envd.json();
    let folder = Folder::new();
    let file = folder.file("a b+c");
    let path = file.to_str().unwrap();
    let escaped = path.replace(' ', "%20").replace('+', "%2B");
    let get =
        |query: &str| text(client.raw("GET", &format!("/files?path={escaped}&{query}"), None, b"").unwrap());
    let put = |query: &str| {
        let path = format!("/files?path={escaped}&{query}");
        client.raw("POST", &path, Some("application/octet-stream"), b"content").unwrap().status
    };
    assert_eq!(put(""), 401);
    assert_eq!(put(&signed(path, "read", "", "secret", None)), 401);
    assert!(!file.exists());
    assert_eq!(put(&signed(path, "write", "", "secret", None)), 200);
    assert_eq!(get(&signed(path, "read", "", "secret", None)), (200, "content".to_owned()));
    assert_eq!(get(&signed(path, "read", "", "secret", Some(i64::MAX))), (200, "content".to_owned()));
    // Nobody else may be named than the signature says.
    let other = client.with("Authorization", "Basic bm8tc3VjaC11c2VyOg==");
    let query = signed(path, "read", "", "secret", None);
    assert_eq!(other.raw("GET", &format!("/files?path={escaped}&{query}"), None, b"").unwrap().status, 200);
    for bad in [
        signed(path, "write", "", "secret", None),
        signed(path, "read", "", "other", None),
        signed(path, "read", "root", "secret", None),
        signed("/etc/passwd", "read", "", "secret", None),
        signed(path, "read", "", "secret", Some(1)),
        signed(path, "read", "", "secret", None) + "&signature_expiration=99999999999",
        signed(path, "read", "", "secret", None) + "&username=root",
        "signature=".to_owned(),
    ] {
        assert_eq!(get(&bad).0, 401, "{bad}");
    }
    assert_eq!(
        client
            .with("X-Access-Token", "secret")
            .raw("GET", &format!("/files?path={escaped}"), None, b"")
            .unwrap()
            .status,
        200
    );
}

fn what_is_no_call_is_refused_as_http_has_it(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let list = "/process.Process/List";
    for path in [
        "/",
        "/process.Process",
        "/process.Process/Nothing",
        "/nothing.Nothing/List",
        "/process.Process/List/",
    ] {
        let (status, body) = text(client.raw("POST", path, Some("application/json"), b"{}").unwrap());
        assert_eq!((status, &*body), (404, "404 page not found\n"), "{path}");
    }
    for method in ["GET", "PUT", "DELETE"] {
        let refused = client.raw(method, list, None, b"").unwrap();
        assert_eq!((refused.status, refused.header("allow")), (405, Some("POST")), "{method}");
    }
    for (path, kind) in [
        (list, None),
        (list, Some("text/plain")),
        (list, Some("application/connect+json")),
        (list, Some("application/json; charset=latin1")),
        (START, Some("application/json")),
        (START, Some("application/grpc-web")),
    ] {
        let refused = client.raw("POST", path, kind, b"{}").unwrap();
        assert_eq!(refused.status, 415, "{path} {kind:?}");
        assert!(
            refused.header("accept-post").is_some_and(|kinds| kinds.contains("application/connect+json"))
        );
    }
    assert_eq!(post(&client, list, "{}"), (200, "{}".to_owned()));
    let utf8 =
        client.raw("POST", list, Some("application/json; charset=utf-8"), b"{\"unknown\":[1]}").unwrap();
    assert_eq!(utf8.status, 200);
    for (body, words) in
        [("", "EOF"), ("[", "object"), ("{} x", "trailing"), ("{\"process\":{\"pid\":\"x\"}}", "process.pid")]
    {
        let (status, body) = post(&client, "/process.Process/SendSignal", body);
        assert_eq!(status, 400, "{body}");
        assert!(body.contains("invalid_argument") && body.contains(words), "{words}: {body}");
    }
}
