//! Events to bytes.

use super::super::json::{base64_into, escape_into};
use crate::text::Text;
use bytes::{BufMut, BytesMut};
use std::fmt::Write;

/// A comment, which every client ignores: the first byte of a stream, and a sign of life in a silence.
pub const COMMENT: &[u8] = b":\n\n";

/// One event being written: a line each for its name, its id and its data, and the blank line that dispatches it.
#[derive(Debug)]
#[must_use = "an event is dispatched by its last line only"]
pub struct Event<'a> {
    out: &'a mut BytesMut,
}

/// Starts an event of this name. `name` is one of ours: letters and `_` only.
pub fn event<'a>(name: &'static str, out: &'a mut BytesMut) -> Event<'a> {
    debug_assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
    out.reserve(64);
    out.put_slice(b"event: ");
    out.put_slice(name.as_bytes());
    out.put_u8(b'\n');
    Event { out }
}

/// Starts an event without a name, which clients take for one of the name `message`.
pub fn message(out: &mut BytesMut) -> Event<'_> {
    out.reserve(64);
    Event { out }
}

impl Event<'_> {
    /// What the client sends as `Last-Event-ID` to go on after this event. A number, so it carries no line end.
    pub fn id(self, id: u64) -> Self {
        // Into memory that grows: this cannot fail, and allocates nothing of its own.
        self.out.write_fmt(format_args!("id: {id}\n")).ok();
        self
    }

    /// Ends the event with text or JSON as its data: a `data` line for each line of it, whichever line ends it has
    /// (LF, CR LF or CR: a bare CR would start a field of its own).
    pub fn data(self, data: &str) {
        let mut rest = data;
        loop {
            let end = rest.find(['\n', '\r']).unwrap_or(rest.len());
            self.out.put_slice(b"data: ");
            self.out.put_slice(&rest.as_bytes()[..end]);
            self.out.put_u8(b'\n');
            rest = &rest[end..];
            let Some(after) = rest.strip_prefix("\r\n").or_else(|| rest.get(1..)) else { break };
            rest = after;
        }
        self.out.put_u8(b'\n');
    }

    /// Ends the event with a piece of output: `{"data": text}`. JSON leaves no line end in it.
    pub fn output(mut self, text: &Text) {
        self.text(text);
        self.out.put_slice(b"\"}\n\n");
    }

    /// The same with where it was printed: `{"data": text, "stream": …}`.
    pub fn output_on(mut self, stream: &'static str, text: &Text) {
        self.text(text);
        self.stream(stream);
    }

    fn text(&mut self, text: &Text) {
        self.out.put_slice(b"data: {\"data\":\"");
        text.pieces().for_each(|piece| escape_into(piece, self.out));
    }

    fn stream(self, stream: &'static str) {
        self.out.put_slice(b"\",\"stream\":\"");
        self.out.put_slice(stream.as_bytes());
        self.out.put_slice(b"\"}\n\n");
    }

    /// Ends the event with a piece of output, byte for byte: `{"base64": …}`.
    pub fn output_base64(mut self, text: &Text) {
        self.base64(text);
        self.out.put_slice(b"\"}\n\n");
    }

    /// The same with where it was printed: `{"base64": …, "stream": …}`.
    pub fn output_base64_on(mut self, stream: &'static str, text: &Text) {
        self.base64(text);
        self.stream(stream);
    }

    fn base64(&mut self, text: &Text) {
        self.out.put_slice(b"data: {\"base64\":\"");
        base64_into(text, self.out);
    }
}

/// Appends a comment with a word in it.
pub fn comment(word: &'static str, out: &mut BytesMut) {
    debug_assert!(word.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    out.put_slice(b": ");
    out.put_slice(word.as_bytes());
    out.put_slice(b"\n\n");
}
