//! A directory that is watched, as a body that pulls.

use super::{
    super::{Daemon, answer, head::Head},
    Heard, Place, Watched, shutting_down,
};
use bytes::{Bytes, BytesMut};
use hangar_backends::runtime::{BoxFuture, Deadline};
use hangar_core::{
    Time,
    wire::{
        connect::{Code, Codec, RpcError, envelope},
        envd::{
            encode,
            filesystem::{FilesystemEvent, WatchDirResponse, WatchStarted},
            process::Empty,
        },
    },
};
use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, ready},
    time::Duration,
};

/// Messages are gathered into one piece of about this many bytes while there are more at once.
const BATCH: usize = 32 * 1024;

/// Events that are looked after at once.
const DESCRIBED: usize = 256;

/// A directory as one client watches it. Dropped, it is watched no longer.
pub struct WatchStream {
    daemon: Arc<Daemon>,
    codec: Codec,
    keep_alive: Duration,
    deadline: Option<Time>,
    /// None once nothing more comes of it.
    watched: Option<Watched>,
    /// Where to look what is there, if the client wants to know.
    place: Option<Place>,
    /// Events that are to be looked after.
    events: Vec<FilesystemEvent>,
    describing: Option<BoxFuture<'static, Vec<FilesystemEvent>>>,
    is_started: bool,
    /// When it has been silent for long enough.
    alive_at: Time,
    /// How it ends, once everything before is told.
    end: Option<RpcError>,
    is_ended: bool,
    timer: Deadline,
    out: BytesMut,
}

impl fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchStream").finish_non_exhaustive()
    }
}

impl WatchStream {
    /// Tells the changes of a directory. `describes`: with what is there then.
    pub(super) fn new(daemon: &Arc<Daemon>, head: &Head, watched: Watched, describes: bool) -> Self {
        let mut stream = Self {
            daemon: Arc::clone(daemon),
            codec: head.codec,
            keep_alive: head.keep_alive,
            deadline: head.deadline,
            place: describes.then(|| watched.place.clone()),
            events: Vec::new(),
            describing: None,
            is_started: false,
            alive_at: daemon.runtime.now() + head.keep_alive,
            end: None,
            is_ended: false,
            timer: Deadline::default(),
            out: BytesMut::new(),
            watched: Some(watched),
        };
        // Who knows hangar is told when everything below is watched, too; for everybody else that is when it starts.
        let path = stream.watched.as_ref().filter(|watched| watched.extended);
        if let Some(path) = path.map(|watched| watched.watching.path().to_owned()) {
            stream.start(path);
        }
        stream
    }

    /// Whether its last byte was given out.
    pub(in super::super) fn is_ended(&self) -> bool {
        self.is_ended && self.out.is_empty()
    }

    /// The next bytes to send; None at the end.
    pub(in super::super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.is_ended() {
            return Poll::Ready(None);
        }
        while self.out.len() < BATCH && !self.is_ended {
            if self.go_on(cx).is_pending() {
                if self.out.is_empty() {
                    return Poll::Pending;
                }
                break;
            }
        }
        Poll::Ready(Some(self.out.split().freeze()))
    }

    /// Goes on by one step, if there is one.
    fn go_on(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = self.daemon.runtime.now();
        if self.daemon.shutting_down.load(Ordering::SeqCst) {
            self.close(Some(shutting_down()));
        } else if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.close(Some(RpcError::new(Code::DeadlineExceeded, "the time for the stream is over")));
        } else if now >= self.alive_at {
            self.keep_alive(now);
        } else if let Some(describing) = &mut self.describing {
            let Poll::Ready(events) = describing.as_mut().poll(cx) else { return self.wait(cx) };
            self.describing = None;
            events.into_iter().for_each(|event| self.tell(event));
        } else if self.events.len() >= DESCRIBED {
            self.describe();
        } else {
            match self.watched.as_mut().map(|watched| watched.poll(cx)) {
                Some(Poll::Ready(heard)) => self.hear(heard),
                _ if !self.events.is_empty() => self.describe(),
                Some(Poll::Pending) => return self.wait(cx),
                None => {
                    let end = self.end.take();
                    self.close(end);
                }
            }
        }
        Poll::Ready(())
    }

    /// Waits for the next time at which something is to be said.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let at = self.deadline.into_iter().chain([self.alive_at]).min();
        ready!(self.timer.poll(&*self.daemon.runtime, at, cx));
        Poll::Ready(())
    }

    fn hear(&mut self, heard: Heard) {
        let (events, starts) = match heard {
            Heard::Events(events) => {
                let starts = !events.is_empty();
                (events, starts)
            }
            Heard::Ready(events) => (events, true),
            Heard::Last(events) => {
                self.watched = None;
                (events, true)
            }
            Heard::Failed(error) => {
                self.watched = None;
                self.end = Some(error);
                (Vec::new(), false)
            }
        };
        if starts && !self.is_started {
            self.start(String::new());
        }
        match self.place {
            Some(_) => self.events.extend(events),
            None => events.into_iter().for_each(|event| self.tell(event)),
        }
    }

    fn describe(&mut self) {
        let events = std::mem::take(&mut self.events);
        match &self.place {
            Some(place) => {
                self.describing = Some(Box::pin(place.clone().describe(Arc::clone(&self.daemon), events)));
            }
            None => events.into_iter().for_each(|event| self.tell(event)),
        }
    }

    fn start(&mut self, path: String) {
        self.is_started = true;
        self.write(&WatchDirResponse { start: Some(WatchStarted { path }), ..WatchDirResponse::default() });
    }

    fn tell(&mut self, event: FilesystemEvent) {
        self.alive_at = self.daemon.runtime.now() + self.keep_alive;
        self.write(&WatchDirResponse { filesystem: Some(event), ..WatchDirResponse::default() });
    }

    /// A client takes the first message for the start, whatever it is: it gets no sign of life before.
    fn keep_alive(&mut self, now: Time) {
        self.alive_at = now + self.keep_alive;
        if self.is_started {
            self.write(&WatchDirResponse { keepalive: Some(Empty {}), ..WatchDirResponse::default() });
        }
    }

    fn close(&mut self, error: Option<RpcError>) {
        (self.watched, self.describing, self.is_ended) = (None, None, true);
        answer::end(error, &mut self.out);
    }

    fn write(&mut self, message: &WatchDirResponse) {
        let codec = self.codec;
        envelope::write(0, &mut self.out, |out| encode(codec, message, out));
    }
}
