//! The answer to one call: progress while it is carried out, then the one answer, and nothing after that.
//!
//! ```text
//!  Open ── output, progress, notification ──► a message, where the client asked for it; and Open
//!    ├── 15 s without a message, and the client asked for progress ──► progress that says nothing; and Open
//!    └── answer ──► the answer; Answered: whatever comes then is passed over
//! ```
//!
//! `progress` grows with every notification, as the protocol demands: it is the bytes of output so far, and a sign of life
//! adds a ten-thousandth.

use super::message::{self, Id, RpcError};
use crate::{
    Time,
    text::Text,
    wire::json::{base64_into, escape_into},
};
use bytes::{BufMut, BytesMut};
use serde_json::{Map, Number, Value};
use std::{fmt::Write, time::Duration};

/// A client that asked for progress hears something at least this often: many give up a call after 60 s of silence.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// So many signs of life would add 1 to `progress`: those of 41 h.
const BEATS: f64 = 10_000.0;

/// How messages are told apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Framing {
    /// Each is a server-sent event.
    Events,
    /// Each is a line.
    Lines,
}

/// How far a call has come, in whatever it counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// How much is done. One that is not above the last one is not sent.
    pub progress: f64,
    /// How much there is, where that is known.
    pub total: Option<f64>,
    /// For a person.
    pub message: Option<String>,
}

/// The answer to one call, as its messages are written. See the [module](self).
#[derive(Debug)]
pub struct Answering {
    id: Id,
    framing: Framing,
    /// A progress notification up to the number, where the client asked for progress.
    progress_head: Option<Box<[u8]>>,
    /// The greatest progress that was told.
    told: f64,
    /// What was told beside signs of life.
    base: f64,
    beats: u32,
    silent_since: Time,
    answered: bool,
}

impl Answering {
    /// The answer to a call that wants progress as `token`, if it does.
    pub fn new(id: Id, token: Option<&Id>, framing: Framing, now: Time) -> Self {
        let progress_head = token.map(|token| {
            // A string or a number: this cannot fail.
            let token = serde_json::to_string(token).unwrap_or_default();
            let head = format!(
                "{}{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{token},\"progress\":",
                framing.before()
            );
            head.into_bytes().into_boxed_slice()
        });
        Self {
            id,
            framing,
            progress_head,
            told: f64::NEG_INFINITY,
            base: 0.0,
            beats: 0,
            silent_since: now,
            answered: false,
        }
    }

    /// Whether the client asked for progress.
    pub const fn wants_progress(&self) -> bool {
        self.progress_head.is_some()
    }

    /// Whether it was answered: nothing follows.
    pub const fn is_answered(&self) -> bool {
        self.answered
    }

    /// A piece of output, as text. Whether anything was written.
    pub fn output(&mut self, text: &Text, now: Time, out: &mut BytesMut) -> bool {
        self.piece(text, now, out, |text, out| text.pieces().for_each(|piece| escape_into(piece, out)))
    }

    /// The same as base64 of exactly what was printed.
    pub fn output_base64(&mut self, text: &Text, now: Time, out: &mut BytesMut) -> bool {
        self.piece(text, now, out, base64_into)
    }

    fn piece(
        &mut self,
        text: &Text,
        now: Time,
        out: &mut BytesMut,
        write: impl FnOnce(&Text, &mut BytesMut),
    ) -> bool {
        // From what was told before on, also where that counted something else.
        let Some(()) = self.begin(self.base + text.len() as f64, now, out) else { return false };
        out.put_slice(b",\"message\":\"");
        write(text, out);
        out.put_slice(b"\"}}");
        self.end(out);
        true
    }

    /// How far it has come. Whether anything was written.
    pub fn progress(&mut self, progress: &Progress, now: Time, out: &mut BytesMut) -> bool {
        let Some(()) = self.begin(progress.progress, now, out) else { return false };
        if let Some(total) = progress.total.filter(|total| total.is_finite()) {
            out.put_slice(b",\"total\":");
            number(total, out);
        }
        if let Some(message) = &progress.message {
            out.put_slice(b",\"message\":\"");
            escape_into(message, out);
            out.put_slice(b"\"");
        }
        out.put_slice(b"}}");
        self.end(out);
        true
    }

    /// A notification about the call. Whether anything was written.
    pub fn notification(&mut self, method: &str, params: &Value, now: Time, out: &mut BytesMut) -> bool {
        if self.answered {
            return false;
        }
        self.silent_since = self.silent_since.max(now);
        self.message(&message::notification(method, params), out);
        true
    }

    /// What the call asks its client. Whether anything was written.
    pub fn question(&mut self, id: u64, method: &str, params: &Value, now: Time, out: &mut BytesMut) -> bool {
        if self.answered {
            return false;
        }
        self.silent_since = self.silent_since.max(now);
        self.message(&message::request(id, method, params), out);
        true
    }

    /// The answer, if it is the first. Whether anything was written.
    pub fn answer(&mut self, outcome: &Result<Map<String, Value>, RpcError>, out: &mut BytesMut) -> bool {
        if std::mem::replace(&mut self.answered, true) {
            return false;
        }
        self.message(&message::answer(Some(&self.id), outcome), out);
        true
    }

    /// When a sign of life is due, unless something else is written before.
    pub fn heartbeat_at(&self) -> Option<Time> {
        let due = self.progress_head.is_some() && !self.answered;
        due.then(|| self.silent_since + HEARTBEAT)
    }

    /// Writes a sign of life where it is due. Whether anything was written.
    pub fn heartbeat(&mut self, now: Time, out: &mut BytesMut) -> bool {
        if self.heartbeat_at().is_none_or(|at| now < at) {
            return false;
        }
        self.silent_since = now;
        let (base, beats) = (self.base, self.beats + 1);
        let progress = base + f64::from(beats) / BEATS;
        // The next byte of output has to count more than it.
        let Some(()) = (progress < base + 1.0).then(|| self.begin(progress, now, out)).flatten() else {
            return false;
        };
        (self.base, self.beats) = (base, beats);
        out.put_slice(b"}}");
        self.end(out);
        true
    }

    /// Writes a progress notification up to its number. None where none is to be written.
    fn begin(&mut self, progress: f64, now: Time, out: &mut BytesMut) -> Option<()> {
        let grows = progress > self.told && progress.is_finite();
        let head = self.progress_head.as_ref().filter(|_| !self.answered && grows)?;
        out.reserve(head.len() + 64);
        out.put_slice(head);
        number(progress, out);
        (self.told, self.base, self.beats) = (progress, progress, 0);
        self.silent_since = self.silent_since.max(now);
        Some(())
    }

    fn end(&self, out: &mut BytesMut) {
        out.put_slice(self.framing.after());
    }

    fn message(&self, text: &str, out: &mut BytesMut) {
        self.framing.write(text, out);
    }
}

/// A finite number as JSON. Bytes are whole numbers, which are written without a fraction.
fn number(number: f64, out: &mut BytesMut) {
    const EXACT: f64 = (1_u64 << 53) as f64;
    // Into memory that grows: this cannot fail.
    if number.fract() == 0.0 && (0.0..EXACT).contains(&number) {
        write!(out, "{}", number as u64).ok();
    } else if let Some(number) = Number::from_f64(number) {
        write!(out, "{number}").ok();
    }
}

impl Framing {
    /// Writes one message, which has no line end in it.
    pub fn write(self, message: &str, out: &mut BytesMut) {
        out.put_slice(self.before().as_bytes());
        out.put_slice(message.as_bytes());
        out.put_slice(self.after());
    }

    const fn before(self) -> &'static str {
        match self {
            Self::Events => "data: ",
            Self::Lines => "",
        }
    }

    const fn after(self) -> &'static [u8] {
        match self {
            Self::Events => b"\n\n",
            Self::Lines => b"\n",
        }
    }
}
