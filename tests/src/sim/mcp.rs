//! A call over MCP, as a strict client reads its answer.

use super::{
    client::{Client, End, Request, Response},
    net::Cutter,
    world::{ADMIN, World},
};
use crate::mcp;
use hangar_core::{Time, wire::sse::Decoder};
use serde_json::{Value, json};
use std::collections::VecDeque;

/// Where calls go.
pub const PATH: &str = "/mcp";

/// A call that was made.
#[derive(Debug)]
pub struct Call {
    client: Client,
    decoder: Decoder,
    events: VecDeque<Value>,
    /// What it wants progress as.
    token: Option<Value>,
    told: f64,
    answered: bool,
}

/// Everything that came of a call.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// The messages of its progress, joined.
    pub output: String,
    /// The numbers of its progress, each with its time.
    pub progress: Vec<(Time, f64)>,
    /// The answer.
    pub answer: Value,
}

/// The HTTP request for a message.
pub fn http(token: &str, message: &Value) -> Request {
    let request = Request::new("POST", PATH).bearer(token).json(message);
    mcp::headers(message).into_iter().fold(request, |request, (name, value)| request.header(name, &value))
}

/// What the tool for processes gives the admin.
pub async fn process(world: &World, arguments: &Value) -> Value {
    mcp::result(&world.tool(ADMIN, "process", arguments).await)
}

/// Starts a process by that tool; its id.
pub async fn start(world: &World, command: &str) -> String {
    let started = process(world, &json!({ "action": "start", "command": command })).await;
    started["process_id"].as_str().unwrap().to_owned()
}

/// Attaches to a process by that tool, with a token for its progress.
pub async fn attach(world: &World, arguments: &Value, token: Option<Value>) -> Call {
    let mut arguments = arguments.clone();
    arguments["action"] = "attach".into();
    Call::tool(world.client(), ADMIN, "process", &arguments, token).await.unwrap()
}

impl World {
    /// Asks for something whose answer is one piece.
    pub async fn ask(&self, token: &str, method: &str, params: &Value) -> Response {
        let message = mcp::request(&json!(1), method, params, None);
        self.client().call(&http(token, &message)).await.unwrap()
    }

    /// Calls a tool whose answer is one piece.
    pub async fn tool(&self, token: &str, name: &str, arguments: &Value) -> Value {
        let response = self.ask(token, "tools/call", &json!({ "name": name, "arguments": arguments })).await;
        assert_eq!(response.status, 200, "{response:?}");
        response.json()
    }

    /// Starts a background process in `box`; the URI of its output.
    pub async fn start_process(&self, token: &str, script: &str) -> String {
        let started = self.tool(token, "process", &json!({ "action": "start", "command": script })).await;
        let started = mcp::result(&started);
        let (uri, id) = (started["output_uri"].as_str().unwrap(), started["process_id"].as_str().unwrap());
        assert_eq!(uri, format!("hangar://sandboxes/box/processes/{id}/output"));
        uri.to_owned()
    }

    /// What a resource has.
    pub async fn read_resource(&self, token: &str, uri: &str) -> Value {
        let response = self.ask(token, "resources/read", &json!({ "uri": uri })).await;
        assert_eq!(response.status, 200, "{response:?}");
        let result = response.json()["result"].clone();
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
        assert_eq!(result["contents"][0]["uri"], uri);
        serde_json::from_str(result["contents"][0]["text"].as_str().unwrap()).unwrap()
    }
}

impl Call {
    /// Calls a tool whose answer is a stream, on a connection of its own.
    pub async fn tool(
        client: Client,
        bearer: &str,
        name: &str,
        arguments: &Value,
        token: Option<Value>,
    ) -> Result<Self, End> {
        let params = json!({ "name": name, "arguments": arguments });
        let message = mcp::request(&json!("call"), "tools/call", &params, token.as_ref());
        let mut client = client;
        client.send(&http(bearer, &message).bytes()).await?;
        let head = client.head().await?;
        assert_eq!(head.status, 200, "{head:?}");
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
        assert_eq!(head.header("x-accel-buffering"), Some("no"));
        assert_eq!(head.header("cache-control"), Some("no-cache, no-transform"));
        let decoder = Decoder::new(16 << 20);
        Ok(Self { client, decoder, events: VecDeque::new(), token, told: -1.0, answered: false })
    }

    /// What cuts its connection.
    pub fn cutter(&self) -> Cutter {
        self.client.cutter()
    }

    /// The next message; None at the end.
    ///
    /// # Panics
    ///
    /// If it is not as it has to be: progress that was not asked for or does not grow, something after the answer, an end
    /// without one.
    pub async fn next(&mut self) -> Result<Option<Value>, End> {
        loop {
            if let Some(message) = self.events.pop_front() {
                self.check(&message);
                return Ok(Some(message));
            }
            let Some(chunk) = self.client.chunk().await? else {
                assert!(self.answered, "an end without an answer");
                return Ok(None);
            };
            self.decoder.push(&chunk).unwrap();
            while let Some(event) = self.decoder.next_event() {
                assert_eq!(event.name, "message");
                self.events.push_back(serde_json::from_str(&event.data).unwrap());
            }
        }
    }

    fn check(&mut self, message: &Value) {
        assert!(!self.answered, "after the answer: {message}");
        assert_eq!(message["jsonrpc"], "2.0");
        if message.get("id").is_some() {
            assert_eq!(message["id"], "call");
            self.answered = true;
            return;
        }
        assert_eq!(message["method"], "notifications/progress");
        assert_eq!(Some(&message["params"]["progressToken"]), self.token.as_ref());
        let progress = message["params"]["progress"].as_f64().unwrap();
        assert!(progress > self.told, "{progress} after {}", self.told);
        self.told = progress;
    }

    /// Reads to the end.
    pub async fn to_end(&mut self, world: &World) -> Result<Told, End> {
        let mut told = Told::default();
        while let Some(message) = self.next().await? {
            if message.get("id").is_some() {
                told.answer = message;
                continue;
            }
            told.progress.push((world.now(), self.told));
            told.output += message["params"]["message"].as_str().unwrap_or_default();
        }
        Ok(told)
    }
}
