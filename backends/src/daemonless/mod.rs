//! Sandboxes without a daemon: all that there is is the provider's own way to run a command.
//!
//! ```text
//!  a command  ──► the provider runs it ──► at its end: all that it printed, and how it ended
//!  a process  ──► start.sh detaches it ──► report.sh, again and again: what it printed since, and how it is
//! ```
//!
//! * What a command prints comes in one piece, the last [`MAX_HELD`](held::MAX_HELD) bytes of each output.
//! * A process has a session of its own (`setsid`) and outlives this server. What it prints is in `~/.hangar/bg/<id>.out` and,
//!   past 4 to 8 MiB, in `<id>.out.<offset>`, of which the oldest go; how it ended in `<id>.exit`. It is looked after every
//!   0.5 s while somebody reads it, every 5 s otherwise (`looks`). A byte has the same offset whoever reads it, so a server that
//!   starts again goes on where it was.
//! * All of that is as true as the user is whom the process runs as: it can write these files. What they say is believed where it
//!   costs nobody else anything: that it has ended only once its leader is gone, and its number is the one that its start gave.
//! * A shell tells a signal from an exit code by 128 + n: so does this.
//! * There is no input for processes, there are no terminals, and nothing is paused.

mod driver;
pub mod held;
#[cfg(feature = "local")]
pub mod local;
mod looks;
pub mod provider;
mod scripts;

use crate::{
    Handle, Runtime, Sandbox,
    runtime::{BoxFuture, emptied, sleep_until, until},
    sandbox::{Adoption, Capabilities, SandboxError, Spec, StartError, Stdin},
    starting::{self, Starting},
    watching::{WatchError, WatchSpec, Watching},
};
use driver::Driver;
use hangar_core::{log::Retention, process::Process, wire::detached::Start};
use looks::Taking;
use provider::{Call, Provider};
use scripts::{PATIENCE, Scripts, Target};
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

/// Processes of which one script removes what is left.
const REMOVED: usize = 100;

/// How long the files of a process that has ended are kept.
const KEEP: Duration = Duration::from_secs(600);

/// A sandbox without a daemon. Dropping it leaves its detached processes as they are.
pub struct DaemonlessSandbox {
    shared: Arc<Shared>,
}

struct Shared {
    runtime: Arc<dyn Runtime>,
    provider: Arc<dyn Provider>,
    scripts: Scripts,
    table: Mutex<Table>,
    /// A process was let go of.
    left: Notify,
}

#[derive(Default)]
struct Table {
    processes: BTreeMap<String, Entry>,
    /// Processes of which files are left.
    kept: BTreeMap<String, Target>,
    destroyed: bool,
}

struct Entry {
    handle: Arc<Handle>,
    is_detached: bool,
}

impl DaemonlessSandbox {
    /// The sandbox of `provider`.
    pub fn new(runtime: Arc<dyn Runtime>, provider: Arc<dyn Provider>) -> Self {
        let shared = Shared {
            scripts: Scripts::new(Arc::clone(&runtime), Arc::clone(&provider)),
            runtime,
            provider,
            table: Mutex::default(),
            left: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }
}

impl fmt::Debug for DaemonlessSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DaemonlessSandbox")
            .field("processes", &self.shared.lock().processes.len())
            .finish_non_exhaustive()
    }
}

impl Sandbox for DaemonlessSandbox {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            streaming: false,
            stdin: false,
            stdin_end: false,
            tty: false,
            signals: true,
            users: self.shared.provider.has_users(),
            pause: false,
        }
    }

    fn start(&self, spec: Spec) -> BoxFuture<'_, Result<Arc<Handle>, StartError>> {
        Box::pin(async move {
            let shared = &self.shared;
            if spec.process.tty.is_some() {
                return Err(StartError::Unsupported { field: "tty", what: "terminals: it has no daemon" });
            }
            // What is waited for until it is read is a command.
            let is_detached = matches!(spec.process.retention, Retention::Ring { .. });
            let mut before = spec.clone();
            // A command's input is given to the provider.
            before.stdin = Stdin::None;
            if !is_detached {
                // All of it comes at once.
                before.process.retention = Retention::UntilRead { bytes: 4 * held::MAX_HELD };
            }
            let handle = Handle::new(spec.id.clone(), before.process(shared.runtime.now()));
            shared.insert(&handle, is_detached)?;
            let task = Arc::clone(shared);
            starting::start(&*shared.runtime, |starting| async move {
                if is_detached {
                    detach(task, handle, spec, starting).await;
                } else {
                    run(task, handle, spec, starting).await;
                }
            })
            .await
        })
    }

    fn watch(&self, _: WatchSpec) -> BoxFuture<'_, Result<Box<dyn Watching>, WatchError>> {
        Box::pin(std::future::ready(Err(WatchError::NeedsDaemon)))
    }

    fn pause(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async { Err(SandboxError::Unsupported("paused: it has no daemon")) })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async { Err(SandboxError::Unsupported("resumed: it has no daemon")) })
    }

    fn destroy(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async {
            let shared = &self.shared;
            shared.lock().destroyed = true;
            for handle in self.processes() {
                handle.command(|process| {
                    process.abandon_output();
                    process.kill();
                });
            }
            let now = shared.runtime.now();
            until(&*shared.runtime, now + DESTROY, shared.emptied(|_| true)).await;
            // What is over may have left something behind.
            until(&*shared.runtime, now + 2 * DESTROY, shared.remove_all()).await;
            shared.provider.destroy().await
        })
    }

    fn adopt(&self, adoption: Adoption) -> Option<Arc<Handle>> {
        let shared = &self.shared;
        let Adoption { id, tag: _, pid, user, process, exit, goes_on_at } = adoption;
        let (Retention::Ring { bytes } | Retention::UntilRead { bytes }) = process.retention;
        let handle = Handle::new(id.clone(), Process::new(process, shared.runtime.now()));
        shared.insert(&handle, true).ok()?;
        handle.drive(Waker::noop(), |process| {
            process.handle_adopted();
            process.handle_stdin_closed();
            if pid.is_some() || exit.is_some() {
                process.handle_started(pid);
            }
            exit.into_iter().for_each(|exit| process.handle_exit(exit));
        });
        let target = Target { id, pid: pid.unwrap_or(0), user };
        shared.lock().kept.insert(target.id.clone(), target.clone());
        let driver = Driver::new(shared, &handle, target, true);
        shared.runtime.spawn(Box::pin(driver.process(Some(Taking::new(goes_on_at.0, bytes as u64)))));
        Some(handle)
    }

    fn processes(&self) -> Vec<Arc<Handle>> {
        self.shared.handles(|_| true)
    }

    fn ending_with_server(&self) -> Vec<Arc<Handle>> {
        let ends = self.shared.provider.ends_with_server();
        self.shared.handles(|entry| ends && !entry.is_detached)
    }

    fn shut_down(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async {
            let shared = &self.shared;
            if !shared.provider.ends_with_server() {
                return Ok(());
            }
            for handle in self.ending_with_server() {
                handle.command(|process| {
                    process.abandon_output();
                    process.kill();
                });
            }
            let end = shared.runtime.now() + DESTROY;
            until(&*shared.runtime, end, shared.emptied(|entry| !entry.is_detached)).await;
            match self.ending_with_server().len() {
                0 => Ok(()),
                left => Err(SandboxError::Left(left)),
            }
        })
    }
}

impl Shared {
    fn insert(&self, handle: &Arc<Handle>, is_detached: bool) -> Result<(), StartError> {
        let mut table = self.lock();
        if table.destroyed {
            return Err(StartError::Destroyed);
        }
        let entry = Entry { handle: Arc::clone(handle), is_detached };
        table.processes.insert(handle.id().to_owned(), entry);
        Ok(())
    }

    /// The driver lets go of a process.
    fn release(&self, handle: &Handle) {
        handle.release();
        self.lock().processes.remove(handle.id());
        self.left.notify_waiters();
    }

    fn handles(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<Arc<Handle>> {
        let table = self.lock();
        table
            .processes
            .values()
            .filter(|entry| wanted(entry))
            .map(|entry| Arc::clone(&entry.handle))
            .collect()
    }

    async fn emptied(&self, awaited: impl Fn(&Entry) -> bool) {
        emptied(&self.left, || !self.lock().processes.values().any(&awaited)).await;
    }

    /// Removes the files of a process that has ended, a while later: a server that starts again may ask for them.
    fn forget_later(self: &Arc<Self>, target: Target) {
        let shared = Arc::clone(self);
        self.runtime.spawn(Box::pin(async move {
            if !shared.lock().destroyed {
                sleep_until(&*shared.runtime, shared.runtime.now() + KEEP).await;
            }
            if shared.lock().kept.remove(&target.id).is_some() {
                shared.remove(target.user, vec![target.id]).await;
            }
        }));
    }

    /// Removes what is left of all processes.
    async fn remove_all(&self) {
        let kept = std::mem::take(&mut self.lock().kept);
        let mut ids: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
        for target in kept.into_values() {
            ids.entry(target.user).or_default().push(target.id);
        }
        for (user, ids) in ids {
            for some in ids.chunks(REMOVED) {
                self.remove(user.clone(), some.to_vec()).await;
            }
        }
    }

    async fn remove(&self, user: Option<String>, ids: Vec<String>) {
        if let Err(error) = self.scripts.remove(user, ids).await {
            tracing::debug!(%error, "files of processes are left");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task of a command: the provider runs it.
async fn run(shared: Arc<Shared>, handle: Arc<Handle>, spec: Spec, starting: Starting) {
    let Spec { id, command, cwd, env, user, stdin, .. } = spec;
    let target = Target { id: id.clone(), pid: 0, user: user.clone() };
    let stdin = if let Stdin::Given(data) = stdin { Some(data) } else { None };
    let call = Call { id, command, cwd, env, user, stdin };
    let end = shared.runtime.now() + PATIENCE;
    let running = until(&*shared.runtime, end, shared.provider.exec(call)).await;
    match running.unwrap_or_else(|| Err(StartError::Broken("it does not answer".to_owned()))) {
        Ok(running) => {
            handle.drive(Waker::noop(), |process| process.handle_started(None));
            starting.tell(&handle, Ok(()));
            Driver::new(&shared, &handle, target, false).command(running).await;
        }
        Err(error) => {
            shared.release(&handle);
            starting.tell(&handle, Err(error));
        }
    }
}

/// The task of a process: it is detached, and looked after.
async fn detach(shared: Arc<Shared>, handle: Arc<Handle>, spec: Spec, starting: Starting) {
    let (Retention::Ring { bytes } | Retention::UntilRead { bytes }) = spec.process.retention;
    let mut target = Target { id: spec.id.clone(), pid: 0, user: spec.user.clone() };
    match shared.scripts.start(&spec, bytes).await {
        Ok(Start::Started(pid)) => {
            target.pid = pid;
            shared.lock().kept.insert(spec.id, target.clone());
            handle.drive(Waker::noop(), |process| process.handle_started(Some(pid)));
            starting.tell(&handle, Ok(()));
            Driver::new(&shared, &handle, target, true).process(None).await;
        }
        Ok(Start::Failed(failure)) => {
            starting::fail(&*shared.runtime, &handle, &failure);
            shared.release(&handle);
            starting.tell(&handle, Ok(()));
        }
        Err(error) => {
            if let StartError::Broken(_) = error {
                // It may run all the same, and nobody knows of it.
                shared.remove(target.user, vec![target.id]).await;
            }
            shared.release(&handle);
            starting.tell(&handle, Err(error));
        }
    }
}
