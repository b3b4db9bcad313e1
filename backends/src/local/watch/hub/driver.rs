//! The one task that reads what a hub's instance of inotify tells, and has done what there is to do.

use super::{
    super::{
        gather::Gather,
        inotify::{BUFFER, Inotify},
    },
    Hub, Shared,
};
use crate::runtime::{Deadline, Descriptor, Interest, blocking};
use hangar_core::Time;
use std::{
    future::{Future as _, poll_fn},
    mem::take,
    os::fd::{AsFd as _, BorrowedFd},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

/// What there is for the driver.
enum Turn {
    Read(usize),
    Work,
    Over,
}

pub(super) async fn drive(hub: Arc<Hub>, inotify: Arc<Inotify>, readable: Box<dyn Descriptor>) {
    let mut buffer = vec![0; BUFFER];
    let mut gather = Gather::new();
    let mut reader =
        Reader { readable: Some(readable), reads_at: gather.next(), deadline: Deadline::default() };
    loop {
        let turn = reader.next_turn(&hub, &inotify, &mut buffer).await;
        match turn {
            Turn::Read(read) => {
                let now = hub.runtime.now();
                let ends_in_half = hub.lock().handle(&buffer[..read], now);
                gather.read(ends_in_half, now);
                reader.read_at(gather.next(), now);
            }
            Turn::Work => {
                let (shared, instance, mut lent) =
                    (Arc::clone(&hub), Arc::clone(&inotify), take(&mut buffer));
                let done = blocking(&*hub.runtime, move || {
                    shared.work(&instance, &mut lent);
                    lent
                });
                let Some(back) = done.await else { return };
                buffer = back;
            }
            Turn::Over => {
                // The system lets go of every directory, which may take it a while.
                drop(reader);
                return hub.runtime.blocking(Box::new(move || drop(inotify)));
            }
        }
    }
}

/// Who waits for notices.
struct Reader {
    /// None while those of a burst are gathered: the runtime would be woken for each.
    readable: Option<Box<dyn Descriptor>>,
    reads_at: Time,
    deadline: Deadline,
}

impl Reader {
    /// Nothing is read before that.
    fn read_at(&mut self, at: Time, now: Time) {
        self.reads_at = at;
        if at > now {
            self.readable = None;
        }
    }

    async fn next_turn(&mut self, hub: &Hub, inotify: &Inotify, buffer: &mut [u8]) -> Turn {
        let mut told = pin!(hub.work.notified());
        poll_fn(|cx| {
            while told.as_mut().poll(cx).is_ready() {
                told.set(hub.work.notified());
            }
            let mut shared = hub.lock();
            if shared.watches.is_empty() {
                *shared = Shared { next: shared.next, ..Shared::default() };
                return Poll::Ready(Turn::Over);
            }
            if shared.has_work() {
                return Poll::Ready(Turn::Work);
            }
            drop(shared);
            self.poll_read(hub, inotify, buffer, cx).map(Turn::Read)
        })
        .await
    }

    /// Bytes that were read.
    fn poll_read(
        &mut self,
        hub: &Hub,
        inotify: &Inotify,
        buffer: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Poll<usize> {
        ready!(self.deadline.poll(&*hub.runtime, Some(self.reads_at), cx));
        if self.readable.is_none() {
            let read = inotify.read(buffer);
            if read > 0 {
                return Poll::Ready(read);
            }
            self.readable = hub.readable(inotify).ok();
        }
        // Where there is no descriptor for it, it is looked again a while later.
        let Some(readable) = &self.readable else { return Poll::Ready(0) };
        let mut read =
            |fd: BorrowedFd<'_>| rustix::io::read(fd.as_fd(), &mut *buffer).map_err(std::io::Error::from);
        readable.poll_io(cx, Interest::Readable, &mut read).map(|read| read.unwrap_or(0))
    }
}
