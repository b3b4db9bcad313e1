//! `/mcp`: MCP over HTTP. Whatever is refused is refused with a JSON-RPC error, as clients look for one.
//!
//! | | the newest revision | those of 2025 |
//! | --- | --- | --- |
//! | POST | a call, a notification | `initialize`; what is of a session: a message, or several |
//! | GET | 405 | the session's stream of what changes, or the rest of a call's stream |
//! | DELETE | 405 | the end of the session |

use super::{Call, Scope, events};
use crate::{
    ApiError,
    body::Body,
    mcp::{
        self, RequestContext,
        session::{
            Session,
            batch::BatchBody,
            call::{self, Begun, CallBody, Kind},
            stream::StreamBody,
            table::{Held, Sessions},
        },
    },
    sse::EventBody,
};
use bytes::{Bytes, BytesMut};
use hangar_backends::Runtime;
use hangar_core::wire::mcp::{
    head::{Head, Header},
    legacy::{Incoming, Initialize, Legacy},
    message::{self, Id, Malformed, RpcError, code},
    request::{self, Refusal, Verdict},
    response::Framing,
};
use hyper::{
    HeaderMap, Method, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER},
};
use serde_json::json;
use std::sync::Arc;

/// Where it is.
pub(super) const PATH: &str = "/mcp";

/// Bytes of the answers to several messages, which wait for their client together: past it no more is begun.
const MAX_ANSWERS: usize = 2 * 1024 * 1024;

/// The header that names a session.
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Who may call.
const SCOPES: [Scope; 3] = [Scope::Admin, Scope::User, Scope::Mcp];

/// What answers, and the sessions of those clients that have one.
pub(super) struct Endpoint {
    handler: Arc<dyn mcp::Handler>,
    sessions: Arc<Sessions>,
}

impl Endpoint {
    pub(super) fn new(plane: &Arc<crate::Plane>, handler: Arc<dyn mcp::Handler>) -> Self {
        let valid = {
            let plane = Arc::downgrade(plane);
            move |token: &str| plane.upgrade().is_some_and(|plane| plane.is_valid(token))
        };
        let (runtime, metrics) = (Arc::clone(plane.runtime()), Arc::clone(plane.metrics()));
        let sessions = Sessions::new(runtime, metrics, plane.settings().mcp_session, valid);
        Self { handler, sessions }
    }

    /// The sessions that there are.
    pub(super) const fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    /// Answers a request.
    pub(super) async fn answer(&self, call: Call<'_>) -> Response<Body> {
        let answered = match *call.request.method() {
            Method::GET => self.get(&call).await,
            Method::DELETE => self.delete(&call),
            _ => self.post(call).await,
        };
        answered.unwrap_or_else(|error| refused(&error, None))
    }

    async fn post(&self, mut call: Call<'_>) -> Result<Response<Body>, ApiError> {
        let caller = call.caller(&SCOPES)?;
        if let Err(refusal) = request::check_types(&head(call.request.headers())) {
            return Ok(said(&refusal));
        }
        let body = call.body().await?;
        // Its sender took their time.
        call.plane.recheck(&caller)?;
        let context = RequestContext { caller, connection: Some(Arc::clone(&call.connection)) };
        match request::accept(&head(call.request.headers()), &body, &self.handler.offers()) {
            Verdict::Call(accepted) => Ok(self.call(context, &accepted, call.plane.runtime()).await),
            // Whom it is about would be named by an id that any client may use: nothing is done for it.
            Verdict::Notification { .. } => Ok(taken()),
            Verdict::Refused(refusal) => Ok(said(&refusal)),
            Verdict::Legacy(Legacy::Initialize(initialize)) if call.plane.is_shutting_down() => {
                Ok(refused(&ApiError::shutting_down(), Some(&initialize.id)))
            }
            Verdict::Legacy(Legacy::Initialize(initialize)) => {
                self.initialize(context, initialize, &call).await
            }
            Verdict::Legacy(Legacy::Message(message)) => match self.session(&call, &context) {
                Ok(held) => Ok(one(held, context, message).await),
                Err(error) => Ok(refused(&error, message.id())),
            },
            Verdict::Legacy(Legacy::Batch(messages)) => {
                let held = self.session(&call, &context)?;
                Ok(batch(held, context, messages, call.plane.runtime()).await)
            }
        }
    }

    /// Answers a call of the newest revision.
    async fn call(
        &self,
        context: RequestContext,
        call: &request::Call,
        runtime: &Arc<dyn Runtime>,
    ) -> Response<Body> {
        match self.handler.call(context, call).await {
            mcp::Reply::Now(Ok(result)) => {
                answered(StatusCode::OK, message::answer(Some(&call.id), &Ok(result)))
            }
            mcp::Reply::Now(Err(error)) => failed(error.status(), Some(&call.id), error),
            mcp::Reply::Later(work) => {
                let (id, token) = (call.id.clone(), call.meta.progress_token.clone());
                let answer = mcp::Answer::to(id, token, Framing::Events, work, Arc::clone(runtime));
                events(Body::Mcp(Box::new(EventBody::new(answer))))
            }
        }
    }

    async fn initialize(
        &self,
        context: RequestContext,
        initialize: Initialize,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let id = initialize.id.clone();
        let (handler, runtime) = (Arc::clone(&self.handler), Arc::clone(call.plane.runtime()));
        let token = context.caller.token().to_owned();
        let (session, result) = match Session::begin(handler, runtime, context.clone(), initialize).await {
            Ok(begun) => begun,
            Err(error) => return Ok(failed(200, Some(&id), error)),
        };
        session.note_lists(&context).await;
        let held = match self.sessions.open(&token, session) {
            Ok(held) => held,
            Err(error) => {
                let status = StatusCode::TOO_MANY_REQUESTS;
                let error = ApiError::new(status, "too_many_sessions", error.to_string());
                return Ok(refused(&error, Some(&id)));
            }
        };
        let mut response = answered(StatusCode::OK, message::answer(Some(&id), &Ok(result)));
        if let Ok(id) = HeaderValue::from_str(held.id()) {
            response.headers_mut().insert(SESSION, id);
        }
        Ok(response)
    }

    /// The session that a request names. One of another token's is not there.
    fn session(&self, call: &Call<'_>, context: &RequestContext) -> Result<Held, ApiError> {
        let id = session_id(call)?;
        self.sessions.hold(context.caller.token(), id).ok_or_else(no_session)
    }

    /// The stream that tells a session's client what changes, or the rest of a call's.
    async fn get(&self, call: &Call<'_>) -> Result<Response<Body>, ApiError> {
        let caller = call.caller(&SCOPES)?;
        check_old(call)?;
        if !head(call.request.headers()).accepts_events() {
            let message = "the answer is an event stream: `Accept: text/event-stream`";
            return Err(ApiError::new(StatusCode::NOT_ACCEPTABLE, "not_acceptable", message));
        }
        let context = RequestContext { caller, connection: Some(Arc::clone(&call.connection)) };
        let held = self.session(call, &context)?;
        let mut last = call.request.headers().get_all("last-event-id").iter();
        if let Some(id) = last.next() {
            // Of two nobody knows which is meant.
            let id = id.to_str().ok().filter(|_| last.next().is_none()).unwrap_or_default();
            let rest = CallBody::resume(held, &context, id)?;
            return Ok(events(Body::McpCall(Box::new(EventBody::new(rest)))));
        }
        let stream = held.session().open_stream(&context, Framing::Events).await?;
        Ok(events(Body::McpStream(Box::new(EventBody::new(StreamBody::new(stream, held))))))
    }

    /// Ends a session.
    fn delete(&self, call: &Call<'_>) -> Result<Response<Body>, ApiError> {
        let caller = call.caller(&SCOPES)?;
        check_old(call)?;
        if self.sessions.close(caller.token(), session_id(call)?) {
            Ok(super::done())
        } else {
            Err(no_session())
        }
    }
}

/// Answers one message of a session.
async fn one(held: Held, context: RequestContext, message: Incoming) -> Response<Body> {
    let request = match message {
        Incoming::Request(request) => request,
        told @ (Incoming::Notification { .. } | Incoming::Response { .. }) => {
            held.session().handle_told(told);
            return taken();
        }
    };
    let id = request.id.clone();
    match call::begin(held, context, request, Kind::Alone).await {
        // These clients take whatever is not 200 for a fault of the connection.
        Err(error) => failed(200, Some(&id), error),
        Ok(Begun::Now(outcome)) => answered(StatusCode::OK, message::answer(Some(&id), &outcome)),
        Ok(Begun::Stream(call)) => events(Body::McpCall(Box::new(EventBody::new(*call)))),
    }
}

/// Answers several: as a stream, where there is anything to be answered.
async fn batch(
    held: Held,
    context: RequestContext,
    messages: Vec<Result<Incoming, Malformed>>,
    runtime: &Arc<dyn Runtime>,
) -> Response<Body> {
    if !held.session().revision().has_batches() {
        let message = "a body has one message, which is an object: there are no batches";
        return failed(400, None, RpcError::new(code::INVALID_REQUEST, message));
    }
    let (mut calls, mut answers) = (Vec::new(), Vec::<String>::new());
    for message in messages {
        match message {
            Ok(Incoming::Request(request))
                if answers.iter().map(String::len).sum::<usize>() > MAX_ANSWERS =>
            {
                let message =
                    "the answers before this one are as long as those of one batch may be: ask again";
                let error = RpcError::new(code::INTERNAL, message);
                answers.push(message::answer(Some(&request.id), &Err(error)));
            }
            Ok(Incoming::Request(request)) => {
                let id = request.id.clone();
                match call::begin(held.clone(), context.clone(), request, Kind::OfBatch).await {
                    Err(error) => answers.push(message::answer(Some(&id), &Err(error))),
                    Ok(Begun::Now(outcome)) => answers.push(message::answer(Some(&id), &outcome)),
                    Ok(Begun::Stream(call)) => calls.push(*call),
                }
            }
            Ok(told) => held.session().handle_told(told),
            Err(Malformed { id, error, answerable }) => {
                if answerable {
                    answers.push(message::answer(id.as_ref(), &Err(error)));
                }
            }
        }
    }
    match (answers.is_empty(), calls.is_empty()) {
        (true, true) => taken(),
        (false, true) => answered(StatusCode::OK, format!("[{}]", answers.join(","))),
        (_, false) => {
            let mut said = BytesMut::new();
            answers.iter().for_each(|answer| Framing::Events.write(answer, &mut said));
            events(Body::McpBatch(Box::new(EventBody::new(BatchBody::new(said, calls, Arc::clone(runtime))))))
        }
    }
}

/// There is no GET and no DELETE in the newest revision.
fn check_old(call: &Call<'_>) -> Result<(), ApiError> {
    let head = head(call.request.headers());
    if head.is_without_sessions() {
        return Err(ApiError::method_not_allowed(&[Method::POST]));
    }
    head.check_revision()
        .map_err(|error| ApiError::bad_field("MCP-Protocol-Version", "bad_version", error.message))
}

fn session_id<'a>(call: &'a Call<'_>) -> Result<&'a str, ApiError> {
    match head(call.request.headers()).session {
        Header::Once(id) => std::str::from_utf8(id).map_err(|_| no_session()),
        Header::Missing => {
            let message = "Mcp-Session-Id: it is missing; initialize gives one";
            Err(ApiError::bad_field("Mcp-Session-Id", "missing_field", message))
        }
        Header::Twice => {
            let message = "Mcp-Session-Id: it is there more than once";
            Err(ApiError::bad_field("Mcp-Session-Id", "duplicate_field", message))
        }
    }
}

/// Clients begin anew when they hear this.
fn no_session() -> ApiError {
    let message = "Mcp-Session-Id: there is no such session; it has ended, or the server was restarted: begin a new one \
         with initialize";
    ApiError::new(StatusCode::NOT_FOUND, "no_session", message)
}

fn head(headers: &HeaderMap) -> Head<'_> {
    let once = |name: &str| Header::of(headers.get_all(name).iter().map(HeaderValue::as_bytes));
    Head {
        content_type: headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes),
        accept: headers.get_all(ACCEPT).iter().map(HeaderValue::as_bytes).collect(),
        version: once("mcp-protocol-version"),
        method: once("mcp-method"),
        name: once("mcp-name"),
        session: once("mcp-session-id"),
    }
}

/// It is not answered.
fn taken() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

fn answered(status: StatusCode, json: String) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from(json)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn said(refusal: &Refusal) -> Response<Body> {
    failed(refusal.status, refusal.id.as_ref(), refusal.error.clone())
}

fn failed(status: u16, id: Option<&Id>, error: RpcError) -> Response<Body> {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    let mut response = answered(status, message::answer(id, &Err(error)));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// What is refused before there is an answer, with the status and the headers that REST has for it; of the request with that
/// id, where it was read.
pub(super) fn refused(error: &ApiError, id: Option<&Id>) -> Response<Body> {
    let rpc = RpcError::new(code::INVALID_REQUEST, error.to_string()).with(json!({ "code": error.code() }));
    error.response_saying(Bytes::from(message::answer(id, &Err(rpc))))
}
