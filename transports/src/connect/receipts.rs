//! Output that is kept until its client says that it has it (`Hangar-Retention: until-acknowledged`).
//!
//! What was written to a stream may be in the buffers of two systems, and of what is between them, and is lost with the
//! connection. So a process that was started so has a seat in its own log, at the byte up to which its client has
//! acknowledged: nothing behind that is forgotten, and the process waits as for any reader. Its streams are not waited for.

use super::Daemon;
use hangar_backends::{Handle, Runtime, runtime::until};
use hangar_core::{
    Time,
    audience::{Hold, Seat},
    log::{CursorAhead, Reader},
    wire::{
        connect::{Code, RpcError},
        envd::process::{AcknowledgeRequest, Empty},
    },
};
use std::{
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// How long it is kept for a client that has no stream about the process, and acknowledges nothing.
const AWAY: Duration = Duration::from_secs(600);

/// Of one that has ended, what may be taken for acknowledged: it is kept as the output of others is.
const LITTLE: u64 = 64 * 1024;

/// What the client of one process has.
pub(super) struct Receipts {
    handle: Arc<Handle>,
    runtime: Arc<dyn Runtime>,
    state: Mutex<State>,
    acknowledged: Notify,
}

struct State {
    /// At what it does not have yet; None once it is not waited for any more.
    seat: Option<Seat>,
    /// Streams about the process.
    streams: usize,
    /// Since when there is none.
    left_at: Time,
}

/// A stream about a process. Dropped, it is over.
pub(super) struct Streaming(Arc<Receipts>);

impl Receipts {
    /// Of a process that has just been started, and that nobody follows yet.
    pub(super) fn new(handle: &Arc<Handle>, runtime: &Arc<dyn Runtime>) -> Arc<Self> {
        let seat = handle.command(|process| {
            let reader = Reader::oldest_kept(process.log());
            process.seat(reader, Hold::Always)
        });
        let state = State { seat: Some(seat), streams: 0, left_at: runtime.now() };
        Arc::new(Self {
            handle: Arc::clone(handle),
            runtime: Arc::clone(runtime),
            state: Mutex::new(state),
            acknowledged: Notify::new(),
        })
    }

    /// One more stream.
    pub(super) fn stream(self: &Arc<Self>) -> Streaming {
        self.lock().streams += 1;
        Streaming(Arc::clone(self))
    }

    /// The client has everything before this byte, and is there.
    fn acknowledge(&self, offset: u64) -> Result<(), CursorAhead> {
        self.handle.command(|process| {
            let mut state = self.lock();
            state.left_at = self.runtime.now();
            let Some(before) = state.seat.as_ref().filter(|seat| seat.reader().offset() < offset) else {
                return Ok(());
            };
            let reader = Reader::at_offset(process.log_mut(), offset)?;
            let after = process.seat(reader, Hold::Always);
            process.leave(before);
            state.seat = Some(after);
            Ok(())
        })?;
        self.acknowledged.notify_waiters();
        Ok(())
    }

    /// When the client is waited for no longer, if it does not come back; None where it is not any more.
    fn gives_up_at(&self) -> Option<Time> {
        let state = self.lock();
        let left_at = if state.streams == 0 { state.left_at } else { self.runtime.now() };
        state.seat.is_some().then(|| left_at + AWAY)
    }

    /// Waits for it no longer, where it has been away for so long.
    fn give_up_if_due(&self) {
        self.handle.command(|process| {
            let mut state = self.lock();
            let is_away = state.streams == 0 && self.runtime.now().since(state.left_at) >= AWAY;
            if let Some(seat) = state.seat.take_if(|_| is_away) {
                process.leave(&seat);
            }
        });
    }

    /// Waits for `over`, and meanwhile for the client.
    pub(super) async fn wait_until(&self, over: impl Future<Output = ()>) {
        let mut over = pin!(over);
        while let Some(at) = self.gives_up_at() {
            if until(&*self.runtime, at, over.as_mut()).await.is_some() {
                return;
            }
            self.give_up_if_due();
        }
        over.await;
    }

    /// Of one that has ended: waits until its client has almost all, or is not waited for any more.
    pub(super) async fn settled(&self) {
        loop {
            let mut acknowledged = pin!(self.acknowledged.notified());
            acknowledged.as_mut().enable();
            let Some(at) = self.gives_up_at().filter(|_| self.left() > LITTLE) else { return };
            until(&*self.runtime, at, acknowledged).await;
            self.give_up_if_due();
        }
    }

    /// Bytes that the client does not have.
    fn left(&self) -> u64 {
        self.handle.look(|process| {
            let state = self.lock();
            state.seat.as_ref().map_or(0, |seat| process.log().end_offset() - seat.reader().offset())
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.streams -= 1;
        state.left_at = self.0.runtime.now();
    }
}

/// A client has some of the output of a process.
pub(super) fn acknowledge(daemon: &Daemon, request: AcknowledgeRequest) -> Result<Empty, RpcError> {
    let entry = daemon.find(request.process)?;
    let receipts = entry.receipts.as_ref().ok_or_else(|| {
        let message = "process: it was not started with `Hangar-Retention: until-acknowledged`";
        RpcError::new(Code::FailedPrecondition, message)
    })?;
    let ahead = |ahead: CursorAhead| RpcError::new(Code::OutOfRange, format!("offset: {ahead}"));
    receipts.acknowledge(request.offset).map_err(ahead)?;
    Ok(Empty {})
}
