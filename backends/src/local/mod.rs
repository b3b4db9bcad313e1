//! Sandboxes on this machine: real processes, each with pipes or a terminal, and a driver task of its own.
//!
//! ```text
//!  start ──► spawn (on a thread that may block) ──► driver ──► released
//!             │ a command at fault: a process        │ reads and writes them, reaps the leader,
//!             │ that ended with 126 or 127           │ carries out what its Process asks for
//!             └ everything else: a StartError        └ killer: the group, and what left it
//! ```
//!
//! * A process is the leader of a process group of its own. Its environment is built, never inherited.
//! * What belongs to it is its group, whatever has its `HANGAR_PROCESS_ID` in its environment, and the descendants of
//!   those. A program that clears its environment, leaves the group and outlives its parents before anybody looked
//!   cannot be found, unless the server is nothing but the sandbox ([`Config::owns_descendants`]). All that was ever
//!   started in a sandbox has its `HANGAR_SANDBOX_ID`: pause and destroy go by that.
//! * [`files`] is for a daemon in a sandbox, which serves files to clients; nothing here uses it.
//! * The library has no effect on the whole server. To reap orphans is a binary's business: [`reaper`]. So is how
//!   signals are handled: those that the server *ignores* its commands ignore too, so a binary that may have been
//!   started with INT or QUIT ignored (as a script's background job is) should handle them.

mod acting;
mod child;
mod driver;
pub mod files;
mod hunt;
mod kill;
mod members;
mod pause;
mod pty;
pub mod reaper;
mod spawn;
mod sweep;
mod user;
mod watch;

use crate::{
    Handle, Runtime, Sandbox,
    runtime::{BoxFuture, blocking, emptied, until},
    sandbox::{Adoption, Capabilities, SandboxError, Spec, StartError},
    starting::{self, Starting},
    watching::{WatchError, WatchSpec, Watching},
};
use driver::Driver;
use files::resolve;
use hangar_core::process::Process;
use members::{Identity, Scanner};
use spawn::NotStarted;
use std::{
    collections::BTreeMap,
    fmt,
    future::poll_fn,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Duration,
};
use tokio::sync::Notify;
use watch::{Watches, Wish};

pub use user::{User, UserError};

/// How long [`destroy`](Sandbox::destroy) waits for its processes to end.
const DESTROY: Duration = Duration::from_secs(10);

/// How long readers then have to take the last output of a process that has ended.
const LAST_OUTPUT: Duration = Duration::from_millis(200);

/// How commands run in a [`LocalSandbox`].
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// As whom; as the server's own user without it. With it no command can ask for another user.
    pub user: Option<User>,
    /// Where, unless they say so; without it in their user's home, or in `/` where there is none.
    pub directory: Option<PathBuf>,
    /// What everything that runs there has as `HANGAR_SANDBOX_ID` in its environment; without it something that nobody
    /// else has. Whoever gives the same again finds what ran there before.
    pub id: Option<String>,
    /// The server is this sandbox and nothing else: [`destroy`](Sandbox::destroy) ends whatever descends from the server,
    /// however it hid. For binaries that called [`reaper::become_subreaper`], so that nothing gets away from below it.
    pub owns_descendants: bool,
}

/// This machine as a sandbox.
pub struct LocalSandbox {
    shared: Arc<Shared>,
}

/// What the sandbox and its drivers share.
struct Shared {
    runtime: Arc<dyn Runtime>,
    /// As whom commands run.
    user: User,
    /// No command can ask for another.
    is_fixed_user: bool,
    directory: Option<PathBuf>,
    owns_descendants: bool,
    /// In the environment of everything that runs here.
    sandbox_id: String,
    scanner: Scanner,
    watches: Watches,
    table: Mutex<Table>,
    /// Told when a process has left the table.
    left: Notify,
}

#[derive(Default)]
struct Table {
    processes: BTreeMap<String, Entry>,
    /// What [`pause`](Sandbox::pause) stopped; None while nothing is paused, and commands can be started.
    paused: Option<Vec<Identity>>,
    destroyed: bool,
}

struct Entry {
    handle: Arc<Handle>,
    /// None until it runs.
    leader: Option<Identity>,
}

impl LocalSandbox {
    /// A sandbox whose drivers run on `runtime`.
    pub fn new(runtime: Arc<dyn Runtime>, config: Config) -> Self {
        let random = || {
            let mut id = [0; 16];
            runtime.random(&mut id);
            id.iter().map(|byte| format!("{byte:02x}")).collect()
        };
        let shared = Shared {
            sandbox_id: config.id.unwrap_or_else(random),
            scanner: Scanner::new(Arc::clone(&runtime)),
            watches: Watches::new(Arc::clone(&runtime)),
            runtime,
            is_fixed_user: config.user.is_some(),
            user: config.user.unwrap_or_else(User::current),
            directory: config.directory,
            owns_descendants: config.owns_descendants,
            table: Mutex::default(),
            left: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }
}

impl Sandbox for LocalSandbox {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            streaming: true,
            stdin: true,
            stdin_end: true,
            tty: true,
            signals: true,
            users: !self.shared.is_fixed_user && user::is_root(),
            pause: true,
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
        Box::pin(async move {
            let wish = self.shared.wish(spec)?;
            self.shared.watches.watch(wish).await
        })
    }

    fn pause(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(pause::pause(&self.shared))
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async {
            pause::resume(&self.shared);
            Ok(())
        })
    }

    fn destroy(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async {
            let shared = &self.shared;
            shared.lock().destroyed = true;
            for handle in self.processes() {
                handle.command(Process::kill);
            }
            let end = shared.runtime.now() + DESTROY;
            until(&*shared.runtime, end, shared.ended()).await;
            let mut left = 0;
            if shared.owns_descendants {
                // Before the outputs are waited for, which they may hold.
                left = sweep::sweep_descendants(shared).await;
            }
            let last = shared.runtime.now() + LAST_OUTPUT;
            if until(&*shared.runtime, last, shared.emptied()).await.is_none() {
                // Whoever reads it does not, and a full log keeps its process here.
                for handle in self.processes() {
                    handle.command(|process| {
                        if process.wants_output() == 0 {
                            process.abandon_output();
                        }
                    });
                }
            }
            until(&*shared.runtime, end, shared.emptied()).await;
            // A background process without output was let go of when its leader had ended.
            if !shared.owns_descendants {
                left = sweep::sweep_sandbox(shared).await;
            }
            left = left.max(shared.lock().processes.len());
            if left == 0 { Ok(()) } else { Err(SandboxError::Left(left)) }
        })
    }

    fn processes(&self) -> Vec<Arc<Handle>> {
        self.shared.lock().processes.values().map(|entry| Arc::clone(&entry.handle)).collect()
    }

    fn adopt(&self, _: Adoption) -> Option<Arc<Handle>> {
        None
    }

    fn ending_with_server(&self) -> Vec<Arc<Handle>> {
        self.processes()
    }

    fn shut_down(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        self.destroy()
    }
}

impl fmt::Debug for LocalSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSandbox").field("user", &self.shared.user.name).finish_non_exhaustive()
    }
}

impl Shared {
    fn insert(&self, handle: &Arc<Handle>) -> Result<(), StartError> {
        let mut table = self.lock();
        if table.destroyed {
            return Err(StartError::Destroyed);
        }
        if table.paused.is_some() {
            return Err(StartError::Paused);
        }
        if table.processes.contains_key(handle.id()) {
            return Err(StartError::Broken("the id of the process is in use".into()));
        }
        let entry = Entry { handle: Arc::clone(handle), leader: None };
        table.processes.insert(handle.id().to_owned(), entry);
        Ok(())
    }

    /// What is to be watched, for whom.
    fn wish(&self, spec: WatchSpec) -> Result<Wish, WatchError> {
        let table = self.lock();
        if table.destroyed {
            return Err(WatchError::Destroyed);
        }
        if table.paused.is_some() {
            return Err(WatchError::Paused);
        }
        drop(table);
        let user = match spec.user {
            Some(name) if name != self.user.name => {
                if self.is_fixed_user {
                    let error = format!("this sandbox is watched as {}", self.user.name);
                    return Err(WatchError::BadUser(error));
                }
                User::named(&name).map_err(|error| WatchError::BadUser(error.to_string()))?
            }
            Some(_) | None => self.user.clone(),
        };
        if spec.path.is_empty() {
            return Err(WatchError::BadPath("it is empty".into()));
        }
        let path = resolve(&spec.path, &user, self.directory.as_deref())?;
        let WatchSpec { recursive, tells_existing, network, .. } = spec;
        Ok(Wish { path, user, recursive, tells_existing, network })
    }

    /// The driver lets go of a process.
    fn release(&self, handle: &Handle) {
        handle.release();
        self.lock().processes.remove(handle.id());
        self.left.notify_waiters();
    }

    /// All that runs here has ended, whether its output was read or not.
    async fn ended(&self) {
        let handles: Vec<_> = self.lock().processes.values().map(|entry| Arc::clone(&entry.handle)).collect();
        for handle in handles {
            let watcher = handle.watcher();
            poll_fn(|cx| watcher.poll_until(cx.waker(), |process| process.exit_status().is_some())).await;
        }
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
    let started = {
        let shared = Arc::clone(&shared);
        let runtime = Arc::clone(&shared.runtime);
        blocking(&*runtime, move || spawn::spawn(&shared, &spec)).await
    };
    let driver = match started {
        Some(Ok(started)) => Driver::new(&shared, &handle, started).await,
        Some(Err(NotStarted::Process(failure))) => {
            starting::fail(&*shared.runtime, &handle, &failure);
            shared.release(&handle);
            return starting.tell(&handle, Ok(()));
        }
        Some(Err(NotStarted::Error(error))) => Err(error),
        None => Err(StartError::Broken("the server is ending".into())),
    };
    match driver {
        Ok(driver) => {
            handle.drive(Waker::noop(), |process| process.handle_started(Some(driver.pid())));
            starting.tell(&handle, Ok(()));
            driver.await;
        }
        Err(error) => {
            shared.release(&handle);
            starting.tell(&handle, Err(error));
        }
    }
}
