//! `hangar attach`: a process of a server on this terminal.

use super::{
    FAILED, Failure,
    exec::ServerArguments,
    follow::{NOBODY_READS, show},
    link::{Link, LinkEvent, Target, say_gap},
    processes::{Tail, block_on},
    say,
    terminal::{self, Key, Raw},
};
use bytes::{Bytes, BytesMut};
use clap::Args;
use hangar::{TokioRuntime, signals::StopSignals};
use hangar_backends::{
    Runtime,
    runtime::{Deadline, until},
};
use hangar_core::{
    Time,
    process::{TtySize, signal_number},
    wire::process::{EndView, View},
};
use hangar_transports::{client::Client, plane::follow::Mode};
use std::{
    future::poll_fn,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

/// Input that waits for a connection, at the most.
const MAX_TYPED: usize = 64 * 1024;

/// How long a terminal has another size, so that the program in it sees that and draws again: two sizes at once would
/// be one.
const REDRAW: Duration = Duration::from_millis(150);

/// How long what was typed before the detach key may take to be sent.
const LAST_INPUT: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
pub(super) struct Attach {
    /// The sandbox, by name or id
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// The process, by name or id; `hangar ps` lists them
    #[arg(value_name = "PROCESS")]
    process: String,
    /// Begin with so many of the lines that it printed before, or with all that is kept [default: a screenful]
    #[arg(long, value_name = "N|all")]
    tail: Option<Tail>,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    server: ServerArguments,
}

/// How a process is attached to.
#[derive(Args, Clone, Debug)]
pub(super) struct How {
    /// The key that leaves the process running and ends this, where this terminal is given to it
    #[arg(long, value_name = "KEY", default_value = "ctrl-]")]
    detach_key: Key,
    #[command(flatten)]
    return_: Return,
}

/// How long a connection that broke is worth waiting for.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Return {
    /// When the connection breaks, try to come back for so long
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = super::seconds)]
    give_up: f64,
}

impl Return {
    pub(super) fn give_up(self) -> Duration {
        Duration::from_secs_f64(self.give_up)
    }
}

impl Attach {
    pub(super) fn main(self) -> Result<u8, Failure> {
        block_on(async move |tokio| {
            let client = self.server.client(&tokio)?;
            attach(client, tokio, self.sandbox, self.process, self.tail, self.how).await
        })
    }
}

/// Gives a process this terminal, or what is piped in and out. Its exit code is the process's, or 0 once it is let go of.
pub(super) async fn attach(
    client: Client,
    tokio: TokioRuntime,
    sandbox: String,
    process: String,
    tail: Option<Tail>,
    how: How,
) -> Result<u8, Failure> {
    let target = Target {
        sandbox,
        process,
        mode: Mode::Attach,
        begin: tail.map(Tail::begin).unwrap_or_default(),
        give_up: how.return_.give_up(),
    };
    let mut link = Link::new(client, tokio.clone(), target);
    let LinkEvent::Ready(view) = link.next().await? else {
        return Err(Failure::new("this is not how hangar answers: it is not ready"));
    };
    let mut session = Session::begin(link, &tokio, &view, how.detach_key)?;
    let over = session.follow().await;
    // The terminal is given back before anything else is said on it.
    session.raw = None;
    match over? {
        Step::Ended(end) => exit_code(&end),
        Step::NobodyReads => Ok(NOBODY_READS),
        Step::Detached => {
            say(format_args!("detached from {}, which goes on", view.id));
            Ok(0)
        }
    }
}

/// The exit code that the end of a process stands for, as shells have it.
fn exit_code(end: &EndView) -> Result<u8, Failure> {
    if end.reason != "process_exited" {
        return Err(Failure::new(format!("the stream was closed ({})", end.reason)));
    }
    match (end.exit_code, &end.signal) {
        // The kernel keeps eight bits of an exit code.
        (Some(code), _) => Ok(code.to_le_bytes()[0]),
        (None, Some(signal)) => Ok(signal_number(signal).map_or(FAILED, |number| 128 + number)),
        (None, None) => Err(Failure::new("the process has ended; how is not known")),
    }
}

/// Why a session is over.
enum Step {
    Ended(EndView),
    Detached,
    NobodyReads,
}

/// A process, and this terminal.
struct Session {
    link: Link,
    tokio: TokioRuntime,
    raw: Option<Raw>,
    key: Key,
    /// None once it has ended, or the key was pressed.
    input: Option<mpsc::Receiver<Bytes>>,
    /// What was typed and is not sent yet.
    typed: BytesMut,
    /// The end of the input is to be sent, and was.
    eof: (bool, bool),
    detached: bool,
    resized: Option<Signal>,
    /// When the terminal gets its own size, after another one.
    redraw: Option<Time>,
    deadline: Deadline,
}

impl Session {
    fn begin(link: Link, tokio: &TokioRuntime, view: &View, key: Key) -> Result<Self, Failure> {
        let mut session = Self {
            link,
            tokio: tokio.clone(),
            raw: None,
            key,
            input: None,
            typed: BytesMut::new(),
            eof: (false, false),
            detached: false,
            resized: None,
            redraw: None,
            deadline: Deadline::default(),
        };
        if view.finished_at_ms.is_some() {
            return Ok(session);
        }
        if terminal::is_terminal() && view.tty.is_some() {
            say(format_args!("attached to {}; {} leaves it running", view.id, session.key));
            session.take_terminal(view.tty)?;
        } else if terminal::is_terminal() {
            say(format_args!("attached to {}; Ctrl-D ends its input, Ctrl-C leaves it running", view.id));
        }
        session.input = Some(terminal::input()?);
        Ok(session)
    }

    fn take_terminal(&mut self, has: Option<TtySize>) -> Result<(), Failure> {
        let mut signals = StopSignals::listen(&self.tokio).map_err(Failure::new)?;
        self.tokio.spawn(Box::pin(async move {
            let stop = signals.next().await;
            terminal::restore();
            std::process::exit(stop.exit_code().into());
        }));
        self.resized = Some(signal(SignalKind::window_change()).map_err(Failure::new)?);
        self.raw = Some(Raw::begin()?);
        // Another size is reason enough to draw again.
        if terminal::size() == has {
            self.draw_again();
        } else {
            self.resize();
        }
        Ok(())
    }

    /// Makes a program that fills the screen fill it again: by another size first.
    fn draw_again(&mut self) {
        let (Some(TtySize { cols, rows }), Some(socket)) = (terminal::size(), self.link.socket()) else {
            return;
        };
        socket.resize(TtySize { cols: if cols > 1 { cols - 1 } else { 2 }, rows });
        self.redraw = Some(self.tokio.now() + REDRAW);
    }

    fn resize(&mut self) {
        if let (Some(size), Some(socket)) = (terminal::size(), self.link.socket()) {
            socket.resize(size);
        }
    }

    async fn follow(&mut self) -> Result<Step, Failure> {
        loop {
            let event = poll_fn(|cx| self.poll(cx)).await?;
            let Some(event) = event else {
                self.send_last().await;
                return Ok(Step::Detached);
            };
            match event {
                LinkEvent::Output { channel, bytes } => {
                    terminal::look(&bytes);
                    if !show(channel, [&bytes[..]])? {
                        return Ok(Step::NobodyReads);
                    }
                }
                LinkEvent::Gap(gap) => {
                    say_gap(&gap);
                    if self.raw.is_some() {
                        self.draw_again();
                    }
                }
                LinkEvent::Ready(_) => {
                    // Whatever of this was sent on the connection that broke may not have come.
                    self.eof.1 = false;
                    if self.raw.is_some() {
                        self.resize();
                    }
                }
                LinkEvent::End(end) => return Ok(Step::Ended(end)),
            }
        }
    }

    /// What the process tells; None once it is to be let go of.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<LinkEvent>, Failure>> {
        loop {
            self.read_input(cx);
            if self.detached {
                return Poll::Ready(Ok(None));
            }
            self.look_at_size(cx);
            self.send();
            match self.link.poll_next(cx) {
                Poll::Ready(event) => return Poll::Ready(event.map(Some)),
                Poll::Pending => {
                    let takes = self.link.socket().is_some_and(|socket| !socket.is_full());
                    let waits = !self.typed.is_empty() || self.eof == (true, false);
                    if !(takes && waits) {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    fn read_input(&mut self, cx: &mut Context<'_>) {
        while self.typed.len() < MAX_TYPED
            && let Some(input) = &mut self.input
            && let Poll::Ready(piece) = input.poll_recv(cx)
        {
            let Some(piece) = piece else {
                self.input = None;
                // A terminal that is gone is no wish to end anything.
                self.detached = self.raw.is_some();
                self.eof.0 = true;
                return;
            };
            // What is piped in may hold any byte.
            let key = self.raw.as_ref().and_then(|_| self.key.find(&piece));
            self.typed.extend_from_slice(&piece[..key.unwrap_or(piece.len())]);
            if key.is_some() {
                self.input = None;
                self.detached = true;
            }
        }
    }

    fn look_at_size(&mut self, cx: &mut Context<'_>) {
        let mut resized = false;
        while let Some(signal) = &mut self.resized
            && signal.poll_recv(cx).is_ready()
        {
            resized = true;
        }
        if self.redraw.is_some() && self.deadline.poll(&self.tokio, self.redraw, cx).is_ready() {
            self.redraw = None;
            resized = true;
        }
        if resized {
            self.resize();
        }
    }

    /// Sends what was typed, as far as it goes.
    fn send(&mut self) {
        let Some(socket) = self.link.socket() else { return };
        if !self.typed.is_empty() && !socket.is_full() {
            socket.input(self.typed.split().freeze());
        }
        if self.typed.is_empty() && self.eof == (true, false) {
            socket.eof();
            self.eof.1 = true;
        }
    }

    /// Sends what was typed before the detach key, for as long as that is worth waiting for, and the terminal's own size
    /// where it has another one just now.
    async fn send_last(&mut self) {
        if self.redraw.take().is_some() {
            self.resize();
        }
        self.send();
        let Some(socket) = self.link.socket() else { return };
        let at = self.tokio.now() + LAST_INPUT;
        // Whether it went or not, it is let go of.
        drop(until(&self.tokio, at, poll_fn(|cx| socket.poll_flush(cx))).await);
    }
}
