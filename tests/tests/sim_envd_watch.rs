//! Directories that the daemon watches, on a virtual clock and in a sandbox whose directories change as the test says.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use bytes::Bytes;
use hangar_backends::{
    local::User,
    watching::{Change, WatchError},
};
use hangar_core::{
    watch::{Blind, End, Event, Kind},
    wire::{
        connect::{Code, RpcError},
        envd::{
            filesystem::{
                CreateWatcherResponse, FilesystemEvent, WatchDirRequest, WatcherEventsResponse,
                WatcherRequest,
            },
            process::Empty,
        },
    },
};
use hangar_tests::{
    real::Folder,
    sim::{
        Link,
        cell::{Cell, Follower, run_cell},
        watch_dir::Told,
        world::at_ms,
    },
};
use std::fs;

const KNOWS: &[(&str, &str)] = &[("hangar-watch", "1")];

fn directory() -> WatchDirRequest {
    WatchDirRequest { path: "/d".to_owned(), ..WatchDirRequest::default() }
}

fn plain(kind: i32, name: &str) -> FilesystemEvent {
    FilesystemEvent { name: name.to_owned(), kind, ..FilesystemEvent::default() }
}

fn changed(event: FilesystemEvent) -> Told {
    Told::Event(Box::new(event))
}

fn closed(told: Told) -> Option<Code> {
    match told {
        Told::Closed(error) => error.map(|error| error.code),
        Told::Start(_) | Told::Event(_) | Told::KeepAlive => panic!("{told:?} is no end"),
    }
}

async fn started(cell: &Cell, headers: &[(&str, &str)]) -> Follower<Told> {
    let mut reader = cell.watch(&directory(), headers).await;
    assert_eq!(reader.next().await, Told::Start(String::new()));
    reader
}

async fn create(cell: &Cell, request: &WatchDirRequest) -> Result<WatcherRequest, RpcError> {
    let created: CreateWatcherResponse =
        cell.call("filesystem.Filesystem/CreateWatcher", request, &[]).await?;
    Ok(WatcherRequest { watcher_id: created.watcher_id })
}

async fn events(cell: &Cell, watcher: &WatcherRequest) -> Result<Vec<FilesystemEvent>, Code> {
    // What was told before has arrived.
    cell.sleep_ms(1).await;
    let events: Result<WatcherEventsResponse, _> =
        cell.call("filesystem.Filesystem/GetWatcherEvents", watcher, &[]).await;
    events.map(|answer| answer.events).map_err(|error| error.code)
}

fn rename() -> Change {
    Change::Event(Event::rename(Bytes::from_static(b"a"), Bytes::from_static(b"b\xff")))
}

fn blind() -> Change {
    Change::Blind { name: Bytes::from_static(b"x"), why: Blind::Denied }
}

#[test]
fn who_does_not_know_hangar_is_told_what_envd_tells() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let mut reader = started(cell, &[]).await;
        for kind in [Kind::Create, Kind::Write, Kind::Remove, Kind::Chmod] {
            cell.sandbox.watches.event(kind, "a/b");
        }
        cell.sandbox.watches.tell(&blind());
        cell.sandbox.watches.tell(&rename());
        cell.sandbox.watches.tell(&Change::Ended(End::Moved));
        for (kind, name) in
            [(1, "a/b"), (2, "a/b"), (3, "a/b"), (5, "a/b"), (4, "a"), (1, "b\u{fffd}"), (3, ".")]
        {
            assert_eq!(reader.next().await, changed(plain(kind, name)));
        }
        assert_eq!(reader.next().await, Told::Closed(None));
        assert_eq!(cell.sandbox.watches.open_now(), 0);
    });
}

#[test]
fn who_knows_hangar_is_told_everything() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        cell.sandbox.watches.set_existing(["there"]);
        let request = WatchDirRequest { tells_existing: true, ..directory() };
        let mut reader = cell.watch(&request, KNOWS).await;
        assert_eq!(reader.next().await, Told::Start("/d".to_owned()));
        for change in [blind(), rename(), Change::Event(Event::overflow()), Change::Ended(End::Unmounted)] {
            cell.sandbox.watches.tell(&change);
        }
        let nothing = FilesystemEvent::default;
        for event in [
            plain(1, "there"),
            FilesystemEvent { ready: true, ..nothing() },
            FilesystemEvent { blind: Some("denied".to_owned()), ..plain(0, "x") },
            FilesystemEvent {
                name_bytes: Some(Bytes::from_static(b"b\xff")),
                from: Some(Bytes::from_static(b"a")),
                ..plain(4, "b\u{fffd}")
            },
            FilesystemEvent { overflow: true, ..plain(0, ".") },
            FilesystemEvent { end: Some("unmounted".to_owned()), ..nothing() },
        ] {
            assert_eq!(reader.next().await, changed(event));
        }
        assert_eq!(reader.next().await, Told::Closed(None));
    });
}

#[test]
fn what_is_watched_is_what_was_asked_for() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let request = WatchDirRequest {
            path: "x/../y/".to_owned(),
            recursive: true,
            allow_network_mounts: true,
            tells_existing: true,
            include_entry: false,
        };
        let me = User::current();
        drop(cell.watch(&request, &[]).await);
        drop(cell.watch(&directory(), KNOWS).await);
        let [far, near] = <[_; 2]>::try_from(cell.sandbox.watches.specs()).unwrap();
        assert_eq!(far.path, me.home.join("y").to_str().unwrap());
        assert_eq!((far.recursive, far.network, far.user), (true, true, None));
        assert!(!far.tells_existing, "that is hangar's own");
        assert_eq!((&*near.path, near.recursive, near.network), ("/d", false, false));
    });
}

#[test]
fn it_starts_once_everything_is_watched_and_nothing_comes_before() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        cell.sandbox.watches.be_slow();
        let mut reader = cell.watch(&directory(), &[("keepalive-ping-interval", "1")]).await;
        cell.sleep_ms(3500).await;
        cell.sandbox.watches.tell(&Change::Ready);
        assert_eq!((reader.next().await, cell.now()), (Told::Start(String::new()), at_ms(3500)));
        assert_eq!((reader.next().await, cell.now()), (Told::KeepAlive, at_ms(4000)));
        // Who knows hangar is told at once that it will be.
        let mut reader = cell.watch(&directory(), KNOWS).await;
        assert_eq!((reader.next().await, cell.now()), (Told::Start("/d".to_owned()), at_ms(4000)));
    });
}

#[test]
fn a_watcher_that_is_asked_is_there_once_everything_is_watched() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        cell.sandbox.watches.be_slow();
        let refused = cell
            .call::<_, CreateWatcherResponse>(
                "filesystem.Filesystem/CreateWatcher",
                &directory(),
                &[("connect-timeout-ms", "1500")],
            )
            .await
            .unwrap_err();
        assert_eq!((refused.code, cell.now()), (Code::DeadlineExceeded, at_ms(1500)));
        assert_eq!(cell.sandbox.watches.open_now(), 0, "who asked is gone");
    });
}

#[test]
fn a_sign_of_life_comes_after_each_silence() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let mut reader = cell.watch(&directory(), &[("keepalive-ping-interval", "2")]).await;
        assert_eq!(reader.next().await, Told::Start(String::new()));
        assert_eq!((reader.next().await, cell.now()), (Told::KeepAlive, at_ms(2000)));
        cell.sleep_ms(1500).await;
        cell.sandbox.watches.event(Kind::Write, "a");
        assert_eq!((reader.next().await, cell.now()), (changed(plain(2, "a")), at_ms(3500)));
        assert_eq!((reader.next().await, cell.now()), (Told::KeepAlive, at_ms(5500)));
    });
}

#[test]
fn a_stream_ends_at_its_time() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let mut reader = started(cell, &[("connect-timeout-ms", "1500")]).await;
        assert_eq!((closed(reader.next().await), cell.now()), (Some(Code::DeadlineExceeded), at_ms(1500)));
        assert_eq!(cell.sandbox.watches.open_now(), 0);
        cell.sandbox.watches.be_slow();
        let mut reader = cell.watch(&directory(), &[("connect-timeout-ms", "500")]).await;
        assert_eq!((closed(reader.next().await), cell.now()), (Some(Code::DeadlineExceeded), at_ms(2000)));
    });
}

#[test]
fn who_leaves_watches_no_longer() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let reader = started(cell, &[]).await;
        assert_eq!(cell.sandbox.watches.open_now(), 1);
        drop(reader);
        cell.sleep_ms(1).await;
        assert_eq!(cell.sandbox.watches.open_now(), 0);
    });
}

#[test]
fn who_takes_nothing_for_60_s_is_let_go_of() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let narrow = Link { capacity: 4096, ..Link::INSTANT };
        let _reader = cell.watch_by(narrow, &directory(), &[]).await;
        for _ in 0..10_000 {
            cell.sandbox.watches.event(Kind::Write, "a name that is not very short");
        }
        cell.sleep_ms(59_000).await;
        assert_eq!(cell.sandbox.watches.open_now(), 1);
        cell.sleep_ms(2000).await;
        assert_eq!(cell.sandbox.watches.open_now(), 0);
    });
}

#[test]
fn what_is_not_watched_has_its_code() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let path = || "/d".to_owned();
        for (error, code) in [
            (WatchError::NotFound(path()), Code::NotFound),
            (WatchError::NotADirectory(path()), Code::InvalidArgument),
            (WatchError::OutsideRoot(path()), Code::PermissionDenied),
            (WatchError::TooManyInstances, Code::ResourceExhausted),
        ] {
            cell.sandbox.watches.refuse_next(error.clone());
            assert_eq!(closed(cell.watch(&directory(), &[]).await.next().await), Some(code), "{error:?}");
            cell.sandbox.watches.refuse_next(error);
            assert_eq!(create(cell, &directory()).await.unwrap_err().code, code);
        }
        let nobody = [("authorization", "Basic bm8tc3VjaC11c2VyOg==")];
        let mut refused = cell.watch(&directory(), &nobody).await;
        assert_eq!(closed(refused.next().await), Some(Code::Unauthenticated));
        let request = WatchDirRequest { path: "~x".to_owned(), ..directory() };
        assert_eq!(closed(cell.watch(&request, &[]).await.next().await), Some(Code::InvalidArgument));
        for bad in ["", "0", "2", "true"] {
            let Told::Closed(Some(error)) =
                cell.watch(&directory(), &[("hangar-watch", bad)]).await.next().await
            else {
                panic!("{bad:?} is taken");
            };
            assert_eq!(error.code, Code::InvalidArgument);
            assert!(error.message.starts_with("hangar-watch: "), "{error}");
        }
    });
}

#[test]
fn lost_changes_end_the_stream_of_who_has_no_word_for_it() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let mut reader = started(cell, &[]).await;
        cell.sandbox.watches.event(Kind::Create, "before");
        cell.sandbox.watches.tell(&Change::Event(Event::overflow()));
        cell.sandbox.watches.event(Kind::Create, "after");
        assert_eq!(reader.next().await, changed(plain(1, "before")));
        assert_eq!(closed(reader.next().await), Some(Code::ResourceExhausted));
        assert_eq!(cell.sandbox.watches.open_now(), 0);
        let mut reader = started(cell, &[]).await;
        cell.sandbox.watches.tell(&Change::Broken(WatchError::TooManyDirectories(7)));
        assert_eq!(closed(reader.next().await), Some(Code::ResourceExhausted));
    });
}

#[test]
fn so_many_directories_are_watched_and_no_more() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let (mut readers, mut watchers) = (Vec::new(), Vec::new());
        for _ in 0..32 {
            readers.push(started(cell, &[]).await);
            watchers.push(create(cell, &directory()).await.unwrap());
        }
        let refused = async || {
            let of_stream = closed(cell.watch(&directory(), &[]).await.next().await);
            let of_watcher = create(cell, &directory()).await.unwrap_err().code;
            assert_eq!((of_stream, of_watcher), (Some(Code::ResourceExhausted), Code::ResourceExhausted));
        };
        refused().await;
        assert_eq!(cell.sandbox.watches.open_now(), 64);
        readers.pop();
        cell.sleep_ms(1).await;
        watchers.push(create(cell, &directory()).await.unwrap());
        refused().await;
        let _: Empty = cell.call("filesystem.Filesystem/RemoveWatcher", &watchers[0], &[]).await.unwrap();
        readers.push(started(cell, &[]).await);
        refused().await;
    });
}

#[test]
fn a_watcher_tells_what_changed_since_it_was_asked_last() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let watcher = create(cell, &directory()).await.unwrap();
        assert!(watcher.watcher_id.starts_with('w') && watcher.watcher_id.len() > 30, "{watcher:?}");
        assert_eq!(events(cell, &watcher).await, Ok(vec![]));
        cell.sandbox.watches.event(Kind::Create, "a");
        cell.sandbox.watches.tell(&rename());
        let told = vec![plain(1, "a"), plain(4, "a"), plain(1, "b\u{fffd}")];
        assert_eq!(events(cell, &watcher).await, Ok(told));
        assert_eq!(events(cell, &watcher).await, Ok(vec![]));
        // Two do not take from each other.
        let other = create(cell, &directory()).await.unwrap();
        cell.sandbox.watches.tell(&Change::Ended(End::Removed));
        for watcher in [&watcher, &other] {
            assert_eq!(events(cell, watcher).await, Ok(vec![plain(3, ".")]));
            assert_eq!(events(cell, watcher).await, Ok(vec![]), "it is known until it is removed");
        }
        let _: Empty = cell.call("filesystem.Filesystem/RemoveWatcher", &watcher, &[]).await.unwrap();
        for method in ["RemoveWatcher", "GetWatcherEvents"] {
            let unknown: Result<Empty, _> =
                cell.call(&format!("filesystem.Filesystem/{method}"), &watcher, &[]).await;
            let unknown = unknown.unwrap_err();
            assert_eq!(unknown.code, Code::NotFound);
            assert!(unknown.message.starts_with("watcherId: "), "{unknown}");
        }
        assert_eq!(events(cell, &other).await, Ok(vec![]));
    });
}

#[test]
fn a_watcher_that_is_removed_watches_nothing_at_once() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let watcher = create(cell, &directory()).await.unwrap();
        assert_eq!(cell.sandbox.watches.open_now(), 1);
        let tasks = cell.runtime.tasks();
        let _: Empty = cell.call("filesystem.Filesystem/RemoveWatcher", &watcher, &[]).await.unwrap();
        assert_eq!(cell.sandbox.watches.open_now(), 0);
        cell.sleep_ms(1).await;
        assert!(cell.runtime.tasks() < tasks, "nobody drives it");
    });
}

#[test]
fn a_watcher_that_nobody_asks_for_an_hour_is_removed() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let watcher = create(cell, &directory()).await.unwrap();
        for _ in 0..2 {
            cell.sleep_ms(3_599_998).await;
            assert_eq!(events(cell, &watcher).await, Ok(vec![]));
        }
        cell.sleep_ms(3_599_999).await;
        assert_eq!(cell.sandbox.watches.open_now(), 1);
        assert_eq!(events(cell, &watcher).await, Err(Code::NotFound));
        assert_eq!(cell.sandbox.watches.open_now(), 0);
    });
}

#[test]
fn more_than_may_wait_is_lost_and_that_is_said_from_then_on() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let watcher = create(cell, &directory()).await.unwrap();
        let fill = |count: usize| (0..count).for_each(|_| cell.sandbox.watches.event(Kind::Write, "a"));
        fill(8192);
        assert_eq!(events(cell, &watcher).await.unwrap().len(), 8192);
        fill(8193);
        for _ in 0..2 {
            assert_eq!(events(cell, &watcher).await, Err(Code::ResourceExhausted));
        }
        assert_eq!(cell.sandbox.watches.open_now(), 0, "what nobody can be told is not watched");
        let _: Empty = cell.call("filesystem.Filesystem/RemoveWatcher", &watcher, &[]).await.unwrap();
        // So it is with what the sandbox has lost.
        let watcher = create(cell, &directory()).await.unwrap();
        cell.sandbox.watches.event(Kind::Create, "before");
        cell.sandbox.watches.tell(&Change::Event(Event::overflow()));
        for _ in 0..2 {
            assert_eq!(events(cell, &watcher).await, Err(Code::ResourceExhausted));
        }
    });
}

#[test]
fn long_names_that_wait_are_bounded_as_well() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let watcher = create(cell, &directory()).await.unwrap();
        let name = Bytes::from("n".repeat(4096));
        let fill = |count: usize| {
            (0..count).for_each(|_| {
                cell.sandbox.watches.tell(&Change::Event(Event::new(Kind::Write, name.clone())))
            });
        };
        fill(1024);
        assert_eq!(events(cell, &watcher).await.unwrap().len(), 1024);
        fill(1025);
        assert_eq!(events(cell, &watcher).await, Err(Code::ResourceExhausted));
    });
}

#[test]
fn what_is_there_is_told_with_what_was_made_or_changed() {
    let folder = Folder::new();
    fs::write(folder.file("f"), "12345").unwrap();
    let request = WatchDirRequest {
        path: folder.path().to_str().unwrap().to_owned(),
        include_entry: true,
        ..WatchDirRequest::default()
    };
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let mut reader = cell.watch(&request, &[]).await;
        let watcher = create(cell, &request).await.unwrap();
        assert_eq!(reader.next().await, Told::Start(String::new()));
        for kind in [Kind::Create, Kind::Write, Kind::Remove, Kind::Chmod] {
            cell.sandbox.watches.event(kind, "f");
        }
        cell.sandbox.watches.event(Kind::Create, "gone");
        cell.sandbox.watches.event(Kind::Chmod, ".");
        cell.sandbox.watches.tell(&Change::Ended(End::Removed));
        let polled = events(cell, &watcher).await.unwrap();
        for event in polled {
            assert_eq!(reader.next().await, changed(event.clone()));
            let entry = event.entry.map(|entry| (entry.path, entry.size));
            let path = folder.path().to_str().unwrap();
            match (event.kind, &*event.name) {
                (1 | 2 | 5, "f") => assert_eq!(entry, Some((format!("{path}/f"), 5))),
                (5, ".") => assert_eq!(entry.unwrap().0, path),
                (3, "f" | ".") | (1, "gone") => assert_eq!(entry, None),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(reader.next().await, Told::Closed(None));
    });
}

#[test]
fn a_daemon_that_ends_says_so() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let mut reader = started(cell, &[]).await;
        create(cell, &directory()).await.unwrap();
        cell.stop();
        assert_eq!(closed(reader.next().await), Some(Code::Unavailable));
    });
}
