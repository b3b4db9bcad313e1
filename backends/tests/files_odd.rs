//! Files of this machine that are no content on a disk, or are in use.
#![cfg(feature = "local")]

#[path = "support/folder.rs"]
mod folder;

use folder::{Folder, everything, mkfifo};
use hangar_backends::local::files::FileError;
use rustix::{fs::inotify, io::Errno};
use std::mem::MaybeUninit;

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
