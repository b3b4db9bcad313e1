//! What is sent with an upload, on its way: unpacked a little at a time, and never more of it held than needed.

use super::Daemon;
use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use hangar_backends::runtime::Deadline;
use hangar_core::Time;
use hyper::body::{Body as _, Incoming};
use std::{
    io::{self, Write as _},
    pin::Pin,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    task::{Context, Poll, ready},
    time::Duration,
};

/// Packed bytes of one step.
const STEP: usize = 256;

/// A client that sends nothing for this long has left.
const SILENCE: Duration = Duration::from_secs(60);

/// The most that a form's reader may hold: far more than the head of a part, or a boundary.
const MAX_HELD: usize = 128 * 1024;

/// What is left to be held for each part, beside what is in it.
pub(super) const HEAD: usize = 4096;

/// The bytes that are sent, unpacked a little at a time: a small piece may become a thousand times as much.
pub(super) struct Uploaded<'a> {
    daemon: &'a Daemon,
    body: &'a mut Incoming,
    unzip: Option<MultiGzDecoder<Vec<u8>>>,
    /// What came and is not unpacked.
    packed: Bytes,
    /// Until when the next bytes have to be there.
    silence: Deadline,
    until: Time,
}

impl<'a> Uploaded<'a> {
    pub(super) fn new(
        daemon: &'a Daemon,
        body: &'a mut Incoming,
        unzip: Option<MultiGzDecoder<Vec<u8>>>,
    ) -> Self {
        let until = daemon.runtime.now() + SILENCE;
        Self { daemon, body, unzip, packed: Bytes::new(), silence: Deadline::default(), until }
    }

    /// The next of them; None at the end.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if let Some(unzip) = self.unzip.as_mut().filter(|_| !self.packed.is_empty()) {
                let step = self.packed.split_to(self.packed.len().min(STEP));
                match unzip.write_all(&step).map(|()| std::mem::take(unzip.get_mut())) {
                    Ok(unpacked) if unpacked.is_empty() => continue,
                    unpacked => return Poll::Ready(Some(unpacked.map(Bytes::from))),
                }
            }
            let Poll::Ready(frame) = Pin::new(&mut *self.body).poll_frame(cx) else {
                ready!(self.silence.poll(&*self.daemon.runtime, Some(self.until), cx));
                return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
            };
            self.until = self.daemon.runtime.now() + SILENCE;
            match frame {
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    if self.unzip.is_some() {
                        self.packed = data;
                    } else if !data.is_empty() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(io::Error::other(error)))),
                None => {
                    // What the unpacker still has, and whether its end was there.
                    let rest = self.unzip.take().map(MultiGzDecoder::finish);
                    let rest = rest.map(|rest| rest.map(Bytes::from));
                    return Poll::Ready(rest.filter(|rest| !rest.as_ref().is_ok_and(Bytes::is_empty)));
                }
            }
        }
    }
}

/// How much the reader of a form holds of what it was given. It takes whatever is there, and looks through all of it, for as
/// long as it does not find the end of what it looks for.
#[derive(Default)]
pub(super) struct Held {
    bytes: AtomicUsize,
    /// It was not given more, and has to do with what it has.
    is_full: AtomicBool,
}

impl Held {
    /// The next bytes for it, if it may hold more.
    pub(super) fn poll(
        &self,
        cx: &mut Context<'_>,
        bytes: &mut Uploaded<'_>,
    ) -> Poll<Option<io::Result<Bytes>>> {
        if self.bytes.load(Ordering::Relaxed) >= MAX_HELD {
            if self.is_full.swap(true, Ordering::Relaxed) {
                let message = format!(
                    "the head of a part, or what is before a boundary, is longer than {MAX_HELD} bytes"
                );
                return Poll::Ready(Some(Err(io::Error::other(message))));
            }
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = bytes.poll(cx);
        if let Poll::Ready(Some(Ok(data))) = &polled {
            self.bytes.fetch_add(data.len(), Ordering::Relaxed);
        }
        polled
    }

    /// It gave so many bytes out.
    pub(super) fn given(&self, len: usize) {
        let held = self.bytes.load(Ordering::Relaxed).saturating_sub(len);
        self.bytes.store(held, Ordering::Relaxed);
        self.is_full.store(false, Ordering::Relaxed);
    }
}
