//! Bytes to events, as a conforming client reads them.

use std::{collections::VecDeque, sync::Arc};

/// An event that a client would dispatch.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Event {
    /// Its type: `message` where the stream named none.
    pub name: String,
    /// Its data: the `data` lines, joined by LF.
    pub data: String,
    /// The last id the stream gave, at this event or before it; empty where there was none. Shared by the events that
    /// have it: a long one does not multiply.
    pub id: Arc<str>,
}

/// A line or an event that is longer than the decoder takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("an event is longer than {0} bytes")]
pub struct TooLong(pub usize);

/// A strict decoder: bytes in, wherever they are cut, and events out.
///
/// Follows the WHATWG's "Interpreting an event stream": LF, CR LF and CR end lines, a byte order mark at the start is
/// dropped, an event without data is not dispatched, an `id` with NUL in it is ignored and an empty one clears the id,
/// and what the stream's end leaves unfinished is dropped.
#[derive(Debug)]
pub struct Decoder {
    max: usize,
    line: Vec<u8>,
    after_cr: bool,
    first_line: bool,
    name: String,
    data: String,
    has_data: bool,
    id: Arc<str>,
    retry: Option<u64>,
    events: VecDeque<Event>,
    too_long: bool,
}

impl Decoder {
    /// A decoder that takes lines and events of at most `max` bytes.
    pub fn new(max: usize) -> Self {
        Self {
            max,
            line: Vec::new(),
            after_cr: false,
            first_line: true,
            name: String::new(),
            data: String::new(),
            has_data: false,
            id: Arc::default(),
            retry: None,
            events: VecDeque::new(),
            too_long: false,
        }
    }

    /// Takes bytes as they came. After the error it takes nothing more: the stream is of no use.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), TooLong> {
        while !bytes.is_empty() && !self.too_long {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + part.len() + self.data.len() > self.max {
                self.too_long = true;
                break;
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else { break };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line();
        }
        if self.too_long { Err(TooLong(self.max)) } else { Ok(()) }
    }

    /// The next event that is complete.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The reconnection time that the stream asked for last, in milliseconds.
    pub const fn retry(&self) -> Option<u64> {
        self.retry
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let mut line = String::from_utf8_lossy(&line).into_owned();
        if std::mem::take(&mut self.first_line) && line.starts_with('\u{FEFF}') {
            line.remove(0);
        }
        if line.is_empty() {
            self.dispatch();
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                self.has_data = true;
            }
            "id" if !value.contains('\0') => self.id = value.into(),
            "retry" if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.retry = value.parse().ok();
            }
            // A comment has an empty field name; unknown fields are ignored.
            _ => {}
        }
    }

    fn dispatch(&mut self) {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        if !std::mem::take(&mut self.has_data) {
            return;
        }
        let name = if name.is_empty() { "message".to_owned() } else { name };
        self.events.push_back(Event { name, data, id: Arc::clone(&self.id) });
    }
}
