//! Files of this machine: removing, and trees that are deep or change.
#![cfg(feature = "local")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/folder.rs"]
mod folder;

use folder::{Ends, Folder, everything, mkfifo};
use hangar_backends::local::{User, files::FileError};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// Makes a tree deeper than a path can be long, with a file at every level.
fn deep(folder: &Path, depth: u32) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut directory = openat(CWD, folder, flags, Mode::empty()).unwrap();
    for _ in 0..depth {
        let new = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        drop(openat(&directory, "f", new, Mode::RUSR).unwrap());
        mkdirat(&directory, "d", Mode::RWXU).unwrap();
        directory = openat(&directory, "d", flags, Mode::empty()).unwrap();
    }
}

#[test]
fn a_file_a_link_and_nothing_are_removed() {
    let (folder, (files, user)) = (Folder::new(), everything());
    folder.file("dir/file", "");
    folder.file("file", "");
    symlink("dir", folder.at("link")).unwrap();
    symlink("nowhere", folder.at("broken")).unwrap();
    mkfifo(&folder.at("fifo"));
    let remove = |path: &str| files.remove(&user, &folder.at(path));
    for path in ["file", "link", "broken", "fifo", "no", "no/such/thing"] {
        assert_eq!(remove(path), Ok(()), "{path}");
    }
    assert_eq!(folder.names(), ["dir", "dir/file"]);
    assert_eq!(remove("dir/file/x"), Err(FileError::NotADirectory(folder.text("dir/file/x"))));
    let long = "n".repeat(256);
    assert_eq!(remove(&long), Err(FileError::TooLong(folder.text(&long))));
    // By no way.
    assert_eq!(remove("/"), Err(FileError::Denied("/".into())));
    assert_eq!(remove("/../."), Err(FileError::Denied("/".into())));
}

#[test]
fn a_home_is_not_removed() {
    let (folder, (files, user)) = (Folder::new(), everything());
    folder.file("home/ann/file", "");
    let ann = User { home: folder.at("home/./ann/"), ..user };
    let home = FileError::Home(folder.text("home/ann"));
    for path in ["home/ann", "home/ann/", "home/x/../ann/."] {
        assert_eq!(files.remove(&ann, &folder.at(path)), Err(home.clone()), "{path}");
    }
    assert_eq!(folder.names(), ["home", "home/ann", "home/ann/file"]);
    assert_eq!(files.remove(&ann, &folder.at("home/ann/file")), Ok(()));
}

#[test]
fn a_tree_is_removed_and_no_link_in_it_is_followed() {
    let (folder, (files, user)) = (Folder::new(), everything());
    folder.file("outside/file", "kept");
    for path in ["tree/a/b/1", "tree/a/2", "tree/c/d/e/3"] {
        folder.file(path, "");
    }
    fs::create_dir(folder.at("tree/empty")).unwrap();
    symlink("../../outside", folder.at("tree/a/link")).unwrap();
    symlink(folder.at("outside/file"), folder.at("tree/absolute")).unwrap();
    symlink("..", folder.at("tree/up")).unwrap();
    for number in 0..3000 {
        fs::write(folder.at(format!("tree/c/d/{number}")), "").unwrap();
    }
    files.remove(&user, &folder.at("tree")).unwrap();
    assert_eq!(folder.names(), ["outside", "outside/file"]);
}

#[test]
fn a_tree_of_ten_thousand_levels_is_removed_and_listed_as_far_as_paths_go() {
    let (folder, (files, user)) = (Folder::in_memory(), everything());
    fs::create_dir(folder.at("tree")).unwrap();
    deep(&folder.at("tree"), 10_000);
    let entries = files.list(&user, &folder.at("tree"), u32::MAX, 100_000).unwrap();
    assert!(entries.len() > 2000, "{}", entries.len());
    assert!(entries.iter().all(|entry| entry.path.len() <= 4097));
    files.remove(&user, &folder.at("tree")).unwrap();
    assert_eq!(folder.names(), Vec::<String>::new());
}

#[test]
fn a_tree_that_changes_is_removed_and_nothing_else_is() {
    let (folder, (files, user)) = (Folder::new(), everything());
    let kept = folder.file("kept/a/b/file", "kept");
    let (ended, moved) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let _ends = Ends(&ended);
        // One makes, moves out what is below, and puts links there that lead to what is to stay.
        scope.spawn(|| {
            let (tree, aside) = (folder.at("tree"), folder.at("aside"));
            let levels: Vec<String> = ('a'..='z').map(String::from).collect();
            for cut in (2..levels.len()).cycle() {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                let deep = tree.join(levels.join("/"));
                let part = tree.join(levels[..cut].join("/"));
                // Each of these may fail, as the other thread is at it, too.
                drop(fs::create_dir_all(&deep));
                drop(fs::write(deep.join("file"), ""));
                if fs::rename(&part, &aside).is_ok() {
                    moved.fetch_add(1, Ordering::Relaxed);
                    drop(symlink(folder.at("kept"), &part));
                    drop(fs::remove_file(&part));
                    drop(fs::rename(&aside, &part));
                }
                drop(fs::remove_dir_all(&aside));
            }
        });
        while moved.load(Ordering::Relaxed) < 1000 {
            match files.remove(&user, &folder.at("tree")) {
                Ok(()) => {}
                Err(FileError::Io(error)) => {
                    assert_eq!(error, folder.text("tree") + ": it changes while it is removed");
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert_eq!(fs::read_to_string(kept).unwrap(), "kept");
    files.remove(&user, &folder.at("tree")).unwrap();
    files.remove(&user, &folder.at("aside")).unwrap();
    assert_eq!(folder.names(), ["kept", "kept/a", "kept/a/b", "kept/a/b/file"]);
}

#[test]
fn many_remove_the_same_tree() {
    let (folder, (files, user)) = (Folder::new(), everything());
    for _ in 0..20 {
        for number in 0..40 {
            folder.file(&format!("tree/{}/{}/{number}", number % 4, number % 3), "");
        }
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(files.remove(&user, &folder.at("tree")), Ok(())));
            }
        });
        assert_eq!(folder.names(), Vec::<String>::new());
    }
}
