//! One command for one client: started, followed, and told how it ended.

use super::{
    Plane,
    streams::{EntryParts, Open},
    tokens::Caller,
};
use crate::{ApiError, http::Connection, metrics::Kind};
use bytes::Bytes;
use hangar_backends::{
    Handle, Sandbox,
    handle::Reading,
    runtime::Deadline,
    sandbox::{Command, Spec, Stdin},
};
use hangar_core::{
    Time,
    exec::{self, Encoding, Exec, ExecResult, Output, Streaming},
    log::{Channel, Retention},
    process,
    text::Text,
};
use std::{
    collections::BTreeMap,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// Bytes of output that may wait for a slow or paced reader before the command is slowed.
const WAITING: usize = 256 * 1024;

/// Bytes at the end of each output that a result has.
const TAIL: usize = 256 * 1024;

/// What a client asks for.
#[derive(Clone, Debug)]
pub struct ExecCall {
    /// A line for the shell.
    pub command: String,
    /// Where.
    pub cwd: Option<String>,
    /// Variables beyond those of the sandbox.
    pub env: BTreeMap<String, String>,
    /// As whom.
    pub user: Option<String>,
    /// It is ended after this; never for None.
    pub timeout: Option<Duration>,
    /// What it gets to read; without it its standard input is at its end.
    pub stdin: Option<Bytes>,
    /// How its output is written.
    pub encoding: Encoding,
}

/// How its output is to be given out.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// As it prints, at the pace and up to the cap of the plane's settings, as one of the token's open streams.
    Streamed {
        /// The connection that carries it.
        connection: Option<Arc<Connection>>,
    },
    /// As it prints, without pace or cap: for a terminal on this machine.
    Unlimited,
    /// At the end, in the result.
    AtTheEnd,
}

/// A piece of output, or the end.
#[derive(Debug)]
pub enum Event {
    /// Output.
    Output {
        /// Where it was printed.
        channel: Channel,
        /// What was printed.
        text: Text,
    },
    /// The result: nothing follows.
    Result(Box<ExecResult>),
}

/// A running command as its client follows it.
///
/// Dropped before its result, it is a client that left: the command is killed, unless the stream was to end for a
/// reason that lets it run on.
#[derive(Debug)]
pub struct ExecStream {
    plane: Arc<Plane>,
    exec: Exec,
    reading: Reading,
    open: Open,
    deadline: Deadline,
    started: Time,
    encoding: Encoding,
    /// The sandbox tells of output before its command has ended.
    is_told_early: bool,
}

impl Plane {
    /// Starts a command.
    pub async fn exec(
        self: &Arc<Self>,
        caller: &Caller,
        reference: &str,
        call: ExecCall,
        delivery: Delivery,
    ) -> Result<ExecStream, ApiError> {
        self.recheck(caller)?;
        let entry = self.sandboxes.usable(caller, reference)?;
        if self.is_shutting_down() {
            return Err(ApiError::shutting_down());
        }
        if call.user.as_ref().is_some_and(|user| user.contains(':')) {
            return Err(ApiError::bad_field("user", "bad_user", "user: no name has a colon"));
        }
        if call.user.is_some() && !caller.is_admin() {
            return Err(ApiError::forbidden("user: only an admin token may choose whom a command runs as"));
        }
        let (lease, connection) = match &delivery {
            Delivery::Streamed { connection } => {
                (Some(self.streams.lease(caller.token())?), connection.clone())
            }
            Delivery::Unlimited | Delivery::AtTheEnd => (None, None),
        };
        let stream = match delivery {
            Delivery::Streamed { .. } => Some(Streaming {
                bytes_per_second: self.settings.stream_bytes_per_second,
                max_bytes: self.settings.stream_max_bytes,
            }),
            Delivery::Unlimited => Some(Streaming { bytes_per_second: u64::MAX, max_bytes: u64::MAX }),
            Delivery::AtTheEnd => None,
        };
        let started = self.runtime.now();
        let id = self.new_id();
        let span = tracing::info_span!(
            "stream exec",
            stream.id = id,
            sandbox = entry.name(),
            bytes = tracing::field::Empty,
            messages = tracing::field::Empty,
            reason = tracing::field::Empty,
        );
        let handle = self.start(Arc::clone(entry.sandbox()), spec(id.clone(), &call)).await?;
        let config = exec::Config { encoding: call.encoding, stream, tail: TAIL };
        let exec = handle.command(|process| Exec::new(config, process, started));
        let parts = EntryParts {
            id,
            token: caller.token().to_owned(),
            sandbox: entry.id().to_owned(),
            command: Some(Arc::clone(&handle)),
            place: None,
            connection,
        };
        let kind = lease.is_some().then_some(Kind::Exec);
        let open = self.streams.open(kind, lease, parts, span);
        let stream = ExecStream {
            plane: Arc::clone(self),
            exec,
            reading: handle.reader(),
            open,
            deadline: Deadline::default(),
            started,
            encoding: call.encoding,
            is_told_early: entry.sandbox().capabilities().streaming,
        };
        self.close_if_late(&stream.open, caller, &entry);
        Ok(stream)
    }

    /// Starts a command in a task of its own: a client that leaves half-way must not leave a process behind that
    /// nobody knows of.
    pub(super) async fn start(&self, sandbox: Arc<dyn Sandbox>, spec: Spec) -> Result<Arc<Handle>, ApiError> {
        let (done, started) = tokio::sync::oneshot::channel();
        self.runtime.spawn(Box::pin(async move {
            let started = sandbox.start(spec).await.map(|handle| Unclaimed(Some(handle)));
            // Where nobody waits any more, dropping it ends it.
            drop(done.send(started));
        }));
        let mut unclaimed = started.await.map_err(|_| ApiError::shutting_down())??;
        unclaimed.0.take().ok_or_else(ApiError::internal)
    }

    /// Runs a command and waits for its result. It runs on when nobody waits any more.
    pub async fn exec_to_end(
        self: &Arc<Self>,
        caller: &Caller,
        reference: &str,
        call: ExecCall,
    ) -> Result<ExecResult, ApiError> {
        let (plane, caller, reference) = (Arc::clone(self), caller.clone(), reference.to_owned());
        self.to_its_end(async move {
            let mut stream = plane.exec(&caller, &reference, call, Delivery::AtTheEnd).await?;
            loop {
                if let Event::Result(result) = std::future::poll_fn(|cx| stream.poll(cx)).await {
                    return Ok(*result);
                }
            }
        })
        .await
    }
}

/// A process that was started and that nobody has taken over.
struct Unclaimed(Option<Arc<Handle>>);

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            handle.command(|process| {
                process.abandon_output();
                process.kill();
            });
        }
    }
}

fn spec(id: String, call: &ExecCall) -> Spec {
    Spec {
        id,
        tag: None,
        command: Command::Shell(call.command.clone()),
        cwd: call.cwd.clone(),
        env: call.env.clone(),
        user: call.user.clone(),
        stdin: call.stdin.clone().map_or(Stdin::None, Stdin::Given),
        process: process::Config {
            retention: Retention::UntilRead { bytes: WAITING },
            timeout: call.timeout,
            ..process::Config::default()
        },
    }
}

impl ExecStream {
    /// The next piece of output, or the end.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        loop {
            let now = self.plane.runtime.now();
            if let Some(reason) = self.open.asked_to_close(cx.waker()) {
                self.exec.close(reason);
            }
            let output = self.reading.read(cx.waker(), |process| self.exec.poll_output(process, now));
            match output {
                Output::Transmit { channel, text } => {
                    self.open.sent(text.len(), now.since(self.started));
                    return Poll::Ready(Event::Output { channel, text });
                }
                Output::Closed { reason, mut result } => {
                    result.streamed &= self.is_told_early;
                    self.open.ended(reason);
                    return Poll::Ready(Event::Result(result));
                }
                Output::Wait(at) => {
                    if self.deadline.poll(&*self.plane.runtime, at, cx).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// The plane it belongs to.
    pub const fn plane(&self) -> &Arc<Plane> {
        &self.plane
    }

    /// How its output is written.
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Its process, for whoever commands it.
    pub const fn handle(&self) -> &Arc<Handle> {
        self.reading.handle()
    }
}

impl Drop for ExecStream {
    fn drop(&mut self) {
        let kill = self.open.reason().kills_exec();
        self.reading.handle().command(|process| {
            process.abandon_output();
            if kill {
                process.kill();
            }
        });
    }
}
