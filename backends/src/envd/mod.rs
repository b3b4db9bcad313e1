//! Sandboxes behind a daemon that speaks the protocol of E2B's envd: `hangar-envd`, or envd itself.
//!
//! ```text
//!  start ──► the daemon starts it ──► driver ◄── events, on a connection of its own
//!                                      │ feeds the Process, carries out what that asks for by calls
//!                                      └ the connection breaks: it is found again by its tag
//! ```
//!
//! * `hangar-envd` keeps the log of a process beside it, and the one here is its mirror, frame by frame: what was cut goes on
//!   where it was, and so does a server that starts again. With envd the log is here, and what is printed while the
//!   connection is lost is a gap.
//! * A daemon that cannot be reached is asked again and again, for ten minutes; a process that it does not know any more
//!   is lost: how it ended is not known.
//! * What is asked of a process is asked at most once where the answer was lost, except for its end.
//!
//! See `docs/envd.md` for the protocol.

mod attach;
mod driver;
mod lanes;
mod orders;
mod receipts;
mod rpc;
mod start;
mod stream;
mod watch;

use crate::{
    Handle, Runtime, Sandbox,
    net::url::Url,
    runtime::{BoxFuture, emptied, until},
    sandbox::{Adoption, Capabilities, SandboxError, Spec, StartError},
    starting::{self, Starting},
    watching::{WatchError, WatchSpec, Watching},
};
use driver::{Driver, Followed};
use hangar_core::{
    Time,
    process::{Process, StartFailure},
    wire::{
        connect::Code,
        envd::{
            filesystem::{EntryResponse, PathRequest, SERVICE as FILESYSTEM},
            process::ProcessSelector,
        },
    },
};
use hyper::header::HeaderValue;
use rpc::{CallError, Head, Rpc};
use start::{Daemon, Started};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Duration,
};
use tokio::sync::Notify;

/// How long [`Sandbox::destroy`] waits for what was told to end.
const DESTROY: Duration = Duration::from_secs(10);

/// How often a daemon is asked what it is, while connections to it break.
const TRIES: u32 = 5;

/// How long what it said of itself is believed.
const KNOWN: Duration = Duration::from_secs(30);

/// The longest message of one that never ran.
const MAX_FAILURE: usize = 4096;

/// Numbers from here on are given to what never ran.
const NEVER_RAN: u32 = 1 << 30;

/// A daemon, and how commands run there.
#[derive(Clone)]
pub struct Config {
    /// Where it is.
    pub url: Url,
    /// The token that it asks for.
    pub token: Option<HeaderValue>,
    /// Where commands run that do not say so, and what a relative directory is relative to; the home of the user
    /// without it.
    pub workdir: Option<String>,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("url", &self.url)
            .field("workdir", &self.workdir)
            .finish_non_exhaustive()
    }
}

/// A sandbox behind a daemon. Dropping it leaves its processes as they are.
pub struct EnvdSandbox {
    shared: Arc<Shared>,
}

struct Shared {
    runtime: Arc<dyn Runtime>,
    rpc: Rpc,
    workdir: Option<String>,
    table: Mutex<Table>,
    /// What is known of the daemon, and since when; None before it was asked, and after a stream broke: it may be another
    /// one now.
    daemon: Mutex<Option<(Daemon, Time)>>,
    /// A process was let go of.
    left: Notify,
}

#[derive(Default)]
struct Table {
    processes: BTreeMap<String, Arc<Handle>>,
    /// Who watches a directory.
    watches: watch::Wakers,
    destroyed: bool,
}

/// A process, as its daemon knows it.
#[derive(Clone, Debug)]
struct Target {
    tag: String,
    /// None before it has started.
    pid: Option<u32>,
}

impl Target {
    fn new(tag: &str, pid: Option<u32>) -> Self {
        Self { tag: tag.to_owned(), pid }
    }

    fn by_tag(&self) -> ProcessSelector {
        ProcessSelector { pid: None, tag: Some(self.tag.clone()) }
    }

    /// As hangar's daemon takes it: a tag that somebody has copied is not enough, nor is a number that is another's by now.
    fn by_both(&self) -> ProcessSelector {
        ProcessSelector { pid: self.pid, tag: Some(self.tag.clone()) }
    }

    fn by_pid(&self) -> ProcessSelector {
        ProcessSelector { pid: self.pid, tag: None }
    }
}

impl EnvdSandbox {
    /// A sandbox behind the daemon of `config`, which is not asked before it is needed.
    pub fn new(runtime: Arc<dyn Runtime>, config: Config) -> Self {
        let Config { url, token, workdir } = config;
        let shared = Shared {
            rpc: Rpc::new(Arc::clone(&runtime), url, token),
            runtime,
            workdir,
            table: Mutex::default(),
            daemon: Mutex::default(),
            left: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }
}

impl fmt::Debug for EnvdSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvdSandbox")
            .field("processes", &self.shared.lock().processes.len())
            .finish_non_exhaustive()
    }
}

impl Sandbox for EnvdSandbox {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            streaming: true,
            stdin: true,
            stdin_end: true,
            tty: true,
            signals: true,
            users: true,
            pause: false,
        }
    }

    fn start(&self, spec: Spec) -> BoxFuture<'_, Result<Arc<Handle>, StartError>> {
        Box::pin(async move {
            let shared = &self.shared;
            let handle = Handle::new(spec.id.clone(), spec.process(shared.runtime.now()));
            shared.insert(&handle)?;
            let task = Arc::clone(shared);
            starting::start(&*shared.runtime, |starting| run(task, handle, spec, starting)).await
        })
    }

    fn watch(&self, spec: WatchSpec) -> BoxFuture<'_, Result<Box<dyn Watching>, WatchError>> {
        Box::pin(watch::watch(&self.shared, spec))
    }

    fn pause(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async { Err(SandboxError::Unsupported("paused: its daemon cannot do that")) })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async { Err(SandboxError::Unsupported("resumed: its daemon cannot do that")) })
    }

    fn destroy(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async {
            let shared = &self.shared;
            let watches = {
                let mut table = shared.lock();
                table.destroyed = true;
                std::mem::take(&mut table.watches)
            };
            watches.wake();
            for handle in self.processes() {
                handle.command(|process| {
                    process.abandon_output();
                    process.kill();
                });
            }
            until(&*shared.runtime, shared.runtime.now() + DESTROY, shared.emptied()).await;
            // A daemon that is gone must not keep its sandbox: their drivers go on telling them, for as long as they look.
            for handle in self.processes() {
                tracing::warn!(
                    process.id = handle.id(),
                    "it is not known to have ended; it is told when its daemon is back"
                );
            }
            Ok(())
        })
    }

    fn adopt(&self, adoption: Adoption) -> Option<Arc<Handle>> {
        let shared = &self.shared;
        let Adoption { id, tag, pid, user, process, exit, goes_on_at } = adoption;
        let spec = Followed::of(&process, user);
        let handle = Handle::new(id, Process::new(process, shared.runtime.now()));
        shared.insert(&handle).ok()?;
        handle.drive(Waker::noop(), |process| {
            process.handle_adopted();
            if pid.is_some() || exit.is_some() {
                process.handle_started(pid);
            }
            exit.into_iter().for_each(|exit| process.handle_exit(exit));
        });
        let driver = Driver::adopt(shared, &handle, spec, Target::new(&tag, pid), goes_on_at);
        shared.runtime.spawn(Box::pin(driver));
        Some(handle)
    }

    fn processes(&self) -> Vec<Arc<Handle>> {
        self.shared.lock().processes.values().cloned().collect()
    }

    fn ending_with_server(&self) -> Vec<Arc<Handle>> {
        Vec::new()
    }

    fn shut_down(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async { Ok(()) })
    }
}

impl Shared {
    /// What is known of the daemon; it is asked where nothing is.
    async fn daemon(&self) -> Result<Daemon, CallError> {
        let begun = self.runtime.now();
        let known = self.known().clone();
        if let Some((daemon, _)) = known.filter(|(_, asked)| begun.since(*asked) < KNOWN) {
            return Ok(daemon);
        }
        let mut tries = 0;
        loop {
            tries += 1;
            match self.ask().await {
                // To ask again does no harm, and to ask one that says nothing is of no use.
                Err(CallError::Broken(_)) if tries < TRIES && self.runtime.now().since(begun) < KNOWN => {}
                daemon => return daemon,
            }
        }
    }

    async fn ask(&self) -> Result<Daemon, CallError> {
        let extensions = self.rpc.extensions().await?;
        let mut shell = "/bin/sh";
        for bash in ["/bin/bash", "/usr/bin/bash"] {
            if self.is_there(bash).await? {
                shell = bash;
                break;
            }
        }
        let acknowledges =
            extensions.as_ref().is_some_and(|names| names.iter().any(|name| name == "acknowledge"));
        let daemon = Daemon { is_hangar: extensions.is_some(), acknowledges, shell };
        *self.known() = Some((daemon.clone(), self.runtime.now()));
        Ok(daemon)
    }

    async fn is_there(&self, path: &str) -> Result<bool, CallError> {
        let request = PathRequest { path: path.to_owned() };
        let method = format!("{FILESYSTEM}/Stat");
        match self.rpc.call::<_, EntryResponse>(&method, &Head::default(), &request).await {
            Ok(_) => Ok(true),
            Err(CallError::Refused(error)) if error.code == Code::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn known(&self) -> MutexGuard<'_, Option<(Daemon, Time)>> {
        self.daemon.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a command runs.
    fn cwd(&self, spec: &Spec) -> Option<String> {
        spec.cwd.as_ref().map(|cwd| self.in_workdir(cwd)).or_else(|| self.workdir.clone())
    }

    /// A path as the daemon is told it: one that is relative to where commands run.
    fn in_workdir(&self, path: &str) -> String {
        match &self.workdir {
            Some(workdir) if !path.starts_with(['/', '~']) => {
                format!("{}/{path}", workdir.trim_end_matches('/'))
            }
            Some(_) | None => path.to_owned(),
        }
    }

    fn insert(&self, handle: &Arc<Handle>) -> Result<(), StartError> {
        let mut table = self.lock();
        if table.destroyed {
            return Err(StartError::Destroyed);
        }
        table.processes.insert(handle.id().to_owned(), Arc::clone(handle));
        Ok(())
    }

    /// The driver lets go of a process.
    fn release(&self, handle: &Handle) {
        handle.release();
        self.lock().processes.remove(handle.id());
        self.left.notify_waiters();
    }

    async fn emptied(&self) {
        emptied(&self.left, || self.lock().processes.is_empty()).await;
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task of one process: starts it, tells who asked, and drives it to its end.
async fn run(shared: Arc<Shared>, handle: Arc<Handle>, spec: Spec, starting: Starting) {
    let tag = spec.tag.clone().unwrap_or_else(|| format!("hangar:{}", spec.id));
    match start::start(&shared, &spec, &tag).await {
        Ok(started) if started.is_logged && started.pid >= NEVER_RAN => {
            starting::fail(&*shared.runtime, &handle, &failure(&shared, started).await);
            shared.release(&handle);
            starting.tell(&handle, Ok(()));
        }
        Ok(started) => {
            handle.drive(Waker::noop(), |process| process.handle_started(Some(started.pid)));
            let followed = Followed::of(&spec.process, spec.user);
            let target = Target::new(&tag, Some(started.pid));
            let driver = Driver::new(&shared, &handle, followed, target, started);
            starting.tell(&handle, Ok(()));
            driver.await;
        }
        Err(error) => {
            shared.release(&handle);
            starting.tell(&handle, Err(error));
        }
    }
}

/// Why a command never ran, as its daemon says it: on its standard error.
async fn failure(shared: &Shared, mut started: Started) -> StartFailure {
    let mut message = Vec::new();
    let mut code = 126;
    while let Ok(event) = started.stream.next(&*shared.runtime).await {
        let said = event.data.and_then(|data| data.stderr).unwrap_or_default();
        message.extend_from_slice(&said[..said.len().min(MAX_FAILURE - message.len())]);
        if let Some(end) = event.end {
            code = end.exit_code;
            break;
        }
    }
    StartFailure { code, message: String::from_utf8_lossy(&message).trim_end_matches('\n').to_owned() }
}
