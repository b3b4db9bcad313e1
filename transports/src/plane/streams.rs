//! What is open: a lease for each stream, and a way to end it.
//!
//! A stream is closed by asking it to: its task sees the reason at its next poll. A connection whose client does not
//! read is not polled, so after [`ABORT_AFTER`] it is aborted.

mod table;

use super::lock;
use crate::{
    Settings,
    http::{Connection, Stuck},
    metrics::{Kind, Metrics},
};
use hangar_backends::{Handle, Runtime, runtime::sleep_until};
use hangar_core::{
    Close, Time,
    limits::{Exceeded, Lease, Limits},
    process::Process,
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::Waker,
    time::Duration,
};
use table::Table;
use tokio::sync::Notify;

/// How long a connection may take to carry the end of a stream to its client.
pub const ABORT_AFTER: Duration = Duration::from_secs(1);

/// The open streams of a plane.
#[derive(Debug)]
pub struct Streams {
    limits: Arc<Mutex<Limits<String>>>,
    open: Arc<Mutex<Table>>,
    /// The connections whose clients take nothing, whether they carry a stream or not.
    stuck: Arc<Stuck>,
    metrics: Arc<Metrics>,
    /// Told when a stream that follows was opened.
    followed: Arc<Notify>,
}

/// One open stream, or one command whose result somebody waits for.
#[derive(Debug)]
pub struct Entry {
    id: String,
    token: String,
    sandbox: String,
    /// The command that ends with its client; None where the stream only follows.
    command: Option<Arc<Handle>>,
    /// Where a stream that follows is, for whoever looks whether that is still there.
    place: Option<Place>,
    connection: Option<Carried>,
    asked: Mutex<Asked>,
}

/// Where a stream that follows is.
#[derive(Debug)]
pub(super) enum Place {
    /// So far in the output of a process.
    Output {
        /// The process.
        handle: Arc<Handle>,
        /// The offset of what comes next.
        next: AtomicU64,
    },
    /// It tells what changes: nothing is lost to a client that does not read, and what waits for it does not grow.
    Notices,
}

/// A client that takes none of its notices for this long is given up, because its place is held for nothing.
pub const NOTICES_PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct Asked {
    close: Option<Close>,
    waker: Option<Waker>,
}

/// The right to open a stream; given back when dropped.
#[derive(Debug)]
pub struct Leased {
    limits: Arc<Mutex<Limits<String>>>,
    lease: Option<Lease<String>>,
}

/// An open stream as its owner holds it. Dropped, it is closed.
#[derive(Debug)]
pub struct Open {
    streams: Arc<Mutex<Table>>,
    metrics: Arc<Metrics>,
    entry: Arc<Entry>,
    /// None for a command that is not streamed: it is no open stream, and is not counted as one.
    kind: Option<Kind>,
    _lease: Option<Leased>,
    ended: Option<Close>,
    bytes: u64,
    messages: u64,
    span: tracing::Span,
}

/// The connection that carries a stream, and which of its answers the stream is.
#[derive(Debug)]
struct Carried {
    connection: Arc<Connection>,
    answer: u64,
}

impl Entry {
    /// Its id: that of its command, or one of its own where it only follows.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The id of the token that opened it.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The id of the sandbox that it is about.
    pub fn sandbox(&self) -> &str {
        &self.sandbox
    }

    /// The connection by which it follows, where it only does that.
    fn follows_by(&self) -> Option<u64> {
        let carried = self.connection.as_ref().filter(|_| self.place.is_some())?;
        Some(carried.connection.id())
    }

    /// Whether its client takes nothing for `patience` while what it would get next is gone, or for too long altogether.
    fn is_too_slow(&self, now: Time, patience: Duration) -> bool {
        let (Some(place), Some(carried)) = (&self.place, &self.connection) else { return false };
        let waits =
            |patience| carried.connection.stuck_since().is_some_and(|since| now.since(since) >= patience);
        match place {
            Place::Output { handle, next } => {
                let next = next.load(Ordering::SeqCst);
                waits(patience) && handle.look(|process| next < process.log().start_offset())
            }
            Place::Notices => waits(NOTICES_PATIENCE),
        }
    }

    fn ask(&self, reason: Close) {
        let mut asked = lock(&self.asked);
        asked.close = Some(asked.close.map_or(reason, |close| close.or(reason)));
        let waker = asked.waker.take();
        drop(asked);
        // Not left to the stream's own task: a client that does not read must not keep its command alive.
        if let Some(command) = self.command.as_ref().filter(|_| reason.kills_exec()) {
            command.command(Process::kill);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Streams {
    pub(super) fn new(settings: &Settings, metrics: Arc<Metrics>) -> Self {
        let limits = Limits::new(settings.stream_max_per_token, settings.stream_max_total);
        Self {
            limits: Arc::new(Mutex::new(limits)),
            open: Arc::default(),
            stuck: Arc::default(),
            metrics,
            followed: Arc::default(),
        }
    }

    /// The right to open one more stream for a token.
    pub fn lease(&self, token: &str) -> Result<Leased, Exceeded> {
        let lease = lock(&self.limits).acquire(token.to_owned())?;
        Ok(Leased { limits: Arc::clone(&self.limits), lease: Some(lease) })
    }

    /// How many are open, commands that are not streamed included.
    pub fn len(&self) -> usize {
        lock(&self.open).len()
    }

    /// Whether nothing is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Leases that are held.
    pub fn leased(&self) -> usize {
        lock(&self.limits).total()
    }

    /// Enters a stream. From here on it can be closed; what was closed before must be looked for after this.
    pub(super) fn open(
        &self,
        kind: Option<Kind>,
        lease: Option<Leased>,
        entry: EntryParts,
        span: tracing::Span,
    ) -> Open {
        let EntryParts { id, token, sandbox, command, place, connection } = entry;
        let connection = connection.map(|connection| Carried { answer: connection.answers(), connection });
        let asked = Mutex::default();
        let entry = Arc::new(Entry { id, token, sandbox, command, place, connection, asked });
        lock(&self.open).insert(&entry);
        if let Some(kind) = kind {
            self.metrics.opened(kind);
        }
        if entry.place.is_some() {
            self.followed.notify_one();
        }
        Open {
            streams: Arc::clone(&self.open),
            metrics: Arc::clone(&self.metrics),
            entry,
            kind,
            _lease: lease,
            ended: None,
            bytes: 0,
            messages: 0,
            span,
        }
    }

    /// Where connections say that their clients take nothing.
    pub(crate) const fn stuck(&self) -> &Arc<Stuck> {
        &self.stuck
    }

    /// Told when a stream that follows was opened.
    pub(super) const fn followed(&self) -> &Arc<Notify> {
        &self.followed
    }

    /// The tokens that have streams open.
    pub(super) fn tokens(&self) -> Vec<String> {
        lock(&self.open).tokens().cloned().collect()
    }

    /// Whether a stream that follows is open.
    pub(super) fn any_follows(&self) -> bool {
        lock(&self.open).any_follows()
    }

    /// Gives up the streams whose clients take nothing while what they would get next is gone.
    pub(super) fn close_too_slow(&self, patience: Duration, runtime: &Arc<dyn Runtime>) {
        let now = runtime.now();
        let stuck = self.stuck.for_at_least(patience, now);
        let open = lock(&self.open);
        let following = stuck.into_iter().filter_map(|connection| open.following(connection).cloned());
        let mut picked: Vec<Arc<Entry>> = following.collect();
        drop(open);
        picked.retain(|entry| entry.is_too_slow(now, patience));
        self.close_all(picked, Close::SlowConsumer, runtime);
    }

    /// Ends those that `which` picks of all.
    pub(super) fn close(&self, reason: Close, which: impl Fn(&Entry) -> bool, runtime: &Arc<dyn Runtime>) {
        let picked = lock(&self.open).all().filter(|entry| which(entry)).cloned().collect();
        self.close_all(picked, reason, runtime);
    }

    fn close_all(&self, picked: Vec<Arc<Entry>>, reason: Close, runtime: &Arc<dyn Runtime>) {
        if picked.is_empty() {
            return;
        }
        picked.iter().for_each(|entry| entry.ask(reason));
        let (streams, clock) = (Arc::clone(&self.open), Arc::clone(runtime));
        runtime.spawn(Box::pin(async move {
            sleep_until(&*clock, clock.now() + ABORT_AFTER).await;
            for entry in picked {
                let Some(Carried { connection, answer }) = &entry.connection else { continue };
                let open = lock(&streams).contains(&entry.id);
                // The end of the stream may wait in the connection, or the connection be at its next answer.
                if open || connection.is_stuck() && connection.answers() == *answer {
                    connection.abort();
                }
            }
        }));
    }
}

/// What an [`Entry`] is made of.
#[derive(Debug)]
pub(super) struct EntryParts {
    pub(super) id: String,
    pub(super) token: String,
    pub(super) sandbox: String,
    pub(super) command: Option<Arc<Handle>>,
    pub(super) place: Option<Place>,
    pub(super) connection: Option<Arc<Connection>>,
}

impl Open {
    /// Why the stream is to end, if it is. `waker` is woken when that changes.
    pub fn asked_to_close(&self, waker: &Waker) -> Option<Close> {
        let mut asked = lock(&self.entry.asked);
        if !asked.waker.as_ref().is_some_and(|old| old.will_wake(waker)) {
            asked.waker = Some(waker.clone());
        }
        asked.close
    }

    /// Its id.
    pub fn id(&self) -> &str {
        self.entry.id()
    }

    /// A stream that follows has come to this offset.
    pub fn at(&self, next: u64) {
        if let Some(Place::Output { next: place, .. }) = &self.entry.place {
            place.store(next, Ordering::SeqCst);
        }
    }

    /// It sent a message of so many bytes of output, so long after its start.
    pub fn sent(&mut self, bytes: usize, after: Duration) {
        if let Some(kind) = self.kind.filter(|_| self.messages == 0) {
            self.metrics.first_output(kind, after);
        }
        self.messages += 1;
        self.bytes += bytes as u64;
    }

    /// It came to an end and said so.
    pub const fn ended(&mut self, reason: Close) {
        self.ended = Some(reason);
    }

    /// Why it ends: what it said itself, what it was asked to, or that its client left.
    pub fn reason(&self) -> Close {
        self.ended.or_else(|| lock(&self.entry.asked).close).unwrap_or(Close::Client)
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        // Who waits for the next stream that follows learns that there will be none.
        self.followed.notify_one();
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let reason = self.reason();
        lock(&self.streams).remove(&self.entry);
        if let Some(kind) = self.kind {
            self.metrics.closed(kind, reason, self.bytes);
        }
        self.span.record("bytes", self.bytes);
        self.span.record("messages", self.messages);
        self.span.record("reason", reason.row().label);
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            lock(&self.limits).give_back(lease);
        }
    }
}
