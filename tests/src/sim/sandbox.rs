//! The sandbox: starts scripts, and remembers what happened to each.

use super::{
    clock::Clock,
    driver::Driver,
    family::Family,
    runtime::SimRuntime,
    script::{self, Outcome, Start, Step},
    watch::Watches,
};
use hangar_backends::{
    Handle, Runtime, Sandbox,
    runtime::{BoxFuture, until},
    sandbox::{Adoption, Capabilities, Command, SandboxError, Spec, StartError},
    watching::{WatchError, WatchSpec, Watching},
};
use hangar_core::{
    Time,
    process::{Exit, Process},
};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    task::Waker,
    time::Duration,
};
use tokio::sync::{Notify, oneshot};

/// How long [`Sandbox::destroy`] waits for its processes to be gone.
const DESTROY: Duration = Duration::from_secs(10);

/// What happened to one command.
#[derive(Clone, Debug)]
pub struct Record {
    pub(super) clock: Arc<Clock>,
    /// What was asked for.
    pub spec: Spec,
    /// Whether it was given input.
    pub has_stdin: bool,
    /// When it was asked for.
    pub asked_at: Time,
    /// When it was started.
    pub started_at: Option<Time>,
    /// When it was sent TERM.
    pub terminated_at: Vec<Time>,
    /// When it was sent KILL.
    pub swept_at: Vec<Time>,
    /// When its leader ended, and how.
    pub exited: Option<(Time, Exit)>,
    /// When the sandbox lost it.
    pub lost_at: Option<Time>,
    /// When its driver let go of it.
    pub released_at: Option<Time>,
    /// Bytes it has printed.
    pub printed: usize,
}

impl Record {
    /// Its script.
    pub fn command(&self) -> &str {
        match &self.spec.command {
            Command::Shell(command) => command,
            Command::Argv(words) => &words[words.len() - 1],
        }
    }
}

/// The one program of the sandbox: its argument is a script.
pub const SCRIPT: &str = "script";

/// The first pid that it gives.
pub const FIRST_PID: u32 = 100;

/// A sandbox of scripts. See [`script`].
pub struct SimSandbox {
    shared: Arc<Shared>,
    /// The directories of it that are watched.
    pub watches: Arc<Watches>,
    ends_with_server: bool,
}

pub(super) struct Shared {
    pub(super) runtime: Arc<SimRuntime>,
    table: Mutex<Table>,
    /// Its own clock, which a pause stops.
    pauses: Mutex<Pauses>,
    left: Notify,
}

#[derive(Default)]
struct Table {
    processes: BTreeMap<String, Arc<Handle>>,
    records: BTreeMap<String, Record>,
    /// Ids, in the order of their start.
    order: Vec<String>,
    destroyed: bool,
    /// What the next pause, resume or destroy fails with.
    broken: Option<SandboxError>,
}

#[derive(Default)]
struct Pauses {
    since: Option<Time>,
    total: Duration,
}

impl SimSandbox {
    /// Whether its processes end with the server.
    pub const fn ends_with_server(&self) -> bool {
        self.ends_with_server
    }

    /// An empty sandbox. `ends_with_server`: as those on this machine do.
    pub fn new(runtime: Arc<SimRuntime>, ends_with_server: bool) -> Arc<Self> {
        let shared =
            Shared { runtime, table: Mutex::default(), pauses: Mutex::default(), left: Notify::new() };
        let watches = Watches::new(Arc::clone(&shared.runtime));
        Arc::new(Self { shared: Arc::new(shared), watches, ends_with_server })
    }

    /// Everything that was started, in that order.
    pub fn records(&self) -> Vec<Record> {
        let table = self.shared.table.lock().unwrap();
        table.order.iter().map(|id| table.records[id].clone()).collect()
    }

    /// The one command that was started.
    ///
    /// # Panics
    ///
    /// If it was none, or more.
    pub fn record(&self) -> Record {
        <[Record; 1]>::try_from(self.records()).map(|[record]| record).expect("one command was started")
    }

    /// The next pause, resume or destroy fails.
    pub fn break_next(&self, error: SandboxError) {
        self.shared.table.lock().unwrap().broken = Some(error);
    }

    fn broken(&self) -> Result<(), SandboxError> {
        self.shared.table.lock().unwrap().broken.take().map_or(Ok(()), Err)
    }

    fn wake_all(&self) {
        for handle in self.processes() {
            handle.command(|_| ());
        }
    }
}

impl Sandbox for SimSandbox {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            streaming: true,
            stdin: true,
            stdin_end: true,
            tty: false,
            signals: true,
            users: true,
            pause: true,
        }
    }

    fn start(&self, spec: Spec) -> BoxFuture<'_, Result<Arc<Handle>, StartError>> {
        Box::pin(async move {
            let shared = &self.shared;
            let script = match &spec.command {
                Command::Shell(script) => script,
                Command::Argv(words) => match &words[..] {
                    [program, script] if program == SCRIPT => script,
                    // By a shell, as a server asks its daemon; E2B's has it started by another.
                    [.., flag, end, script] if flag == "-lc" && end == "--" => script,
                    _ => {
                        return Err(StartError::Unsupported {
                            field: "argv",
                            what: "programs, only scripts",
                        });
                    }
                },
            };
            let steps = script::parse(script);
            let handle = Handle::new(spec.id.clone(), spec.process(shared.runtime.now()));
            shared.insert(&handle, spec)?;
            // A task of its own from here: whoever asked may go away while the command is being started.
            let (tell, told) = oneshot::channel();
            shared.runtime.spawn(Box::pin(start(Arc::clone(shared), handle, steps, tell)));
            told.await.unwrap_or_else(|_| Err(StartError::Broken("the run is over".to_owned())))
        })
    }

    fn watch(&self, spec: WatchSpec) -> BoxFuture<'_, Result<Box<dyn Watching>, WatchError>> {
        Box::pin(self.watches.open(spec))
    }

    fn pause(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async {
            self.broken()?;
            self.shared.pauses.lock().unwrap().since.get_or_insert_with(|| self.shared.runtime.now());
            self.wake_all();
            Ok(())
        })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async {
            self.broken()?;
            let mut pauses = self.shared.pauses.lock().unwrap();
            if let Some(since) = pauses.since.take() {
                pauses.total += self.shared.runtime.now().since(since);
            }
            drop(pauses);
            self.wake_all();
            Ok(())
        })
    }

    fn destroy(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async {
            self.broken()?;
            let shared = &self.shared;
            shared.table.lock().unwrap().destroyed = true;
            for handle in self.processes() {
                handle.command(Process::kill);
            }
            until(&*shared.runtime, shared.runtime.now() + DESTROY, shared.emptied()).await;
            match self.processes().len() {
                0 => Ok(()),
                left => Err(SandboxError::Left(left)),
            }
        })
    }

    fn processes(&self) -> Vec<Arc<Handle>> {
        self.shared.table.lock().unwrap().processes.values().cloned().collect()
    }

    fn adopt(&self, _: Adoption) -> Option<Arc<Handle>> {
        None
    }

    fn ending_with_server(&self) -> Vec<Arc<Handle>> {
        if self.ends_with_server { self.processes() } else { Vec::new() }
    }

    fn shut_down(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        if self.ends_with_server { self.destroy() } else { Box::pin(async { Ok(()) }) }
    }
}

impl fmt::Debug for SimSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimSandbox").field("processes", &self.processes().len()).finish_non_exhaustive()
    }
}

/// The task of one process: starts it, tells who asked, and drives it to its end.
async fn start(
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    steps: Vec<Step>,
    tell: oneshot::Sender<Result<Arc<Handle>, StartError>>,
) {
    let Start { delay, outcome } = script::start(&steps);
    if !delay.is_zero() {
        shared.runtime.sleep(delay).await;
    }
    let (told, driver) = match outcome {
        Outcome::Runs => {
            shared.record(handle.id(), |record| record.started_at = Some(shared.runtime.now()));
            shared.note(handle.id(), "runs");
            let pid = shared.pid(handle.id());
            handle.drive(Waker::noop(), |process| process.handle_started(Some(pid)));
            let driver = Driver::new(Arc::clone(&shared), Arc::clone(&handle), Family::new(steps));
            (Ok(Arc::clone(&handle)), Some(driver))
        }
        Outcome::Fails(failure) => {
            let ts_ms = shared.runtime.wall_ms();
            handle.drive(Waker::noop(), |process| process.handle_start_failed(&failure, ts_ms));
            (Ok(Arc::clone(&handle)), None)
        }
        Outcome::Refused(error) => (Err(error), None),
    };
    if driver.is_none() {
        shared.release(&handle);
    }
    if tell.send(told).is_err() {
        // Whoever asked went away before there was anything to know it by.
        handle.command(Process::kill);
    }
    if let Some(driver) = driver {
        driver.await;
    }
}

impl Shared {
    fn insert(&self, handle: &Arc<Handle>, spec: Spec) -> Result<(), StartError> {
        let mut table = self.table.lock().unwrap();
        if table.destroyed {
            return Err(StartError::Destroyed);
        }
        let id = handle.id().to_owned();
        let record = Record {
            clock: Arc::clone(self.runtime.clock()),
            has_stdin: spec.stdin.is_some(),
            spec,
            asked_at: self.runtime.now(),
            started_at: None,
            terminated_at: Vec::new(),
            swept_at: Vec::new(),
            exited: None,
            lost_at: None,
            released_at: None,
            printed: 0,
        };
        self.note(&id, &format!("is asked for: `{:.60}`", record.command()));
        table.processes.insert(id.clone(), Arc::clone(handle));
        table.records.insert(id.clone(), record);
        table.order.push(id);
        Ok(())
    }

    pub(super) fn record<T>(&self, id: &str, change: impl FnOnce(&mut Record) -> T) -> T {
        change(self.table.lock().unwrap().records.get_mut(id).unwrap())
    }

    /// The number of a process: counted from [`FIRST_PID`] in the order of their start.
    fn pid(&self, id: &str) -> u32 {
        let index = self.table.lock().unwrap().order.iter().position(|known| known == id);
        FIRST_PID + u32::try_from(index.unwrap()).unwrap()
    }

    pub(super) fn release(&self, handle: &Handle) {
        handle.release();
        let now = self.runtime.now();
        let exited = self.record(handle.id(), |record| {
            record.released_at = Some(now);
            record.exited
        });
        self.note(handle.id(), &format!("is let go of: {exited:?}"));
        self.table.lock().unwrap().processes.remove(handle.id());
        self.left.notify_waiters();
    }

    async fn emptied(&self) {
        loop {
            let mut left = std::pin::pin!(self.left.notified());
            left.as_mut().enable();
            if self.table.lock().unwrap().processes.is_empty() {
                return;
            }
            left.await;
        }
    }

    /// The time that its processes see, and whether they run.
    pub(super) fn local_time(&self) -> (Time, bool) {
        let pauses = self.pauses.lock().unwrap();
        let now = pauses.since.unwrap_or_else(|| self.runtime.now());
        (Time::ZERO + now.since(Time::ZERO).saturating_sub(pauses.total), pauses.since.is_none())
    }

    /// The runtime's time at a time of its processes.
    pub(super) fn global(&self, local: Time) -> Time {
        local + self.pauses.lock().unwrap().total
    }

    pub(super) fn note(&self, id: &str, what: &str) {
        self.runtime.trace().note(format_args!("process {id} {what}"));
    }
}
