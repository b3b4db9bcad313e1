//! A directory that is watched, on both runtimes and behind a daemon: real files, real notices, real sockets.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    mcp, on_each,
    real::{Client, Folder, On, Options, Session, wait_until},
};
use serde_json::{Value, json};
use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Write,
    os::unix::ffi::OsStrExt,
    path::Path,
    thread,
    time::Duration,
};

on_each! {
    ;
    everything_of_a_new_tree_is_told_once
    each_change_has_its_word
    what_is_there_is_told_first_if_it_is_to_be
    the_end_of_the_directory_is_told
    a_client_that_was_cut_off_has_missed_nothing
    a_client_that_comes_too_late_is_told_what_is_there
    a_burst_of_changes_ends_in_the_picture_of_what_is_there
    names_are_any_bytes
    what_cannot_be_watched_is_refused_by_name
    a_token_watches_eight_directories
    an_agent_is_told_and_reads
    a_watch_ends_with_its_token
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn everything_of_a_new_tree_is_told_once(on: On) {
    let (server, folder) = (on.start(), Folder::new());
    let mut watch = server.client().watch(&format!("{}&recursive=true", text(folder.path())));
    watch.until("ready");
    for round in 0..200_u32 {
        let deep = folder.file(&format!("{round}/b/c/d/e/f"));
        fs::create_dir_all(&deep).unwrap();
        // Sooner or later than the directories above it are watched.
        thread::sleep(Duration::from_micros(u64::from(round % 10) * 200));
        fs::write(deep.join("x"), "x").unwrap();
        let mut created = Vec::new();
        while created.len() < 7 {
            let change = watch.change();
            match change["type"].as_str().unwrap() {
                "create" => created.push(change["name"].as_str().unwrap().to_owned()),
                other => assert_eq!(other, "write", "{change}"),
            }
        }
        let expected = ["", "/b", "/b/c", "/b/c/d", "/b/c/d/e", "/b/c/d/e/f", "/b/c/d/e/f/x"];
        assert_eq!(created, expected.map(|path| format!("{round}{path}")));
    }
}

fn each_change_has_its_word(on: On) {
    let (server, folder) = (on.start(), Folder::new());
    let mut watch = server.client().watch(&format!("{}&recursive=true", text(folder.path())));
    let ready = watch.until("ready");
    assert_eq!(ready["path"], text(folder.path()));
    let mut file = File::create(folder.file("f")).unwrap();
    file.write_all(b"1").unwrap();
    fs::rename(folder.file("f"), folder.file("g")).unwrap();
    fs::remove_file(folder.file("g")).unwrap();
    let first = watch.change();
    assert_eq!(first["seq"], ready["next"].as_u64().unwrap() + 1);
    assert!(first["ts"].as_i64().unwrap() > 1_700_000_000_000, "{first}");
    assert_eq!(watch.said(3), ["write f", "rename f -> g", "remove g"]);
    assert_eq!(watch.last_id.parse::<u64>().unwrap(), first["seq"].as_u64().unwrap() + 3);
}

fn what_is_there_is_told_first_if_it_is_to_be(on: On) {
    let (server, folder) = (on.start(), Folder::new());
    fs::create_dir_all(folder.file("a/b")).unwrap();
    fs::write(folder.file("a/b/c"), "").unwrap();
    let path = text(folder.path());
    let mut watch = server.client().watch(&format!("{path}&recursive=true&snapshot=true"));
    watch.until("ready");
    assert!(watch.picture.paths().eq(["a", "a/b", "a/b/c"]));
    let mut flat = server.client().watch(path);
    flat.until("ready");
    fs::write(folder.file("a/b/d"), "").unwrap();
    fs::write(folder.file("e"), "").unwrap();
    assert_eq!(flat.said(1), ["create e"]);
    assert_eq!(watch.said(2), ["create a/b/d", "create e"]);
}

fn the_end_of_the_directory_is_told(on: On) {
    let (server, folder) = (on.start(), Folder::new());
    let root = folder.file("w");
    for reason in ["removed", "moved"] {
        fs::create_dir(&root).unwrap();
        let mut watch = server.client().watch(text(&root));
        watch.until("ready");
        match reason {
            "removed" => fs::remove_dir(&root).unwrap(),
            _ => fs::rename(&root, root.with_extension("new")).unwrap(),
        }
        let mut last = None;
        while let Some(event) = watch.try_next() {
            last = Some(event);
        }
        assert_eq!(last, Some(("end".to_owned(), json!({ "reason": reason }))));
    }
}

fn a_client_that_was_cut_off_has_missed_nothing(on: On) {
    let (server, folder) = (on.start(), Folder::new());
    let query = format!("{}&recursive=true", text(folder.path()));
    let mut watch = server.client().watch(&query);
    watch.until("ready");
    fs::create_dir(folder.file("0")).unwrap();
    assert_eq!(watch.said(1), ["create 0"]);
    for round in 1..20 {
        let id = watch.last_id.to_string();
        drop(watch);
        wait_until("the server noticed", || server.plane().streams().is_empty());
        let made = folder.file(&format!("0/{round}"));
        fs::create_dir(&made).unwrap();
        fs::create_dir(made.join("in")).unwrap();
        watch = server.client().try_watch(&query, &format!("Last-Event-ID: {id}\r\n")).unwrap();
        assert_eq!(watch.said(2), [format!("create 0/{round}"), format!("create 0/{round}/in")]);
    }
}

fn a_client_that_comes_too_late_is_told_what_is_there(on: On) {
    let (server, folder) = (on.start(), Folder::new());
    let query = format!("{}&recursive=true", text(folder.path()));
    let mut watch = server.client().watch(&query);
    watch.until("ready");
    fs::create_dir(folder.file("a")).unwrap();
    assert_eq!(watch.said(1), ["create a"]);
    let id = watch.last_id.to_string();
    drop(watch);
    wait_until("the server noticed", || server.plane().streams().is_empty());
    // More than are kept for it.
    for number in 0..300 {
        fs::create_dir(folder.file(&format!("a/{number}"))).unwrap();
    }
    fs::remove_dir(folder.file("a/7")).unwrap();
    // Until all of that was told to nobody.
    let mut other = server.client().watch(&query);
    other.until("ready");
    let mut watch = server.client().try_watch(&format!("{query}&since={id}"), "").unwrap();
    watch.picture.extend(["gone"]);
    watch.catch_up(folder.path());
    fs::create_dir(folder.file("a/7")).unwrap();
    assert_eq!(watch.said(1), ["create a/7"]);
    // And one whose watch is no more.
    let mut watch = server.client().try_watch(&format!("{query}&since=17"), "").unwrap();
    let gap = watch.until("gap");
    assert_eq!(gap["reason"], "adopted");
    watch.until("ready");
    watch.catch_up(folder.path());
}

fn a_burst_of_changes_ends_in_the_picture_of_what_is_there(on: On) {
    let (server, folder) = (on.start(), Folder::new());
    let mut watch = server.client().watch(&format!("{}&recursive=true&snapshot=true", text(folder.path())));
    watch.until("ready");
    let root = folder.path().to_owned();
    let maker = thread::spawn(move || {
        for directory in 0..50 {
            let directory = root.join(directory.to_string());
            fs::create_dir(&directory).unwrap();
            for file in 0..40 {
                fs::write(directory.join(file.to_string()), "x").unwrap();
            }
        }
        for directory in (0..50).step_by(3) {
            fs::remove_dir_all(root.join(directory.to_string())).unwrap();
        }
        fs::rename(root.join("1"), root.join("2/moved")).unwrap();
        fs::write(root.join("end"), "").unwrap();
    });
    while !watch.picture.contains(b"end") {
        watch.change();
    }
    maker.join().unwrap();
    watch.catch_up(folder.path());
}

fn names_are_any_bytes(on: On) {
    let (server, folder) = (on.start(), Folder::new());
    let mut watch = server.client().watch(text(folder.path()));
    watch.until("ready");
    let odd = OsStr::from_bytes(b"caf\xe9\n");
    fs::create_dir(folder.path().join(odd)).unwrap();
    let event = watch.change();
    assert_eq!((&event["base64"], &event["name"]), (&json!("Y2Fm6Qo="), &Value::Null));
    let long = "n".repeat(255);
    fs::rename(folder.path().join(odd), folder.file(&long)).unwrap();
    let event = watch.change();
    let expected = (&json!("rename"), &json!(long), &json!("Y2Fm6Qo="));
    assert_eq!((&event["type"], &event["name"], &event["from_base64"]), expected);
}

fn what_cannot_be_watched_is_refused_by_name(on: On) {
    let (server, folder) = (on.start(), Folder::new());
    fs::write(folder.file("file"), "").unwrap();
    let refused = |query: &str| {
        let reply = server.client().try_watch(query, "").unwrap_err();
        (reply.status, reply.json()["error"]["field"].as_str().unwrap_or_default().to_owned())
    };
    let file = text(&folder.file("file")).to_owned();
    for (query, field) in [
        (file.as_str(), "path"),
        ("/no/such/directory", "path"),
        ("", "path"),
        ("/tmp&recursive=yes", "recursive"),
        ("/tmp&since=-1", "since"),
        ("/tmp&user=no-such-user", "user"),
    ] {
        assert_eq!(refused(query), (400, field.to_owned()), "{query}");
    }
}

fn a_token_watches_eight_directories(on: On) {
    let (server, folder) = (on.start(), Folder::new());
    let client = server.client();
    let mut watches: Vec<_> = (0..8).map(|_| client.watch(text(folder.path()))).collect();
    let refused = client.try_watch(text(folder.path()), "").unwrap_err();
    assert_eq!(refused.refusal(), (429, "too_many_watches".to_owned()));
    // One whose client has left makes room.
    drop(watches.pop());
    wait_until("the server noticed", || server.plane().streams().leased() == 7);
    let mut watch = client.watch(text(folder.path()));
    watch.until("ready");
    fs::write(folder.file("x"), "").unwrap();
    assert_eq!(watch.said(1), ["create x"]);
    for mut watch in watches {
        watch.until("ready");
        assert_eq!(watch.said(1), ["create x"]);
    }
}

fn read(client: &Client, uri: &str) -> Value {
    let message = mcp::request(&json!(1), "resources/read", &json!({ "uri": uri }), None);
    let answer = client.mcp(&message).unwrap().into_reply().unwrap().json();
    serde_json::from_str(answer["result"]["contents"][0]["text"].as_str().unwrap()).unwrap()
}

fn an_agent_is_told_and_reads(on: On) {
    let (server, folder) = (on.start(), Folder::new());
    let client = server.client();
    let uri = format!("hangar://sandboxes/local/watch?path={}&recursive=true", text(folder.path()));
    assert_eq!(read(client, &uri)["watching"], false);
    let mut new = client.listening(&json!({ "resourceSubscriptions": [uri] }));
    assert_eq!(new.next().unwrap()["method"], "notifications/subscriptions/acknowledged");
    let session = Session::begin(client, "2025-11-25");
    session.ask("resources/subscribe", &json!({ "uri": uri }));
    let mut old = session.stream();
    fs::create_dir_all(folder.file("a/b")).unwrap();
    for stream in [&mut new, &mut old] {
        let told = stream.next().unwrap();
        assert_eq!(told["method"], "notifications/resources/updated", "{told}");
        assert_eq!(told["params"]["uri"], uri.as_str());
    }
    let mut seen = read(client, &uri);
    while seen["events"].as_array().unwrap().len() < 2 {
        new.next().unwrap();
        seen = read(client, &uri);
    }
    let names: Vec<_> = seen["events"].as_array().unwrap().iter().map(|event| &event["name"]).collect();
    assert_eq!(names, [&json!("a"), &json!("a/b")]);
    let next = format!("{uri}&since={}", seen["next"]);
    assert_eq!(read(client, &next)["events"], json!([]));
    fs::write(folder.file("a/b/c"), "").unwrap();
    new.next().unwrap();
    assert_eq!(read(client, &next)["events"][0]["name"], "a/b/c");
    // It is watched for as long as somebody is subscribed.
    drop(new);
    assert_eq!(read(client, &uri)["watching"], true);
    session.ask("resources/unsubscribe", &json!({ "uri": uri }));
    wait_until("nobody watches", || server.plane().watches().is_empty());
    assert_eq!(read(client, &uri)["watching"], false);
}

fn a_watch_ends_with_its_token(on: On) {
    let mut options = Options::default();
    options.settings.stream_recheck = Duration::from_millis(50);
    let (server, folder) = (on.start_with(options), Folder::new());
    let (id, other) = server.client().new_token(&json!({ "scope": "admin" }));
    let mut watch = other.watch(text(folder.path()));
    watch.until("ready");
    server.client().revoke(&id);
    assert_eq!(watch.try_next(), Some(("close".to_owned(), json!({ "reason": "revoked" }))));
    assert_eq!(watch.try_next(), None);
    assert!(server.plane().watches().is_empty());
}
