//! The watched directories of all tokens.

use super::{
    super::lock,
    inner::{Inner, Over},
    watched::{Key, Readers, Watched},
};
use hangar_backends::Runtime;
use hangar_core::{Close, Time, watch::Gap};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Numbers between the first ones of two watches that are opened at the same time.
const APART: u64 = 1 << 16;

/// The watched directories of a plane.
#[derive(Debug)]
pub struct Watches {
    max_per_token: usize,
    by_token: Mutex<BTreeMap<String, Mine>>,
    /// The newest number that was given out.
    newest: Arc<AtomicU64>,
    ids: AtomicU64,
}

/// Those of one token.
#[derive(Debug, Default)]
struct Mine {
    /// Places for those that are being opened.
    opening: usize,
    /// Oldest first.
    watches: Vec<Arc<Watched>>,
}

/// A token watches as many directories as it may.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("this token watches {0} directories, as many as one token may (HANGAR_WATCH_MAX_PER_TOKEN)")]
pub struct TooManyWatches(usize);

/// A place for one more watch of a token, while it is being opened.
pub(super) struct Opening {
    watches: Arc<Watches>,
    token: String,
}

/// A watch, for as long as somebody reads it.
pub(in crate::plane) struct Held {
    watched: Arc<Watched>,
    watches: Arc<Watches>,
    runtime: Arc<dyn Runtime>,
    /// Its reader will not come back.
    for_good: bool,
}

impl Mine {
    fn remove(&mut self, watched: &Watched) {
        self.watches.retain(|other| other.id() != watched.id());
    }

    fn is_empty(&self) -> bool {
        self.opening == 0 && self.watches.is_empty()
    }

    fn len(&self) -> usize {
        let counted = self.watches.iter().filter(|watched| watched.look(|inner| inner.counts()));
        self.opening + counted.count()
    }

    /// The one that nobody has read for the longest time.
    fn left_first(&self) -> Option<Arc<Watched>> {
        let left = self.watches.iter().filter_map(|one| Some((one.look(|inner| inner.left_at())?, one)));
        left.min_by_key(|(at, _)| *at).map(|(_, one)| Arc::clone(one))
    }
}

impl Watches {
    pub(in crate::plane) fn new(settings: &crate::Settings) -> Arc<Self> {
        Arc::new(Self {
            max_per_token: settings.watch_max_per_token,
            by_token: Mutex::default(),
            newest: Arc::default(),
            ids: AtomicU64::new(0),
        })
    }

    /// How many there are, those included that nobody reads.
    pub fn len(&self) -> usize {
        lock(&self.by_token).values().map(|mine| mine.watches.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tokens that have some.
    pub(in crate::plane) fn tokens(&self) -> Vec<String> {
        lock(&self.by_token).keys().cloned().collect()
    }

    /// Ends those that `which` picks. Who asks now and then whether something has changed finds out that the sandbox was
    /// paused.
    pub(in crate::plane) fn end(&self, reason: Close, which: impl Fn(&Watched) -> bool) {
        let (mut gone, mut paused) = (Vec::new(), Vec::new());
        let stays = |watched: &Watched| reason == Close::Paused && watched.key().readers == Readers::Resource;
        lock(&self.by_token).retain(|_, mine| {
            paused.extend(mine.watches.iter().filter(|one| which(one) && stays(one)).cloned());
            gone.extend(mine.watches.extract_if(.., |one| which(one) && !stays(one)));
            !mine.is_empty()
        });
        paused.into_iter().for_each(|watched| watched.close(reason));
        gone.into_iter().for_each(|watched| watched.leave_table(reason));
    }

    /// A place for one more of a token's: that of one that nobody reads, where there is no other.
    pub(super) fn open(self: &Arc<Self>, token: &str) -> Result<Opening, TooManyWatches> {
        let mut by_token = lock(&self.by_token);
        let mine = by_token.entry(token.to_owned()).or_default();
        let mut ended = Vec::new();
        while mine.len() >= self.max_per_token {
            let Some(left) = mine.left_first() else { return Err(TooManyWatches(mine.len())) };
            mine.remove(&left);
            ended.push(left);
        }
        mine.opening += 1;
        drop(by_token);
        ended.into_iter().for_each(|watched| watched.leave_table(Close::Limit));
        Ok(Opening { watches: Arc::clone(self), token: token.to_owned() })
    }

    /// The first number of a new watch: higher than any that was given out, also by an earlier run of the server.
    pub(super) fn first_seq(&self, wall_ms: i64) -> u64 {
        let clock = u64::try_from(wall_ms).unwrap_or(0).saturating_mul(1000).max(1);
        let after = |newest: u64| clock.max(newest + 1);
        let newest = self.newest.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |newest| {
            Some(after(newest).saturating_add(APART))
        });
        after(newest.unwrap_or_else(|newest| newest))
    }

    /// The watch that has told the event of this number and that nobody reads, for a stream behind that. Where it ended by
    /// itself the stream tells that; where the sandbox's side broke, there is to be another one.
    pub(super) fn take_over(
        self: &Arc<Self>,
        key: &Key,
        since: u64,
        runtime: &Arc<dyn Runtime>,
    ) -> Option<(Held, Option<Gap>)> {
        let by_token = lock(&self.by_token);
        let mine = by_token.get(&key.token)?;
        let mut told = mine.watches.iter().filter(|watched| watched.key() == key && watched.has_told(since));
        let (Some(watched), None) = (told.next(), told.next()) else { return None };
        let is_left = |inner: &mut Inner| inner.left_at().is_some();
        let is_of_use = |inner: &mut Inner| matches!(inner.over(), None | Some(Over::Ended(_)));
        if !watched.look(is_left) || !watched.look(is_of_use) {
            return None;
        }
        watched.look(Inner::hold);
        let gap = watched.look(|inner| inner.follow_again(since));
        Some((self.held(watched, runtime), gap))
    }

    /// The watch that goes on, for one more of those that ask now and then.
    pub(super) fn share(self: &Arc<Self>, key: &Key, runtime: &Arc<dyn Runtime>) -> Option<Held> {
        let by_token = lock(&self.by_token);
        let mine = by_token.get(&key.token)?;
        let goes_on =
            |watched: &&Arc<Watched>| watched.key() == key && watched.look(|inner| inner.over().is_none());
        let watched = mine.watches.iter().rfind(goes_on)?;
        watched.look(Inner::hold);
        Some(self.held(watched, runtime))
    }

    /// The number of a new watch.
    pub(super) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// The newest number that was given out.
    pub(super) const fn newest(&self) -> &Arc<AtomicU64> {
        &self.newest
    }

    /// Somebody who holds it already.
    pub(super) fn held(self: &Arc<Self>, watched: &Arc<Watched>, runtime: &Arc<dyn Runtime>) -> Held {
        let (watched, watches, runtime) = (Arc::clone(watched), Arc::clone(self), Arc::clone(runtime));
        Held { watched, watches, runtime, for_good: false }
    }

    /// The newest of those, one that goes on first.
    pub(super) fn find(&self, key: &Key) -> Option<Arc<Watched>> {
        let by_token = lock(&self.by_token);
        let found = by_token.get(&key.token)?.watches.iter().filter(|watched| watched.key() == key);
        found.max_by_key(|watched| watched.look(|inner| (inner.over().is_none(), watched.id()))).cloned()
    }

    /// Lets go of one that nobody has read for `patience`, unless somebody does by now.
    pub(super) fn remove_if_left(&self, watched: &Watched, patience: Duration, now: Time) -> bool {
        let mut by_token = lock(&self.by_token);
        let is_left = watched.look(|inner| inner.left_at().is_some_and(|at| now.since(at) >= patience));
        if is_left && let Some(mine) = by_token.get_mut(watched.token()) {
            mine.remove(watched);
            if mine.is_empty() {
                by_token.remove(watched.token());
            }
        }
        is_left
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.end(Close::Shutdown, |_| true);
    }
}

impl Opening {
    /// Enters what was opened.
    pub(super) fn fill(self, watched: &Arc<Watched>) {
        let mut by_token = lock(&self.watches.by_token);
        by_token.entry(self.token.clone()).or_default().watches.push(Arc::clone(watched));
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let mut by_token = lock(&self.watches.by_token);
        if let Some(mine) = by_token.get_mut(&self.token) {
            mine.opening -= 1;
            if mine.is_empty() {
                by_token.remove(&self.token);
            }
        }
    }
}

impl Held {
    /// The watch.
    pub(in crate::plane) const fn watched(&self) -> &Arc<Watched> {
        &self.watched
    }

    /// Its reader will not come back: it ends, unless somebody else reads it.
    pub(in crate::plane) const fn leave_for_good(&mut self) {
        self.for_good = true;
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Held").field(&self.watched).finish()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let now = self.runtime.now();
        self.watched.let_go(now);
        if self.for_good && self.watches.remove_if_left(&self.watched, Duration::ZERO, now) {
            self.watched.leave_table(Close::Client);
        }
    }
}
