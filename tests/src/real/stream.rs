//! A command's stream as a client follows it.

use super::client::Response;
use base64::prelude::{BASE64_STANDARD, Engine};
use hangar_core::{
    exec::ExecResult,
    wire::sse::{self, Decoder},
};
use serde_json::Value;
use std::{
    io::{self, Read},
    net::Shutdown,
};

/// The longest event: a result with two full tails, every byte of them escaped.
const MAX_EVENT: usize = 8 * 1024 * 1024;

/// An open stream. Dropped, its client has left.
#[derive(Debug)]
pub struct Stream {
    response: Response,
    decoder: Decoder,
}

/// One event of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Standard output.
    Stdout(Vec<u8>),
    /// Standard error.
    Stderr(Vec<u8>),
    /// The result.
    Result(Box<ExecResult>),
}

/// A whole stream.
#[derive(Clone, Debug)]
pub struct Collected {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// The result.
    pub result: ExecResult,
}

impl Collected {
    /// Standard output, which is text.
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }
}

impl Stream {
    pub(super) fn new(response: Response) -> Self {
        Self { response, decoder: Decoder::new(MAX_EVENT) }
    }

    /// The status line and the headers of the answer.
    pub fn head(&self) -> &str {
        &self.response.head
    }

    /// The body as it comes, for whoever does not want events.
    pub fn body(&mut self) -> &mut Response {
        &mut self.response
    }

    /// Closes the half of the connection that this client sends on.
    pub fn half_close(&self) {
        self.response.socket().shutdown(Shutdown::Write).unwrap();
    }

    /// The next event; None at the end of the stream, an error where it was cut.
    pub fn try_next(&mut self) -> io::Result<Option<Event>> {
        self.try_next_by(16 * 1024)
    }

    /// As [`try_next`](Self::try_next), with reads of at most `piece` bytes.
    pub fn try_next_by(&mut self, piece: usize) -> io::Result<Option<Event>> {
        let mut buffer = vec![0; piece];
        loop {
            if let Some(event) = self.decoder.next_event() {
                return Ok(Some(typed(&event)));
            }
            match self.response.read(&mut buffer)? {
                0 => return Ok(None),
                read => self.decoder.push(&buffer[..read]).map_err(io::Error::other)?,
            }
        }
    }

    /// The next event, which has to come.
    pub fn next_event(&mut self) -> Event {
        self.try_next().unwrap().expect("the stream goes on")
    }

    /// Reads until standard output holds `text`, which ends what came so far, and gives that back.
    pub fn read_until(&mut self, text: &str) -> String {
        let mut all = Vec::new();
        while !all.ends_with(text.as_bytes()) {
            match self.next_event() {
                Event::Stdout(data) => all.extend(data),
                other @ (Event::Stderr(_) | Event::Result(_)) => {
                    panic!("{other:?} after {:?}", String::from_utf8_lossy(&all))
                }
            }
        }
        String::from_utf8(all).unwrap()
    }

    /// Reads to the end: there is one result, and it comes last.
    pub fn collect(mut self) -> Collected {
        self.collect_by(16 * 1024, || {})
    }

    /// As [`collect`](Self::collect), with reads of at most `piece` bytes and `pause` after each event.
    pub fn collect_by(&mut self, piece: usize, mut pause: impl FnMut()) -> Collected {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            match self.try_next_by(piece).unwrap().expect("a stream has a result") {
                Event::Stdout(data) => stdout.extend(data),
                Event::Stderr(data) => stderr.extend(data),
                Event::Result(result) => {
                    assert_eq!(self.try_next().unwrap(), None, "nothing follows the result");
                    return Collected { stdout, stderr, result: *result };
                }
            }
            pause();
        }
    }
}

fn typed(event: &sse::Event) -> Event {
    let data: Value = serde_json::from_str(&event.data).unwrap();
    let bytes = || match (&data["data"], &data["base64"]) {
        (Value::String(text), Value::Null) => text.clone().into_bytes(),
        (Value::Null, Value::String(base64)) => BASE64_STANDARD.decode(base64).unwrap(),
        other => panic!("neither text nor base64: {other:?}"),
    };
    match event.name.as_str() {
        "stdout" => Event::Stdout(bytes()),
        "stderr" => Event::Stderr(bytes()),
        "result" => Event::Result(Box::new(serde_json::from_value(data).unwrap())),
        other => panic!("no stream of a command has the event {other}"),
    }
}
