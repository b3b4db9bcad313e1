//! The forms of an answer.

use super::{Body, FEATURES};
use bytes::{Bytes, BytesMut};
use hangar_core::wire::connect::{
    Codec, End, Kind, RpcError,
    envelope::{self, END},
    head::{ACCEPT_POST, content_type},
};
use hyper::{
    Response, StatusCode,
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue},
};

fn with_type(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The message of a unary call.
pub(super) fn message(codec: Codec, message: Bytes) -> Response<Body> {
    with_type(StatusCode::OK, content_type(Kind::Unary, codec), Body::from(message))
}

/// Why a call failed. A unary one by its status, in JSON whatever the codec; a stream by its end, with status 200.
pub(super) fn failed(kind: Kind, codec: Codec, error: RpcError) -> Response<Body> {
    match kind {
        Kind::Unary => {
            let status =
                StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            with_type(status, "application/json", Body::from(Bytes::from(error.to_json())))
        }
        Kind::Stream => {
            let mut out = BytesMut::new();
            end(Some(error), &mut out);
            stream(codec, Body::from(out.freeze()))
        }
    }
}

/// A stream.
pub(super) fn stream(codec: Codec, body: Body) -> Response<Body> {
    with_type(StatusCode::OK, content_type(Kind::Stream, codec), body)
}

/// Appends the end of a stream.
pub(super) fn end(error: Option<RpcError>, out: &mut BytesMut) {
    envelope::write(END, out, |out| out.extend_from_slice(End { error }.to_json().as_bytes()));
}

/// A refusal before the call was reached, in the form of envd's gateway: its `code` is a number.
pub(super) fn refused(status: StatusCode, message: &str) -> Response<Body> {
    let json = serde_json::json!({ "code": status.as_u16(), "message": message });
    with_type(status, "application/json", Body::from(Bytes::from(json.to_string())))
}

/// JSON.
pub(super) fn json(value: &impl serde::Serialize) -> Response<Body> {
    // Strings and numbers only: this cannot fail.
    let json = serde_json::to_string(value).unwrap_or_default();
    with_type(StatusCode::OK, "application/json", Body::from(Bytes::from(json)))
}

/// A line for a person.
pub(super) fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    with_type(status, "text/plain; charset=utf-8", Body::from(Bytes::from_static(text.as_bytes())))
}

/// 204.
pub(super) fn nothing() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// 405.
pub(super) fn not_allowed(methods: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

/// 415: the type of the body is none that a call takes.
pub(super) fn unsupported_type() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    let accepted = HeaderValue::from_static(ACCEPT_POST);
    response.headers_mut().insert(HeaderName::from_static("accept-post"), accepted);
    response
}

/// It is there, and what it is.
pub(super) fn health() -> Response<Body> {
    let mut response = nothing();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("hangar-envd"), HeaderValue::from_static(FEATURES));
    response
}
