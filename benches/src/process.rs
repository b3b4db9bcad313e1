//! A background process of a server: started once, and read in any of the ways there are.

use std::net::TcpStream;

use serde_json::Value;

use crate::{
    Result,
    clock::wall_ns,
    http::exchange,
    server::Server,
    source::{Source, connect},
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
        let access = ask(&mut self.http, &self.server.access_request(&self.id))?;
        let token = access["token"].as_str().ok_or_else(|| format!("no access: {access}"))?;
        let request = self.server.socket_request(token);
        let socket = connect(self.server.service().address())?;
        Ok(Source::websocket(socket, &request, timeout_s)?.issued_at(self.issued_ns))
    }

    /// Follows it by Server-Sent Events, from its first output on. The time counts from the start.
    pub fn follow(&self, timeout_s: u64) -> Result<Source> {
        let request = self.server.follow_request(&self.id);
        let socket = connect(self.server.service().address())?;
        Ok(Source::events(socket, &request, timeout_s)?.issued_at(self.issued_ns))
    }
}

fn ask(http: &mut TcpStream, request: &str) -> Result<Value> {
    Ok(serde_json::from_str(&exchange(http, request)?)?)
}
