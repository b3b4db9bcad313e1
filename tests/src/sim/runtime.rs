//! The runtime: one thread, tasks that are run until none can do anything, then a step of time.

use super::{clock::Clock, net, random::Random};
use async_executor::{Executor, Task};
use hangar_backends::runtime::{Address, BoxFuture, Descriptor, Io, Listener, Runtime, Timer, sleep_until};
use hangar_core::Time;
use std::{
    fmt,
    future::Future,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::fd::OwnedFd,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

/// This many steps without a step of time are a busy loop.
const MAX_STEPS: u64 = 200_000;

/// So is as much work as takes this long, by the clock of the machine, without a step of time.
const MAX_WORK: Duration = Duration::from_secs(10);

/// This many steps of time within one second are one too: time that moves without getting anywhere.
const MAX_JUMPS: u64 = 300_000;

/// A run that lasts longer than this has got stuck: what ticks for ever keeps time moving.
const MAX_TIME: Time = Time::from_nanos(200 * 3600 * 1_000_000_000);

/// A run: its executor, and its runtime.
pub struct Sim {
    executor: Arc<Executor<'static>>,
    runtime: Arc<SimRuntime>,
}

/// The verbs of the runtime. It does not keep the executor alive: tasks own what they run on.
pub struct SimRuntime {
    executor: Weak<Executor<'static>>,
    clock: Arc<Clock>,
    random: Mutex<Random>,
    network: net::Network,
    trace: Arc<Trace>,
    /// Tasks that have not ended.
    tasks: Arc<AtomicUsize>,
    /// Work that blocks, and gets nowhere; None while all of it does.
    held: Mutex<Option<Vec<Work>>>,
}

type Work = Box<dyn FnOnce() + Send>;

/// What happened in a run, and when.
#[derive(Debug)]
pub struct Trace {
    clock: Arc<Clock>,
    lines: Mutex<Vec<String>>,
}

impl Trace {
    /// Notes something.
    pub fn note(&self, what: impl fmt::Display) {
        let now = self.clock.now();
        self.lines.lock().unwrap().push(format!("{now:?} {what}"));
    }

    /// What was noted up to now.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

impl Sim {
    /// A run by a seed. `link` is what connections are like.
    pub fn new(seed: u64, link: net::Link) -> Self {
        let executor = Arc::new(Executor::new());
        let clock = Arc::new(Clock::default());
        let trace = Arc::new(Trace { clock: Arc::clone(&clock), lines: Mutex::default() });
        let mut random = Random::new(seed);
        let network = net::Network::new(Arc::clone(&clock), Arc::clone(&trace), random.fork(), link);
        let runtime = SimRuntime {
            executor: Arc::downgrade(&executor),
            clock,
            random: Mutex::new(random),
            network,
            trace,
            tasks: Arc::default(),
            held: Mutex::default(),
        };
        Self { executor, runtime: Arc::new(runtime) }
    }

    /// Its runtime.
    pub const fn runtime(&self) -> &Arc<SimRuntime> {
        &self.runtime
    }

    /// Runs a future, and all tasks, until the future is done.
    ///
    /// # Panics
    ///
    /// If a task does, if time does not move although tasks run (a busy loop), or if nothing can ever happen any
    /// more although the future is not done.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        let clock = &self.runtime.clock;
        let (mut steps, mut jumps, mut second, mut since) = (0, 0, 0, Instant::now());
        loop {
            if woken.0.swap(false, Ordering::SeqCst) {
                if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return value;
                }
            } else if !self.executor.try_tick() {
                let mut due = clock.advance();
                assert!(!due.is_empty(), "at {:?} everything waits, and for nothing", clock.now());
                assert!(clock.now() < MAX_TIME, "it is {:?}, and nobody is done", clock.now());
                self.runtime.random.lock().unwrap().shuffle(&mut due);
                due.into_iter().for_each(Waker::wake);
                (steps, since) = (0, Instant::now());
                jumps += 1;
                let now = clock.now().as_nanos() / 1_000_000_000;
                if now != second {
                    (second, jumps) = (now, 0);
                }
                assert!(jumps < MAX_JUMPS, "busy loop: {jumps} steps of time in second {second}");
            }
            steps += 1;
            let spins = steps >= MAX_STEPS || steps % 256 == 0 && since.elapsed() > MAX_WORK;
            assert!(!spins, "busy loop: {steps} steps at {:?}", clock.now());
        }
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A task that has not ended.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(tasks: &Arc<AtomicUsize>) -> Self {
        tasks.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(tasks))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl SimRuntime {
    /// Its clock.
    pub const fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    /// Its network.
    pub const fn network(&self) -> &net::Network {
        &self.network
    }

    /// Where it notes what happened.
    pub const fn trace(&self) -> &Arc<Trace> {
        &self.trace
    }

    /// Randomness for another purpose.
    pub fn fork_random(&self) -> Random {
        self.random.lock().unwrap().fork()
    }

    /// Runs a task whose result is of interest. Dropped, it is cancelled.
    pub fn task<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Task<T> {
        self.executor.upgrade().expect("the run goes on").spawn(task)
    }

    /// Runs a task to its end.
    pub fn spawn_detached(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn(Box::pin(task));
    }

    /// How many of the tasks have not ended that are run to their ends.
    pub fn tasks(&self) -> usize {
        self.tasks.load(Ordering::SeqCst)
    }

    /// From now on no work that blocks gets anywhere.
    pub fn hold_blocking(&self) {
        self.held.lock().unwrap().get_or_insert_default();
    }

    /// How much work does not get anywhere.
    pub fn held(&self) -> usize {
        self.held.lock().unwrap().as_ref().map_or(0, Vec::len)
    }

    /// Lets go of all of it.
    pub fn release_blocking(&self) {
        let held = self.held.lock().unwrap().take();
        held.into_iter().flatten().for_each(|work| self.blocking(work));
    }

    /// Waits.
    pub async fn sleep(&self, duration: Duration) {
        sleep_until(self, self.clock.now() + duration).await;
    }
}

impl Runtime for SimRuntime {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn wall_ms(&self) -> i64 {
        self.clock.wall_ms()
    }

    fn random(&self, bytes: &mut [u8]) {
        self.random.lock().unwrap().fill(bytes);
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        if let Some(executor) = self.executor.upgrade() {
            let counted = Counted::new(&self.tasks);
            executor
                .spawn(async move {
                    let _counted = counted;
                    task.await;
                })
                .detach();
        }
    }

    fn blocking(&self, work: Box<dyn FnOnce() + Send>) {
        match &mut *self.held.lock().unwrap() {
            Some(held) => held.push(work),
            None => self.spawn(Box::pin(async move { work() })),
        }
    }

    fn timer(&self, at: Time) -> Pin<Box<dyn Timer>> {
        Box::pin(self.clock.timer(at))
    }

    fn resolve(&self, host: String, port: u16) -> BoxFuture<'_, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move {
            let ip = match host.as_str() {
                "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
                host => host.parse().map_err(|_| io::Error::from(io::ErrorKind::NotFound)),
            };
            Ok(vec![SocketAddr::new(ip?, port)])
        })
    }

    fn listen(&self, address: Address) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let listener: Box<dyn Listener> = Box::new(self.network.listen(address)?);
            Ok(listener)
        })
    }

    fn connect(&self, address: Address) -> BoxFuture<'_, io::Result<Box<dyn Io>>> {
        Box::pin(async move {
            let io: Box<dyn Io> = Box::new(self.network.open(&address)?);
            Ok(io)
        })
    }

    fn watch(&self, _fd: OwnedFd) -> io::Result<Box<dyn Descriptor>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl fmt::Debug for SimRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimRuntime").field("clock", &self.clock).finish_non_exhaustive()
    }
}
