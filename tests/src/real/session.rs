//! A client of MCP's revisions of 2025.

use super::{Calling, Client, Reply};
use serde_json::{Value, json};
use std::cell::Cell;

/// A session.
#[derive(Debug)]
pub struct Session {
    client: Client,
    id: String,
    revision: &'static str,
    next: Cell<u64>,
}

impl Session {
    /// Begins one.
    pub fn begin(client: &Client, revision: &'static str) -> Self {
        let params = json!({
            "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": "tests", "version": "0" },
        });
        let session = Self { client: client.clone(), id: String::new(), revision, next: Cell::new(0) };
        let begun = session.post(&session.asks("initialize", &params));
        assert_eq!(begun.status, 200, "{}", begun.head);
        let id = begun.header("mcp-session-id").unwrap().to_owned();
        let session = Self { id, ..session };
        session.tell("notifications/initialized", &json!({}));
        session
    }

    fn headers(&self) -> String {
        if self.id.is_empty() {
            return String::new();
        }
        format!("Mcp-Session-Id: {}\r\nMCP-Protocol-Version: {}\r\n", self.id, self.revision)
    }

    fn post(&self, message: &Value) -> super::client::Response {
        let headers = format!("Accept: application/json, text/event-stream\r\n{}", self.headers());
        self.client.send_with("POST", "/mcp", &headers, Some(message)).unwrap()
    }

    fn asks(&self, method: &str, params: &Value) -> Value {
        let id = self.next.replace(self.next.get() + 1);
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    /// Asks for something whose answer is one piece, whatever its status.
    pub fn try_ask(&self, method: &str, params: &Value) -> Reply {
        self.post(&self.asks(method, params)).into_reply().unwrap()
    }

    /// The same, where it has to be a result.
    pub fn ask(&self, method: &str, params: &Value) -> Value {
        let answer = self.try_ask(method, params).json();
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// Tells something.
    pub fn tell(&self, method: &str, params: &Value) {
        let told = self.post(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
        assert_eq!(told.status, 202);
    }

    /// Calls a tool whose answer is a stream. The id of the call, and the stream.
    pub fn calling(&self, name: &str, arguments: &Value) -> (Value, Calling) {
        let meta = json!({ "progressToken": 0 });
        let message =
            self.asks("tools/call", &json!({ "name": name, "arguments": arguments, "_meta": meta }));
        (message["id"].clone(), Calling::of(self.post(&message)))
    }

    /// Opens the stream that tells what changes.
    pub fn stream(&self) -> Calling {
        let headers = format!("Accept: text/event-stream\r\n{}", self.headers());
        Calling::of(self.client.send_with("GET", "/mcp", &headers, None).unwrap())
    }

    /// Ends it.
    pub fn end(&self) -> u16 {
        self.client.send_with("DELETE", "/mcp", &self.headers(), None).unwrap().status
    }
}
