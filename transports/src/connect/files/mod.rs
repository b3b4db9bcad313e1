//! `/files`: whole files over plain HTTP.
//!
//! A request may carry the daemon's token, or a signature: a hash of what it asks for and the token, which whoever has the
//! token can give to somebody who must not have it.

mod incoming;
mod read;
mod signature;
mod upload;

use super::{Body, Daemon, answer, fence, head, messages};
use crate::http::Connection;
use hangar_backends::local::{User, files::FileError};
use hangar_core::wire::connect::{Code, RpcError};
use hyper::{Method, Request, Response, StatusCode, body::Incoming};
use serde::Deserialize;
use signature::{Operation, Signed};
use std::{borrow::Cow, sync::Arc};

pub(super) use read::FileBody;

/// What is wrong, and the status that says so.
pub(super) struct Refusal {
    status: StatusCode,
    message: Cow<'static, str>,
}

impl Refusal {
    fn new(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, message: message.into() }
    }

    fn bad(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    fn response(&self) -> Response<Body> {
        answer::refused(self.status, &self.message)
    }
}

impl From<RpcError> for Refusal {
    fn from(error: RpcError) -> Self {
        let status =
            StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self::new(status, error.message)
    }
}

impl From<FileError> for Refusal {
    fn from(error: FileError) -> Self {
        let status = match &error {
            FileError::NotFound(_) => StatusCode::NOT_FOUND,
            FileError::Denied(_)
            | FileError::ReadOnly(_)
            | FileError::OutsideRoot(_)
            | FileError::User(_) => StatusCode::FORBIDDEN,
            FileError::Busy(_) | FileError::NothingToRead(_) => StatusCode::CONFLICT,
            FileError::NoSpace(_) => StatusCode::INSUFFICIENT_STORAGE,
            FileError::Io(_) => StatusCode::INTERNAL_SERVER_ERROR,
            FileError::NotADirectory(_)
            | FileError::IsADirectory(_)
            | FileError::Exists(_)
            | FileError::Loop(_)
            | FileError::NotRegular(_)
            | FileError::TooMany { .. }
            | FileError::TooLarge { .. }
            | FileError::TooLong(_)
            | FileError::CrossDevice(_)
            | FileError::IntoItself(_)
            | FileError::Home(_)
            | FileError::MetadataUnsupported(_)
            | FileError::MetadataTooLong(_) => StatusCode::BAD_REQUEST,
        };
        Self::new(status, error.to_string())
    }
}

/// What stands behind the `?`.
#[derive(Debug, Default)]
pub(super) struct Parameters {
    path: Option<String>,
    username: Option<String>,
    signature: Option<String>,
    signature_expiration: Option<String>,
}

impl Parameters {
    fn of(query: Option<&str>) -> Result<Self, Refusal> {
        let mut parameters = Self::default();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let field = match &*name {
                "path" => &mut parameters.path,
                "username" => &mut parameters.username,
                "signature" => &mut parameters.signature,
                "signature_expiration" => &mut parameters.signature_expiration,
                // Clients and proxies add their own.
                _ => continue,
            };
            if field.replace(value.into_owned()).is_some() {
                return Err(Refusal::bad(format!("{name}: it is there twice")));
            }
        }
        Ok(parameters)
    }

    /// The path, where one has to be.
    fn path(&self) -> Result<&str, Refusal> {
        self.path.as_deref().filter(|path| !path.is_empty()).ok_or_else(|| Refusal::bad("path: must be set"))
    }

    /// Whom the request names: in the query, or by `Authorization` as calls do; that is not signed, and counts for nothing
    /// where a signature is all that there is.
    fn user<B>(&self, request: &Request<B>, by: Allowed) -> Result<Option<String>, Refusal> {
        match (self.username.clone().filter(|name| !name.is_empty()), by) {
            (Some(name), _) => Ok(Some(name)),
            (None, Allowed::Signed) => Ok(None),
            (None, Allowed::All) => Ok(head::user(request.headers())?),
        }
    }
}

/// Answers a request for `/files`.
pub(super) async fn files(
    daemon: &Arc<Daemon>,
    connection: &Arc<Connection>,
    request: &mut Request<Incoming>,
) -> Response<Body> {
    let answered = async {
        let parameters = Parameters::of(request.uri().query())?;
        let operation = match *request.method() {
            Method::GET | Method::HEAD => Operation::Read,
            Method::POST => Operation::Write,
            _ => return Ok(answer::not_allowed("GET, HEAD, POST")),
        };
        let by = check_signed(daemon, request, operation, &parameters)?;
        let user = daemon.acting(parameters.user(request, by)?.as_deref())?;
        match operation {
            Operation::Read => read::read(daemon, connection, request, user, parameters.path()?).await,
            Operation::Write => upload::upload(daemon, request, user, &parameters).await,
        }
    };
    answered.await.unwrap_or_else(|refusal: Refusal| refusal.response())
}

/// What whoever asks may do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Allowed {
    /// Everything.
    All,
    /// What is signed.
    Signed,
}

/// Lets pass who carries the token, or a signature by it; everybody where there is none.
fn check_signed<B>(
    daemon: &Daemon,
    request: &Request<B>,
    operation: Operation,
    parameters: &Parameters,
) -> Result<Allowed, Refusal> {
    let Some(token) = daemon.settings().token.clone() else { return Ok(Allowed::All) };
    if fence::carries(request, &token) {
        return Ok(Allowed::All);
    }
    let signed = Signed {
        operation,
        path: parameters.path.as_deref().unwrap_or_default(),
        user: parameters.username.as_deref().unwrap_or_default(),
        expiration: parameters.signature_expiration.as_deref(),
    };
    let now = daemon.runtime.wall_ms() / 1000;
    let checked = signed.check(parameters.signature.as_deref(), token.secret(), now);
    let refused = |why| Refusal::new(StatusCode::UNAUTHORIZED, format!("signature: {why}"));
    checked.map(|()| Allowed::Signed).map_err(refused)
}

/// The most files that one is made of.
const MAX_SOURCES: usize = 10_000;

/// The longest body of `/files/compose`: so many paths fit.
const MAX_COMPOSE: u32 = 4 * 1024 * 1024;

/// What `/files/compose` takes.
#[derive(Deserialize)]
struct Compose {
    source_paths: Vec<String>,
    destination: String,
    username: Option<String>,
}

/// A body that is too long is refused as one that is too long for a list of paths; everything else as it is.
fn bad_body(error: RpcError) -> Refusal {
    if error.code == Code::ResourceExhausted {
        return Refusal::bad(format!("the body: {}", error.message));
    }
    error.into()
}

/// Makes one file of several, which are removed. Needs the token, where there is one.
pub(super) async fn compose(daemon: &Arc<Daemon>, request: &mut Request<Incoming>) -> Response<Body> {
    let composed = async {
        let named = head::user(request.headers())?;
        let body = messages::whole_within(daemon, request.body_mut(), MAX_COMPOSE).await.map_err(bad_body)?;
        let asked: Compose = messages::object(&body).map_err(Refusal::bad)?;
        if asked.source_paths.is_empty() {
            return Err(Refusal::bad("source_paths: must not be empty"));
        }
        if asked.source_paths.len() > MAX_SOURCES {
            return Err(Refusal::bad(format!("source_paths: at most {MAX_SOURCES} are taken")));
        }
        let user: User =
            daemon.acting(asked.username.filter(|name| !name.is_empty()).or(named).as_deref())?;
        let path = |field, path: &str| daemon.path(field, path, &user);
        let sources = asked
            .source_paths
            .iter()
            .map(|source| path("source_paths", source))
            .collect::<Result<Vec<_>, _>>()?;
        let destination = path("destination", &asked.destination)?;
        let entry = daemon.with_files(move |files| files.compose(&user, &sources, &destination)).await?;
        Ok(answer::json(&upload::Written::of(&entry)))
    };
    composed.await.unwrap_or_else(|refusal: Refusal| refusal.response())
}
