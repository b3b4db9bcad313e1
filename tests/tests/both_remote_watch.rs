//! Directories that a daemon watches for a server, over a way that breaks and comes back.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_backends::{
    Runtime, Sandbox as _,
    envd::{Config, EnvdSandbox},
    watching::{Change, WatchError, WatchSpec, Watching},
};
use hangar_core::watch::{End, Event, Kind, Picture};
use hangar_tests::{
    on_both,
    real::{Folder, On, envd::Envd, proxy::Proxy, watching::picture_of},
};
use std::{
    fs,
    future::poll_fn,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

on_both! {
    each_directory_of_a_path_is_told_once
    so_it_is_by_a_daemon_of_e2bs
    what_is_there_is_known_whatever_is_cut
    a_directory_that_goes_while_nobody_looks_is_gone
    what_cannot_be_watched_says_why
}

/// A daemon, and the way to it.
struct Remote {
    proxy: Proxy,
    sandbox: EnvdSandbox,
    _envd: Envd,
}

impl Remote {
    fn new(on: On, runtime: &Arc<dyn Runtime>) -> Self {
        let envd = on.envd();
        let proxy = Proxy::start(envd.address());
        let url = format!("http://{}", proxy.address()).parse().unwrap();
        let config = Config { url, token: None, workdir: None };
        Self { proxy, sandbox: EnvdSandbox::new(Arc::clone(runtime), config), _envd: envd }
    }

    async fn watch(&self, path: &Path, tells_existing: bool) -> Box<dyn Watching> {
        self.sandbox.watch(spec(path, tells_existing)).await.unwrap()
    }
}

fn spec(path: &Path, tells_existing: bool) -> WatchSpec {
    let path = path.to_str().unwrap().to_owned();
    WatchSpec { path, recursive: true, tells_existing, user: None, network: false }
}

fn run(on: On, check: impl AsyncFnOnce(Remote)) {
    match on {
        On::Tokio => {
            let threads = hangar::Threads::new().unwrap();
            let runtime: Arc<dyn Runtime> = Arc::new(threads.runtime());
            threads.block_on(check(Remote::new(on, &runtime)));
            threads.shutdown(Duration::from_secs(1));
        }
        On::Smol | On::Envd | On::Daemonless => {
            let threads = hangar_smol::Threads::new(0).unwrap();
            let runtime: Arc<dyn Runtime> = Arc::new(threads.runtime());
            threads.block_on(check(Remote::new(on, &runtime)));
        }
    }
}

async fn next(watching: &mut Box<dyn Watching>) -> Change {
    poll_fn(|cx| watching.poll_change(cx)).await
}

/// The names that are made until this one is.
async fn created(watching: &mut Box<dyn Watching>, last: &str) -> Vec<String> {
    let mut names = Vec::<String>::new();
    while names.last().is_none_or(|name| name != last) {
        if let Change::Event(Event { kind: Kind::Create, name, .. }) = next(watching).await {
            names.push(String::from_utf8(name.to_vec()).unwrap());
        }
    }
    names
}

async fn each_once(remote: Remote, rounds: u32) {
    let folder = Folder::new();
    let mut watching = remote.watch(folder.path(), false).await;
    assert_eq!(Path::new(watching.path()), folder.path());
    assert_eq!(next(&mut watching).await, Change::Ready);
    for round in 0..rounds {
        let mut expected = vec![round.to_string()];
        for part in ["b", "c", "d", "e", "f", "x"] {
            expected.push(format!("{}/{part}", expected.last().unwrap()));
        }
        fs::create_dir_all(folder.file(&expected[5])).unwrap();
        fs::write(folder.file(&expected[6]), "x").unwrap();
        assert_eq!(created(&mut watching, &expected[6]).await, expected, "each of them once");
    }
}

fn each_directory_of_a_path_is_told_once(on: On) {
    run(on, async |remote: Remote| each_once(remote, 200).await);
}

fn so_it_is_by_a_daemon_of_e2bs(on: On) {
    run(on, async |remote: Remote| {
        remote.proxy.hide_hangar();
        each_once(remote, 20).await;
    });
}

/// Makes, renames and removes directories, as they come.
fn change(top: &Path, step: u32) {
    // Numbers that look like chance, and are the same each time.
    let number = step.wrapping_mul(2_654_435_761) >> 8;
    let place = |number: u32| top.join(format!("{}", number % 7)).join(format!("{}", number / 7 % 5));
    // Much of it cannot be done: that is nothing.
    drop(match number % 5 {
        0 | 1 => fs::create_dir_all(place(number / 5).join("deep")),
        2 => fs::rename(place(number / 5), place(number / 175)),
        3 => fs::remove_dir_all(place(number / 5)),
        _ => fs::rename(top.join(format!("{}", number / 5 % 7)), top.join(format!("{}", number / 35 % 7))),
    });
}

fn what_is_there_is_known_whatever_is_cut(on: On) {
    run(on, async |remote: Remote| {
        let folder = Folder::new();
        change(folder.path(), 0);
        let mut watching = remote.watch(folder.path(), true).await;
        let (top, is_over) = (folder.path().to_owned(), Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&is_over);
        let changing = thread::spawn(move || {
            for step in 0..6000 {
                change(&top, step);
                if step % 500 == 499 {
                    remote.proxy.cut();
                }
                if step % 10 == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            ended.store(true, Ordering::SeqCst);
            // It is told after that, so whoever waits for it knows.
            fs::create_dir(top.join("end")).unwrap();
            remote
        });
        let (mut picture, mut overflows) = (Picture::default(), 0);
        while !is_over.load(Ordering::SeqCst) || picture != picture_of(folder.path()) {
            match next(&mut watching).await {
                Change::Event(event) => {
                    overflows += u32::from(event.kind == Kind::Overflow);
                    let is_known = event.kind == Kind::Create && picture.contains(&event.name);
                    assert!(!is_known, "{event:?} is told twice");
                    picture.apply(&event);
                }
                Change::Ready | Change::Blind { .. } => {}
                over @ (Change::Ended(_) | Change::Broken(_)) => panic!("{over:?}"),
            }
        }
        assert!(overflows > 0, "it was cut");
        drop(changing.join().unwrap());
    });
}

fn a_directory_that_goes_while_nobody_looks_is_gone(on: On) {
    run(on, async |remote: Remote| {
        let folder = Folder::new();
        let place = folder.file("place");
        fs::create_dir(&place).unwrap();
        let mut watching = remote.watch(&place, false).await;
        assert_eq!(next(&mut watching).await, Change::Ready);
        remote.proxy.refuse(true);
        remote.proxy.cut();
        fs::remove_dir(&place).unwrap();
        remote.proxy.refuse(false);
        loop {
            match next(&mut watching).await {
                Change::Ended(end) => break assert_eq!(end, End::Removed),
                Change::Event(_) | Change::Ready => {}
                other @ (Change::Blind { .. } | Change::Broken(_)) => panic!("{other:?}"),
            }
        }
    });
}

fn what_cannot_be_watched_says_why(on: On) {
    for is_plain in [false, true] {
        run(on, async |remote: Remote| {
            if is_plain {
                remote.proxy.hide_hangar();
            }
            let folder = Folder::new();
            let (missing, file) = (folder.file("missing"), folder.file("file"));
            fs::write(&file, "").unwrap();
            let shown = |path: &Path| path.to_str().unwrap().to_owned();
            for (path, expected) in [
                (&missing, WatchError::NotFound(shown(&missing))),
                (&file, WatchError::NotADirectory(shown(&file))),
            ] {
                assert_eq!(remote.sandbox.watch(spec(path, false)).await.unwrap_err(), expected);
            }
        });
    }
}
