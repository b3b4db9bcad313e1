//! The verbs of a runtime, by smol's.

use crate::{fd, net};
use async_executor::Executor;
use hangar_backends::{
    pool::Pool,
    runtime::{Address, BoxFuture, Descriptor, Io, Listener, Runtime, Timer, blocking},
};
use hangar_core::Time;
use std::{
    fmt,
    future::Future as _,
    io,
    net::{SocketAddr, ToSocketAddrs as _},
    os::fd::OwnedFd,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// The verbs of a runtime, on an executor of smol's. Cheap to clone; the clones share a clock.
///
/// It does not keep the executor alive: tasks own what they run on, and would keep themselves. Once the executor is
/// gone, tasks are dropped instead of run; timers and sockets live on with async-io's reactor.
#[derive(Clone)]
pub struct SmolRuntime {
    executor: Weak<Executor<'static>>,
    pool: Arc<Pool>,
    start: Instant,
}

impl SmolRuntime {
    /// On `executor`, which the caller keeps and runs: by `async_io::block_on(executor.run(..))`. Its clock starts
    /// now, and a thread for work that blocks.
    pub fn new(executor: &Arc<Executor<'static>>) -> Self {
        // Where the system has no thread yet, that is tried again with each work.
        let (pool, _) = Pool::new();
        Self { executor: Arc::downgrade(executor), pool: Arc::new(pool), start: Instant::now() }
    }

    fn instant(&self, at: Time) -> Instant {
        self.start + at.since(Time::ZERO)
    }
}

impl fmt::Debug for SmolRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmolRuntime").field("start", &self.start).finish_non_exhaustive()
    }
}

impl Runtime for SmolRuntime {
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
        if let Some(executor) = self.executor.upgrade() {
            executor.spawn(task).detach();
        }
    }

    fn blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.pool.run(work);
    }

    fn timer(&self, at: Time) -> Pin<Box<dyn Timer>> {
        let timer = async_io::Timer::at(self.instant(at));
        Box::pin(SmolTimer { timer, fired: false, runtime: self.clone() })
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
        Ok(Box::new(fd::Watched::new(fd)?))
    }
}

/// async-io's timer fires once and is never ready again; this one stays ready.
struct SmolTimer {
    timer: async_io::Timer,
    fired: bool,
    runtime: SmolRuntime,
}

impl Timer for SmolTimer {
    fn reset(mut self: Pin<&mut Self>, at: Time) {
        let at = self.runtime.instant(at);
        self.timer.set_at(at);
        self.fired = false;
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.fired = self.fired || Pin::new(&mut self.timer).poll(cx).is_ready();
        if self.fired { Poll::Ready(()) } else { Poll::Pending }
    }
}
