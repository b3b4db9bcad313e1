//! A client of blocking sockets: HTTP/1.1 by hand.

use super::{
    binary::hangar,
    machine::{Mark, PATIENCE},
    stream::Stream,
};
use crate::mcp;
use hangar_core::exec::ExecResult;
use serde_json::{Value, json};
use std::{
    ffi::OsStr,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::Command,
};

/// A server, and the token that is shown to it.
#[derive(Clone, Debug)]
pub struct Client {
    /// The server.
    pub address: SocketAddr,
    /// The token.
    pub token: String,
}

/// A command to run, in JSON.
#[derive(Clone, Debug)]
pub struct Call(pub Value);

/// A command line. Its `HOME` is nowhere: what the profile of whoever runs the tests does is not what is tested.
pub fn line(command: impl Into<String>) -> Call {
    Call(json!({ "command": command.into(), "env": { "HOME": "/nonexistent" } }))
}

impl Call {
    /// Sets a field of the request.
    #[must_use]
    pub fn set(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0[field] = value.into();
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.0["env"][name] = value.into();
        self
    }

    /// Marks everything that it starts.
    #[must_use]
    pub fn mark(self, mark: &Mark) -> Self {
        self.env(Mark::NAME, mark.value())
    }

    /// Its output as bytes.
    #[must_use]
    pub fn base64(self) -> Self {
        self.set("encoding", "base64")
    }
}

/// An answer that came to its end.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    /// The body.
    pub body: String,
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The status and the code of a refusal.
    pub fn refusal(&self) -> (u16, String) {
        (self.status, self.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
    }
}

impl Client {
    /// The same server with another token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self { address: self.address, token: token.to_owned() }
    }

    /// A request on a connection of its own.
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        self.send(method, path, body).unwrap().into_reply().unwrap()
    }

    /// `GET`.
    pub fn get(&self, path: &str) -> Reply {
        self.call("GET", path, None)
    }

    /// `POST`.
    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.call("POST", path, Some(body))
    }

    /// `DELETE`.
    pub fn delete(&self, path: &str) -> Reply {
        self.call("DELETE", path, None)
    }

    /// A `hangar` that calls the same server with the same token.
    pub fn hangar<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = hangar();
        command.args(arguments).env("HANGAR_URL", format!("http://{}", self.address));
        command.env("HANGAR_TOKEN", &self.token);
        command
    }

    /// Starts a background process in a sandbox, and gives its id.
    pub fn start_in(&self, sandbox: &str, request: &Value) -> String {
        let reply = self.post(&format!("/api/sandboxes/{sandbox}/processes"), request);
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.json()["process_id"].as_str().unwrap().to_owned()
    }

    /// How a background process is, with all that is kept of its output.
    pub fn show_in(&self, sandbox: &str, process: &str) -> Value {
        self.get(&format!("/api/sandboxes/{sandbox}/processes/{process}?since=0")).json()
    }

    /// Runs a command in the sandbox `local` and waits for its result.
    pub fn exec(&self, call: &Call) -> ExecResult {
        let reply = self.post("/api/sandboxes/local/exec", &call.0);
        assert_eq!(reply.status, 200, "{reply:?}");
        serde_json::from_str(&reply.body).unwrap()
    }

    /// Runs a command in the sandbox `local` and follows it.
    pub fn stream(&self, call: &Call) -> Stream {
        self.stream_in("local", call)
    }

    /// Runs a command in a sandbox and follows it.
    pub fn stream_in(&self, sandbox: &str, call: &Call) -> Stream {
        let response = self.try_stream(sandbox, call);
        response.unwrap_or_else(|refused| panic!("no stream: {refused:?}"))
    }

    /// Runs a command in a sandbox and follows it, or gives back the refusal.
    pub fn try_stream(&self, sandbox: &str, call: &Call) -> Result<Stream, Reply> {
        let path = format!("/api/sandboxes/{sandbox}/exec/stream");
        let response = self.send("POST", &path, Some(&call.0)).unwrap();
        if response.status == 200 { Ok(Stream::new(response)) } else { Err(response.into_reply().unwrap()) }
    }

    /// Makes a token. Gives back its id and a client that has it.
    pub fn new_token(&self, token: &Value) -> (String, Self) {
        let reply = self.post("/api/tokens", token);
        assert_eq!(reply.status, 201, "{reply:?}");
        let made = reply.json();
        let text = |field: &str| made[field].as_str().unwrap().to_owned();
        (text("id"), self.with_token(&text("token")))
    }

    /// Revokes a token.
    pub fn revoke(&self, id: &str) {
        let reply = self.delete(&format!("/api/tokens/{id}"));
        assert_eq!(reply.status, 204, "{reply:?}");
    }

    /// Sends a request, and reads the head of the answer.
    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Response> {
        Response::read(BufReader::new(self.ask(method, path, body)?))
    }

    /// Sends an MCP message, and reads the head of the answer.
    pub fn mcp(&self, message: &Value) -> io::Result<Response> {
        let headers = mcp::headers(message);
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        Response::read(BufReader::new(self.ask_with("POST", "/mcp", &headers, Some(message))?))
    }

    /// Calls a tool whose answer is one piece.
    pub fn tool(&self, name: &str, arguments: &Value) -> Value {
        let params = json!({ "name": name, "arguments": arguments });
        let response = self.mcp(&mcp::request(&json!(1), "tools/call", &params, None)).unwrap();
        assert_eq!(response.status, 200, "{}", response.head);
        response.into_reply().unwrap().json()
    }

    /// Sends a request with more headers, each with its line end, and reads the head of the answer.
    pub fn send_with(
        &self,
        method: &str,
        path: &str,
        more: &str,
        body: Option<&Value>,
    ) -> io::Result<Response> {
        Response::read(BufReader::new(self.ask_with(method, path, more, body)?))
    }

    /// Sends a request, and leaves the answer where it is.
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<TcpStream> {
        self.ask_with(method, path, "", body)
    }

    /// The same with more headers, each with its line end.
    fn ask_with(&self, method: &str, path: &str, more: &str, body: Option<&Value>) -> io::Result<TcpStream> {
        let mut socket = TcpStream::connect(self.address)?;
        // Nothing here waits for ever; what is silent for longer than this has failed.
        socket.set_read_timeout(Some(PATIENCE))?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len())
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n{more}{length}\r\n{body}",
            self.address, self.token
        );
        socket.write_all(head.as_bytes())?;
        Ok(socket)
    }
}

/// An answer whose body is being read.
#[derive(Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    socket: BufReader<TcpStream>,
    left: Left,
}

/// What is to come of a body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Left {
    Bytes(u64),
    /// Of this chunk; then another follows.
    Chunk(u64),
    /// The size of the next chunk.
    Size,
}

impl Response {
    pub(super) fn read(mut socket: BufReader<TcpStream>) -> io::Result<Self> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if socket.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        let header = |name: &str| {
            let found = head.lines().filter_map(|line| line.split_once(": "));
            found.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
        };
        let left = match header("content-length") {
            Some(length) => Left::Bytes(length.parse().unwrap()),
            None if header("transfer-encoding") == Some("chunked") => Left::Size,
            None => Left::Bytes(0),
        };
        Ok(Self { status, head, socket, left })
    }

    /// The socket, to close a half of it.
    pub fn socket(&self) -> &TcpStream {
        self.socket.get_ref()
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.head.lines().filter_map(|line| line.split_once(": "));
        found.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    /// The whole of it.
    pub fn into_reply(mut self) -> io::Result<Reply> {
        let mut body = String::new();
        self.read_to_string(&mut body)?;
        Ok(Reply { status: self.status, head: self.head, body })
    }

    fn next_chunk(&mut self) -> io::Result<()> {
        let mut line = String::new();
        if self.socket.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let size = u64::from_str_radix(line.trim_end(), 16).map_err(io::Error::other)?;
        self.left = if size == 0 { Left::Bytes(0) } else { Left::Chunk(size) };
        if size == 0 { self.end_of_chunk() } else { Ok(()) }
    }

    fn end_of_chunk(&mut self) -> io::Result<()> {
        let mut end = [0; 2];
        self.socket.read_exact(&mut end)?;
        if end == *b"\r\n" { Ok(()) } else { Err(io::Error::other("a chunk does not end")) }
    }
}

/// The body, without the chunks' frames. An answer that was cut is an error, not an end.
impl Read for Response {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == Left::Size {
            self.next_chunk()?;
        }
        let (Left::Bytes(left) | Left::Chunk(left)) = self.left else { return Ok(0) };
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        if wanted == 0 {
            return Ok(0);
        }
        let read = self.socket.read(&mut buffer[..wanted])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let left = left - read as u64;
        self.left = match self.left {
            Left::Chunk(_) if left == 0 => {
                self.end_of_chunk()?;
                Left::Size
            }
            Left::Chunk(_) => Left::Chunk(left),
            Left::Bytes(_) | Left::Size => Left::Bytes(left),
        };
        Ok(read)
    }
}
