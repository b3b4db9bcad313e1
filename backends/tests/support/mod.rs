//! A runtime for the tests of this crate, and what they say in few words.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part of it")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use async_executor::Executor;
use async_io::Async;
use hangar_backends::{
    Handle, Runtime, Sandbox,
    local::{Config, LocalSandbox},
    runtime::{Address, BoxFuture, Descriptor, Interest, Io, Listener, Timer},
    sandbox::{Command, Spec, StartError, Stdin},
};
use hangar_core::{
    Time,
    log::{Channel, Frame, Item, Reader, Retention},
    process::{self, Exit, Process},
};
use std::{
    collections::BTreeMap,
    fs,
    future::poll_fn,
    io::{self, Read},
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    thread,
    time::{Duration, Instant, SystemTime},
};

/// A runtime on async-executor and async-io with two threads, without sockets.
pub struct TestRuntime {
    executor: Executor<'static>,
    start: Instant,
}

impl TestRuntime {
    /// The one of this test binary.
    pub fn shared() -> Arc<Self> {
        static RUNTIME: OnceLock<Arc<TestRuntime>> = OnceLock::new();
        Arc::clone(RUNTIME.get_or_init(|| Self::start(2)))
    }

    /// One of its own, which a task that blocks can hold up.
    #[expect(clippy::disallowed_methods, reason = "this is a runtime")]
    pub fn start(threads: usize) -> Arc<Self> {
        let runtime = Arc::new(Self { executor: Executor::new(), start: Instant::now() });
        for _ in 0..threads {
            let runtime = Arc::clone(&runtime);
            thread::spawn(move || async_io::block_on(runtime.executor.run(std::future::pending::<()>())));
        }
        runtime
    }

    fn instant(&self, at: Time) -> Instant {
        self.start + Duration::from_nanos(at.as_nanos())
    }
}

impl Runtime for TestRuntime {
    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap())
    }

    #[expect(clippy::disallowed_methods, reason = "this is a runtime")]
    fn wall_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        i64::try_from(since.as_millis()).unwrap()
    }

    fn random(&self, bytes: &mut [u8]) {
        fs::File::open("/dev/urandom").unwrap().read_exact(bytes).unwrap();
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.executor.spawn(task).detach();
    }

    fn blocking(&self, work: Box<dyn FnOnce() + Send>) {
        thread::spawn(work);
    }

    fn timer(&self, at: Time) -> Pin<Box<dyn Timer>> {
        Box::pin(TestTimer { timer: async_io::Timer::at(self.instant(at)), start: self.start })
    }

    fn resolve(&self, _: String, _: u16) -> BoxFuture<'_, io::Result<Vec<SocketAddr>>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }

    fn listen(&self, _: Address) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }

    fn connect(&self, _: Address) -> BoxFuture<'_, io::Result<Box<dyn Io>>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }

    fn watch(&self, fd: OwnedFd) -> io::Result<Box<dyn Descriptor>> {
        Ok(Box::new(TestDescriptor(Async::new(fd)?)))
    }
}

struct TestTimer {
    timer: async_io::Timer,
    start: Instant,
}

impl Timer for TestTimer {
    fn reset(mut self: Pin<&mut Self>, at: Time) {
        let at = self.start + Duration::from_nanos(at.as_nanos());
        self.timer.set_at(at);
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.timer).poll(cx).map(drop)
    }
}

struct TestDescriptor(Async<OwnedFd>);

impl Descriptor for TestDescriptor {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn poll_io(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
        attempt: &mut dyn FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match attempt(self.0.as_fd()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
            ready!(match interest {
                Interest::Readable => self.0.poll_readable(cx),
                Interest::Writable => self.0.poll_writable(cx),
            })?;
        }
    }
}

/// A sandbox whose commands run in `/tmp`.
pub fn sandbox() -> LocalSandbox {
    sandbox_with(Config { directory: Some("/tmp".into()), ..Config::default() })
}

/// A sandbox of its own configuration.
pub fn sandbox_with(config: Config) -> LocalSandbox {
    LocalSandbox::new(TestRuntime::shared(), config)
}

/// A command line, read as a streamed exec reads it.
pub fn shell(line: &str) -> Spec {
    spec(Command::Shell(unique(line)))
}

/// A program and its arguments.
pub fn argv(argv: &[&str]) -> Spec {
    spec(Command::Argv(argv.iter().map(|argument| unique(argument)).collect()))
}

/// `PID` in a command or a path is the number of this test process, so that it is told apart from what an earlier run left.
pub fn unique(text: &str) -> String {
    text.replace("PID", &std::process::id().to_string())
}

fn spec(command: Command) -> Spec {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    Spec {
        id: format!("01TEST{:010}{:010}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)),
        tag: None,
        command,
        cwd: None,
        // Whatever the profile of whoever runs the tests does, it takes its time and is not what is tested.
        env: BTreeMap::from([("HOME".into(), "/nonexistent".into())]),
        user: None,
        stdin: Stdin::None,
        process: process::Config {
            retention: Retention::UntilRead { bytes: 256 * 1024 },
            ..process::Config::default()
        },
    }
}

/// What a process printed, and how it ended.
#[derive(Debug)]
pub struct Ended {
    pub frames: Vec<Frame>,
    pub exit: Exit,
    pub drain_timed_out: bool,
    pub timed_out: bool,
    pub took: Duration,
    pub handle: Arc<Handle>,
}

impl Ended {
    pub fn bytes(&self, channel: Channel) -> Vec<u8> {
        self.frames
            .iter()
            .filter(|frame| frame.channel == channel)
            .flat_map(|frame| frame.data.to_vec())
            .collect()
    }

    pub fn stdout(&self) -> String {
        String::from_utf8(self.bytes(Channel::Stdout)).unwrap()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8(self.bytes(Channel::Stderr)).unwrap()
    }
}

/// Starts a command and reads it to its end.
pub fn run(sandbox: &dyn Sandbox, spec: Spec) -> Ended {
    read(&start(sandbox, spec).unwrap())
}

/// Starts a command.
pub fn start(sandbox: &dyn Sandbox, spec: Spec) -> Result<Arc<Handle>, StartError> {
    async_io::block_on(sandbox.start(spec))
}

/// Reads a process from its first byte to its end.
#[expect(clippy::disallowed_methods, reason = "tests measure")]
pub fn read(handle: &Arc<Handle>) -> Ended {
    let begun = Instant::now();
    let reading = handle.reader();
    let mut reader = handle.command(|process| Reader::oldest(process.log_mut()));
    let mut frames = Vec::new();
    let mut ended = async_io::block_on(poll_fn(|cx| {
        reading.read(cx.waker(), |process| {
            while let Some(item) = reader.take(process.log_mut()) {
                let Item::Frame(frame) = item else { panic!("{item:?}") };
                frames.push(frame);
            }
            let exit = process.exit_status().filter(|_| process.is_over());
            exit.map_or(Poll::Pending, |exit| Poll::Ready(ended(handle, process, exit)))
        })
    }));
    ended.frames = frames;
    ended.took = begun.elapsed();
    ended
}

fn ended(handle: &Arc<Handle>, process: &Process, exit: Exit) -> Ended {
    Ended {
        frames: Vec::new(),
        exit,
        drain_timed_out: process.drain_timed_out(),
        timed_out: process.timed_out(),
        took: Duration::ZERO,
        handle: Arc::clone(handle),
    }
}

/// Waits until `done`, and panics when that takes longer than 20 s. Returns how long it took.
#[expect(clippy::disallowed_methods, reason = "tests measure")]
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        thread::sleep(Duration::from_millis(2));
    }
    begun.elapsed()
}

/// Waits until a process has printed something that has `text` in it. The process must keep what it prints.
pub fn wait_for(handle: &Arc<Handle>, text: &str) {
    wait_until(text, || {
        let mut all = Vec::new();
        handle.command(|process| {
            let mut reader = Reader::oldest(process.log_mut());
            while let Some(Item::Frame(frame)) = reader.take(process.log_mut()) {
                all.extend_from_slice(&frame.data);
            }
        });
        String::from_utf8_lossy(&all).contains(text)
    });
}

/// No pid.
pub const NONE: [i32; 0] = [];

/// The pids of living processes with this command line.
pub fn living(command_line: &str) -> Vec<i32> {
    let cmdline = format!("{}\0", unique(command_line).replace(' ', "\0"));
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|found| found == cmdline.as_bytes())
    })
    .collect()
}

/// A process whose output is kept for any number of readers.
pub fn kept(spec: Spec) -> Spec {
    let process = process::Config { retention: Retention::Ring { bytes: 1 << 20 }, ..spec.process };
    Spec { process, ..spec }
}
