//! One end of a connection in memory.

use super::{
    super::{
        clock::{Clock, SimTimer},
        random::Random,
        runtime::Trace,
    },
    Link,
};
use crate::real::proxy::hide;
use bytes::{Buf, Bytes};
use hangar_core::Time;
use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Both directions of a connection; the first is the client's.
#[derive(Debug, Default)]
pub(super) struct State {
    pipes: [Pipe; 2],
    reset: bool,
}

#[derive(Debug, Default)]
struct Pipe {
    /// What was sent and not read, with the times of its arrival; an empty one is the end.
    segments: VecDeque<(Time, Bytes)>,
    held: usize,
    ended: bool,
    /// Nobody will read.
    unread: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl State {
    fn reset(&mut self) {
        self.reset = true;
        for pipe in &mut self.pipes {
            pipe.segments.clear();
            pipe.held = 0;
        }
    }

    fn take_wakers(&mut self) -> Vec<Waker> {
        self.pipes.iter_mut().flat_map(|pipe| [pipe.reader.take(), pipe.writer.take()]).flatten().collect()
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct Socket {
    state: Arc<Mutex<State>>,
    side: usize,
    number: u64,
    link: Link,
    random: Random,
    timer: SimTimer,
    clock: Arc<Clock>,
    trace: Arc<Trace>,
    /// Bytes that it reads before its connection is cut.
    reads: Option<usize>,
    /// Its peer does not hear that it is hangar.
    is_plain: bool,
}

impl Socket {
    pub(super) fn new(
        state: &Arc<Mutex<State>>,
        side: usize,
        number: u64,
        link: Link,
        random: Random,
        clock: &Arc<Clock>,
        trace: &Arc<Trace>,
    ) -> Self {
        Self {
            state: Arc::clone(state),
            side,
            number,
            link,
            random,
            timer: clock.timer(Time::ZERO),
            clock: Arc::clone(clock),
            trace: Arc::clone(trace),
            reads: None,
            is_plain: false,
        }
    }

    /// Its connection is cut once it has read so many bytes.
    pub(super) fn cut_after(&mut self, bytes: usize) {
        self.reads = Some(bytes);
    }

    /// What is hangar's own in the heads that it sends is called something else from here on.
    pub(super) const fn hide_hangar(&mut self) {
        self.is_plain = true;
    }

    /// The number of its connection.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// What cuts its connection, from wherever.
    pub fn cutter(&self) -> Cutter {
        Cutter { state: Arc::clone(&self.state), number: self.number, trace: Arc::clone(&self.trace) }
    }

    fn arrival(&mut self, last: Option<Time>) -> Time {
        let (first, longest) = self.link.delay;
        let nanos = self.random.between(first.as_nanos() as u64, longest.as_nanos() as u64);
        let at = self.clock.now() + Duration::from_nanos(nanos);
        last.map_or(at, |last| last.max(at))
    }
}

/// Cuts a connection: both sides get a reset.
#[derive(Clone, Debug)]
pub struct Cutter {
    state: Arc<Mutex<State>>,
    number: u64,
    trace: Arc<Trace>,
}

impl Cutter {
    /// Cuts it.
    pub fn cut(&self) {
        self.trace.note(format_args!("connection {} is cut", self.number));
        let mut state = self.state.lock().unwrap();
        state.reset();
        let woken = state.take_wakers();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.reads == Some(0) {
            this.reads = None;
            this.cutter().cut();
        }
        let mut state = this.state.lock().unwrap();
        if state.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let pipe = &mut state.pipes[1 - this.side];
        pipe.reader = Some(cx.waker().clone());
        let Some((at, bytes)) = pipe.segments.front_mut() else { return Poll::Pending };
        if *at > this.clock.now() {
            this.timer.move_to(*at);
            ready!(this.timer.poll_ready(cx));
        }
        if bytes.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let len = bytes.len().min(buffer.remaining()).min(this.reads.unwrap_or(usize::MAX));
        this.reads = this.reads.map(|reads| reads - len);
        buffer.put_slice(&bytes[..len]);
        bytes.advance(len);
        if bytes.is_empty() {
            pipe.segments.pop_front();
        }
        pipe.held -= len;
        let writer = pipe.writer.take();
        drop(state);
        if let Some(writer) = writer {
            writer.wake();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wanted = slices.iter().map(|slice| slice.len()).sum();
        let state = Arc::clone(&this.state);
        let mut state = state.lock().unwrap();
        if state.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let pipe = &mut state.pipes[this.side];
        if pipe.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if pipe.unread {
            // It is sent, and answered with a reset.
            state.reset();
            let woken = state.take_wakers();
            drop(state);
            woken.into_iter().for_each(Waker::wake);
            return Poll::Ready(Ok(wanted));
        }
        let len = wanted.min(this.link.capacity - pipe.held);
        if len == 0 && wanted > 0 {
            pipe.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let mut rest: Vec<u8> = Vec::with_capacity(len);
        for slice in slices {
            rest.extend_from_slice(&slice[..slice.len().min(len - rest.len())]);
        }
        if this.is_plain {
            hide(&mut rest);
        }
        let mut rest = Bytes::from(rest);
        let mut last = pipe.segments.back().map(|(at, _)| *at);
        while !rest.is_empty() {
            let most = this.link.segment.min(rest.len()) as u64;
            let size = if this.link.segment == usize::MAX { most } else { this.random.between(1, most) };
            let at = this.arrival(last);
            pipe.segments.push_back((at, rest.split_to(size as usize)));
            last = Some(at);
        }
        pipe.held += len;
        let reader = pipe.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        Poll::Ready(Ok(len))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().end();
        Poll::Ready(Ok(()))
    }
}

impl Socket {
    /// Sends its end, after what was sent.
    fn end(&mut self) {
        let state = Arc::clone(&self.state);
        let mut state = state.lock().unwrap();
        let pipe = &mut state.pipes[self.side];
        if pipe.ended {
            return;
        }
        pipe.ended = true;
        let at = self.arrival(pipe.segments.back().map(|(at, _)| *at));
        pipe.segments.push_back((at, Bytes::new()));
        let reader = pipe.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.trace.note(format_args!("connection {} is let go of by side {}", self.number, self.side));
        self.end();
        let mut state = self.state.lock().unwrap();
        let incoming = &mut state.pipes[1 - self.side];
        incoming.unread = true;
        // What nobody will read any more is answered with a reset.
        if incoming.held > 0 {
            state.reset();
        }
        let woken = state.take_wakers();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }
}
