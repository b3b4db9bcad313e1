//! From the head and the body of an HTTP request to a call, a rung at a time: what a later rung needs is settled by an
//! earlier one, and the first that does not hold decides how the request is refused.
//!
//! 1. `Content-Type` and `Accept`.
//! 2. The body is one message. Of a notification nothing else has to hold but that its headers do not contradict it.
//! 3. `_meta` has the revision.
//! 4. The headers say what the body says: the revision, the method, the name.
//! 5. The revision is spoken here.
//! 6. `_meta` has the capabilities of the client, and nothing else in it is wrong.
//! 7. The method is there.
//! 8. Its parameters are.
//!
//! Nothing is kept from one request to the next.
//!
//! That is the revision 2026-07-28, which a request says it is of in its head, or in its `_meta`. Others are of the revisions
//! of 2025, whose sessions know the rest ([`legacy`]).

use super::{
    REVISION,
    head::{Head, Header, decoded, encoded, essence, mismatch, same},
    legacy::{self, Incoming, Legacy},
    message::{Id, Malformed, Message, RpcError, code, no_method, text, without_place},
    meta::{self, KnownMeta, Meta},
    revision::Revision,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json, value::RawValue};
use std::borrow::Cow;

/// What a server offers.
#[derive(Clone, Copy, Debug)]
pub struct Offers<'a> {
    /// The methods that are there.
    pub methods: &'a [&'a str],
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Verdict {
    /// It is carried out.
    Call(Box<Call>),
    /// It is taken, and not answered (202).
    Notification {
        /// What it tells.
        method: String,
        /// More about that.
        params: Option<Box<RawValue>>,
    },
    /// It is of a revision that has sessions: one of them has to take it.
    Legacy(Legacy),
    /// It is not.
    Refused(Box<Refusal>),
}

/// How a request is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The status of the HTTP response.
    pub status: u16,
    /// The id of the request, where it has one.
    pub id: Option<Id>,
    /// The body of the response.
    pub error: RpcError,
    /// Whether it may be answered where that is not for the transport to say: over lines nothing is said to a
    /// notification or a response.
    pub answerable: bool,
}

/// A request that holds.
#[derive(Clone, Debug)]
pub struct Call {
    /// What the answer has to name.
    pub id: Id,
    /// One of [`Offers::methods`].
    pub method: String,
    /// The raw JSON of its parameters: an object.
    pub params: Box<RawValue>,
    /// The revision that its client speaks.
    pub revision: Revision,
    /// What it says about itself.
    pub meta: Meta,
}

impl Call {
    /// Its parameters; what is not known of them is passed over.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        serde_json::from_str(self.params.get())
            .map_err(|error| RpcError::invalid_params(format!("params: {}", without_place(&error))))
    }
}

/// What becomes of an HTTP request.
pub fn accept(head: &Head<'_>, body: &[u8], offers: &Offers<'_>) -> Verdict {
    check_types(head).and_then(|()| route(Some(head), body, offers)).unwrap_or_else(Verdict::Refused)
}

/// What becomes of a message that has no head: a line of a process's input.
pub fn accept_line(line: &[u8], offers: &Offers<'_>) -> Verdict {
    route(None, line, offers).unwrap_or_else(Verdict::Refused)
}

/// A request that neither says that it is of the revision without sessions, nor is of a session.
pub fn without_session(id: Option<Id>) -> Box<Refusal> {
    let message = format!(
        "params._meta: it is missing; it must have {} and {}. A client of a revision before {REVISION} begins with \
         initialize, and over HTTP names the session that this began with Mcp-Session-Id",
        meta::VERSION,
        meta::CAPABILITIES
    );
    refusal(id, RpcError::invalid_params(message).with(json!({ "supported": Revision::names() })))
}

/// Whether the types of the body and of the answer are those of the protocol.
pub fn check_types(head: &Head<'_>) -> Result<(), Box<Refusal>> {
    let refused = |status, message: &str| {
        let error = RpcError::new(code::INVALID_REQUEST, message);
        Box::new(Refusal { status, id: None, error, answerable: true })
    };
    if head.content_type.map(essence).as_deref() != Some(b"application/json") {
        return Err(refused(415, "the body must be JSON, sent with `Content-Type: application/json`"));
    }
    if head.accepts(&[b"application/json", b"application/*"]) && head.accepts_events() {
        return Ok(());
    }
    Err(refused(406, "the answer is JSON or an event stream: `Accept: application/json, text/event-stream`"))
}

/// By which revisions' rules it goes.
fn route(head: Option<&Head<'_>>, body: &[u8], offers: &Offers<'_>) -> Result<Verdict, Box<Refusal>> {
    let is_new = head.is_some_and(Head::is_without_sessions);
    let of_session = |head: &Head<'_>| head.session != Header::Missing;
    if !is_new && head.is_none_or(of_session) && body.trim_ascii_start().starts_with(b"[") {
        check_revision(head, None)?;
        return legacy::batch(body).map(Verdict::Legacy).map_err(|error| refusal(None, error));
    }
    let message = Message::parse(body).map_err(|malformed| {
        let Malformed { id, error, answerable } = malformed;
        Box::new(Refusal { answerable, ..*refusal(id, error) })
    })?;
    match message {
        Message::Request { id, method, params } => {
            let params_meta = |params| Known::parse(params).map_or(None, |known| known.meta);
            if is_new || method == "server/discover" || KnownMeta::names_revision(params_meta(params)) {
                return by_ladder(head, id, method, params, offers);
            }
            check_revision(head, Some(&id))?;
            if method == "initialize" {
                let initialized = legacy::initialize(id.clone(), params);
                return initialized.map(Verdict::Legacy).map_err(|error| refusal(Some(id), error));
            }
            if !head.is_none_or(of_session) {
                return Err(without_session(Some(id)));
            }
            Ok(Verdict::Legacy(Legacy::Message(Incoming::from(Message::Request { id, method, params }))))
        }
        message @ (Message::Notification { .. } | Message::Response { .. })
            if !is_new && head.is_some_and(of_session) =>
        {
            check_revision(head, None)?;
            Ok(Verdict::Legacy(Legacy::Message(message.into())))
        }
        Message::Notification { method, params } => {
            if let Some(head) = head {
                check_notification(head, &method).map_err(|error| refusal(None, error))?;
            }
            let (method, params) = (method.into_owned(), params.map(ToOwned::to_owned));
            Ok(Verdict::Notification { method, params })
        }
        // The id is the server's own: over lines, that of something it asked.
        response @ Message::Response { .. } if head.is_none() => {
            Ok(Verdict::Legacy(Legacy::Message(response.into())))
        }
        Message::Response { .. } => {
            Err(Box::new(Refusal { answerable: false, ..*refusal(None, no_method()) }))
        }
    }
}

fn check_revision(head: Option<&Head<'_>>, id: Option<&Id>) -> Result<(), Box<Refusal>> {
    head.map_or(Ok(()), Head::check_revision).map_err(|error| refusal(id.cloned(), error))
}

fn by_ladder(
    head: Option<&Head<'_>>,
    id: Id,
    method: Cow<'_, str>,
    params: Option<&RawValue>,
    offers: &Offers<'_>,
) -> Result<Verdict, Box<Refusal>> {
    let fail = |error| refusal(Some(id.clone()), error);
    let known = Known::parse(params).map_err(fail)?;
    let meta = KnownMeta::parse(known.meta).map_err(fail)?;
    let version = meta.version().map_err(fail)?;
    if let Some(head) = head {
        check_headers(head, version, &method, &known).map_err(fail)?;
    }
    if version != REVISION {
        return Err(fail(unsupported(version)));
    }
    let meta = meta.whole().map_err(fail)?;
    if !offers.methods.contains(&&*method) {
        let message = format!("there is no method {method} here");
        return Err(fail(RpcError::new(code::METHOD_NOT_FOUND, message)));
    }
    known.check_name(&method).map_err(fail)?;
    let method = method.into_owned();
    // `_meta` was in it.
    let params = params.map_or_else(Box::default, ToOwned::to_owned);
    Ok(Verdict::Call(Box::new(Call { id, method, params, revision: Revision::V2026_07_28, meta })))
}

fn refusal(id: Option<Id>, error: RpcError) -> Box<Refusal> {
    Box::new(Refusal { status: error.status(), id, error, answerable: true })
}

fn unsupported(version: &str) -> RpcError {
    let data = json!({ "supported": Revision::names(), "requested": version });
    let message =
        format!("the revision {version} is not spoken here; {REVISION} is, and older ones after initialize");
    RpcError::new(code::UNSUPPORTED_VERSION, message).with(data)
}

/// The parameters that the ladder looks at.
#[derive(Default, Deserialize)]
pub(super) struct Known<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
}

impl<'a> Known<'a> {
    pub(super) fn parse(params: Option<&'a RawValue>) -> Result<Self, RpcError> {
        let Some(params) = params else { return Ok(Self::default()) };
        serde_json::from_str(params.get())
            .map_err(|error| RpcError::invalid_params(format!("params: {}", without_place(&error))))
    }

    /// What the request says about itself.
    pub(super) const fn meta(&self) -> Option<&'a RawValue> {
        self.meta
    }

    /// Whether the parameter that says what it is about is a string, where there has to be one.
    pub(super) fn check_name(&self, method: &str) -> Result<(), RpcError> {
        match self.named_by(method) {
            Some((name, None)) => {
                Err(RpcError::invalid_params(format!("params.{name}: it must be a string")))
            }
            Some((_, Some(_))) | None => Ok(()),
        }
    }

    /// The parameter that `Mcp-Name` repeats, and what it says where it is a string.
    fn named_by(&self, method: &str) -> Option<(&'static str, Option<Cow<'a, str>>)> {
        let string = |value: Option<&'a RawValue>| value.and_then(|value| text(value).ok());
        match method {
            "tools/call" | "prompts/get" => Some(("name", string(self.name))),
            "resources/read" => Some(("uri", string(self.uri))),
            _ => None,
        }
    }
}

impl Call {
    /// Its parameters as the newest revision has them: for who sends it on to a server that speaks that.
    pub fn newest_params(&self) -> Box<RawValue> {
        if !self.revision.has_sessions() {
            return self.params.clone();
        }
        // What a call has is an object.
        let mut params: Map<String, Value> = serde_json::from_str(self.params.get()).unwrap_or_default();
        let mut about = match params.remove("_meta") {
            Some(Value::Object(about)) => about,
            Some(_) | None => Map::new(),
        };
        about.insert(meta::VERSION.to_owned(), REVISION.into());
        about.insert(meta::CAPABILITIES.to_owned(), self.meta.capabilities.clone().into());
        if let Some(level) = self.meta.log_level {
            about.insert(meta::LOG_LEVEL.to_owned(), json!(level));
        }
        params.insert("_meta".to_owned(), about.into());
        let params = Value::Object(params).to_string();
        RawValue::from_string(params).unwrap_or_default()
    }

    /// What `Mcp-Name` has to say of it: for who sends it on.
    pub fn mcp_name(&self) -> Option<String> {
        let known = Known::parse(Some(&self.params)).ok()?;
        known.named_by(&self.method)?.1.map(|name| encoded(&name))
    }
}

/// Whether the headers by which a proxy may have routed the request say what the body says.
fn check_headers(head: &Head<'_>, version: &str, method: &str, known: &Known<'_>) -> Result<(), RpcError> {
    same("MCP-Protocol-Version", head.version, version)?;
    same("Mcp-Method", head.method, method)?;
    // Without a name in the body there is nothing to compare with: that is refused as a bad parameter.
    let Some((_, Some(name))) = known.named_by(method) else { return Ok(()) };
    let Header::Once(value) = head.name else { return same("Mcp-Name", head.name, &name) };
    let plain = decoded(value).ok_or_else(|| mismatch("Mcp-Name", "it is not valid base64 of UTF-8"))?;
    same("Mcp-Name", Header::Once(&plain), &name)
}

/// Clients leave headers of notifications out; those that are there must be right.
fn check_notification(head: &Head<'_>, method: &str) -> Result<(), RpcError> {
    for (name, header, body) in
        [("MCP-Protocol-Version", head.version, REVISION), ("Mcp-Method", head.method, method)]
    {
        if header != Header::Missing {
            same(name, header, body)?;
        }
    }
    Ok(())
}
