//! The tasks of a command that a provider runs, and of a process that is detached.

use super::{
    Shared,
    looks::{Looks, Taking},
    provider::{Ran, Running},
    scripts::{Asked, PIECE, Target, To},
};
use crate::{
    Handle,
    runtime::{Deadline, sleep_until},
    sandbox::StartError,
};
use hangar_core::{
    log::{Channel, GapReason},
    process::{Output, Process, Signal, Target as SignalTo},
    wire::detached::{Report, State},
};
use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

/// How often it is tried to end a process in a sandbox that cannot be reached.
const RETRY: Duration = Duration::from_secs(1);

/// For how long.
const GIVE_UP: Duration = Duration::from_secs(600);

/// What both outputs of a process are here.
const CHANNEL: Channel = Channel::Stdout;

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
                    self.give(ran);
                    if self.is_ending {
                        self.count().await;
                    }
                }
            }
        }
        self.shared.release(&self.handle);
    }

    /// Of a process that is detached. With `taking` another server has followed it before.
    pub(super) async fn process(mut self, taking: Option<Taking>) {
        self.handle.notice_readers();
        let mut looks = Looks::new(self.shared.runtime.now(), taking);
        loop {
            let (shared, handle) = (Arc::clone(&self.shared), Arc::clone(&self.handle));
            let mut deadline = Deadline::default();
            let due = |cx: &mut Context<'_>| {
                let has_exited = handle.look(|process| process.exit_status().is_some());
                let at = looks.due(handle.is_read(), self.is_ending && has_exited);
                deadline.poll(&*shared.runtime, Some(at), cx)
            };
            match self.order_or(due).await {
                Ok(Output::Closed) => break,
                Ok(order) => {
                    self.carry_out(order).await;
                    looks.hurry(self.shared.runtime.now());
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
                // What did not hear of it is swept after its time.
                self.signal(&[Signal::TERM, Signal::CONT], everybody).await;
            }
            Output::Signal { signal, to } => {
                let to = if to == SignalTo::Leader && self.is_detached { To::Leader } else { everybody };
                self.signal(&[signal], to).await;
            }
            Output::Sweep => {
                self.is_ending = true;
                let until = self.shared.runtime.now() + GIVE_UP;
                while !self.signal(&[Signal::KILL], To::All).await && self.shared.runtime.now() < until {
                    sleep_until(&*self.shared.runtime, self.shared.runtime.now() + RETRY).await;
                }
                self.handle.drive(Waker::noop(), Process::handle_swept);
            }
            // There are no terminals here; the others are no orders.
            Output::Resize(_) | Output::Closed | Output::Wait(_) => {}
        }
    }

    /// Returns whether it was sent, or there is nobody any more to send it to.
    async fn signal(&self, signals: &[Signal], to: To) -> bool {
        match self.shared.scripts.signal(&self.target, signals, to).await {
            Ok(()) | Err(StartError::Destroyed) => true,
            Err(error) => {
                tracing::warn!(process.id = self.target.id, %error, ?signals, "it was not sent a signal");
                false
            }
        }
    }

    /// A command has ended.
    fn give(&self, ran: Ran) {
        let ts_ms = self.shared.runtime.wall_ms();
        let Ran { exit, output, drain_timed_out } = ran;
        self.handle.drive(Waker::noop(), |process| {
            if output.lost() > 0 {
                process.handle_output_lost(0, output.lost(), GapReason::Evicted);
            }
            for (channel, data) in output.into_pieces() {
                process.handle_output(channel, ts_ms, &data);
            }
            process.handle_exit(exit);
            if drain_timed_out {
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
        let result =
            if looks.taking.is_some() { self.take_over(looks).await } else { self.read_on(looks).await };
        let now = self.shared.runtime.now();
        let is_behind = match result {
            Ok(is_behind) => {
                looks.succeeded(now, is_behind);
                is_behind
            }
            Err(error) => {
                if !looks.is_failing() {
                    tracing::warn!(process.id = self.target.id, %error, "it cannot be looked after now");
                }
                if error == StartError::Destroyed || looks.failed(now) >= GIVE_UP {
                    self.handle.drive(Waker::noop(), Process::handle_lost);
                }
                true
            }
        };
        if looks.taking.is_none() {
            // While there is more to be read no time to drain passes.
            self.handle.drive(Waker::noop(), |process| {
                if is_behind { process.handle_source_lost() } else { process.handle_source_found() }
            });
        }
    }

    /// Reads what follows. Returns whether there is more.
    async fn read_on(&mut self, looks: &mut Looks) -> Result<bool, StartError> {
        let (from, newest) =
            self.handle.look(|process| (process.log().end_offset(), process.log().newest_seq()));
        let most = looks.given_out.unwrap_or(PIECE);
        let asked = Asked { from, most, seq: newest + 1, counted: self.is_ending };
        let report = self.report(asked).await?;
        looks.given_out = None;
        let is_behind = self.feed(&report);
        // What was given out before is known by now.
        self.handle.drive(Waker::noop(), Process::handle_source_found);
        Ok(is_behind)
    }

    /// Goes on taking over a process that another server has followed. Returns that there is more.
    async fn take_over(&mut self, looks: &mut Looks) -> Result<bool, StartError> {
        let Some(taking) = &looks.taking else { return Ok(true) };
        let report = self.report(taking.asks()).await?;
        let (known, ts_ms) = (taking.knows(&report), self.shared.runtime.wall_ms());
        let Some(taking) = &mut looks.taking else { return Ok(true) };
        if !taking.handle_report(&report, known) {
            return Ok(true);
        }
        let taken = taking.taken();
        self.handle.drive(Waker::noop(), |process| {
            process.handle_started(report.pid);
            process.handle_taken_over(taken.seq, taken.offset, taken.known);
            for data in &taken.pieces {
                process.handle_piece(CHANNEL, ts_ms, data);
            }
        });
        looks.given_out = taken.given_out;
        looks.taking = None;
        Ok(true)
    }

    async fn report(&mut self, asked: Asked) -> Result<Report, StartError> {
        let report = self.shared.scripts.report(&self.target, asked).await?;
        // What is noted in the sandbox counts where nothing else is known.
        if self.target.pid == 0 {
            self.target.pid = report.pid.unwrap_or(0);
        }
        Ok(report)
    }

    /// Tells the machine what a report says. Returns whether there was more to read.
    fn feed(&self, report: &Report) -> bool {
        let ts_ms = self.shared.runtime.wall_ms();
        self.handle.drive(Waker::noop(), |process| {
            let before = process.log().end_offset();
            let begins = report.piece.as_ref().map_or(report.first, |(offset, _)| *offset);
            if begins > before && !process.log().is_ended() {
                // What is not there between what is could not be written: nobody knows how much it was.
                let is_evicted = report.first > before;
                let reason = if is_evicted { GapReason::Evicted } else { GapReason::Disconnected };
                process.handle_output_lost(0, begins, reason);
            }
            if let Some((offset, data)) = &report.piece
                && *offset == process.log().end_offset()
            {
                process.handle_piece(CHANNEL, ts_ms, data);
            }
            // Where nothing is taken any more, how it ended is not to wait for it.
            let now = process.log().end_offset();
            if now > before && now < report.end {
                return true;
            }
            match report.state {
                State::Running => {}
                State::Exited(exit) => process.handle_exit(exit),
                State::Lost if process.exit_status().is_some() => process.handle_end_of_output(),
                State::Lost => process.handle_lost(),
            }
            if report.is_output_ended {
                if now < report.end {
                    process.handle_output_lost(0, report.end, GapReason::Disconnected);
                }
                process.handle_end_of_output();
            }
            if report.members == Some(0) && process.exit_status().is_some() {
                process.handle_group_gone();
            }
            false
        })
    }
}
