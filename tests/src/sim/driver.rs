//! The task of one command: it feeds the process machine as the driver of a real sandbox does.

use super::{family::Family, sandbox::Shared};
use hangar_backends::{Handle, Runtime, runtime::Deadline};
use hangar_core::{
    Time,
    process::{Output, Signal, Target},
};
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// The task of one process.
pub(super) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) handle: Arc<Handle>,
    pub(super) family: Family,
    deadline: Deadline,
    closed: bool,
    swept_at: Option<Time>,
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, handle: Arc<Handle>, family: Family) -> Self {
        Self { shared, handle, family, deadline: Deadline::default(), closed: false, swept_at: None }
    }

    /// One round. Returns whether there may be more to do, or else when there is.
    fn round(&mut self, cx: &Context<'_>) -> Result<(), Option<Time>> {
        let now = self.shared.runtime.now();
        let ts_ms = self.shared.runtime.wall_ms();
        let (shared, family, closed) = (&self.shared, &mut self.family, &mut self.closed);
        let swept_at = &mut self.swept_at;
        let (local, running) = shared.local_time();
        let note = |what: &str| shared.note(self.handle.id(), what);
        self.handle.drive(cx.waker(), |process| {
            shared.record(self.handle.id(), |record| match process.poll_output(now) {
                Output::Terminate => {
                    note("is terminated");
                    record.terminated_at.push(now);
                    family.watch();
                    family.signal(Signal::TERM, Target::Group, local, process, record);
                    Ok(())
                }
                Output::Sweep => {
                    note("is swept");
                    record.swept_at.push(now);
                    family.signal(Signal::KILL, Target::Group, local, process, record);
                    *swept_at = Some(now + family.sweep_delay);
                    Ok(())
                }
                Output::Signal { signal, to } => {
                    family.signal(signal, to, local, process, record);
                    Ok(())
                }
                Output::Resize(_) => Ok(()),
                Output::Closed => {
                    *closed = true;
                    Ok(())
                }
                Output::Wait(at) => {
                    let mut at: Vec<Time> = at.into_iter().collect();
                    if let Some(swept) = *swept_at {
                        if now >= swept {
                            *swept_at = None;
                            process.handle_swept();
                            return Ok(());
                        }
                        at.push(swept);
                    }
                    if family.step(local, running, ts_ms, process, record) {
                        return Ok(());
                    }
                    at.extend(family.next().filter(|_| running).map(|next| shared.global(next)));
                    Err(at.into_iter().min())
                }
            })
        })
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            let wait = this.round(cx);
            if this.closed && this.family.is_gone() {
                this.shared.release(&this.handle);
                return Poll::Ready(());
            }
            if let Err(at) = wait
                && this.deadline.poll(&*this.shared.runtime, at, cx).is_pending()
            {
                return Poll::Pending;
            }
        }
    }
}
