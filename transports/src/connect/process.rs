//! The methods of `process.Process`: to start, to follow, to list, to signal.

use super::{
    Body, Daemon, answer,
    call::Call,
    ended,
    head::{Extensions, Head, Retention},
    input::MAX_WAITING,
    receipts::Receipts,
    stream::{Opening, ProcessStream},
};
use hangar_backends::{
    Handle,
    sandbox::{Command, Spec, StartError, Stdin},
};
use hangar_core::{
    audience::Hold,
    log::{self, CursorAhead, Log, Reader},
    process::{self, Keep, Process, Signal, Target, TtySize},
    subscription,
    wire::{
        connect::{Code, RpcError},
        envd::process::{
            ConnectRequest, Empty, ListResponse, ProcessConfig, ProcessInfo, ProcessSelector, Pty, Selector,
            SendSignalRequest, StartRequest, UpdateRequest, selected,
        },
    },
};
use hyper::Response;
use std::{
    sync::{
        self, Arc, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    task::Waker,
};
use tokio::sync::{Mutex, oneshot};

/// Bytes that may wait between a process and the slowest of those that it waits for.
const WINDOW: usize = 256 * 1024;

/// The most that a client may have kept.
const MAX_KEPT: u64 = 64 * 1024 * 1024;

/// The most arguments of a command: none that is longer starts, whatever is in it.
const MAX_ARGUMENTS: usize = 256 * 1024;

/// The first number of those that never ran: above what Linux gives to processes (2^22).
const NEVER_RAN: u32 = 1 << 30;

/// A process that was started here.
pub(super) struct Entry {
    pub(super) pid: u32,
    tag: Option<String>,
    /// While it runs: only then it is shown, and it may be as long as a message.
    config: sync::Mutex<Option<ProcessConfig>>,
    pub(super) handle: Arc<Handle>,
    pub(super) is_tty: bool,
    /// Held by who writes to it: what two write is not mixed.
    pub(super) input: Mutex<()>,
    /// Whether it waits for those who come later.
    holds: Hold,
    /// What its client has, where it waits for that.
    pub(super) receipts: Option<Arc<Receipts>>,
}

impl Daemon {
    /// The process that is meant.
    pub(super) fn find(&self, process: Option<ProcessSelector>) -> Result<Arc<Entry>, RpcError> {
        let selector = selected(process)?;
        let found = self.roster().find(&selector, self.runtime.now()).map(Arc::clone);
        found.ok_or_else(|| {
            let message = match &selector {
                Selector::Pid(pid) => format!("no process with pid {pid}"),
                Selector::Tag(tag) => format!("no process with tag {tag:?}"),
                Selector::Both(pid, tag) => format!("no process with pid {pid} and tag {tag:?}"),
            };
            RpcError::new(Code::NotFound, message)
        })
    }

    /// The process that is meant, if it has not ended: one that has is there for who follows it, and for nobody else.
    pub(super) fn find_running(&self, process: Option<ProcessSelector>) -> Result<Arc<Entry>, RpcError> {
        let entry = self.find(process)?;
        if entry.handle.look(Process::is_over) { Err(entry.ended()) } else { Ok(entry) }
    }
}

impl Entry {
    pub(super) fn config(&self) -> MutexGuard<'_, Option<ProcessConfig>> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self) -> RpcError {
        RpcError::new(Code::NotFound, format!("the process with pid {} has ended", self.pid))
    }
}

/// Starts a process, and follows it.
pub(super) async fn start(
    call: &Call<'_>,
    head: &Head,
    request: StartRequest,
) -> Result<Response<Body>, RpcError> {
    let daemon = call.daemon;
    if daemon.shutting_down.load(Ordering::SeqCst) {
        return Err(RpcError::new(Code::Unavailable, "the daemon is shutting down"));
    }
    let StartRequest { process, pty, tag, stdin } = request;
    let config = process.ok_or_else(|| bad("process: must be set"))?;
    if config.args.len() > MAX_ARGUMENTS {
        return Err(bad(format!("process.args: at most {MAX_ARGUMENTS} are taken")));
    }
    let tty = pty.map(size).transpose()?;
    let stdin = stdin.unwrap_or(true) || tty.is_some();
    let followed = followed(daemon, head, tty)?;
    let retention = head.extensions.retention;
    let hold = if retention == Some(Retention::UntilRead) { Hold::Always } else { holds(retention) };
    let spec = spec(daemon, head, &config, stdin, followed);
    let tag = tag.filter(|tag| !tag.is_empty());
    let starting = Starting { tag, config, is_tty: tty.is_some(), extensions: head.extensions };
    let (tell, told) = oneshot::channel();
    daemon.runtime.spawn(Box::pin(starting.start(Arc::clone(daemon), spec, tell)));
    let gone = |_| RpcError::new(Code::Unavailable, "the daemon is shutting down");
    let entry = call.within(head.deadline, async { told.await.map_err(gone)? }).await?;
    follow(call, head, &entry.0, hold, |log| Ok(Reader::oldest_kept(log)))
}

/// Whether a process waits for those who follow it, but for the one that started it.
const fn holds(retention: Option<Retention>) -> Hold {
    if retention.is_some() { Hold::Never } else { Hold::WhileMoving }
}

/// A process that is being started. A task of its own does it: a client that leaves meanwhile leaves a process that is
/// known, as one that leaves later does.
struct Starting {
    tag: Option<String>,
    config: ProcessConfig,
    is_tty: bool,
    extensions: Extensions,
}

impl Starting {
    async fn start(self, daemon: Arc<Daemon>, spec: Spec, tell: oneshot::Sender<Result<Untold, RpcError>>) {
        let Self { tag, config, is_tty, extensions } = self;
        let handle = match daemon.sandbox.start(spec).await {
            Ok(handle) => handle,
            // Nobody may wait for it any more.
            Err(error) => return drop(tell.send(Err(start_error(error)))),
        };
        let pid = handle.look(Process::pid);
        let config = sync::Mutex::new(pid.map(|_| config));
        let pid = pid.unwrap_or_else(never_ran);
        let input = Mutex::default();
        let is_acknowledged = matches!(extensions.retention, Some(Retention::UntilAcknowledged { .. }));
        let receipts = is_acknowledged.then(|| Receipts::new(&handle, &daemon.runtime));
        let holds = holds(extensions.retention);
        let entry = Arc::new(Entry { pid, tag: tag.clone(), config, handle, is_tty, input, holds, receipts });
        let is_logged = is_acknowledged || extensions.log.is_some_and(|bytes| bytes > 0);
        let key = daemon.roster().insert(pid, tag, is_logged, Arc::clone(&entry));
        daemon.runtime.spawn(Box::pin(ended::await_end(Arc::clone(&daemon), Arc::clone(&entry), key)));
        drop(tell.send(Ok(Untold(entry))));
    }
}

/// A process whose first reader is on its way. If that does not come, nobody is waited for.
struct Untold(Arc<Entry>);

impl Drop for Untold {
    fn drop(&mut self) {
        self.0.handle.command(Process::stop_awaiting);
    }
}

/// Follows a process.
pub(super) fn connect(
    call: &Call<'_>,
    head: &Head,
    request: ConnectRequest,
) -> Result<Response<Body>, RpcError> {
    let entry = call.daemon.find(request.process)?;
    let since = head.extensions.since;
    follow(call, head, &entry, entry.holds, |log| match since {
        None => Ok(Reader::newest(log)),
        Some(since) => Reader::at_offset(log, since),
    })
}

fn follow(
    call: &Call<'_>,
    head: &Head,
    entry: &Arc<Entry>,
    hold: Hold,
    begin: impl FnOnce(&mut Log) -> Result<Reader, CursorAhead>,
) -> Result<Response<Body>, RpcError> {
    let tells_exit = head.extensions.is_known();
    let config =
        subscription::Config { keep_alive: head.keep_alive, deadline: head.deadline, hold, tells_exit };
    let now = call.daemon.runtime.now();
    let reading = entry.handle.reader();
    let subscription = reading.read(Waker::noop(), |process| {
        let reader = begin(process.log_mut())?;
        Ok(subscription::Subscription::new(config, process, reader, now))
    });
    let subscription =
        subscription.map_err(|error: CursorAhead| RpcError::new(Code::OutOfRange, error.to_string()))?;
    let opening = Opening {
        pid: entry.pid,
        reading,
        subscription,
        receipts: entry.receipts.as_ref().map(Receipts::stream),
        codec: head.codec,
        extended: tells_exit,
        deadline: head.deadline,
        connection: Arc::clone(&call.connection),
    };
    let stream = ProcessStream::open(call.daemon, opening);
    Ok(answer::stream(head.codec, Body::Process(Box::new(stream))))
}

fn spec(daemon: &Daemon, head: &Head, config: &ProcessConfig, stdin: bool, process: process::Config) -> Spec {
    let settings = daemon.settings();
    let mut env = settings.variables.clone();
    env.extend(config.envs.clone());
    Spec {
        id: daemon.new_id(),
        tag: None,
        command: Command::Argv([config.cmd.clone()].into_iter().chain(config.args.iter().cloned()).collect()),
        cwd: config.cwd.clone().filter(|cwd| !cwd.is_empty()).or_else(|| settings.directory.clone()),
        env,
        user: head.user.clone().or_else(|| settings.user.clone()),
        stdin: if stdin { Stdin::Open } else { Stdin::None },
        process,
    }
}

/// How a process is followed and ended. Without a word of hangar's as envd does it: nothing is kept of what was read, its
/// output is awaited to its end, and its time ends the process alone.
fn followed(daemon: &Daemon, head: &Head, tty: Option<TtySize>) -> Result<process::Config, RpcError> {
    let Extensions { retention, log, since, watch: _ } = head.extensions;
    if since.is_some() {
        return Err(bad("hangar-since: a process that is being started has no output yet"));
    }
    let ring = match retention {
        Some(Retention::Ring { bytes } | Retention::UntilAcknowledged { bytes }) => bytes as u64,
        Some(Retention::UntilRead) | None => WINDOW as u64,
    };
    let kept = log.unwrap_or(0);
    let is_acknowledged = matches!(retention, Some(Retention::UntilAcknowledged { .. }));
    if is_acknowledged && log.is_some() {
        return Err(bad("hangar-log: with `until-acknowledged` what is acknowledged is not kept"));
    }
    if kept.max(ring) > MAX_KEPT {
        return Err(bad(format!("hangar-log, hangar-retention: at most {MAX_KEPT} bytes are kept")));
    }
    let is_known = head.extensions.is_known();
    let bytes = usize::try_from(ring.max(kept)).unwrap_or(usize::MAX);
    Ok(process::Config {
        retention: log::Retention::Ring { bytes },
        replay: if is_acknowledged { u64::MAX } else { kept },
        keep: if kept > 0 { Keep::Retained } else { Keep::Unread },
        awaits_reader: true,
        timeout: head.deadline.map(|deadline| deadline.since(daemon.runtime.now())),
        timeout_ends: if is_known { Target::Group } else { Target::Leader },
        drain: None,
        max_stdin: MAX_WAITING,
        tty,
        ..process::Config::default()
    })
}

fn size(pty: Pty) -> Result<TtySize, RpcError> {
    let size = pty.size.unwrap_or_default();
    let side = |name, value: u32| {
        u16::try_from(value).map_err(|_| bad(format!("pty.size.{name}: {value} is more than {}", u16::MAX)))
    };
    Ok(TtySize { cols: side("cols", size.cols)?, rows: side("rows", size.rows)? })
}

/// A number for what could not be started: whoever follows it needs one.
fn never_ran() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEVER_RAN | (NEXT.fetch_add(1, Ordering::Relaxed) & (NEVER_RAN - 1))
}

/// What runs.
pub(super) fn list(daemon: &Daemon) -> ListResponse {
    let info = |entry: &Arc<Entry>| {
        let config = Some(entry.config().clone()?);
        Some(ProcessInfo { config, pid: entry.pid, tag: entry.tag.clone() })
    };
    ListResponse { processes: daemon.roster().running().filter_map(info).collect() }
}

/// Gives a terminal another size.
pub(super) fn update(daemon: &Daemon, request: UpdateRequest) -> Result<Empty, RpcError> {
    let entry = daemon.find_running(request.process)?;
    let Some(pty) = request.pty else { return Ok(Empty {}) };
    let size = size(pty)?;
    if !entry.is_tty {
        return Err(RpcError::new(Code::FailedPrecondition, "pty: the process has no terminal"));
    }
    entry.handle.command(|process| process.resize(size));
    Ok(Empty {})
}

/// Sends a signal.
pub(super) fn signal(daemon: &Daemon, request: SendSignalRequest) -> Result<Empty, RpcError> {
    let SendSignalRequest { end, group, .. } = request;
    let signal = if end { Signal::TERM } else { request.checked_signal()? };
    let entry = daemon.find(request.process)?;
    let sent = entry.handle.command(|process| match (group, process.is_running()) {
        (..) if end && !process.is_over() => {
            process.kill();
            true
        }
        // Also what is left of a group whose leader is gone.
        (true, _) if signal == Signal::KILL && !process.is_over() => {
            process.kill_now();
            true
        }
        (_, false) => false,
        (group, true) => {
            process.signal(signal, if group { Target::Group } else { Target::Leader });
            true
        }
    });
    sent.then_some(Empty {}).ok_or_else(|| entry.ended())
}

fn start_error(error: StartError) -> RpcError {
    let code = match &error {
        StartError::BadCwd(_) | StartError::TooLong { .. } => Code::InvalidArgument,
        StartError::BadUser(_) => Code::Unauthenticated,
        StartError::ForbiddenUser(_) => Code::PermissionDenied,
        StartError::Unsupported { .. } => Code::Unimplemented,
        StartError::Exhausted(_) => Code::ResourceExhausted,
        StartError::Paused => Code::FailedPrecondition,
        StartError::Destroyed => Code::Unavailable,
        StartError::Broken(_) => Code::Internal,
    };
    // By the names of the request's own fields.
    let message = match &error {
        StartError::BadCwd(why) => format!("process.cwd: {why}"),
        StartError::TooLong { field } => {
            let field = if *field == "env" { "process.envs" } else { "process.cmd" };
            StartError::TooLong { field }.to_string()
        }
        StartError::BadUser(_)
        | StartError::ForbiddenUser(_)
        | StartError::Unsupported { .. }
        | StartError::Exhausted(_)
        | StartError::Paused
        | StartError::Destroyed
        | StartError::Broken(_) => error.to_string(),
    };
    RpcError::new(code, message)
}

fn bad(message: impl Into<std::borrow::Cow<'static, str>>) -> RpcError {
    RpcError::new(Code::InvalidArgument, message)
}
