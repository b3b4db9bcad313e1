//! A client of MCP's revisions of 2025: a session, its calls and its stream.

use super::{
    client::{Client, End, Request, Response},
    mcp::PATH,
    messages::{Messages, changed},
    world::World,
};
use crate::mcp::result;
use serde_json::{Value, json};
use std::cell::Cell;

/// The revisions that have sessions.
pub const REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

/// A session.
#[derive(Debug)]
pub struct Session {
    token: String,
    revision: &'static str,
    /// The id that the server gave it.
    pub id: String,
    /// What the server said of itself.
    pub result: Value,
    next: Cell<u64>,
}

/// The HTTP request for a message, in no session.
pub fn post(token: &str, message: &Value) -> Request {
    Request::new("POST", PATH)
        .bearer(token)
        .json(message)
        .header("accept", "application/json, text/event-stream")
}

impl Session {
    /// Begins one, and says so.
    pub async fn begin(world: &World, token: &str, revision: &'static str) -> Self {
        Self::begin_able(world, token, revision, &json!({})).await
    }

    /// The same of a client that can do something.
    pub async fn begin_able(
        world: &World,
        token: &str,
        revision: &'static str,
        capabilities: &Value,
    ) -> Self {
        let params = json!({
            "protocolVersion": revision, "capabilities": capabilities,
            "clientInfo": { "name": "tests", "version": "0" },
        });
        let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let response = world.client().call(&post(token, &message)).await.unwrap();
        assert_eq!(response.status, 200, "{response:?}");
        let id = response.header("mcp-session-id").unwrap().to_owned();
        assert!(id.len() >= 32 && id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)));
        let result = response.json()["result"].clone();
        assert_eq!(result["protocolVersion"], revision);
        let session = Self { token: token.to_owned(), revision, id, result, next: Cell::new(1) };
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let taken = world.client().call(&session.request(&told)).await.unwrap();
        assert_eq!((taken.status, taken.body.len()), (202, 0));
        session
    }

    fn with_head(&self, request: Request) -> Request {
        let request = request.header("mcp-session-id", &self.id);
        // The first of them has no such header.
        if self.revision == "2025-03-26" {
            request
        } else {
            request.header("mcp-protocol-version", self.revision)
        }
    }

    /// The HTTP request for a message of it.
    pub fn request(&self, message: &Value) -> Request {
        self.with_head(post(&self.token, message))
    }

    /// A message that asks for something.
    pub fn asks(&self, method: &str, params: &Value) -> Value {
        let id = self.next.replace(self.next.get() + 1);
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    /// Asks for something whose answer is one piece, and gets that: with its result or its error.
    pub async fn ask(&self, world: &World, method: &str, params: &Value) -> Value {
        let message = self.asks(method, params);
        let response = world.client().call(&self.request(&message)).await.unwrap();
        assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
        let answer = response.json();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &message["id"]));
        answer
    }

    /// Answers what the server asked, with a result or an error.
    pub async fn answer(&self, world: &World, question: &Value, outcome: &Value) {
        let mut message = json!({ "jsonrpc": "2.0", "id": question });
        message.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
        let response = world.client().call(&self.request(&message)).await.unwrap();
        assert_eq!((response.status, response.body.len()), (202, 0));
    }

    /// Tells something.
    pub async fn tell(&self, world: &World, method: &str, params: &Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let response = world.client().call(&self.request(&message)).await.unwrap();
        assert_eq!((response.status, response.body.len()), (202, 0));
    }

    /// Calls a tool whose answer is a stream. The id of the call, and the stream.
    pub async fn tool(
        &self,
        client: Client,
        name: &str,
        arguments: &Value,
        token: Option<Value>,
    ) -> Result<(Value, Messages), End> {
        let mut params = json!({ "name": name, "arguments": arguments });
        if let Some(token) = token {
            params["_meta"] = json!({ "progressToken": token });
        }
        let message = self.asks("tools/call", &params);
        let stream = Messages::open(client, &self.request(&message)).await?.unwrap();
        Ok((message["id"].clone(), stream))
    }

    /// Opens the stream that tells what changes, or with `last` that of a call behind the event of that id.
    pub async fn stream(
        &self,
        client: Client,
        last: Option<&str>,
    ) -> Result<Result<Messages, Response>, End> {
        let request = Request::new("GET", PATH).bearer(&self.token).header("accept", "text/event-stream");
        let request = self.with_head(request);
        let request = last.iter().fold(request, |request, id| request.header("last-event-id", id));
        Messages::open(client, &request).await
    }

    /// Ends it.
    pub async fn end(&self, world: &World) -> Response {
        let request = self.with_head(Request::new("DELETE", PATH).bearer(&self.token));
        world.client().call(&request).await.unwrap()
    }

    /// Starts a background process; the URI of its output.
    pub async fn start(&self, world: &World, script: &str) -> String {
        let arguments = json!({ "action": "start", "command": script });
        let started =
            self.ask(world, "tools/call", &json!({ "name": "process", "arguments": arguments })).await;
        result(&started)["output_uri"].as_str().unwrap().to_owned()
    }

    /// What a resource has.
    pub async fn read(&self, world: &World, uri: &str) -> Value {
        let read = self.ask(world, "resources/read", &json!({ "uri": uri })).await;
        serde_json::from_str(read["result"]["contents"][0]["text"].as_str().unwrap()).unwrap()
    }

    /// Follows a resource.
    pub async fn subscribe(&self, world: &World, uri: &str) {
        let subscribed = self.ask(world, "resources/subscribe", &json!({ "uri": uri })).await;
        assert_eq!(subscribed["result"], json!({}));
    }

    /// Opens the stream that tells what changes, on a connection of its own.
    pub async fn told(&self, world: &World) -> Told {
        Told(self.stream(world.client(), None).await.unwrap().unwrap())
    }
}

/// The stream that tells what changes.
#[derive(Debug)]
pub struct Told(pub Messages);

impl Told {
    /// What changed next; None at the end.
    pub async fn next(&mut self) -> Option<String> {
        let message = self.0.next().await.unwrap()?;
        // There is no subscription that it would be of.
        assert!(message["params"].get("_meta").is_none() && message.get("id").is_none());
        Some(changed(&message))
    }
}
