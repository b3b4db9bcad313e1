//! A process as a client follows it.

use crate::{
    envd::{self, Event},
    real::client::Response,
};
use hangar_core::wire::{
    connect::{Codec, Decoder, End, RpcError},
    envd::{Message, decode, process::EndEvent},
};
use std::{
    io::{self, Read},
    net::TcpStream,
};

/// A process that is followed. Dropped, its client has left.
#[derive(Debug)]
pub struct Followed {
    response: Response,
    decoder: Decoder,
    codec: Codec,
}

/// All that a stream said.
#[derive(Clone, Debug, Default)]
pub struct Whole {
    /// The number of the process.
    pub pid: u32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// What was on its terminal.
    pub pty: Vec<u8>,
    /// How it ended.
    pub end: Option<EndEvent>,
    /// Why the stream did; None where all was well.
    pub error: Option<RpcError>,
}

impl Whole {
    /// Standard output, which is text.
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }

    /// What it returned.
    pub fn code(&self) -> Option<i32> {
        self.end.as_ref().filter(|end| end.exited).map(|end| end.exit_code)
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "what is not expected is all the rest")]
impl Followed {
    pub(super) fn new(response: Response, codec: Codec) -> Self {
        Self { response, decoder: Decoder::new(1 << 26), codec }
    }

    /// The next event; an error where the connection was cut.
    pub fn try_next(&mut self) -> io::Result<Event> {
        let mut buffer = [0; 64 * 1024];
        loop {
            if let Some(event) = envd::event(self.codec, &mut self.decoder) {
                return Ok(event);
            }
            match self.response.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.decoder.push(&buffer[..read]),
            }
        }
    }

    /// The next message that is no event; None at the end of the stream.
    pub fn try_next_message<M: Message>(&mut self) -> io::Result<Option<M>> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(envelope) = self.decoder.next_envelope().unwrap() {
                let message = (!envelope.is_end()).then(|| decode(self.codec, &envelope.data).unwrap());
                return Ok(message);
            }
            match self.response.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.decoder.push(&buffer[..read]),
            }
        }
    }

    /// All messages, which need be no events, and why the stream ended.
    pub fn messages<M: Message>(mut self) -> (Vec<M>, Option<RpcError>) {
        let mut body = Vec::new();
        self.response.read_to_end(&mut body).unwrap();
        self.decoder.push(&body);
        let mut messages = Vec::new();
        loop {
            let envelope = self.decoder.next_envelope().unwrap().expect("a stream has an end");
            if envelope.is_end() {
                assert!(!self.decoder.is_inside(), "nothing follows the end of a stream");
                return (messages, End::parse(&envelope.data).unwrap().error);
            }
            messages.push(decode(self.codec, &envelope.data).unwrap());
        }
    }

    /// The next event, which has to come.
    pub fn next_event(&mut self) -> Event {
        self.try_next().unwrap()
    }

    /// The number of the process: the first thing that is said.
    pub fn pid(&mut self) -> u32 {
        match self.next_event() {
            Event::Start(start) => start.pid,
            other => panic!("{other:?} came first"),
        }
    }

    /// Reads until what was printed holds `text`, and gives all of that.
    pub fn read_until(&mut self, text: &str) -> String {
        let mut all = Vec::new();
        while !all.windows(text.len()).any(|part| part == text.as_bytes()) {
            match self.next_event() {
                Event::Data(data) => all.extend(data.stdout.or(data.pty).unwrap_or_default()),
                Event::KeepAlive => {}
                other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&all)),
            }
        }
        String::from_utf8(all).unwrap()
    }

    /// Reads to the end, and checks the order of what comes.
    pub fn collect(mut self) -> Whole {
        let mut whole = Whole::default();
        loop {
            let event = self.next_event();
            match event {
                Event::Start(start) => {
                    assert_eq!(whole.pid, 0, "one start");
                    whole.pid = start.pid;
                }
                Event::Data(data) => {
                    assert_eq!(whole.end, None, "nothing is printed after the end");
                    whole.stdout.extend(data.stdout.unwrap_or_default());
                    whole.stderr.extend(data.stderr.unwrap_or_default());
                    whole.pty.extend(data.pty.unwrap_or_default());
                }
                Event::End(end) => {
                    assert_eq!(whole.end, None, "one end");
                    whole.end = Some(end);
                }
                Event::Exited(_) | Event::KeepAlive => {}
                Event::Closed(error) => {
                    whole.error = error;
                    let mut rest = Vec::new();
                    self.response.read_to_end(&mut rest).unwrap();
                    assert_eq!(rest, b"", "nothing follows the end of a stream");
                    return whole;
                }
            }
        }
    }

    /// The socket, to leave it unread.
    pub fn socket(&self) -> &TcpStream {
        self.response.socket()
    }
}
