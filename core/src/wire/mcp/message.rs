//! JSON-RPC 2.0: one message a body, or a line.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Map, Number, Value, value::RawValue};
use std::{borrow::Cow, fmt};

/// What names a request, or asks for progress: a string or a whole number, given back as it came.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Id {
    /// A whole number, 0 and those below it included.
    Number(Number),
    /// A string, the empty one included.
    Text(String),
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Number(number) if number.is_i64() || number.is_u64() => Ok(Self::Number(number)),
            Value::String(text) => Ok(Self::Text(text)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                Err(D::Error::custom("it must be a string or a whole number"))
            }
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// Codes of errors. Those from -32020 to -32099 are the protocol's, the others JSON-RPC's.
pub mod code {
    /// The body is not JSON.
    pub const PARSE: i32 = -32700;
    /// The body is JSON, and no message.
    pub const INVALID_REQUEST: i32 = -32600;
    /// There is no such method here.
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// The parameters are not what the method takes.
    pub const INVALID_PARAMS: i32 = -32602;
    /// A fault of the server's own.
    pub const INTERNAL: i32 = -32603;
    /// A header is missing, or says something else than the body.
    pub const HEADER_MISMATCH: i32 = -32020;
    /// The client cannot do what the answer would need.
    pub const MISSING_CAPABILITY: i32 = -32021;
    /// The revision is not spoken here.
    pub const UNSUPPORTED_VERSION: i32 = -32022;
}

/// Why there is no result.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// For a program: one of [`code`].
    pub code: i32,
    /// For a person.
    pub message: String,
    /// What a program needs beside the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The status of an HTTP response that has nothing in it but this, where the code does not say it.
    #[serde(skip)]
    pub http_status: Option<u16>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None, http_status: None }
    }

    /// The parameters are not what the method takes.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// With data.
    #[must_use]
    pub fn with(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// The status of an HTTP response that has nothing in it but this error.
    pub const fn status(&self) -> u16 {
        if let Some(status) = self.http_status {
            return status;
        }
        match self.code {
            code::METHOD_NOT_FOUND => 404,
            code::INTERNAL => 500,
            _ => 400,
        }
    }
}

/// One message of a client.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// It is to be answered.
    Request {
        /// What the answer has to name.
        id: Id,
        /// What it asks for.
        method: Cow<'a, str>,
        /// How.
        params: Option<&'a RawValue>,
    },
    /// It is not.
    Notification {
        /// What it tells.
        method: Cow<'a, str>,
        /// More about that.
        params: Option<&'a RawValue>,
    },
    /// It answers something that it was asked.
    Response {
        /// What that was; None where this cannot be told.
        id: Option<Id>,
        /// The raw JSON of the result.
        result: Option<&'a RawValue>,
        /// The raw JSON of the error.
        error: Option<&'a RawValue>,
    },
}

/// A body that is no message, with the id of what it would have been where that can be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Malformed {
    /// The id to answer with.
    pub id: Option<Id>,
    /// Why.
    pub error: RpcError,
    /// Whether it may be answered: a notification and a response may not, whatever is wrong with them.
    pub answerable: bool,
}

/// The members of a message. One that is there twice is an error, one that is not known is passed over.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// What is there, null included, which an option would take for nothing.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

pub(super) fn no_method() -> RpcError {
    RpcError::new(code::INVALID_REQUEST, "method: it is missing; only requests and notifications are taken")
}

impl<'a> Message<'a> {
    /// The one message that `body` is.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let nameless = |code, message: String| Malformed {
            id: None,
            error: RpcError::new(code, message),
            answerable: true,
        };
        let text = std::str::from_utf8(body)
            .map_err(|error| nameless(code::PARSE, format!("not UTF-8, at byte {}", error.valid_up_to())))?;
        let envelope: Envelope<'a> = match serde_json::from_str(text) {
            // serde would take an array for the members of a struct.
            Ok(envelope) if text.trim_start().starts_with('{') => envelope,
            Err(error) if !error.is_data() => {
                return Err(nameless(code::PARSE, format!("not JSON: {error}")));
            }
            Err(error) if text.trim_start().starts_with('{') => {
                return Err(nameless(code::INVALID_REQUEST, format!("not a message: {error}")));
            }
            Ok(_) | Err(_) => {
                let message = "a body has one message, which is an object: there are no batches";
                return Err(nameless(code::INVALID_REQUEST, message.to_owned()));
            }
        };
        envelope.message()
    }
}

impl<'a> Envelope<'a> {
    fn message(self) -> Result<Message<'a>, Malformed> {
        let id = self.id.map(|id| serde_json::from_str::<Id>(id.get()));
        let named = match &id {
            Some(Ok(id)) => Some(id.clone()),
            Some(Err(_)) | None => None,
        };
        let answerable = self.id.is_some();
        let bad = |code, message: &str| {
            let error = RpcError::new(code, message);
            Malformed { id: named.clone(), error, answerable }
        };
        let Some(method) = self.method else {
            if self.result.is_some() || self.error.is_some() {
                return Ok(Message::Response { id: named, result: self.result, error: self.error });
            }
            return Err(Malformed { id: named, error: no_method(), answerable: true });
        };
        if self.jsonrpc.is_none_or(|version| version.get() != "\"2.0\"") {
            return Err(bad(code::INVALID_REQUEST, "jsonrpc: it must be \"2.0\""));
        }
        let method = text(method).map_err(|_| bad(code::INVALID_REQUEST, "method: it must be a string"))?;
        if self.params.is_some_and(|params| !params.get().starts_with('{')) {
            return Err(bad(code::INVALID_PARAMS, "params: it must be an object"));
        }
        match id {
            None => Ok(Message::Notification { method, params: self.params }),
            Some(Ok(id)) => Ok(Message::Request { id, method, params: self.params }),
            Some(Err(_)) => Err(bad(code::INVALID_REQUEST, "id: it must be a string or a whole number")),
        }
    }
}

/// A string, borrowed where nothing in it is escaped.
pub(super) fn text(raw: &RawValue) -> Result<Cow<'_, str>, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str::<Borrowed<'_>>(raw.get()).map(|text| text.0)
}

/// The text of an answer, without a line end in it. One to what has no id has null, as JSON-RPC demands and the Python
/// client expects; the protocol's schema would have it left out.
pub fn answer(id: Option<&Id>, outcome: &Result<Map<String, Value>, RpcError>) -> String {
    #[derive(Serialize)]
    struct Answer<'a> {
        jsonrpc: &'static str,
        id: Option<&'a Id>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a Map<String, Value>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a RpcError>,
    }
    let (result, error) = match outcome {
        Ok(result) => (Some(result), None),
        Err(error) => (None, Some(error)),
    };
    // Maps with strings for keys only: this cannot fail.
    serde_json::to_string(&Answer { jsonrpc: "2.0", id, result, error }).unwrap_or_default()
}

/// The text of a notification, without a line end in it.
pub fn notification(method: &str, params: &Value) -> String {
    #[derive(Serialize)]
    struct Notification<'a> {
        jsonrpc: &'static str,
        method: &'a str,
        params: &'a Value,
    }
    serde_json::to_string(&Notification { jsonrpc: "2.0", method, params }).unwrap_or_default()
}

/// The text of a request of the server's, without a line end in it.
pub fn request(id: u64, method: &str, params: &Value) -> String {
    #[derive(Serialize)]
    struct Request<'a> {
        jsonrpc: &'static str,
        id: u64,
        method: &'a str,
        params: &'a Value,
    }
    serde_json::to_string(&Request { jsonrpc: "2.0", id, method, params }).unwrap_or_default()
}

/// What was wrong, without where in a text that its reader does not see.
pub(super) fn without_place(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.rfind(" at line ").map_or(message.as_str(), |at| &message[..at]).to_owned()
}
