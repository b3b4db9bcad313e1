//! `POST /mcp`: MCP over HTTP. Whatever is refused is refused with a JSON-RPC error, as clients look for one.

use super::{Call, Scope, events};
use crate::{ApiError, body::Body, mcp, sse::EventBody};
use bytes::Bytes;
use hangar_core::wire::mcp::{
    head::{Head, Header},
    message::{self, Id, RpcError, code},
    request::{self, Verdict},
    response::Framing,
};
use hyper::{
    HeaderMap, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderValue},
};
use serde_json::json;
use std::sync::Arc;

/// Where it is.
pub(super) const PATH: &str = "/mcp";

/// Who may call.
const SCOPES: [Scope; 3] = [Scope::Admin, Scope::User, Scope::Mcp];

/// Answers a request.
pub(super) async fn answer(call: Call<'_>, handler: &dyn mcp::Handler) -> Response<Body> {
    answer_or_refuse(call, handler).await.unwrap_or_else(|error| refused(&error))
}

async fn answer_or_refuse(
    mut call: Call<'_>,
    handler: &dyn mcp::Handler,
) -> Result<Response<Body>, ApiError> {
    let caller = call.caller(&SCOPES)?;
    if let Err(refusal) = request::check_types(&head(call.request.headers())) {
        return Ok(said(refusal.status, refusal.id.as_ref(), refusal.error));
    }
    let body = call.body().await?;
    // Its sender took their time.
    call.plane.recheck(&caller)?;
    let accepted = match request::accept(&head(call.request.headers()), &body, &handler.offers()) {
        Verdict::Call(accepted) => accepted,
        Verdict::Notification { .. } => {
            // Whom it is about would be named by an id that any client may use: nothing is done for it.
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::ACCEPTED;
            return Ok(response);
        }
        Verdict::Refused(refusal) => return Ok(said(refusal.status, refusal.id.as_ref(), refusal.error)),
    };
    let runtime = Arc::clone(call.plane.runtime());
    let context = mcp::RequestContext { caller, connection: Some(Arc::clone(&call.connection)) };
    let id = &accepted.id;
    match handler.call(context, &accepted).await {
        mcp::Reply::Now(Ok(result)) => Ok(answered(StatusCode::OK, message::answer(Some(id), &Ok(result)))),
        mcp::Reply::Now(Err(error)) => Ok(said(error.status(), Some(id), error)),
        mcp::Reply::Later(work) => {
            let answer = mcp::Answer::to(&accepted, Framing::Events, work, runtime);
            Ok(events(Body::Mcp(Box::new(EventBody::new(answer)))))
        }
    }
}

fn head(headers: &HeaderMap) -> Head<'_> {
    let once = |name: &str| Header::of(headers.get_all(name).iter().map(HeaderValue::as_bytes));
    Head {
        content_type: headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes),
        accept: headers.get_all(ACCEPT).iter().map(HeaderValue::as_bytes).collect(),
        version: once("mcp-protocol-version"),
        method: once("mcp-method"),
        name: once("mcp-name"),
    }
}

fn answered(status: StatusCode, json: String) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from(json)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn said(status: u16, id: Option<&Id>, error: RpcError) -> Response<Body> {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    answered(status, message::answer(id, &Err(error)))
}

/// What is refused before there is a message, with the status and the headers that REST has for it.
pub(super) fn refused(error: &ApiError) -> Response<Body> {
    let rpc = RpcError::new(code::INVALID_REQUEST, error.to_string()).with(json!({ "code": error.code() }));
    error.response_saying(Bytes::from(message::answer(None, &Err(rpc))))
}
