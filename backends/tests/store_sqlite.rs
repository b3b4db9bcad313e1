//! The store in a file: what is in its folder, what it refuses, a full disk, and backups.
#![cfg(all(feature = "local", feature = "sqlite"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/folder.rs"]
mod folder;
#[path = "support/store.rs"]
mod support;

use folder::{Ends, Folder, Mounted};
use hangar_backends::store::{
    Store, StoreError, StoredProcess,
    sqlite::{BackupError, backup},
};
use rusqlite::Connection;
use std::{
    fs::{self, File, Permissions},
    io::Write,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};
use support::{block_on, open, process, refused, sandbox, token, token_ids};

/// The mode of each file in a folder.
fn modes(folder: &Folder) -> Vec<(String, u32)> {
    let mut modes: Vec<_> = fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            (entry.file_name().into_string().unwrap(), mode)
        })
        .collect();
    modes.sort();
    modes
}

fn secret(names: &[&str]) -> Vec<(String, u32)> {
    names.iter().map(|name| ((*name).to_owned(), 0o600)).collect()
}

#[test]
fn its_files_are_its_users_alone() {
    let folder = Folder::new();
    let path = folder.at("hangar.db");
    let all = secret(&["hangar.db", "hangar.db-shm", "hangar.db-wal"]);
    let store = open(&path);
    block_on(store.insert_token(token("a"))).unwrap();
    assert_eq!(modes(&folder), all);
    drop(store);
    assert_eq!(modes(&folder), secret(&["hangar.db"]), "closed, it is one file");
    // One that was put there otherwise, as by a copy.
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let _store = open(&path);
    assert_eq!(modes(&folder), all);
}

#[test]
fn a_newer_one_is_refused_and_left_as_it_is() {
    let folder = Folder::new();
    let path = folder.at("hangar.db");
    drop(open(&path));
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 7).unwrap();
    let before = fs::read(&path).unwrap();
    let error = refused(&path);
    assert_eq!(error, StoreError::Newer { found: 7, known: 1 });
    let said = error.to_string();
    assert!(said.contains('7') && said.contains('1'), "{said}");
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn what_is_something_else_is_refused_and_left_as_it_is() {
    let folder = Folder::new();
    let other = folder.at("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE tokens (id TEXT)").unwrap();
    let versioned = folder.at("versioned.db");
    Connection::open(&versioned).unwrap().pragma_update(None, "user_version", 1).unwrap();
    let text = folder.file("text", &"no database\n".repeat(1000));
    for (path, why) in [(other, "another program"), (versioned, "another program"), (text, "not a database")]
    {
        let before = fs::read(&path).unwrap();
        let StoreError::Broken(said) = refused(&path) else { panic!("it is broken") };
        assert!(said.contains(why), "{said}");
        assert!(fs::read(&path).unwrap() == before, "{}", path.display());
    }
    assert!(matches!(refused(&folder.at("no/folder.db")), StoreError::Broken(_)));
    assert!(matches!(refused(&folder.0), StoreError::Broken(_)));
}

#[test]
fn a_file_that_is_empty_is_a_new_one() {
    let folder = Folder::new();
    let path = folder.file("hangar.db", "");
    block_on(open(&path).insert_token(token("a"))).unwrap();
    assert_eq!(token_ids(&open(&path)), ["a"]);
}

/// Fills a disk to its last byte.
fn fill(path: &Path) -> File {
    let mut filler = File::create(path).unwrap();
    while filler.write(&[0; 4096]).is_ok_and(|written| written > 0) {}
    filler
}

#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    let folder = Folder::new();
    let Some(_disk) = Mounted::of("tmpfs", &folder.0, "size=2m") else {
        eprintln!("skipped: a_full_disk_refuses_and_loses_nothing: a file system cannot be mounted here");
        return;
    };
    let path = folder.at("hangar.db");
    let store = open(&path);
    block_on(store.insert_sandbox(sandbox("box", "box"))).unwrap();
    let filler = fill(&folder.at("filler"));
    assert_eq!(block_on(store.insert_token(token("a"))), Err(StoreError::Full));
    // So large that it does not wait for the commit to be written.
    let large = StoredProcess { start: "x".repeat(4 << 20), ..process("p", "t", "box") };
    assert_eq!(block_on(store.insert_process(large)), Err(StoreError::Full));
    assert_eq!(block_on(store.remove_sandbox("box")), Err(StoreError::Full));
    assert_eq!(
        block_on(store.sandboxes()).unwrap(),
        [sandbox("box", "box")],
        "it answers, and nothing changed"
    );
    let to = folder.at("backup");
    let Err(BackupError::Target { error, .. }) = backup(&path, &to) else { panic!("there is no room") };
    assert_eq!(error, StoreError::Full);
    assert_eq!(folder_names(&folder), ["filler", "hangar.db", "hangar.db-shm", "hangar.db-wal"]);
    filler.set_len(0).unwrap();
    block_on(store.insert_token(token("b"))).unwrap();
    drop(store);
    let store = open(&path);
    assert_eq!(token_ids(&store), ["b"]);
    assert_eq!(block_on(store.sandboxes()).unwrap(), [sandbox("box", "box")]);
    drop(store);
    // Nor is one opened or made where there is no room for it.
    let _filler = fill(&folder.at("filler"));
    for path in [path, folder.at("other.db")] {
        assert_eq!(refused(&path), StoreError::Full);
    }
}

fn folder_names(folder: &Folder) -> Vec<String> {
    modes(folder).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_backup_has_what_was_stored_when_it_began() {
    let folder = Folder::in_memory();
    let path = folder.at("hangar.db");
    let store = open(&path);
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = Ends(&end);
        scope.spawn(|| {
            for number in 0_u64.. {
                if end.load(Ordering::Relaxed) {
                    break;
                }
                block_on(store.insert_token(token(&format!("{number:020}")))).unwrap();
            }
        });
        for number in 0..20 {
            let before = token_ids(&store);
            let to = folder.at(format!("backup-{number}"));
            backup(&path, &to).unwrap();
            let kept = token_ids(&open(&to));
            assert!(kept.starts_with(&before), "{} of {}", kept.len(), before.len());
            let integrity: String = Connection::open(&to)
                .unwrap()
                .query_row("PRAGMA integrity_check", (), |row| row.get(0))
                .unwrap();
            assert_eq!(integrity, "ok");
        }
    });
}

#[test]
fn a_backup_is_one_file_for_its_user_alone() {
    let (folder, target) = (Folder::new(), Folder::new());
    let path = folder.at("hangar.db");
    let store = open(&path);
    block_on(store.insert_token(token("a"))).unwrap();
    let to = target.at("backup");
    // Left of one that was cut short.
    target.file("backup.partial", "x");
    backup(&path, &to).unwrap();
    assert_eq!(modes(&target), secret(&["backup"]));
    // The same of a store that nobody has open, which stays as it was.
    drop(store);
    let before = fs::read(&path).unwrap();
    backup(&path, &target.at("second")).unwrap();
    assert_eq!(modes(&target), secret(&["backup", "second"]));
    assert_eq!(modes(&folder), secret(&["hangar.db"]));
    assert!(fs::read(&path).unwrap() == before);
    assert_eq!(token_ids(&open(&target.at("second"))), ["a"]);
}

#[test]
fn a_backup_replaces_nothing() {
    let folder = Folder::new();
    let path = folder.at("hangar.db");
    let _store = open(&path);
    let file = folder.file("file", "mine");
    let link = folder.at("link");
    symlink("nowhere", &link).unwrap();
    for to in [&file, &link, &folder.0, &path] {
        let Err(BackupError::Exists(named)) = backup(&path, to) else { panic!("{}", to.display()) };
        assert_eq!(&named, to);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    assert!(link.symlink_metadata().unwrap().is_symlink() && !link.exists());
}

#[test]
fn there_is_no_backup_of_nothing() {
    let folder = Folder::new();
    let to = folder.at("backup");
    let none = folder.at("hangar.db");
    assert!(matches!(backup(&none, &to), Err(BackupError::NoDatabase(path)) if path == none));
    for (name, content) in [("empty", ""), ("text", "no database, but long enough to be one")] {
        let path = folder.file(name, content);
        let Err(BackupError::Source { path: named, error }) = backup(&path, &to) else { panic!("{name}") };
        assert!(named == path && matches!(error, StoreError::Broken(_)), "{error}");
    }
    drop(open(&none));
    let nowhere = folder.at("no/folder");
    assert!(matches!(backup(&none, &nowhere), Err(BackupError::Target { path, .. }) if path == nowhere));
    assert_eq!(folder_names(&folder), ["empty", "hangar.db", "text"]);
}
