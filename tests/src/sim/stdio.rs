//! A client of MCP that speaks and hears lines.

use super::world::World;
use crate::mcp::request;
use hangar_transports::{
    mcp::{plane::PlaneHandler, stdio::serve},
    plane::tokens::Caller,
};
use serde_json::{Value, json};
use std::{
    io,
    sync::{Arc, Mutex},
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, duplex};

/// The client's side of a session.
#[derive(Debug)]
pub struct Session {
    /// Where it speaks; None once it is done.
    pub input: Option<DuplexStream>,
    output: Lines<BufReader<DuplexStream>>,
    /// How it ended, once it has.
    ended: Arc<Mutex<Option<io::Result<()>>>>,
}

impl Session {
    /// A session whose output holds `capacity` bytes that are not read.
    pub fn start(world: &World, capacity: usize) -> Self {
        let (input, theirs) = duplex(64 * 1024);
        let (output, our) = duplex(capacity);
        let handler = Arc::new(PlaneHandler::new(Arc::clone(&world.plane)));
        let runtime = Arc::clone(&world.runtime);
        let ended: Arc<Mutex<Option<io::Result<()>>>> = Arc::default();
        let told = Arc::clone(&ended);
        let serving = serve(handler, Caller::owner(), runtime, theirs, our);
        world
            .runtime
            .task(async move {
                let ended = serving.await;
                *told.lock().unwrap() = Some(ended);
            })
            .detach();
        Self { input: Some(input), output: BufReader::new(output).lines(), ended }
    }

    /// Says a line.
    pub async fn say(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Calls `exec`; `token` is what it wants progress as.
    pub async fn exec(&mut self, id: u64, command: &str, token: Option<u64>) {
        let params = json!({ "name": "exec", "arguments": { "command": command, "stream": true } });
        let token = token.map(Value::from);
        self.say(&request(&json!(id), "tools/call", &params, token.as_ref()).to_string()).await;
    }

    /// Cancels a call.
    pub async fn cancel(&mut self, id: u64) {
        let cancelled = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id },
        });
        self.say(&cancelled.to_string()).await;
    }

    /// The next message; None at the end.
    pub async fn hear(&mut self) -> Option<Value> {
        let line = self.output.next_line().await.unwrap();
        line.map(|line| serde_json::from_str(&line).unwrap())
    }

    /// Whether the server is done with it.
    pub fn has_ended(&self) -> bool {
        self.ended.lock().unwrap().is_some()
    }
}
