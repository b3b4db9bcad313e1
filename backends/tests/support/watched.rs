//! A watch of a directory, as its reader sees it.

use super::support::sandbox_with;
use async_io::block_on;
use bytes::Bytes;
use hangar_backends::{
    Sandbox,
    local::{Config, LocalSandbox},
    watching::{Change, WatchError, WatchSpec, Watching},
};
use hangar_core::watch::{Blind, End, Event, Kind, Picture};
use std::{
    fs,
    future::poll_fn,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

/// The spec of a recursive watch.
pub(crate) fn below(path: &Path) -> WatchSpec {
    WatchSpec {
        path: path.to_str().unwrap().to_owned(),
        recursive: true,
        tells_existing: false,
        user: None,
        network: false,
    }
}

/// The sandbox of this machine.
pub(crate) fn machine() -> LocalSandbox {
    sandbox_with(Config::default())
}

/// A watch, and what its reader believes to be there.
pub(crate) struct Watched {
    pub(crate) watch: Box<dyn Watching>,
    root: PathBuf,
    pub(crate) picture: Picture,
    pub(crate) blind: Vec<(Bytes, Blind)>,
    ended: u32,
}

impl Watched {
    /// Watches a directory, and everything that is there by then is in the picture.
    pub(crate) fn open(sandbox: &LocalSandbox, spec: WatchSpec) -> Result<Self, WatchError> {
        let root = PathBuf::from(&spec.path);
        let watch = block_on(sandbox.watch(spec.clone()))?;
        let mut watched = Self { watch, root, picture: Picture::default(), blind: Vec::new(), ended: 0 };
        loop {
            match watched.next() {
                Change::Ready => break,
                Change::Event(event) => watched.picture.apply(&event),
                Change::Blind { name, why } => watched.blind.push((name, why)),
                change @ (Change::Ended(_) | Change::Broken(_)) => panic!("{change:?} before it is ready"),
            }
        }
        if !spec.tells_existing {
            watched.picture = picture_of(&watched.root, spec.recursive);
        }
        Ok(watched)
    }

    pub(crate) fn next(&mut self) -> Change {
        block_on(poll_fn(|cx| self.watch.poll_change(cx)))
    }

    pub(crate) fn next_event(&mut self) -> Event {
        loop {
            match self.next() {
                Change::Event(event) => {
                    self.picture.apply(&event);
                    return event;
                }
                Change::Blind { name, why } => self.blind.push((name, why)),
                Change::Ready => {}
                change @ (Change::Ended(_) | Change::Broken(_)) => panic!("{change:?} instead of an event"),
            }
        }
    }

    /// What is told until a file that is made now is told; that one is removed again. Until an overflow, where that comes first: the
    /// file may be lost with it.
    pub(crate) fn so_far(&mut self) -> Vec<Event> {
        self.ended += 1;
        let mark = format!(".mark-{}", self.ended);
        fs::write(self.root.join(&mark), "").unwrap();
        fs::remove_file(self.root.join(&mark)).unwrap();
        let mut events = Vec::new();
        loop {
            let event = self.next_event();
            let is_mark = event.name == mark;
            if is_mark && event.kind == Kind::Remove {
                return events;
            }
            let is_lost = event.kind == Kind::Overflow;
            if !is_mark {
                events.push(event);
            }
            if is_lost {
                return events;
            }
        }
    }

    /// The same as words.
    pub(crate) fn said(&mut self) -> Vec<String> {
        self.so_far().iter().map(said).collect()
    }

    /// How it ended, and what was told before that.
    pub(crate) fn end(&mut self) -> (Vec<String>, End) {
        let mut events = Vec::new();
        loop {
            match self.next() {
                Change::Event(event) => events.push(said(&event)),
                Change::Ended(end) => return (events, end),
                Change::Ready | Change::Blind { .. } => {}
                change @ Change::Broken(_) => panic!("{change:?} instead of an end"),
            }
        }
    }

    /// Takes what is told by now. Gives how often some of it was lost.
    pub(crate) fn take_what_there_is(&mut self) -> usize {
        let mut lost = 0;
        while let Poll::Ready(change) = self.watch.poll_change(&mut Context::from_waker(Waker::noop())) {
            match change {
                Change::Event(event) => {
                    lost += usize::from(event.kind == Kind::Overflow);
                    self.picture.apply(&event);
                }
                Change::Ready | Change::Blind { .. } => {}
                Change::Ended(_) | Change::Broken(_) => panic!("{change:?} instead of an event"),
            }
        }
        lost
    }

    /// The same until the picture is what is there.
    pub(crate) fn catch_up(&mut self) -> usize {
        let mut lost = self.take_what_there_is();
        while self.picture != picture_of(&self.root, true) {
            thread::sleep(Duration::from_millis(1));
            lost += self.take_what_there_is();
        }
        lost
    }
}

pub(crate) fn said(event: &Event) -> String {
    let text = |name: &Bytes| String::from_utf8_lossy(name).into_owned();
    let from = event.from.as_ref().map(|from| format!("{} -> ", text(from))).unwrap_or_default();
    format!("{} {from}{}", event.kind.word(), text(&event.name))
}

/// What is below a directory.
pub(crate) fn picture_of(root: &Path, is_recursive: bool) -> Picture {
    let mut found = Picture::default();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            found.extend([path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec()]);
            if is_recursive && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                left.push(path);
            }
        }
    }
    found
}
