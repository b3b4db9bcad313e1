//! A client of blocking sockets.

use super::Followed;
use crate::{
    envd::messages,
    real::{client::Response, machine::PATIENCE},
};
use bytes::BytesMut;
use hangar_core::wire::{
    connect::{Codec, Kind, RpcError, head::content_type},
    envd::{
        self, Message,
        process::{
            ConnectRequest, Empty, ListResponse, ProcessInfo, ProcessSelector, SendSignalRequest,
            StartRequest,
        },
    },
};
use std::{
    io::{self, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
};

/// A client: where the daemon is, how it is spoken to, and the headers of every call.
#[derive(Clone, Debug)]
pub struct Client {
    /// Where.
    pub address: SocketAddr,
    codec: Codec,
    headers: String,
}

impl Client {
    /// A client that sends no headers of its own.
    pub const fn new(address: SocketAddr, codec: Codec) -> Self {
        Self { address, codec, headers: String::new() }
    }

    /// With another header.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        Self { headers: format!("{}{name}: {value}\r\n", self.headers), ..self.clone() }
    }

    /// Sends a request as it stands, and reads the head of the answer.
    pub fn raw(&self, method: &str, path: &str, kind: Option<&str>, body: &[u8]) -> io::Result<Response> {
        let mut socket = self.open(method, path, kind, Some(body.len()))?;
        socket.write_all(body)?;
        Response::read(BufReader::new(socket))
    }

    /// Sends the head of a request; its body is chunked where its length is not known.
    pub fn open(
        &self,
        method: &str,
        path: &str,
        kind: Option<&str>,
        length: Option<usize>,
    ) -> io::Result<TcpStream> {
        let mut socket = TcpStream::connect(self.address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let Self { address, headers, .. } = self;
        let kind = kind.map(|kind| format!("Content-Type: {kind}\r\n")).unwrap_or_default();
        let length = match length {
            Some(length) => format!("Content-Length: {length}\r\n"),
            None => "Transfer-Encoding: chunked\r\n".to_owned(),
        };
        let host = if headers.starts_with("Host:") { String::new() } else { format!("Host: {address}\r\n") };
        let head = format!("{method} {path} HTTP/1.1\r\n{host}{kind}{length}{headers}\r\n");
        socket.write_all(head.as_bytes())?;
        Ok(socket)
    }

    /// A unary call.
    pub fn call<Q: Message, A: Message>(&self, path: &str, request: &Q) -> Result<A, RpcError> {
        let mut body = BytesMut::new();
        envd::encode(self.codec, request, &mut body);
        let kind = content_type(Kind::Unary, self.codec);
        let mut response = self.raw("POST", path, Some(kind), &body).unwrap();
        let mut body = Vec::new();
        response.read_to_end(&mut body).unwrap();
        if response.status == 200 {
            assert_eq!(response.header("content-type"), Some(kind));
            return Ok(envd::decode(self.codec, &body).unwrap());
        }
        Err(RpcError::of_http(response.status, &body))
    }

    /// A call whose answer is a stream, and whose request is these messages.
    pub fn stream<Q: Message>(&self, path: &str, sent: &[Q]) -> Followed {
        let kind = content_type(Kind::Stream, self.codec);
        let response = self.raw("POST", path, Some(kind), &messages(self.codec, sent)).unwrap();
        assert_eq!(
            (response.status, response.header("content-type")),
            (200, Some(kind)),
            "{}",
            response.head
        );
        Followed::new(response, self.codec)
    }

    /// Starts a process.
    pub fn start(&self, request: StartRequest) -> Followed {
        self.stream("/process.Process/Start", &[request])
    }

    /// Follows a process.
    pub fn connect(&self, process: Option<ProcessSelector>) -> Followed {
        self.stream("/process.Process/Connect", &[ConnectRequest { process }])
    }

    /// What runs.
    pub fn list(&self) -> Vec<ProcessInfo> {
        self.call::<_, ListResponse>("/process.Process/List", &Empty {}).unwrap().processes
    }

    /// Sends a signal.
    pub fn signal(
        &self,
        process: Option<ProcessSelector>,
        signal: i32,
        group: bool,
    ) -> Result<Empty, RpcError> {
        self.call("/process.Process/SendSignal", &SendSignalRequest { process, signal, group, end: false })
    }

    /// Ends a process as a whole.
    pub fn end(&self, process: Option<ProcessSelector>) -> Result<Empty, RpcError> {
        let request = SendSignalRequest { process, end: true, ..SendSignalRequest::default() };
        self.call("/process.Process/SendSignal", &request)
    }
}
