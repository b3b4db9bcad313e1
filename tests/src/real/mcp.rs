//! An MCP call whose answer is a stream.

use super::client::{Client, Response};
use crate::mcp;
use hangar_core::wire::sse::Decoder;
use serde_json::{Value, json};
use std::{collections::VecDeque, io::Read};

/// A call that was made. Dropped, its client has left.
#[derive(Debug)]
pub struct Calling {
    response: Response,
    decoder: Decoder,
    messages: VecDeque<Value>,
}

impl Client {
    /// Calls a tool whose answer is a stream; `token` is what it wants progress as.
    pub fn calling(&self, name: &str, arguments: &Value, token: Option<Value>) -> Calling {
        let params = json!({ "name": name, "arguments": arguments });
        let message = mcp::request(&json!("call"), "tools/call", &params, token.as_ref());
        Calling::of(self.mcp(&message).unwrap())
    }

    /// Asks to be told what changes.
    pub fn listening(&self, wanted: &Value) -> Calling {
        let params = json!({ "notifications": wanted });
        Calling::of(self.mcp(&mcp::request(&json!("listen"), "subscriptions/listen", &params, None)).unwrap())
    }
}

impl Calling {
    /// An answer that is a stream.
    pub fn of(response: Response) -> Self {
        assert_eq!(response.status, 200, "{}", response.head);
        Self { response, decoder: Decoder::new(16 << 20), messages: VecDeque::new() }
    }

    /// The first byte, which comes at once.
    pub fn first_byte(&mut self) -> u8 {
        let mut byte = [0];
        self.response.read_exact(&mut byte).unwrap();
        self.decoder.push(&byte).unwrap();
        byte[0]
    }

    /// Reads until what was printed has `text` in it.
    pub fn read_until(&mut self, text: &str) {
        let mut output = String::new();
        while !output.contains(text) {
            let message = self.next().unwrap_or_else(|| panic!("it ended before {text:?}: {output:?}"));
            output += message["params"]["message"].as_str().unwrap_or_else(|| panic!("{message}"));
        }
    }

    /// Reads to the end: all that came as progress, and the answer.
    pub fn to_end(&mut self) -> (String, Value) {
        let mut output = String::new();
        let mut answer = Value::Null;
        for message in self.by_ref() {
            assert_eq!(answer, Value::Null, "something follows the answer: {message}");
            if message.get("id").is_some() {
                answer = message;
            } else {
                output += message["params"]["message"].as_str().unwrap_or_default();
            }
        }
        (output, answer)
    }
}

/// The messages, to the end.
impl Iterator for Calling {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        while self.messages.is_empty() {
            let mut bytes = [0; 16 * 1024];
            let len = self.response.read(&mut bytes).unwrap();
            if len == 0 {
                return None;
            }
            self.decoder.push(&bytes[..len]).unwrap();
            while let Some(event) = self.decoder.next_event().filter(|event| !event.data.is_empty()) {
                self.messages.push_back(serde_json::from_str(&event.data).unwrap());
            }
        }
        self.messages.pop_front()
    }
}
