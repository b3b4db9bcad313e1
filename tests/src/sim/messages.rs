//! A stream of MCP messages, and the one that tells what changes, as a strict client reads them.

use super::{
    client::{Client, End, Request, Response},
    mcp::http,
    net::Cutter,
    world::World,
};
use crate::mcp;
use hangar_core::wire::sse::Decoder;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// Messages as they come.
#[derive(Debug)]
pub struct Messages {
    client: Client,
    decoder: Decoder,
    waiting: VecDeque<(String, Value)>,
    last_id: String,
}

impl Messages {
    /// Asks for a stream; what is refused is an answer.
    pub async fn open(mut client: Client, request: &Request) -> Result<Result<Self, Response>, End> {
        client.send(&request.bytes()).await?;
        let head = client.head().await?;
        if head.header("content-type") != Some("text/event-stream") {
            return client.body(head).await.map(Err);
        }
        assert_eq!((head.status, head.header("x-accel-buffering")), (200, Some("no")));
        let (decoder, waiting) = (Decoder::new(16 << 20), VecDeque::new());
        Ok(Ok(Self { client, decoder, waiting, last_id: String::new() }))
    }

    /// The next message; None at the end.
    pub async fn next(&mut self) -> Result<Option<Value>, End> {
        loop {
            if let Some((id, message)) = self.waiting.pop_front() {
                self.last_id = id;
                assert_eq!(message["jsonrpc"], "2.0");
                return Ok(Some(message));
            }
            let Some(chunk) = self.client.chunk().await? else { return Ok(None) };
            self.decoder.push(&chunk).unwrap();
            while let Some(event) = self.decoder.next_event() {
                assert_eq!(event.name, "message");
                if event.data.is_empty() {
                    // It has an id, and nothing else.
                    self.last_id = (*event.id).to_owned();
                    continue;
                }
                self.waiting.push_back(((*event.id).to_owned(), serde_json::from_str(&event.data).unwrap()));
            }
        }
    }

    /// The id of the last event that was read; empty where there was none.
    pub fn last_id(&self) -> &str {
        &self.last_id
    }

    /// What cuts its connection.
    pub fn cutter(&self) -> Cutter {
        self.client.cutter()
    }
}

/// An open subscription.
#[derive(Debug)]
pub struct Listening {
    messages: Messages,
    id: Value,
    /// What was granted.
    pub granted: Value,
    /// The result, once it came.
    pub result: Option<Value>,
}

impl World {
    /// Asks to be told what changes.
    pub async fn listen(
        &self,
        client: Client,
        token: &str,
        id: Value,
        wanted: &Value,
    ) -> Result<Listening, End> {
        let message = mcp::request(&id, "subscriptions/listen", &json!({ "notifications": wanted }), None);
        let mut messages = Messages::open(client, &http(token, &message)).await?.unwrap();
        let first = messages.next().await?.expect("it is acknowledged");
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(first["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
        let granted = first["params"]["notifications"].clone();
        Ok(Listening { messages, id, granted, result: None })
    }
}

impl Listening {
    /// What changed next, as a list by its name or a resource by its URI; None at the end.
    ///
    /// # Panics
    ///
    /// If it is not as it has to be: what was not granted, of another subscription, something after the result, an end without
    /// one.
    pub async fn next(&mut self) -> Result<Option<String>, End> {
        let Some(message) = self.messages.next().await? else {
            assert!(self.result.is_some(), "an end without a result");
            return Ok(None);
        };
        assert!(self.result.is_none(), "after the result: {message}");
        const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
        if message.get("id").is_some() {
            assert_eq!(message["id"], self.id);
            assert_eq!(message["result"]["_meta"][SUBSCRIPTION], self.id);
            assert_eq!(message["result"]["resultType"], "complete");
            self.result = Some(message);
            return Box::pin(self.next()).await;
        }
        assert_eq!(message["params"]["_meta"][SUBSCRIPTION], self.id, "{message}");
        let what = changed(&message);
        let granted = match message["params"]["uri"].as_str() {
            Some(uri) => self.granted["resourceSubscriptions"].as_array().unwrap().contains(&uri.into()),
            None => self.granted["resourcesListChanged"] == true,
        };
        assert!(granted, "not granted: {message}");
        Ok(Some(what))
    }

    /// Reads to the end.
    pub async fn to_end(&mut self) -> Result<Vec<String>, End> {
        let mut told = Vec::new();
        while let Some(what) = self.next().await? {
            told.push(what);
        }
        Ok(told)
    }

    /// What cuts its connection.
    pub fn cutter(&self) -> Cutter {
        self.messages.cutter()
    }
}

/// What a notification says that changed: a list by its name, or a resource by its URI.
pub fn changed(message: &Value) -> String {
    match message["method"].as_str().unwrap() {
        "notifications/resources/updated" => message["params"]["uri"].as_str().unwrap().to_owned(),
        "notifications/resources/list_changed" => "resources".to_owned(),
        other => panic!("{other}"),
    }
}
