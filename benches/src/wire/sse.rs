//! The Server-Sent Events of a streamed exec: `stdout` and `stderr` passed on as they come, the `result` kept. Those of
//! a background process: `output` passed on event by event, since what it was printed on comes last; the `end` kept.

use serde::Deserialize;

use super::{Sink, json_text::JsonText, tally::Tally};
use crate::Result;

/// The longest line that is collected; a result has at most 256 KiB each of stdout and stderr, escaped.
const MAX_LINE: usize = 16 << 20;

/// How much of the command's stderr is kept, for an error's message.
const MAX_STDERR: usize = 1024;

/// How an exec ended: the fields that say whether it can be measured.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct ExecResult {
    /// The command's exit code; unset when it has none.
    #[serde(default)]
    pub exit_code: Option<i64>,
    /// The end of what it printed.
    #[serde(default)]
    pub stdout: String,
    /// The end of what it printed to stderr.
    #[serde(default)]
    pub stderr: String,
    /// Whether it ran into its timeout.
    #[serde(default)]
    pub timed_out: bool,
    /// Why the stream ended before the command.
    #[serde(default)]
    pub closed: Option<String>,
    /// Whether some output was not sent.
    #[serde(default)]
    pub output_capped: bool,
    /// Whether the output went on after the exit.
    #[serde(default)]
    pub drain_timed_out: bool,
}

impl ExecResult {
    /// Whether the command ran to its end and all it printed was sent; if not, why not.
    pub fn check(&self) -> Result<()> {
        let whole = !self.timed_out && self.closed.is_none() && !self.output_capped && !self.drain_timed_out;
        if self.exit_code == Some(0) && whole {
            return Ok(());
        }
        let Self { exit_code, stderr, timed_out, closed, output_capped, drain_timed_out, .. } = self;
        Err(format!(
            "the command did not end as it should: exit_code {exit_code:?}, timed_out {timed_out}, closed {closed:?}, \
             output_capped {output_capped}, drain_timed_out {drain_timed_out}, stderr {stderr:?}"
        )
        .into())
    }
}

/// Output of a background process.
#[derive(Deserialize)]
struct Piece {
    data: String,
    stream: String,
}

/// What is done with the text of an event.
#[derive(Debug)]
enum Text {
    Decoded(JsonText),
    Tallied(Tally),
}

/// Decodes an event stream that arrives in pieces.
#[derive(Debug, Default)]
pub struct Events {
    /// The current line, while it is not the text of an event.
    line: Vec<u8>,
    /// The text of the current event, while we are in it.
    text: Option<Text>,
    /// What was decoded of it and not yet passed on; empty between calls.
    decoded: Vec<u8>,
    event: Event,
    /// Whether the current event has had its text, and the data of an event that has none.
    had_text: bool,
    data: Vec<u8>,
    result: Option<ExecResult>,
    stderr: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Event {
    Stdout,
    Stderr,
    /// Of a background process, on either of the two.
    Output,
    /// How a command ended, or a background process.
    Result,
    /// An event that says that something is missing.
    Loss,
    #[default]
    Other,
}

impl Events {
    /// Decodes what was received at `at_ns`.
    pub fn feed<S: Sink>(&mut self, at_ns: u64, mut bytes: &[u8], sink: &mut S) -> Result<()> {
        while !bytes.is_empty() {
            let used = match &mut self.text {
                Some(Text::Decoded(text)) => {
                    let used = text.feed(bytes, &mut self.decoded)?;
                    let ended = text.ended();
                    self.pass_on(self.event, at_ns, sink);
                    if ended {
                        self.text = None;
                    }
                    used
                }
                Some(Text::Tallied(text)) => {
                    let (used, tallied) = text.feed(bytes)?;
                    if let Some(tallied) = tallied {
                        sink.tally(tallied);
                        self.text = None;
                    }
                    used
                }
                None => self.feed_line(at_ns, bytes, sink)?,
            };
            bytes = &bytes[used..];
        }
        Ok(())
    }

    /// The result, once it has come.
    pub const fn result(&self) -> Option<&ExecResult> {
        self.result.as_ref()
    }

    /// The beginning of what the command printed to stderr.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    fn pass_on(&mut self, printed_on: Event, at_ns: u64, sink: &mut impl Sink) {
        if printed_on == Event::Stdout && !self.decoded.is_empty() {
            sink.payload(at_ns, &self.decoded);
        } else {
            let room = MAX_STDERR.saturating_sub(self.stderr.len());
            self.stderr.extend_from_slice(&self.decoded[..self.decoded.len().min(room)]);
        }
        self.decoded.clear();
    }

    /// Passes on an event of a background process.
    fn handle_piece(&mut self, at_ns: u64, data: &[u8], sink: &mut impl Sink) -> Result<()> {
        let piece: Piece =
            serde_json::from_slice(data).map_err(|error| format!("output that does not parse: {error}"))?;
        self.decoded = piece.data.into_bytes();
        let printed_on = if piece.stream == "stdout" { Event::Stdout } else { Event::Stderr };
        self.pass_on(printed_on, at_ns, sink);
        Ok(())
    }

    /// Takes bytes of a line, until its end or until it turns out to be the text of an event.
    fn feed_line<S: Sink>(&mut self, at_ns: u64, bytes: &[u8], sink: &mut S) -> Result<usize> {
        const DATA: &[u8] = b"data:";
        let room = if self.line.len() < DATA.len() { DATA.len() - self.line.len() } else { bytes.len() };
        let bytes = &bytes[..bytes.len().min(room)];
        let end = memchr::memchr(b'\n', bytes);
        self.line.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
        if end.is_some() {
            self.handle_line(at_ns, sink)?;
            self.line.clear();
        } else if self.line == DATA && matches!(self.event, Event::Stdout | Event::Stderr) {
            self.line.clear();
            self.text = Some(if S::TALLIES && self.event == Event::Stdout {
                Text::Tallied(Tally::default())
            } else {
                Text::Decoded(JsonText::default())
            });
            self.had_text = true;
        } else if self.line.len() > MAX_LINE {
            return Err("a line of the event stream is longer than any should be".into());
        }
        Ok(end.map_or(bytes.len(), |end| end + 1))
    }

    fn handle_line(&mut self, at_ns: u64, sink: &mut impl Sink) -> Result<()> {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        if line.is_empty() {
            return self.dispatch(at_ns, sink);
        }
        let value =
            |name: &[u8]| line.strip_prefix(name).map(|value| value.strip_prefix(b" ").unwrap_or(value));
        if let Some(name) = value(b"event:") {
            self.event = match name {
                b"stdout" => Event::Stdout,
                b"stderr" => Event::Stderr,
                b"output" => Event::Output,
                b"result" | b"end" => Event::Result,
                b"gap" | b"close" => Event::Loss,
                _ => Event::Other,
            };
        } else if let Some(data) = value(b"data:") {
            self.data.extend_from_slice(data);
        }
        Ok(())
    }

    fn dispatch(&mut self, at_ns: u64, sink: &mut impl Sink) -> Result<()> {
        let (event, had_text) = (std::mem::take(&mut self.event), std::mem::take(&mut self.had_text));
        let data = std::mem::take(&mut self.data);
        match event {
            Event::Stdout | Event::Stderr if had_text && self.result.is_none() => Ok(()),
            Event::Output if self.result.is_none() => self.handle_piece(at_ns, &data, sink),
            Event::Stdout | Event::Stderr | Event::Output => {
                Err("an output event without text, or after the result".into())
            }
            Event::Loss => {
                Err(format!("output was lost or the stream closed: {}", String::from_utf8_lossy(&data))
                    .into())
            }
            Event::Result if self.result.is_some() => Err("a second result".into()),
            Event::Result => {
                let result = serde_json::from_slice(&data);
                self.result = Some(result.map_err(|error| format!("a result that does not parse: {error}"))?);
                Ok(())
            }
            Event::Other => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Collected, *};
    use crate::measure::sink::Count;

    fn decode(pieces: &[&[u8]]) -> Result<(Events, Vec<u8>)> {
        let (mut events, mut collected) = (Events::default(), Collected::default());
        for piece in pieces {
            events.feed(1, piece, &mut collected)?;
        }
        Ok((events, collected.0))
    }

    const STREAM: &str = ": open\n\nevent: stdout\ndata: {\"data\":\"one\\ntwo\"}\n\n:\n\nevent: stderr\n\
        data: {\"data\":\"oops\\n\"}\n\nevent:stdout\r\nid: 7\r\ndata:{\"data\":\"\\n\\\"three\\\"\\n\"}\r\n\r\n\
        event: later\ndata: {}\n\nevent: result\n\
        data: {\"exit_code\":0,\"stdout\":\"x\",\"stderr\":\"\",\"streamed\":true,\"duration_ms\":3}\n\n";

    #[test]
    fn payload_and_result_are_the_same_however_the_stream_is_cut() {
        for cut in 0..=STREAM.len() {
            let (head, tail) = STREAM.as_bytes().split_at(cut);
            let (events, payload) = decode(&[head, tail]).unwrap();
            assert_eq!(payload, b"one\ntwo\n\"three\"\n", "cut at {cut}");
            assert_eq!(events.stderr(), "oops\n");
            assert!(events.result().unwrap().check().is_ok());
        }
        let bytes: Vec<&[u8]> = STREAM.as_bytes().chunks(1).collect();
        assert_eq!(decode(&bytes).unwrap().1, b"one\ntwo\n\"three\"\n");
    }

    #[test]
    fn a_sink_that_only_counts_gets_the_same_count() {
        for cut in 0..=STREAM.len() {
            let (mut events, mut count) = (Events::default(), Count::default());
            let stream = STREAM.replace('\r', "");
            let (head, tail) = stream.as_bytes().split_at(cut.min(stream.len()));
            events.feed(1, head, &mut count).unwrap();
            events.feed(1, tail, &mut count).unwrap();
            assert_eq!((count.bytes, count.lines), (16, 3), "cut at {cut}");
            assert!(events.result().is_some());
        }
    }

    #[test]
    fn the_result_comes_with_its_last_byte() {
        for cut in 0..STREAM.len() {
            assert!(decode(&[&STREAM.as_bytes()[..cut]]).unwrap().0.result().is_none(), "cut at {cut}");
        }
    }

    #[test]
    fn a_background_process_says_last_what_it_printed_on() {
        let stream = ":\n\nevent: output\nid: 4\ndata: {\"data\":\"one\\n\",\"stream\":\"stdout\"}\n\n\
            event: output\nid: 9\ndata: {\"data\":\"oops\\n\",\"stream\":\"stderr\"}\n\n\
            event: output\nid: 13\ndata: {\"data\":\"two\\n\",\"stream\":\"stdout\"}\n\n\
            event: end\ndata: {\"exit_code\":0}\n\n";
        for cut in 0..=stream.len() {
            let (head, tail) = stream.as_bytes().split_at(cut);
            let (events, payload) = decode(&[head, tail]).unwrap();
            assert_eq!((payload.as_slice(), events.stderr().as_str()), (&b"one\ntwo\n"[..], "oops\n"));
            assert!(events.result().unwrap().check().is_ok(), "cut at {cut}");
            // The same where it would do to count.
            let (mut events, mut count) = (Events::default(), Count::default());
            events.feed(1, head, &mut count).unwrap();
            events.feed(2, tail, &mut count).unwrap();
            assert_eq!((count.bytes, count.lines), (8, 2), "cut at {cut}");
        }
    }

    #[test]
    fn what_is_missing_is_an_error() {
        let result = "event: result\ndata: {\"exit_code\":0}\n\n";
        for stream in [
            "event: gap\ndata: {\"from_seq\":1}\n\n".to_owned(),
            "event: close\ndata: {\"reason\":\"shutdown\"}\n\n".to_owned(),
            "event: stdout\n\n".to_owned(),
            "event: result\ndata: nonsense\n\n".to_owned(),
            "event: output\ndata: {\"base64\":\"aGk=\",\"stream\":\"stdout\"}\n\n".to_owned(),
            "event: end\ndata: {\"exit_code\":0}\n\nevent: output\ndata: {\"data\":\"\",\"stream\":\"tty\"}\n\n"
                .to_owned(),
            format!("{result}{result}"),
            format!("{result}event: stdout\ndata: {{\"data\":\"late\"}}\n\n"),
        ] {
            assert!(decode(&[stream.as_bytes()]).is_err(), "{stream}");
        }
    }

    #[test]
    fn only_a_whole_success_can_be_measured() {
        let good = ExecResult { exit_code: Some(0), ..ExecResult::default() };
        assert!(good.check().is_ok());
        for bad in [
            ExecResult { exit_code: Some(127), ..good.clone() },
            ExecResult { exit_code: None, ..good.clone() },
            ExecResult { timed_out: true, ..good.clone() },
            ExecResult { closed: Some("shutdown".to_owned()), ..good.clone() },
            ExecResult { output_capped: true, ..good.clone() },
            ExecResult { drain_timed_out: true, ..good },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
