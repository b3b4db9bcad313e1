//! A background process of a server: started once, and read in any of the ways there are.

use std::net::{SocketAddr, TcpStream};

use rustix::net::{AddressFamily, SocketType, socket, sockopt::set_socket_recv_buffer_size};
use serde_json::Value;

use crate::{
    Result,
    clock::wall_ns,
    http::exchange,
    proc::unsent,
    server::Server,
    source::{Source, connect},
    wire::Sink,
};

/// The most that a server keeps of what a process prints.
pub const MAX_LOG_BYTES: u64 = 64 << 20;

/// A background process, and the connection on which it was started.
#[derive(Debug)]
pub struct Process<'a> {
    server: &'a Server,
    http: TcpStream,
    id: String,
    issued_ns: u64,
}

impl<'a> Process<'a> {
    /// Starts `command`. `log_bytes` of what it prints are kept, or as many as the server keeps unless told otherwise.
    pub fn start(server: &'a Server, command: &str, log_bytes: Option<u64>) -> Result<Self> {
        let mut http = connect(server.service().address())?;
        let issued_ns = wall_ns();
        let started = ask(&mut http, &server.start_request(command, log_bytes))?;
        let id = started["id"].as_str().ok_or_else(|| format!("not started: {started}"))?.to_owned();
        Ok(Self { server, http, id, issued_ns })
    }

    /// Attaches to it by a WebSocket, from its first output on. The time counts from the start.
    pub fn attach(&mut self, timeout_s: u64) -> Result<Source> {
        let request = self.socket_request()?;
        let socket = connect(self.server.service().address())?;
        Ok(Source::websocket(socket, &request, timeout_s)?.issued_at(self.issued_ns))
    }

    fn socket_request(&mut self) -> Result<String> {
        let access = ask(&mut self.http, &self.server.access_request(&self.id))?;
        let token = access["token"].as_str().ok_or_else(|| format!("no access: {access}"))?;
        Ok(self.server.socket_request(token))
    }

    /// Attaches a reader to it that is told that its stream is open, and then does not read.
    pub fn stall(&mut self, timeout_s: u64) -> Result<Stalled> {
        let server = self.server.service().address();
        let socket = connect_narrow(server)?;
        let client = socket.local_addr()?;
        let mut source = Source::websocket(socket, &self.socket_request()?, timeout_s)?;
        while !source.ready() {
            if source.receive(&mut Unread)?.ended {
                return Err("the process ended at once".into());
            }
        }
        Ok(Stalled { _source: source, server, client })
    }

    /// What it prints, as MCP clients name it.
    pub fn uri(&self) -> String {
        format!("hangar://sandboxes/local/processes/{}/output", self.id)
    }

    /// Follows it by Server-Sent Events, from its first output on. The time counts from the start.
    pub fn follow(&self, timeout_s: u64) -> Result<Source> {
        let request = self.server.follow_request(&self.id);
        let socket = connect(self.server.service().address())?;
        Ok(Source::events(socket, &request, timeout_s)?.issued_at(self.issued_ns))
    }
}

/// A reader that does not read. Dropping it leaves.
#[derive(Debug)]
pub struct Stalled {
    _source: Source,
    server: SocketAddr,
    client: SocketAddr,
}

impl Stalled {
    /// Bytes that the server has written for it and that its side does not take.
    pub fn unsent(&self) -> Result<u64> {
        unsent(self.server, self.client)
    }
}

/// Drops what comes before the stream is said to be open.
struct Unread;

impl Sink for Unread {
    fn payload(&mut self, _at_ns: u64, _bytes: &[u8]) {}
}

/// A connection that takes next to nothing which is not read.
fn connect_narrow(address: SocketAddr) -> Result<TcpStream> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    // The kernel has a least of its own. After the connection is made it would be too late: its window is open.
    set_socket_recv_buffer_size(&socket, 1)?;
    rustix::net::connect(&socket, &address)?;
    Ok(TcpStream::from(socket))
}

fn ask(http: &mut TcpStream, request: &str) -> Result<Value> {
    Ok(serde_json::from_str(&exchange(http, request)?)?)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{ErrorKind, Write as _},
        net::TcpListener,
    };

    use super::*;

    #[test]
    fn a_narrow_connection_is_soon_full() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let narrow = connect_narrow(server).unwrap();
        let (mut other, client) = listener.accept().unwrap();
        assert_eq!(unsent(server, client).unwrap(), 0);
        other.set_nonblocking(true).unwrap();
        let mut written = 0;
        let full = loop {
            match other.write(&[0; 65536]) {
                Ok(bytes) => written += bytes as u64,
                Err(error) => break error.kind(),
            }
        };
        assert_eq!(full, ErrorKind::WouldBlock);
        assert!((1..=written).contains(&unsent(server, client).unwrap()));
        drop(narrow);
    }
}
