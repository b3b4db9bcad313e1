//! The revisions of 2025: a client begins with `initialize`, and what it sends after that belongs to the session that this
//! began.
//!
//! ```text
//!  initialize ──► Initialize: a session begins
//!  one message ──► Incoming ──────────┐
//!  [messages] ──► Batch of them ──────┴── for the session that the request names
//! ```
//!
//! What a call gives is written for the newest revision, and [`adapted`] for these.

use super::{
    message::{Id, Malformed, Message, RpcError, code, without_place},
    meta::{self, LogLevel, Meta},
    request::{Call, Known},
    revision::Revision,
};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

/// Bytes of a client's capabilities, which its session keeps, and which are far longer in memory than as text.
pub const MAX_CAPABILITIES: usize = 8 * 1024;

/// Messages that one body may have.
pub const MAX_BATCH: usize = 64;

/// What a client of these revisions sends.
#[derive(Debug)]
pub enum Legacy {
    /// It begins a session.
    Initialize(Initialize),
    /// One message of a session.
    Message(Incoming),
    /// Several of them, each for itself.
    Batch(Vec<Result<Incoming, Malformed>>),
}

/// What begins a session.
#[derive(Clone, Debug)]
pub struct Initialize {
    /// What the answer has to name.
    pub id: Id,
    /// The revision of the session: the one that the client asked for, or the newest that has sessions.
    pub revision: Revision,
    /// What the client can do.
    pub capabilities: Map<String, Value>,
}

/// A message of a session.
#[derive(Debug)]
pub enum Incoming {
    /// It is to be answered.
    Request(Request),
    /// It is not.
    Notification {
        /// What it tells.
        method: String,
        /// More about that.
        params: Option<Box<RawValue>>,
    },
    /// It answers what the server asked.
    Response {
        /// What that was.
        id: Option<Id>,
        /// The answer.
        outcome: Result<Value, RpcError>,
    },
}

impl Incoming {
    /// The id that an answer to it has to name.
    pub const fn id(&self) -> Option<&Id> {
        match self {
            Self::Request(request) => Some(&request.id),
            Self::Notification { .. } | Self::Response { .. } => None,
        }
    }
}

/// Something that a client of a session asks for.
#[derive(Clone, Debug)]
pub struct Request {
    /// What the answer has to name.
    pub id: Id,
    /// What it asks for.
    pub method: String,
    /// The raw JSON of its parameters: an object.
    pub params: Box<RawValue>,
}

impl From<Message<'_>> for Incoming {
    fn from(message: Message<'_>) -> Self {
        match message {
            Message::Request { id, method, params } => {
                Self::Request(Request { id, method: method.into_owned(), params: object(params) })
            }
            Message::Notification { method, params } => {
                Self::Notification { method: method.into_owned(), params: params.map(ToOwned::to_owned) }
            }
            Message::Response { id, result, error } => Self::Response { id, outcome: outcome(result, error) },
        }
    }
}

fn object(params: Option<&RawValue>) -> Box<RawValue> {
    let none = || RawValue::from_string("{}".to_owned()).unwrap_or_default();
    params.map_or_else(none, ToOwned::to_owned)
}

fn outcome(result: Option<&RawValue>, error: Option<&RawValue>) -> Result<Value, RpcError> {
    if let Some(error) = error {
        let unread =
            || RpcError::new(code::INVALID_REQUEST, "the client answered with an error of no known shape");
        return Err(serde_json::from_str(error.get()).unwrap_or_else(|_| unread()));
    }
    let result = result.map_or(Ok(Value::Null), |result| serde_json::from_str(result.get()));
    result.map_err(|error| RpcError::new(code::INVALID_REQUEST, without_place(&error)))
}

/// The messages of a body that has several.
pub(super) fn batch(body: &[u8]) -> Result<Legacy, RpcError> {
    let bad = |message: String| RpcError::new(code::INVALID_REQUEST, message);
    let text = std::str::from_utf8(body)
        .map_err(|error| RpcError::new(code::PARSE, format!("not UTF-8, at byte {}", error.valid_up_to())))?;
    let messages: Vec<&RawValue> = serde_json::from_str(text)
        .map_err(|error| RpcError::new(code::PARSE, format!("not JSON: {error}")))?;
    if messages.is_empty() {
        return Err(bad("a batch has at least one message".to_owned()));
    }
    if messages.len() > MAX_BATCH {
        return Err(bad(format!("a batch has at most {MAX_BATCH} messages")));
    }
    let messages = messages.into_iter().map(|one| Message::parse(one.get().as_bytes()).map(Incoming::from));
    Ok(Legacy::Batch(messages.collect()))
}

/// What `initialize` asks for.
pub(super) fn initialize(id: Id, params: Option<&RawValue>) -> Result<Legacy, RpcError> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        protocol_version: Option<Value>,
        #[serde(borrow)]
        capabilities: Option<&'a RawValue>,
    }
    let params: Params<'_> = match params {
        None => Params::default(),
        Some(params) => serde_json::from_str(params.get())
            .map_err(|error| RpcError::invalid_params(format!("params: {}", without_place(&error))))?,
    };
    let asked = match params.protocol_version {
        Some(Value::String(version)) => version,
        Some(_) => return Err(RpcError::invalid_params("params.protocolVersion: it must be a string")),
        None => return Err(RpcError::invalid_params("params.protocolVersion: it is missing")),
    };
    let capabilities = match params.capabilities {
        Some(raw) if raw.get().len() > MAX_CAPABILITIES => {
            let message = format!("params.capabilities: they are longer than {MAX_CAPABILITIES} bytes");
            return Err(RpcError::invalid_params(message));
        }
        Some(raw) => serde_json::from_str(raw.get())
            .map_err(|_| RpcError::invalid_params("params.capabilities: they must be an object"))?,
        None => Map::new(),
    };
    let revision = Revision::named(&asked).filter(|revision| revision.has_sessions());
    let revision = revision.unwrap_or(Revision::LATEST_WITH_SESSIONS);
    Ok(Legacy::Initialize(Initialize { id, revision, capabilities }))
}

impl Request {
    /// It as a call of the session's client.
    pub fn call(
        self,
        revision: Revision,
        capabilities: &Map<String, Value>,
        log_level: Option<LogLevel>,
    ) -> Result<Call, RpcError> {
        let Self { id, method, params } = self;
        let known = Known::parse(Some(&params))?;
        known.check_name(&method)?;
        let progress_token = meta::progress_token(known.meta())?;
        let capabilities = capabilities.clone();
        Ok(Call { id, method, params, revision, meta: Meta { progress_token, log_level, capabilities } })
    }
}

/// There is no such resource.
const RESOURCE_NOT_FOUND: i32 = -32002;

/// What a call of a session gave, as these revisions have it: without what only the newest has.
pub fn adapted(
    method: &str,
    outcome: Result<Map<String, Value>, RpcError>,
) -> Result<Map<String, Value>, RpcError> {
    let reads = matches!(method, "resources/read" | "resources/subscribe");
    let mut result = outcome.map_err(|mut error| {
        let names_it = error.data.as_ref().is_some_and(|data| data.get("uri").is_some());
        if reads && error.code == code::INVALID_PARAMS && names_it {
            error.code = RESOURCE_NOT_FOUND;
        }
        error
    })?;
    for member in ["resultType", "ttlMs", "cacheScope"] {
        result.remove(member);
    }
    if let Some(Value::Object(of_result)) = result.get_mut("_meta") {
        of_result.remove(meta::SERVER);
        if of_result.is_empty() {
            result.remove("_meta");
        }
    }
    Ok(result)
}

/// The result of `initialize`, from that of `server/discover`.
pub fn initialized(revision: Revision, mut discovered: Map<String, Value>) -> Map<String, Value> {
    let server =
        discovered.get_mut("_meta").and_then(|of_result| of_result.get_mut(meta::SERVER)).map(Value::take);
    let mut result = Map::new();
    result.insert("protocolVersion".to_owned(), revision.name().into());
    result.insert(
        "capabilities".to_owned(),
        discovered.remove("capabilities").unwrap_or_else(|| Map::new().into()),
    );
    // It has to be there.
    let nobody = || json!({ "name": "unknown", "version": "0" });
    result.insert("serverInfo".to_owned(), server.unwrap_or_else(nobody));
    result.extend(discovered.remove("instructions").map(|text| ("instructions".to_owned(), text)));
    result
}
