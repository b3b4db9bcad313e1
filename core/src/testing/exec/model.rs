//! All that a command printed and all that its client got, and what each output has to be for that.

use super::{
    super::{pace::Bucket, tail},
    Pair,
};
use crate::{
    Close, Time,
    exec::{Config, Encoding, ExecResult, Output},
    log::{Channel, FRAME_MAX},
    process::Exit,
    text::Text,
};
use base64::prelude::{BASE64_STANDARD, Engine};

/// All that the command printed, and all that the client got.
pub(super) struct Model {
    config: Config,
    started: Time,
    bucket: Bucket,
    /// What was printed, on standard output and standard error.
    printed: [Vec<u8>; 2],
    /// The same in one order: the channel of each byte.
    order: Vec<Channel>,
    sent: [Vec<u8>; 2],
    text: [String; 2],
    close: Option<Close>,
    pub(super) closed: bool,
}

impl Model {
    pub(super) fn new(config: &Config, now: Time) -> Self {
        Self {
            config: config.clone(),
            started: now,
            bucket: Bucket::new(config.stream.map_or(1, |stream| stream.bytes_per_second)),
            printed: [Vec::new(), Vec::new()],
            order: Vec::new(),
            sent: [Vec::new(), Vec::new()],
            text: [String::new(), String::new()],
            close: None,
            closed: false,
        }
    }

    pub(super) fn print(&mut self, channel: Channel, bytes: &[u8]) {
        if !self.closed {
            self.printed[side(channel)].extend_from_slice(bytes);
            self.order.extend(bytes.iter().map(|_| channel));
        }
    }

    pub(super) fn close(&mut self, reason: Close) {
        self.close = self.close.into_iter().chain([reason]).min();
    }

    pub(super) fn sent_total(&self) -> u64 {
        self.sent.iter().map(|sent| sent.len() as u64).sum()
    }

    /// Bytes that were taken of each output, and how many of them may wait for the rest of their character.
    fn taken(&self, held: usize) -> [(usize, usize); 2] {
        let order = &self.order[..self.order.len() - held];
        let stderr = order.iter().filter(|channel| **channel == Channel::Stderr).count();
        let taken = [order.len() - stderr, stderr];
        let waits = |side: usize| match self.config.encoding {
            Encoding::Text => unfinished(&self.printed[side][..taken[side]]),
            Encoding::Base64 => 0,
        };
        [(taken[0], waits(0)), (taken[1], waits(1))]
    }

    /// Checks an output of a poll at `now`. `before`: bytes that waited in the log.
    pub(super) fn check(&mut self, pair: &Pair, now: Time, before: usize, output: &Output) {
        if self.closed {
            return;
        }
        match output {
            Output::Transmit { channel, text } => self.check_transmit(pair, now, *channel, text),
            Output::Wait(at) => self.check_wait(pair, now, *at),
            Output::Closed { reason, result } => {
                self.closed = true;
                self.check_text();
                self.check_reason(pair, before, *reason);
                self.check_result(pair, now, *reason, result);
                self.check_cap(before, result.output_capped);
            }
        }
    }

    fn check_transmit(&mut self, pair: &Pair, now: Time, channel: Channel, text: &Text) {
        assert!(self.close.is_none(), "sent after it was closed");
        let Some(stream) = self.config.stream else { panic!("sent, and it is not streamed") };
        assert!((1..FRAME_MAX + 4).contains(&text.len()), "sent {} bytes at once", text.len());
        assert!(self.bucket.ready(now), "sent at {now:?}, which is too early");
        self.bucket.charge(now, text.len());
        let (side, total) = (side(channel), self.sent_total() as usize);
        let bytes = text.bytes().concat();
        let (from, to) = (self.sent[side].len(), self.sent[side].len() + bytes.len());
        assert_eq!(self.printed[side].get(from..to), Some(&bytes[..]), "not what was printed");
        self.sent[side].extend_from_slice(&bytes);
        self.text[side].extend(text.pieces());
        assert!(self.sent_total() <= stream.max_bytes, "sent past the cap");
        match self.config.encoding {
            Encoding::Base64 => {
                let order = &self.order[total..total + bytes.len()];
                assert!(order.iter().all(|printed| *printed == channel), "not in the order it was printed");
            }
            Encoding::Text => {
                // A character may be left unfinished by what was printed next.
                let start = to - unfinished(&self.sent[side]);
                let next = self.printed[side].get(start..=to).map_or(Ok(""), std::str::from_utf8);
                let spoilt = next.is_err_and(|error| error.error_len().is_some());
                let whole = start == to || spoilt || pair.subject.process.is_over();
                assert!(whole, "cut inside a character");
            }
        }
    }

    /// The pieces of text are the text of all that was sent.
    fn check_text(&self) {
        if self.config.encoding == Encoding::Text {
            for (text, sent) in self.text.iter().zip(&self.sent) {
                assert_eq!(*text, String::from_utf8_lossy(sent));
            }
        }
    }

    fn check_wait(&self, pair: &Pair, now: Time, at: Option<Time>) {
        assert!(self.close.is_none(), "waits, and it is closed");
        let held = pair.subject.process.log().held();
        let taken = self.taken(held);
        let sum = |of: fn(&(usize, usize)) -> usize| taken.iter().map(of).sum::<usize>() as u64;
        let sent = self.sent_total();
        let over = pair.subject.process.is_over();
        if let Some(at) = at {
            assert!(self.config.stream.is_some(), "is paced, and it is not streamed");
            self.bucket.check_wait(now, at);
            assert!(held > 0 || over && sent < sum(|(taken, _)| *taken), "waits to send nothing");
        } else {
            assert_eq!(held, 0, "waits, and there is output");
            assert!(!over, "waits, and nothing more will come");
        }
        // What was taken was sent, but for characters that are not whole, and what is past the cap.
        if let Some(stream) = self.config.stream
            && sum(|(taken, waits)| taken - waits) > sent
        {
            assert!(sum(|(taken, _)| *taken) > stream.max_bytes, "taken and not sent");
            assert_eq!(at, None, "waits to send what is past the cap");
        }
    }

    fn check_reason(&self, pair: &Pair, before: usize, reason: Close) {
        let process = &pair.subject.process;
        let over = process.is_over();
        let done = match process.exit_status() {
            Some(Exit::Unknown) => Some(Close::Error),
            Some(_) if over => Some(Close::Done),
            Some(_) | None => None,
        };
        let best = self.close.into_iter().chain(done).min();
        if self.close.is_none() {
            assert!(over, "closed as {reason:?} before the end");
            assert_eq!(Some(reason), done);
        } else if done != Some(Close::Done) {
            assert_eq!(Some(reason), best);
        } else if before > 0 {
            assert_eq!(Some(reason), self.close, "it was closed before all was given out");
        } else {
            // A character that was not whole may have been left: then it was not done.
            let left = self.taken(0).iter().any(|(_, waits)| *waits > 0);
            assert!(Some(reason) == best || left && Some(reason) == self.close, "{reason:?}, not {best:?}");
        }
    }

    fn check_result(&self, pair: &Pair, now: Time, reason: Close, result: &ExecResult) {
        let process = &pair.subject.process;
        let exit = process.exit_status();
        assert_eq!(result.exit_code, exit.and_then(Exit::code));
        assert_eq!(result.signal, exit.and_then(Exit::signal));
        assert_eq!(result.encoding, self.config.encoding);
        assert_eq!(result.streamed, self.config.stream.is_some());
        assert_eq!(u128::from(result.duration_ms), now.since(self.started).as_millis());
        assert_eq!(
            (result.timed_out, result.drain_timed_out),
            (process.timed_out(), process.drain_timed_out())
        );
        assert_eq!(result.closed.as_deref(), reason.row().closed);
        assert_eq!(result.error.is_some(), reason == Close::Error);
        assert_eq!(process.log().held(), 0, "output was left out of the result");
        let max = self.config.tail;
        for (text, all) in [&result.stdout, &result.stderr].into_iter().zip(&self.printed) {
            match self.config.encoding {
                Encoding::Text => tail::check_text(text, all, max),
                Encoding::Base64 => {
                    let kept = &all[all.len().saturating_sub(max)..];
                    assert_eq!(BASE64_STANDARD.decode(text).as_deref(), Ok(kept));
                }
            }
        }
        let truncated = self.printed.each_ref().map(|all| all.len() > max);
        assert_eq!([result.stdout_truncated, result.stderr_truncated], truncated);
    }

    fn check_cap(&self, before: usize, capped: bool) {
        let Some(stream) = self.config.stream else {
            assert!(!capped, "capped, and it is not streamed");
            return;
        };
        // Closed from outside, what still waited is in the result only.
        let taken = self.taken(if self.close.is_some() { before } else { 0 });
        let most: usize = taken.iter().map(|(taken, _)| taken).sum();
        let least: usize = taken.iter().map(|(taken, waits)| taken - waits).sum();
        if capped {
            assert!(most as u64 > stream.max_bytes, "capped at {most}");
            let short = match self.config.encoding {
                Encoding::Text => 3,
                Encoding::Base64 => 0,
            };
            assert!(self.sent_total() + short >= stream.max_bytes, "capped too early");
        } else {
            assert!(least as u64 <= stream.max_bytes, "not capped at {least}");
            if self.close.is_none() {
                assert!(most as u64 <= stream.max_bytes, "not capped at {most}");
                assert_eq!(self.sent, self.printed, "not all was sent");
            }
        }
    }
}

const fn side(channel: Channel) -> usize {
    match channel {
        Channel::Stdout | Channel::Tty => 0,
        Channel::Stderr => 1,
    }
}

/// Bytes at the end that may be the beginning of a character.
fn unfinished(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    match std::str::from_utf8(last) {
        Err(error) if error.error_len().is_none() => last.len(),
        Err(_) | Ok(_) => 0,
    }
}
