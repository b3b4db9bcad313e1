//! Directories that are watched, whose changes a test tells.

use super::runtime::SimRuntime;
use bytes::Bytes;
use hangar_backends::watching::{Change, WatchError, WatchSpec, Watching};
use hangar_core::watch::{Event, Kind};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// The watches of a sandbox.
pub struct Watches {
    runtime: Arc<SimRuntime>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    all: Vec<Watch>,
    /// What is in every directory.
    existing: Arc<Mutex<Vec<String>>>,
    /// Why the next one is not opened.
    refused: Option<WatchError>,
    /// How long each takes to be opened.
    delay: Duration,
    /// `Ready` is said by the test.
    is_slow: bool,
}

/// One of them, as the test holds it.
#[derive(Clone)]
pub struct Watch(Arc<Mutex<Inner>>);

struct Inner {
    spec: WatchSpec,
    existing: Arc<Mutex<Vec<String>>>,
    waiting: VecDeque<Change>,
    waker: Option<Waker>,
    retold: usize,
    is_open: bool,
}

struct SimWatching {
    path: String,
    watch: Watch,
}

impl Watches {
    pub(super) fn new(runtime: Arc<SimRuntime>) -> Arc<Self> {
        Arc::new(Self { runtime, state: Mutex::default() })
    }

    /// All that were opened, in that order.
    pub fn all(&self) -> Vec<Watch> {
        self.state.lock().unwrap().all.clone()
    }

    /// The one that was opened last.
    ///
    /// # Panics
    ///
    /// If there was none.
    pub fn last(&self) -> Watch {
        self.all().pop().expect("a directory was watched")
    }

    /// What was asked for, in that order.
    pub fn specs(&self) -> Vec<WatchSpec> {
        self.all().iter().map(Watch::spec).collect()
    }

    /// Tells all that are open of something.
    pub fn tell(&self, change: &Change) {
        self.all().iter().filter(|watch| watch.is_open()).for_each(|watch| watch.tell(change.clone()));
    }

    /// Tells all that are open that something happened to a name.
    pub fn event(&self, kind: Kind, name: &str) {
        self.tell(&Change::Event(Event::new(kind, Bytes::copy_from_slice(name.as_bytes()))));
    }

    /// How many there are.
    pub fn open_now(&self) -> usize {
        self.all().iter().filter(|watch| watch.is_open()).count()
    }

    /// What is in every directory from now on.
    pub fn set_existing<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let names = names.into_iter().map(str::to_owned).collect();
        *self.state.lock().unwrap().existing.lock().unwrap() = names;
    }

    /// The next one is not opened.
    pub fn refuse_next(&self, error: WatchError) {
        self.state.lock().unwrap().refused = Some(error);
    }

    /// Each takes so long to be opened.
    pub fn set_delay(&self, delay: Duration) {
        self.state.lock().unwrap().delay = delay;
    }

    /// From here on nobody is told that everything is watched.
    pub fn be_slow(&self) {
        self.state.lock().unwrap().is_slow = true;
    }

    pub(super) async fn open(&self, spec: WatchSpec) -> Result<Box<dyn Watching>, WatchError> {
        let (delay, refused) = {
            let mut state = self.state.lock().unwrap();
            (state.delay, state.refused.take())
        };
        if !delay.is_zero() {
            self.runtime.sleep(delay).await;
        }
        if let Some(error) = refused {
            return Err(error);
        }
        let mut state = self.state.lock().unwrap();
        let path = if spec.path.starts_with('/') { spec.path.clone() } else { format!("/srv/{}", spec.path) };
        let tells_existing = spec.tells_existing;
        let inner = Inner {
            spec,
            existing: Arc::clone(&state.existing),
            waiting: VecDeque::new(),
            waker: None,
            retold: 0,
            is_open: true,
        };
        let watch = Watch(Arc::new(Mutex::new(inner)));
        if tells_existing {
            watch.tell_existing();
        }
        if !state.is_slow {
            watch.tell(Change::Ready);
        }
        state.all.push(watch.clone());
        Ok(Box::new(SimWatching { path, watch }))
    }
}

impl Watch {
    /// What was asked for.
    pub fn spec(&self) -> WatchSpec {
        self.0.lock().unwrap().spec.clone()
    }

    /// Whether the server still has it.
    pub fn is_open(&self) -> bool {
        self.0.lock().unwrap().is_open
    }

    /// How often it was told to tell everything again.
    pub fn retold(&self) -> usize {
        self.0.lock().unwrap().retold
    }

    /// Changes that the server has not taken.
    pub fn waiting(&self) -> usize {
        self.0.lock().unwrap().waiting.len()
    }

    /// Tells something.
    pub fn tell(&self, change: Change) {
        let mut inner = self.0.lock().unwrap();
        inner.waiting.push_back(change);
        if let Some(waker) = inner.waker.take() {
            waker.wake();
        }
    }

    /// Tells that something happened to a name.
    pub fn event(&self, kind: Kind, name: &str) {
        self.tell(Change::Event(Event::new(kind, Bytes::copy_from_slice(name.as_bytes()))));
    }

    /// Tells that so many files were created: `0`, `1` and so on from `first`.
    pub fn create(&self, first: usize, count: usize) {
        for at in first..first + count {
            self.event(Kind::Create, &at.to_string());
        }
    }

    /// Tells that changes were lost, and then what is there.
    pub fn overflow(&self) {
        self.tell(Change::Event(Event::overflow()));
        self.tell_existing();
        self.tell(Change::Ready);
    }

    fn tell_existing(&self) {
        let existing = Arc::clone(&self.0.lock().unwrap().existing);
        for name in existing.lock().unwrap().iter() {
            self.event(Kind::Create, name);
        }
    }
}

impl Watching for SimWatching {
    fn path(&self) -> &str {
        &self.path
    }

    fn poll_change(&mut self, cx: &mut Context<'_>) -> Poll<Change> {
        let mut inner = self.watch.0.lock().unwrap();
        match inner.waiting.pop_front() {
            Some(change) => Poll::Ready(change),
            None => {
                inner.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn retell(&mut self) {
        self.watch.0.lock().unwrap().retold += 1;
        self.watch.overflow();
    }
}

impl Drop for SimWatching {
    fn drop(&mut self) {
        self.watch.0.lock().unwrap().is_open = false;
    }
}
