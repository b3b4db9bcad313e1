//! Background processes: started by a token, which they belong to; followed by nobody or by many; found again.
//!
//! No other token sees one, an admin's included. What it printed last is kept while it runs and for
//! [`KEEP_ENDED`] after that, whether or not anybody follows it.

use super::{Plane, lock, sandboxes, tokens::Caller};
use crate::ApiError;
use bytes::Bytes;
use hangar_backends::{
    Handle, Runtime,
    runtime::sleep_until,
    sandbox::{Command, Spec},
};
use hangar_core::{
    log::Retention,
    process::{self, Exit, Process, Signal, TtySize},
    table::{Ended, Key, Table, TooMany},
    wire::process::{FinishReason, Status, View},
};
use hyper::StatusCode;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

/// Bytes of output that are kept where the starter does not say.
pub const DEFAULT_LOG_BYTES: u64 = 256 * 1024;

/// Bytes of output that may be kept.
pub const MAX_LOG_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes of output that followers may lag behind, whatever is kept for those who come.
const WINDOW: u64 = 256 * 1024;

/// How long a process that has ended stays listed.
pub const KEEP_ENDED: Duration = Duration::from_secs(600);

/// Processes that have ended and are listed, for each token.
const MAX_ENDED: usize = 1000;

/// The background processes of a plane.
#[derive(Debug)]
pub struct Processes {
    table: Mutex<Table<Arc<Background>>>,
}

/// What a client wants to be started.
#[derive(Clone, Debug)]
pub struct StartCall {
    /// What to run.
    pub command: Command,
    /// What it is called.
    pub name: Option<String>,
    /// Where.
    pub cwd: Option<String>,
    /// Variables beyond those of the sandbox.
    pub env: BTreeMap<String, String>,
    /// It gets a terminal of this size instead of pipes.
    pub tty: Option<TtySize>,
    /// Bytes of output that those get who come later; none for 0.
    pub max_log_bytes: u64,
    /// Whether it gets input.
    pub stdin: bool,
}

/// A background process.
#[derive(Debug)]
pub struct Background {
    id: String,
    token: String,
    sandbox: Arc<sandboxes::Entry>,
    call: StartCall,
    started_at_ms: i64,
    /// 0 while it runs.
    finished_at_ms: AtomicI64,
    /// Its end was asked for.
    stopped: AtomicBool,
    restarted_from: Option<String>,
    /// It is being ended and started again.
    restarting: AtomicBool,
    handle: Arc<Handle>,
    plane: Weak<Plane>,
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
        lock(&plane.processes.table).reserve_for(&background.token, &background.id)?;
        Ok(Self { plane: Arc::clone(plane), token: background.token.clone(), filled: false })
    }

    fn fill(mut self, id: String, key: Key, background: &Arc<Background>) {
        self.filled = true;
        lock(&self.plane.processes.table).insert(id, key, Arc::clone(background));
    }
}

/// A process is started again by one at a time: of two, one would start a second copy.
struct Restarting(Arc<Background>);

impl Restarting {
    fn new(background: &Arc<Background>) -> Result<Self, ApiError> {
        if background.restarting.swap(true, Ordering::SeqCst) {
            let message = "the process is being restarted already";
            return Err(ApiError::new(StatusCode::CONFLICT, "restarting", message));
        }
        Ok(Self(Arc::clone(background)))
    }
}

impl Drop for Restarting {
    fn drop(&mut self) {
        self.0.restarting.store(false, Ordering::SeqCst);
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
        Self { table: Mutex::new(Table::new(config)) }
    }

    /// Whether it is not listed any more.
    pub(super) fn is_gone(&self, background: &Background) -> bool {
        let destroyed = background.sandbox.state() == sandboxes::State::Destroyed;
        destroyed
            || lock(&self.table).find(&background.token, background.sandbox.id(), &background.id).is_none()
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

impl Background {
    /// Its id: a ULID.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The id of the token that it belongs to.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Where it runs.
    pub const fn sandbox(&self) -> &Arc<sandboxes::Entry> {
        &self.sandbox
    }

    /// How it was started.
    pub const fn call(&self) -> &StartCall {
        &self.call
    }

    /// Its process.
    pub const fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Whether those who come get nothing of what it printed.
    pub const fn is_logging_disabled(&self) -> bool {
        self.call.max_log_bytes == 0
    }

    /// Its command line, for people.
    pub fn command(&self) -> String {
        match &self.call.command {
            Command::Shell(line) => line.clone(),
            Command::Argv(argv) => argv.join(" "),
        }
    }

    /// How it is.
    pub fn view(&self) -> View {
        let (exit, running, timed_out, start_failed, tty) = self.handle.look(|process| {
            let (timed_out, failed) = (process.timed_out(), process.start_failed());
            (process.exit_status(), process.is_running(), timed_out, failed, process.tty())
        });
        // Its watcher may not have seen it yet.
        if exit.is_some()
            && let Some(plane) = self.plane.upgrade()
        {
            self.note_finish(&**plane.runtime());
        }
        let finished = match exit {
            None => None,
            Some(Exit::Unknown) => Some((Status::Failed, FinishReason::Lost)),
            Some(_) if start_failed => Some((Status::Failed, FinishReason::StartFailed)),
            Some(_) if timed_out => Some((Status::Stopped, FinishReason::Timeout)),
            Some(_) if self.stopped.load(Ordering::SeqCst) => Some((Status::Stopped, FinishReason::Stopped)),
            Some(Exit::Code(_)) => Some((Status::Exited, FinishReason::Exited)),
            Some(Exit::Signal(_)) => Some((Status::Exited, FinishReason::Signaled)),
        };
        let status = if running { Status::Running } else { Status::Starting };
        View {
            id: self.id.clone(),
            name: self.call.name.clone(),
            command: Some(self.command()).filter(|command| !command.is_empty()),
            status: finished.map_or(status, |(status, _)| status),
            exit_code: exit.and_then(Exit::code),
            signal: exit.and_then(Exit::signal),
            finish_reason: finished.map(|(_, reason)| reason),
            started_at_ms: self.started_at_ms,
            finished_at_ms: self.finished_at_ms(),
            restarted_from: self.restarted_from.clone(),
            tty,
        }
    }

    /// It has ended, at the latest now.
    fn note_finish(&self, runtime: &dyn Runtime) {
        let now = runtime.wall_ms().max(1);
        self.finished_at_ms.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst).ok();
    }

    /// When it ended: milliseconds since 1970.
    pub fn finished_at_ms(&self) -> Option<i64> {
        Some(self.finished_at_ms.load(Ordering::SeqCst)).filter(|at| *at != 0)
    }

    /// Ends it: TERM to its group, and KILL after 3 s for what is left of that.
    pub fn stop(&self) {
        if self.handle.look(|process| process.exit_status().is_none()) {
            self.stopped.store(true, Ordering::SeqCst);
        }
        self.handle.command(Process::kill);
    }

    /// Sends a signal to its group. What is paused with its sandbox goes on with that alone.
    pub fn signal(&self, signal: Signal) -> Result<(), ApiError> {
        if signal == Signal::Cont && self.sandbox.state() == sandboxes::State::Paused {
            return Err(ApiError::sandbox_paused());
        }
        self.while_it_runs(|process| process.signal(signal))
    }

    /// Gives its terminal another size.
    pub fn resize(&self, size: TtySize) -> Result<(), ApiError> {
        if self.call.tty.is_none() {
            return Err(ApiError::new(StatusCode::CONFLICT, "no_tty", "the process has no terminal"));
        }
        self.while_it_runs(|process| process.resize(size))
    }

    /// Writes to its input, all or nothing, and ends that if asked to.
    pub fn input(&self, data: Bytes, eof: bool) -> Result<(), ApiError> {
        if !self.call.stdin {
            return Err(ApiError::new(
                StatusCode::CONFLICT,
                "no_stdin",
                "the process was started without an input",
            ));
        }
        self.while_it_runs(|process| {
            if !data.is_empty() && !process.takes_stdin() {
                let message = "the input of the process has ended";
                return Err(ApiError::new(StatusCode::CONFLICT, "stdin_closed", message));
            }
            if data.len() > process.stdin_room() {
                let message = "the process has not read what was written before; try again when it has";
                return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "stdin_full", message));
            }
            process.write_stdin(data);
            if eof {
                process.close_stdin();
            }
            Ok(())
        })?
    }

    /// Writes as much to its input as fits, for who can wait for the rest; whatever comes after its end is dropped.
    pub fn type_in(&self, data: Bytes) -> Option<Bytes> {
        self.handle.command(|process| process.write_stdin(data))
    }

    /// Ends its input, after what waits.
    pub fn end_input(&self) {
        self.handle.command(Process::close_stdin);
    }

    fn while_it_runs<T>(&self, command: impl FnOnce(&mut Process) -> T) -> Result<T, ApiError> {
        let mut done = None;
        self.handle.command(|process| {
            if process.exit_status().is_none() {
                done = Some(command(process));
            }
        });
        done.ok_or_else(|| ApiError::new(StatusCode::CONFLICT, "process_exited", "the process has ended"))
    }
}

fn spec(id: String, call: &StartCall) -> Spec {
    let bytes = usize::try_from(call.max_log_bytes.max(WINDOW)).unwrap_or(usize::MAX);
    Spec {
        id,
        command: call.command.clone(),
        cwd: call.cwd.clone(),
        env: call.env.clone(),
        user: None,
        stdin: call.stdin,
        process: process::Config {
            retention: Retention::Ring { bytes },
            replay: call.max_log_bytes,
            tty: call.tty,
            ..process::Config::default()
        },
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
            let handle = plane.start(Arc::clone(entry.sandbox()), spec(id.clone(), &call)).await?;
            let key = Key { owner: token.clone(), place: entry.id().to_owned(), name: call.name.clone() };
            let background = Arc::new(Background {
                id,
                token,
                sandbox: entry,
                call,
                started_at_ms: plane.runtime.wall_ms(),
                finished_at_ms: AtomicI64::new(0),
                stopped: AtomicBool::new(false),
                restarted_from,
                restarting: AtomicBool::new(false),
                handle,
                plane: Arc::downgrade(&plane),
            });
            place.fill(background.id.clone(), key, &background);
            plane.runtime.spawn(Box::pin(watch(Arc::downgrade(&plane), Arc::clone(&background))));
            // Whoever revoked the token meanwhile did not find it yet.
            if plane.is_revoked(&background.token) {
                background.stop();
            }
            Ok(background)
        })
        .await
    }

    /// Starts a process again, as it was started before.
    pub async fn restart_process(
        self: &Arc<Self>,
        caller: &Caller,
        background: &Arc<Background>,
    ) -> Result<Arc<Background>, ApiError> {
        let (plane, caller, background) = (Arc::clone(self), caller.clone(), Arc::clone(background));
        // What would refuse the start refuses before anything is ended.
        self.place_for(&caller, background.sandbox.id(), &background.call)?;
        let restarting = Restarting::new(&background)?;
        let place = Reserved::for_restart(self, &background)?;
        // To its end: who asked may leave between the two halves of it.
        self.to_its_end(async move {
            background.stop();
            plane.over(&background).await;
            plane.note_end(&background);
            // Time has passed.
            let entry = plane.place_for(&caller, background.sandbox.id(), &background.call)?;
            let (call, from) = (background.call.clone(), Some(background.id.clone()));
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
            if self.is_revoked(&background.token) {
                background.stop();
            }
        }
    }

    /// Notes that a process has ended; whoever comes second changes nothing.
    fn note_end(&self, background: &Background) {
        let held = background.handle.look(|process| process.log().held());
        let Ended { emptied, forgotten } =
            lock(&self.processes.table).handle_ended(&background.id, held as u64);
        for background in emptied.into_iter().chain(forgotten) {
            background.handle.command(Process::abandon_output);
        }
    }

    /// Waits until a process has ended and all its output was read.
    async fn over(&self, background: &Background) {
        let waiting = background.handle.watcher();
        std::future::poll_fn(|cx| waiting.poll_until(cx.waker(), Process::is_over)).await;
    }
}

/// Notes the end of a process, and forgets it a while after.
async fn watch(plane: Weak<Plane>, background: Arc<Background>) {
    let waiting = background.handle.watcher();
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
    let id = background.id.clone();
    drop(background);
    sleep_until(&*runtime, runtime.now() + KEEP_ENDED).await;
    if let Some(plane) = plane.upgrade() {
        lock(&plane.processes.table).forget(&id);
    }
}
