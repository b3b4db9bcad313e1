//! What every start of a process has in common: a task of its own, and somebody who asked and may go away.

use crate::{Handle, Runtime, sandbox::StartError};
use hangar_core::process::StartFailure;
use std::{future::Future, sync::Arc, task::Waker};
use tokio::sync::oneshot;

/// Who asked for a start.
#[derive(Debug)]
pub struct Starting(oneshot::Sender<Result<Arc<Handle>, StartError>>);

/// Runs a start, and what follows it, as a task: whoever asked may go away while the process is being started.
pub async fn start<F>(
    runtime: &dyn Runtime,
    task: impl FnOnce(Starting) -> F,
) -> Result<Arc<Handle>, StartError>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (tell, told) = oneshot::channel();
    runtime.spawn(Box::pin(task(Starting(tell))));
    told.await.unwrap_or_else(|_| Err(StartError::Broken("the server is ending".to_owned())))
}

impl Starting {
    /// Says what came of it. A process whose starter went away is ended: nobody knows what to know it by.
    pub fn tell(self, handle: &Arc<Handle>, result: Result<(), StartError>) {
        if self.0.send(result.map(|()| Arc::clone(handle))).is_err() {
            handle.command(|process| {
                process.abandon_output();
                process.kill();
            });
        }
    }
}

/// A command that is at fault itself: it is a process that has ended.
pub fn fail(runtime: &dyn Runtime, handle: &Handle, failure: &StartFailure) {
    let (now, ts_ms) = (runtime.now(), runtime.wall_ms());
    handle.drive(Waker::noop(), |process| {
        process.handle_start_failed(failure, ts_ms);
        process.poll_output(now)
    });
}
