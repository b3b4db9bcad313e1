//! The events of an MCP call: the message of each progress notification passed on as it comes, the result kept. Of any
//! other notification its name is passed on, as a line.
//!
//! Of a message only the frame is looked at that hangar writes; a server that writes another is an error, not a wrong
//! figure.

use memchr::{memchr, memchr_iter, memmem};
use serde_json::Value;

use super::{Sink, sse::ExecResult, tally::Tallied};
use crate::Result;

/// The longest line that is collected.
const MAX_LINE: usize = 16 << 20;

/// What a progress notification begins with.
const PROGRESS: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":";

/// What any other one begins with, before its name.
const NOTIFICATION: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/";

/// What stands before the text in it, and after it.
const MESSAGE: &[u8] = b",\"message\":\"";
const CLOSING: &[u8] = b"\"}}";

/// Decodes the event stream of one call.
#[derive(Debug, Default)]
pub struct Messages {
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    result: Option<ExecResult>,
}

impl Messages {
    /// Decodes what was received at `at_ns`.
    pub fn feed<S: Sink>(&mut self, at_ns: u64, mut bytes: &[u8], sink: &mut S) -> Result<()> {
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.line.is_empty() {
                self.handle_line(at_ns, line, sink)?;
            } else {
                self.line.extend_from_slice(line);
                let line = std::mem::take(&mut self.line);
                self.handle_line(at_ns, &line, sink)?;
            }
            bytes = rest;
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() > MAX_LINE {
            return Err("a line of the event stream is longer than any should be".into());
        }
        Ok(())
    }

    /// The result, once it has come.
    pub const fn result(&self) -> Option<&ExecResult> {
        self.result.as_ref()
    }

    fn handle_line<S: Sink>(&mut self, at_ns: u64, line: &[u8], sink: &mut S) -> Result<()> {
        let Some(message) = line.strip_prefix(b"data: ") else {
            let silent = line.is_empty() || line.starts_with(b":") || line.starts_with(b"id: ");
            return if silent { Ok(()) } else { Err("a field that no event of a call has".into()) };
        };
        if message.is_empty() {
            // It only has an id, for a client that comes back.
            return Ok(());
        }
        if self.result.is_some() {
            return Err("a message after the result".into());
        }
        let Some(progress) = message.strip_prefix(PROGRESS) else {
            if let Some(rest) = message.strip_prefix(NOTIFICATION) {
                let name = memchr(b'"', rest).map(|end| &rest[..end]).filter(|name| *name != b"progress");
                sink.payload(at_ns, &[name.ok_or("a notification with another frame")?, b"\n"].concat());
                return Ok(());
            }
            self.result = Some(answered(message)?);
            return Ok(());
        };
        // A sign of life has no text.
        let Some(at) = memmem::find(&progress[..progress.len().min(64)], MESSAGE) else { return Ok(()) };
        let text =
            progress[at + MESSAGE.len()..].strip_suffix(CLOSING).ok_or("progress with another frame")?;
        if S::TALLIES {
            sink.tally(tallied(text)?);
        } else {
            let quoted = [b"\"", text, b"\""].concat();
            sink.payload(at_ns, serde_json::from_slice::<String>(&quoted)?.as_bytes());
        }
        Ok(())
    }
}

/// What the text holds, where nothing but line breaks and quotes is escaped in it.
fn tallied(text: &[u8]) -> Result<Tallied> {
    let count = |byte| memchr_iter(byte, text).count() as u64;
    let (escapes, quotes) = (count(b'\\'), count(b'"'));
    let lines = escapes.checked_sub(quotes).ok_or("a quote that is not escaped")?;
    Ok(Tallied { bytes: text.len() as u64 - escapes, lines })
}

fn answered(message: &[u8]) -> Result<ExecResult> {
    let message: Value = serde_json::from_slice(message)?;
    let result = &message["result"];
    if result["isError"] == true || !result["structuredContent"].is_object() {
        return Err(format!("no result: {message}").into());
    }
    Ok(serde_json::from_value(result["structuredContent"].clone())?)
}

#[cfg(test)]
mod tests {
    use super::{super::Collected, *};
    use crate::measure::sink::Count;

    fn progress(text: &str) -> String {
        let text = serde_json::to_string(text).unwrap();
        format!(
            "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":0,\
             \"progress\":7,\"message\":{text}}}}}\n\n"
        )
    }

    fn stream() -> String {
        let life = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":0,\
                    \"progress\":7.0001}}\n\n";
        let result = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[],\
                      \"structuredContent\":{\"exit_code\":0,\"stdout\":\"x\"}}}\n\n";
        [":\n\n", &progress("one\ntwo"), life, &progress("\n\"three\",\"message\":\"\n"), result].concat()
    }

    #[test]
    fn text_and_result_are_the_same_however_the_stream_is_cut() {
        for cut in 0..=stream().len() {
            let stream = stream();
            let (head, tail) = stream.as_bytes().split_at(cut);
            let (mut one, mut other) = (Messages::default(), Messages::default());
            let (mut collected, mut count) = (Collected::default(), Count::default());
            for piece in [head, tail] {
                one.feed(1, piece, &mut collected).unwrap();
                other.feed(1, piece, &mut count).unwrap();
            }
            let text = b"one\ntwo\n\"three\",\"message\":\"\n";
            assert_eq!((&collected.0[..], count.bytes, count.lines), (&text[..], text.len() as u64, 3));
            assert!(one.result().unwrap().check().is_ok() && other.result().is_some());
        }
    }

    #[test]
    fn other_notifications_are_lines() {
        let updated = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{}}";
        let stream = format!("id: 1:0\ndata: \n\n:\n\nid: 1:1\ndata: {updated}\n\ndata: {updated}\n\n");
        let mut collected = Collected::default();
        Messages::default().feed(1, stream.as_bytes(), &mut collected).unwrap();
        assert_eq!(collected.0, b"resources/updated\nresources/updated\n");
    }

    #[test]
    fn what_is_no_such_stream_is_an_error() {
        for bad in [
            "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32603,\"message\":\"x\"}}\n",
            "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"isError\":true,\"structuredContent\":{}}}\n",
            "event: x\n",
            "data: nonsense\n",
            &progress("x").replace("}}", "},\"more\":1}"),
            &progress("x").replace("progressToken", "token"),
        ] {
            assert!(Messages::default().feed(1, bad.as_bytes(), &mut Count::default()).is_err(), "{bad}");
        }
        let mut messages = Messages::default();
        messages.feed(1, stream().as_bytes(), &mut Count::default()).unwrap();
        assert!(messages.feed(1, progress("late").as_bytes(), &mut Count::default()).is_err());
    }
}
