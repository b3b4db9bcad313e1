//! Directories that the daemon watches, on both runtimes: what really changes on a disk, as SDKs are told it and as clients
//! that know hangar are.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use bytes::Bytes;
use hangar_core::watch::{End, Event, Kind};
use hangar_core::wire::{
    connect::{Code, RpcError},
    envd::{
        change::{self, Said},
        filesystem::{
            CreateWatcherResponse, FilesystemEvent, WatchDirRequest, WatchDirResponse, WatcherEventsResponse,
            WatcherRequest,
        },
        process::Empty,
    },
};
use hangar_tests::{
    on_both,
    real::{
        Folder, On,
        envd::{Client, Followed},
        wait_until,
    },
};
use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

on_both! {
    each_directory_of_a_path_is_told_once
    what_changes_is_told_as_envd_tells_it
    what_changes_is_told_to_who_knows_hangar
    what_is_there_is_told_first_to_who_asks_for_it
    a_name_may_be_any_bytes
    the_end_of_a_directory_ends_its_stream
    a_watcher_is_asked_what_changed
    what_is_there_now_comes_with_what_changed
    what_cannot_be_watched_says_why
}

const WATCH: &str = "/filesystem.Filesystem/WatchDir";

fn request(path: &Path) -> WatchDirRequest {
    WatchDirRequest { path: path.to_str().unwrap().to_owned(), recursive: true, ..WatchDirRequest::default() }
}

/// A directory that is watched.
struct Watch(Followed);

impl Watch {
    /// By a client that does not know hangar.
    fn plain(client: &Client, request: &WatchDirRequest) -> Self {
        let mut watch = Self(client.stream(WATCH, std::slice::from_ref(request)));
        assert_eq!(watch.message().start.unwrap().path, "");
        watch
    }

    /// By one that does. Everything below is watched once it is ready.
    fn extended(client: &Client, request: &WatchDirRequest) -> Self {
        let client = client.with("Hangar-Watch", "1");
        let mut watch = Self(client.stream(WATCH, std::slice::from_ref(request)));
        let real = fs::canonicalize(&request.path).unwrap();
        assert_eq!(Path::new(&watch.message().start.unwrap().path), real);
        watch
    }

    fn message(&mut self) -> WatchDirResponse {
        self.0.try_next_message().unwrap().expect("it goes on")
    }

    fn event(&mut self) -> FilesystemEvent {
        loop {
            if let Some(event) = self.message().filesystem {
                return event;
            }
        }
    }

    fn said(&mut self) -> Said {
        change::read(self.event()).unwrap()
    }

    fn until_ready(&mut self) -> Vec<Said> {
        let said = std::iter::from_fn(|| Some(self.said()).filter(|said| *said != Said::Ready));
        said.collect()
    }

    /// What is told until this name is made, and that.
    fn until(&mut self, name: &str) -> Vec<(i32, String)> {
        let mut told = Vec::new();
        while told.last().is_none_or(|last| *last != (1, name.to_owned())) {
            let event = self.event();
            told.push((event.kind, event.name));
        }
        told
    }

    /// It ends after what was told, all being well.
    fn end(mut self) {
        assert_eq!(self.0.try_next_message::<WatchDirResponse>().unwrap(), None);
    }
}

fn said(kind: Kind, name: &'static str) -> Said {
    Said::Event(Event::new(kind, Bytes::from_static(name.as_bytes())))
}

fn each_directory_of_a_path_is_told_once(on: On) {
    let envd = on.envd();
    let folder = Folder::new();
    let mut plain = Watch::plain(&envd.json(), &request(folder.path()));
    let mut extended = Watch::extended(&envd.proto(), &request(folder.path()));
    assert_eq!(extended.until_ready(), []);
    let deep = "a/b/c/d/e/f";
    for round in 0..200 {
        let top = format!("{round}");
        let path = folder.file(&top).join(deep);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("x"), "x").unwrap();
        let mut expected = vec![top.clone()];
        for part in deep.split('/').chain(["x"]) {
            expected.push(format!("{}/{part}", expected.last().unwrap()));
        }
        for watch in [&mut plain, &mut extended] {
            let told = watch.until(expected.last().unwrap());
            let created = told.into_iter().filter(|(kind, _)| *kind == 1);
            let created: Vec<String> = created.map(|(_, name)| name).collect();
            assert_eq!(created, expected, "each of them once, and in this order");
        }
    }
}

fn what_changes_is_told_as_envd_tells_it(on: On) {
    let envd = on.envd();
    for client in [envd.json(), envd.proto()] {
        let folder = Folder::new();
        let mut watch = Watch::plain(&client, &request(folder.path()));
        let file = folder.file("file");
        fs::write(&file, "x").unwrap();
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        fs::rename(&file, folder.file("other")).unwrap();
        fs::remove_file(folder.file("other")).unwrap();
        fs::create_dir(folder.file("end")).unwrap();
        let mut told = watch.until("end");
        told.dedup();
        let expected =
            [(1, "file"), (2, "file"), (5, "file"), (4, "file"), (1, "other"), (3, "other"), (1, "end")];
        assert_eq!(told, expected.map(|(kind, name)| (kind, name.to_owned())));
    }
}

fn what_changes_is_told_to_who_knows_hangar(on: On) {
    let envd = on.envd();
    for client in [envd.json(), envd.proto()] {
        let folder = Folder::new();
        let mut watch = Watch::extended(&client, &request(folder.path()));
        assert_eq!(watch.until_ready(), []);
        fs::create_dir(folder.file("a")).unwrap();
        assert_eq!(watch.said(), said(Kind::Create, "a"));
        fs::rename(folder.file("a"), folder.file("b")).unwrap();
        let rename = Event::rename(Bytes::from_static(b"a"), Bytes::from_static(b"b"));
        assert_eq!(watch.said(), Said::Event(rename));
        fs::create_dir(folder.file("b").join("c")).unwrap();
        assert_eq!(watch.said(), said(Kind::Create, "b/c"));
        fs::remove_dir(folder.file("b").join("c")).unwrap();
        assert_eq!(watch.said(), said(Kind::Remove, "b/c"));
    }
}

fn what_is_there_is_told_first_to_who_asks_for_it(on: On) {
    let envd = on.envd();
    let folder = Folder::new();
    fs::create_dir_all(folder.file("a").join("b")).unwrap();
    let there = WatchDirRequest { tells_existing: true, ..request(folder.path()) };
    let mut watch = Watch::extended(&envd.json(), &there);
    assert_eq!(watch.until_ready(), [said(Kind::Create, "a"), said(Kind::Create, "a/b")]);
    let mut watch = Watch::extended(&envd.json(), &WatchDirRequest { recursive: false, ..there.clone() });
    assert_eq!(watch.until_ready(), [said(Kind::Create, "a")]);
    // Who does not know hangar cannot ask for it.
    let mut watch = Watch::plain(&envd.json(), &there);
    fs::create_dir(folder.file("end")).unwrap();
    assert_eq!(watch.event().name, "end");
}

fn a_name_may_be_any_bytes(on: On) {
    let envd = on.envd();
    let folder = Folder::new();
    let name = OsStr::from_bytes(b"odd \xff\xfe");
    let long = "n".repeat(255);
    for client in [envd.json(), envd.proto()] {
        let mut plain = Watch::plain(&client, &request(folder.path()));
        let mut extended = Watch::extended(&client, &request(folder.path()));
        assert_eq!(extended.until_ready(), []);
        fs::create_dir(folder.path().join(name)).unwrap();
        assert_eq!(plain.event().name, "odd \u{fffd}\u{fffd}");
        let created = |name: &[u8]| Said::Event(Event::new(Kind::Create, Bytes::copy_from_slice(name)));
        assert_eq!(extended.said(), created(name.as_bytes()));
        fs::create_dir(folder.file(&long)).unwrap();
        assert_eq!((plain.event().name, extended.said()), (long.clone(), created(long.as_bytes())));
        fs::remove_dir(folder.path().join(name)).unwrap();
        fs::remove_dir(folder.file(&long)).unwrap();
    }
}

fn the_end_of_a_directory_ends_its_stream(on: On) {
    let envd = on.envd();
    let folder = Folder::new();
    let remove = |path: &PathBuf| fs::remove_dir(path).unwrap();
    let rename = |path: &PathBuf| fs::rename(path, folder.file("moved")).unwrap();
    for (change, end) in [(&remove as &dyn Fn(&PathBuf), End::Removed), (&rename, End::Moved)] {
        let place = folder.file("place");
        fs::create_dir(&place).unwrap();
        let mut plain = Watch::plain(&envd.json(), &request(&place));
        let mut extended = Watch::extended(&envd.json(), &request(&place));
        assert_eq!(extended.until_ready(), []);
        change(&place);
        // A directory that goes has other times before that.
        let last = std::iter::repeat_with(|| plain.event()).find(|event| event.kind != 5).unwrap();
        assert_eq!((last.kind, &*last.name), (3, "."));
        plain.end();
        let last = std::iter::repeat_with(|| extended.said()).find(|last| *last != said(Kind::Chmod, "."));
        assert_eq!(last, Some(Said::Ended(end)));
        extended.end();
    }
}

fn call<A: hangar_core::wire::envd::Message>(
    client: &Client,
    method: &str,
    watcher: &WatcherRequest,
) -> Result<A, RpcError> {
    client.call(&format!("/filesystem.Filesystem/{method}"), watcher)
}

fn create(client: &Client, request: &WatchDirRequest) -> Result<WatcherRequest, RpcError> {
    let created: CreateWatcherResponse = client.call("/filesystem.Filesystem/CreateWatcher", request)?;
    Ok(WatcherRequest { watcher_id: created.watcher_id })
}

fn a_watcher_is_asked_what_changed(on: On) {
    let envd = on.envd();
    for client in [envd.json(), envd.proto()] {
        let folder = Folder::new();
        let watcher = create(&client, &request(folder.path())).unwrap();
        fs::create_dir_all(folder.file("a").join("b")).unwrap();
        fs::rename(folder.file("a"), folder.file("c")).unwrap();
        let mut told: Vec<(i32, String)> = Vec::new();
        wait_until("all of it is told", || {
            let answer: WatcherEventsResponse = call(&client, "GetWatcherEvents", &watcher).unwrap();
            told.extend(answer.events.into_iter().map(|event| (event.kind, event.name)));
            told.contains(&(1, "c".to_owned()))
        });
        assert_eq!(told.first(), Some(&(1, "a".to_owned())));
        let _: Empty = call(&client, "RemoveWatcher", &watcher).unwrap();
        let gone = call::<WatcherEventsResponse>(&client, "GetWatcherEvents", &watcher).unwrap_err();
        assert_eq!(gone.code, Code::NotFound);
    }
}

fn what_is_there_now_comes_with_what_changed(on: On) {
    let envd = on.envd();
    let folder = Folder::new();
    let asked = WatchDirRequest { include_entry: true, ..request(folder.path()) };
    let mut watch = Watch::plain(&envd.json(), &asked);
    fs::create_dir(folder.file("a")).unwrap();
    let event = watch.event();
    let entry = event.entry.unwrap();
    assert_eq!((event.kind, &*entry.name, entry.kind), (1, "a", 2));
    assert_eq!(entry.path, folder.file("a").to_str().unwrap());
    fs::remove_dir(folder.file("a")).unwrap();
    let event = watch.event();
    assert_eq!((event.kind, event.entry), (3, None));
}

fn what_cannot_be_watched_says_why(on: On) {
    let envd = on.envd();
    let folder = Folder::new();
    fs::write(folder.file("file"), "").unwrap();
    for (path, code) in [("missing", Code::NotFound), ("file", Code::InvalidArgument)] {
        for client in [envd.json(), envd.proto()] {
            let asked = request(&folder.file(path));
            let (messages, error) =
                client.stream(WATCH, std::slice::from_ref(&asked)).messages::<WatchDirResponse>();
            let error = error.unwrap();
            assert_eq!((messages.len(), error.code), (0, code), "{error}");
            assert!(error.message.starts_with("path: "), "{error}");
            assert_eq!(create(&client, &asked).unwrap_err(), error);
        }
    }
}
