//! The process protocol: what goes through the WebSocket of one process.
//!
//! ```text
//!  server ─► client    binary  seq (u64 BE) · stream (1 byte) · ts_ms (i64 BE) · the bytes as they were printed
//!                      text    {"type":"ready"|"gap"|"end", ..}
//!  client ─► server    binary  input, as it is
//!                      text    {"type":"resize"|"signal"|"eof", ..}
//! ```
//!
//! Fields that are not set are left out, never sent as `""` or null; `exit_code` of a process is always there.

use crate::{
    Close,
    log::{Channel, Frame, Gap, GapReason},
    process::{Exit, Signal, TtySize},
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Bytes before the output in a binary message to the client.
pub const HEADER_LEN: usize = 17;

/// What stands before the output in a binary message to the client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    /// The number of the frame: what a client that comes back says it has.
    pub seq: u64,
    /// Where it was printed.
    pub channel: Channel,
    /// When its first byte was read: milliseconds since 1970.
    pub ts_ms: i64,
}

/// Why a binary message is no frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadFrame {
    /// There are fewer bytes than a header has.
    #[error("a frame of {0} bytes is shorter than its header")]
    Short(usize),
    /// There is no such output.
    #[error("there is no stream {0}")]
    Stream(u8),
}

impl Header {
    /// The header of a frame.
    pub const fn of(frame: &Frame) -> Self {
        Self { seq: frame.seq, channel: frame.channel, ts_ms: frame.ts_ms }
    }

    /// As it is sent.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..8].copy_from_slice(&self.seq.to_be_bytes());
        bytes[8] = self.channel as u8;
        bytes[9..].copy_from_slice(&self.ts_ms.to_be_bytes());
        bytes
    }

    /// The header at the beginning of a message, and the output after it.
    pub fn decode(message: &[u8]) -> Result<(Self, &[u8]), BadFrame> {
        let (header, data) =
            message.split_first_chunk::<HEADER_LEN>().ok_or(BadFrame::Short(message.len()))?;
        let [seq @ .., _, _, _, _, _, _, _, _, _] = *header;
        let [_, _, _, _, _, _, _, _, stream, ts_ms @ ..] = *header;
        let channel = match stream {
            1 => Channel::Stdout,
            2 => Channel::Stderr,
            3 => Channel::Tty,
            _ => return Err(BadFrame::Stream(stream)),
        };
        Ok((Self { seq: u64::from_be_bytes(seq), channel, ts_ms: i64::from_be_bytes(ts_ms) }, data))
    }
}

/// How a process is: as `GET` of it shows, and as `ready` begins with.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct View {
    /// A ULID.
    pub id: String,
    /// What its starter called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Where it is in its life.
    pub status: Status,
    /// What it returned; null while it runs, and when a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<Cow<'static, str>>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<FinishReason>,
    /// When it was started: milliseconds since 1970.
    pub started_at_ms: i64,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at_ms: Option<i64>,
    /// The process that it is the restart of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted_from: Option<String>,
    /// Its terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<TtySize>,
}

/// Where a process is in its life.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Its start was asked for.
    Starting,
    /// It runs.
    Running,
    /// It ended.
    Exited,
    /// It was ended on request.
    Stopped,
    /// It could not be started, or was lost.
    Failed,
}

/// Why a process ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// By itself.
    Exited,
    /// A signal that nobody here sent to end it.
    Signaled,
    /// On request.
    Stopped,
    /// Its time was over.
    Timeout,
    /// The sandbox's side broke.
    Lost,
    /// It could not be started.
    StartFailed,
}

/// A text message to the client.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ServerControl {
    /// The first message.
    Ready {
        /// The process.
        process: Box<View>,
        /// Nothing of its output is replayed.
        logging_disabled: bool,
    },
    /// Output is gone.
    Gap(GapView),
    /// The last message.
    End(EndView),
}

/// A hole in the output, as clients are told. What is not known of where it begins is left out.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct GapView {
    /// The first frame that is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_seq: Option<u64>,
    /// The frame that comes next.
    pub to_seq: u64,
    /// The first byte that is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_offset: Option<u64>,
    /// The byte that comes next.
    pub to_offset: u64,
    /// How many bytes are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Why they are gone.
    pub reason: GapReason,
}

impl From<&Gap> for GapView {
    fn from(gap: &Gap) -> Self {
        Self {
            from_seq: gap.from_seq,
            to_seq: gap.to_seq,
            from_offset: gap.from_offset,
            to_offset: gap.to_offset,
            bytes: gap.bytes(),
            reason: gap.reason,
        }
    }
}

/// Why a stream ended.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct EndView {
    /// As in the close frame.
    pub reason: Cow<'static, str>,
    /// What the process returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<Cow<'static, str>>,
}

impl ServerControl {
    /// The last message of a stream, where it has one.
    pub fn end(reason: Close, exit: Option<Exit>) -> Option<Self> {
        let frame = reason.row().websocket.filter(|frame| frame.end)?;
        let reason = Cow::Borrowed(frame.reason);
        let (exit_code, signal) = (exit.and_then(Exit::code), exit.and_then(Exit::signal));
        Some(Self::End(EndView { reason, exit_code, signal }))
    }

    /// As it is sent.
    pub fn encode(&self) -> String {
        // Strings, numbers and no map: this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A text message to the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ClientControl {
    /// The terminal has another size.
    Resize(TtySize),
    /// Send this signal to the group.
    Signal(Signal),
    /// That was all the input.
    Eof,
}

/// Why a text message to the server is none.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadControl {
    /// It is no JSON object of the kind that its type has.
    #[error("not a control message: {0}")]
    Json(String),
    /// A terminal has no such size.
    #[error("resize: {0} must be from 1 to {max}", max = TtySize::MAX)]
    Size(&'static str),
    /// There is no such signal.
    #[error("signal: no signal is named {0}")]
    Signal(String),
}

#[derive(Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
enum RawControl<'a> {
    Resize {
        cols: u64,
        rows: u64,
    },
    Signal {
        #[serde(borrow)]
        name: Cow<'a, str>,
    },
    Eof {},
}

impl ClientControl {
    /// What a text message says.
    pub fn decode(text: &str) -> Result<Self, BadControl> {
        // serde would take an array for an object, too.
        if text.trim_start().starts_with('[') {
            return Err(BadControl::Json("it must be an object".to_owned()));
        }
        let raw = serde_json::from_str(text).map_err(|error| BadControl::Json(error.to_string()))?;
        match raw {
            RawControl::Eof {} => Ok(Self::Eof),
            RawControl::Resize { cols, rows } => {
                let side = |side| u16::try_from(side).unwrap_or(u16::MAX);
                let size = TtySize { cols: side(cols), rows: side(rows) };
                size.bad_side().map_or(Ok(Self::Resize(size)), |side| Err(BadControl::Size(side)))
            }
            RawControl::Signal { name } => match Signal::named(&name) {
                Some(signal) => Ok(Self::Signal(signal)),
                None => Err(BadControl::Signal(name.chars().take(32).collect())),
            },
        }
    }

    /// As it is sent.
    pub fn encode(&self) -> String {
        let raw = match self {
            Self::Eof => RawControl::Eof {},
            Self::Resize(TtySize { cols, rows }) => {
                RawControl::Resize { cols: u64::from(*cols), rows: u64::from(*rows) }
            }
            Self::Signal(signal) => RawControl::Signal { name: signal.name() },
        };
        // Strings, numbers and no map: this cannot fail.
        serde_json::to_string(&raw).unwrap_or_default()
    }
}
