//! What changes below a directory of this machine is told: all of it, and once.
#![cfg(feature = "local")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/folder.rs"]
mod folder;
mod support;
#[path = "support/watched.rs"]
mod watched;

use folder::Folder;
use hangar_backends::watching::{Change, WatchError, WatchSpec};
use hangar_core::watch::{End, Kind};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::{
    ffi::OsStr,
    fs::{self, File, Permissions},
    io::Write,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
    path::Path,
    thread,
    time::Duration,
};
use watched::{Watched, below, machine, picture_of};

fn watched(folder: &Folder) -> Watched {
    Watched::open(&machine(), below(&folder.0)).unwrap()
}

#[test]
fn everything_of_a_new_tree_is_told_once() {
    let folder = Folder::new();
    let mut watched = watched(&folder);
    for round in 0..200_u32 {
        let tree = folder.at(format!("{round}/a/b/c/d/e/f"));
        // Sooner or later than the directories above it are watched.
        fs::create_dir_all(&tree).unwrap();
        thread::sleep(Duration::from_micros(u64::from(round % 20) * 100));
        fs::write(tree.join("x"), "x").unwrap();
        let mut created = Vec::new();
        while created.len() < 8 {
            let event = watched.next_event();
            if event.kind == Kind::Create {
                created.push(String::from_utf8(event.name.to_vec()).unwrap());
            }
        }
        let expected: Vec<String> = ["", "/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/b/c/d/e", "/a/b/c/d/e/f"]
            .iter()
            .map(|path| format!("{round}{path}"))
            .chain([format!("{round}/a/b/c/d/e/f/x")])
            .collect();
        assert_eq!(created, expected);
        let rest = watched.said();
        assert!(rest.iter().all(|said| said.starts_with("write ")), "{rest:?}");
    }
}

#[test]
fn each_change_has_its_word() {
    let folder = Folder::new();
    let mut watched = watched(&folder);
    let mut file = File::create(folder.at("f")).unwrap();
    file.write_all(b"1").unwrap();
    fs::set_permissions(folder.at("f"), Permissions::from_mode(0o600)).unwrap();
    fs::rename(folder.at("f"), folder.at("g")).unwrap();
    file.write_all(b"2").unwrap();
    fs::remove_file(folder.at("g")).unwrap();
    // Nobody can see this any more.
    file.write_all(b"3").unwrap();
    let expected = ["create f", "write f", "chmod f", "rename f -> g", "write g", "remove g"];
    assert_eq!(watched.said(), expected);
    fs::set_permissions(&folder.0, Permissions::from_mode(0o700)).unwrap();
    assert_eq!(watched.said(), ["chmod ."]);
}

#[test]
fn the_halves_of_a_rename_are_one_remove_or_create() {
    let folder = Folder::new();
    fs::create_dir_all(folder.at("in/dir")).unwrap();
    fs::create_dir_all(folder.at("out/other/deep")).unwrap();
    fs::write(folder.at("out/file"), "").unwrap();
    let mut watched = Watched::open(&machine(), below(&folder.at("in"))).unwrap();
    fs::rename(folder.at("out/file"), folder.at("in/file")).unwrap();
    fs::rename(folder.at("in/file"), folder.at("in/dir/name")).unwrap();
    fs::rename(folder.at("in/dir"), folder.at("in/new")).unwrap();
    fs::write(folder.at("in/new/later"), "").unwrap();
    let expected = ["create file", "rename file -> dir/name", "rename dir -> new", "create new/later"];
    assert_eq!(watched.said(), expected);
    // What moved out is told no more, and what moved in is, with all that is in it.
    fs::rename(folder.at("in/new"), folder.at("out/new")).unwrap();
    assert_eq!(watched.said(), ["remove new"]);
    fs::write(folder.at("out/new/unseen"), "").unwrap();
    fs::rename(folder.at("out/other"), folder.at("in/other")).unwrap();
    assert_eq!(watched.said()[..1], ["create other"]);
    watched.catch_up();
    fs::write(folder.at("in/other/deep/seen"), "").unwrap();
    watched.catch_up();
    assert!(watched.picture.contains(b"other/deep/seen"));
}

#[test]
fn two_directories_that_are_exchanged_in_one_step_are_told_apart() {
    let folder = Folder::new();
    for path in ["a/of-a", "b/of-b/deep"] {
        fs::create_dir_all(folder.at(path)).unwrap();
    }
    let mut watched = watched(&folder);
    let exchange = |one: &str, other: &str| {
        let (one, other) = (folder.at(one), folder.at(other));
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
    };
    exchange("a", "b");
    watched.catch_up();
    fs::write(folder.at("a/of-b/deep/x"), "").unwrap();
    fs::write(folder.at("b/of-a/y"), "").unwrap();
    watched.catch_up();
    // Back and forth by two renames is none.
    fs::rename(folder.at("a"), folder.at("c")).unwrap();
    fs::rename(folder.at("c"), folder.at("a")).unwrap();
    watched.catch_up();
    fs::write(folder.at("file"), "").unwrap();
    exchange("file", "b");
    watched.catch_up();
    fs::write(folder.at("file/of-a/z"), "").unwrap();
    watched.catch_up();
}

#[test]
fn the_end_of_the_directory_is_the_end_of_the_watch() {
    let folder = Folder::new();
    let make = || fs::create_dir_all(folder.at("w/sub")).unwrap();
    let open = || Watched::open(&machine(), below(&folder.at("w"))).unwrap();
    make();
    let mut watched = open();
    // Somebody is in it, which is why the system does not let go of it.
    let inside = File::open(folder.at("w")).unwrap();
    fs::remove_dir_all(folder.at("w")).unwrap();
    make();
    assert_eq!(watched.end(), (vec!["remove sub".to_owned()], End::Removed));
    drop(inside);
    let mut watched = open();
    fs::rename(folder.at("w"), folder.at("v")).unwrap();
    assert_eq!(watched.end(), (vec![], End::Moved));
    let mut watched = Watched::open(&machine(), below(&folder.at("v"))).unwrap();
    make();
    fs::remove_dir(folder.at("w/sub")).unwrap();
    renameat_with(CWD, folder.at("w"), CWD, folder.at("v"), RenameFlags::EXCHANGE).unwrap();
    assert_eq!(watched.end().1, End::Moved);
}

#[test]
fn a_root_may_be_a_link_and_links_below_it_are_not_followed() {
    let folder = Folder::new();
    fs::create_dir_all(folder.at("real/sub")).unwrap();
    fs::create_dir_all(folder.at("elsewhere/deep")).unwrap();
    symlink("real", folder.at("link")).unwrap();
    symlink("../elsewhere", folder.at("real/out")).unwrap();
    let mut watched = Watched::open(&machine(), below(&folder.at("link"))).unwrap();
    assert_eq!(Path::new(watched.watch.path()), folder.at("real"));
    fs::write(folder.at("elsewhere/unseen"), "").unwrap();
    symlink("../elsewhere", folder.at("real/later")).unwrap();
    fs::write(folder.at("elsewhere/deep/unseen"), "").unwrap();
    fs::write(folder.at("real/sub/seen"), "").unwrap();
    assert_eq!(watched.said(), ["create later", "create sub/seen"]);
}

#[test]
fn names_are_any_bytes() {
    let folder = Folder::new();
    let mut watched = watched(&folder);
    let (long, odd) = ("n".repeat(255), OsStr::from_bytes(b"caf\xe9 \n\x01"));
    fs::create_dir(folder.at(&long)).unwrap();
    fs::create_dir(folder.at(&long).join(odd)).unwrap();
    watched.catch_up();
    fs::write(folder.at(&long).join(odd).join("x"), "").unwrap();
    watched.catch_up();
    fs::rename(folder.at(&long), folder.at(odd)).unwrap();
    let event = watched.next_event();
    assert_eq!((&event.name[..], event.from.as_deref()), (odd.as_bytes(), Some(long.as_bytes())));
    watched.catch_up();
    // A path may be longer than the system takes in one call.
    let mut deep = folder.at(odd);
    std::env::set_current_dir(&deep).unwrap();
    for _ in 0..20 {
        fs::create_dir(&long).unwrap();
        std::env::set_current_dir(&long).unwrap();
        deep.push(&long);
    }
    fs::write("end", "").unwrap();
    let end = [deep.strip_prefix(&folder.0).unwrap().as_os_str().as_bytes(), b"/end"].concat();
    while !watched.picture.contains(&end) {
        watched.next_event();
    }
    std::env::set_current_dir("/").unwrap();
}

#[test]
fn a_hard_link_is_a_name_of_its_own() {
    let folder = Folder::new();
    fs::write(folder.at("one"), "").unwrap();
    let mut watched = watched(&folder);
    fs::hard_link(folder.at("one"), folder.at("two")).unwrap();
    fs::write(folder.at("two"), "x").unwrap();
    fs::remove_file(folder.at("one")).unwrap();
    // To have one more name is a change of the file's attributes, which the system tells of the name that was linked.
    let mut said = watched.said();
    said.retain(|said| !said.starts_with("chmod"));
    // It was emptied, and written.
    said.dedup();
    assert_eq!(said, ["create two", "write two", "remove one"]);
}

#[test]
fn what_cannot_be_watched_is_refused_by_name() {
    let folder = Folder::new();
    fs::write(folder.at("file"), "").unwrap();
    let refused = |spec: WatchSpec| Watched::open(&machine(), spec).err().unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let missing = folder.at("missing");
    assert_eq!(refused(below(&missing)), WatchError::NotFound(text(&missing)));
    let file = folder.at("file");
    assert_eq!(refused(below(&file)), WatchError::NotADirectory(text(&file)));
    let spec = |path: &str| WatchSpec { path: path.into(), ..below(Path::new("/")) };
    assert!(matches!(refused(spec("")), WatchError::BadPath(_)));
    assert!(matches!(refused(spec("a\0b")), WatchError::BadPath(_)));
    assert!(matches!(refused(spec("~nobody/x")), WatchError::BadPath(_)));
    let user = Some("no-such-user".to_owned());
    assert!(matches!(refused(WatchSpec { user, ..below(&folder.0) }), WatchError::BadUser(_)));
}

#[test]
fn what_may_not_be_read_is_said_and_watched_once_it_may() {
    if !folder::is_root() {
        println!("skipped: not root");
        return;
    }
    let folder = Folder::new();
    fs::set_permissions(&folder.0, Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(folder.at("secret/inner")).unwrap();
    fs::set_permissions(folder.at("secret"), Permissions::from_mode(0o700)).unwrap();
    let spec = WatchSpec { user: Some("nobody".into()), ..below(&folder.0) };
    let mut watched = Watched::open(&machine(), spec).unwrap();
    assert_eq!(watched.blind, [("secret".into(), hangar_core::watch::Blind::Denied)]);
    fs::write(folder.at("secret/unseen"), "").unwrap();
    assert_eq!(watched.said(), [""; 0]);
    fs::set_permissions(folder.at("secret"), Permissions::from_mode(0o755)).unwrap();
    watched.picture.forget(b"secret");
    watched.picture.extend([&b"secret"[..]]);
    watched.catch_up();
    fs::write(folder.at("secret/inner/seen"), "").unwrap();
    watched.catch_up();
    let spec = WatchSpec { user: Some("nobody".into()), ..below(&folder.at("secret/inner")) };
    fs::set_permissions(folder.at("secret/inner"), Permissions::from_mode(0o700)).unwrap();
    assert!(matches!(Watched::open(&machine(), spec).err(), Some(WatchError::Denied(_))));
}

#[test]
fn a_directory_that_may_be_read_no_longer_when_it_is_told_again_is_called_that() {
    if !folder::is_root() {
        println!("skipped: not root");
        return;
    }
    let folder = Folder::new();
    fs::set_permissions(&folder.0, Permissions::from_mode(0o755)).unwrap();
    let spec = WatchSpec { user: Some("nobody".into()), ..below(&folder.0) };
    let mut watched = Watched::open(&machine(), spec).unwrap();
    fs::set_permissions(&folder.0, Permissions::from_mode(0o700)).unwrap();
    watched.watch.retell();
    let path = folder.0.to_str().unwrap().to_owned();
    let over = std::iter::repeat_with(|| watched.next()).find(|change| !matches!(change, Change::Event(_)));
    assert_eq!(over, Some(Change::Broken(WatchError::Denied(path))));
}

#[test]
fn a_reader_that_is_slow_is_told_that_it_lost_some_and_what_is_there() {
    let folder = Folder::new();
    let directories: Vec<_> = (0..40).map(|number: u32| folder.at(number.to_string())).collect();
    directories.iter().for_each(|directory| fs::create_dir(directory).unwrap());
    let mut watched = watched(&folder);
    // More than the watch holds.
    for directory in &directories {
        for file in 0..500 {
            fs::write(directory.join(file.to_string()), "").unwrap();
        }
    }
    fs::remove_dir_all(&directories[3]).unwrap();
    assert!(watched.catch_up() >= 1);
    fs::write(folder.at("39/after"), "").unwrap();
    assert_eq!(watched.said(), ["create 39/after"]);
}

#[test]
fn a_reader_that_asks_is_told_everything_again() {
    let folder = Folder::new();
    fs::create_dir_all(folder.at("a/b")).unwrap();
    let mut watched = watched(&folder);
    watched.watch.retell();
    assert_eq!(watched.next_event().kind, Kind::Overflow);
    watched.catch_up();
    fs::write(folder.at("a/b/c"), "").unwrap();
    assert_eq!(watched.said(), ["create a/b/c"]);
}

#[test]
fn what_is_there_is_told_first_if_it_is_to_be() {
    let folder = Folder::new();
    fs::create_dir_all(folder.at("a/b")).unwrap();
    fs::write(folder.at("a/b/c"), "").unwrap();
    let spec = WatchSpec { tells_existing: true, ..below(&folder.0) };
    let watched = Watched::open(&machine(), spec).unwrap();
    assert_eq!(watched.picture, picture_of(&folder.0, true));
    let spec = WatchSpec { tells_existing: true, recursive: false, ..below(&folder.0) };
    let mut watched = Watched::open(&machine(), spec).unwrap();
    assert_eq!(watched.picture, picture_of(&folder.0, false));
    fs::write(folder.at("a/b/d"), "").unwrap();
    fs::create_dir(folder.at("e")).unwrap();
    fs::write(folder.at("e/f"), "").unwrap();
    assert_eq!(watched.said(), ["create e"]);
}

#[test]
fn what_happens_beside_a_watched_directory_is_not_held_for_it() {
    let folder = Folder::new();
    fs::create_dir(folder.at("watched")).unwrap();
    let sandbox = machine();
    let _around = Watched::open(&sandbox, below(&folder.0)).unwrap();
    let mut watched = Watched::open(&sandbox, below(&folder.at("watched"))).unwrap();
    for number in 0..10_000 {
        File::create(folder.at(number.to_string())).unwrap();
    }
    assert_eq!(watched.said(), [""; 0]);
}

#[test]
fn watches_that_overlap_are_independent() {
    let folder = Folder::new();
    fs::create_dir_all(folder.at("a/b")).unwrap();
    let sandbox = machine();
    let open = |path: &Path| Watched::open(&sandbox, below(path)).unwrap();
    let (mut outer, mut inner, dropped) = (open(&folder.0), open(&folder.at("a")), open(&folder.at("a/b")));
    drop(dropped);
    fs::write(folder.at("a/b/x"), "").unwrap();
    assert_eq!(inner.said(), ["create b/x"]);
    outer.so_far();
    drop(outer);
    fs::write(folder.at("a/b/y"), "").unwrap();
    assert_eq!(inner.said(), ["create b/y"]);
    // The directory that a watched one is in is watched as well, for its end.
    let mut deep = open(&folder.at("a/b"));
    fs::remove_dir_all(folder.at("a/b")).unwrap();
    assert_eq!(deep.end().1, End::Removed);
    assert_eq!(inner.said(), ["remove b/x", "remove b/y", "remove b"]);
}

/// A name that is not there, or one that is.
fn any_path(random: &mut impl FnMut(usize) -> usize, root: &Path) -> std::path::PathBuf {
    let mut path = root.to_owned();
    for _ in 0..=random(3) {
        path.push(["a", "b", "c", "d"][random(4)]);
    }
    path
}

#[test]
fn whatever_happens_the_picture_is_what_is_there() {
    let folder = Folder::new();
    for path in ["in", "out"] {
        fs::create_dir(folder.at(path)).unwrap();
    }
    let mut watched = Watched::open(&machine(), below(&folder.at("in"))).unwrap();
    for seed in 1..40_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % below as u64).unwrap()
        };
        for _ in 0..150 {
            let root = folder.at(["in", "in", "in", "out"][random(4)]);
            let path = any_path(&mut random, &root);
            // Most of this fails for want of what it is about, and that is what happens on a disk.
            match random(9) {
                0 | 1 => drop(fs::create_dir_all(&path)),
                2 | 3 => drop(fs::write(&path, "x")),
                4 => drop(fs::remove_dir_all(&path)),
                5 => drop(fs::remove_file(&path)),
                6 | 7 => {
                    let root = folder.at(["in", "in", "out"][random(3)]);
                    drop(fs::rename(&path, any_path(&mut random, &root)));
                }
                _ => {
                    let other = any_path(&mut random, &folder.at("in"));
                    renameat_with(CWD, &path, CWD, other, RenameFlags::EXCHANGE).ok();
                }
            }
            match random(24) {
                0 => thread::sleep(Duration::from_micros(random(400) as u64)),
                1 | 2 => drop(watched.take_what_there_is()),
                _ => {}
            }
        }
        watched.catch_up();
    }
}
