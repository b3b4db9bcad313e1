//! Files of the daemon, by calls and over HTTP, on both runtimes.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use flate2::{Compression, write::GzEncoder};
use hangar_core::wire::{
    connect::{Code, RpcError},
    envd::{
        filesystem::{EntryInfo, EntryResponse, ListDirRequest, ListDirResponse, MoveRequest, PathRequest},
        process::Empty,
    },
};
use hangar_tests::{
    on_both,
    real::{Folder, On, client::Response, envd::Client, is_root, skip},
};
use serde_json::{Value, json};
use std::{
    fs,
    io::Read,
    io::Write,
    os::unix::fs::{MetadataExt, PermissionsExt},
};

on_both! {
    a_file_is_described
    directories_are_made_listed_and_removed
    a_file_is_moved
    what_is_wrong_has_its_code
    nothing_is_removed_that_was_not_named
    a_file_is_read_in_parts
    a_file_is_sent_as_it_is
    files_are_sent_as_forms
    what_is_sent_may_be_compressed
    what_cannot_be_sent_says_why
    several_files_become_one
    a_large_file_comes_and_goes
    files_belong_to_who_sent_them
    the_machine_is_measured
}

fn call(client: &Client, method: &str, path: &str) -> Result<EntryInfo, Code> {
    let request = PathRequest { path: path.to_owned() };
    let answer: Result<EntryResponse, RpcError> =
        client.call(&format!("/filesystem.Filesystem/{method}"), &request);
    answer.map(|answer| answer.entry.unwrap()).map_err(|error| error.code)
}

fn list(client: &Client, path: &str, depth: u32) -> Result<Vec<String>, Code> {
    let request = ListDirRequest { path: path.to_owned(), depth };
    let answer: Result<ListDirResponse, RpcError> = client.call("/filesystem.Filesystem/ListDir", &request);
    answer
        .map(|answer| answer.entries.into_iter().map(|entry| entry.path).collect())
        .map_err(|error| error.code)
}

fn remove(client: &Client, path: &str) -> Result<Empty, Code> {
    let request = PathRequest { path: path.to_owned() };
    client.call("/filesystem.Filesystem/Remove", &request).map_err(|error| error.code)
}

fn rename(client: &Client, from: &str, to: &str) -> Result<EntryInfo, Code> {
    let request = MoveRequest { source: from.to_owned(), destination: to.to_owned() };
    let answer: Result<EntryResponse, RpcError> = client.call("/filesystem.Filesystem/Move", &request);
    answer.map(|answer| answer.entry.unwrap()).map_err(|error| error.code)
}

fn get(client: &Client, path: &str) -> Response {
    client.raw("GET", &format!("/files?path={path}"), None, b"").unwrap()
}

fn body(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    response.read_to_end(&mut body).unwrap();
    body
}

fn text(response: Response) -> String {
    String::from_utf8(body(response)).unwrap()
}

fn put(client: &Client, path: &str, content: &[u8]) -> (u16, Value) {
    let path = format!("/files?path={path}");
    let response = client.raw("POST", &path, Some("application/octet-stream"), content).unwrap();
    let status = response.status;
    (status, serde_json::from_slice(&body(response)).unwrap())
}

/// The folder as a string, for paths in it.
fn at(folder: &Folder) -> String {
    folder.path().to_str().unwrap().to_owned()
}

fn a_file_is_described(on: On) {
    let envd = on.envd();
    let folder = Folder::new();
    let at = at(&folder);
    fs::write(folder.file("file"), "hello").unwrap();
    std::os::unix::fs::symlink("file", folder.file("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.file("broken")).unwrap();
    for client in [envd.json(), envd.proto()] {
        let file = call(&client, "Stat", &format!("{at}/file")).unwrap();
        assert_eq!((&*file.name, file.kind, file.size), ("file", 1, 5));
        assert_eq!((file.path, &*file.permissions), (format!("{at}/file"), "-rw-r--r--"));
        let written = fs::metadata(folder.file("file")).unwrap().mtime();
        assert_eq!((file.modified_time.unwrap().seconds, file.symlink_target), (written, None));
        let link = call(&client, "Stat", &format!("{at}/link")).unwrap();
        assert_eq!(
            (link.kind, &*link.permissions, link.symlink_target),
            (1, "Lrwxrwxrwx", Some(format!("{at}/file")))
        );
        let broken = call(&client, "Stat", &format!("{at}/broken")).unwrap();
        assert_eq!((broken.kind, broken.mode, broken.symlink_target), (0, 0, Some(format!("{at}/broken"))));
        assert_eq!(call(&client, "Stat", &at).unwrap().kind, 2);
    }
}

fn directories_are_made_listed_and_removed(on: On) {
    let envd = on.envd();
    let client = envd.proto();
    let folder = Folder::new();
    let at = at(&folder);
    let made = call(&client, "MakeDir", &format!("{at}/a/b")).unwrap();
    assert_eq!((&*made.name, made.kind, &*made.permissions), ("b", 2, "drwxr-xr-x"));
    assert_eq!(call(&client, "MakeDir", &format!("{at}/a/b")), Err(Code::AlreadyExists));
    fs::write(folder.file("a/b/file"), "").unwrap();
    assert_eq!(list(&client, &at, 0), Ok(vec![format!("{at}/a")]));
    assert_eq!(list(&client, &at, 1), list(&client, &at, 0));
    let all = [format!("{at}/a"), format!("{at}/a/b"), format!("{at}/a/b/file")];
    assert_eq!(list(&client, &at, 9), Ok(all.to_vec()));
    assert_eq!(remove(&client, &format!("{at}/a")), Ok(Empty {}));
    assert_eq!(
        remove(&client, &format!("{at}/a")),
        Ok(Empty {}),
        "it is not there, which is what was wanted"
    );
    assert_eq!(list(&client, &at, 1), Ok(vec![]));
}

fn a_file_is_moved(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let folder = Folder::new();
    let at = at(&folder);
    fs::write(folder.file("file"), "x").unwrap();
    let moved = rename(&client, &format!("{at}/file"), &format!("{at}/new/place")).unwrap();
    assert_eq!(
        (moved.path, fs::read(folder.file("new/place")).unwrap()),
        (format!("{at}/new/place"), b"x".to_vec())
    );
    assert_eq!(rename(&client, &format!("{at}/file"), &format!("{at}/x")), Err(Code::NotFound));
    assert_eq!(rename(&client, &format!("{at}/new"), &format!("{at}/new/in")), Err(Code::InvalidArgument));
}

fn what_is_wrong_has_its_code(on: On) {
    let envd = on.envd();
    let folder = Folder::new();
    let at = at(&folder);
    fs::write(folder.file("file"), "").unwrap();
    std::os::unix::fs::symlink("loop", folder.file("loop")).unwrap();
    let missing = format!("{at}/missing");
    for client in [envd.json(), envd.proto()] {
        assert_eq!(call(&client, "Stat", &missing), Err(Code::NotFound));
        assert_eq!(call(&client, "Stat", &format!("{at}/file/below")), Err(Code::NotFound));
        assert_eq!(call(&client, "MakeDir", &format!("{at}/file")), Err(Code::InvalidArgument));
        assert_eq!(call(&client, "MakeDir", &format!("{at}/file/below")), Err(Code::InvalidArgument));
        assert_eq!(call(&client, "Stat", "~other/file"), Err(Code::InvalidArgument));
        assert_eq!(list(&client, &missing, 1), Err(Code::NotFound));
        assert_eq!(list(&client, &format!("{at}/file"), 1), Err(Code::InvalidArgument));
        assert_eq!(list(&client, &format!("{at}/loop"), 1), Err(Code::FailedPrecondition));
        assert_eq!(call(&client, "Stat", &format!("{at}/{}", "n".repeat(300))), Err(Code::InvalidArgument));
        let unknown = client.with("Authorization", "Basic bm8tc3VjaC11c2VyOg==");
        assert_eq!(call(&unknown, "Stat", &at), Err(Code::Unauthenticated));
    }
    assert_eq!(get(&envd.json(), &missing).status, 404);
    assert_eq!(get(&envd.json(), &at).status, 400);
    assert_eq!(get(&envd.json(), "").status, 400);
    assert_eq!(get(&envd.json(), "/dev/null").status, 400);
    assert_eq!(
        envd.json()
            .raw("GET", &format!("/files?path={at}/file&username=no-such-user"), None, b"")
            .unwrap()
            .status,
        401
    );
    let refused = envd.json().raw("DELETE", &format!("/files?path={at}/file"), None, b"").unwrap();
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD, POST")));
}

fn nothing_is_removed_that_was_not_named(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let folder = Folder::new();
    fs::write(folder.file("file"), "").unwrap();
    // Where an empty path leads, instead of the home of whoever runs the tests.
    let init = json!({ "defaultWorkdir": at(&folder) }).to_string();
    assert_eq!(client.raw("POST", "/init", Some("application/json"), init.as_bytes()).unwrap().status, 204);
    assert_eq!(list(&client, "", 1), Ok(vec![format!("{}/file", at(&folder))]));
    assert_eq!(remove(&client, ""), Err(Code::InvalidArgument));
    assert_eq!(rename(&client, "", &format!("{}-moved", at(&folder))), Err(Code::InvalidArgument));
    assert!(folder.file("file").exists());
}

fn a_file_is_read_in_parts(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let folder = Folder::new();
    let path = folder.file("file");
    let path = path.to_str().unwrap();
    fs::write(path, "0123456789").unwrap();
    let whole = get(&client, path);
    assert_eq!((whole.status, whole.header("accept-ranges")), (200, Some("bytes")));
    let modified = whole.header("last-modified").unwrap().to_owned();
    assert_eq!(text(whole), "0123456789");
    let part = get(&client.with("Range", "bytes=2-4"), path);
    assert_eq!((part.status, part.header("content-range")), (206, Some("bytes 2-4/10")));
    assert_eq!(text(part), "234");
    assert_eq!(text(get(&client.with("Range", "bytes=-2"), path)), "89");
    let behind = get(&client.with("Range", "bytes=10-"), path);
    assert_eq!((behind.status, behind.header("content-range")), (416, Some("bytes */10")));
    assert_eq!(get(&client.with("If-Modified-Since", &modified), path).status, 304);
    let head = client.raw("HEAD", &format!("/files?path={path}"), None, b"").unwrap();
    assert_eq!((head.status, head.header("content-length")), (200, Some("10")));
    fs::write(path, "").unwrap();
    assert_eq!(text(get(&client, path)), "");
    // What does not say how long it is comes, too.
    assert!(text(get(&client, "/proc/self/status")).contains("Name:"));
}

fn a_file_is_sent_as_it_is(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let folder = Folder::new();
    let at = at(&folder);
    let sent = put(&client, &format!("{at}/new/file"), b"content");
    assert_eq!(sent, (200, json!([{ "name": "file", "path": format!("{at}/new/file"), "type": "file" }])));
    assert_eq!(fs::read(folder.file("new/file")).unwrap(), b"content");
    put(&client, &format!("{at}/new/file"), b"short");
    assert_eq!(fs::read(folder.file("new/file")).unwrap(), b"short");
    put(&client, &format!("{at}/new/file"), b"");
    assert_eq!(fs::read(folder.file("new/file")).unwrap(), b"");
    let with = client.with("X-Metadata-Author", "me").with("X-Metadata-kind", "a note");
    let (status, sent) = put(&with, &format!("{at}/noted"), b"x");
    if status == 400 && sent["message"].as_str().is_some_and(|message| message.contains("metadata")) {
        return skip("a_file_is_sent_as_it_is", "the file system of the temporary folder holds no metadata");
    }
    assert_eq!((status, &sent[0]["metadata"]), (200, &json!({ "author": "me", "kind": "a note" })));
    let entry = call(&client, "Stat", &format!("{at}/noted")).unwrap();
    assert_eq!(entry.metadata.get("author").map(String::as_str), Some("me"));
}

/// A form with these files; each has a name and what is in it.
fn form(files: &[(&str, &str)]) -> (String, Vec<u8>) {
    let mut body = Vec::new();
    for (name, content) in files {
        let file = if name.is_empty() { String::new() } else { format!("; filename=\"{name}\"") };
        write!(body, "--limit\r\nContent-Disposition: form-data; name=\"file\"{file}\r\n\r\n{content}\r\n")
            .unwrap();
    }
    body.extend(b"--limit--\r\n");
    ("multipart/form-data; boundary=limit".to_owned(), body)
}

fn files_are_sent_as_forms(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let folder = Folder::new();
    let at = at(&folder);
    let send = |query: &str, files: &[(&str, &str)]| {
        let (kind, form) = form(files);
        let response = client.raw("POST", &format!("/files{query}"), Some(&kind), &form).unwrap();
        (response.status, text(response))
    };
    let (status, _) = send(&format!("?path={at}/one"), &[("other", "--limit is not the end\r\n")]);
    assert_eq!(
        (status, fs::read_to_string(folder.file("one")).unwrap()),
        (200, "--limit is not the end\r\n".to_owned())
    );
    let (two, three) = (format!("{at}/two"), format!("{at}/deep/three"));
    let (status, answer) = send("", &[(&two, "2"), (&three, "3")]);
    assert_eq!((status, answer.matches("\"name\"").count()), (200, 2), "{answer}");
    assert_eq!(fs::read_to_string(&two).unwrap() + &fs::read_to_string(&three).unwrap(), "23");
    for (query, files) in [
        (String::new(), vec![("", "x")]),
        (String::new(), vec![]),
        (format!("?path={at}/four"), vec![("a", "x"), ("b", "y")]),
        (format!("?path={at}/five&path={at}/six"), vec![("a", "x")]),
    ] {
        assert_eq!(send(&query, &files).0, 400, "{query} {files:?}");
    }
    let (_, whole) = form(&[(&two, "cut")]);
    let kind = "multipart/form-data; boundary=limit";
    let cut = client.raw("POST", "/files", Some(kind), &whole[..whole.len() - 12]).unwrap();
    assert_eq!(cut.status, 400);
    assert_eq!(client.raw("POST", "/files", Some("multipart/form-data"), &whole).unwrap().status, 400);
    // What comes before the first part, or stands at its head, is not gathered for ever; many parts are.
    let before = [&vec![b'x'; 1_000_000][..], &whole].concat();
    assert_eq!(client.raw("POST", "/files", Some(kind), &before).unwrap().status, 400);
    let head = [b"--limit\r\nX-Long: ", &vec![b'x'; 1_000_000][..]].concat();
    assert_eq!(client.raw("POST", "/files", Some(kind), &head).unwrap().status, 400);
    let names: Vec<String> = (0..500).map(|i| format!("{at}/many/{i}")).collect();
    let content = "x".repeat(3000);
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), content.as_str())).collect();
    assert_eq!(send("", &many).0, 200);
    assert_eq!(fs::read_dir(folder.file("many")).unwrap().count(), 500);
}

fn what_is_sent_may_be_compressed(on: On) {
    let envd = on.envd();
    let client = envd.json().with("Content-Encoding", "gzip");
    let folder = Folder::new();
    let at = at(&folder);
    let content = "all the same ".repeat(100_000);
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(content.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    assert_eq!(put(&client, &format!("{at}/file"), &packed).0, 200);
    assert_eq!(fs::read_to_string(folder.file("file")).unwrap(), content);
    // Packed in parts that were put together.
    let twice = [&packed[..], &packed[..]].concat();
    assert_eq!(put(&client, &format!("{at}/twice"), &twice).0, 200);
    assert_eq!(fs::read_to_string(folder.file("twice")).unwrap(), content.repeat(2));
    assert_eq!(put(&client, &format!("{at}/cut"), &packed[..packed.len() - 20]).0, 400);
    assert_eq!(put(&client, &format!("{at}/twice"), b"not packed").0, 400);
    assert_eq!(fs::read_to_string(folder.file("twice")).unwrap(), content.repeat(2), "it is as it was");
    let other = envd.json().with("Content-Encoding", "br");
    assert_eq!(put(&other, &format!("{at}/file"), b"x").0, 415);
}

fn what_cannot_be_sent_says_why(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let folder = Folder::new();
    let at = at(&folder);
    fs::write(folder.file("file"), "").unwrap();
    for (path, status) in [
        (at.clone(), 400),
        (format!("{at}/file/below"), 400),
        (format!("{at}/{}", "n".repeat(300)), 400),
        (String::new(), 400),
        ("~other/x".to_owned(), 400),
    ] {
        let (answered, body) = put(&client, &path, b"x");
        assert_eq!((answered, &body["code"]), (status, &status.into()), "{path}: {body}");
        assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
    let kind = client.raw("POST", &format!("/files?path={at}/x"), Some("text/plain"), b"x").unwrap();
    assert_eq!(kind.status, 415);
}

fn several_files_become_one(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let folder = Folder::new();
    let at = at(&folder);
    fs::write(folder.file("a"), "first ").unwrap();
    fs::write(folder.file("b"), "second").unwrap();
    let compose = |asked: Value| {
        let response = client
            .raw("POST", "/files/compose", Some("application/json"), asked.to_string().as_bytes())
            .unwrap();
        (response.status, text(response))
    };
    let missing = json!({ "source_paths": [format!("{at}/a"), format!("{at}/missing")], "destination": format!("{at}/c") });
    assert_eq!(compose(missing).0, 404);
    assert!(folder.file("a").exists() && !folder.file("c").exists(), "nothing was done");
    let (status, answer) = compose(
        json!({ "source_paths": [format!("{at}/a"), format!("{at}/b")], "destination": format!("{at}/c") }),
    );
    assert_eq!(
        (status, fs::read_to_string(folder.file("c")).unwrap()),
        (200, "first second".to_owned()),
        "{answer}"
    );
    assert!(!folder.file("a").exists() && !folder.file("b").exists());
    assert_eq!(compose(json!({ "source_paths": [], "destination": format!("{at}/c") })).0, 400);
    assert_eq!(compose(json!({ "destination": format!("{at}/c") })).0, 400);
    let (status, why) = compose(json!([[format!("{at}/c")], format!("{at}/d"), null]));
    assert_eq!((status, why.contains("the body: it must be a JSON object")), (400, true), "{why}");
    let many = |count: usize, len: usize| {
        let paths = vec![format!("{at}/{}", "n".repeat(len)); count];
        compose(json!({ "source_paths": paths, "destination": format!("{at}/d") }))
    };
    assert_eq!(many(10_000, 100).0, 404);
    let (status, why) = many(10_001, 1);
    assert_eq!((status, why.contains("source_paths: at most 10000")), (400, true), "{why}");
    let (status, why) = many(2000, 2500);
    assert_eq!((status, why.contains("longer than 4194304 bytes")), (400, true), "{why}");
}

fn a_large_file_comes_and_goes(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let folder = Folder::new();
    let path = format!("{}/large", at(&folder));
    let content: Vec<u8> = (0..20_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert_eq!(put(&client, &path, &content).0, 200);
    assert!(fs::read(folder.file("large")).unwrap() == content, "what was sent is there");
    assert!(body(get(&client, &path)) == content, "what is there comes");
    // One that becomes shorter while it is sent is an answer that was cut, not a short file.
    let mut cut = get(&client, &path);
    fs::write(folder.file("large"), "short").unwrap();
    let mut came = Vec::new();
    assert!(cut.read_to_end(&mut came).is_err());
}

fn files_belong_to_who_sent_them(on: On) {
    if !is_root() {
        return skip("files_belong_to_who_sent_them", "only root can act as others");
    }
    let envd = on.envd();
    let folder = Folder::new();
    let at = at(&folder);
    std::os::unix::fs::chown(folder.path(), Some(5), Some(60)).unwrap();
    let games = envd.json().with("Authorization", "Basic Z2FtZXM6");
    put(&games, &format!("{at}/file"), b"x");
    let entry = call(&games, "MakeDir", &format!("{at}/dir")).unwrap();
    assert_eq!((&*entry.owner, &*entry.group), ("games", "games"));
    let written = fs::metadata(folder.file("file")).unwrap();
    assert_eq!((written.uid(), written.gid()), (5, 60));
    // And may do what they may, not what the daemon may.
    assert_eq!(get(&games, "/etc/shadow").status, 403);
    assert_eq!(list(&games, "/root", 1), Err(Code::PermissionDenied));
    let of_root = Folder::new();
    fs::write(of_root.file("file"), "").unwrap();
    fs::set_permissions(of_root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let at = self::at(&of_root);
    assert_eq!(put(&games, &format!("{at}/new"), b"x").0, 403);
    assert_eq!(remove(&games, &format!("{at}/file")), Err(Code::PermissionDenied));
    assert!(of_root.file("file").exists());
}

fn the_machine_is_measured(on: On) {
    let envd = on.envd();
    let response = envd.json().raw("GET", "/metrics", None, b"").unwrap();
    assert_eq!(response.status, 200);
    let metrics: Value = serde_json::from_str(&text(response)).unwrap();
    let number = |name: &str| metrics[name].as_f64().unwrap_or_else(|| panic!("{name}: {metrics}"));
    assert!(number("cpu_count") >= 1.0 && (0.0..=100.0).contains(&number("cpu_used_pct")));
    assert!(number("mem_total") > number("mem_used") && number("mem_used") > 0.0);
    assert!(number("disk_total") >= number("disk_used") && number("ts") > 1_500_000_000.0);
    assert!((number("mem_total_mib") - (number("mem_total") / 1_048_576.0).floor()).abs() < 1.0);
}
