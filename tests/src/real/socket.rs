//! A client of the process protocol, over a library of others.

use super::{
    client::{Client, Reply},
    machine::{PATIENCE, wait_until},
};
use hangar_core::{
    log::Channel,
    wire::process::{Header, ServerControl},
};
use serde_json::{Value, json};
use std::net::TcpStream;
use tungstenite::{
    Bytes, Error, Message, WebSocket, client::IntoClientRequest, error::ProtocolError,
    handshake::HandshakeError,
};

/// The WebSocket of one process.
#[derive(Debug)]
pub struct Socket {
    socket: WebSocket<TcpStream>,
}

/// What it said.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// A text message.
    Control(ServerControl),
    /// Output.
    Frame {
        /// Its number.
        seq: u64,
        /// Where it was printed.
        channel: Channel,
        /// What was printed.
        data: Vec<u8>,
    },
    /// The close frame: its code and its reason. 1006 and nothing where there was none.
    Closed(u16, String),
}

/// Everything that a socket said to its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Whole {
    /// What was printed, on all channels together.
    pub output: Vec<u8>,
    /// The number of the last frame.
    pub last: u64,
    /// Gaps, in their order.
    pub gaps: Vec<ServerControl>,
    /// The last text message.
    pub end: Option<ServerControl>,
    /// The close frame.
    pub closed: Option<(u16, String)>,
}

impl Whole {
    /// What was printed, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    /// The end as JSON.
    pub fn end_json(&self) -> Value {
        self.end.as_ref().map_or(Value::Null, |end| serde_json::from_str(&end.encode()).unwrap())
    }
}

impl Client {
    /// Starts a background process; its id.
    pub fn start(&self, request: &Value) -> String {
        let mut request = request.clone();
        // What the profile of whoever runs the tests does is not what is tested.
        request["env"]["HOME"] = json!("/nonexistent");
        let reply = self.post("/v1/sandboxes/local/processes", &request);
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    /// Starts a command line.
    pub fn start_line(&self, command: &str) -> String {
        self.start(&json!({ "command": command }))
    }

    /// How a process is.
    pub fn show(&self, process: &str) -> Value {
        self.get(&format!("/v1/sandboxes/local/processes/{process}")).json()
    }

    /// A request about a process.
    pub fn of(&self, method: &str, process: &str, rest: &str, body: &Value) -> Reply {
        self.call(method, &format!("/v1/sandboxes/local/processes/{process}{rest}"), Some(body))
    }

    /// Waits until a process has ended.
    pub fn wait_until_ended(&self, process: &str) {
        wait_until("it ends", || self.show(process)["finished_at_ms"].is_i64());
    }

    /// A URL for a socket.
    pub fn access(&self, process: &str, mode: &str) -> String {
        let reply = self.of("PUT", process, "/stream-access", &json!({ "mode": mode }));
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["url"].as_str().unwrap().to_owned()
    }

    /// Opens a socket.
    pub fn open(&self, process: &str, mode: &str, hints: &str) -> Socket {
        Socket::open(&format!("{}{hints}", self.access(process, mode))).unwrap()
    }
}

impl Socket {
    /// Opens a URL; the status and the code of the refusal where it is refused.
    pub fn open(url: &str) -> Result<Self, (u16, String)> {
        let request = url.into_client_request().unwrap();
        let address = request.uri().authority().unwrap().as_str().to_owned();
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        match tungstenite::client(request, socket) {
            Ok((socket, _)) => Ok(Self { socket }),
            Err(HandshakeError::Failure(Error::Http(response))) => {
                let body = response.body().as_deref().unwrap_or_default();
                let code = serde_json::from_slice::<Value>(body).unwrap_or_default()["error"]["code"].clone();
                Err((response.status().as_u16(), code.as_str().unwrap_or_default().to_owned()))
            }
            Err(error) => panic!("{url}: {error}"),
        }
    }

    /// A close frame, as [`Whole::closed`] has it.
    pub fn closed(code: u16, reason: &str) -> Option<(u16, String)> {
        Some((code, reason.to_owned()))
    }

    /// The socket below.
    pub fn tcp(&self) -> &TcpStream {
        self.socket.get_ref()
    }

    /// What it says next; pings are answered on the way.
    pub fn hear(&mut self) -> Said {
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => return Said::Control(serde_json::from_str(&text).unwrap()),
                Ok(Message::Binary(message)) => {
                    let (Header { seq, channel, .. }, data) = Header::decode(&message).unwrap();
                    return Said::Frame { seq, channel, data: data.to_vec() };
                }
                Ok(Message::Close(frame)) => {
                    let frame = frame.map(|frame| (frame.code.into(), frame.reason.to_string()));
                    let (code, reason) = frame.unwrap_or((1005, String::new()));
                    return Said::Closed(code, reason);
                }
                Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
                Err(
                    Error::ConnectionClosed
                    | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)
                    | Error::Io(_),
                ) => return Said::Closed(1006, String::new()),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The first message.
    pub fn ready(&mut self) -> Value {
        match self.hear() {
            Said::Control(ready @ ServerControl::Ready { .. }) => {
                serde_json::from_str(&ready.encode()).unwrap()
            }
            other @ (Said::Control(_) | Said::Frame { .. } | Said::Closed(..)) => {
                panic!("not ready: {other:?}")
            }
        }
    }

    /// Reads frames until what was printed has `text` in it.
    pub fn read_until(&mut self, text: &str) -> String {
        let mut output = String::new();
        while !output.contains(text) {
            match self.hear() {
                Said::Frame { data, .. } => output += &String::from_utf8_lossy(&data),
                Said::Control(ServerControl::Ready { .. }) => {}
                other @ (Said::Control(_) | Said::Closed(..)) => {
                    panic!("{other:?} came before {text:?}; there is {output:?}")
                }
            }
        }
        output
    }

    /// Reads to the end.
    pub fn to_end(&mut self) -> Whole {
        let mut whole = Whole::default();
        loop {
            match self.hear() {
                Said::Frame { seq, data, .. } => {
                    assert!(seq > whole.last, "frame {seq} after {}", whole.last);
                    whole.last = seq;
                    whole.output.extend(data);
                }
                Said::Control(gap @ ServerControl::Gap(_)) => whole.gaps.push(gap),
                Said::Control(ServerControl::Ready { .. }) => {}
                Said::Control(end @ ServerControl::End(_)) => whole.end = Some(end),
                Said::Closed(code, reason) => {
                    whole.closed = Some((code, reason));
                    return whole;
                }
            }
        }
    }

    /// Sends input.
    pub fn input(&mut self, data: &[u8]) {
        self.socket.send(Message::Binary(Bytes::copy_from_slice(data))).unwrap();
    }

    /// Sends a text message.
    pub fn say(&mut self, text: &str) {
        self.socket.send(Message::text(text)).unwrap();
    }

    /// Sends any message.
    pub fn send(&mut self, message: Message) -> Result<(), Error> {
        self.socket.send(message)
    }

    /// Says that it leaves.
    pub fn close(&mut self) {
        self.socket.close(None).unwrap();
        self.socket.flush().ok();
    }
}
