//! A command's stream as a strict client reads it.

use super::{
    client::{Client, End, Response},
    net::Cutter,
};
use hangar_core::{Time, wire::sse::Decoder};
use serde_json::Value;
use std::collections::VecDeque;

/// Something that came.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A comment.
    Comment,
    /// Text of standard output.
    Stdout(String),
    /// Text of standard error.
    Stderr(String),
    /// Bytes of standard output or standard error, in base64.
    Base64(&'static str, String),
    /// The result.
    Result(Value),
}

/// An open stream.
#[derive(Debug)]
pub struct Stream {
    client: Client,
    head: Response,
    decoder: Decoder,
    /// What the comments are found by: whether a line begins.
    line_begins: bool,
    items: VecDeque<Item>,
    result: Option<Value>,
}

/// Everything that came, and when.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    /// Each item, with its time.
    pub items: Vec<(Time, Item)>,
    /// All text of standard output.
    pub stdout: String,
    /// All text of standard error.
    pub stderr: String,
    /// The result.
    pub result: Value,
    /// When the stream was at its end.
    pub ended_at: Time,
}

impl Transcript {
    /// Adds what came at a time.
    pub fn add(&mut self, at: Time, item: Item) {
        match &item {
            Item::Stdout(text) | Item::Base64("stdout", text) => self.stdout += text,
            Item::Stderr(text) | Item::Base64(_, text) => self.stderr += text,
            Item::Result(result) => self.result = result.clone(),
            Item::Comment => {}
        }
        self.items.push((at, item));
        self.ended_at = at;
    }

    /// When comments came.
    pub fn comments(&self) -> Vec<Time> {
        self.items.iter().filter(|(_, item)| *item == Item::Comment).map(|(at, _)| *at).collect()
    }

    /// The texts, in order.
    pub fn texts(&self) -> Vec<&str> {
        self.items
            .iter()
            .filter_map(|(_, item)| match item {
                Item::Stdout(text) | Item::Stderr(text) => Some(text.as_str()),
                Item::Comment | Item::Base64(..) | Item::Result(_) => None,
            })
            .collect()
    }
}

impl Stream {
    /// The stream that follows a head.
    pub fn new(client: Client, head: Response) -> Self {
        Self {
            client,
            head,
            decoder: Decoder::new(16 << 20),
            line_begins: true,
            items: VecDeque::new(),
            result: None,
        }
    }

    /// The head of the answer.
    pub const fn head(&self) -> &Response {
        &self.head
    }

    /// Its connection.
    pub const fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// What cuts its connection.
    pub fn cutter(&self) -> Cutter {
        self.client.cutter()
    }

    /// The connection, once the stream is at its end.
    pub fn into_client(self) -> Client {
        self.client
    }

    /// The next item; None at the end.
    ///
    /// # Panics
    ///
    /// If the stream is not as it has to be: an event that there is not, something after the result, an end without
    /// one.
    pub async fn next(&mut self) -> Result<Option<Item>, End> {
        loop {
            if let Some(item) = self.items.pop_front() {
                self.client.runtime.trace().note(format_args!("{}: {}", self.client.number(), brief(&item)));
                return Ok(Some(item));
            }
            match self.client.chunk().await? {
                Some(chunk) => self.take(&chunk),
                None => {
                    assert!(self.result.is_some(), "a stream ends by its result");
                    return Ok(None);
                }
            }
        }
    }

    /// The next item that is not a comment.
    pub async fn next_event(&mut self) -> Result<Option<Item>, End> {
        loop {
            match self.next().await? {
                Some(Item::Comment) => {}
                other => return Ok(other),
            }
        }
    }

    /// Reads to the end.
    pub async fn read_to_end(&mut self) -> Result<Transcript, End> {
        let mut transcript = Transcript::default();
        while let Some(item) = self.next().await? {
            transcript.add(self.client.runtime.clock().now(), item);
        }
        transcript.ended_at = self.client.runtime.clock().now();
        Ok(transcript)
    }

    fn take(&mut self, chunk: &[u8]) {
        assert!(self.result.is_none(), "nothing follows the result: {:?}", String::from_utf8_lossy(chunk));
        for line in chunk.split_inclusive(|byte| *byte == b'\n') {
            if self.line_begins && line[0] == b':' {
                self.items.push_back(Item::Comment);
            }
            self.line_begins = line.ends_with(b"\n");
        }
        self.decoder.push(chunk).unwrap();
        while let Some(event) = self.decoder.next_event() {
            assert!(self.result.is_none(), "nothing follows the result: {event:?}");
            let data: Value = serde_json::from_str(&event.data).unwrap();
            let item = match (event.name.as_str(), &data["data"], &data["base64"]) {
                ("result", _, _) => Item::Result(data),
                ("stdout", Value::String(text), Value::Null) => Item::Stdout(text.clone()),
                ("stderr", Value::String(text), Value::Null) => Item::Stderr(text.clone()),
                ("stdout", Value::Null, Value::String(base64)) => Item::Base64("stdout", base64.clone()),
                ("stderr", Value::Null, Value::String(base64)) => Item::Base64("stderr", base64.clone()),
                _ => panic!("there is no event {event:?}"),
            };
            if let Item::Result(result) = &item {
                check(result);
                self.result = Some(result.clone());
            }
            self.items.push_back(item);
        }
    }
}

/// What every result has to be like.
fn check(result: &Value) {
    const FIELDS: [&str; 14] = [
        "exit_code",
        "signal",
        "stdout",
        "stderr",
        "encoding",
        "streamed",
        "duration_ms",
        "timed_out",
        "closed",
        "error",
        "stdout_truncated",
        "stderr_truncated",
        "output_capped",
        "drain_timed_out",
    ];
    let fields = result.as_object().unwrap();
    assert!(fields.keys().all(|field| FIELDS.contains(&field.as_str())), "{result}");
    assert!(fields.contains_key("exit_code"), "the exit code is always there: {result}");
    let known = result["exit_code"].is_i64();
    let ways = [known, result["signal"].is_string(), result["closed"].is_string()];
    if known || result["signal"].is_string() {
        assert!(!(ways[0] && ways[1]), "a code or a signal: {result}");
    } else {
        assert!(ways[2], "without an end there is a reason: {result}");
    }
    assert_eq!(result["closed"] == "error", result["error"].is_object(), "{result}");
}

fn brief(item: &Item) -> String {
    match item {
        Item::Comment => "a comment".to_owned(),
        Item::Stdout(text) => format!("stdout {}", text.len()),
        Item::Stderr(text) => format!("stderr {}", text.len()),
        Item::Base64(name, text) => format!("{name} base64 {}", text.len()),
        Item::Result(result) => format!(
            "result code {} signal {} closed {} after {} ms",
            result["exit_code"], result["signal"], result["closed"], result["duration_ms"]
        ),
    }
}
