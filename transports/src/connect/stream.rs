//! A process that is followed, as a body that pulls; and whoever has to be let go of while nobody pulls.

use super::{Daemon, answer, receipts::Streaming};
use crate::http::{Connection, Patience};
use bytes::{Bytes, BytesMut};
use hangar_backends::{
    Handle,
    handle::Reading,
    runtime::{Deadline, sleep_until},
};
use hangar_core::{
    Close, Time,
    process::Process,
    subscription::{Output, Subscription},
    wire::{
        connect::{Code, Codec, RpcError, envelope},
        envd::event,
    },
};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

/// Messages are gathered into one piece of about this many bytes while there are more at once. A frame at a time: a client
/// that takes one has read something, however long it takes for the next.
const BATCH: usize = 32 * 1024;

/// How often it is looked for clients that take nothing.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A client that takes nothing for this long, while what it would get next is gone or its time is over, is let go of. Until
/// then it would be told why its stream ends, if it read on.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a stream is opened with.
pub(super) struct Opening {
    pub(super) pid: u32,
    pub(super) reading: Reading,
    pub(super) subscription: Subscription,
    pub(super) receipts: Option<Streaming>,
    pub(super) codec: Codec,
    /// Its client knows hangar.
    pub(super) extended: bool,
    pub(super) deadline: Option<Time>,
    pub(super) connection: Arc<Connection>,
}

/// A process as one client follows it. Dropped, it is a client that left: to the process that is nothing.
pub struct ProcessStream {
    daemon: Arc<Daemon>,
    pid: u32,
    reading: Reading,
    subscription: Subscription,
    /// Its client may acknowledge what it has.
    _receipts: Option<Streaming>,
    codec: Codec,
    extended: bool,
    place: Arc<Place>,
    id: u64,
    timer: Deadline,
    out: BytesMut,
    /// A client that takes nothing is told why, if it reads on: see [`PATIENCE`].
    _patience: Patience,
}

impl fmt::Debug for ProcessStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessStream").field("pid", &self.pid).finish_non_exhaustive()
    }
}

impl ProcessStream {
    /// Follows a process.
    pub(super) fn open(daemon: &Arc<Daemon>, opening: Opening) -> Self {
        let Opening { pid, reading, subscription, receipts, codec, extended, deadline, connection } = opening;
        let patience = connection.be_patient();
        let place = Arc::new(Place {
            handle: Arc::clone(reading.handle()),
            next: AtomicU64::new(subscription.next()),
            deadline,
            connection,
        });
        let id = daemon.streams.insert(Arc::clone(&place), daemon);
        Self {
            daemon: Arc::clone(daemon),
            pid,
            reading,
            subscription,
            _receipts: receipts,
            codec,
            extended,
            place,
            id,
            timer: Deadline::default(),
            out: BytesMut::new(),
            _patience: patience,
        }
    }

    /// Whether its last byte was given out.
    pub(super) fn is_ended(&self) -> bool {
        self.subscription.is_closed() && self.out.is_empty()
    }

    /// The next bytes to send; None at the end.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.subscription.is_closed() {
            return Poll::Ready(None);
        }
        while self.out.len() < BATCH {
            let now = self.daemon.runtime.now();
            let output = self.reading.read(cx.waker(), |process| self.subscription.poll_output(process, now));
            if let Output::Wait(at) = output {
                if !self.out.is_empty() {
                    break;
                }
                if self.timer.poll(&*self.daemon.runtime, at, cx).is_pending() {
                    return Poll::Pending;
                }
                continue;
            }
            self.write(output);
            if self.subscription.is_closed() {
                break;
            }
        }
        self.place.next.store(self.subscription.next(), Ordering::Relaxed);
        Poll::Ready(Some(self.out.split().freeze()))
    }

    fn write(&mut self, output: Output) {
        let Self { codec, extended, pid, .. } = *self;
        let out = &mut self.out;
        let message = |out: &mut BytesMut, write: &dyn Fn(&mut BytesMut)| envelope::write(0, out, write);
        match output {
            Output::Started { seq, offset, .. } => {
                let at = extended.then_some((seq, offset));
                message(out, &|out| event::started(codec, pid, at, out));
            }
            Output::Frame(frame) => message(out, &|out| event::data(codec, &frame, extended, out)),
            Output::KeepAlive => message(out, &|out| event::keep_alive(codec, out)),
            Output::Exited(exit) => message(out, &|out| event::exited(codec, exit, out)),
            Output::Ended { exit, drain_timed_out } => {
                let more = extended.then_some(drain_timed_out);
                message(out, &|out| event::ended(codec, exit, more, out));
            }
            Output::Closed(reason) => answer::end(error(reason), out),
            Output::Wait(_) => {}
        }
    }
}

impl Drop for ProcessStream {
    fn drop(&mut self) {
        if !self.subscription.is_closed() {
            self.reading.read(Waker::noop(), |process| self.subscription.leave(process));
        }
        self.daemon.streams.remove(self.id);
    }
}

/// Why a stream ends, in the words of the protocol; None where all is well.
fn error(reason: Close) -> Option<RpcError> {
    let (code, message) = match reason {
        Close::Done => return None,
        Close::Lifetime => (Code::DeadlineExceeded, "the time for the stream is over"),
        Close::SlowConsumer => (
            Code::ResourceExhausted,
            "the stream was read more slowly than the process printed, and what came next is gone; connect again",
        ),
        Close::Error => (Code::Unknown, "how the process ended is not known"),
        Close::Shutdown | Close::Destroyed | Close::Paused => {
            (Code::Unavailable, "the daemon is shutting down")
        }
        Close::Revoked | Close::ClientData | Close::Limit | Close::Client => {
            (Code::Canceled, "the stream was ended")
        }
    };
    Some(RpcError::new(code, message))
}

/// The streams that are open.
#[derive(Default)]
pub(super) struct Streams(Mutex<Open>);

#[derive(Default)]
struct Open {
    places: BTreeMap<u64, Arc<Place>>,
    next: u64,
    /// Somebody looks after those whose clients take nothing.
    is_looked_after: bool,
}

/// Where a stream is.
struct Place {
    handle: Arc<Handle>,
    /// The offset of what it gets next.
    next: AtomicU64,
    deadline: Option<Time>,
    connection: Arc<Connection>,
}

impl Place {
    /// Whether its client takes nothing although its stream is over, or as good as over. A body is not polled for it.
    fn is_to_be_let_go_of(&self, now: Time) -> bool {
        let Some(since) = self.connection.stuck_since() else { return false };
        let is_over = |deadline: Time| now.since(deadline) >= PATIENCE;
        let is_behind = || {
            self.handle.look(|process: &Process| process.log().start_offset())
                > self.next.load(Ordering::Relaxed)
        };
        let is_ended = || self.handle.look(Process::is_over);
        self.deadline.is_some_and(is_over) || (now.since(since) >= PATIENCE && (is_behind() || is_ended()))
    }
}

impl Streams {
    fn insert(&self, place: Arc<Place>, daemon: &Arc<Daemon>) -> u64 {
        let mut open = self.lock();
        let id = open.next;
        open.next += 1;
        open.places.insert(id, place);
        if !std::mem::replace(&mut open.is_looked_after, true) {
            daemon.runtime.spawn(Box::pin(look_after(Arc::downgrade(daemon))));
        }
        id
    }

    fn remove(&self, id: u64) {
        self.lock().places.remove(&id);
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets go of clients that take nothing, for as long as there are streams.
async fn look_after(daemon: Weak<Daemon>) {
    while let Some(daemon) = daemon.upgrade() {
        let runtime = Arc::clone(&daemon.runtime);
        let now = runtime.now();
        let gone: Vec<Arc<Place>> = {
            let mut open = daemon.streams.lock();
            if open.places.is_empty() {
                open.is_looked_after = false;
                return;
            }
            open.places.values().filter(|place| place.is_to_be_let_go_of(now)).cloned().collect()
        };
        drop(daemon);
        gone.iter().for_each(|place| place.connection.abort());
        sleep_until(&*runtime, now + LOOK_EVERY).await;
    }
}
