//! What a client is told when it does not get what it asked for.

use crate::{body::Body, plane::watches::TooManyWatches};
use bytes::Bytes;
use hangar_backends::{
    sandbox::{Exhausted, SandboxError, StartError},
    store::StoreError,
    watching::WatchError,
};
use hangar_core::limits::Exceeded;
use hyper::{
    Method, Response, StatusCode,
    header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, UPGRADE, WWW_AUTHENTICATE},
};
use serde::Serialize;

/// A refusal: `{"error":{"code","message","field"?,"scope"?}}`. It never carries a stack trace, a path of the host
/// that the client did not name, or a token.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}", .0.message)]
pub struct ApiError(Box<Parts>);

#[derive(Clone, Debug, Eq, PartialEq)]
struct Parts {
    status: StatusCode,
    code: &'static str,
    message: String,
    field: Option<String>,
    scope: Option<&'static str>,
    missing: Option<&'static str>,
    header: Option<(HeaderName, HeaderValue)>,
}

#[derive(Serialize)]
struct Envelope<'a> {
    error: Inner<'a>,
}

#[derive(Serialize)]
struct Inner<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
}

impl ApiError {
    /// A refusal with a code for a program and a message for a person.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            status,
            code,
            message: message.into(),
            field: None,
            scope: None,
            missing: None,
            header: None,
        }))
    }

    /// 400: a field of the request is not what it must be.
    pub fn bad_field(field: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        let mut error = Self::new(StatusCode::BAD_REQUEST, code, message);
        error.0.field = Some(field.into());
        error
    }

    /// The same, for a request that has to ask for a WebSocket.
    #[must_use]
    pub fn with_upgrade(self) -> Self {
        self.with_header(UPGRADE, HeaderValue::from_static("websocket"))
    }

    /// 401: no token, or one that is not valid.
    pub fn unauthorized(message: &'static str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
            .with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"hangar\""))
    }

    /// 403: the token's scope does not reach this.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// 404: there is no such thing, or it is another's.
    pub fn not_found(what: &'static str) -> Self {
        let mut error = Self::new(StatusCode::NOT_FOUND, "not_found", format!("no such {what}"));
        error.0.missing = Some(what);
        error
    }

    /// 405, with the methods that there are.
    pub fn method_not_allowed(allowed: &[Method]) -> Self {
        let list = allowed.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
        let message = format!("this path takes {list}");
        let error = Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
        match HeaderValue::from_str(&list) {
            Ok(list) => error.with_header(ALLOW, list),
            Err(_) => error,
        }
    }

    /// 503: the server ends.
    pub fn shutting_down() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", "hangar is shutting down").retry_soon()
    }

    /// 503: a process that was told to end has not, as its sandbox cannot be reached, or the system does not let go of it.
    pub fn still_ending() -> Self {
        let message = "the process was told to end and has not; it was not started again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "sandbox_unreachable", message).retry_soon()
    }

    /// 503: what is asked for is in a sandbox that was not reached yet.
    pub fn sandbox_away() -> Self {
        let message = "the sandbox was not reached since the server was started; try again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "sandbox_unreachable", message).retry_soon()
    }

    /// 409: nothing runs in the sandbox until it is resumed.
    pub fn sandbox_paused() -> Self {
        Self::new(StatusCode::CONFLICT, "sandbox_paused", "the sandbox is paused; resume it first")
    }

    /// 500: a fault of hangar's own. What it was goes to the log, not to the client.
    pub fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "hangar failed to answer this; its log says why",
        )
    }

    fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.header = Some((name, value));
        self
    }

    fn retry_soon(self) -> Self {
        self.with_header(RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The code in the answer.
    pub fn code(&self) -> &'static str {
        self.0.code
    }

    /// The field of the request that is at fault.
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// What the client is told, as JSON.
    pub fn json(&self) -> serde_json::Value {
        let Parts { code, message, field, scope, .. } = &*self.0;
        let inner = Inner { code, message, field: field.as_deref(), scope: *scope };
        // Strings only: this cannot fail.
        serde_json::to_value(Envelope { error: inner }).unwrap_or_default()
    }

    /// What is not there, where that is why.
    pub fn missing(&self) -> Option<&'static str> {
        self.0.missing
    }

    /// The answer.
    pub fn response(&self) -> Response<Body> {
        self.response_saying(Bytes::from(self.json().to_string()))
    }

    /// The answer, with another body in JSON.
    pub(crate) fn response_saying(&self, json: Bytes) -> Response<Body> {
        let mut response = Response::new(Body::from(json));
        *response.status_mut() = self.0.status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some((name, value)) = &self.0.header {
            response.headers_mut().insert(name, value.clone());
        }
        response
    }
}

impl From<Exceeded> for ApiError {
    fn from(exceeded: Exceeded) -> Self {
        let mut error = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", exceeded.to_string());
        error.0.scope = Some(exceeded.scope());
        error
    }
}

impl From<TooManyWatches> for ApiError {
    fn from(error: TooManyWatches) -> Self {
        let mut refusal = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_watches", error.to_string());
        refusal.0.scope = Some("token");
        refusal
    }
}

impl From<WatchError> for ApiError {
    fn from(error: WatchError) -> Self {
        let message = error.to_string();
        let path = |code| Self::bad_field("path", code, message.clone());
        match error {
            WatchError::NotFound(_) | WatchError::NotADirectory(_) => path("no_directory"),
            WatchError::Denied(_) => path("denied"),
            WatchError::OutsideRoot(_) => path("outside_root"),
            WatchError::BadPath(_) => path("bad_path"),
            WatchError::Network(_) => path("network"),
            WatchError::TooManyDirectories(_) => path("too_many_directories"),
            WatchError::BadUser(_) => Self::bad_field("user", "bad_user", message),
            WatchError::TooManyWatches | WatchError::TooManyInstances | WatchError::Exhausted(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "exhausted", message).retry_soon()
            }
            WatchError::NeedsDaemon => Self::new(StatusCode::CONFLICT, "unsupported", message),
            WatchError::Paused => Self::new(StatusCode::CONFLICT, "sandbox_paused", message),
            WatchError::Destroyed => Self::new(StatusCode::CONFLICT, "sandbox_destroyed", message),
            WatchError::Broken(_) => Self::new(StatusCode::BAD_GATEWAY, "sandbox_unreachable", message),
        }
    }
}

impl From<StartError> for ApiError {
    fn from(error: StartError) -> Self {
        let message = error.to_string();
        match error {
            StartError::BadCwd(_) => Self::bad_field("cwd", "bad_cwd", message),
            StartError::BadUser(_) | StartError::ForbiddenUser(_) => {
                Self::bad_field("user", "bad_user", message)
            }
            StartError::Unsupported { field, .. } => Self::bad_field(field, "unsupported", message),
            StartError::TooLong { field } => Self::bad_field(field, "too_long", message),
            StartError::Exhausted(Exhausted::Disk) => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "disk_full", message)
            }
            StartError::Exhausted(Exhausted::Descriptors | Exhausted::Processes | Exhausted::Memory) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "exhausted", message).retry_soon()
            }
            StartError::Paused => Self::new(StatusCode::CONFLICT, "sandbox_paused", message),
            StartError::Destroyed => Self::new(StatusCode::CONFLICT, "sandbox_destroyed", message),
            StartError::Broken(_) => Self::new(StatusCode::BAD_GATEWAY, "sandbox_unreachable", message),
        }
    }
}

impl From<SandboxError> for ApiError {
    fn from(error: SandboxError) -> Self {
        let message = error.to_string();
        match error {
            SandboxError::Unsupported(_) => Self::new(StatusCode::CONFLICT, "unsupported", message),
            SandboxError::Left(_) => Self::new(StatusCode::CONFLICT, "processes_left", message),
            SandboxError::Broken(_) => Self::new(StatusCode::BAD_GATEWAY, "sandbox_unreachable", message),
        }
    }
}

impl From<StoreError> for ApiError {
    /// For who asked for nothing that could be taken or missing.
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "something could not be stored");
        match error {
            StoreError::Full => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "disk_full", "the server's disk is full")
            }
            StoreError::Taken | StoreError::NotFound | StoreError::Newer { .. } | StoreError::Broken(_) => {
                Self::internal()
            }
        }
    }
}
