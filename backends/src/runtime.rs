//! What a runtime must offer.
//!
//! Implemented for tokio (`hangar`), for smol (`hangar-smol`) and for the virtual clock of the simulator
//! (`hangar-tests`). An embedder brings its own executor by the same trait. Nothing here has an effect on the whole
//! process: signal handlers, limits and reapers belong to the binaries.
//!
//! tokio's IO *traits* are the neutral ones here: they need no tokio runtime, and hyper, tungstenite and rustls run
//! over them.

use hangar_core::Time;
use std::{
    fmt,
    future::Future,
    io,
    net::SocketAddr,
    os::fd::{BorrowedFd, OwnedFd},
    path::PathBuf,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Notify,
};

/// A future of the runtime. Boxed once per task or call, never per message.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The verbs of a runtime.
pub trait Runtime: Send + Sync + 'static {
    /// The monotonic clock, from a start of the runtime's choice.
    fn now(&self) -> Time;

    /// The wall clock: milliseconds since 1970. It may jump.
    fn wall_ms(&self) -> i64;

    /// Fills `bytes` with random ones that nobody can guess.
    fn random(&self, bytes: &mut [u8]);

    /// Runs a task to its end, whoever waits for it.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// Runs work that blocks, away from the tasks.
    fn blocking(&self, work: Box<dyn FnOnce() + Send>);

    /// A timer that is ready at `at`.
    fn timer(&self, at: Time) -> Pin<Box<dyn Timer>>;

    /// The addresses of a host.
    fn resolve(&self, host: String, port: u16) -> BoxFuture<'_, io::Result<Vec<SocketAddr>>>;

    /// A listening socket.
    fn listen(&self, address: Address) -> BoxFuture<'_, io::Result<Box<dyn Listener>>>;

    /// A connection: with `TCP_NODELAY`, where it is TCP.
    fn connect(&self, address: Address) -> BoxFuture<'_, io::Result<Box<dyn Io>>>;

    /// Readiness of a descriptor: a pipe, a terminal, a pidfd. It is made non-blocking.
    fn watch(&self, fd: OwnedFd) -> io::Result<Box<dyn Descriptor>>;
}

/// Where a socket listens or connects to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Address {
    /// TCP.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A timer that can be moved.
pub trait Timer: Send + Sync {
    /// Makes it ready at `at` instead. A poll must follow.
    fn reset(self: Pin<&mut Self>, at: Time);

    /// Whether it is ready. The last waker is the one that is woken. A timer may be late and says nothing about the
    /// clock: decide by [`Runtime::now`].
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;
}

/// A connected socket.
pub trait Io: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Io for T {}

/// A listening socket.
pub trait Listener: Send {
    /// The next connection: with `TCP_NODELAY`, and looked after by [`KEEP_ALIVE`], where it is TCP.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Io>>>;

    /// Where it listens; the port that the system chose, where 0 was asked for.
    fn address(&self) -> &Address;
}

/// How the system finds out that the peer of an idle socket is gone without a word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeepAlive {
    /// Without a packet for this long, the peer is asked.
    pub idle: Duration,
    /// Between two questions.
    pub interval: Duration,
    /// After so many without an answer it is dead.
    pub probes: u32,
}

/// Two minutes. A peer that is there and does not read answers, for as long as it likes: `TCP_USER_TIMEOUT` would end
/// that, too. While sent bytes are not acknowledged the system asks nobody; it gives up sending them after `tcp_retries2`,
/// some 15 minutes.
pub const KEEP_ALIVE: KeepAlive =
    KeepAlive { idle: Duration::from_secs(60), interval: Duration::from_secs(15), probes: 4 };

/// What a descriptor is waited for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Interest {
    /// Something to read, or the end.
    Readable,
    /// Room to write.
    Writable,
}

/// A descriptor whose readiness can be awaited. One task polls it for each interest.
pub trait Descriptor: Send + Sync {
    /// The descriptor.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Calls `attempt` when the descriptor may be ready; waits again when that says `WouldBlock`, and returns
    /// everything else, errors included.
    fn poll_io(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
        attempt: &mut dyn FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>>;
}

/// A timer that is made when it is first needed, and moved after that.
#[derive(Default)]
pub struct Deadline {
    timer: Option<Pin<Box<dyn Timer>>>,
    at: Option<Time>,
}

impl Deadline {
    /// Ready once the runtime's clock has reached `at`; never for None. Decides by the clock, so a timer that fires
    /// early is waited for again and one that never fires is not believed.
    ///
    /// A timer that is set for an earlier time is left as it is, and set again when it fires: a deadline that is put
    /// off with every message, as a keep-alive is, moves no timer and wakes no reactor for it.
    pub fn poll(&mut self, runtime: &dyn Runtime, at: Option<Time>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = at else { return Poll::Pending };
        while runtime.now() < at {
            let timer = self.timer.get_or_insert_with(|| runtime.timer(at));
            let armed = self.at.filter(|armed| *armed <= at);
            if armed.is_none() {
                timer.as_mut().reset(at);
            }
            self.at = armed.or(Some(at));
            ready!(timer.as_mut().poll(cx));
            // It fired. Before the time, it has to be set again.
            self.at = None;
        }
        Poll::Ready(())
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadline").field("at", &self.at).finish_non_exhaustive()
    }
}

/// Waits until `at`.
pub async fn sleep_until(runtime: &dyn Runtime, at: Time) {
    let mut deadline = Deadline::default();
    std::future::poll_fn(|cx| deadline.poll(runtime, Some(at), cx)).await;
}

/// Waits for `future`, but no longer than until `at`; None when that came first.
pub async fn until<T>(runtime: &dyn Runtime, at: Time, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut deadline = Deadline::default();
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => deadline.poll(runtime, Some(at), cx).map(|()| None),
    })
    .await
}

/// Waits until `is_empty`; `left` is told whenever something has left.
pub async fn emptied(left: &Notify, is_empty: impl Fn() -> bool) {
    loop {
        let mut next = std::pin::pin!(left.notified());
        // From here on none is missed.
        next.as_mut().enable();
        if is_empty() {
            return;
        }
        next.await;
    }
}

/// Runs `work` away from the tasks, and waits for what it gives. None if it panicked or the runtime ended.
pub async fn blocking<T: Send + 'static>(
    runtime: &dyn Runtime,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = tokio::sync::oneshot::channel();
    runtime.blocking(Box::new(move || {
        // Nobody waits any more: there is nobody to tell.
        drop(done.send(work()));
    }));
    result.await.ok()
}
