//! The verbs of a runtime, by tokio's.

use crate::{fd, net};
use hangar_backends::{
    pool::Pool,
    runtime::{Address, BoxFuture, Descriptor, Io, Listener, Runtime, Timer, blocking},
};
use hangar_core::Time;
use std::{
    fmt,
    future::Future,
    io,
    net::{SocketAddr, ToSocketAddrs as _},
    os::fd::OwnedFd,
    panic,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::{runtime::Handle, time::Sleep};

/// A tokio runtime of our own: multi-threaded, a worker thread for each processor. Dropping it ends the tasks where
/// they wait, and waits for work that blocks: from outside of the runtime only.
#[derive(Debug)]
pub struct Threads {
    tokio: tokio::runtime::Runtime,
    runtime: TokioRuntime,
    waits: Waits,
}

/// Dropped, it waits for work that blocks.
#[derive(Debug)]
struct Waits {
    pool: Arc<Pool>,
    limit: Duration,
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.pool.close(self.limit);
    }
}

impl Threads {
    /// Starts the threads. The clock of [`runtime`](Self::runtime) starts now.
    ///
    /// # Errors
    ///
    /// What the system says when it has no threads or descriptors left.
    pub fn new() -> io::Result<Self> {
        let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("hangar").build()?;
        let (pool, started) = Pool::new();
        started?;
        let runtime = TokioRuntime::on(tokio.handle().clone(), pool);
        let waits = Waits { pool: Arc::clone(&runtime.pool), limit: Duration::MAX };
        Ok(Self { tokio, runtime, waits })
    }

    /// The verbs, for whoever needs them. It does not keep the threads alive.
    pub fn runtime(&self) -> TokioRuntime {
        self.runtime.clone()
    }

    /// Runs `future` on this thread, beside the tasks.
    ///
    /// # Panics
    ///
    /// On a thread that already runs tasks.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.tokio.block_on(future)
    }

    /// Runs `future` as a task, and waits for it. With [`block_on`](Self::block_on) everything that the future waits
    /// for, and every task that it starts, costs a switch between this thread and a worker; not so here.
    pub fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        match self.tokio.block_on(self.tokio.spawn(future)) {
            Ok(value) => value,
            // Tasks are cancelled at the end of the runtime only, which outlives this call.
            Err(error) => panic::resume_unwind(error.into_panic()),
        }
    }

    /// Ends the tasks where they wait, and waits for work that blocks no longer than `limit`.
    pub fn shutdown(mut self, limit: Duration) {
        self.waits.limit = limit;
        self.tokio.shutdown_timeout(limit);
    }
}

/// The verbs of a runtime, on tokio. Cheap to clone; the clones share a clock.
///
/// Futures that it gives are awaited in tasks of the same tokio, or in its `block_on`. Once that has ended, tasks are
/// dropped instead of run, and sockets and timers panic as tokio's do.
#[derive(Clone)]
pub struct TokioRuntime {
    handle: Handle,
    pool: Arc<Pool>,
    start: Instant,
}

impl TokioRuntime {
    /// On the tokio behind `handle`, which needs its IO and its time enabled. Its clock starts now, and a thread for
    /// work that blocks.
    pub fn new(handle: Handle) -> Self {
        // Without a thread that work is done where it is given, until there is one.
        let (pool, _) = Pool::new();
        Self::on(handle, pool)
    }

    fn on(handle: Handle, pool: Pool) -> Self {
        Self { handle, pool: Arc::new(pool), start: Instant::now() }
    }

    /// On the tokio that runs this.
    ///
    /// # Panics
    ///
    /// Outside of tokio.
    pub fn current() -> Self {
        Self::new(Handle::current())
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    fn instant(&self, at: Time) -> tokio::time::Instant {
        (self.start + at.since(Time::ZERO)).into()
    }
}

impl fmt::Debug for TokioRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokioRuntime").field("start", &self.start).finish_non_exhaustive()
    }
}

impl Runtime for TokioRuntime {
    fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    fn wall_ms(&self) -> i64 {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
    }

    fn random(&self, bytes: &mut [u8]) {
        // Without them every token could be guessed: there is nothing to go on with.
        getrandom::fill(bytes).expect("the system has random bytes");
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        drop(self.handle.spawn(task));
    }

    fn blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.pool.run(work);
    }

    fn timer(&self, at: Time) -> Pin<Box<dyn Timer>> {
        let _context = self.handle.enter();
        let sleep = Box::pin(tokio::time::sleep_until(self.instant(at)));
        Box::pin(TokioTimer { sleep, runtime: self.clone() })
    }

    fn resolve(&self, host: String, port: u16) -> BoxFuture<'_, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move {
            let found = blocking(self, move || Ok((host, port).to_socket_addrs()?.collect())).await;
            found.unwrap_or_else(|| Err(io::Error::other("the runtime has ended")))
        })
    }

    fn listen(&self, address: Address) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        Box::pin(net::listen(self, address))
    }

    fn connect(&self, address: Address) -> BoxFuture<'_, io::Result<Box<dyn Io>>> {
        Box::pin(net::connect(address))
    }

    fn watch(&self, fd: OwnedFd) -> io::Result<Box<dyn Descriptor>> {
        let _context = self.handle.enter();
        Ok(Box::new(fd::Watched::new(fd)?))
    }
}

/// Late by up to a millisecond, tokio's resolution.
struct TokioTimer {
    sleep: Pin<Box<Sleep>>,
    runtime: TokioRuntime,
}

impl Timer for TokioTimer {
    fn reset(mut self: Pin<&mut Self>, at: Time) {
        let at = self.runtime.instant(at);
        self.sleep.as_mut().reset(at);
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.sleep.as_mut().poll(cx)
    }
}
