//! An executor, and the threads that run it.

use crate::SmolRuntime;
use async_executor::Executor;
use std::{future::Future, io, sync::Arc, thread};
use tokio::sync::watch;

/// An executor of our own with threads that run its tasks and turn the reactor. Dropping it ends the threads, waits
/// for them, and ends the tasks where they wait.
#[derive(Debug)]
pub struct Threads {
    runtime: SmolRuntime,
    executor: Arc<Executor<'static>>,
    threads: Vec<thread::JoinHandle<()>>,
    /// Its end is the threads' end.
    stop: Option<watch::Sender<()>>,
}

impl Threads {
    /// Starts `count` threads. With none, tasks run inside [`block_on`](Self::block_on) only. The clock of
    /// [`runtime`](Self::runtime) starts now.
    ///
    /// # Errors
    ///
    /// What the system says when it has no threads left.
    pub fn new(count: usize) -> io::Result<Self> {
        let executor = Arc::new(Executor::new());
        let (stop, stopped) = watch::channel(());
        let mut this =
            Self { runtime: SmolRuntime::new(&executor), executor, threads: Vec::new(), stop: Some(stop) };
        for _ in 0..count {
            let (executor, mut stopped) = (this.executor.clone(), stopped.clone());
            let run =
                move || async_io::block_on(executor.run(async { while stopped.changed().await.is_ok() {} }));
            this.threads.push(thread::Builder::new().name("hangar-smol".into()).spawn(run)?);
        }
        Ok(this)
    }

    /// The verbs, for whoever needs them. It does not keep the executor alive.
    pub fn runtime(&self) -> SmolRuntime {
        self.runtime.clone()
    }

    /// Runs `future` on this thread, and tasks while it waits.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        async_io::block_on(self.executor.run(future))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop = None;
        for thread in self.threads.drain(..) {
            // In a task it is dropped on one of them.
            if thread.thread().id() != thread::current().id() {
                // Tasks that panic do not reach the thread, and there is nobody to tell.
                drop(thread.join());
            }
        }
    }
}
