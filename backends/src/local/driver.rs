//! The task of one process: it owns the descriptors, and feeds the [`Process`].

use super::{
    Shared,
    kill::{Event, Killer},
    pty, reaper,
    spawn::{Started, start_error},
};
use crate::{
    Handle,
    runtime::{Deadline, Descriptor, Interest, blocking},
    sandbox::StartError,
};
use hangar_core::{
    Time,
    log::Channel,
    process::{Exit, Output, Process, Signal},
};
use rustix::{
    io::{Errno, read, retry_on_intr, write},
    pipe::fcntl_setpipe_size,
};
use std::{
    cell::Cell,
    future::Future,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// Reads and writes of one poll; after those the other tasks have their turn.
const BUDGET: u32 = 16;
/// Bytes that a pipe holds at first.
const PIPE: usize = 64 * 1024;
/// So many reads in a row of all that it holds make a pipe larger.
const FULL_READS: u32 = 16;
/// Bytes that it holds then, and bytes of one read.
const LARGE_PIPE: usize = 256 * 1024;

thread_local! {
    /// For reading. One a thread, so that an idle process costs none.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Drives one process to its end.
pub(super) struct Driver {
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    pid: i32,
    /// None once it was reaped.
    leader: Option<Box<dyn Descriptor>>,
    stdin: Option<Box<dyn Descriptor>>,
    /// Our side of its terminal, for its size.
    tty: Option<OwnedFd>,
    outputs: Vec<Source>,
    /// Which output is read first the next time: neither may starve the other.
    turn: usize,
    killer: Killer,
    deadline: Deadline,
    /// When its machine has something to do, beside what happens.
    due_at: Option<Time>,
    /// Descriptors are tried whether they are said to be ready or not.
    eager: bool,
    closed: bool,
}

/// An open output.
struct Source {
    channel: Channel,
    descriptor: Box<dyn Descriptor>,
    /// Reads in a row that took as much as a pipe holds.
    full: u32,
}

impl Source {
    /// Notes how much a read gave. A command that fills its pipe again and again waits for each read: a larger pipe
    /// lets it run on meanwhile, at half the switches between the two. Only then, as the system counts what a user's
    /// pipes may hold.
    fn read(&mut self, len: usize) {
        self.full = if len >= PIPE { self.full + 1 } else { 0 };
        if self.full == FULL_READS
            && let Err(error) = fcntl_setpipe_size(self.descriptor.fd(), LARGE_PIPE)
        {
            tracing::debug!(channel = self.channel.name(), %error, "its pipe stays as it is");
        }
    }
}

/// What the machine says, all read under one lock.
struct Step {
    output: Output,
    room: usize,
    has_stdin: bool,
}

impl Step {
    fn of(process: &mut Process, now: Time) -> Self {
        let output = process.poll_output(now);
        let has_stdin = process.stdin().is_some() || process.wants_stdin_end();
        Self { output, room: process.wants_output(), has_stdin }
    }
}

impl Driver {
    /// Takes over a child that has just been started. If its descriptors cannot be watched it is ended.
    pub(super) async fn new(
        shared: &Arc<Shared>,
        handle: &Arc<Handle>,
        started: Started,
    ) -> Result<Self, StartError> {
        let pid = started.leader.pid;
        match Self::watch(shared, handle, started) {
            Ok(driver) => Ok(driver),
            Err(error) => {
                blocking(&*shared.runtime, move || reaper::end_leader(pid)).await;
                Err(start_error(&error))
            }
        }
    }

    /// The number of the leader.
    pub(super) const fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    fn watch(shared: &Arc<Shared>, handle: &Arc<Handle>, started: Started) -> io::Result<Self> {
        let watch = |fd| shared.runtime.watch(fd);
        let source = |(channel, fd)| Ok(Source { channel, descriptor: watch(fd)?, full: 0 });
        Ok(Self {
            pid: started.leader.pid,
            leader: Some(watch(started.pidfd)?),
            stdin: started.stdin.map(watch).transpose()?,
            outputs: started.outputs.into_iter().map(source).collect::<io::Result<_>>()?,
            tty: started.tty,
            turn: 0,
            killer: Killer::new(handle.id().to_owned(), started.leader, started.session),
            deadline: Deadline::default(),
            due_at: None,
            eager: false,
            closed: false,
            shared: Arc::clone(shared),
            handle: Arc::clone(handle),
        })
    }

    /// Reads what is there and there is room for, from each output in turn. Returns whether the machine has to be
    /// asked again.
    fn read(&mut self, cx: &mut Context<'_>, mut room: usize, budget: &mut u32) -> bool {
        if room == 0 || self.outputs.is_empty() {
            return false;
        }
        // Taken out, because a waker that is woken below may be anything.
        let mut buffer = BUFFER.take();
        buffer.resize(LARGE_PIPE, 0);
        let mut ask = false;
        let mut waiting = 0;
        while room > 0 && *budget > 0 && waiting < self.outputs.len() {
            self.turn %= self.outputs.len();
            let Source { channel, descriptor, .. } = &self.outputs[self.turn];
            let len = room.min(LARGE_PIPE);
            let buffer = &mut buffer[..len];
            let attempt = &mut |fd: BorrowedFd<'_>| Ok(retry_on_intr(|| read(fd, &mut *buffer))?);
            match poll_readable(&**descriptor, cx, self.eager, attempt) {
                Poll::Pending => {
                    waiting += 1;
                    self.turn += 1;
                }
                Poll::Ready(Ok(len @ 1..)) => {
                    let ts_ms = self.shared.runtime.wall_ms();
                    ask |= self.handle.drive(cx.waker(), |process| {
                        process.handle_output(*channel, ts_ms, &buffer[..len]);
                        room = process.wants_output();
                        // After the exit the time to drain depends on the room.
                        process.exit_status().is_some() || process.wants_poll()
                    });
                    self.outputs[self.turn].read(len);
                    *budget -= 1;
                    waiting = 0;
                    self.turn += 1;
                }
                Poll::Ready(end) => {
                    // EIO is how a terminal says that nobody has it open any more.
                    if let Err(error) = end
                        && error.raw_os_error() != Some(Errno::IO.raw_os_error())
                    {
                        tracing::debug!(process.id = self.handle.id(), channel = channel.name(), %error, "output");
                    }
                    self.outputs.swap_remove(self.turn);
                    if self.outputs.is_empty() {
                        self.handle.drive(cx.waker(), Process::handle_end_of_output);
                        ask = true;
                    }
                    waiting = 0;
                }
            }
        }
        BUFFER.set(buffer);
        if waiting == self.outputs.len() {
            // All was read. Of what comes next, standard output is more often what was printed first.
            self.turn = 0;
        }
        ask
    }

    /// Writes what waits, and closes the input when its end has come.
    fn write(&mut self, cx: &mut Context<'_>, budget: &mut u32) {
        while let Some(stdin) = &self.stdin
            && *budget > 0
        {
            *budget -= 1;
            let state = self.handle.drive(cx.waker(), |process| {
                let result = match process.stdin() {
                    // Not blocking, and a pipe's worth at most: short enough to keep the lock, and nothing is copied.
                    Some(data) => stdin
                        .poll_io(cx, Interest::Writable, &mut |fd| Ok(retry_on_intr(|| write(fd, data))?)),
                    None if process.wants_stdin_end() => Poll::Ready(Ok(0)),
                    None => Poll::Pending,
                };
                match result {
                    Poll::Ready(Ok(len @ 1..)) => process.handle_stdin_written(len),
                    // Its end, or nobody reads it any more.
                    Poll::Ready(_) => process.handle_stdin_closed(),
                    Poll::Pending => {}
                }
                result
            });
            match state {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(_) => self.stdin = None,
                Poll::Pending => return,
            }
        }
    }

    /// Waits for the leader. Returns whether it has ended just now.
    fn reap(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(leader) = &self.leader else { return false };
        let mut exit = None;
        let attempt = &mut |_: BorrowedFd<'_>| {
            exit = reaper::reap_leader(self.pid)?;
            if exit.is_some() { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) }
        };
        let Poll::Ready(result) = poll_readable(&**leader, cx, self.eager, attempt) else { return false };
        if let Err(error) = result {
            tracing::warn!(process.id = self.handle.id(), %error, "how it ended is not known");
        }
        self.leader = None;
        self.stdin = None;
        self.killer.handle_reaped(self.shared.runtime.now());
        let exit = exit.unwrap_or(Exit::Unknown);
        self.handle.drive(cx.waker(), |process| process.handle_exit(exit));
        true
    }

    /// Looks at what has happened, before a deadline is acted on: where the whole server was stopped or starved, that may
    /// have been long before.
    fn catch_up(&mut self, now: Time, cx: &mut Context<'_>, budget: &mut u32) {
        if self.due_at.take_if(|at| now >= *at).is_some() {
            let room = self.handle.drive(cx.waker(), |process| process.wants_output());
            // A runtime that was held up may tell of timers before it has looked at its descriptors.
            self.eager = true;
            self.read(cx, room, budget);
            self.reap(cx);
            self.eager = false;
        }
    }

    /// Goes on with its end. Returns whether the machine was told something.
    fn kill(&mut self, cx: &mut Context<'_>) -> bool {
        let event = self.killer.poll(&self.shared.scanner, self.shared.runtime.now(), cx);
        let Poll::Ready(event) = event else { return false };
        self.handle.drive(cx.waker(), |process| match event {
            Event::GroupGone => process.handle_group_gone(),
            Event::Swept => process.handle_swept(),
        });
        true
    }
}

/// Tries to read, `eager` even where the descriptor is not known to be ready.
fn poll_readable(
    descriptor: &dyn Descriptor,
    cx: &mut Context<'_>,
    eager: bool,
    attempt: &mut dyn FnMut(BorrowedFd<'_>) -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    if eager {
        match attempt(descriptor.fd()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return Poll::Ready(result),
        }
    }
    descriptor.poll_io(cx, Interest::Readable, attempt)
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut budget = BUDGET;
        loop {
            let now = this.shared.runtime.now();
            this.catch_up(now, cx, &mut budget);
            let Step { output, room, has_stdin } =
                this.handle.drive(cx.waker(), |process| Step::of(process, now));
            let at = match output {
                Output::Wait(at) => at,
                Output::Terminate => {
                    if this.shared.lock().paused.is_some() {
                        // To hear TERM they would have to be continued. Nobody is asked: the sweep is next.
                        this.handle.drive(cx.waker(), Process::handle_group_gone);
                    } else {
                        this.killer.terminate(now);
                    }
                    continue;
                }
                Output::Sweep => {
                    this.killer.sweep(now);
                    continue;
                }
                Output::Signal { signal, to } => {
                    // Nobody but a resume lets go on what is paused.
                    if signal != Signal::CONT || this.shared.lock().paused.is_none() {
                        this.killer.signal(signal, to);
                    }
                    continue;
                }
                Output::Resize(size) => {
                    if let Some(tty) = &this.tty
                        && let Err(error) = pty::resize(tty.as_fd(), size)
                    {
                        tracing::debug!(process.id = this.handle.id(), %error, "its terminal keeps its size");
                    }
                    continue;
                }
                Output::Closed => {
                    this.closed = true;
                    this.tty = None;
                    this.stdin = None;
                    this.outputs.clear();
                    continue;
                }
            };
            this.due_at = at;
            let mut ask = this.read(cx, room, &mut budget);
            if has_stdin {
                this.write(cx, &mut budget);
            }
            ask |= this.reap(cx);
            ask |= this.kill(cx);
            if this.closed && this.leader.is_none() && this.killer.is_idle() {
                this.shared.release(&this.handle);
                return Poll::Ready(());
            }
            if budget == 0 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let at = at.into_iter().chain(this.killer.look_at()).min();
            if !ask && this.deadline.poll(&*this.shared.runtime, at, cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}
