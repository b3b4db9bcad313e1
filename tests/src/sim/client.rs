//! A client of the server that speaks HTTP/1.1 by hand: it may be slow, send halves, stop reading, or leave.

use super::{
    net::socket::{Cutter, Socket},
    runtime::SimRuntime,
    stream::Stream,
};
use bytes::{Buf, Bytes, BytesMut};
use serde_json::Value;
use std::{io, sync::Arc, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// How a connection ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// The server sent the end.
    Eof,
    /// It was reset.
    Reset,
}

/// A request to be.
#[derive(Clone, Debug)]
pub struct Request {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Request {
    /// A request to `localhost` without a body.
    pub fn new(method: &'static str, path: impl Into<String>) -> Self {
        let headers = vec![("host".to_owned(), "localhost".to_owned())];
        Self { method, path: path.into(), headers, body: None }
    }

    /// With this header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With this header instead of all of its name.
    #[must_use]
    pub fn instead(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(other, _)| other != name);
        self.header(name, value)
    }

    /// With this token.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    /// With this body, whatever it is.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// With a JSON body.
    #[must_use]
    pub fn json(self, json: &Value) -> Self {
        self.header("content-type", "application/json").body(json.to_string())
    }

    /// As it is sent.
    pub fn bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if let Some(body) = &self.body {
            head += &format!("content-length: {}\r\n", body.len());
        }
        head += "\r\n";
        [head.as_bytes(), self.body.as_deref().unwrap_or_default()].concat()
    }
}

/// An answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Its headers, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body; empty for one that is streamed.
    pub body: Bytes,
}

impl Response {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Its body as JSON.
    ///
    /// # Panics
    ///
    /// If it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The status, and the code and the field of the error in its body; what there is not is empty.
    ///
    /// # Panics
    ///
    /// If it is not as every refusal has to be.
    pub fn refusal(&self) -> (u16, String, String) {
        let json = self.json();
        let error = &json["error"];
        assert_eq!(json.as_object().unwrap().len(), 1, "nothing but an error: {json}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "a message: {json}");
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        (self.status, text("code"), text("field"))
    }
}

/// One connection of a client.
#[derive(Debug)]
pub struct Client {
    socket: Socket,
    pub(super) runtime: Arc<SimRuntime>,
    buffer: BytesMut,
}

impl Client {
    /// On a socket.
    pub fn new(socket: Socket, runtime: Arc<SimRuntime>) -> Self {
        Self { socket, runtime, buffer: BytesMut::new() }
    }

    /// What cuts its connection.
    pub fn cutter(&self) -> Cutter {
        self.socket.cutter()
    }

    /// The number of its connection.
    pub const fn number(&self) -> u64 {
        self.socket.number()
    }

    /// Sends bytes.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), End> {
        self.socket.write_all(bytes).await.map_err(|error| end(&error))
    }

    /// Sends bytes in pieces of `len`, one `every` so often.
    pub async fn send_slowly(&mut self, bytes: &[u8], len: usize, every: Duration) -> Result<(), End> {
        for piece in bytes.chunks(len) {
            self.send(piece).await?;
            self.runtime.sleep(every).await;
        }
        Ok(())
    }

    /// Sends its end; it can still read.
    pub async fn half_close(&mut self) {
        self.socket.shutdown().await.unwrap();
    }

    /// Sends a request and reads its answer to the end.
    pub async fn call(&mut self, request: &Request) -> Result<Response, End> {
        self.send(&request.bytes()).await?;
        self.response().await
    }

    /// Reads an answer to its end.
    pub async fn response(&mut self) -> Result<Response, End> {
        let head = self.head().await?;
        self.body(head).await
    }

    /// Reads the rest of an answer whose head was read.
    pub async fn body(&mut self, head: Response) -> Result<Response, End> {
        let mut response = head;
        if response.header("transfer-encoding") == Some("chunked") {
            let mut body = Vec::new();
            while let Some(chunk) = self.chunk().await? {
                body.extend_from_slice(&chunk);
            }
            response.body = body.into();
        } else {
            let len = response.header("content-length").map_or(0, |len| len.parse().unwrap());
            self.fill(len).await?;
            response.body = self.buffer.split_to(len).freeze();
        }
        Ok(response)
    }

    /// Reads the head of an answer.
    pub async fn head(&mut self) -> Result<Response, End> {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end;
            }
            self.read().await?;
        };
        let head = String::from_utf8(self.buffer.split_to(end).to_vec()).unwrap();
        self.buffer.advance(4);
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().strip_prefix("HTTP/1.1 ").unwrap();
        let status = status[..3].parse().unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_owned())
        };
        Ok(Response { status, headers: lines.map(header).collect(), body: Bytes::new() })
    }

    /// Reads a chunk of a chunked body; None at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, End> {
        let end = loop {
            if let Some(end) = self.buffer.windows(2).position(|bytes| bytes == b"\r\n") {
                break end;
            }
            assert!(self.buffer.len() < 20, "a chunk has a length");
            self.read().await?;
        };
        let len = usize::from_str_radix(std::str::from_utf8(&self.buffer[..end]).unwrap(), 16).unwrap();
        self.fill(end + 2 + len + 2).await?;
        self.buffer.advance(end + 2);
        let chunk = self.buffer.split_to(len).freeze();
        assert_eq!(&self.buffer.split_to(2)[..], b"\r\n", "a chunk ends");
        Ok((len > 0).then_some(chunk))
    }

    /// Reads so many bytes.
    pub async fn bytes(&mut self, len: usize) -> Result<Bytes, End> {
        self.fill(len).await?;
        Ok(self.buffer.split_to(len).freeze())
    }

    /// Reads until the connection ends. Returns what came, and how it ended.
    pub async fn rest(&mut self) -> (Bytes, End) {
        loop {
            if let Err(end) = self.read().await {
                return (self.buffer.split().freeze(), end);
            }
        }
    }

    /// Sends a request, and reads the head of its answer, which is a stream.
    ///
    /// # Panics
    ///
    /// If it is refused.
    pub async fn stream(mut self, request: &Request) -> Result<Stream, End> {
        self.send(&request.bytes()).await?;
        let head = self.head().await?;
        if head.status != 200 {
            let len = head.header("content-length").map_or(0, |len| len.parse().unwrap());
            self.fill(len).await?;
            panic!("{}: {}", head.status, String::from_utf8_lossy(&self.buffer));
        }
        Ok(Stream::new(self, head))
    }

    async fn fill(&mut self, len: usize) -> Result<(), End> {
        while self.buffer.len() < len {
            self.read().await?;
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<(), End> {
        match self.socket.read_buf(&mut self.buffer).await {
            Ok(0) => Err(End::Eof),
            Ok(_) => Ok(()),
            Err(error) => Err(end(&error)),
        }
    }
}

fn end(error: &io::Error) -> End {
    let kind = error.kind();
    let reset = matches!(kind, io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe);
    assert!(reset, "a socket of this network does not fail by {kind}");
    End::Reset
}
