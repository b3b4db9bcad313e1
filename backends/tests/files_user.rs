//! Files of this machine as another user than the server: it takes root to be somebody else.
#![cfg(feature = "local")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/folder.rs"]
mod folder;

use folder::{Folder, Mounted, everything, is_root, names, unmasked, write};
use hangar_backends::local::{
    User,
    files::{FileError, Files},
};
use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::Path,
};

/// What the calling thread is: its users, its groups, and its other groups.
fn ids() -> Vec<String> {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let is_id =
        |line: &&str| ["Uid:", "Gid:", "Groups:", "CapEff:"].iter().any(|name| line.starts_with(name));
    status.lines().filter(is_id).map(str::to_owned).collect()
}

fn user(name: &str) -> User {
    User::named(name).unwrap()
}

fn set(path: &Path, owner: &User, group: u32, mode: u32) {
    chown(path, Some(owner.uid), Some(group)).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Whose something is, and of which group.
fn owner(path: &Path) -> (u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.uid(), found.gid())
}

macro_rules! root_only {
    () => {
        if !is_root() {
            println!("skipped: not root");
            return;
        }
    };
}

#[test]
fn a_server_that_is_not_root_is_nobody_else() {
    if is_root() {
        println!("skipped: root");
        return;
    }
    let (folder, (files, own)) = (Folder::new(), everything());
    let other = User { name: "other".into(), uid: own.uid + 1, ..own };
    assert_eq!(files.stat(&other, &folder.0), Err(FileError::User("other".into())));
    assert_eq!(files.remove(&other, &folder.0), Err(FileError::User("other".into())));
}

#[test]
fn what_a_user_may_not_is_refused() {
    root_only!();
    let (folder, files, games) = (Folder::new(), Files::new(None).unwrap(), user("games"));
    folder.file("closed/dir/file", "secret");
    folder.file("private", "secret");
    folder.file("public", "known");
    fs::set_permissions(folder.at("closed"), Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(folder.at("private"), Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&folder.0, Permissions::from_mode(0o755)).unwrap();
    symlink("closed/dir", folder.at("link")).unwrap();
    let own = ids();
    let denied = |path: &str| FileError::Denied(folder.text(path));
    let at = |path: &str| folder.at(path);
    for path in ["closed/dir", "closed/dir/file", "closed/no"] {
        assert_eq!(files.stat(&games, &at(path)).unwrap_err(), denied(path));
    }
    assert_eq!(files.list(&games, &at("closed"), 1, 9).unwrap_err(), denied("closed"));
    assert_eq!(files.list(&games, &at("link"), 1, 9).unwrap_err(), denied("link"));
    assert_eq!(files.open(&games, &at("private")).unwrap_err(), denied("private"));
    assert_eq!(files.create(&games, &at("public"), 0o666).unwrap_err(), denied("public"));
    assert_eq!(files.create(&games, &at("new"), 0o666).unwrap_err(), denied("new"));
    assert_eq!(files.create(&games, &at("no/new"), 0o666).unwrap_err(), denied("no/new"));
    assert_eq!(files.make_dir(&games, &at("a/b")).unwrap_err(), denied("a/b"));
    assert_eq!(files.remove(&games, &at("public")).unwrap_err(), denied("public"));
    assert_eq!(files.remove(&games, &at("closed/dir/file")).unwrap_err(), denied("closed/dir/file"));
    assert_eq!(files.remove(&games, &at("closed")).unwrap_err(), denied("closed"));
    assert_eq!(files.rename(&games, &at("public"), Path::new("/tmp/x")).unwrap_err(), denied("public"));
    assert_eq!(ids(), own);

    // What they may, they may.
    assert_eq!(files.open(&games, &at("public")).unwrap().1.size, 5);
    assert_eq!(files.stat(&games, &at("private")).unwrap().owner, "root");
    let entry = files.stat(&games, &at("link")).unwrap();
    assert_eq!((entry.kind, entry.mode, entry.symlink_target), (None, 0, Some(folder.text("link"))));
    // A directory below that may not be read is named, and left out.
    let entries = files.list(&games, &folder.0, 9, 9).unwrap();
    assert_eq!(names(&entries, &folder.0), ["closed", "link", "private", "public"]);
    assert_eq!(ids(), own);
}

#[test]
fn what_a_user_makes_is_theirs() {
    root_only!();
    let (folder, files, games) = (Folder::new(), Files::new(None).unwrap(), user("games"));
    let theirs = (games.uid, games.gid);
    let entry = write(&files, &games, &folder.at("a/b/file"), b"x").unwrap();
    assert_eq!((entry.owner.as_str(), entry.group.as_str(), entry.mode), ("games", "games", unmasked(0o666)));
    let entry = files.make_dir(&games, &folder.at("a/c/d")).unwrap();
    assert_eq!((entry.owner.as_str(), entry.group.as_str(), entry.mode), ("games", "games", unmasked(0o755)));
    files.rename(&games, &folder.at("a/b/file"), &folder.at("e/f/file")).unwrap();
    write(&files, &games, &folder.at("e/1"), b"1").unwrap();
    files.compose(&games, &[folder.at("e/1"), folder.at("e/f/file")], &folder.at("g/all")).unwrap();
    for path in ["a", "a/b", "a/c", "a/c/d", "e", "e/f", "g", "g/all"] {
        assert_eq!(owner(&folder.at(path)), theirs, "{path}");
    }
    files.remove(&games, &folder.at("a")).unwrap();
    // What is root's stays so when root writes to it, and what is theirs stays theirs.
    write(&files, &User::current(), &folder.at("g/all"), b"x").unwrap();
    assert_eq!(owner(&folder.at("g/all")), theirs);
}

#[test]
fn what_another_writes_to_loses_the_rights_of_its_owner() {
    root_only!();
    let (folder, files, games) = (Folder::new(), Files::new(None).unwrap(), user("games"));
    let program = folder.file("program", "x");
    set(&program, &user("daemon"), 1, 0o4777);
    let mut writing = files.create(&games, &program, 0o666).unwrap();
    assert_eq!(files.stat(&games, &program).unwrap().permissions, "-rwxrwxrwx");
    // Given to it again while it is open: each write is the user's.
    set(&program, &user("daemon"), 1, 0o4777);
    writing.write(b"other").unwrap();
    assert_eq!(writing.finish().unwrap().permissions, "-rwxrwxrwx");
}

#[test]
fn the_groups_of_a_user_count() {
    root_only!();
    let (folder, files, games) = (Folder::new(), Files::new(None).unwrap(), user("games"));
    let file = folder.file("file", "shared");
    set(&file, &User::current(), 7, 0o640);
    let error = files.open(&games, &file).unwrap_err();
    assert_eq!(error, FileError::Denied(folder.text("file")));
    let member = User { groups: vec![games.gid, 7], ..games.clone() };
    assert_eq!(files.open(&member, &file).unwrap().1.group, files.stat(&games, &file).unwrap().group);
    // What is made is of the primary one, and a group of the server's is none of theirs.
    write(&files, &member, &folder.at("new"), b"").unwrap();
    assert_eq!(owner(&folder.at("new")), (games.uid, games.gid));
    set(&file, &User::current(), 0, 0o640);
    assert!(files.open(&member, &file).is_err());
}

#[test]
fn the_thread_is_the_server_again() {
    root_only!();
    let (folder, files, nobody) = (Folder::new(), Files::new(None).unwrap(), user("nobody"));
    folder.file("file", "");
    let own = ids();
    let mut writing = files.create(&nobody, &folder.at("new"), 0o666).unwrap();
    assert_eq!(ids(), own);
    writing.write(b"x").unwrap();
    assert_eq!(ids(), own);
    drop(writing);
    for path in ["file", "no", "file/x", ""] {
        drop(files.stat(&nobody, &folder.at(path)));
        drop(files.list(&nobody, &folder.at(path), 1, 0));
        drop(files.open(&nobody, &folder.at(path)));
        drop(files.create(&nobody, &folder.at(path), 0o666));
        drop(files.make_dir(&nobody, &folder.at(path)));
        drop(files.rename(&nobody, &folder.at(path), &folder.at("x/y")));
        drop(files.compose(&nobody, &[folder.at(path)], &folder.at("z")));
        drop(files.remove(&nobody, &folder.at(path)));
        assert_eq!(ids(), own, "{path}");
    }
    // No number stands for "nobody in particular": as that the thread would stay root.
    for odd in [User { uid: u32::MAX, ..nobody.clone() }, User { groups: vec![u32::MAX], ..nobody }] {
        assert_eq!(files.stat(&odd, &folder.0), Err(FileError::User("nobody".into())));
        assert_eq!(ids(), own);
    }
}

#[test]
fn threads_are_each_somebody_else_at_once() {
    root_only!();
    let (folder, files) = (Folder::new(), Files::new(None).unwrap());
    std::thread::scope(|scope| {
        for name in ["nobody", "games", "daemon", "root"] {
            let (files, folder) = (&files, &folder);
            scope.spawn(move || {
                let (user, own) = (user(name), ids());
                for round in 0..200 {
                    let path = folder.at(format!("{name}-{round}/file"));
                    write(files, &user, &path, b"x").unwrap();
                    assert_eq!(owner(&path), (user.uid, user.gid));
                    assert_eq!(ids(), own);
                }
            });
        }
    });
}

#[test]
fn in_a_directory_for_all_only_the_owner_removes() {
    root_only!();
    let (folder, files) = (Folder::new(), Files::new(None).unwrap());
    let (games, nobody) = (user("games"), user("nobody"));
    fs::set_permissions(&folder.0, Permissions::from_mode(0o1777)).unwrap();
    write(&files, &games, &folder.at("file"), b"x").unwrap();
    write(&files, &games, &folder.at("dir/file"), b"x").unwrap();
    let denied = |path: &str| FileError::Denied(folder.text(path));
    assert_eq!(files.remove(&nobody, &folder.at("file")).unwrap_err(), denied("file"));
    assert_eq!(files.remove(&nobody, &folder.at("dir")).unwrap_err(), denied("dir"));
    let error = files.rename(&nobody, &folder.at("file"), &folder.at("mine")).unwrap_err();
    assert_eq!(error, denied("file"));
    // A source that cannot be removed is there still, and so is what was made of it.
    let error = files.compose(&nobody, &[folder.at("file")], &folder.at("all")).unwrap_err();
    assert_eq!(error, denied("file"));
    assert_eq!(folder.names(), ["all", "dir", "dir/file", "file"]);
    // Where nothing may be removed at all, that is known before.
    fs::set_permissions(folder.at("dir"), Permissions::from_mode(0o755)).unwrap();
    let error = files.compose(&nobody, &[folder.at("dir/file")], &folder.at("other")).unwrap_err();
    assert_eq!(error, denied("dir/file"));
    assert_eq!(folder.names(), ["all", "dir", "dir/file", "file"]);
}

#[test]
fn a_directory_that_is_named_and_not_entered_is_refused() {
    root_only!();
    let (folder, files, games) = (Folder::new(), Files::new(None).unwrap(), user("games"));
    folder.file("dir/file", "");
    folder.file("unread/file", "");
    set(&folder.at("dir"), &games, games.gid, 0o600);
    set(&folder.at("unread"), &games, games.gid, 0o300);
    let denied = |path: &str| FileError::Denied(folder.text(path));
    assert_eq!(files.list(&games, &folder.at("dir"), 1, 9).unwrap_err(), denied("dir"));
    assert_eq!(files.list(&games, &folder.at("unread"), 1, 9).unwrap_err(), denied("unread"));
    assert_eq!(files.remove(&games, &folder.at("unread")).unwrap_err(), denied("unread"));
    let entries = files.list(&games, &folder.0, 9, 9).unwrap();
    assert_eq!(names(&entries, &folder.0), ["dir", "unread"]);
    // What is empty need not be read to be removed.
    files.remove(&games, &folder.at("unread/file")).unwrap();
    files.remove(&games, &folder.at("unread")).unwrap();
    assert_eq!(folder.names(), ["dir", "dir/file"]);
}

#[test]
fn a_root_is_reached_by_those_who_may_not_go_there() {
    root_only!();
    let (folder, games) = (Folder::new(), user("games"));
    folder.file("closed/root/file", "served");
    set(&folder.at("closed"), &User::current(), 0, 0o700);
    set(&folder.at("closed/root"), &games, games.gid, 0o755);
    let files = Files::new(Some(folder.at("closed/root"))).unwrap();
    assert_eq!(files.open(&games, &folder.at("closed/root/file")).unwrap().1.size, 6);
    write(&files, &games, &folder.at("closed/root/new"), b"x").unwrap();
    assert_eq!(owner(&folder.at("closed/root/new")), (games.uid, games.gid));
    symlink("file", folder.at("closed/root/link")).unwrap();
    let entry = files.stat(&games, &folder.at("closed/root/link")).unwrap();
    assert_eq!(entry.symlink_target, Some(folder.text("closed/root/file")));
}

#[test]
fn a_number_without_a_name_is_shown() {
    root_only!();
    let (folder, (files, root)) = (Folder::new(), everything());
    let file = folder.file("file", "");
    chown(&file, Some(3_999_999), Some(3_999_998)).unwrap();
    let entry = files.stat(&root, &file).unwrap();
    assert_eq!((entry.owner.as_str(), entry.group.as_str()), ("3999999", "3999998"));
}

#[test]
fn metadata_needs_no_more_than_the_file_does() {
    root_only!();
    let (folder, files, games) = (Folder::new(), Files::new(None).unwrap(), user("games"));
    let metadata = [("key".to_owned(), "value".to_owned())].into();
    let mut writing = files.create(&games, &folder.at("file"), 0o666).unwrap();
    match writing.set_metadata(&metadata) {
        Ok(()) => {}
        Err(error) => {
            assert_eq!(error, FileError::MetadataUnsupported(folder.text("file")));
            println!("skipped: the file system of /tmp holds no metadata");
            return;
        }
    }
    assert_eq!(writing.finish().unwrap().metadata, metadata);
    assert_eq!(files.stat(&games, &folder.at("file")).unwrap().metadata, metadata);
    // Who may not read the file may not read that.
    fs::set_permissions(folder.at("file"), Permissions::from_mode(0o600)).unwrap();
    let other = files.stat(&user("daemon"), &folder.at("file")).unwrap();
    assert!(other.metadata.is_empty());
}

#[test]
fn a_file_system_that_holds_no_metadata_says_so_only_if_there_is_some() {
    root_only!();
    let (folder, (files, root)) = (Folder::new(), everything());
    fs::create_dir(folder.at("mounted")).unwrap();
    let path = folder.at("mounted");
    let Some(_mounted) = Mounted::of("ramfs", &path, "mode=777") else {
        println!("skipped: no file system can be mounted");
        return;
    };
    let mut writing = files.create(&root, &path.join("file"), 0o666).unwrap();
    writing.set_metadata(&std::collections::BTreeMap::new()).unwrap();
    let error = writing.set_metadata(&[("key".into(), "value".into())].into()).unwrap_err();
    assert_eq!(error, FileError::MetadataUnsupported(folder.text("mounted/file")));
    assert!(writing.finish().unwrap().metadata.is_empty());
}
