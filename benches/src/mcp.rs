//! What an MCP client asks for: in the newest revision, and in a session of those of 2025.

use std::net::TcpStream;

use serde_json::{Value, json};

use crate::{
    Result,
    http::{Answer, answer},
    server::Server,
    source::{Source, connect},
};

/// The newest revision, which has no sessions.
const NEWEST: &str = "2026-07-28";

/// The newest one that has them.
const SESSIONS: &str = "2025-11-25";

/// What is said of a request beside its method: whose it is, and which message is named in its headers.
struct Post<'a> {
    server: &'a Server,
    token: &'a str,
    headers: String,
}

impl Post<'_> {
    fn with(self, body: &Value) -> String {
        let body = body.to_string();
        format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{}Content-Length: {}\r\n\r\n{body}",
            self.server.service().address(),
            self.token,
            self.headers,
            body.len()
        )
    }
}

/// A request of the newest revision. `named`: what it is about, where its headers say so.
fn newest(server: &Server, method: &str, named: Option<&str>, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": 0,
    });
    let name = named.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
    let headers = format!("MCP-Protocol-Version: {NEWEST}\r\nMcp-Method: {method}\r\n{name}");
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    Post { server, token: server.token(), headers }.with(&body)
}

/// Runs `command` in the sandbox by the tool `exec`, streamed.
pub fn call(server: &Server, command: &str, timeout_s: u64) -> String {
    newest(server, "tools/call", Some("exec"), exec(server, command, timeout_s))
}

/// Is told when the resource changes.
pub fn listen(server: &Server, uri: &str) -> String {
    let params = json!({ "notifications": { "resourceSubscriptions": [uri] } });
    newest(server, "subscriptions/listen", None, params)
}

/// Reads the resource.
pub fn read(server: &Server, uri: &str) -> Result<Value> {
    let request = newest(server, "resources/read", Some(uri), json!({ "uri": uri }));
    contents(&answer(&mut connect(server.service().address())?, &request)?)
}

fn exec(server: &Server, command: &str, timeout_s: u64) -> Value {
    let home = json!({ "HOME": server.home() });
    let arguments = json!({ "command": command, "timeout": timeout_s, "stream": true, "env": home });
    json!({ "name": "exec", "arguments": arguments })
}

/// A session, and the connection on which it asks for what is answered at once.
#[derive(Debug)]
pub struct Session<'a> {
    server: &'a Server,
    token: String,
    id: String,
    http: TcpStream,
}

impl<'a> Session<'a> {
    /// Begins one.
    pub fn begin(server: &'a Server, token: &str) -> Result<Self> {
        let mut http = connect(server.service().address())?;
        let client = json!({ "name": "streams", "version": "0" });
        let params = json!({ "protocolVersion": SESSIONS, "capabilities": {}, "clientInfo": client });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let begun = answer(&mut http, &Post { server, token, headers: String::new() }.with(&body))?;
        let id = begun.header("mcp-session-id").ok_or_else(|| format!("no session: {}", begun.body))?;
        let mut session = Self { server, token: token.to_owned(), id: id.to_owned(), http };
        let told = session.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        answer(&mut session.http, &told)?.accepted()?;
        Ok(session)
    }

    fn headers(&self) -> String {
        format!("MCP-Protocol-Version: {SESSIONS}\r\nMcp-Session-Id: {}\r\n", self.id)
    }

    fn post(&self, body: &Value) -> String {
        Post { server: self.server, token: &self.token, headers: self.headers() }.with(body)
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Answer> {
        let request = self.post(&json!({ "jsonrpc": "2.0", "id": 0, "method": method, "params": params }));
        answer(&mut self.http, &request)
    }

    /// Follows the resource.
    pub fn subscribe(&mut self, uri: &str) -> Result<()> {
        let Answer { body, .. } = self.ask("resources/subscribe", &json!({ "uri": uri }))?;
        if body.contains("\"result\":{}") { Ok(()) } else { Err(format!("not subscribed: {body}").into()) }
    }

    /// Reads the resource.
    pub fn read(&mut self, uri: &str) -> Result<Value> {
        contents(&self.ask("resources/read", &json!({ "uri": uri }))?)
    }

    /// Leaves it: the server is not told.
    pub fn leave(self) -> Left<'a> {
        Left { server: self.server, token: self.token, id: self.id }
    }

    /// Opens the stream that tells what changes.
    pub fn stream(&self, timeout_s: u64) -> Result<Source> {
        let request = self.bare("GET", "text/event-stream");
        Source::messages(connect(self.server.service().address())?, &request, timeout_s)
    }

    /// Runs `command` by the tool `exec`, streamed: the call of that number.
    pub fn call(&self, number: u32, command: &str, timeout_s: u64) -> Result<Source> {
        let mut params = exec(self.server, command, timeout_s);
        params["_meta"] = json!({ "progressToken": number });
        let request =
            self.post(&json!({ "jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params }));
        Source::messages(connect(self.server.service().address())?, &request, timeout_s)
    }

    /// Ends it, and its calls.
    pub fn end(mut self) -> Result<()> {
        let request = self.bare("DELETE", "*/*");
        answer(&mut self.http, &request)?.accepted()
    }

    fn bare(&self, method: &str, accept: &str) -> String {
        format!(
            "{method} /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: {accept}\r\n{}\r\n",
            self.server.service().address(),
            self.token,
            self.headers()
        )
    }
}

/// A session whose client left.
#[derive(Debug)]
pub struct Left<'a> {
    server: &'a Server,
    token: String,
    id: String,
}

impl Left<'_> {
    /// Whether the server knows it.
    pub fn is_there(self) -> Result<bool> {
        let Self { server, token, id } = self;
        let http = connect(server.service().address())?;
        let Answer { status, body, .. } = Session { server, token, id, http }.ask("ping", &json!({}))?;
        match status {
            200 => Ok(true),
            404 => Ok(false),
            _ => Err(format!("{status} to a ping: {body}").into()),
        }
    }
}

/// What a resource holds, of an answer that gives it.
fn contents(answer: &Answer) -> Result<Value> {
    let value: Value = serde_json::from_str(&answer.body)?;
    let text = value["result"]["contents"][0]["text"].as_str();
    Ok(serde_json::from_str(text.ok_or_else(|| format!("not read: {value}"))?)?)
}
