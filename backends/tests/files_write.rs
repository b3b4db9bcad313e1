//! Files of this machine: writing, composing, and other names.
#![cfg(feature = "local")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/folder.rs"]
mod folder;

use folder::{Folder, Mounted, everything, mkfifo, unmasked, write};
use hangar_backends::local::files::{FileError, Kind};
use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

fn read(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap()
}

// Writing.

#[test]
fn a_file_is_made_with_its_directories_or_emptied() {
    let (folder, (files, user)) = (Folder::new(), everything());
    let path = folder.at("a/b/file");
    let mut writing = files.create(&user, &path, 0o666).unwrap();
    writing.write(b"hello ").unwrap();
    writing.write(b"").unwrap();
    writing.write(b"world").unwrap();
    let entry = writing.finish().unwrap();
    assert_eq!((entry.name.as_str(), entry.path, entry.size), ("file", folder.text("a/b/file"), 11));
    assert_eq!((entry.kind, entry.mode, entry.owner), (Some(Kind::File), unmasked(0o666), user.name.clone()));
    assert_eq!(read(path.clone()), "hello world");
    assert_eq!(fs::metadata(folder.at("a/b")).unwrap().mode() & 0o777, unmasked(0o755));

    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let writing = files.create(&user, &path, 0o666).unwrap();
    // Before anything was written to it.
    assert_eq!(read(path.clone()), "");
    assert_eq!(writing.finish().unwrap().mode, 0o600);
    let private = files.create(&user, &folder.at("private"), 0o600).unwrap();
    assert_eq!(private.finish().unwrap().permissions, "-rw-------");
}

#[test]
fn writing_follows_links() {
    let (folder, (files, user)) = (Folder::new(), everything());
    folder.file("dir/file", "a long content");
    symlink("dir/file", folder.at("link")).unwrap();
    symlink("dir/new", folder.at("broken")).unwrap();
    symlink("no/such", folder.at("lost")).unwrap();
    let entry = write(&files, &user, &folder.at("link"), b"new").unwrap();
    assert_eq!((entry.path, entry.symlink_target), (folder.text("link"), None));
    assert_eq!(read(folder.at("dir/file")), "new");
    write(&files, &user, &folder.at("broken"), b"made").unwrap();
    assert_eq!(read(folder.at("dir/new")), "made");
    assert!(folder.at("link").is_symlink() && folder.at("broken").is_symlink());
    let error = write(&files, &user, &folder.at("lost"), b"").unwrap_err();
    assert_eq!(error, FileError::NotFound(folder.text("lost")));
}

#[test]
fn only_a_regular_file_is_written() {
    let (folder, (files, user)) = (Folder::new(), everything());
    folder.file("dir/file", "kept");
    mkfifo(&folder.at("fifo"));
    let error = |path: &str| files.create(&user, &folder.at(path), 0o666).unwrap_err();
    assert_eq!(error("dir"), FileError::IsADirectory(folder.text("dir")));
    assert_eq!(error("/"), FileError::IsADirectory("/".into()));
    assert_eq!(error("dir/file/x"), FileError::NotADirectory(folder.text("dir/file/x")));
    assert_eq!(error("dir/file/x/y"), FileError::NotADirectory(folder.text("dir/file/x/y")));
    assert_eq!(error("fifo"), FileError::NotRegular(folder.text("fifo")));
    // Somebody who reads it changes nothing.
    let reader = fs::OpenOptions::new().read(true).write(true).open(folder.at("fifo")).unwrap();
    assert_eq!(error("fifo"), FileError::NotRegular(folder.text("fifo")));
    drop(reader);
    assert_eq!(error("/dev/full"), FileError::NotRegular("/dev/full".into()));
    let long = "n".repeat(256);
    assert_eq!(error(&long), FileError::TooLong(folder.text(&long)));
    let long = format!("new/{}", "n".repeat(255));
    assert_eq!(write(&files, &user, &folder.at(&long), b"x").unwrap().size, 1);
    assert_eq!(read(folder.at("dir/file")), "kept");
}

#[test]
fn metadata_is_kept_beside_the_content() {
    let (folder, (files, user)) = (Folder::new(), everything());
    let path = folder.at("file");
    let metadata = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    };
    let mut writing = files.create(&user, &path, 0o666).unwrap();
    writing.set_metadata(&BTreeMap::new()).unwrap();
    match writing.set_metadata(&metadata(&[("purpose", "test"), ("empty", "")])) {
        Ok(()) => {}
        Err(error) => {
            assert_eq!(error, FileError::MetadataUnsupported(folder.text("file")));
            println!("skipped: the file system of /tmp holds no metadata");
            return;
        }
    }
    writing.set_metadata(&metadata(&[("purpose", "changed"), ("ä", "ö\n")])).unwrap();
    let expected = metadata(&[("empty", ""), ("purpose", "changed"), ("ä", "ö\n")]);
    assert_eq!(writing.finish().unwrap().metadata, expected);
    assert_eq!(files.stat(&user, &path).unwrap().metadata, expected);
    assert_eq!(files.list(&user, &folder.0, 1, 9).unwrap()[0].metadata, expected);
    assert_eq!(files.open(&user, &path).unwrap().1.metadata, expected);
    symlink("file", folder.at("link")).unwrap();
    assert_eq!(files.stat(&user, &folder.at("link")).unwrap().metadata, expected);
    // What is written again keeps it.
    assert_eq!(write(&files, &user, &path, b"x").unwrap().metadata, expected);

    let mut writing = files.create(&user, &path, 0o666).unwrap();
    let long = "k".repeat(256);
    let error = writing.set_metadata(&metadata(&[(&long, "")])).unwrap_err();
    assert_eq!(error, FileError::MetadataTooLong(folder.text("file")));
    let long = "v".repeat(70_000);
    let error = writing.set_metadata(&metadata(&[("key", &long)])).unwrap_err();
    assert_eq!(error, FileError::MetadataTooLong(folder.text("file")));
}

#[test]
fn no_more_metadata_is_read_than_has_room() {
    let (folder, (files, user)) = (Folder::in_memory(), everything());
    let mut writing = files.create(&user, &folder.at("file"), 0o666).unwrap();
    let value = "v".repeat(30_000);
    for key in ["a", "b", "c"] {
        if let Err(error) = writing.set_metadata(&[(key.into(), value.clone())].into()) {
            println!("skipped: {error}");
            return;
        }
    }
    let metadata = writing.finish().unwrap().metadata;
    assert!(metadata.len() == 2 && metadata.values().all(|read| *read == value));
}

#[test]
fn a_full_file_system_and_one_that_cannot_be_changed_say_so() {
    let (folder, (files, user)) = (Folder::new(), everything());
    fs::create_dir(folder.at("full")).unwrap();
    let full = folder.at("full");
    let Some(mounted) = Mounted::of("tmpfs", &full, "size=64k,mode=777,nr_inodes=8") else {
        println!("skipped: no file system can be mounted");
        return;
    };
    let mut writing = files.create(&user, &full.join("file"), 0o666).unwrap();
    writing.write(&[0; 32 * 1024]).unwrap();
    let no_space = |path: &str| FileError::NoSpace(folder.text(path));
    assert_eq!(writing.write(&[0; 64 * 1024]).unwrap_err(), no_space("full/file"));
    drop(writing);
    fs::remove_file(full.join("file")).unwrap();

    // Neither a temporary file nor part of a source is gone or left.
    folder.file("full/1", &"x".repeat(20 * 1024));
    folder.file("full/2", &"y".repeat(20 * 1024));
    let sources = [full.join("1"), full.join("2")];
    let error = files.compose(&user, &sources, &full.join("all")).unwrap_err();
    assert_eq!(error, no_space("full/all"));
    assert_eq!(folder.names(), ["full", "full/1", "full/2"]);
    assert_eq!(read(full.join("2")).len(), 20 * 1024);

    // No names are left either.
    let many = (0..9).map(|number| files.make_dir(&user, &full.join(format!("d{number}"))).err());
    assert_eq!(many.flatten().next(), Some(no_space("full/d5")));

    let across = files.rename(&user, &full.join("1"), &folder.at("new/1")).unwrap_err();
    assert_eq!(across, FileError::CrossDevice(folder.text("new/1")));
    drop(mounted);

    let _mounted = Mounted::of("tmpfs", &full, "ro").unwrap();
    let read_only = |path: &str| FileError::ReadOnly(folder.text(path));
    assert_eq!(files.create(&user, &full.join("x"), 0o666).unwrap_err(), read_only("full/x"));
    assert_eq!(files.make_dir(&user, &full.join("a/b")).unwrap_err(), read_only("full/a/b"));
    let from = folder.file("file", "");
    assert_eq!(files.rename(&user, &from, &full.join("a/x")).unwrap_err(), read_only("full/a/x"));
    assert_eq!(files.compose(&user, &[from], &full.join("x")).unwrap_err(), read_only("full/x"));
}

// Other names.

#[test]
fn what_is_renamed_finds_its_directories_made() {
    let (folder, (files, user)) = (Folder::new(), everything());
    folder.file("dir/file", "hello");
    let rename = |from: &str, to: &str| files.rename(&user, &folder.at(from), &folder.at(to));
    let entry = rename("dir/file", "a/b/new").unwrap();
    assert_eq!((entry.name.as_str(), entry.path, entry.size), ("new", folder.text("a/b/new"), 5));
    folder.file("old", "old");
    rename("a/b/new", "old").unwrap();
    assert_eq!(read(folder.at("old")), "hello");
    assert_eq!(rename("a", "dir").unwrap().kind, Some(Kind::Directory));
    // A link is what gets the name, also where it leads nowhere.
    symlink("nowhere", folder.at("link")).unwrap();
    let entry = rename("link", "other").unwrap();
    assert_eq!((entry.kind, entry.symlink_target), (None, Some(folder.text("other"))));
    assert_eq!(folder.names(), ["dir", "dir/b", "old", "other"]);
}

#[test]
fn what_cannot_be_renamed_stays() {
    let (folder, (files, user)) = (Folder::new(), everything());
    folder.file("dir/file", "hello");
    folder.file("file", "");
    fs::create_dir(folder.at("empty")).unwrap();
    let error = |from: &str, to: &str| files.rename(&user, &folder.at(from), &folder.at(to)).unwrap_err();
    let before = folder.names();
    assert_eq!(error("no", "made/for/it"), FileError::NotFound(folder.text("no")));
    assert_eq!(error("no/such", "x"), FileError::NotFound(folder.text("no/such")));
    assert_eq!(error("file/x", "x"), FileError::NotADirectory(folder.text("file/x")));
    assert_eq!(error("file", "file/x"), FileError::NotADirectory(folder.text("file/x")));
    assert_eq!(error("file", "dir"), FileError::IsADirectory(folder.text("dir")));
    assert_eq!(error("dir", "file"), FileError::NotADirectory(folder.text("file")));
    assert_eq!(error("empty", "dir"), FileError::Exists(folder.text("dir")));
    assert_eq!(error("dir", "dir/x"), FileError::IntoItself(folder.text("dir/x")));
    assert_eq!(error("/", "x"), FileError::Denied("/".into()));
    assert_eq!(error("file", "/"), FileError::Denied("/".into()));
    assert_eq!(folder.names(), before);
}

// Composing.

#[test]
fn sources_become_one_file_and_go() {
    let (folder, (files, user)) = (Folder::new(), everything());
    folder.file("1", "one ");
    folder.file("dir/2", "two ");
    folder.file("3", &"three".repeat(100_000));
    let sources = [folder.at("1"), folder.at("dir/2"), folder.at("3")];
    let entry = files.compose(&user, &sources, &folder.at("a/b/all")).unwrap();
    assert_eq!((entry.name.as_str(), entry.path, entry.size), ("all", folder.text("a/b/all"), 500_008));
    assert_eq!((entry.kind, entry.mode), (Some(Kind::File), unmasked(0o666)));
    assert_eq!(read(folder.at("a/b/all")), "one two ".to_owned() + &"three".repeat(100_000));
    assert_eq!(folder.names(), ["a", "a/b", "a/b/all", "dir"]);
}

#[test]
fn the_destination_may_be_a_source_and_a_source_may_come_twice() {
    let (folder, (files, user)) = (Folder::new(), everything());
    folder.file("1", "1");
    folder.file("2", "2");
    symlink(".", folder.at("here")).unwrap();
    fs::hard_link(folder.at("2"), folder.at("same as 2")).unwrap();
    // The second is the destination by another path, the last has its content.
    let sources = ["1", "here/2", "1", "2", "same as 2"].map(|name| folder.at(name));
    files.compose(&user, &sources, &folder.at("2")).unwrap();
    assert_eq!(read(folder.at("2")), "12122");
    assert_eq!(folder.names(), ["2", "here"]);
    // A name as long as it may be leaves the temporary file one.
    let long = "n".repeat(255);
    files.compose(&user, &[folder.at("2"), folder.at("2")], &folder.at(&long)).unwrap();
    assert_eq!(read(folder.at(&long)), "1212212122");
    assert_eq!(files.compose(&user, &[], &folder.at(&long)).unwrap().size, 0);
    assert_eq!(folder.names(), ["here", &long]);
}

#[test]
fn links_are_read_and_removed_and_replaced() {
    let (folder, (files, user)) = (Folder::new(), everything());
    folder.file("1", "1");
    folder.file("2", "2");
    symlink("1", folder.at("source")).unwrap();
    symlink("2", folder.at("destination")).unwrap();
    files.compose(&user, &[folder.at("source")], &folder.at("destination")).unwrap();
    assert!(folder.at("destination").is_file() && !folder.at("destination").is_symlink());
    assert_eq!((read(folder.at("destination")), read(folder.at("2"))), ("1".into(), "2".into()));
    assert_eq!(folder.names(), ["1", "2", "destination"]);
}

#[test]
fn what_cannot_be_composed_loses_and_leaves_nothing() {
    let (folder, (files, user)) = (Folder::new(), everything());
    folder.file("1", "1");
    folder.file("dir/2", "2");
    folder.file("all", "before");
    mkfifo(&folder.at("fifo"));
    let before = folder.names();
    let compose = |sources: &[&str], destination: &str| {
        let sources: Vec<PathBuf> = sources.iter().map(|source| folder.at(source)).collect();
        files.compose(&user, &sources, &folder.at(destination)).unwrap_err()
    };
    assert_eq!(compose(&["1", "no"], "all"), FileError::NotFound(folder.text("no")));
    assert_eq!(compose(&["1", "dir"], "all"), FileError::IsADirectory(folder.text("dir")));
    assert_eq!(compose(&["1", "fifo"], "all"), FileError::NotRegular(folder.text("fifo")));
    assert_eq!(compose(&["1", "dir/2"], "dir"), FileError::IsADirectory(folder.text("dir")));
    assert_eq!(compose(&["1"], "1/x"), FileError::NotADirectory(folder.text("1/x")));
    assert_eq!(compose(&["1", "dir/2"], "/"), FileError::Denied("/".into()));
    let long = "n".repeat(256);
    assert_eq!(compose(&["1"], &long), FileError::TooLong(folder.text(&long)));
    assert_eq!(folder.names(), before);
    assert_eq!(read(folder.at("all")), "before");
    assert!(Path::new(&folder.at("1")).is_file());
}
