//! A background process as one client follows it.

use super::{
    Plane,
    background::Background,
    streams::{EntryParts, Open, Place},
    tokens::Caller,
};
use crate::{ApiError, http::Connection, metrics::Kind};
use hangar_backends::{
    Runtime,
    handle::Reading,
    runtime::{Deadline, sleep_until, until},
};
use hangar_core::{
    Close, Time,
    attach::{self, Attach, Output},
    exec::Encoding,
    log::{CursorAhead, Frame, Gap, Log, Reader},
    process::{Exit, Process, TtySize},
    text::Text,
};
use hyper::StatusCode;
use std::{
    future::poll_fn,
    sync::{Arc, Weak, atomic::AtomicU64},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// A client that takes nothing for this long, while what it would get next is gone, is given up.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How often those that follow are looked at for that.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a client with a cursor waits for a process to be found that another server has followed.
const FOUND_WITHIN: Duration = Duration::from_secs(10);

/// How long it then waits for what was given out before.
const READ_WITHIN: Duration = Duration::from_secs(2);

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
    /// With so many bytes at the end, or less: as many whole frames.
    Last(usize),
    /// With the last lines.
    Lines(u64),
    /// With what fills a terminal of this size, or of the usual one.
    Screen(Option<TtySize>),
}

impl Start {
    pub(super) fn reader(self, log: &mut Log) -> Result<Reader, CursorAhead> {
        match self {
            Self::Oldest => Ok(Reader::oldest(log)),
            Self::Offset(offset) => Reader::at_offset(log, offset),
            Self::AfterSeq(seq) => Reader::after_seq(log, seq),
            Self::Last(bytes) => Ok(Reader::tail(log, u64::MAX, bytes)),
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

/// How a client follows a process.
#[derive(Clone, Debug)]
pub struct Following {
    /// Where it begins.
    pub start: Start,
    /// How output is written.
    pub encoding: Encoding,
    /// What it gets goes to a client at the pace and up to the cap of the plane's settings. Without it all that there is
    /// is taken at once.
    pub paced: bool,
    /// It is one of the token's open streams.
    pub leased: bool,
    /// The connection that carries it.
    pub connection: Option<Arc<Connection>>,
}

impl Plane {
    /// Waits until it is known what a cursor means, where another server has followed the process before: until its sandbox
    /// was reached since, and what had been given out is here again.
    pub(super) async fn know(&self, background: &Background, start: Start) -> Result<(), ApiError> {
        let is_there = |process: &Process| match start {
            Start::Offset(offset) => offset <= process.log().end_offset(),
            Start::AfterSeq(seq) => seq <= process.log().newest_seq(),
            Start::Oldest | Start::Last(_) | Start::Lines(_) | Start::Screen(_) => true,
        };
        if !background.is_adopted() || background.handle().look(is_there) {
            return Ok(());
        }
        let reading = background.handle().reader();
        let found = poll_fn(|cx| reading.poll_until(cx.waker(), |process| !process.is_unfound()));
        let found = until(&*self.runtime, self.runtime.now() + FOUND_WITHIN, found).await;
        found.ok_or_else(ApiError::sandbox_away)?;
        // Who asks for more than there ever was is refused after that.
        let there = poll_fn(|cx| reading.poll_until(cx.waker(), is_there));
        until(&*self.runtime, self.runtime.now() + READ_WITHIN, there).await;
        Ok(())
    }

    /// Follows a process.
    pub async fn follow(
        self: &Arc<Self>,
        caller: &Caller,
        background: &Arc<Background>,
        following: Following,
    ) -> Result<FollowStream, ApiError> {
        let Following { start, encoding, paced, leased, connection } = following;
        let lease = leased.then(|| self.streams.lease(caller.token())).transpose()?;
        self.know(background, start).await?;
        self.recheck(caller)?;
        if self.is_shutting_down() {
            return Err(ApiError::shutting_down());
        }
        let started = self.runtime.now();
        let limit = |limit: u64| if paced { limit } else { u64::MAX };
        let config = attach::Config {
            encoding,
            bytes_per_second: limit(self.settings.stream_bytes_per_second),
            max_bytes: limit(self.settings.stream_max_bytes),
            patience: PATIENCE,
        };
        let reading = background.handle().reader();
        let begin = |process: &mut Process| {
            start.reader(process.log_mut()).map(|reader| Attach::new(config, process, reader, started))
        };
        let attach = reading.read(Waker::noop(), begin)?;
        let id = self.new_id();
        let span = span(&id, background);
        // Who has no connection here looks after its client's patience itself.
        let place = connection.as_ref().map(|_| Place::Output {
            handle: Arc::clone(background.handle()),
            next: AtomicU64::new(attach.next()),
        });
        let parts = parts(id, caller, background, place, connection);
        let kind = lease.is_some().then_some(Kind::Process);
        let open = self.streams.open(kind, lease, parts, span);
        let stream = FollowStream {
            plane: Arc::clone(self),
            background: Arc::clone(background),
            attach,
            reading,
            open,
            deadline: Deadline::default(),
            started,
        };
        self.close_if_late(&stream.open, caller, background.sandbox());
        Ok(stream)
    }
}

pub(super) fn span(id: &str, background: &Background) -> tracing::Span {
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

pub(super) fn parts(
    id: String,
    caller: &Caller,
    background: &Background,
    place: Option<Place>,
    connection: Option<Arc<Connection>>,
) -> EntryParts {
    let (token, sandbox) = (caller.token().to_owned(), background.sandbox().id().to_owned());
    EntryParts { id, token, sandbox, command: None, place, connection }
}

impl Following {
    /// As an open stream, at its pace.
    pub const fn streamed(start: Start, encoding: Encoding, connection: Option<Arc<Connection>>) -> Self {
        Self { start, encoding, paced: true, leased: true, connection }
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

    /// The offset of what comes next.
    pub const fn next(&self) -> u64 {
        self.attach.next()
    }

    /// Its client has had what it wanted, and is told so.
    pub const fn ended(&mut self, reason: Close) {
        self.open.ended(reason);
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
