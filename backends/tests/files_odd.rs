//! Files of this machine that are no content on a disk, or are in use.
#![cfg(feature = "local")]

#[path = "support/folder.rs"]
mod folder;

use folder::{Folder, everything, mkfifo};
use hangar_backends::local::files::{Entry, FileError};
use rustix::{fs::inotify, io::Errno};
use std::{fs, mem::MaybeUninit};

#[test]
fn a_fifo_is_not_opened_to_find_out_what_it_is() {
    let (folder, (files, user)) = (Folder::new(), everything());
    let fifo = folder.at("fifo");
    mkfifo(&fifo);
    let opened = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&opened, &fifo, inotify::WatchFlags::OPEN).unwrap();
    let error = FileError::NotRegular(folder.text("fifo"));
    assert_eq!(files.open(&user, &fifo).unwrap_err(), error);
    assert_eq!(files.create(&user, &fifo, 0o666).unwrap_err(), error);
    assert_eq!(files.compose(&user, &[fifo], &folder.at("all")).unwrap_err(), error);
    let mut buffer = [MaybeUninit::uninit(); 1024];
    let event = inotify::Reader::new(&opened, &mut buffer).next().map(|event| event.events());
    assert_eq!(event, Err(Errno::AGAIN), "nobody opened it");
}

#[test]
fn a_listing_is_bounded_in_bytes_too() {
    let (folder, (files, user)) = (Folder::in_memory(), everything());
    // Each entry has its whole path.
    let deep = folder.at(vec!["d".repeat(255); 14].join("/"));
    fs::create_dir_all(&deep).unwrap();
    let bytes = |entry: &Entry| entry.name.len() + entry.path.len();
    let each = deep.as_os_str().len() + 1 + 2 * 250;
    let fit = (16 << 20) / each;
    for number in 0..fit {
        fs::write(deep.join(format!("{number:0>250}")), "").unwrap();
    }
    let listed = files.list(&user, &deep, 1, 100_000).unwrap();
    assert_eq!((listed.len(), listed.iter().map(bytes).sum::<usize>()), (fit, fit * each));
    fs::write(deep.join(format!("{fit:0>250}")), "").unwrap();
    let path = deep.to_str().unwrap().to_owned();
    let error = files.list(&user, &deep, 1, 100_000).unwrap_err();
    assert_eq!(error, FileError::TooLarge { path, max: 16 << 20 });
}
