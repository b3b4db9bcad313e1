//! Files of this machine: what is told of them, reading, listing, and directories.
#![cfg(feature = "local")]

#[path = "support/folder.rs"]
mod folder;

use folder::{Folder, everything, mkfifo, names, unmasked};
use hangar_backends::local::files::{Entry, FileError, Kind};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, Permissions},
    io::Read,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
};

/// 255 bytes, as long as a name may be.
fn longest() -> String {
    "n".repeat(255)
}

// Stat.

#[test]
fn a_file_is_told_as_it_is() {
    let (folder, (files, user)) = (Folder::new(), everything());
    let path = folder.file("a file", "hello");
    fs::set_permissions(&path, Permissions::from_mode(0o4751)).unwrap();
    let found = fs::metadata(&path).unwrap();
    let group = files.stat(&user, &folder.0).unwrap().group;
    let entry = Entry {
        name: "a file".into(),
        kind: Some(Kind::File),
        path: folder.text("a file"),
        size: 5,
        mode: 0o751,
        permissions: "urwxr-x--x".into(),
        owner: user.name.clone(),
        group,
        modified: (found.mtime(), u32::try_from(found.mtime_nsec()).unwrap()),
        symlink_target: None,
        metadata: BTreeMap::new(),
    };
    assert_eq!(files.stat(&user, &path), Ok(entry));
    // Whatever way its path is written.
    let odd = PathBuf::from(folder.text("./x/..//a file/"));
    assert_eq!(files.stat(&user, &odd).unwrap().path, folder.text("a file"));
}

#[test]
fn directories_and_what_is_no_file_are_told_apart() {
    let (folder, (files, user)) = (Folder::new(), everything());
    mkfifo(&folder.at("fifo"));
    let _listener = UnixListener::bind(folder.at("socket")).unwrap();
    let told = |path: &Path| {
        let entry = files.stat(&user, path).unwrap();
        (entry.kind, entry.permissions.chars().take_while(|letter| *letter != 'r').collect::<String>())
    };
    assert_eq!(told(&folder.0), (Some(Kind::Directory), "d".into()));
    assert_eq!(told(&folder.at("fifo")), (None, "p".into()));
    assert_eq!(told(&folder.at("socket")), (None, "S".into()));
    assert_eq!(told(Path::new("/dev/null")), (None, "Dc".into()));
    let top = files.stat(&user, Path::new("/")).unwrap();
    assert_eq!((top.name.as_str(), top.path.as_str(), top.kind), ("/", "/", Some(Kind::Directory)));
}

#[test]
fn a_link_has_the_kind_of_where_it_leads_and_the_rest_of_its_own() {
    let (folder, (files, user)) = (Folder::new(), everything());
    fs::set_permissions(folder.file("dir/file", "hello"), Permissions::from_mode(0o640)).unwrap();
    symlink("dir", folder.at("way")).unwrap();
    symlink("way/file", folder.at("link")).unwrap();
    symlink("nowhere", folder.at("broken")).unwrap();
    symlink("circle", folder.at("circle")).unwrap();
    let told = |name: &str| {
        let entry = files.stat(&user, &folder.at(name)).unwrap();
        assert_eq!(entry.permissions, "Lrwxrwxrwx");
        assert_eq!((entry.name.as_str(), entry.path), (name, folder.text(name)));
        (entry.kind, entry.mode, entry.size, entry.symlink_target.unwrap())
    };
    assert_eq!(told("link"), (Some(Kind::File), 0o640, 8, folder.text("dir/file")));
    assert_eq!(told("way"), (Some(Kind::Directory), unmasked(0o777), 3, folder.text("dir")));
    assert_eq!(told("broken"), (None, 0, 7, folder.text("broken")));
    assert_eq!(told("circle"), (None, 0, 6, folder.text("circle")));
    // On the way there they are followed.
    assert_eq!(files.stat(&user, &folder.at("way/file")).unwrap().path, folder.text("way/file"));
}

#[test]
fn what_cannot_be_found_says_so() {
    let (folder, (files, user)) = (Folder::new(), everything());
    folder.file("file", "");
    symlink("circle", folder.at("circle")).unwrap();
    let error = |path: &str| files.stat(&user, &folder.at(path)).unwrap_err();
    assert_eq!(error("no"), FileError::NotFound(folder.text("no")));
    assert_eq!(error("no/such"), FileError::NotFound(folder.text("no/such")));
    assert_eq!(error("file/x"), FileError::NotADirectory(folder.text("file/x")));
    assert_eq!(error("circle/x"), FileError::Loop(folder.text("circle/x")));
    let long = "n".repeat(256);
    assert_eq!(error(&long), FileError::TooLong(folder.text(&long)));
    let long = "n/".repeat(2100) + "n";
    assert_eq!(error(&long), FileError::TooLong(folder.text(&long)));
    assert_eq!(error("nul\0"), FileError::Io(folder.text("nul\0") + ": Invalid argument (os error 22)"));
    // What the client did not name is in no message.
    assert_eq!(error("no").to_string(), folder.text("no") + ": no such file or directory");
}

// Lists.

#[test]
fn a_list_goes_before_and_in_the_order_of_bytes() {
    let (folder, (files, user)) = (Folder::new(), everything());
    for path in ["b/2/deep/er", "b/10", "a/x", "a.txt", "Z", "ä", "b.txt"] {
        folder.file(path, "");
    }
    fs::create_dir(folder.at("empty")).unwrap();
    let list = |depth| names(&files.list(&user, &folder.0, depth, 100).unwrap(), &folder.0);
    let one = ["Z", "a", "a.txt", "b", "b.txt", "empty", "ä"];
    assert_eq!((list(0), list(1)), (one.map(String::from).into(), one.map(String::from).into()));
    let two = ["Z", "a", "a/x", "a.txt", "b", "b/10", "b/2", "b.txt", "empty", "ä"];
    assert_eq!(list(2), two);
    let all =
        ["Z", "a", "a/x", "a.txt", "b", "b/10", "b/2", "b/2/deep", "b/2/deep/er", "b.txt", "empty", "ä"];
    assert_eq!((list(4), list(u32::MAX)), (all.map(String::from).into(), all.map(String::from).into()));
    assert_eq!(files.list(&user, &folder.at("empty"), 9, 0), Ok(vec![]));
}

#[test]
fn a_list_follows_its_own_link_and_no_other() {
    let (folder, (files, user)) = (Folder::new(), everything());
    folder.file("dir/sub/file", "");
    symlink("sub", folder.at("dir/to sub")).unwrap();
    symlink("..", folder.at("dir/up")).unwrap();
    symlink("dir", folder.at("link")).unwrap();
    let entries = files.list(&user, &folder.at("link"), 9, 100).unwrap();
    // Under the path that was asked for, also where that is a link.
    assert_eq!(names(&entries, &folder.0), ["link/sub", "link/sub/file", "link/to sub", "link/up"]);
    assert_eq!(entries[2].symlink_target, Some(folder.text("dir/sub")));
    assert_eq!((entries[2].kind, entries[3].kind), (Some(Kind::Directory), Some(Kind::Directory)));
}

#[test]
fn what_is_no_directory_has_no_list() {
    let (folder, (files, user)) = (Folder::new(), everything());
    folder.file("file", "");
    mkfifo(&folder.at("fifo"));
    symlink("circle", folder.at("circle")).unwrap();
    let error = |path: &str| files.list(&user, &folder.at(path), 1, 9).unwrap_err();
    assert_eq!(error("no"), FileError::NotFound(folder.text("no")));
    assert_eq!(error("file"), FileError::NotADirectory(folder.text("file")));
    assert_eq!(error("fifo"), FileError::NotADirectory(folder.text("fifo")));
    assert_eq!(error("circle"), FileError::Loop(folder.text("circle")));
}

#[test]
fn a_list_is_bounded_in_all_its_directories_together() {
    let (folder, (files, user)) = (Folder::new(), everything());
    for path in ["a/1", "a/2", "b/1", "b/2"] {
        folder.file(path, "");
    }
    assert_eq!(files.list(&user, &folder.0, 2, 6).unwrap().len(), 6);
    for (depth, max) in [(2, 5), (2, 3), (2, 1), (1, 1), (1, 0)] {
        let error = files.list(&user, &folder.0, depth, max).unwrap_err();
        let path = folder.0.to_str().unwrap().into();
        assert_eq!(error, FileError::TooMany { path, max });
    }
}

#[test]
fn ten_thousand_entries_are_listed() {
    let (folder, (files, user)) = (Folder::new(), everything());
    for number in 0..10_000 {
        fs::write(folder.at(format!("{number:05}")), "").unwrap();
    }
    let entries = files.list(&user, &folder.0, 1, 10_000).unwrap();
    assert_eq!(entries.len(), 10_000);
    assert!(entries.is_sorted_by_key(|entry| entry.name.clone()));
    assert!(entries.iter().all(|entry| entry.owner == user.name && entry.kind == Some(Kind::File)));
}

#[test]
fn what_vanishes_while_it_is_listed_is_left_out() {
    let (folder, (files, user)) = (Folder::new(), everything());
    folder.file("stays/1", "");
    std::thread::scope(|scope| {
        let (gone, moved) = (folder.at("goes"), folder.at("moved"));
        let changing = scope.spawn(move || {
            for _ in 0..300 {
                fs::create_dir_all(gone.join("a/b")).unwrap();
                fs::rename(gone.join("a"), &moved).unwrap();
                symlink("/etc", gone.join("a")).unwrap();
                fs::remove_dir_all(&gone).unwrap();
                fs::remove_dir_all(&moved).unwrap();
            }
        });
        while !changing.is_finished() {
            let entries = files.list(&user, &folder.0, 9, 100).unwrap();
            let names = names(&entries, &folder.0);
            assert!(names.iter().any(|name| name == "stays/1"), "{names:?}");
            assert!(names.iter().all(|name| !name.contains("passwd")), "{names:?}");
        }
        changing.join().unwrap();
    });
}

#[test]
fn names_need_not_be_utf_8_and_may_have_255_bytes() {
    let (folder, (files, user)) = (Folder::new(), everything());
    let odd = OsStr::from_bytes(b"\xff\xfeodd");
    fs::create_dir(folder.at(odd)).unwrap();
    fs::write(folder.at(odd).join("inner"), "x").unwrap();
    folder.file(&longest(), "");
    symlink(odd, folder.at("link")).unwrap();
    let entries = files.list(&user, &folder.0, 2, 9).unwrap();
    let lossy = "\u{fffd}\u{fffd}odd";
    let inner = format!("{lossy}/inner");
    assert_eq!(names(&entries, &folder.0), ["link", &longest(), lossy, &inner]);
    assert_eq!(entries[0].symlink_target, Some(folder.text(lossy)));
    assert_eq!((entries[2].name.as_str(), entries[2].path.clone()), (lossy, folder.text(lossy)));
    assert_eq!(files.stat(&user, &folder.at(odd).join("inner")).unwrap().size, 1);
}

// Reading.

#[test]
fn a_regular_file_is_opened_and_nothing_else() {
    let (folder, (files, user)) = (Folder::new(), everything());
    folder.file("dir/file", "hello");
    symlink("dir/file", folder.at("link")).unwrap();
    symlink("nowhere", folder.at("broken")).unwrap();
    mkfifo(&folder.at("fifo"));
    let _listener = UnixListener::bind(folder.at("socket")).unwrap();
    let open = |path: &str| files.open(&user, &folder.at(path));
    for path in ["dir/file", "link"] {
        let (mut file, entry) = open(path).unwrap();
        let mut content = String::new();
        file.read_to_string(&mut content).unwrap();
        assert_eq!((content.as_str(), entry.size, entry.kind), ("hello", 5, Some(Kind::File)));
        assert_eq!((entry.path, entry.symlink_target), (folder.text(path), None));
    }
    let error = |path: &str| open(path).unwrap_err();
    assert_eq!(error("no"), FileError::NotFound(folder.text("no")));
    assert_eq!(error("broken"), FileError::NotFound(folder.text("broken")));
    assert_eq!(error("dir"), FileError::IsADirectory(folder.text("dir")));
    assert_eq!(error("dir/file/x"), FileError::NotADirectory(folder.text("dir/file/x")));
    // Nobody writes to it, and nothing waits for somebody.
    assert_eq!(error("fifo"), FileError::NotRegular(folder.text("fifo")));
    assert_eq!(error("socket"), FileError::NotRegular(folder.text("socket")));
    assert_eq!(error("/dev/full"), FileError::NotRegular("/dev/full".into()));
    // And none to read: what would wait is an error.
    let (file, _) = files.open(&user, Path::new("/proc/version")).unwrap();
    assert!(rustix::fs::fcntl_getfl(file).unwrap().contains(rustix::fs::OFlags::NONBLOCK));
}

// Directories.

#[test]
fn a_directory_is_made_with_those_that_it_is_in() {
    let (folder, (files, user)) = (Folder::new(), everything());
    folder.file("file", "");
    symlink("nowhere", folder.at("broken")).unwrap();
    symlink(".", folder.at("here")).unwrap();
    let make = |path: &str| files.make_dir(&user, &folder.at(path));
    let entry = make("a/b/c").unwrap();
    assert_eq!((entry.name.as_str(), entry.path), ("c", folder.text("a/b/c")));
    assert_eq!((entry.kind, entry.mode), (Some(Kind::Directory), unmasked(0o755)));
    assert_eq!(entry.owner, user.name);
    assert_eq!(fs::metadata(folder.at("a")).unwrap().mode() & 0o777, unmasked(0o755));
    assert_eq!(make("here/here/d/e").unwrap().path, folder.text("here/here/d/e"));
    assert!(folder.at("d/e").is_dir());
    let error = |path: &str| make(path).unwrap_err();
    assert_eq!(error("a"), FileError::Exists(folder.text("a")));
    assert_eq!(error("here"), FileError::Exists(folder.text("here")));
    assert_eq!(error("/"), FileError::Exists("/".into()));
    assert_eq!(error("file"), FileError::NotADirectory(folder.text("file")));
    assert_eq!(error("file/x"), FileError::NotADirectory(folder.text("file/x")));
    assert_eq!(error("file/x/y"), FileError::NotADirectory(folder.text("file/x/y")));
    assert_eq!(error("broken"), FileError::NotADirectory(folder.text("broken")));
    assert_eq!(error("broken/x"), FileError::NotADirectory(folder.text("broken/x")));
    let long = "n".repeat(256);
    assert_eq!(error(&long), FileError::TooLong(folder.text(&long)));
    assert!(make(&longest()).is_ok());
    assert_eq!(folder.names(), ["a", "a/b", "a/b/c", "broken", "d", "d/e", "file", "here", &longest()]);
}

#[test]
fn one_of_many_makes_a_directory() {
    let (folder, (files, user)) = (Folder::new(), everything());
    for round in 0..50 {
        let path = folder.at(format!("{round}/a/b/c/d"));
        let made: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| files.make_dir(&user, &path))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let exists = FileError::Exists(path.to_str().unwrap().into());
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1, "{made:?}");
        assert_eq!(made.iter().filter(|made| made.as_ref().err() == Some(&exists)).count(), 3, "{made:?}");
    }
}
