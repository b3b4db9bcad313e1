//! Requests to calls of the plane, and their answers.
//!
//! In this order: the host and the origin, the path, the method, the token and its scope, the content type, the
//! body, its fields. Each refusal says what is wrong, and nothing was done.

mod exec;
mod guard;
mod mcp;
mod oauth;
mod processes;
mod request;
mod routes;
mod sandboxes;
mod socket;
mod tokens;
mod watches;

use crate::{
    ApiError, Plane,
    body::Body,
    http::{self, Connection},
    mcp::{Handler, plane::PlaneHandler, session::table::Sessions},
    metrics,
    query::{Query, cursor},
};
use bytes::Bytes;
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue},
};
use routes::{Endpoint, Found, Routes};
use serde::Serialize;
use std::{sync::Arc, time::Duration};

use crate::plane::tokens::{Caller, Scope};
pub use guard::{BadOrigin, Guard};
pub use oauth::{BadUrl, ProtectedResource};

/// The paths, their requests and their answers, as OpenAPI 3.1. A test holds it against the routes.
const OPENAPI: &str = include_str!("openapi.json");

/// Answers requests for one plane.
pub struct Service {
    plane: Arc<Plane>,
    guard: Guard,
    routes: Routes,
    mcp: mcp::Endpoint,
    oauth: Option<ProtectedResource>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("guard", &self.guard).finish_non_exhaustive()
    }
}

/// One request on its way to its endpoint.
struct Call<'a> {
    plane: &'a Arc<Plane>,
    connection: Arc<Connection>,
    guard: &'a Guard,
    request: &'a mut Request<Incoming>,
    /// The `{ref}` of the path.
    reference: String,
    /// The `{process}` of the path.
    process: String,
}

impl Service {
    /// The interface of a plane: REST, and its own tools over MCP.
    pub fn new(plane: Arc<Plane>, guard: Guard) -> Self {
        let mcp = Arc::new(PlaneHandler::new(Arc::clone(&plane)));
        Self::with_mcp(plane, guard, mcp)
    }

    /// The same with something else behind `/mcp`.
    pub fn with_mcp(plane: Arc<Plane>, guard: Guard, mcp: Arc<dyn Handler>) -> Self {
        let mcp = mcp::Endpoint::new(&plane, mcp);
        Self { plane, guard, routes: Routes::new(), mcp, oauth: None }
    }

    /// The same, telling clients of MCP where they get their tokens.
    #[must_use]
    pub fn with_oauth(self, resource: ProtectedResource) -> Self {
        Self { oauth: Some(resource), ..self }
    }

    /// The sessions of clients of MCP that have one.
    pub const fn mcp_sessions(&self) -> &Arc<Sessions> {
        self.mcp.sessions()
    }

    /// The plane it is the interface of.
    pub const fn plane(&self) -> &Arc<Plane> {
        &self.plane
    }

    /// Answers a request; its body may be left unread.
    async fn answer_unread(
        &self,
        request: &mut Request<Incoming>,
        connection: Arc<Connection>,
    ) -> Response<Body> {
        // A client of MCP looks for a JSON-RPC error, whatever the status.
        let is_mcp = request.uri().path() == mcp::PATH;
        let refused = |error: &ApiError| if is_mcp { mcp::refused(error, None) } else { error.response() };
        let origin = match self.guard.check(request) {
            Ok(origin) => origin,
            Err(error) => return refused(&error),
        };
        let mut response = match Guard::preflight(request) {
            Some(preflight) => preflight,
            None => match self.route(request, connection).await {
                Ok(response) => response,
                Err(error) => refused(&error),
            },
        };
        if let Some(oauth) = self.oauth.as_ref().filter(|_| request.uri().path() == mcp::PATH) {
            oauth.challenge(&mut response);
        }
        if let Some(origin) = origin {
            Guard::allow(&mut response, origin);
        }
        response
    }

    async fn route(
        &self,
        request: &mut Request<Incoming>,
        connection: Arc<Connection>,
    ) -> Result<Response<Body>, ApiError> {
        let Found { endpoint, reference, process } =
            self.routes.find(request.uri().path(), request.method())?;
        if self.plane.is_shutting_down() && endpoint.begins_something() {
            return Err(ApiError::shutting_down());
        }
        let (plane, guard) = (&self.plane, &self.guard);
        let call = Call { plane, connection, guard, request, reference, process };
        match endpoint {
            Endpoint::Health => Ok(self.health()),
            Endpoint::Metrics => {
                call.caller(&[Scope::Metrics, Scope::Admin])?;
                Ok(text(metrics::CONTENT_TYPE, self.plane.metrics().text()))
            }
            Endpoint::Mcp => Ok(self.mcp.answer(call).await),
            Endpoint::ProtectedResource => {
                self.oauth.as_ref().ok_or_else(|| ApiError::not_found("path"))?.document()
            }
            Endpoint::OpenApi => Ok(text("application/json", OPENAPI.to_owned())),
            Endpoint::ListSandboxes => sandboxes::list(&call),
            Endpoint::CreateSandbox => sandboxes::create(call).await,
            Endpoint::ShowSandbox => sandboxes::show(&call),
            Endpoint::DestroySandbox => sandboxes::destroy(&call).await,
            Endpoint::PauseSandbox => sandboxes::pause(call).await,
            Endpoint::ResumeSandbox => sandboxes::resume(call).await,
            Endpoint::Exec => exec::to_end(call).await,
            Endpoint::ExecStream => exec::stream(call).await,
            Endpoint::Watch => watches::watch(&call).await,
            Endpoint::ListProcesses => processes::list(&call),
            Endpoint::StartProcess => processes::start(call).await,
            Endpoint::ShowProcess => processes::show(call).await,
            Endpoint::StopProcess => processes::stop(&call),
            Endpoint::ProcessStream => processes::stream(&call).await,
            Endpoint::ProcessInput => processes::input(call).await,
            Endpoint::ListProcessesV1 => processes::list_v1(&call),
            Endpoint::StartProcessV1 => processes::start_v1(call).await,
            Endpoint::ShowProcessV1 => processes::show_v1(&call),
            Endpoint::StopProcessV1 => processes::stop_v1(&call),
            Endpoint::SignalProcess => processes::signal(call).await,
            Endpoint::ResizeProcess => processes::resize(call).await,
            Endpoint::RestartProcess => processes::restart(call).await,
            Endpoint::StreamAccess => processes::stream_access(call).await,
            Endpoint::ProcessSocket => socket::open(&call).await,
            Endpoint::ListTokens => tokens::list(&call),
            Endpoint::CreateToken => tokens::create(call).await,
            Endpoint::RevokeToken => tokens::revoke(&call).await,
        }
    }

    /// For probes: no token, and any host, as a probe names the machine as it likes.
    fn health(&self) -> Response<Body> {
        if self.plane.is_shutting_down() {
            return ApiError::shutting_down().response();
        }
        text("application/json", "{\"status\":\"ok\"}".to_owned())
    }
}

impl http::Service for Service {
    type Body = Body;

    const IDLE: Duration = Duration::from_secs(30);

    /// Its streams look themselves, and its other answers are short.
    const UNTAKEN: Option<Duration> = None;

    async fn answer(&self, mut request: Request<Incoming>, connection: Arc<Connection>) -> Response<Body> {
        let response = self.answer_unread(&mut request, connection).await;
        request::drop_rest(&**self.plane.runtime(), &mut request, response.status()).await;
        response
    }
}

impl Call<'_> {
    /// Who calls, if their token's scope is one of these.
    fn caller(&self, scopes: &[Scope]) -> Result<Caller, ApiError> {
        let header = self.request.headers().get(AUTHORIZATION);
        let header =
            header.ok_or_else(|| ApiError::unauthorized("this needs `Authorization: Bearer TOKEN`"))?;
        let secret = header
            .to_str()
            .ok()
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, secret)| secret.trim())
            .ok_or_else(|| ApiError::unauthorized("the Authorization header must be `Bearer TOKEN`"))?;
        let caller = self.plane.authenticate(secret)?;
        if scopes.contains(&caller.scope()) {
            return Ok(caller);
        }
        Err(ApiError::forbidden("the scope of this token does not reach this"))
    }

    /// The cursor of a stream of events: a browser that comes back sends it as `Last-Event-ID`, which counts more than
    /// what the URL was made with.
    fn event_cursor(&self, query: &Query<'_>) -> Result<Option<u64>, ApiError> {
        let mut ids = self.request.headers().get_all("last-event-id").iter();
        match (ids.next(), ids.next()) {
            (None, _) => query.cursor("since"),
            (Some(id), None) => cursor("Last-Event-ID", id.to_str().unwrap_or_default()).map(Some),
            (Some(_), Some(_)) => cursor("Last-Event-ID", "").map(Some),
        }
    }
}

/// An answer in JSON.
fn json(status: StatusCode, value: &impl Serialize) -> Result<Response<Body>, ApiError> {
    let json = serde_json::to_vec(value).map_err(|error| {
        tracing::error!(%error, "an answer could not be written as JSON");
        ApiError::internal()
    })?;
    let mut response = Response::new(Body::from(Bytes::from(json)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// An answer that is a stream of events.
fn events(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // nginx and its like would gather the stream into large pieces.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

fn text(content_type: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from(text)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// 204: done, and there is nothing to say.
fn done() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
