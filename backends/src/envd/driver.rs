//! The task of one process: it owns the stream about it, and feeds the [`Process`].

use super::{
    Shared, Target,
    attach::{self, Attached, NotAttached},
    lanes::{GIVE_UP, Giving, Orders, Retry, There},
    orders::Order,
    receipts::Receipts,
    start::Started,
    stream::{EventStream, Lost},
};
use crate::{
    Handle,
    runtime::{BoxFuture, Deadline},
};
use bytes::Bytes;
use hangar_core::{
    Time,
    log::{Channel, GapReason, Retention},
    process::{Config, Output, Process, Signal, Target as To},
    wire::envd::{
        event::{exit_of_end, exit_of_exited},
        process::{DataEvent, ProcessEvent, StartEvent},
    },
};
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// Events of one poll; after those the other tasks have their turn.
const BUDGET: u32 = 16;

/// Up to here every client can count.
const MAX_CURSOR: u64 = 1 << 53;

/// Drives one process to its end.
pub(super) struct Driver {
    there: There,
    handle: Arc<Handle>,
    is_tty: bool,
    /// Nothing may be missing in what is read of it.
    is_whole: bool,
    link: Link,
    /// It was not found yet since the server was started. Where its output goes on if its daemon has not kept it.
    adopts: Option<(u64, u64)>,
    /// When it is looked for again. Kept until the stream that was found has gone on: one that breaks at once, again and
    /// again, is no reason to hurry.
    retry: Retry,
    /// Output that came, and that there was no room for.
    rest: Option<Piece>,
    orders: Orders,
    giving: Giving,
    /// Its daemon keeps its output until it is known to be here.
    acknowledges: bool,
    receipts: Receipts,
    deadline: Deadline,
    closed: bool,
}

/// What is to be known of a process to follow it.
pub(super) struct Followed {
    user: Option<String>,
    is_tty: bool,
    /// Nothing may be missing in what is read of it.
    is_whole: bool,
}

impl Followed {
    pub(super) const fn of(process: &Config, user: Option<String>) -> Self {
        let is_whole = matches!(process.retention, Retention::UntilRead { .. });
        Self { user, is_tty: process.tty.is_some(), is_whole }
    }
}

/// How the process is followed.
enum Link {
    Following(EventStream),
    Lost {
        since: Time,
        attempt: Option<BoxFuture<'static, Result<Attached, NotAttached>>>,
    },
    /// All was told, or nobody wants to know any more.
    Over,
}

/// How much came of following it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Flow {
    /// Nothing.
    Quiet,
    /// The machine was told something.
    Told,
    /// So was it, and there is more.
    Busy,
}

struct Piece {
    channel: Channel,
    ts_ms: i64,
    data: Bytes,
}

impl Driver {
    /// Of one that has just been started.
    pub(super) fn new(
        shared: &Arc<Shared>,
        handle: &Arc<Handle>,
        followed: Followed,
        target: Target,
        started: Started,
    ) -> Self {
        let link = Link::Following(started.stream);
        let driver = Self::linked(shared, handle, followed, target, started.is_logged, link);
        Self { acknowledges: started.is_acknowledged, ..driver }
    }

    /// Of one that was started before anybody here remembers, and has to be found. Where its daemon keeps no log, its
    /// output goes on at this frame and byte.
    pub(super) fn adopt(
        shared: &Arc<Shared>,
        handle: &Arc<Handle>,
        followed: Followed,
        target: Target,
        goes_on_at: (u64, u64),
    ) -> Self {
        let link = Link::Lost { since: shared.runtime.now(), attempt: None };
        let driver = Self::linked(shared, handle, followed, target, false, link);
        Self { adopts: Some(goes_on_at), ..driver }
    }

    fn linked(
        shared: &Arc<Shared>,
        handle: &Arc<Handle>,
        followed: Followed,
        target: Target,
        is_hangar: bool,
        link: Link,
    ) -> Self {
        let Followed { user, is_tty, is_whole } = followed;
        Self {
            there: There { shared: Arc::clone(shared), target, user, is_hangar },
            handle: Arc::clone(handle),
            is_tty,
            is_whole,
            link,
            adopts: None,
            retry: Retry::default(),
            rest: None,
            orders: Orders::default(),
            giving: Giving::default(),
            acknowledges: false,
            receipts: Receipts::default(),
            deadline: Deadline::default(),
            closed: false,
        }
    }

    /// Follows the process while there is room for what it prints.
    fn follow(&mut self, now: Time, cx: &mut Context<'_>) -> Flow {
        let mut told = Flow::Quiet;
        for _ in 0..BUDGET {
            let room = self.handle.drive(cx.waker(), |process| process.wants_output());
            if let Some(piece) = self.rest.take_if(|_| room > 0) {
                self.print(piece, cx.waker());
                told = Flow::Told;
                continue;
            }
            match &mut self.link {
                Link::Over => return told,
                Link::Following(stream) if room == 0 || self.rest.is_some() => {
                    stream.pause();
                    return told;
                }
                Link::Following(stream) => match stream.poll_next(&*self.there.shared.runtime, cx) {
                    Poll::Pending => return told,
                    Poll::Ready(Ok(event)) => self.hear(event, cx.waker()),
                    Poll::Ready(Err(lost)) => self.lost(&lost, now, cx.waker()),
                },
                Link::Lost { .. } => {
                    if !self.look(now, cx) {
                        return told;
                    }
                }
            }
            told = Flow::Told;
        }
        cx.waker().wake_by_ref();
        Flow::Busy
    }

    fn hear(&mut self, event: ProcessEvent, driver: &Waker) {
        if event.data.is_some() || event.keepalive.is_some() {
            self.retry = Retry::default();
        }
        if let Some(data) = event.data {
            self.came(data, driver);
        }
        if let Some(exited) = event.exited {
            self.handle.drive(driver, |process| process.handle_exit(exit_of_exited(&exited)));
        }
        let is_hangar = self.there.is_hangar;
        if let Some(end) = event.end {
            self.handle.drive(driver, |process| {
                process.handle_exit(exit_of_end(&end));
                if end.drain_timed_out {
                    process.handle_output_given_up();
                }
                process.handle_end_of_output();
                // hangar's daemon has ended the rest of it, or is about to.
                if is_hangar {
                    process.handle_group_gone();
                }
            });
            if self.acknowledges
                && let Some(last) = self.receipts.last_word(&self.there, &self.handle)
            {
                self.there.shared.runtime.spawn(Box::pin(last));
            }
            self.link = Link::Over;
        }
    }

    /// Output, which may have come before, and before which some may be missing.
    fn came(&mut self, data: DataEvent, driver: &Waker) {
        let DataEvent { stdout, stderr, pty, seq, offset, ts_ms } = data;
        let ts_ms = ts_ms.unwrap_or_else(|| self.there.shared.runtime.wall_ms());
        let printed = [(Channel::Stdout, stdout), (Channel::Stderr, stderr), (Channel::Tty, pty)];
        for (channel, mut data) in printed.into_iter().filter_map(|(channel, data)| Some((channel, data?))) {
            if let (true, Some(seq), Some(offset)) = (self.there.is_hangar, seq, offset) {
                if seq.max(offset) > MAX_CURSOR {
                    return self.give_up("its daemon counts further than anybody can", driver);
                }
                let end = self.handle.look(|process| process.log().end_offset());
                if offset > end {
                    self.missing(seq, offset, GapReason::Evicted, driver);
                }
                let known = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
                data = data.slice(known.min(data.len())..);
            }
            if !data.is_empty() {
                self.print(Piece { channel, ts_ms, data }, driver);
            }
        }
    }

    fn print(&mut self, piece: Piece, driver: &Waker) {
        let Piece { channel, ts_ms, mut data } = piece;
        let is_framed = self.there.is_hangar;
        let taken = self.handle.drive(driver, |process| {
            if is_framed {
                process.handle_frame(channel, ts_ms, &data)
            } else {
                process.handle_output(channel, ts_ms, &data)
            }
        });
        let rest = data.split_off(taken.min(data.len()));
        if !rest.is_empty() {
            self.rest = Some(Piece { channel, ts_ms, data: rest });
        }
    }

    /// Output is missing. Where nothing may be, the process is ended: its reader would not know.
    fn missing(&mut self, seq: u64, offset: u64, reason: GapReason, driver: &Waker) {
        if self.is_whole {
            self.give_up("some of its output is missing", driver);
        } else {
            self.handle.drive(driver, |process| process.handle_output_lost(seq, offset, reason));
        }
    }

    /// Ends it, as it is of no use any more.
    fn give_up(&mut self, why: &str, driver: &Waker) {
        self.let_go(why, driver);
        self.orders.push(Order::Signal { signal: Signal::KILL, to: To::Group });
    }

    /// It is not there, or nobody knows: nothing is told to it any more, as its number may be another's by now.
    fn let_go(&mut self, why: &str, driver: &Waker) {
        tracing::warn!(process.id = self.handle.id(), why, "a process is given up");
        self.link = Link::Over;
        self.orders = Orders::default();
        self.handle.drive(driver, Process::handle_lost);
    }

    fn lost(&mut self, lost: &Lost, now: Time, driver: &Waker) {
        tracing::info!(process.id = self.handle.id(), %lost, "the stream about a process is lost; it is looked for");
        // What answers there next may be another daemon.
        *self.there.shared.known() = None;
        if self.retry.at().is_some() {
            self.retry.failed(now);
        }
        self.handle.drive(driver, Process::handle_source_lost);
        self.link = Link::Lost { since: now, attempt: None };
    }

    /// Looks for the process. Returns whether something has become of that.
    fn look(&mut self, now: Time, cx: &mut Context<'_>) -> bool {
        let Link::Lost { since, attempt } = &mut self.link else { return false };
        if attempt.is_none() {
            if now.since(*since) >= GIVE_UP {
                self.let_go("its daemon cannot be reached", cx.waker());
                return true;
            }
            if !self.retry.is_due(now) {
                return false;
            }
            let There { shared, target, is_hangar, .. } = self.there.clone();
            let from = self.handle.look(|process| process.log().end_offset());
            *attempt = Some(match self.adopts {
                None => Box::pin(async move { attach::attach(&shared, &target, from, is_hangar).await }),
                Some(_) => Box::pin(async move { attach::adopt(&shared, &target).await }),
            });
        }
        let Some(attempting) = attempt else { return false };
        let Poll::Ready(found) = attempting.as_mut().poll(cx) else { return false };
        *attempt = None;
        match found {
            Ok(Attached { stream, start }) => {
                self.link = Link::Following(stream);
                // The next break is the first again once it has gone on.
                self.retry.found(now);
                self.handle.drive(cx.waker(), Process::handle_source_found);
                self.found(&start, cx.waker());
            }
            Err(NotAttached::Gone) => self.let_go("its daemon does not know it any more", cx.waker()),
            Err(NotAttached::Later(why)) => {
                tracing::debug!(process.id = self.handle.id(), why, "it was not found");
                self.retry.failed(now);
                return false;
            }
        }
        true
    }

    /// It was found: whether something is missing before what follows.
    fn found(&mut self, start: &StartEvent, driver: &Waker) {
        let (end, newest) =
            self.handle.look(|process| (process.log().end_offset(), process.log().newest_seq()));
        let adopts = self.adopts.take();
        if adopts.is_some() {
            self.there.is_hangar = start.seq.is_some();
            self.there.target.pid = Some(start.pid);
            self.handle.drive(driver, |process| process.handle_started(Some(start.pid)));
        }
        match (start.seq, start.offset, adopts) {
            (Some(seq), Some(offset), _) if seq.max(offset) > MAX_CURSOR => {
                self.give_up("its daemon counts further than anybody can", driver);
            }
            (Some(seq), Some(offset), _) if self.there.is_hangar => {
                if offset > end {
                    self.missing(seq, offset, GapReason::Evicted, driver);
                }
            }
            (.., Some((seq, offset))) => self.missing(seq, offset, GapReason::Adopted, driver),
            // How much is not known: the cursor moves by one, so that it is a gap.
            (.., None) => self.missing(newest + 2, end + 1, GapReason::Disconnected, driver),
        }
    }

    /// Whether it can be told something. What was not found yet cannot, and what never was is nobody's to end. Where it is
    /// known by its number alone, that may be another's after a break.
    const fn is_known(&self) -> bool {
        self.adopts.is_none() && (self.there.is_hangar || !matches!(self.link, Link::Lost { .. }))
    }

    /// Whether its daemon waits to be told what is here of its output.
    const fn is_acknowledging(&self) -> bool {
        self.acknowledges && matches!(self.link, Link::Following(_))
    }

    fn wakes_at(&self) -> Option<Time> {
        let looks_at = match &self.link {
            Link::Lost { attempt: None, .. } => self.retry.at(),
            Link::Lost { .. } | Link::Following(_) | Link::Over => None,
        };
        let gives_at = self.giving.wakes_at().filter(|_| matches!(self.link, Link::Following(_)));
        let orders_at = self.orders.wakes_at().filter(|_| self.is_known());
        let tells_at = self.receipts.wakes_at().filter(|_| self.is_acknowledging());
        [looks_at, orders_at, gives_at, tells_at].into_iter().flatten().min()
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            let now = this.there.shared.runtime.now();
            let (output, is_over) =
                this.handle.drive(cx.waker(), |process| (process.poll_output(now), process.is_over()));
            let at = match output {
                Output::Wait(at) => at,
                Output::Terminate => {
                    this.orders.push(Order::Terminate);
                    continue;
                }
                // hangar's daemon ends what is left of one that has ended by itself.
                Output::Sweep if this.there.is_hangar && matches!(this.link, Link::Over) => {
                    this.handle.drive(cx.waker(), Process::handle_swept);
                    continue;
                }
                Output::Sweep => {
                    this.orders.push(Order::Sweep);
                    continue;
                }
                Output::Signal { signal, to } => {
                    this.orders.push(Order::Signal { signal, to });
                    continue;
                }
                Output::Resize(size) => {
                    this.orders.push(Order::Resize(size));
                    continue;
                }
                Output::Closed => {
                    this.closed = true;
                    continue;
                }
            };
            if is_over && !matches!(this.link, Link::Over) {
                // The rest of its output, if there is one, is the daemon's to read and drop.
                this.link = Link::Over;
                this.handle.drive(cx.waker(), Process::handle_end_of_output);
                continue;
            }
            let is_known = this.is_known();
            let swept = is_known && this.orders.poll(&this.there, !this.closed, now, cx).is_ready();
            if swept {
                this.handle.drive(cx.waker(), Process::handle_swept);
            }
            // Where it cannot be found nothing can be given to it.
            if let Link::Following(_) = this.link {
                this.giving.poll(&this.there, &this.handle, this.is_tty, now, cx);
            }
            let flow = this.follow(now, cx);
            if this.is_acknowledging() {
                let is_paused =
                    this.rest.is_some() || this.handle.look(|process| process.wants_output() == 0);
                this.receipts.poll(&this.there, &this.handle, is_paused, now, cx);
            }
            if flow == Flow::Busy {
                return Poll::Pending;
            }
            if this.closed && (this.orders.is_empty() || !is_known) {
                this.there.shared.release(&this.handle);
                return Poll::Ready(());
            }
            let at = at.into_iter().chain(this.wakes_at()).min();
            let told = swept || flow == Flow::Told;
            if !told && this.deadline.poll(&*this.there.shared.runtime, at, cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}
