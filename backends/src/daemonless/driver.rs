//! The tasks of a command that a provider runs, and of a process that is detached.

use super::{
    Shared,
    provider::{Ran, Running},
    scripts::{Asked, PIECE, Target, To},
};
use crate::{Handle, runtime::Deadline, sandbox::StartError};
use bytes::Bytes;
use hangar_core::{
    Time,
    log::{Channel, FRAME_MAX, GapReason},
    process::{Output, Process, Signal, Target as SignalTo},
    wire::detached::{Report, State},
};
use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

/// How often it is looked after a process that somebody reads,
const READ: Duration = Duration::from_millis(500);
/// that nobody does,
const UNREAD: Duration = Duration::from_secs(5);
/// and that is being ended,
const ENDING: Duration = Duration::from_millis(100);
/// for so long.
const ENDS: Duration = Duration::from_secs(10);

/// A process whose sandbox could not be reached for this long is given up.
const GIVE_UP: Duration = Duration::from_secs(600);

/// Carries out what a process asks for.
pub(super) struct Driver {
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    target: Target,
    /// It is detached: it has a number and a group.
    is_detached: bool,
    /// It was asked to end.
    is_ending: bool,
}

impl Driver {
    pub(super) fn new(shared: &Arc<Shared>, handle: &Arc<Handle>, target: Target, is_detached: bool) -> Self {
        Self { shared: Arc::clone(shared), handle: Arc::clone(handle), target, is_detached, is_ending: false }
    }

    /// Of a command: all that it printed comes at its end.
    pub(super) async fn command(mut self, running: Running) {
        let mut running = Some(running);
        loop {
            let ran = |cx: &mut Context<'_>| {
                running.as_mut().map_or(Poll::Pending, |running| running.as_mut().poll(cx))
            };
            match self.order_or(ran).await {
                Ok(Output::Closed) => break,
                Ok(order) => self.carry_out(order).await,
                Err(ran) => {
                    running = None;
                    self.give(&ran);
                    if self.is_ending {
                        self.count().await;
                    }
                }
            }
        }
        self.shared.release(&self.handle);
    }

    /// Of a process that is detached. `adopts`: another server has followed it, in frames whose numbers are below this.
    pub(super) async fn process(mut self, adopts: Option<u64>) {
        self.handle.notice_readers();
        let mut looks = Looks::new(self.shared.runtime.now(), adopts);
        loop {
            let (shared, handle) = (Arc::clone(&self.shared), Arc::clone(&self.handle));
            let mut deadline = Deadline::default();
            let due = |cx: &mut Context<'_>| {
                let at = looks.due(&handle, self.is_ending);
                deadline.poll(&*shared.runtime, Some(at), cx)
            };
            match self.order_or(due).await {
                Ok(Output::Closed) => break,
                Ok(order) => {
                    self.carry_out(order).await;
                    looks.soon(self.shared.runtime.now());
                }
                Err(()) => self.look(&mut looks).await,
            }
        }
        self.shared.release(&self.handle);
        self.shared.forget_later(self.target);
    }

    /// What the process asks for, or what came before that.
    async fn order_or<T>(&self, mut other: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Result<Output, T> {
        let mut deadline = Deadline::default();
        poll_fn(|cx| {
            loop {
                let now = self.shared.runtime.now();
                let at = match self.handle.drive(cx.waker(), |process| process.poll_output(now)) {
                    Output::Wait(at) => at,
                    order @ (Output::Terminate
                    | Output::Sweep
                    | Output::Signal { .. }
                    | Output::Resize(_)
                    | Output::Closed) => return Poll::Ready(Ok(order)),
                };
                if let Poll::Ready(other) = other(cx) {
                    return Poll::Ready(Err(other));
                }
                if deadline.poll(&*self.shared.runtime, at, cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    async fn carry_out(&mut self, order: Output) {
        let everybody = if self.is_detached { To::Group } else { To::All };
        match order {
            Output::Terminate => {
                self.is_ending = true;
                self.signal(&[Signal::TERM, Signal::CONT], everybody).await;
            }
            Output::Signal { signal, to } => {
                let to = if to == SignalTo::Leader && self.is_detached { To::Leader } else { everybody };
                self.signal(&[signal], to).await;
            }
            Output::Sweep => {
                self.is_ending = true;
                self.signal(&[Signal::KILL], To::All).await;
                self.handle.drive(Waker::noop(), Process::handle_swept);
            }
            // There are no terminals here; the others are no orders.
            Output::Resize(_) | Output::Closed | Output::Wait(_) => {}
        }
    }

    async fn signal(&self, signals: &[Signal], to: To) {
        if let Err(error) = self.shared.scripts.signal(&self.target, signals, to).await {
            tracing::warn!(process.id = self.target.id, %error, ?signals, "it was not sent a signal");
        }
    }

    /// A command has ended.
    fn give(&self, ran: &Ran) {
        let ts_ms = self.shared.runtime.wall_ms();
        self.handle.drive(Waker::noop(), |process| {
            if ran.output.lost() > 0 {
                process.handle_output_lost(0, ran.output.lost(), GapReason::Evicted);
            }
            for (channel, data) in ran.output.pieces() {
                process.handle_output(channel, ts_ms, data);
            }
            process.handle_exit(ran.exit);
            if ran.drain_timed_out {
                process.handle_output_given_up();
            }
            process.handle_end_of_output();
        });
    }

    /// Looks whether anything is left of a command that was asked to end.
    async fn count(&self) {
        let asked = Asked { counted: true, ..Asked::default() };
        if let Ok(report) = self.shared.scripts.report(&self.target, asked).await
            && report.members == Some(0)
        {
            self.handle.drive(Waker::noop(), Process::handle_group_gone);
        }
    }

    /// Looks how a process is, and reads on.
    async fn look(&mut self, looks: &mut Looks) {
        let result = match looks.adopts {
            Some(goes_on) => self.take_over(goes_on).await.map(|()| {
                looks.adopts = None;
                true
            }),
            None => self.read_on().await,
        };
        let now = self.shared.runtime.now();
        match result {
            Ok(is_behind) => looks.succeeded(now, is_behind),
            Err(error) => {
                if looks.fails_since.is_none() {
                    tracing::warn!(process.id = self.target.id, %error, "it cannot be looked after now");
                }
                if looks.failed(now, &error) {
                    self.handle.drive(Waker::noop(), Process::handle_lost);
                }
            }
        }
    }

    /// Reads what follows. Returns whether there is more.
    async fn read_on(&mut self) -> Result<bool, StartError> {
        let (from, newest) =
            self.handle.look(|process| (process.log().end_offset(), process.log().newest_seq()));
        let asked = Asked { from, most: PIECE, seq: newest + 1, counted: self.is_ending };
        let report = self.report(asked).await?;
        Ok(report.is_some_and(|report| self.feed(&report)))
    }

    /// Reads what is kept of a process that another server has followed, in the frames of that as far as they are known: those
    /// of the last piece that it gave out. Without any, the frames have numbers from `goes_on` on.
    async fn take_over(&mut self, goes_on: u64) -> Result<(), StartError> {
        let Some(report) = self.report(Asked { most: PIECE, ..Asked::default() }).await? else {
            return Ok(());
        };
        let (pid, first, last) = (report.pid, report.first, report.last);
        let before = match last {
            Some((seq, end, _)) => self.read_until(report, end).await?.filter(|pieces| frames(pieces) < seq),
            None => None,
        };
        let ts_ms = self.shared.runtime.wall_ms();
        self.handle.drive(Waker::noop(), |process| {
            process.handle_source_found();
            process.handle_started(pid);
            match (&before, last) {
                (Some(pieces), Some((seq, ..))) => {
                    process.handle_taken_over(seq - frames(pieces), first, seq);
                    for data in pieces {
                        process.handle_frame(CHANNEL, ts_ms, data);
                    }
                }
                _ => process.handle_taken_over(goes_on, first, goes_on),
            }
        });
        if let (Some(_), Some((seq, from, most))) = (before, last)
            && let Some(report) = self.report(Asked { from, most, seq, ..Asked::default() }).await?
        {
            self.feed(&report);
        }
        Ok(())
    }

    /// What is kept before a byte, in pieces; None where a part of that is gone.
    async fn read_until(&mut self, mut report: Report, end: u64) -> Result<Option<Vec<Bytes>>, StartError> {
        let (mut next, mut pieces) = (report.first, Vec::new());
        while next < end {
            let Some((_, data)) = report.piece.filter(|(offset, _)| *offset == next) else { return Ok(None) };
            let len = usize::try_from(end - next).unwrap_or(usize::MAX).min(data.len());
            next += len as u64;
            pieces.push(data.slice(..len));
            let asked = Asked { from: next, most: PIECE.min(end - next), ..Asked::default() };
            let Some(more) = self.report(asked).await? else { return Ok(None) };
            report = more;
        }
        Ok(Some(pieces).filter(|_| next == end))
    }

    /// Asks how it is. None where it is another by now, which is left alone.
    async fn report(&mut self, asked: Asked) -> Result<Option<Report>, StartError> {
        let report = self.shared.scripts.report(&self.target, asked).await?;
        let known = Some(self.target.pid).filter(|pid| *pid != 0);
        if let (Some(pid), Some(known)) = (report.pid, known)
            && pid != known
        {
            let id = &self.target.id;
            tracing::warn!(
                process.id = id,
                pid,
                known,
                "it has another number than it had: it is left alone"
            );
            self.target.pid = 0;
            self.handle.drive(Waker::noop(), Process::handle_lost);
            return Ok(None);
        }
        self.target.pid = report.pid.or(known).unwrap_or(0);
        Ok(Some(report))
    }

    /// Tells the machine what a report says. Returns whether there was more to read.
    fn feed(&self, report: &Report) -> bool {
        let ts_ms = self.shared.runtime.wall_ms();
        self.handle.drive(Waker::noop(), |process| {
            let begins = report.piece.as_ref().map_or(report.first, |(offset, _)| *offset);
            if begins > process.log().end_offset() {
                process.handle_output_lost(0, begins, GapReason::Evicted);
            }
            if let Some((offset, data)) = &report.piece
                && *offset == process.log().end_offset()
            {
                process.handle_frame(CHANNEL, ts_ms, data);
                if process.log().end_offset() < report.end {
                    return true;
                }
            }
            match report.state {
                State::Running => {}
                State::Exited(exit) => process.handle_exit(exit),
                State::Lost if process.exit_status().is_some() => process.handle_end_of_output(),
                State::Lost => process.handle_lost(),
            }
            if report.is_output_ended {
                process.handle_end_of_output();
            }
            if report.members == Some(0) && process.exit_status().is_some() {
                process.handle_group_gone();
            }
            false
        })
    }
}

/// What both outputs of a process are here.
const CHANNEL: Channel = Channel::Stdout;

/// How many frames pieces are.
fn frames(pieces: &[Bytes]) -> u64 {
    pieces.iter().map(|data| data.len().div_ceil(FRAME_MAX) as u64).sum()
}

/// When it is looked after a process.
struct Looks {
    began: Time,
    last: Option<Time>,
    /// It is looked after often until then.
    hurries_until: Time,
    /// There was more to read.
    is_behind: bool,
    fails_since: Option<Time>,
    adopts: Option<u64>,
}

impl Looks {
    const fn new(now: Time, adopts: Option<u64>) -> Self {
        Self { began: now, last: None, hurries_until: now, is_behind: false, fails_since: None, adopts }
    }

    /// When the next one is due. One that is young, and may be short, is looked after more often.
    fn due(&self, handle: &Handle, is_ending: bool) -> Time {
        let Some(last) = self.last.filter(|_| !self.is_behind) else { return Time::ZERO };
        let has_exited = handle.look(|process| process.exit_status().is_some());
        let wait = if self.fails_since.is_some() {
            UNREAD
        } else if last < self.hurries_until || (is_ending && has_exited) {
            ENDING
        } else if has_exited || handle.is_read() {
            READ
        } else {
            (last.since(self.began) / 2).clamp(READ, UNREAD)
        };
        last + wait
    }

    /// Something was asked of it.
    fn soon(&mut self, now: Time) {
        self.hurries_until = now + ENDS;
        self.is_behind = true;
    }

    fn succeeded(&mut self, now: Time, is_behind: bool) {
        (self.last, self.is_behind, self.fails_since) = (Some(now), is_behind, None);
    }

    /// Returns whether that is the end of it.
    fn failed(&mut self, now: Time, error: &StartError) -> bool {
        (self.last, self.is_behind) = (Some(now), false);
        let since = *self.fails_since.get_or_insert(now);
        *error == StartError::Destroyed || now.since(since) >= GIVE_UP
    }
}
