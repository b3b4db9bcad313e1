//! A process of a server that has this terminal, or what is piped in and out.

use super::{
    Failure,
    follow::show,
    link::{Link, LinkEvent, say_gap},
    say,
    terminal::{self, Key, Raw},
};
use bytes::{Bytes, BytesMut};
use hangar::{TokioRuntime, signals::StopSignals};
use hangar_backends::{
    Runtime,
    runtime::{Deadline, until},
};
use hangar_core::{
    Time,
    process::TtySize,
    wire::process::{EndView, View},
};
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

/// SIGCONT.
const CONT: i32 = rustix::process::Signal::CONT.as_raw();

/// How long what was typed before the detach key may take to be sent.
const LAST_INPUT: Duration = Duration::from_secs(1);

/// Why a session is over.
pub(super) enum Over {
    Ended(EndView),
    Detached,
    NobodyReads,
}

/// A process, and this terminal.
pub(super) struct Session {
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
    /// It was stopped, and a shell let it go on.
    continued: Option<Signal>,
    /// When the terminal gets its own size, after another one.
    redraw: Option<Time>,
    deadline: Deadline,
}

impl Session {
    /// On a link that is ready. With `draw_again` a program that fills the screen is made to do so.
    pub(super) fn begin(
        link: Link,
        tokio: &TokioRuntime,
        view: &View,
        key: Key,
        draw_again: bool,
    ) -> Result<Self, Failure> {
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
            continued: None,
            redraw: None,
            deadline: Deadline::default(),
        };
        if view.finished_at_ms.is_some() {
            return Ok(session);
        }
        if terminal::is_terminal() && view.tty.is_some() {
            say(format_args!("attached to {}; {} leaves it running", view.id, session.key));
            session.take_terminal()?;
            // Another size is reason enough to draw.
            if draw_again && terminal::size() == view.tty {
                session.draw_again();
            } else {
                session.resize();
            }
        } else if terminal::is_terminal() {
            say(format_args!("attached to {}; Ctrl-D ends its input, Ctrl-C leaves it running", view.id));
        }
        session.input = Some(terminal::input()?);
        Ok(session)
    }

    fn take_terminal(&mut self) -> Result<(), Failure> {
        let mut signals = StopSignals::listen(&self.tokio).map_err(Failure::new)?;
        self.tokio.spawn(Box::pin(async move {
            let stop = signals.next().await;
            terminal::restore();
            std::process::exit(stop.exit_code().into());
        }));
        self.resized = Some(signal(SignalKind::window_change()).map_err(Failure::new)?);
        self.continued = Some(signal(SignalKind::from_raw(CONT)).map_err(Failure::new)?);
        self.raw = Some(Raw::begin()?);
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

    pub(super) async fn follow(&mut self) -> Result<Over, Failure> {
        loop {
            let event = poll_fn(|cx| self.poll(cx)).await?;
            let Some(event) = event else {
                self.send_last().await;
                return Ok(Over::Detached);
            };
            match event {
                LinkEvent::Output { channel, bytes } => {
                    terminal::look(&bytes);
                    if !show(channel, [&bytes[..]])? {
                        return Ok(Over::NobodyReads);
                    }
                }
                LinkEvent::Gap(gap) => {
                    say_gap(&gap);
                    if self.raw.is_some() {
                        self.draw_again();
                    }
                }
                LinkEvent::Ready(process) => {
                    // It may not have come on the connection that broke. A terminal is not sent a second one: there it is
                    // a character like others, and would end what reads next.
                    self.eof.1 &= process.tty.is_some();
                    if self.raw.is_some() {
                        self.resize();
                    }
                }
                LinkEvent::End(end) => return Ok(Over::Ended(end)),
            }
        }
    }

    /// What the process tells; None once it is to be let go of.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<LinkEvent>, Failure>> {
        loop {
            let was_full = self.read_input(cx);
            if self.detached {
                return Poll::Ready(Ok(None));
            }
            self.look_at_terminal(cx);
            self.send();
            match self.link.poll_next(cx) {
                Poll::Ready(event) => return Poll::Ready(event.map(Some)),
                Poll::Pending => {
                    let takes = self.link.socket().is_some_and(|socket| !socket.is_full());
                    let waits = !self.typed.is_empty() || self.eof == (true, false);
                    // What did not fit before does now, and nobody was asked to say so.
                    let has_room = was_full && self.typed.len() < MAX_TYPED;
                    if !(takes && waits || has_room) {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// Takes what is typed. Whether it stopped because that waits already, and there may be more.
    fn read_input(&mut self, cx: &mut Context<'_>) -> bool {
        while self.typed.len() < MAX_TYPED
            && let Some(input) = &mut self.input
            && let Poll::Ready(piece) = input.poll_recv(cx)
        {
            let Some(piece) = piece else {
                self.input = None;
                // A terminal that is gone is no wish to end anything.
                self.detached = self.raw.is_some();
                self.eof.0 = true;
                return false;
            };
            // What is piped in may hold any byte.
            let key = self.raw.as_ref().and_then(|_| self.key.find(&piece));
            self.typed.extend_from_slice(&piece[..key.unwrap_or(piece.len())]);
            if key.is_some() {
                self.input = None;
                self.detached = true;
            }
        }
        self.input.is_some() && self.typed.len() >= MAX_TYPED
    }

    fn look_at_terminal(&mut self, cx: &mut Context<'_>) {
        if let (Some(signal), Some(raw)) = (&mut self.continued, &self.raw)
            && signal.poll_recv(cx).is_ready()
        {
            raw.again();
            self.draw_again();
        }
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
