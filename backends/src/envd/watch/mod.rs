//! Directories that a daemon watches.
//!
//! ```text
//!  open ──► following: messages ──► changes
//!             │    ▲
//!             │    └ found again: `overflow`, and what is there
//!             └► cut, ended by the daemon, or to be told anew
//! ```
//!
//! hangar's daemon tells everything that its own watch does. Of E2B's the changes are folded by [`Foreign`], what is there is
//! listed, and a stream that ends has lost something.

mod open;

use super::{
    Shared,
    lanes::{GIVE_UP, Retry},
    stream::{Lost, MessageStream},
};
use crate::{
    runtime::{BoxFuture, Deadline},
    watching::{Change, WatchError, WatchSpec, Watching},
};
use bytes::Bytes;
use hangar_core::{
    Time,
    watch::{End, Event, Foreign, Kind},
    wire::envd::{
        change::{self, Said},
        filesystem::{FilesystemEvent, WatchDirResponse},
    },
};
use open::{NotOpened, Opened};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

/// How often a watch is asked for, while connections break.
const TRIES: u32 = 3;

/// By then everything that was folded is settled.
const SETTLED: Duration = Duration::from_secs(60);

/// Who watches: whoever destroys the sandbox wakes them.
#[derive(Default)]
pub(super) struct Wakers {
    wakers: BTreeMap<u64, Option<Waker>>,
    next: u64,
}

impl Wakers {
    fn insert(&mut self) -> u64 {
        let id = self.next;
        self.next += 1;
        self.wakers.insert(id, None);
        id
    }

    /// Wakes all of them.
    pub(super) fn wake(self) {
        self.wakers.into_values().flatten().for_each(Waker::wake);
    }
}

/// A directory that a daemon watches. Each change is taken from the connection when it is asked for: what is not asked for waits
/// in the daemon, within its bounds.
struct EnvdWatching {
    shared: Arc<Shared>,
    id: u64,
    spec: WatchSpec,
    path: String,
    link: Link,
    /// What was heard, and not told yet: what one message says, or what is there.
    heard: VecDeque<Change>,
    foreign: Foreign,
    /// When it is asked for again; until a stream that was found has gone on.
    retry: Retry,
    deadline: Deadline,
}

/// How the changes come.
enum Link {
    Following {
        stream: MessageStream<WatchDirResponse>,
        is_hangar: bool,
    },
    Lost {
        since: Time,
        attempt: Option<BoxFuture<'static, Result<Opened, NotOpened>>>,
    },
    /// Nothing comes any more.
    Over,
}

/// Watches a directory.
pub(super) async fn watch(shared: &Arc<Shared>, spec: WatchSpec) -> Result<Box<dyn Watching>, WatchError> {
    if spec.path.is_empty() {
        return Err(WatchError::BadPath("it is empty".to_owned()));
    }
    let mut tries = 0;
    let opened = loop {
        if shared.lock().destroyed {
            return Err(WatchError::Destroyed);
        }
        tries += 1;
        match open::open(shared, &spec).await {
            Ok(opened) => break opened,
            // To ask again does no harm, and to ask one that says nothing is of no use.
            Err(NotOpened::Cut(_)) if tries < TRIES => *shared.known() = None,
            Err(NotOpened::Cut(error) | NotOpened::Later(error) | NotOpened::Refused(error)) => {
                return Err(error);
            }
        }
    };
    let id = shared.lock().watches.insert();
    let mut watching = EnvdWatching {
        shared: Arc::clone(shared),
        id,
        spec,
        path: opened.path.clone(),
        link: Link::Over,
        heard: VecDeque::new(),
        foreign: Foreign::default(),
        retry: Retry::default(),
        deadline: Deadline::default(),
    };
    watching.opened(opened, shared.runtime.now());
    Ok(Box::new(watching))
}

impl EnvdWatching {
    /// A daemon watches it.
    fn opened(&mut self, opened: Opened, now: Time) {
        let Opened { stream, is_hangar, listed, .. } = opened;
        self.link = Link::Following { stream, is_hangar };
        if !is_hangar {
            listed.into_iter().for_each(|name| self.foreign.handle(Kind::Create, name, now));
            self.tell_folded(now);
            self.heard.push_back(Change::Ready);
        }
    }

    /// All that was folded, but for half a rename.
    fn tell_folded(&mut self, now: Time) {
        while let Ok(event) = self.foreign.poll(now) {
            self.heard.push_back(Change::Event(event));
        }
    }

    fn hear(&mut self, message: WatchDirResponse, is_hangar: bool, now: Time) {
        self.retry = Retry::default();
        let Some(event) = message.filesystem else { return };
        match is_hangar {
            true => self.heard.extend(change::read(event).map(|said| match said {
                Said::Event(event) => Change::Event(event),
                Said::Ready => Change::Ready,
                Said::Blind { name, why } => Change::Blind { name, why },
                Said::Ended(end) => Change::Ended(end),
            })),
            false => self.hear_foreign(event, now),
        }
    }

    fn hear_foreign(&mut self, event: FilesystemEvent, now: Time) {
        let Some(kind) = change::change(event.kind) else { return };
        // What E2B's says of the directory itself is the last that it says.
        let end = match (&*event.name, kind) {
            (".", Kind::Remove) => End::Removed,
            (".", Kind::Rename) => End::Moved,
            (..) => return self.foreign.handle(kind, Bytes::from(event.name), now),
        };
        // What is half of a rename has no other half.
        self.tell_folded(now + SETTLED);
        self.heard.push_back(Change::Ended(end));
    }

    /// The stream is lost, and what it would have told: it is asked for again.
    fn lost(&mut self, lost: Lost, now: Time) {
        if let Lost::Ended(Some(error)) = &lost
            && let NotOpened::Refused(error) = open::refused(error.clone(), &self.path)
        {
            return self.end(Change::Broken(error));
        }
        tracing::info!(path = self.path, %lost, "the stream about a directory is lost; it is asked for again");
        // What answers there next may be another daemon.
        *self.shared.known() = None;
        if self.retry.at().is_some() {
            self.retry.failed(now);
        }
        self.begin_anew(now);
    }

    fn begin_anew(&mut self, now: Time) {
        self.heard.clear();
        self.foreign = Foreign::default();
        self.link = Link::Lost { since: now, attempt: None };
    }

    fn end(&mut self, change: Change) {
        self.link = Link::Over;
        self.heard.push_back(change);
    }

    /// Asks for it again. Returns whether something has become of that.
    fn look(&mut self, now: Time, cx: &mut Context<'_>) -> bool {
        let Link::Lost { since, attempt } = &mut self.link else { return false };
        if attempt.is_none() {
            if now.since(*since) >= GIVE_UP {
                self.end(Change::Broken(WatchError::Broken("its daemon cannot be reached".to_owned())));
                return true;
            }
            if !self.retry.is_due(now) {
                return false;
            }
            let (shared, mut spec) = (Arc::clone(&self.shared), self.spec.clone());
            spec.tells_existing = true;
            *attempt = Some(Box::pin(async move { open::open(&shared, &spec).await }));
        }
        let Some(attempting) = attempt else { return false };
        let Poll::Ready(opened) = attempting.as_mut().poll(cx) else { return false };
        *attempt = None;
        match opened {
            Ok(opened) => {
                // The next break is the first again once it has gone on.
                self.retry.found(now);
                self.heard.push_back(Change::Event(Event::overflow()));
                self.opened(opened, now);
                true
            }
            Err(NotOpened::Refused(WatchError::NotFound(_) | WatchError::NotADirectory(_))) => {
                self.end(Change::Ended(End::Removed));
                true
            }
            Err(NotOpened::Refused(error)) => {
                self.end(Change::Broken(error));
                true
            }
            Err(NotOpened::Cut(error) | NotOpened::Later(error)) => {
                tracing::debug!(path = self.path, %error, "it is not watched");
                *self.shared.known() = None;
                self.retry.failed(now);
                false
            }
        }
    }

    /// When it is asked for again.
    fn looks_at(&self) -> Option<Time> {
        self.retry.at().filter(|_| matches!(self.link, Link::Lost { attempt: None, .. }))
    }

    /// Whether the sandbox is ending. If not, whoever ends it wakes who polls.
    fn is_destroyed(&self, waker: &Waker) -> bool {
        let mut table = self.shared.lock();
        if !table.destroyed
            && let Some(known) = table.watches.wakers.get_mut(&self.id)
            && known.as_ref().is_none_or(|known| !known.will_wake(waker))
        {
            *known = Some(waker.clone());
        }
        table.destroyed
    }
}

impl Watching for EnvdWatching {
    fn path(&self) -> &str {
        &self.path
    }

    fn poll_change(&mut self, cx: &mut Context<'_>) -> Poll<Change> {
        loop {
            let now = self.shared.runtime.now();
            if !matches!(self.link, Link::Over) && self.is_destroyed(cx.waker()) {
                self.heard.clear();
                self.end(Change::Broken(WatchError::Destroyed));
            }
            if let Some(change) = self.heard.pop_front() {
                if matches!(change, Change::Ended(_) | Change::Broken(_)) {
                    self.link = Link::Over;
                    self.heard.clear();
                }
                return Poll::Ready(change);
            }
            let at = match &mut self.link {
                Link::Over => return Poll::Pending,
                Link::Following { stream, is_hangar } => {
                    let is_hangar = *is_hangar;
                    let at = match self.foreign.poll(now) {
                        Ok(event) => return Poll::Ready(Change::Event(event)),
                        Err(at) => at,
                    };
                    match stream.poll_message(&*self.shared.runtime, cx) {
                        Poll::Pending => at,
                        Poll::Ready(Ok(message)) => {
                            self.hear(message, is_hangar, now);
                            continue;
                        }
                        Poll::Ready(Err(lost)) => {
                            self.lost(lost, now);
                            continue;
                        }
                    }
                }
                Link::Lost { .. } => {
                    if self.look(now, cx) {
                        continue;
                    }
                    self.looks_at()
                }
            };
            ready!(self.deadline.poll(&*self.shared.runtime, at, cx));
        }
    }

    fn retell(&mut self) {
        if matches!(self.link, Link::Following { .. }) {
            self.begin_anew(self.shared.runtime.now());
            let waker = self.shared.lock().watches.wakers.get_mut(&self.id).and_then(Option::take);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl Drop for EnvdWatching {
    fn drop(&mut self) {
        self.shared.lock().watches.wakers.remove(&self.id);
    }
}
