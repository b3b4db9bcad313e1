//! Watching directories of this machine, by inotify.
//!
//! * [`hub`]: all watches over one instance; [`inotify`]: that instance; [`gather`]: when it is read.
//! * [`place`]: the directories on the disk; [`mounts`]: which of those are on file systems that others change.
//! * What to make of it all is decided by [`hangar_core::watch::Watch`].

mod gather;
mod hub;
mod inotify;
mod mounts;
mod place;

use super::User;
use crate::{
    Runtime,
    runtime::{Deadline, blocking},
    watching::{Change, WatchError, Watching},
};
use hangar_core::watch::Config;
use hub::Hub;
use place::Root;
use std::{
    fmt,
    future::poll_fn,
    path::PathBuf,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

/// Notices, and names that are being listed, that are held for one watch: about 1 MiB.
const MAX_HELD: usize = 8_192;

/// Directories of one watch.
const MAX_DIRECTORIES: usize = 65_536;

/// The system tells the two halves of a rename one right after the other.
const RENAME_WAIT: Duration = Duration::from_millis(5);

/// What is watched, and how.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// A directory: an absolute path.
    pub(super) path: PathBuf,
    /// As whom it is read.
    pub(super) user: User,
    /// What is below it, too.
    pub(super) recursive: bool,
    /// What is there already is told as if it had just been created.
    pub(super) tells_existing: bool,
    /// Also on file systems whose changes the system does not all see.
    pub(super) network: bool,
}

/// The watches of this machine: those of one sandbox.
pub(super) struct Watches {
    runtime: Arc<dyn Runtime>,
    hub: Arc<Hub>,
    /// For file systems that may keep a thread waiting, so that nobody else waits for them.
    network: Arc<Hub>,
}

impl fmt::Debug for Watches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watches").finish_non_exhaustive()
    }
}

impl Watches {
    /// None yet.
    pub(super) fn new(runtime: Arc<dyn Runtime>) -> Self {
        let (hub, network) = (Hub::new(Arc::clone(&runtime)), Hub::new(Arc::clone(&runtime)));
        Self { runtime, hub, network }
    }

    /// Watches a directory. Returns once it is watched itself; those below it are before `Ready` comes.
    ///
    /// # Errors
    ///
    /// All of [`WatchError`] but [`WatchError::NeedsDaemon`], [`WatchError::Paused`] and [`WatchError::Destroyed`].
    pub(super) async fn watch(&self, wish: Wish) -> Result<Box<dyn Watching>, WatchError> {
        let hub = if wish.network { &self.network } else { &self.hub };
        let config = Config {
            recursive: wish.recursive,
            tells_existing: wish.tells_existing,
            max_held: MAX_HELD,
            max_directories: MAX_DIRECTORIES,
            rename_wait: RENAME_WAIT,
        };
        let found = blocking(&*self.runtime, move || Root::find(&wish.path, wish.user, wish.network));
        let root = found.await.ok_or_else(|| WatchError::Broken("the server is ending".into()))??;
        let path = root.path().to_string_lossy().into_owned();
        let id = hub.insert(root, config)?;
        let mut watch = LocalWatch {
            runtime: Arc::clone(&self.runtime),
            hub: Arc::clone(hub),
            id,
            path,
            deadline: Deadline::default(),
            first: None,
        };
        match poll_fn(|cx| watch.poll_armed(cx)).await {
            None => {}
            Some(Change::Broken(error)) => return Err(error),
            Some(Change::Ended(_)) => return Err(WatchError::NotFound(watch.path.clone())),
            first @ Some(_) => watch.first = first,
        }
        Ok(Box::new(watch))
    }
}

/// One of them.
struct LocalWatch {
    runtime: Arc<dyn Runtime>,
    hub: Arc<Hub>,
    id: u64,
    path: String,
    deadline: Deadline,
    /// What came before anybody had it.
    first: Option<Change>,
}

impl LocalWatch {
    /// Ready when its directory is armed, or with what it has to say before that.
    fn poll_armed(&mut self, cx: &mut Context<'_>) -> Poll<Option<Change>> {
        match self.poll_change(cx) {
            Poll::Ready(change) => Poll::Ready(Some(change)),
            Poll::Pending if self.hub.is_armed(self.id) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Watching for LocalWatch {
    fn path(&self) -> &str {
        &self.path
    }

    fn poll_change(&mut self, cx: &mut Context<'_>) -> Poll<Change> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(first);
        }
        loop {
            match self.hub.poll(self.id, cx) {
                Ok(change) => return Poll::Ready(change),
                Err(at) => ready!(self.deadline.poll(&*self.runtime, at, cx)),
            }
        }
    }

    fn retell(&mut self) {
        self.hub.retell(self.id);
    }
}

impl Drop for LocalWatch {
    fn drop(&mut self) {
        self.hub.remove(self.id);
    }
}
