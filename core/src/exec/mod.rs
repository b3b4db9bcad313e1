//! One command's output on its way to one client, and its one result.
//!
//! An [`Exec`] pulls: it takes from the command's log when it is asked for the next thing to send, at the pace that
//! its stream has. While it does not take, the log fills, the source is not read, and the command is slowed. What
//! waits is merged, because the newest frame of a log grows until it is taken.
//!
//! ```text
//!           frame taken, paid for                the command ended and all is given out, or close()
//!  Open ─────────────► Transmit (and Open) ──────────────────────────────► Closed (the result)
//!    └── past the byte cap: taken for the result only, not sent
//! ```
//!
//! Its own end does not end the command. Whoever closes it decides that, by [`Close::kills_exec`].

mod result;

use crate::{
    Close, Time,
    log::{Channel, Item, Reader},
    pace::Pacer,
    process::{Exit, Process},
    tail::Tail,
    text::{Decoder, Text},
};
use base64::prelude::{BASE64_STANDARD, Engine};
use std::borrow::Cow;

pub use result::{ExecError, ExecResult};

/// How output is written for the client.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// As text: what is not UTF-8 becomes U+FFFD, and no character is cut.
    #[default]
    Text,
    /// As base64 of exactly what was printed.
    Base64,
}

/// How a command's output is given out.
#[derive(Clone, Debug)]
pub struct Config {
    /// Text or bytes.
    pub encoding: Encoding,
    /// How it is streamed. Without it nothing is sent before the result, and nothing is paced.
    pub stream: Option<Streaming>,
    /// Bytes at the end of each output that the result has.
    pub tail: usize,
}

/// Limits of a stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Streaming {
    /// Bytes a second; see [`Pacer`].
    pub bytes_per_second: u64,
    /// Past this many bytes nothing more is sent; the command runs on.
    pub max_bytes: u64,
}

/// What the shell has to do next.
#[derive(Debug, PartialEq)]
pub enum Output {
    /// Send this piece of output. It is never empty.
    Transmit {
        /// Where it was printed.
        channel: Channel,
        /// What was printed. With [`Encoding::Text`] it ends at a character's end.
        text: Text,
    },
    /// Send the result: nothing follows.
    Closed {
        /// Why the stream ended.
        reason: Close,
        /// What the client is told.
        result: Box<ExecResult>,
    },
    /// Nothing before this time, or before the next input or change of the process.
    Wait(Option<Time>),
}

/// A command's output for one client. See the [module](self).
#[derive(Debug)]
pub struct Exec {
    config: Config,
    started: Time,
    now: Time,
    reader: Reader,
    pacer: Option<Pacer>,
    sent: u64,
    capped: bool,
    /// The beginning of the output was not kept for this.
    is_missing: bool,
    outputs: [Side; 2],
    close: Option<Close>,
    closed: bool,
}

/// What is kept for one of the two outputs. A terminal's one output counts as standard output.
#[derive(Debug)]
struct Side {
    decoder: Decoder,
    tail: Tail,
}

impl Exec {
    /// The stream of a command whose process was made just now, from its first byte.
    pub fn new(config: Config, process: &mut Process, now: Time) -> Self {
        let side = || Side { decoder: Decoder::default(), tail: Tail::new(config.tail) };
        Self {
            started: now,
            now,
            reader: Reader::oldest(process.log_mut()),
            pacer: config.stream.map(|stream| Pacer::new(stream.bytes_per_second, now)),
            sent: 0,
            capped: false,
            is_missing: false,
            outputs: [side(), side()],
            close: None,
            closed: false,
            config,
        }
    }

    /// Ends the stream at once, with what it has so far. Of several reasons the first in the order of [`Close`] is
    /// told.
    pub fn close(&mut self, reason: Close) {
        self.close = Some(self.close.map_or(reason, |close| close.or(reason)));
    }

    /// Bytes that were sent.
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes that are kept for the result.
    pub fn held(&self) -> usize {
        self.outputs.iter().map(|side| side.tail.len()).sum()
    }

    /// Does what is due at `now`, and gives the next thing to carry out. `process` is the command's.
    pub fn poll_output(&mut self, process: &mut Process, now: Time) -> Output {
        self.now = self.now.max(now);
        if self.closed {
            return Output::Wait(None);
        }
        loop {
            if self.close.is_some() || self.is_done(process) {
                return self.finish(process);
            }
            let more = self.reader.has_next(process.log());
            if !more && !process.is_over() {
                return Output::Wait(None);
            }
            if let Some(pacer) = self.pacer.as_mut().filter(|_| !self.capped)
                && let Err(at) = pacer.ready(self.now)
            {
                return Output::Wait(Some(at));
            }
            let piece = if more { self.take(process) } else { self.flush() };
            if let Some((channel, text)) = piece {
                return self.transmit(channel, text);
            }
        }
    }

    /// The process is over, and all it printed was taken and given out.
    fn is_done(&self, process: &Process) -> bool {
        process.is_over()
            && !self.reader.has_next(process.log())
            && self.outputs.iter().all(|side| side.decoder.is_empty())
    }

    /// Takes the next piece of output into the tails. Gives back what is to be sent of it.
    fn take(&mut self, process: &mut Process) -> Option<(Channel, Text)> {
        let frame = match self.reader.take(process.log_mut())? {
            Item::Frame(frame) => frame,
            Item::Gap(_) => {
                self.is_missing = true;
                return None;
            }
        };
        let side = &mut self.outputs[side(frame.channel)];
        side.tail.push(&frame.data);
        let text = match self.config.encoding {
            Encoding::Text => side.decoder.push(frame.data),
            Encoding::Base64 => Text::from(frame.data),
        };
        self.cap(text).map(|text| (frame.channel, text))
    }

    /// At the end of the output: a character that never became whole.
    fn flush(&mut self) -> Option<(Channel, Text)> {
        [Channel::Stdout, Channel::Stderr].into_iter().find_map(|channel| {
            let text = self.outputs[side(channel)].decoder.finish();
            self.cap(text).map(|text| (channel, text))
        })
    }

    /// What of it may still be sent. The piece that would pass the cap is cut, and is the last.
    fn cap(&mut self, mut text: Text) -> Option<Text> {
        let stream = self.config.stream?;
        if self.capped {
            return None;
        }
        let room = usize::try_from(stream.max_bytes - self.sent).unwrap_or(usize::MAX);
        if text.len() > room {
            self.capped = true;
            match self.config.encoding {
                Encoding::Text => text.truncate(room),
                Encoding::Base64 => text.truncate_bytes(room),
            }
        }
        (!text.is_empty()).then_some(text)
    }

    fn transmit(&mut self, channel: Channel, text: Text) -> Output {
        self.sent += text.len() as u64;
        if let Some(pacer) = &mut self.pacer {
            pacer.charge(text.len());
        }
        Output::Transmit { channel, text }
    }

    fn finish(&mut self, process: &mut Process) -> Output {
        let own = match process.exit_status() {
            Some(Exit::Unknown) => Some(Close::Error),
            Some(Exit::Code(_) | Exit::Signal(_)) if self.is_done(process) => Some(Close::Done),
            Some(Exit::Code(_) | Exit::Signal(_)) | None => None,
        };
        // One of the two is why this was called.
        let reason = self.close.into_iter().chain(own).min().unwrap_or(Close::Error);
        // What was printed and not taken yet belongs to the end of the output.
        while let Some(item) = self.reader.take(process.log_mut()) {
            match item {
                Item::Frame(frame) => self.outputs[side(frame.channel)].tail.push(&frame.data),
                Item::Gap(_) => self.is_missing = true,
            }
        }
        self.closed = true;
        Output::Closed { reason, result: Box::new(self.result(process, reason)) }
    }

    fn result(&mut self, process: &Process, reason: Close) -> ExecResult {
        let [stdout, stderr] = &mut self.outputs;
        let end = |side: &mut Side| {
            let tail = std::mem::replace(&mut side.tail, Tail::new(0));
            let truncated = tail.is_truncated();
            let text = match self.config.encoding {
                Encoding::Text => tail.into_text(),
                Encoding::Base64 => BASE64_STANDARD.encode(tail.into_bytes()),
            };
            (text, truncated)
        };
        let (stdout, stdout_truncated) = end(stdout);
        let (stderr, stderr_truncated) = end(stderr);
        let exit = process.exit_status();
        ExecResult {
            exit_code: exit.and_then(Exit::code),
            signal: exit.and_then(Exit::signal),
            stdout,
            stderr,
            encoding: self.config.encoding,
            streamed: self.config.stream.is_some(),
            duration_ms: u64::try_from(self.now.since(self.started).as_millis()).unwrap_or(u64::MAX),
            timed_out: process.timed_out(),
            closed: reason.row().closed.map(Cow::Borrowed),
            error: (reason == Close::Error).then(ExecError::lost),
            stdout_truncated,
            stderr_truncated,
            output_capped: self.capped || (self.is_missing && self.config.stream.is_some()),
            drain_timed_out: process.drain_timed_out(),
        }
    }
}

/// Which of the two outputs a channel counts as.
fn side(channel: Channel) -> usize {
    usize::from(channel == Channel::Stderr)
}
