//! Background processes: started by a token, which they belong to; followed by nobody or by many; found again.
//!
//! No other token sees one, an admin's included. What it printed last is kept while it runs and for
//! [`KEEP_ENDED`] after that, whether or not anybody follows it.

use super::{
    Plane,
    background::{Background, Earlier, Restarting, StartCall},
    bell::Hearing,
    lock,
    notices::Bells,
    sandboxes,
    tokens::Caller,
};
use crate::ApiError;
use hangar_backends::{
    Handle,
    runtime::{sleep_until, until},
};
use hangar_core::{
    process::Process,
    table::{Ended, Key, Table, TooMany},
};
use hyper::StatusCode;
use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

/// How long a process that has ended stays listed.
pub const KEEP_ENDED: Duration = Duration::from_secs(600);

/// Processes that have ended and are listed, for each token.
const MAX_ENDED: usize = 1000;

/// How long a process that is started again may take to end: longer than it takes where its sandbox can be reached.
const RESTART_WITHIN: Duration = Duration::from_secs(20);

/// The background processes of a plane.
#[derive(Debug)]
pub struct Processes {
    table: Mutex<Table<Arc<Background>>>,
    /// Rung where a token's list changes.
    bells: Bells,
}

/// A place for one more process of a token, while it is being started.
struct Reserved {
    plane: Arc<Plane>,
    token: String,
    filled: bool,
}

impl Reserved {
    fn new(plane: &Arc<Plane>, token: &str) -> Result<Self, TooMany> {
        lock(&plane.processes.table).reserve(token)?;
        Ok(Self { plane: Arc::clone(plane), token: token.to_owned(), filled: false })
    }

    /// The place that a process leaves for what it is started again as.
    fn for_restart(plane: &Arc<Plane>, background: &Background) -> Result<Self, TooMany> {
        lock(&plane.processes.table).reserve_for(background.token(), background.id())?;
        Ok(Self { plane: Arc::clone(plane), token: background.token().to_owned(), filled: false })
    }

    /// A place also where all are taken.
    fn beyond_all(plane: &Arc<Plane>, token: &str) -> Self {
        lock(&plane.processes.table).reserve_more(token);
        Self { plane: Arc::clone(plane), token: token.to_owned(), filled: false }
    }

    fn fill(mut self, id: String, key: Key, background: &Arc<Background>) {
        self.filled = true;
        lock(&self.plane.processes.table).insert(id, key, Arc::clone(background));
        self.plane.processes.bells.ring(&self.token);
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if !self.filled {
            lock(&self.plane.processes.table).release(&self.token);
        }
    }
}

impl Processes {
    pub(super) fn new(settings: &crate::Settings) -> Self {
        let config = hangar_core::table::Config {
            max_running: settings.background_max_per_token,
            max_ended: MAX_ENDED,
            max_ended_bytes: settings.log_max_total,
        };
        Self { table: Mutex::new(Table::new(config)), bells: Bells::default() }
    }

    /// Hears that a token's list changes.
    pub(super) fn hear(&self, token: &str) -> Hearing {
        self.bells.hear(token)
    }

    /// Whether it is not listed any more.
    pub(super) fn is_gone(&self, background: &Background) -> bool {
        let destroyed = background.sandbox().state() == sandboxes::State::Destroyed;
        destroyed
            || lock(&self.table)
                .find(background.token(), background.sandbox().id(), background.id())
                .is_none()
    }

    /// How many there are, running or not.
    pub fn len(&self) -> usize {
        lock(&self.table).len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<TooMany> for ApiError {
    fn from(error: TooMany) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_processes", error.to_string())
    }
}

impl Plane {
    /// The background processes.
    pub const fn processes(&self) -> &Processes {
        &self.processes
    }

    /// Starts a background process. It belongs to the caller's token.
    pub async fn start_process(
        self: &Arc<Self>,
        caller: &Caller,
        sandbox: &str,
        call: StartCall,
    ) -> Result<Arc<Background>, ApiError> {
        let entry = self.place_for(caller, sandbox, &call)?;
        let place = Reserved::new(self, caller.token())?;
        self.start_in(place, caller, entry, call, None).await
    }

    /// Where the caller's process is to run, if it may.
    fn place_for(
        &self,
        caller: &Caller,
        sandbox: &str,
        call: &StartCall,
    ) -> Result<Arc<sandboxes::Entry>, ApiError> {
        self.recheck(caller)?;
        let entry = self.sandboxes.usable(caller, sandbox)?;
        if self.is_shutting_down() {
            return Err(ApiError::shutting_down());
        }
        if call.tty.is_some() && !entry.sandbox().capabilities().tty {
            return Err(ApiError::bad_field("tty", "unsupported", "tty: this sandbox has no terminals"));
        }
        Ok(entry)
    }

    async fn start_in(
        self: &Arc<Self>,
        place: Reserved,
        caller: &Caller,
        entry: Arc<sandboxes::Entry>,
        call: StartCall,
        restarted_from: Option<String>,
    ) -> Result<Arc<Background>, ApiError> {
        let (plane, token) = (Arc::clone(self), caller.token().to_owned());
        // To its end: a process that runs is in the table, also when whoever asked for it has left.
        self.to_its_end(async move {
            let id = plane.new_id();
            let from = restarted_from.as_deref();
            let tag = plane.store_process(&token, &entry, &id, &call, from).await?;
            let stored = tag.is_some();
            let started = plane.start(Arc::clone(entry.sandbox()), call.spec(id.clone(), tag)).await;
            let handle = started.inspect_err(|_| {
                if stored {
                    plane.unstore_process(&id);
                }
            })?;
            if stored {
                plane.note_run(&handle);
            }
            let background = Background::new(&plane, token, entry, call, restarted_from, handle, stored);
            let background = plane.watched(place, background);
            // Whoever revoked the token meanwhile did not find it yet.
            if plane.is_revoked(background.token()) {
                background.stop();
            }
            Ok(background)
        })
        .await
    }

    /// Enters a process in its place, and looks after it.
    fn watched(self: &Arc<Self>, place: Reserved, background: Background) -> Arc<Background> {
        let background = Arc::new(background);
        let key = Key {
            owner: background.token().to_owned(),
            place: background.sandbox().id().to_owned(),
            name: background.call().name.clone(),
        };
        place.fill(background.id().to_owned(), key, &background);
        self.runtime.spawn(Box::pin(watch(Arc::downgrade(self), Arc::clone(&background))));
        background
    }

    /// Enters a process that an earlier run has started, and that may have ended.
    pub(super) fn adopt(
        self: &Arc<Self>,
        token: String,
        entry: Arc<sandboxes::Entry>,
        call: StartCall,
        earlier: Earlier,
        handle: Arc<Handle>,
    ) {
        let place = Reserved::beyond_all(self, &token);
        let background = Background::new(self, token, entry, call, None, handle, true);
        self.watched(place, background.adopted(earlier));
    }

    /// Starts a process again, as it was started before.
    pub async fn restart_process(
        self: &Arc<Self>,
        caller: &Caller,
        background: &Arc<Background>,
    ) -> Result<Arc<Background>, ApiError> {
        let (plane, caller, background) = (Arc::clone(self), caller.clone(), Arc::clone(background));
        // What would refuse the start refuses before anything is ended.
        self.place_for(&caller, background.sandbox().id(), background.call())?;
        let restarting = Restarting::new(&background)?;
        let place = Reserved::for_restart(self, &background)?;
        // To its end: who asked may leave between the two halves of it.
        self.to_its_end(async move {
            background.stop();
            let end = plane.runtime.now() + RESTART_WITHIN;
            if until(&*plane.runtime, end, plane.over(&background)).await.is_none() {
                return Err(ApiError::still_ending());
            }
            plane.note_end(&background);
            // Time has passed.
            let entry = plane.place_for(&caller, background.sandbox().id(), background.call())?;
            let (call, from) = (background.call().clone(), Some(background.id().to_owned()));
            let started = plane.start_in(place, &caller, entry, call, from).await;
            drop(restarting);
            started
        })
        .await
    }

    /// The caller's process with this id, or the newest with this name.
    pub fn find_process(
        &self,
        caller: &Caller,
        sandbox: &str,
        process: &str,
    ) -> Result<Arc<Background>, ApiError> {
        let entry = self.sandboxes.reachable(caller, sandbox)?;
        let table = lock(&self.processes.table);
        let found = table.find(caller.token(), entry.id(), process).cloned();
        found.ok_or_else(|| ApiError::not_found("process"))
    }

    /// The caller's processes in a sandbox, oldest first.
    pub fn list_processes(&self, caller: &Caller, sandbox: &str) -> Result<Vec<Arc<Background>>, ApiError> {
        let entry = self.sandboxes.reachable(caller, sandbox)?;
        let table = lock(&self.processes.table);
        Ok(table.list(caller.token(), entry.id()).cloned().collect())
    }

    /// Ends the processes whose tokens were revoked. Those of tokens that have expired run on.
    pub(super) fn stop_processes_of_revoked(&self) {
        let all: Vec<Arc<Background>> =
            lock(&self.processes.table).all_running().map(|(_, background)| Arc::clone(background)).collect();
        for background in all {
            if self.is_revoked(background.token()) {
                background.stop();
            }
        }
    }

    /// Notes that a process has ended; whoever comes second changes nothing.
    fn note_end(&self, background: &Background) {
        let held = background.handle().look(|process| process.log().held());
        let Ended { emptied, forgotten } =
            lock(&self.processes.table).handle_ended(background.id(), held as u64);
        for forgotten in &forgotten {
            self.processes.bells.ring(forgotten.token());
        }
        self.store_end(background);
        forgotten.iter().filter(|forgotten| forgotten.is_stored()).for_each(|forgotten| {
            self.unstore_process(forgotten.id());
        });
        for background in emptied.into_iter().chain(forgotten) {
            background.handle().command(Process::abandon_output);
        }
    }

    /// Waits until a process has ended and all its output was read.
    async fn over(&self, background: &Background) {
        let waiting = background.handle().watcher();
        std::future::poll_fn(|cx| waiting.poll_until(cx.waker(), Process::is_over)).await;
    }
}

/// Notes the end of a process, and forgets it a while after.
async fn watch(plane: Weak<Plane>, background: Arc<Background>) {
    let waiting = background.handle().watcher();
    std::future::poll_fn(|cx| waiting.poll_until(cx.waker(), |process| process.exit_status().is_some()))
        .await;
    let Some(runtime) = plane.upgrade().map(|plane| Arc::clone(&plane.runtime)) else { return };
    background.note_finish(&*runtime);
    std::future::poll_fn(|cx| waiting.poll_until(cx.waker(), Process::is_over)).await;
    drop(waiting);
    let Some(ended) = plane.upgrade() else { return };
    ended.note_end(&background);
    drop(ended);
    // Not the process: one that is forgotten before, because too many have ended since, is not kept for this.
    let (id, token) = (background.id().to_owned(), background.token().to_owned());
    let stored = background.is_stored();
    drop(background);
    sleep_until(&*runtime, runtime.now() + KEEP_ENDED).await;
    if let Some(plane) = plane.upgrade() {
        lock(&plane.processes.table).forget(&id);
        if stored {
            plane.unstore_process(&id);
        }
        plane.processes.bells.ring(&token);
    }
}
