//! Watchers that are asked now and then. One belongs to whoever knows its id, as with envd.

use super::{
    super::{Daemon, head::Head},
    Heard, Place, Watched, lost, shutting_down,
};
use hangar_backends::{Runtime, runtime::Deadline};
use hangar_core::{
    Time,
    wire::{
        connect::{Code, RpcError},
        envd::{
            filesystem::{
                CreateWatcherResponse, FilesystemEvent, WatchDirRequest, WatcherEventsResponse,
                WatcherRequest,
            },
            process::Empty,
        },
    },
};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// Events that may wait to be asked for.
const MAX_EVENTS: usize = 8192;

/// Bytes of names that may.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// A watcher that nobody has asked for so long is removed.
const EXPIRY: Duration = Duration::from_secs(3600);

/// Changes of one poll; after those the other tasks have their turn.
const BUDGET: u32 = 256;

/// By their ids.
pub(super) type Watchers = BTreeMap<String, Arc<Watcher>>;

/// A directory, and what changed in it since somebody asked last.
pub(super) struct Watcher {
    /// Where to look what is there, if the client wants to know.
    place: Option<Place>,
    state: Mutex<State>,
}

struct State {
    /// None once nothing more comes of it.
    watched: Option<Watched>,
    queue: Queue,
    expires_at: Time,
    is_removed: bool,
    /// The task that drives it.
    driver: Option<Waker>,
}

/// What waits to be asked for.
#[derive(Default)]
struct Queue {
    events: Vec<FilesystemEvent>,
    bytes: usize,
    /// What everybody who asks is told from now on.
    failed: Option<RpcError>,
}

impl Queue {
    /// Adds events, as far as there is room; says whether there was.
    fn push(&mut self, events: Vec<FilesystemEvent>) -> bool {
        self.bytes += events.iter().map(|event| event.name.len()).sum::<usize>();
        self.events.extend(events);
        let fits = self.events.len() <= MAX_EVENTS && self.bytes <= MAX_BYTES;
        if !fits {
            self.fail(lost());
        }
        fits
    }

    fn fail(&mut self, error: RpcError) {
        (self.events, self.bytes, self.failed) = (Vec::new(), 0, Some(error));
    }

    fn take(&mut self) -> Result<Vec<FilesystemEvent>, RpcError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.bytes = 0;
        Ok(std::mem::take(&mut self.events))
    }
}

impl State {
    /// Takes what has happened; whether nothing more does.
    fn hear(&mut self, heard: Heard) {
        let goes_on = match heard {
            Heard::Events(events) | Heard::Ready(events) => self.queue.push(events),
            Heard::Last(events) => {
                self.queue.push(events);
                false
            }
            Heard::Failed(error) => {
                self.queue.fail(error);
                false
            }
        };
        if !goes_on {
            self.watched = None;
        }
    }
}

impl Watcher {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what happens. Ready once it is removed, or its time is over.
    fn poll(&self, runtime: &dyn Runtime, expiry: &mut Deadline, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..BUDGET {
            let mut state = self.lock();
            let now = runtime.now();
            if state.is_removed || now >= state.expires_at {
                state.watched = None;
                return Poll::Ready(());
            }
            match state.watched.as_mut().map(|watched| watched.poll(cx)) {
                Some(Poll::Ready(heard)) => state.hear(heard),
                Some(Poll::Pending) | None => {
                    state.driver = Some(cx.waker().clone());
                    let at = state.expires_at;
                    drop(state);
                    // Whether it is over the clock says, with the state locked.
                    if expiry.poll(runtime, Some(at), cx).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ends it.
    fn remove(&self) {
        let (watched, driver) = {
            let mut state = self.lock();
            state.is_removed = true;
            (state.watched.take(), state.driver.take())
        };
        drop(watched);
        driver.into_iter().for_each(Waker::wake);
    }
}

impl Daemon {
    /// Removes all watchers: nobody will ask any more.
    pub(in super::super) fn remove_watchers(&self) {
        let watchers = std::mem::take(&mut *self.watches.watchers());
        watchers.values().for_each(|watcher| watcher.remove());
    }
}

/// Watches a directory for who will ask.
pub(in super::super) async fn create(
    daemon: &Arc<Daemon>,
    head: &Head,
    asked: WatchDirRequest,
) -> Result<CreateWatcherResponse, RpcError> {
    // Extensions are for streams.
    let watched = Watched::open(daemon, head, &asked, false).await?;
    let place = asked.include_entry.then(|| watched.place.clone());
    let mut state = State {
        watched: Some(watched),
        queue: Queue::default(),
        expires_at: daemon.runtime.now() + EXPIRY,
        is_removed: false,
        driver: None,
    };
    until_ready(&mut state).await?;
    state.expires_at = daemon.runtime.now() + EXPIRY;
    let watcher = Arc::new(Watcher { place, state: Mutex::new(state) });
    let id = new_id(daemon);
    {
        let mut watchers = daemon.watches.watchers();
        // All are removed after this is set.
        if daemon.shutting_down.load(Ordering::SeqCst) {
            return Err(shutting_down());
        }
        watchers.insert(id.clone(), Arc::clone(&watcher));
    }
    let driver = drive(Arc::downgrade(daemon), Arc::clone(&daemon.runtime), id.clone(), watcher);
    daemon.runtime.spawn(Box::pin(driver));
    Ok(CreateWatcherResponse { watcher_id: id })
}

/// Waits until everything below is watched, too.
async fn until_ready(state: &mut State) -> Result<(), RpcError> {
    poll_fn(|cx| {
        while let Some(watched) = &mut state.watched {
            match watched.poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Heard::Failed(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(heard) => {
                    let is_ready = matches!(heard, Heard::Ready(_));
                    state.hear(heard);
                    if is_ready {
                        break;
                    }
                }
            }
        }
        Poll::Ready(Ok(()))
    })
    .await
}

async fn drive(daemon: Weak<Daemon>, runtime: Arc<dyn Runtime>, id: String, watcher: Arc<Watcher>) {
    let mut expiry = Deadline::default();
    poll_fn(|cx| watcher.poll(&*runtime, &mut expiry, cx)).await;
    if let Some(daemon) = daemon.upgrade() {
        daemon.watches.watchers().remove(&id);
    }
}

/// What changed since somebody asked last.
pub(in super::super) async fn events(
    daemon: &Arc<Daemon>,
    asked: WatcherRequest,
) -> Result<WatcherEventsResponse, RpcError> {
    let watcher = daemon.watches.watchers().get(&asked.watcher_id).cloned();
    let watcher = watcher.ok_or_else(|| unknown(&asked.watcher_id))?;
    let events = {
        let mut state = watcher.lock();
        let now = daemon.runtime.now();
        if now >= state.expires_at {
            return Err(unknown(&asked.watcher_id));
        }
        state.expires_at = now + EXPIRY;
        state.queue.take()?
    };
    let events = match &watcher.place {
        Some(place) if !events.is_empty() => place.clone().describe(Arc::clone(daemon), events).await,
        _ => events,
    };
    Ok(WatcherEventsResponse { events })
}

/// Watches no longer.
pub(in super::super) fn remove(daemon: &Daemon, asked: WatcherRequest) -> Result<Empty, RpcError> {
    let watcher = daemon.watches.watchers().remove(&asked.watcher_id);
    let watcher = watcher.ok_or_else(|| unknown(&asked.watcher_id))?;
    let is_over = daemon.runtime.now() >= watcher.lock().expires_at;
    watcher.remove();
    if is_over { Err(unknown(&asked.watcher_id)) } else { Ok(Empty {}) }
}

fn unknown(id: &str) -> RpcError {
    RpcError::new(Code::NotFound, format!("watcherId: there is no watcher {id:?}"))
}

/// Whoever knows it may ask.
fn new_id(daemon: &Daemon) -> String {
    let mut random = [0; 16];
    daemon.runtime.random(&mut random);
    random.iter().fold("w".to_owned(), |mut id, byte| {
        // A string that grows takes everything.
        write!(id, "{byte:02x}").unwrap_or_default();
        id
    })
}
