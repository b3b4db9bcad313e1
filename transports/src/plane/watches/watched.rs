//! One watched directory: whose it is, what was told of it last, and who reads that.

use super::{
    super::{bell::Bell, lock},
    inner::{Inner, Item, Over, Page, Position, Taken},
};
use hangar_backends::watching::Change;
use hangar_core::{
    Close, Time,
    watch::{Event, Gap},
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

/// What makes two requests ask for the same.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Key {
    /// The id of the token that asks.
    pub(super) token: String,
    /// The id of the sandbox.
    pub(super) sandbox: String,
    /// As it was asked for.
    pub(super) path: String,
    pub(super) recursive: bool,
    pub(super) network: bool,
    pub(super) user: Option<String>,
    pub(super) readers: Readers,
}

/// Who reads a watch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Readers {
    /// One at a time, which is waited for.
    Stream,
    /// Any number, which ask now and then.
    Resource,
}

/// A directory that is watched.
#[derive(Debug)]
pub struct Watched {
    id: u64,
    key: Key,
    /// Absolute.
    path: String,
    first_seq: u64,
    /// The newest number that any watch of the plane has given out.
    newest_of_all: Arc<AtomicU64>,
    /// Rung when there is something new.
    bell: Arc<Bell>,
    inner: Mutex<Inner>,
}

impl Watched {
    /// One that somebody holds.
    pub(super) fn new(
        id: u64,
        key: Key,
        path: String,
        first_seq: u64,
        newest_of_all: Arc<AtomicU64>,
    ) -> Self {
        let (bell, inner) = (Arc::default(), Mutex::new(Inner::new(first_seq)));
        Self { id, key, path, first_seq, newest_of_all, bell, inner }
    }

    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    pub(super) const fn key(&self) -> &Key {
        &self.key
    }

    /// The id of the token that it belongs to.
    pub fn token(&self) -> &str {
        &self.key.token
    }

    /// The id of its sandbox.
    pub fn sandbox(&self) -> &str {
        &self.key.sandbox
    }

    /// The directory: absolute.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(in crate::plane) const fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    pub(super) fn look<T>(&self, with: impl FnOnce(&mut Inner) -> T) -> T {
        with(&mut lock(&self.inner))
    }

    /// Whether the event of this number was told by it, or is the one before its first.
    pub(super) fn has_told(&self, seq: u64) -> bool {
        (self.first_seq.saturating_sub(1)..=self.position().newest).contains(&seq)
    }

    /// What its sandbox tells.
    pub(super) fn push(&self, change: Change, ts_ms: i64) -> Taken {
        let (taken, newest) = self.look(|inner| (inner.push(change, ts_ms), inner.position().newest));
        self.newest_of_all.fetch_max(newest, Ordering::SeqCst);
        taken
    }

    /// Its reader is to forget what it has seen: everything that is there follows.
    pub(super) fn begin_anew(&self, ts_ms: i64) {
        self.push(Change::Event(Event::overflow()), ts_ms);
    }

    /// A reader follows from its beginning on.
    pub(super) fn follow(&self, since: Option<u64>) -> Option<Gap> {
        self.look(|inner| inner.follow(since))
    }

    /// What comes next for the reader that follows.
    pub(super) fn take(&self) -> Option<Item> {
        self.look(Inner::take)
    }

    /// What is kept behind `since`.
    pub fn page(&self, since: Option<u64>) -> Page {
        self.look(|inner| inner.page(since))
    }

    /// How far it is.
    pub(in crate::plane) fn position(&self) -> Position {
        self.look(|inner| inner.position())
    }

    /// Whether every change is told from now on, or none any more.
    pub(in crate::plane) fn is_settled(&self) -> bool {
        self.look(|inner| inner.is_settled())
    }

    /// Nothing more comes of it.
    pub(super) fn close(&self, reason: Close) {
        self.look(|inner| inner.end(Over::Closed(reason)));
        self.bell.ring();
    }

    /// The same, and nobody comes back to it.
    pub(super) fn leave_table(&self, reason: Close) {
        self.look(Inner::leave_table);
        self.close(reason);
    }

    /// One that held it does no longer.
    pub(super) fn let_go(&self, now: Time) {
        let unfollows = self.key.readers == Readers::Stream;
        self.look(|inner| inner.let_go(unfollows, now));
    }
}
