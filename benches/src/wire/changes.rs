//! The events of a watched directory. Each change is passed on as a line: what happened, the name, and what it was called
//! before where it was renamed. So is `ready`, as `ready .`.
//!
//! The names are those that the measurements make: one that is no plain text is an error, as is any end of the watch.

use memchr::memchr;
use serde::Deserialize;

use super::Sink;
use crate::Result;

/// The longest line that is collected; a path has at most 4,096 bytes, each of which may be escaped, and there may be two.
const MAX_LINE: usize = 64 << 10;

/// A change.
#[derive(Deserialize)]
struct Change<'a> {
    name: &'a str,
    r#type: &'a str,
    #[serde(default)]
    from: Option<&'a str>,
}

/// Decodes an event stream that arrives in pieces.
#[derive(Debug, Default)]
pub struct Changes {
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    /// The current event's name; empty for a change.
    event: Vec<u8>,
}

impl Changes {
    /// Decodes what was received at `at_ns`.
    pub fn feed(&mut self, at_ns: u64, mut bytes: &[u8], sink: &mut impl Sink) -> Result<()> {
        let mut told = Vec::new();
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.line.is_empty() {
                self.handle_line(line, &mut told)?;
            } else {
                self.line.extend_from_slice(line);
                let line = std::mem::take(&mut self.line);
                self.handle_line(&line, &mut told)?;
            }
            bytes = rest;
        }
        self.line.extend_from_slice(bytes);
        if !told.is_empty() {
            sink.payload(at_ns, &told);
        }
        if self.line.len() > MAX_LINE {
            return Err("a line of the event stream is longer than any should be".into());
        }
        Ok(())
    }

    fn handle_line(&mut self, line: &[u8], told: &mut Vec<u8>) -> Result<()> {
        if let Some(name) = line.strip_prefix(b"event: ") {
            self.event = name.to_vec();
            return Ok(());
        }
        let Some(data) = line.strip_prefix(b"data: ") else {
            let silent = line.is_empty() || line.starts_with(b":") || line.starts_with(b"id: ");
            return if silent { Ok(()) } else { Err("a field that no event of a watch has".into()) };
        };
        match self.event.as_slice() {
            b"" => tell(data, told)?,
            b"ready" => told.extend_from_slice(b"ready .\n"),
            event => {
                let (event, data) = (String::from_utf8_lossy(event), String::from_utf8_lossy(data));
                return Err(format!("the watch said {event}: {data}").into());
            }
        }
        self.event.clear();
        Ok(())
    }
}

fn tell(data: &[u8], told: &mut Vec<u8>) -> Result<()> {
    let unknown = |error| format!("{error}: a change that no measurement makes: {}", data.escape_ascii());
    let Change { name, r#type, from } = serde_json::from_slice(data).map_err(unknown)?;
    for (number, word) in [Some(r#type), Some(name), from].into_iter().flatten().enumerate() {
        if number > 0 {
            told.push(b' ');
        }
        told.extend_from_slice(word.as_bytes());
    }
    told.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::Collected, *};

    const STREAM: &str = ":\n\nevent: ready\ndata: {\"path\":\"/x\",\"next\":6}\n\n\
        id: 7\ndata: {\"seq\":7,\"ts\":1,\"name\":\"a/0\",\"type\":\"create\"}\n\n:\n\n\
        id: 8\ndata: {\"seq\":8,\"ts\":1,\"name\":\"1\",\"type\":\"rename\",\"from\":\"a/0\"}\n\n\
        id: 9\ndata: {\"seq\":9,\"ts\":1,\"name\":\".\",\"type\":\"overflow\"}\n\n";

    fn decode(pieces: &[&[u8]]) -> Result<String> {
        let (mut changes, mut collected) = (Changes::default(), Collected::default());
        for piece in pieces {
            changes.feed(1, piece, &mut collected)?;
        }
        Ok(String::from_utf8(collected.0)?)
    }

    #[test]
    fn changes_are_lines_however_the_stream_is_cut() {
        for cut in 0..=STREAM.len() {
            let (head, tail) = STREAM.as_bytes().split_at(cut);
            let lines = "ready .\ncreate a/0\nrename 1 a/0\noverflow .\n";
            assert_eq!(decode(&[head, tail]).unwrap(), lines, "cut at {cut}");
        }
    }

    #[test]
    fn what_ends_a_watch_or_is_missing_from_it_is_an_error() {
        for event in [
            "event: end\ndata: {\"reason\":\"removed\"}\n\n",
            "event: close\ndata: {\"reason\":\"limit\"}\n\n",
            "event: gap\ndata: {\"from_seq\":1}\n\n",
            "event: unwatched\ndata: {\"name\":\"a\",\"reason\":\"denied\"}\n\n",
            "id: 1\ndata: {\"seq\":1,\"ts\":1,\"base64\":\"/w==\",\"type\":\"create\"}\n\n",
            "retry: 5\n\n",
        ] {
            assert!(decode(&[event.as_bytes()]).is_err(), "{event}");
        }
    }
}
