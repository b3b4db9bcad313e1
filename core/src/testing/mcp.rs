//! MCP: whatever a client sends is a call, a notification or a refusal, and whatever happens to a call it is answered
//! once, with progress that grows before that and nothing after.

use crate::{
    Time,
    text::Text,
    wire::mcp::{
        REVISION,
        head::{Head, Header},
        legacy::{Incoming, Legacy, MAX_BATCH},
        message::{Id, RpcError, code},
        request::{self, Offers, Verdict},
        response::{Answering, Framing, HEARTBEAT, Progress},
        revision::Revision,
    },
};
use arbitrary::Arbitrary;
use bytes::{Bytes, BytesMut};
use serde_json::{Map, Number, Value};
use std::time::Duration;

/// What the server of the scenarios offers.
pub const OFFERS: Offers =
    Offers { methods: &["server/discover", "tools/list", "tools/call", "resources/read"] };

/// An HTTP request, of any headers.
#[derive(Arbitrary, Clone, Debug)]
pub struct Request {
    /// `Content-Type`; JSON's own without it.
    pub content_type: Option<Vec<u8>>,
    /// Every `Accept`.
    pub accept: Vec<Vec<u8>>,
    /// The headers that repeat what the body says; each as in the body without it.
    pub version: Option<Vec<Vec<u8>>>,
    /// `Mcp-Method`.
    pub method: Option<Vec<Vec<u8>>>,
    /// `Mcp-Name`.
    pub name: Option<Vec<Vec<u8>>>,
    /// The rest is the body.
    pub body: Vec<u8>,
}

/// Judges a request, and the same message without a head.
pub fn run_request(request: &Request) {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let said =
        |pointer: &str| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().as_bytes().to_vec();
    let own = [
        said("/params/_meta/io.modelcontextprotocol~1protocolVersion"),
        said("/method"),
        if body["method"] == "resources/read" { said("/params/uri") } else { said("/params/name") },
    ];
    let header =
        |given: &Option<Vec<Vec<u8>>>, own: &Vec<u8>| given.clone().unwrap_or_else(|| vec![own.clone()]);
    let version = header(&request.version, &own[0]);
    let method = header(&request.method, &own[1]);
    let name = header(&request.name, &own[2]);
    let bare = request::accept_line(&request.body, &OFFERS);
    check(&bare, &body);
    for session in [Header::Missing, Header::Once(b"a-session"), Header::Twice] {
        let head = Head {
            content_type: Some(request.content_type.as_deref().unwrap_or(b"application/json")),
            accept: request.accept.iter().map(Vec::as_slice).collect(),
            version: Header::of(version.iter().map(Vec::as_slice)),
            method: Header::of(method.iter().map(Vec::as_slice)),
            name: Header::of(name.iter().map(Vec::as_slice)),
            session,
        };
        let whole = request::accept(&head, &request.body, &OFFERS);
        check(&whole, &body);
        match (&whole, &bare) {
            // The headers only take away.
            (Verdict::Call(whole), Verdict::Call(bare)) => {
                assert_eq!((&whole.id, &whole.method), (&bare.id, &bare.method))
            }
            (Verdict::Call(_), other) => panic!("a call by its headers alone: {other:?}"),
            (Verdict::Legacy(Legacy::Initialize(_)), _) => {}
            (Verdict::Legacy(_), _) => assert_ne!(session, Header::Missing),
            (Verdict::Notification { .. } | Verdict::Refused(_), _) => {}
        }
        match &whole {
            Verdict::Call(call) => {
                assert_eq!(version.len(), 1);
                assert_eq!(version[0].trim_ascii(), REVISION.as_bytes());
                assert_eq!(method.len(), 1);
                assert_eq!(method[0].trim_ascii(), call.method.as_bytes());
            }
            Verdict::Legacy(_) => assert!(head.check_revision().is_ok() && !head.is_without_sessions()),
            Verdict::Notification { .. } | Verdict::Refused(_) => {}
        }
    }
}

fn check(verdict: &Verdict, body: &Value) {
    let id: Option<Id> = body.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
    match verdict {
        Verdict::Call(call) => {
            assert_eq!(Some(&call.id), id.as_ref());
            assert!(OFFERS.methods.contains(&call.method.as_str()));
            assert!(body["params"]["_meta"].is_object());
        }
        Verdict::Notification { .. } => assert!(body.get("id").is_none()),
        Verdict::Legacy(Legacy::Initialize(begun)) => {
            assert_eq!((Some(&begun.id), &body["method"]), (id.as_ref(), &Value::from("initialize")));
            assert!(begun.revision.has_sessions());
            let asked = body["params"]["protocolVersion"].as_str().expect("it was asked for");
            let named = Revision::named(asked).filter(|revision| revision.has_sessions());
            assert_eq!(begun.revision, named.unwrap_or(Revision::LATEST_WITH_SESSIONS));
        }
        Verdict::Legacy(Legacy::Message(message)) => check_incoming(message, body),
        Verdict::Legacy(Legacy::Batch(messages)) => {
            assert!((1..=MAX_BATCH).contains(&messages.len()));
            // Where one of them has a number that is too large for a value, the others are messages all the same.
            let none = Vec::new();
            let bodies = body.as_array().unwrap_or(&none);
            assert!(bodies.is_empty() || bodies.len() == messages.len());
            for (message, body) in messages.iter().zip(bodies) {
                if let Ok(message) = message {
                    check_incoming(message, body);
                }
            }
        }
        Verdict::Refused(refusal) => {
            assert!(matches!(refusal.status, 400 | 404 | 406 | 415), "{refusal:?}");
            let known = [
                code::PARSE,
                code::INVALID_REQUEST,
                code::METHOD_NOT_FOUND,
                code::INVALID_PARAMS,
                code::HEADER_MISMATCH,
                code::UNSUPPORTED_VERSION,
            ];
            assert!(known.contains(&refusal.error.code), "{refusal:?}");
            // What is no request is not answered where that is not for the transport to say.
            let asks = body.get("id").is_some() && body.get("method").is_some();
            assert!(refusal.answerable || !asks, "{refusal:?}");
            // Which of two ids is meant nobody knows.
            assert!(refusal.id.is_none() || refusal.id == id, "{refusal:?}");
        }
    }
}

fn check_incoming(message: &Incoming, body: &Value) {
    let id: Option<Id> = body.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
    match message {
        Incoming::Request(request) => {
            assert_eq!((Some(&request.id), &body["method"]), (id.as_ref(), &request.method.as_str().into()));
            if let Ok(call) = request.clone().call(Revision::V2025_11_25, &Map::new(), None) {
                assert_eq!(call.params.get(), request.params.get());
                let token: Option<Id> =
                    serde_json::from_value(body["params"]["_meta"]["progressToken"].clone()).ok();
                assert_eq!(call.meta.progress_token, token);
            }
        }
        Incoming::Notification { method, .. } => {
            assert_eq!((body.get("id"), &body["method"]), (None, &method.as_str().into()));
        }
        Incoming::Response { id: answered, outcome } => {
            assert!(answered.is_none() || *answered == id);
            assert!(body.get("method").is_none() && (outcome.is_err() || body.get("error").is_none()));
        }
    }
}

/// A call, and what happens while it is carried out.
#[derive(Arbitrary, Clone, Debug)]
pub struct Answered {
    /// Its id, and the token that it wants progress as.
    pub id: Token,
    /// None where it wants none.
    pub token: Option<Token>,
    /// Whether its messages are lines.
    pub lines: bool,
    /// What happens.
    pub ops: Vec<Op>,
}

/// A string or a number.
#[derive(Arbitrary, Clone, Debug)]
pub enum Token {
    /// A number.
    Number(i64),
    /// A string.
    Text(String),
}

/// Something that happens to a call.
#[derive(Arbitrary, Clone, Debug)]
pub enum Op {
    /// Output.
    Output(Vec<u8>),
    /// Output, byte for byte.
    Base64(Vec<u8>),
    /// How far it has come.
    Progress(f64, Option<f64>, Option<String>),
    /// Something else.
    Notify(String),
    /// So many milliseconds pass.
    Wait(u16),
    /// It is done.
    Answer(bool),
}

impl From<&Token> for Id {
    fn from(token: &Token) -> Self {
        match token {
            Token::Number(number) => Self::Number(Number::from(*number)),
            Token::Text(text) => Self::Text(text.clone()),
        }
    }
}

/// Answers a call, and reads what was written as a client does.
pub fn run_answered(scenario: &Answered) {
    let (id, token) = (Id::from(&scenario.id), scenario.token.as_ref().map(Id::from));
    let framing = if scenario.lines { Framing::Lines } else { Framing::Events };
    let mut now = Time::ZERO;
    let mut answering = Answering::new(id.clone(), token.as_ref(), framing, now);
    let (mut out, mut read) = (BytesMut::new(), Reading { id, token, told: f64::NEG_INFINITY, answered: 0 });
    let (mut silent, mut last) = (now, 0.0_f64);
    for op in &scenario.ops {
        let written = match op {
            Op::Output(data) if !data.is_empty() => {
                answering.output(&Text::from(Bytes::copy_from_slice(data)), now, &mut out)
            }
            Op::Base64(data) if !data.is_empty() => {
                answering.output_base64(&Text::from(Bytes::copy_from_slice(data)), now, &mut out)
            }
            Op::Output(_) | Op::Base64(_) => false,
            Op::Progress(progress, total, message) => {
                let progress = Progress { progress: *progress, total: *total, message: message.clone() };
                answering.progress(&progress, now, &mut out)
            }
            Op::Notify(text) => {
                answering.notification("notifications/message", &Value::from(text.as_str()), now, &mut out)
            }
            Op::Wait(ms) => {
                let due = answering.heartbeat_at();
                now = now + Duration::from_millis(u64::from(*ms));
                let wrote = answering.heartbeat(now, &mut out);
                assert!(!wrote || due.is_some_and(|due| now >= due));
                if read.token.is_some() && read.answered == 0 && now.since(silent) >= HEARTBEAT {
                    // Between numbers that are greater there is no place for one.
                    assert!(wrote || last.is_finite() && last.abs() > 1e11, "a sign of life was due: {last}");
                    // It is not asked for again at once.
                    assert!(answering.heartbeat_at().is_some_and(|at| at > now));
                }
                if !wrote && due.is_some_and(|due| now >= due) {
                    silent = now;
                }
                wrote
            }
            Op::Answer(well) => {
                let outcome =
                    if *well { Ok(Map::new()) } else { Err(RpcError::new(code::INTERNAL, "no\nluck")) };
                answering.answer(&outcome, &mut out)
            }
        };
        assert_eq!(written, !out.is_empty());
        if written {
            silent = now;
            read.message(framing, &out.split());
            last = read.told;
        }
        assert_eq!(answering.is_answered(), read.answered == 1);
    }
    answering.answer(&Ok(Map::new()), &mut out);
    if !out.is_empty() {
        read.message(framing, &out);
    }
    assert_eq!(read.answered, 1);
    assert_eq!(answering.heartbeat_at(), None);
}

/// What a client has read.
struct Reading {
    id: Id,
    token: Option<Id>,
    told: f64,
    answered: u32,
}

impl Reading {
    fn message(&mut self, framing: Framing, written: &[u8]) {
        let text = std::str::from_utf8(written).expect("messages are UTF-8");
        let json = match framing {
            Framing::Lines => text.strip_suffix('\n'),
            Framing::Events => text.strip_prefix("data: ").and_then(|text| text.strip_suffix("\n\n")),
        };
        let json = json.expect("one message");
        assert!(!json.contains('\n'), "{json}");
        let message: Value = serde_json::from_str(json).expect("it is JSON");
        assert_eq!(message["jsonrpc"], "2.0");
        assert_eq!(self.answered, 0, "after the answer: {message}");
        match message["method"].as_str() {
            Some("notifications/progress") => {
                let params = &message["params"];
                let token: Id = serde_json::from_value(params["progressToken"].clone()).expect("a token");
                assert_eq!(Some(token), self.token);
                assert!(params["progress"].is_number());
                // serde_json reads a number of that kind nearly, and the next one may be near.
                let after = json.split_once("\"progress\":").expect("a number").1;
                let end = after.find([',', '}']).expect("an end");
                let told: f64 = after[..end].parse().expect("a number");
                assert!(told > self.told, "{told} after {}", self.told);
                self.told = told;
            }
            Some(_) => assert!(message.get("id").is_none()),
            None => {
                let id: Id = serde_json::from_value(message["id"].clone()).expect("an id");
                assert_eq!(id, self.id);
                assert!(message.get("result").is_some() != message.get("error").is_some());
                self.answered += 1;
            }
        }
    }
}
