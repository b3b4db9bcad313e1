//! What a background process printed, for one poll that may wait for it.

use super::{
    Plane,
    background::Background,
    follow::{self, Start},
    streams::Open,
    tokens::Caller,
};
use crate::{ApiError, metrics::Kind};
use hangar_backends::runtime::until;
use hangar_core::{
    Close, Time,
    attach::{self, Attach, Output},
    exec::Encoding,
    log::{CursorAhead, FRAME_MAX, Gap},
    process::Process,
};
use std::{
    task::{Poll, Waker},
    time::Duration,
};

/// What one poll gets of a process's output.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The output as text, where that was asked for.
    pub text: String,
    /// The output as it was printed, where that was asked for.
    pub bytes: Vec<u8>,
    /// The offset of its first byte, after the gap where there is one.
    pub from: u64,
    /// The offset to go on from.
    pub next: u64,
    /// What was gone.
    pub gap: Option<Gap>,
    /// There is more already.
    pub truncated: bool,
}

impl Plane {
    /// Enters somebody who waits for output of a process among the open streams.
    pub fn open_to_wait(&self, caller: &Caller, background: &Background) -> Result<Open, ApiError> {
        let lease = self.streams.lease(caller.token())?;
        let (id, place) = (self.new_id(), None);
        let span = follow::span(&id, background);
        let open = self.streams.open(
            Some(Kind::Process),
            Some(lease),
            follow::parts(id, caller, background, place, None),
            span,
        );
        self.close_if_late(&open, caller, background.sandbox());
        Ok(open)
    }

    /// Reads what there is from `start` on, about `max` bytes at the most. With `open` it waits for something for up to
    /// `wait`, or until that stream is to end.
    pub async fn read_page(
        &self,
        background: &Background,
        start: Start,
        encoding: Encoding,
        max: usize,
        wait: Duration,
        mut open: Option<Open>,
    ) -> Result<Page, ApiError> {
        self.know(background, start).await?;
        let now = self.runtime.now();
        let reading = background.handle().reader();
        let begin = |process: &mut Process| -> Result<Attach, CursorAhead> {
            let reader = start.reader(process.log_mut())?;
            let config = attach::Config {
                encoding,
                bytes_per_second: u64::MAX,
                max_bytes: u64::MAX,
                patience: Duration::MAX,
            };
            Ok(Attach::new(config, process, reader, now))
        };
        let mut attach = reading.read(Waker::noop(), begin)?;
        let mut page = Page { from: attach.next(), next: attach.next(), ..Page::default() };
        let filled = std::future::poll_fn(|cx| {
            reading.read(cx.waker(), |process| page.fill(&mut attach, process, max, now));
            let is_something = page.next > page.from || page.gap.is_some();
            let closed = open.as_ref().and_then(|open| open.asked_to_close(cx.waker()));
            if closed.is_some() || is_something || reading.handle().look(Process::is_over) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        until(&*self.runtime, now + wait, filled).await;
        if let Some(open) = &mut open
            && open.asked_to_close(Waker::noop()).is_none()
        {
            open.sent(page.bytes.len() + page.text.len(), self.runtime.now().since(now));
            open.ended(Close::Done);
        }
        Ok(page)
    }
}

/// Bytes of output that one poll gets.
pub const PAGE: usize = 256 * 1024;

impl Page {
    fn fill(&mut self, attach: &mut Attach, process: &mut Process, max: usize, now: Time) {
        loop {
            if self.text.len() + self.bytes.len() + FRAME_MAX > max {
                self.truncated = attach.next() < process.log().end_offset();
                return;
            }
            match attach.poll_output(process, now) {
                Output::Frame(frame) => {
                    self.bytes.extend_from_slice(&frame.data);
                    self.next = frame.end();
                }
                Output::Text { text, next, .. } => {
                    self.text.extend(text.pieces());
                    self.next = next;
                }
                // What comes after it is for the next one, which is told of it first.
                Output::Gap(_) if self.next > self.from => {
                    self.truncated = true;
                    return;
                }
                Output::Gap(gap) => {
                    (self.from, self.next) = (gap.to_offset, gap.to_offset);
                    self.gap = Some(gap);
                }
                Output::Closed { .. } | Output::Wait(_) => return,
            }
        }
    }
}
