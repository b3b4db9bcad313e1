//! Files below one directory, and nothing else.
#![cfg(feature = "local")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/folder.rs"]
mod folder;

use folder::{Ends, Folder, names, write};
use hangar_backends::local::{
    User,
    files::{FileError, Files, Kind},
};
use std::{
    fs,
    os::{fd::AsRawFd, unix::fs::symlink},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

/// A folder with a root in it, and a secret beside that.
fn rooted() -> (Folder, Files, User) {
    let folder = Folder::new();
    folder.file("secret/file", "secret");
    folder.file("root/dir/file", "served");
    let files = Files::new(Some(folder.at("root"))).unwrap();
    (folder, files, User::current())
}

#[test]
fn a_path_within_is_what_the_client_sees() {
    let (folder, files, user) = rooted();
    let entry = files.stat(&user, &folder.at("root/dir/file")).unwrap();
    assert_eq!((entry.path, entry.size), (folder.text("root/dir/file"), 6));
    let top = files.stat(&user, &folder.at("root")).unwrap();
    assert_eq!((top.name.as_str(), top.path, top.kind), ("root", folder.text("root"), Some(Kind::Directory)));
    let entries = files.list(&user, &folder.at("root"), 9, 9).unwrap();
    assert_eq!(names(&entries, &folder.0), ["root/dir", "root/dir/file"]);
    assert_eq!(files.make_dir(&user, &folder.at("root/a/b")).unwrap().path, folder.text("root/a/b"));
    write(&files, &user, &folder.at("root/c/new"), b"x").unwrap();
    files.rename(&user, &folder.at("root/c"), &folder.at("root/a/c")).unwrap();
    files.compose(&user, &[folder.at("root/a/c/new")], &folder.at("root/d/all")).unwrap();
    assert_eq!(fs::read_to_string(folder.at("root/d/all")).unwrap(), "x");
    files.remove(&user, &folder.at("root/a")).unwrap();
    // The root itself stays.
    let denied = FileError::Denied(folder.text("root"));
    assert_eq!(files.remove(&user, &folder.at("root")), Err(denied.clone()));
    assert_eq!(files.rename(&user, &folder.at("root"), &folder.at("root/x")), Err(denied));
    let exists = FileError::Exists(folder.text("root"));
    assert_eq!(files.make_dir(&user, &folder.at("root")), Err(exists));
}

#[test]
fn a_directory_to_watch_is_within() {
    let (folder, files, user) = rooted();
    symlink(folder.at("secret"), folder.at("root/out")).unwrap();
    symlink("dir", folder.at("root/in")).unwrap();
    for (path, is_served) in
        [("root", true), ("root/dir", true), ("root/in", true), ("root/out", false), ("secret", false)]
    {
        let checked = files.check_directory(&user, &folder.at(path));
        let expected = if is_served { Ok(()) } else { Err(FileError::OutsideRoot(folder.text(path))) };
        assert_eq!(checked, expected);
    }
    let file = folder.at("root/dir/file");
    assert!(matches!(files.check_directory(&user, &file), Err(FileError::NotADirectory(_))));
    assert!(matches!(files.check_directory(&user, &folder.at("root/no")), Err(FileError::NotFound(_))));
    let real = |path: &str| fs::canonicalize(folder.at(path)).unwrap();
    for (path, is_held) in [("root", true), ("root/dir", true), ("secret", false), ("", false)] {
        assert_eq!(files.holds(&real(path)), is_held, "{path}");
    }
    assert!(files.is_fenced());
    let files = Files::new(None).unwrap();
    assert!(files.holds(&real("secret")) && !files.is_fenced());
}

#[test]
fn no_text_of_a_path_leaves() {
    let (folder, files, user) = rooted();
    for path in
        ["secret/file", "root/../secret/file", "root/dir/../../secret/file", "rooted", "/", "/etc/passwd"]
    {
        let path = folder.at(path);
        let shown = match path.to_str().unwrap() {
            "/" => "/".into(),
            path if path.ends_with("secret/file") => folder.text("secret/file"),
            path => path.to_owned(),
        };
        let outside = || FileError::OutsideRoot(shown.clone());
        let inside = folder.at("root/dir/file");
        assert_eq!(files.stat(&user, &path).unwrap_err(), outside());
        assert_eq!(files.list(&user, &path, 1, 9).unwrap_err(), outside());
        assert_eq!(files.open(&user, &path).unwrap_err(), outside());
        assert_eq!(files.create(&user, &path, 0o666).unwrap_err(), outside());
        assert_eq!(files.make_dir(&user, &path).unwrap_err(), outside());
        assert_eq!(files.remove(&user, &path).unwrap_err(), outside());
        assert_eq!(files.rename(&user, &path, &inside).unwrap_err(), outside());
        assert_eq!(files.rename(&user, &inside, &path).unwrap_err(), outside());
        assert_eq!(files.compose(&user, std::slice::from_ref(&path), &inside).unwrap_err(), outside());
        assert_eq!(files.compose(&user, &[inside], &path).unwrap_err(), outside());
    }
    assert_eq!(fs::read_to_string(folder.at("secret/file")).unwrap(), "secret");
}

#[test]
fn no_link_leaves() {
    let (folder, files, user) = rooted();
    symlink("../secret", folder.at("root/relative")).unwrap();
    symlink(folder.at("secret"), folder.at("root/absolute")).unwrap();
    symlink("relative/new", folder.at("root/over")).unwrap();
    symlink("circle", folder.at("root/circle")).unwrap();
    symlink("../../root/dir", folder.at("root/dir/out and in")).unwrap();
    symlink("../dir/./file", folder.at("root/dir/within")).unwrap();
    // That leads out of it, too, and whoever looks knows no other root than all of it.
    symlink(folder.at("root/dir"), folder.at("root/absolute within")).unwrap();
    let before = folder.names();
    for way in ["relative", "absolute", "over", "dir/out and in", "absolute within"] {
        let path = folder.at("root").join(way);
        let outside = |path: &Path| FileError::OutsideRoot(path.to_str().unwrap().into());
        assert_eq!(files.list(&user, &path, 1, 9).unwrap_err(), outside(&path));
        assert_eq!(files.open(&user, &path).unwrap_err(), outside(&path));
        assert_eq!(files.create(&user, &path, 0o666).unwrap_err(), outside(&path));
        assert_eq!(files.make_dir(&user, &path).unwrap_err(), outside(&path));
        for path in [path.join("file"), path.join("no/such")] {
            assert_eq!(files.stat(&user, &path).unwrap_err(), outside(&path));
            assert_eq!(files.create(&user, &path, 0o666).unwrap_err(), outside(&path));
            assert_eq!(files.make_dir(&user, &path).unwrap_err(), outside(&path));
            assert_eq!(files.remove(&user, &path).unwrap_err(), outside(&path));
            let inside = folder.at("root/dir/file");
            assert_eq!(files.rename(&user, &inside, &path).unwrap_err(), outside(&path));
            assert_eq!(files.compose(&user, &[inside], &path).unwrap_err(), outside(&path));
        }
        // The link is there; where it leads is nowhere.
        let entry = files.stat(&user, &path).unwrap();
        let own = Some(path.to_str().unwrap().to_owned());
        assert_eq!((entry.kind, entry.mode, entry.symlink_target), (None, 0, own));
    }
    assert_eq!(folder.names(), before);
    let circle = files.open(&user, &folder.at("root/circle")).unwrap_err();
    assert_eq!(circle, FileError::Loop(folder.text("root/circle")));
    let entry = files.stat(&user, &folder.at("root/dir/within")).unwrap();
    assert_eq!(entry.symlink_target, Some(folder.text("root/dir/file")));
    // It is removed like anything else.
    files.remove(&user, &folder.at("root/relative")).unwrap();
    assert_eq!(fs::read_to_string(folder.at("secret/file")).unwrap(), "secret");
}

#[test]
fn a_root_is_what_it_was_whatever_it_is_called() {
    let (folder, _, user) = rooted();
    symlink("root", folder.at("alias")).unwrap();
    let files = Files::new(Some(folder.at("alias/../alias//"))).unwrap();
    symlink("dir/file", folder.at("root/link")).unwrap();
    let entry = files.stat(&user, &folder.at("alias/link")).unwrap();
    assert_eq!(entry.symlink_target, Some(folder.text("alias/dir/file")));
    let outside = FileError::OutsideRoot(folder.text("root/link"));
    assert_eq!(files.stat(&user, &folder.at("root/link")).unwrap_err(), outside);
    fs::remove_file(folder.at("alias")).unwrap();
    symlink("secret", folder.at("alias")).unwrap();
    assert_eq!(files.stat(&user, &folder.at("alias/dir/file")).unwrap().size, 6);
    assert!(files.stat(&user, &folder.at("alias/file")).is_err());
    assert!(Files::new(Some(folder.at("no"))).is_err());
    assert!(Files::new(Some(folder.at("root/dir/file"))).is_err());
    // The root of all is no bound.
    let all = Files::new(Some("/".into())).unwrap();
    assert_eq!(all.stat(&user, &folder.at("secret/file")).unwrap().size, 6);
}

#[test]
fn a_link_of_proc_leaves() {
    let (folder, _, user) = rooted();
    let file = fs::File::open(folder.at("root/dir/file")).unwrap();
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let proc = Files::new(Some("/proc".into())).unwrap();
    for path in [path, "/proc/self/root/etc/passwd".into(), "/proc/self/cwd".into()] {
        let outside = FileError::OutsideRoot(path.to_str().unwrap().into());
        assert_eq!(proc.open(&user, &path).unwrap_err(), outside);
    }
    assert!(proc.open(&user, Path::new("/proc/self/status")).is_ok());
}

#[test]
fn a_link_that_is_swapped_in_never_leads_out() {
    let (folder, files, user) = rooted();
    symlink("dir", folder.at("root/way")).unwrap();
    symlink("../dir/file", folder.at("root/dir/through")).unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Ends(&ended);
        scope.spawn(|| {
            let (way, spare) = (folder.at("root/way"), folder.at("root/spare"));
            let mut out = false;
            while !ended.load(Ordering::Relaxed) {
                out = !out;
                symlink(if out { "../secret" } else { "dir" }, &spare).unwrap();
                fs::rename(&spare, &way).unwrap();
            }
        });
        scope.spawn(|| {
            // A directory that is renamed while a link goes through `..`.
            while !ended.load(Ordering::Relaxed) {
                drop(fs::rename(folder.at("root/dir"), folder.at("root/other")));
                drop(fs::rename(folder.at("root/other"), folder.at("root/dir")));
            }
        });
        for _ in 0..3000 {
            for path in ["root/way/file", "root/dir/through"] {
                match files.open(&user, &folder.at(path)) {
                    Ok((file, _)) => assert_eq!(std::io::read_to_string(file).unwrap(), "served"),
                    Err(FileError::OutsideRoot(told) | FileError::NotFound(told)) => {
                        assert_eq!(told, folder.text(path));
                    }
                    // Renamed again each time that it was looked up.
                    Err(FileError::Io(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            for name in ["new/file", "new"] {
                // Wherever it is made, it is not outside.
                drop(files.create(&user, &folder.at("root/way").join(name), 0o666));
                drop(files.remove(&user, &folder.at("root/way/new")));
            }
        }
    });
    assert_eq!(fs::read_dir(folder.at("secret")).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(folder.at("secret/file")).unwrap(), "secret");
}
