//! One connection, which can be finished gently or aborted.

use super::{Service, Stuck, Upgrade, observed::Observed};
use hangar_backends::{
    Runtime,
    net::io::HttpIo,
    runtime::{Deadline, Io, Timer},
};
use hangar_core::Time;
use hyper::{rt, service::service_fn};
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};
use tokio::io::AsyncWrite as _;

/// What hyper may hold for one connection, for each direction.
const BUFFER: usize = 64 * 1024;

/// The head of the first request has to be there so long after a connection was accepted: who connects has something to ask.
const FIRST_HEAD: Duration = Duration::from_secs(30);

/// A connection as the rest of the server sees it.
pub struct Connection {
    id: u64,
    runtime: Arc<dyn Runtime>,
    finish: AtomicBool,
    abort: AtomicBool,
    /// Since when its socket takes nothing, in nanoseconds of the runtime's clock and one more; 0 while it does.
    blocked_since: AtomicU64,
    /// It is in here meanwhile.
    stuck: Arc<Stuck>,
    /// Requests that were begun.
    answers: AtomicU64,
    /// Answers that look themselves whether their client takes them.
    patient: AtomicUsize,
    /// Its client sends no more, which hyper has not read yet.
    left: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// What it becomes after the answer that is being sent.
    upgrade: Mutex<Option<Box<dyn Upgrade>>>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Connection {
    pub(super) fn new(runtime: Arc<dyn Runtime>, stuck: Arc<Stuck>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            runtime,
            answers: AtomicU64::new(0),
            patient: AtomicUsize::new(0),
            finish: AtomicBool::new(false),
            abort: AtomicBool::new(false),
            left: AtomicBool::new(false),
            blocked_since: AtomicU64::new(0),
            stuck,
            waker: Mutex::new(None),
            upgrade: Mutex::new(None),
        })
    }

    /// It becomes this after the answer that is being sent.
    pub fn upgrade(&self, to: Box<dyn Upgrade>) {
        *self.upgrade.lock().unwrap_or_else(PoisonError::into_inner) = Some(to);
    }

    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// Drops it, whatever is in it: its client gets a reset or an end without an end.
    pub fn abort(&self) {
        self.abort.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Takes no further request, and closes after the answer that is being sent.
    pub fn finish(&self) {
        self.finish.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Whether bytes wait that its client does not take.
    pub fn is_stuck(&self) -> bool {
        self.stuck_since().is_some()
    }

    /// Since when its client takes nothing of what waits.
    pub fn stuck_since(&self) -> Option<Time> {
        self.blocked_since.load(Ordering::SeqCst).checked_sub(1).map(Time::from_nanos)
    }

    /// While this is there, an answer looks itself whether its client takes it: [`Service::UNTAKEN`] does not count.
    pub fn be_patient(self: &Arc<Self>) -> Patience {
        self.patient.fetch_add(1, Ordering::SeqCst);
        Patience(Arc::clone(self))
    }

    /// When it is let go of, if its client takes nothing until then.
    fn untaken_at(&self, patience: Option<Duration>) -> Option<Time> {
        let patience = patience.filter(|_| self.patient.load(Ordering::SeqCst) == 0)?;
        Some(self.stuck_since()? + patience)
    }

    /// How many requests have come: which answer it is at.
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::SeqCst)
    }

    /// Its client has left in the middle of an answer, as hyper would say if it had looked.
    pub(super) fn left(&self) {
        self.left.store(true, Ordering::SeqCst);
    }

    /// hyper looks itself.
    pub(super) fn awaits(&self) {
        self.left.store(false, Ordering::SeqCst);
    }

    pub(super) fn blocked(&self) {
        let now = self.runtime.now();
        let since = now.as_nanos().saturating_add(1);
        // Who is blocked already stays so since then.
        if self.blocked_since.compare_exchange(0, since, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.stuck.insert(self.id, now);
        }
    }

    pub(super) fn accepted(&self) {
        if self.blocked_since.swap(0, Ordering::SeqCst) != 0 {
            self.stuck.remove(self.id);
        }
    }

    fn wake(&self) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.accepted();
    }
}

/// An answer that looks itself whether its client takes it.
#[derive(Debug)]
pub struct Patience(Arc<Connection>);

impl Drop for Patience {
    fn drop(&mut self) {
        self.0.patient.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Serves it to its end.
pub(super) async fn serve<S: Service>(io: Box<dyn Io>, connection: Arc<Connection>, service: Arc<S>) {
    let clock = Clock::new(Arc::clone(&connection.runtime));
    let observed = HttpIo(Observed::new(io, Arc::clone(&connection)));
    let per_request = Arc::clone(&connection);
    let answering = service_fn(move |request| {
        let (service, connection) = (Arc::clone(&service), Arc::clone(&per_request));
        connection.answers.fetch_add(1, Ordering::SeqCst);
        let answer =
            async move { Ok::<_, std::convert::Infallible>(service.answer(request, connection).await) };
        // hyper gives the socket back only where its futures can be moved.
        Box::pin(answer)
    });
    let mut http = hyper::server::conn::http1::Builder::new()
        .timer(clock)
        .header_read_timeout(S::IDLE)
        .max_buf_size(BUFFER)
        .serve_connection(observed, answering);
    let runtime = Arc::clone(&connection.runtime);
    let head_by = runtime.now() + FIRST_HEAD;
    let (mut first_head, mut untaken) = (Some(Deadline::default()), Deadline::default());
    let ended = std::future::poll_fn(|cx| {
        // Before the flags are read: whoever sets one after that wakes this task.
        *connection.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
        if connection.abort.load(Ordering::SeqCst) {
            return Poll::Ready(Ok(false));
        }
        if connection.finish.swap(false, Ordering::SeqCst) {
            Pin::new(&mut http).graceful_shutdown();
        }
        let answers = connection.answers();
        let ended = http.poll_without_shutdown(cx).map_ok(|()| true);
        if ended.is_pending() && connection.left.load(Ordering::SeqCst) {
            if answers == connection.answers() {
                return Poll::Ready(Ok(false));
            }
            // Requests that came before the end are answered, while that takes no waiting.
            cx.waker().wake_by_ref();
        }
        first_head.take_if(|_| connection.answers() > 0);
        if ended.is_pending()
            && let Some(first_head) = &mut first_head
            && first_head.poll(&*runtime, Some(head_by), cx).is_ready()
        {
            return Poll::Ready(Ok(false));
        }
        let untaken_at = connection.untaken_at(S::UNTAKEN);
        if ended.is_pending() && untaken.poll(&*runtime, untaken_at, cx).is_ready() {
            return Poll::Ready(Ok(false));
        }
        ended
    })
    .await;
    let whole = match ended {
        Ok(whole) => whole,
        Err(error) => {
            // A client that leaves in the middle is no fault of anybody's.
            tracing::debug!(%error, "a connection ended early");
            false
        }
    };
    let upgrade = connection.upgrade.lock().unwrap_or_else(PoisonError::into_inner).take();
    if !whole {
        return;
    }
    let parts = http.into_parts();
    let mut io = parts.io.0;
    match upgrade {
        None => drop(std::future::poll_fn(|cx| Pin::new(&mut io).poll_shutdown(cx)).await),
        Some(upgrade) => {
            let mut session = upgrade.begin(Box::new(io), parts.read_buf);
            std::future::poll_fn(|cx| {
                *connection.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
                if connection.abort.load(Ordering::SeqCst) {
                    return Poll::Ready(());
                }
                session.poll(cx)
            })
            .await;
        }
    }
}

/// hyper's timer, from the runtime's: so its timeouts run on the virtual clock of the simulator too.
#[derive(Clone)]
pub(crate) struct Clock {
    runtime: Arc<dyn Runtime>,
    /// What hyper is told that the runtime's start was: only differences from it are ever used.
    start: Instant,
}

impl Clock {
    pub(crate) fn new(runtime: Arc<dyn Runtime>) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "hyper counts in Instants: this is only the zero of them"
        )]
        let start = Instant::now();
        Self { runtime, start }
    }
}

struct Sleep(Pin<Box<dyn Timer>>);

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl rt::Sleep for Sleep {}

impl rt::Timer for Clock {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Sleep(self.runtime.timer(self.runtime.now() + duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        let at = Time::ZERO + deadline.saturating_duration_since(self.start);
        Box::pin(Sleep(self.runtime.timer(at)))
    }

    fn now(&self) -> Instant {
        self.start + self.runtime.now().since(Time::ZERO)
    }
}
