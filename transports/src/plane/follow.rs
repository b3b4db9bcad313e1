//! A background process as one client follows it, and the tickets that let a WebSocket do so.

use super::{
    Plane, lock,
    processes::Background,
    streams::{EntryParts, Open, Place},
    tokens::{self, Caller, Standing},
};
use crate::{ApiError, metrics::Kind, server::Connection};
use hangar_backends::{
    Runtime,
    handle::Reading,
    runtime::{Deadline, sleep_until, until},
};
use hangar_core::{
    Close, Time,
    attach::{self, Attach, Output},
    exec::Encoding,
    log::{CursorAhead, FRAME_MAX, Frame, Gap, Log, Reader},
    process::{Exit, Process, TtySize},
    text::Text,
    tickets::Tickets,
};
use hyper::StatusCode;
use std::{
    sync::{Arc, Weak, atomic::AtomicU64},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// How long a ticket can be used.
pub const TICKET_TTL: Duration = Duration::from_secs(60);

/// Tickets of one token that are out at once; past it its oldest are dropped.
const MAX_TICKETS: usize = 256;

/// A client that takes nothing for this long, while what it would get next is gone, is given up.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How often those that follow are looked at for that.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Lines of a screenful at the least.
const SCREEN_LINES: u64 = 24;

/// Bytes of a screenful at the most.
const SCREEN_BYTES: usize = 64 * 1024;

/// Where a client begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Start {
    /// At the oldest output that is kept.
    Oldest,
    /// At a byte.
    Offset(u64),
    /// After a frame.
    AfterSeq(u64),
    /// With the last lines.
    Lines(u64),
    /// With what fills a terminal of this size, or of the usual one.
    Screen(Option<TtySize>),
}

impl Start {
    fn reader(self, log: &mut Log) -> Result<Reader, CursorAhead> {
        match self {
            Self::Oldest => Ok(Reader::oldest(log)),
            Self::Offset(offset) => Reader::at_offset(log, offset),
            Self::AfterSeq(seq) => Reader::after_seq(log, seq),
            Self::Lines(lines) => Ok(Reader::tail(log, lines, usize::MAX)),
            Self::Screen(size) => {
                let rows = size.map_or(0, |size| u64::from(size.rows));
                Ok(Reader::tail(log, rows.max(SCREEN_LINES), SCREEN_BYTES))
            }
        }
    }
}

impl From<CursorAhead> for ApiError {
    fn from(error: CursorAhead) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "cursor_ahead", error.to_string())
    }
}

/// What a client that follows gets next.
#[derive(Debug)]
pub enum Event {
    /// Output, as it was printed.
    Frame(Frame),
    /// Output, as text.
    Text {
        /// Where it was printed: `stdout`, `stderr` or `tty`.
        channel: &'static str,
        /// What was printed.
        text: Text,
        /// The offset to go on from.
        next: u64,
    },
    /// Output that is gone.
    Gap(Gap),
    /// Why it ends: nothing follows.
    Closed {
        /// Why.
        reason: Close,
        /// How the process ended, where that is why.
        exit: Option<Exit>,
        /// Somebody still held its output open when the time to wait for that was over.
        drain_timed_out: bool,
    },
}

/// A background process as one client follows it. Dropped, it is a client that left: to the process that is nothing.
#[derive(Debug)]
pub struct FollowStream {
    plane: Arc<Plane>,
    background: Arc<Background>,
    attach: Attach,
    reading: Reading,
    open: Open,
    deadline: Deadline,
    started: Time,
}

/// What a ticket lets its holder do.
#[derive(Clone, Debug)]
pub struct Ticket {
    /// The token that it was made with.
    caller: Caller,
    /// It does not keep the process: one that is not listed any more is gone.
    background: Weak<Background>,
    mode: Mode,
}

/// Whether a client may do something beside reading.
#[derive(Clone, Copy, Debug, serde::Deserialize, Eq, PartialEq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It may not.
    Logs,
    /// It may write input, resize the terminal and send signals.
    Attach,
}

/// A ticket as its holder gets it.
#[derive(Clone, Debug)]
pub struct Minted {
    /// The secret.
    pub token: String,
    /// Until when it can be used: milliseconds since 1970.
    pub expires_at_ms: i64,
}

impl Ticket {
    /// What its holder may do.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Who made it.
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }
}

impl Plane {
    /// A ticket for a WebSocket.
    pub fn mint(
        &self,
        caller: &Caller,
        background: &Arc<Background>,
        mode: Mode,
    ) -> Result<Minted, ApiError> {
        if mode == Mode::Logs && background.is_logging_disabled() {
            return Err(logging_disabled());
        }
        let mut random = [0; 32];
        self.runtime.random(&mut random);
        let token = tokens::ticket(&random);
        let ticket = Ticket { caller: caller.clone(), background: Arc::downgrade(background), mode };
        lock(&self.tickets)
            .entry(caller.token().to_owned())
            .or_insert_with(|| Tickets::new(TICKET_TTL, MAX_TICKETS))
            .issue(tokens::hash(&token), ticket, self.runtime.now());
        let ttl = i64::try_from(TICKET_TTL.as_millis()).unwrap_or(i64::MAX);
        Ok(Minted { token, expires_at_ms: self.runtime.wall_ms().saturating_add(ttl) })
    }

    /// What a ticket is for, if it can be used now: its token is asked again whether it may.
    pub fn peek_ticket(&self, token: &str) -> Result<(Ticket, Arc<Background>), ApiError> {
        let (hash, now) = (tokens::hash(token), self.runtime.now());
        let ticket = lock(&self.tickets).values().find_map(|tickets| tickets.peek(&hash, now).cloned());
        let ticket = ticket.filter(|ticket| self.recheck(&ticket.caller).is_ok()).ok_or_else(bad_ticket)?;
        let background = ticket.background.upgrade();
        let background =
            background.filter(|background| !self.processes.is_gone(background)).ok_or_else(|| {
                ApiError::new(StatusCode::GONE, "process_gone", "the process is not listed any more")
            })?;
        Ok((ticket, background))
    }

    /// Drops the tickets that are too late.
    pub(super) fn purge_tickets(&self) {
        let now = self.runtime.now();
        lock(&self.tickets).retain(|_, tickets| {
            tickets.purge(now);
            !tickets.is_empty()
        });
    }

    /// Uses a ticket: of several that do so at once one succeeds.
    pub fn redeem(&self, token: &str) -> Result<(), ApiError> {
        let (hash, now) = (tokens::hash(token), self.runtime.now());
        let taken = lock(&self.tickets).values_mut().find_map(|tickets| tickets.take(&hash, now));
        taken.map(drop).ok_or_else(bad_ticket)
    }

    /// Enters somebody who waits for output of a process among the open streams.
    pub fn open_to_wait(&self, caller: &Caller, background: &Background) -> Result<Open, ApiError> {
        let lease = self.streams.lease(caller.token())?;
        let (id, place) = (self.new_id(), None);
        let span = span(&id, background);
        let open =
            self.streams.open(Kind::Process, Some(lease), parts(id, caller, background, place, None), span);
        self.close_if_late(&open, caller, background);
        Ok(open)
    }

    /// Ends a stream for what came to an end before it could be found by whoever ended it.
    fn close_if_late(&self, open: &Open, caller: &Caller, background: &Background) {
        let standing = self.tokens.standing(caller.token(), self.runtime.wall_ms());
        let late = [
            (standing != Standing::Valid).then_some(Close::Revoked),
            background.sandbox().close_reason(),
            self.is_shutting_down().then_some(Close::Shutdown),
        ];
        for reason in late.into_iter().flatten() {
            self.close_streams(reason, |stream| stream.id() == open.id());
        }
    }

    /// Follows a process.
    pub fn follow(
        self: &Arc<Self>,
        caller: &Caller,
        background: &Arc<Background>,
        start: Start,
        encoding: Encoding,
        connection: Option<Arc<Connection>>,
    ) -> Result<FollowStream, ApiError> {
        self.recheck(caller)?;
        if self.is_shutting_down() {
            return Err(ApiError::shutting_down());
        }
        let lease = self.streams.lease(caller.token())?;
        let started = self.runtime.now();
        let config = attach::Config {
            encoding,
            bytes_per_second: self.settings.stream_bytes_per_second,
            max_bytes: self.settings.stream_max_bytes,
            patience: PATIENCE,
        };
        let handle = background.handle();
        let mut attached = None;
        let reading = handle.reader();
        handle.command(|process| {
            attached = Some(
                start.reader(process.log_mut()).map(|reader| Attach::new(config, process, reader, started)),
            );
        });
        let attach = attached.ok_or_else(ApiError::internal)??;
        let id = self.new_id();
        let span = span(&id, background);
        let place = Some(Place { handle: Arc::clone(handle), next: AtomicU64::new(attach.next()) });
        let parts = parts(id, caller, background, place, connection);
        let open = self.streams.open(Kind::Process, Some(lease), parts, span);
        let stream = FollowStream {
            plane: Arc::clone(self),
            background: Arc::clone(background),
            attach,
            reading,
            open,
            deadline: Deadline::default(),
            started,
        };
        self.close_if_late(&stream.open, caller, background);
        Ok(stream)
    }
}

fn span(id: &str, background: &Background) -> tracing::Span {
    tracing::info_span!(
        "stream process",
        stream.id = id,
        process.id = background.id(),
        sandbox = background.sandbox().name(),
        bytes = tracing::field::Empty,
        messages = tracing::field::Empty,
        reason = tracing::field::Empty,
    )
}

fn parts(
    id: String,
    caller: &Caller,
    background: &Background,
    place: Option<Place>,
    connection: Option<Arc<Connection>>,
) -> EntryParts {
    let (token, sandbox) = (caller.token().to_owned(), background.sandbox().id().to_owned());
    EntryParts { id, token, sandbox, command: None, place, connection }
}

/// 401: one answer, whatever is wrong with it.
fn bad_ticket() -> ApiError {
    ApiError::new(
        StatusCode::UNAUTHORIZED,
        "bad_ticket",
        "the token of this URL is unknown, used or expired; ask for another by stream-access",
    )
}

/// 409: nothing of the process's output is kept.
pub(crate) fn logging_disabled() -> ApiError {
    ApiError::new(
        StatusCode::CONFLICT,
        "logging_disabled",
        "the process was started with max_log_bytes 0: nothing of its output is kept; attach to it instead",
    )
}

/// What one poll gets of a process's output.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The output as text, where that was asked for.
    pub text: String,
    /// The output as it was printed, where that was asked for.
    pub bytes: Vec<u8>,
    /// The offset of its first byte, after the gap where there is one.
    pub from: u64,
    /// The offset to go on from.
    pub next: u64,
    /// What was gone.
    pub gap: Option<Gap>,
    /// There is more already.
    pub truncated: bool,
}

impl Plane {
    /// Reads what there is from `start` on, [`PAGE`] bytes at the most. With `open` it waits for something for up to
    /// `wait`, or until that stream is to end.
    pub async fn read_page(
        &self,
        background: &Background,
        start: Start,
        encoding: Encoding,
        wait: Duration,
        mut open: Option<Open>,
    ) -> Result<Page, ApiError> {
        let now = self.runtime.now();
        let reading = background.handle().reader();
        let begin = |process: &mut Process| -> Result<Attach, CursorAhead> {
            let reader = start.reader(process.log_mut())?;
            let config = attach::Config {
                encoding,
                bytes_per_second: u64::MAX,
                max_bytes: u64::MAX,
                patience: Duration::MAX,
            };
            Ok(Attach::new(config, process, reader, now))
        };
        let mut attach = reading.read(Waker::noop(), begin)?;
        let mut page = Page { from: attach.next(), next: attach.next(), ..Page::default() };
        let filled = std::future::poll_fn(|cx| {
            reading.read(cx.waker(), |process| page.fill(&mut attach, process, now));
            let is_something = page.next > page.from || page.gap.is_some();
            let closed = open.as_ref().and_then(|open| open.asked_to_close(cx.waker()));
            if closed.is_some() || is_something || reading.handle().look(Process::is_over) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        until(&*self.runtime, now + wait, filled).await;
        if let Some(open) = &mut open
            && open.asked_to_close(Waker::noop()).is_none()
        {
            open.sent(page.bytes.len() + page.text.len(), self.runtime.now().since(now));
            open.ended(Close::Done);
        }
        Ok(page)
    }
}

/// Bytes of output that one poll gets.
pub const PAGE: usize = 256 * 1024;

impl Page {
    fn fill(&mut self, attach: &mut Attach, process: &mut Process, now: Time) {
        loop {
            if self.text.len() + self.bytes.len() + FRAME_MAX > PAGE {
                self.truncated = attach.next() < process.log().end_offset();
                return;
            }
            match attach.poll_output(process, now) {
                Output::Frame(frame) => {
                    self.bytes.extend_from_slice(&frame.data);
                    self.next = frame.end();
                }
                Output::Text { text, next, .. } => {
                    self.text.extend(text.pieces());
                    self.next = next;
                }
                // Only what was gone from the start: nothing is evicted while it is read.
                Output::Gap(gap) => {
                    (self.from, self.next) = (gap.to_offset, gap.to_offset);
                    self.gap = Some(gap);
                }
                Output::Closed { .. } | Output::Wait(_) => return,
            }
        }
    }
}

impl FollowStream {
    /// What comes next.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        loop {
            let now = self.plane.runtime.now();
            if let Some(reason) = self.open.asked_to_close(cx.waker()) {
                self.attach.close(reason);
            }
            let output = self.reading.read(cx.waker(), |process| self.attach.poll_output(process, now));
            self.open.at(self.attach.next());
            let (event, len) = match output {
                Output::Wait(at) => {
                    if self.deadline.poll(&*self.plane.runtime, at, cx).is_pending() {
                        return Poll::Pending;
                    }
                    continue;
                }
                Output::Closed { reason, exit, drain_timed_out } => {
                    self.open.ended(reason);
                    return Poll::Ready(Event::Closed { reason, exit, drain_timed_out });
                }
                Output::Gap(gap) => return Poll::Ready(Event::Gap(gap)),
                Output::Frame(frame) => {
                    let len = frame.data.len();
                    (Event::Frame(frame), len)
                }
                Output::Text { channel, text, next } => {
                    let len = text.len();
                    (Event::Text { channel: channel.name(), text, next }, len)
                }
            };
            self.open.sent(len, now.since(self.started));
            return Poll::Ready(event);
        }
    }

    /// The socket took nothing of what it was offered.
    pub fn handle_blocked(&mut self) {
        self.attach.handle_blocked();
    }

    /// The socket took something.
    pub fn handle_accepted(&mut self) {
        self.attach.handle_accepted();
    }

    /// Ends it.
    pub fn close(&mut self, reason: Close) {
        self.attach.close(reason);
    }

    /// The process.
    pub const fn background(&self) -> &Arc<Background> {
        &self.background
    }

    /// The plane it belongs to.
    pub const fn plane(&self) -> &Arc<Plane> {
        &self.plane
    }
}

/// Gives up clients that take nothing while what they would get next is gone. Their bodies are not polled meanwhile.
pub(super) async fn give_up_the_slow(plane: Weak<Plane>, runtime: Arc<dyn Runtime>) {
    while let Some(plane) = plane.upgrade() {
        let following = plane.streams.any_follows();
        if following {
            plane.streams.close_too_slow(PATIENCE, &plane.runtime);
        }
        let opened = Arc::clone(plane.streams.followed());
        drop(plane);
        if following {
            sleep_until(&*runtime, runtime.now() + LOOK_EVERY).await;
        } else {
            opened.notified().await;
        }
    }
}
