//! One reader of a process that goes on by itself: what is kept, then what comes, at the reader's own pace.
//!
//! An [`Attach`] pulls, as an `Exec` does, but its process is never slowed for it: what it does not take in time is
//! gone, and it is told so.
//!
//! ```text
//!           frame taken, paid for             the process is over and all is given out, or close()
//!  Open ─────────────► Frame / Text ────────────────────────────────────────────► Closed
//!    ├── what comes next is gone, and the socket takes something: Gap, and on
//!    ├── what comes next is gone, and the socket took nothing for `patience`: Closed (slow consumer)
//!    └── past the byte cap: Closed (limit); the client comes back with its cursor
//! ```

use crate::{
    Close, Time,
    exec::Encoding,
    log::{Channel, Frame, Gap, Item, Reader},
    pace::Pacer,
    process::{Exit, Process},
    text::{Decoder, Text},
};
use std::{collections::VecDeque, time::Duration};

/// How a process is followed.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whether output is given out as [`Output::Frame`] or as [`Output::Text`].
    pub encoding: Encoding,
    /// Bytes a second; see [`Pacer`].
    pub bytes_per_second: u64,
    /// Once this many bytes were sent, rounded up to a whole frame, the stream ends.
    pub max_bytes: u64,
    /// A socket that takes nothing for this long, while what comes next is gone, is given up.
    pub patience: Duration,
}

/// How often a blocked reader is looked at once its patience is over.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The channels that a text may come from, and whose decoder is whose.
const CHANNELS: [Channel; 3] = [Channel::Stdout, Channel::Stderr, Channel::Tty];

/// What the shell has to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Send this, exactly as it was printed.
    Frame(Frame),
    /// Send this. It ends at a character's end, and is never empty.
    Text {
        /// Where it was printed.
        channel: Channel,
        /// What was printed.
        text: Text,
        /// The offset to go on from after it.
        next: u64,
    },
    /// Say that output is gone; what follows goes on at its end.
    Gap(Gap),
    /// Say why it ends: nothing follows.
    Closed {
        /// Why.
        reason: Close,
        /// How the process ended, where that is why.
        exit: Option<Exit>,
        /// Somebody still held the output open when the time to wait for that was over.
        drain_timed_out: bool,
    },
    /// Nothing before this time, or before the next input or change of the process.
    Wait(Option<Time>),
}

/// A process's output for one client. See the [module](self).
#[derive(Debug)]
pub struct Attach {
    config: Config,
    now: Time,
    reader: Reader,
    pacer: Pacer,
    decoders: [Decoder; 3],
    /// What was taken from the log and is to be given out first: the gap after the flushed text.
    queued: VecDeque<Output>,
    sent: u64,
    socket: Socket,
    close: Option<Close>,
    closed: bool,
}

/// Whether the client takes what it is sent.
#[derive(Clone, Copy, Debug)]
enum Socket {
    Open,
    /// Since the next poll.
    Blocked,
    BlockedSince(Time),
}

impl Attach {
    /// Follows `process` from where `reader` is.
    pub fn new(config: Config, process: &Process, reader: Reader, now: Time) -> Self {
        let mut this = Self {
            now,
            reader,
            pacer: Pacer::new(config.bytes_per_second, now),
            decoders: [Decoder::default(); 3],
            queued: VecDeque::new(),
            sent: 0,
            socket: Socket::Open,
            close: None,
            closed: false,
            config,
        };
        if !this.reader.is_late() {
            this.prime(process);
        }
        this
    }

    /// The socket took nothing when it was offered something.
    pub const fn handle_blocked(&mut self) {
        if let Socket::Open = self.socket {
            self.socket = Socket::Blocked;
        }
    }

    /// The socket took something.
    pub const fn handle_accepted(&mut self) {
        self.socket = Socket::Open;
    }

    /// Ends the stream at once. Of several reasons the first in the order of [`Close`] is told.
    pub fn close(&mut self, reason: Close) {
        self.close = Some(self.close.map_or(reason, |close| close.or(reason)));
    }

    /// The offset of what comes next: what a client resumes with.
    pub const fn next(&self) -> u64 {
        self.reader.offset()
    }

    /// Outputs that wait to be given out.
    pub fn held(&self) -> usize {
        self.queued.len()
    }

    /// Does what is due at `now`, and gives the next thing to carry out. `process` is the one that it follows.
    pub fn poll_output(&mut self, process: &mut Process, now: Time) -> Output {
        self.now = self.now.max(now);
        if self.closed {
            return Output::Wait(None);
        }
        loop {
            if self.close.is_some() {
                return self.finish(process);
            }
            if let Some(at) = self.blocked_until(process) {
                return Output::Wait(Some(at));
            }
            if self.close.is_some() {
                continue;
            }
            let more = self.reader.has_next(process.log());
            if self.queued.is_empty() && !more && !process.is_over() {
                return Output::Wait(None);
            }
            if let Err(at) = self.pacer.ready(self.now) {
                return Output::Wait(Some(at));
            }
            if self.sent >= self.config.max_bytes && (more || !self.queued.is_empty()) {
                self.close(Close::Limit);
            } else if let Some(output) = self.queued.pop_front() {
                return self.transmit(output);
            } else if more {
                if let Some(output) = self.take(process) {
                    return self.transmit(output);
                }
            } else if !self.flush(self.reader.offset()) {
                return self.finish(process);
            }
        }
    }

    /// While the socket takes nothing: when to look again. Sets the reason to close once it was waited for long
    /// enough.
    fn blocked_until(&mut self, process: &Process) -> Option<Time> {
        let since = match self.socket {
            Socket::Open => return None,
            Socket::Blocked => self.now,
            Socket::BlockedSince(since) => since,
        };
        self.socket = Socket::BlockedSince(since);
        let over = since + self.config.patience;
        if self.now < over {
            return Some(over);
        }
        if self.reader.is_behind(process.log()) {
            self.close(Close::SlowConsumer);
            return None;
        }
        // At the whole seconds after that, however often it is polled.
        let looks = self.now.since(over).as_nanos() / LOOK_EVERY.as_nanos() + 1;
        Some(over + LOOK_EVERY.saturating_mul(u32::try_from(looks).unwrap_or(u32::MAX)))
    }

    /// Takes what comes next from the log. None where nothing of it can be shown yet.
    fn take(&mut self, process: &mut Process) -> Option<Output> {
        let before = self.reader.offset();
        match (self.reader.take(process.log_mut())?, self.config.encoding) {
            (Item::Gap(gap), Encoding::Base64) => Some(Output::Gap(gap)),
            (Item::Gap(gap), Encoding::Text) => {
                // What was held back will never be whole. A client that leaves before the gap comes back in front of it.
                self.flush(before);
                self.prime(process);
                self.queued.push_back(Output::Gap(gap));
                None
            }
            (Item::Frame(frame), Encoding::Base64) => Some(Output::Frame(frame)),
            (Item::Frame(frame), Encoding::Text) => {
                let (channel, next) = (frame.channel, frame.end());
                let text = self.decoders[decoder(channel)].push(frame.data);
                (!text.is_empty()).then_some(Output::Text { channel, text, next })
            }
        }
    }

    /// Gives up what the decoders hold back; `next` is where a client goes on that has got it. Whether that was anything.
    fn flush(&mut self, next: u64) -> bool {
        for (decoder, channel) in self.decoders.iter_mut().zip(CHANNELS) {
            let text = decoder.finish();
            if !text.is_empty() {
                self.queued.push_back(Output::Text { channel, text, next });
            }
        }
        !self.queued.is_empty()
    }

    /// Makes the decoders go on with the characters that the cursor is in the middle of.
    fn prime(&mut self, process: &Process) {
        if self.config.encoding == Encoding::Text {
            self.decoders = CHANNELS.map(|channel| self.reader.decoder(process.log(), channel));
        }
    }

    fn transmit(&mut self, output: Output) -> Output {
        let len = match &output {
            Output::Frame(frame) => frame.data.len(),
            Output::Text { text, .. } => text.len(),
            Output::Gap(_) | Output::Closed { .. } | Output::Wait(_) => 0,
        };
        self.sent += len as u64;
        self.pacer.charge(len);
        output
    }

    fn finish(&mut self, process: &Process) -> Output {
        let exit = process.exit_status().filter(|_| process.is_over());
        let all = !self.reader.has_next(process.log()) && self.queued.is_empty();
        let own = match exit.filter(|_| all) {
            Some(Exit::Unknown) => Some(Close::Error),
            Some(Exit::Code(_) | Exit::Signal(_)) => Some(Close::Done),
            None => None,
        };
        let reason = self.close.into_iter().chain(own).min().unwrap_or(Close::Error);
        self.closed = true;
        self.queued.clear();
        let exit = exit.filter(|_| reason == Close::Done);
        Output::Closed { reason, exit, drain_timed_out: exit.is_some() && process.drain_timed_out() }
    }
}

fn decoder(channel: Channel) -> usize {
    match channel {
        Channel::Stdout => 0,
        Channel::Stderr => 1,
        Channel::Tty => 2,
    }
}
