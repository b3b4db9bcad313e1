//! Directories that a daemon watches for a server, on a virtual clock: hangar's daemon, and what looks like E2B's.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use bytes::Bytes;
use hangar_backends::{
    Sandbox as _,
    envd::{Config, EnvdSandbox},
    watching::{Change, WatchError, WatchSpec, Watching},
};
use hangar_core::watch::{Blind, End, Event, Kind};
use hangar_tests::{
    real::Folder,
    sim::{
        Link,
        cell::{Cell, run_cell},
        world::at_ms,
    },
};
use std::{fs, future::poll_fn, sync::Arc};

fn remote(cell: &Cell) -> EnvdSandbox {
    let url = format!("http://{}", cell.address()).parse().unwrap();
    EnvdSandbox::new(Arc::clone(&cell.runtime) as _, Config { url, token: None, workdir: None })
}

fn directory(path: &str) -> WatchSpec {
    WatchSpec { path: path.to_owned(), recursive: true, tells_existing: false, user: None, network: false }
}

async fn next(watching: &mut Box<dyn Watching>) -> Change {
    poll_fn(|cx| watching.poll_change(cx)).await
}

async fn all_of(watching: &mut Box<dyn Watching>, expected: &[Change]) {
    for change in expected {
        assert_eq!(&next(watching).await, change);
    }
}

fn event(kind: Kind, name: &'static str) -> Change {
    Change::Event(Event::new(kind, Bytes::from_static(name.as_bytes())))
}

fn rename(from: &'static [u8], to: &'static [u8]) -> Change {
    Change::Event(Event::rename(Bytes::from_static(from), Bytes::from_static(to)))
}

fn overflow() -> Change {
    Change::Event(Event::overflow())
}

#[test]
fn everything_that_a_daemon_of_hangars_tells_arrives_as_it_is() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        cell.sandbox.watches.set_existing(["there"]);
        let sandbox = remote(cell);
        let spec = WatchSpec { tells_existing: true, network: true, ..directory("/d") };
        let mut watching = sandbox.watch(spec.clone()).await.unwrap();
        assert_eq!((watching.path(), cell.sandbox.watches.specs()), ("/d", vec![spec]));
        all_of(&mut watching, &[event(Kind::Create, "there"), Change::Ready]).await;
        let said = [
            event(Kind::Create, "a"),
            event(Kind::Write, "a"),
            rename(b"a", b"\xff"),
            Change::Blind { name: Bytes::from_static(b"\xfe"), why: Blind::Twice },
            overflow(),
            event(Kind::Chmod, "."),
            event(Kind::Remove, "a"),
            Change::Ended(End::Unmounted),
        ];
        said.iter().for_each(|change| cell.sandbox.watches.tell(change));
        all_of(&mut watching, &said).await;
    });
}

#[test]
fn a_relative_path_is_below_where_commands_run() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let url = format!("http://{}", cell.address()).parse().unwrap();
        let config = Config { url, token: None, workdir: Some("/home/x/".to_owned()) };
        let sandbox = EnvdSandbox::new(Arc::clone(&cell.runtime) as _, config);
        for (path, expected) in [("a/b", "/home/x/a/b"), (".", "/home/x"), ("/d", "/d")] {
            assert_eq!(sandbox.watch(directory(path)).await.unwrap().path(), expected);
        }
        let empty = sandbox.watch(directory("")).await.unwrap_err();
        assert_eq!(empty, WatchError::BadPath("it is empty".to_owned()));
    });
}

#[test]
fn a_cut_is_an_overflow_and_what_is_there() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let sandbox = remote(cell);
        let mut watching = sandbox.watch(directory("/d")).await.unwrap();
        all_of(&mut watching, &[Change::Ready]).await;
        for _ in 0..3 {
            cell.sandbox.watches.set_existing(["x", "x/y"]);
            cell.runtime.network().cut_opened();
            let anew = [overflow(), event(Kind::Create, "x"), event(Kind::Create, "x/y"), Change::Ready];
            all_of(&mut watching, &anew).await;
            cell.sandbox.watches.event(Kind::Write, "x/y");
            all_of(&mut watching, &[event(Kind::Write, "x/y")]).await;
        }
        assert_eq!(cell.sandbox.watches.open_now(), 1, "those before are let go of");
    });
}

#[test]
fn a_cut_at_any_byte_is_one_as_well() {
    let mut overflows = Vec::new();
    for cut in 0..700 {
        run_cell(0, Link::INSTANT, async |cell: &Cell| {
            cell.sandbox.watches.set_existing(["x"]);
            let sandbox = remote(cell);
            // By the first one the daemon is asked what it is.
            cell.runtime.network().cut_next([usize::MAX, cut]);
            let spec = WatchSpec { tells_existing: true, ..directory("/d") };
            let mut watching = sandbox.watch(spec).await.unwrap();
            let mut is_there = false;
            loop {
                let change = next(&mut watching).await;
                if change == Change::Ready {
                    break;
                }
                if change == overflow() {
                    is_there = false;
                    overflows.push(cut);
                    continue;
                }
                assert_eq!(change, event(Kind::Create, "x"), "cut after {cut}");
                assert!(!std::mem::replace(&mut is_there, true), "told twice, cut after {cut}");
            }
            assert!(is_there, "cut after {cut}");
        });
    }
    assert!(!overflows.is_empty() && !overflows.contains(&699), "where it is cut: {overflows:?}");
}

#[test]
fn what_is_told_anew_is_an_overflow_and_what_is_there() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let sandbox = remote(cell);
        let mut watching = sandbox.watch(directory("/d")).await.unwrap();
        all_of(&mut watching, &[Change::Ready]).await;
        cell.sandbox.watches.set_existing(["x"]);
        // Somebody waits already.
        let waiting = cell.runtime.task(async move {
            watching.retell();
            let anew = [overflow(), event(Kind::Create, "x"), Change::Ready];
            all_of(&mut watching, &anew).await;
        });
        waiting.await;
    });
}

#[test]
fn a_directory_that_is_not_there_any_more_after_a_cut_was_removed() {
    for error in [WatchError::NotFound("/d".to_owned()), WatchError::NotADirectory("/d".to_owned())] {
        run_cell(0, Link::INSTANT, async |cell: &Cell| {
            let sandbox = remote(cell);
            let mut watching = sandbox.watch(directory("/d")).await.unwrap();
            all_of(&mut watching, &[Change::Ready]).await;
            cell.sandbox.watches.refuse_next(error.clone());
            cell.runtime.network().cut_opened();
            all_of(&mut watching, &[Change::Ended(End::Removed)]).await;
        });
    }
}

#[test]
fn why_it_is_not_watched_is_said_as_the_daemon_says_it() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let sandbox = remote(cell);
        let path = || "/d".to_owned();
        for error in [
            WatchError::NotFound(path()),
            WatchError::NotADirectory(path()),
            WatchError::Denied(path()),
            WatchError::OutsideRoot(path()),
            WatchError::Network(path()),
            WatchError::BadPath("it is too long".to_owned()),
            WatchError::BadUser("there is no user x".to_owned()),
            WatchError::TooManyWatches,
            WatchError::TooManyInstances,
            WatchError::TooManyDirectories(8192),
        ] {
            cell.sandbox.watches.refuse_next(error.clone());
            assert_eq!(sandbox.watch(directory("/d")).await.unwrap_err(), error);
            // It may be found out later, too.
            let mut watching = sandbox.watch(directory("/d")).await.unwrap();
            all_of(&mut watching, &[Change::Ready]).await;
            cell.sandbox.watches.tell(&Change::Broken(error.clone()));
            all_of(&mut watching, &[Change::Broken(error)]).await;
        }
        let mut watches = Vec::new();
        for _ in 0..64 {
            watches.push(sandbox.watch(directory("/d")).await.unwrap());
        }
        let full = sandbox.watch(directory("/d")).await.unwrap_err();
        assert!(matches!(full, WatchError::Exhausted(_)), "{full:?}");
    });
}

#[test]
fn a_daemon_that_stays_away_is_waited_for_ten_minutes() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let sandbox = remote(cell);
        let mut watching = sandbox.watch(directory("/d")).await.unwrap();
        all_of(&mut watching, &[Change::Ready]).await;
        cell.stop();
        let Change::Broken(WatchError::Broken(_)) = next(&mut watching).await else { panic!("it goes on") };
        let waited = cell.now().since(at_ms(0)).as_secs();
        assert!((600..640).contains(&waited), "{waited} s");
        assert!(matches!(sandbox.watch(directory("/d")).await, Err(WatchError::Broken(_))));
    });
}

#[test]
fn a_sandbox_that_is_destroyed_watches_nothing() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let sandbox = remote(cell);
        let mut watching = sandbox.watch(directory("/d")).await.unwrap();
        all_of(&mut watching, &[Change::Ready]).await;
        let waiting = cell.runtime.task(async move { next(&mut watching).await });
        cell.sleep_ms(10).await;
        sandbox.destroy().await.unwrap();
        assert_eq!(waiting.await, Change::Broken(WatchError::Destroyed));
        assert_eq!(cell.now(), at_ms(10), "whoever waits is woken");
        assert_eq!(sandbox.watch(directory("/d")).await.unwrap_err(), WatchError::Destroyed);
    });
}

#[test]
fn who_lets_go_of_it_watches_no_longer() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let sandbox = remote(cell);
        let watching = sandbox.watch(directory("/d")).await.unwrap();
        assert_eq!(cell.sandbox.watches.open_now(), 1);
        drop(watching);
        cell.sleep_ms(1).await;
        assert_eq!(cell.sandbox.watches.open_now(), 0);
    });
}

#[test]
fn what_a_daemon_of_e2bs_tells_is_folded() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        cell.runtime.network().hide_hangar();
        let sandbox = remote(cell);
        let mut watching = sandbox.watch(directory("/d")).await.unwrap();
        assert_eq!(watching.path(), "/d");
        all_of(&mut watching, &[Change::Ready]).await;
        let said = [
            event(Kind::Create, "a"),
            event(Kind::Create, "a"),
            rename(b"a", b"b"),
            event(Kind::Remove, "b"),
            event(Kind::Remove, "b"),
            event(Kind::Rename, "out"),
        ];
        said.iter().for_each(|change| cell.sandbox.watches.tell(change));
        let told = [
            event(Kind::Create, "a"),
            rename(b"a", b"b"),
            event(Kind::Remove, "b"),
            event(Kind::Remove, "out"),
        ];
        all_of(&mut watching, &told).await;
        assert_eq!(cell.now(), at_ms(20), "as long as the other half is waited for");
        // Half a rename is settled by the end.
        cell.sandbox.watches.event(Kind::Rename, "half");
        cell.sandbox.watches.tell(&Change::Ended(End::Moved));
        all_of(&mut watching, &[event(Kind::Remove, "half"), Change::Ended(End::Removed)]).await;
    });
}

#[test]
fn what_is_there_with_a_daemon_of_e2bs_is_listed() {
    let folder = Folder::new();
    fs::create_dir(folder.file("a")).unwrap();
    fs::write(folder.file("a").join("x"), "").unwrap();
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        cell.runtime.network().hide_hangar();
        let sandbox = remote(cell);
        let path = folder.path().to_str().unwrap();
        let there = [event(Kind::Create, "a"), event(Kind::Create, "a/x"), Change::Ready];
        let spec = WatchSpec { tells_existing: true, ..directory(path) };
        let mut watching = sandbox.watch(spec.clone()).await.unwrap();
        all_of(&mut watching, &there).await;
        // What was made before it was listed is told once.
        cell.sandbox.watches.event(Kind::Create, "a/x");
        cell.sandbox.watches.event(Kind::Write, "a/x");
        all_of(&mut watching, &[event(Kind::Write, "a/x")]).await;
        // E2B's ends its streams when it has lost something.
        cell.sandbox.watches.tell(&overflow());
        all_of(&mut watching, &[overflow()]).await;
        all_of(&mut watching, &there).await;
        let flat = WatchSpec { recursive: false, ..spec };
        let mut watching = sandbox.watch(flat).await.unwrap();
        all_of(&mut watching, &[event(Kind::Create, "a"), Change::Ready]).await;
    });
}

#[test]
fn a_daemon_of_e2bs_is_asked_where_a_relative_path_leads() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        cell.runtime.network().hide_hangar();
        let sandbox = remote(cell);
        let home = hangar_backends::local::User::current().home;
        let watching = sandbox.watch(directory("~")).await.unwrap();
        assert_eq!(watching.path(), home.to_str().unwrap());
        let missing = sandbox.watch(directory("~/no/such/directory")).await.unwrap_err();
        assert_eq!(missing, WatchError::NotFound("~/no/such/directory".to_owned()));
    });
}
