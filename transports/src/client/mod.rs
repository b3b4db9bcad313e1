//! The other side: what the command line uses to call a server.

mod mcp;
mod processes;
mod socket;
mod watch;

use bytes::Bytes;
use hangar_backends::{
    Runtime,
    net::{
        client::{connect, handshake},
        url::segment,
    },
};
use hangar_core::{
    exec::ExecResult,
    log::Channel,
    wire::sse::{Decoder, Event, TooLong},
};
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue},
    http::request,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, io, sync::Arc};

pub use hangar_backends::net::url::{BadUrl, Url};
pub use mcp::RemoteHandler;
pub use processes::{Access, LogPage, StartRequest};
pub use socket::{Begin, ProcessSocket, SocketEvent};
pub use watch::{RemoteWatch, WatchEvent, WatchRequest};

/// The longest event that is taken: a result with two full tails, every byte of them escaped.
const MAX_EVENT: usize = 8 * 1024 * 1024;

/// The longest answer to a refused request that is read.
const MAX_REFUSAL: usize = 64 * 1024;

/// A server, and the token that is shown to it.
#[derive(Clone)]
pub struct Client {
    runtime: Arc<dyn Runtime>,
    url: Url,
    token: String,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The token cannot be sent.
    #[error("HANGAR_TOKEN holds characters that no token has")]
    BadToken,
    /// The server could not be reached.
    #[error("{url} cannot be reached: {error}")]
    Unreachable {
        /// The server.
        url: String,
        /// What the system says.
        error: io::Error,
    },
    /// The connection broke. What became of what was asked for is not known.
    #[error("the connection broke: {0}")]
    Broken(#[from] hyper::Error),
    /// The connection of a WebSocket broke, or went silent.
    #[error("the connection broke: {0}")]
    Lost(io::Error),
    /// The server refused.
    #[error("{message} ({status}, {code})")]
    Refused {
        /// The status of the answer.
        status: StatusCode,
        /// The code in it.
        code: String,
        /// The message in it.
        message: String,
    },
    /// The server answered with something else than it should.
    #[error("this is not how hangar answers: {0}")]
    Unexpected(String),
    /// The stream ended before its result came: how the command ended is not known.
    #[error("the stream ended without a result: how it ended is not known")]
    CutShort,
}

impl From<TooLong> for ClientError {
    fn from(error: TooLong) -> Self {
        Self::Unexpected(error.to_string())
    }
}

/// A command for a server to run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ExecRequest {
    /// A line for the shell.
    pub command: String,
    /// Where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables beyond those of the sandbox.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// As whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
}

/// The stream of a command that runs on a server.
#[derive(Debug)]
pub struct RemoteExec {
    body: Incoming,
    decoder: Decoder,
}

/// A piece of output, or the end.
#[derive(Debug)]
pub enum RemoteEvent {
    /// Output: exactly what was printed.
    Output {
        /// Where.
        channel: Channel,
        /// What.
        bytes: Vec<u8>,
    },
    /// The result: nothing follows. Its `stdout` and `stderr` are base64.
    Result(Box<ExecResult>),
}

#[derive(Serialize)]
struct Encoded<'a> {
    #[serde(flatten)]
    request: &'a ExecRequest,
    encoding: &'static str,
}

#[derive(Deserialize)]
struct Refusal {
    error: RefusalInner,
}

#[derive(Deserialize)]
struct RefusalInner {
    code: String,
    message: String,
}

#[derive(Deserialize)]
struct Piece {
    base64: String,
}

impl Client {
    /// A client of the server at `url`.
    pub fn new(runtime: Arc<dyn Runtime>, url: Url, token: String) -> Self {
        Self { runtime, url, token }
    }

    /// Runs a command and follows it. Dropped before its result, the command is killed.
    pub async fn exec(&self, sandbox: &str, request: &ExecRequest) -> Result<RemoteExec, ClientError> {
        let body = serde_json::to_vec(&Encoded { request, encoding: "base64" })
            .map_err(|error| ClientError::Unexpected(error.to_string()))?;
        let path = format!("/api/sandboxes/{}/exec/stream", segment(sandbox));
        let response = self.post(&path, body).await?;
        if response.status() != StatusCode::OK {
            return Err(refusal(response).await?);
        }
        Ok(RemoteExec { body: response.into_body(), decoder: Decoder::new(MAX_EVENT) })
    }

    async fn post(&self, path: &str, body: Vec<u8>) -> Result<Response<Incoming>, ClientError> {
        let request = self.request(Method::POST, path)?.header(ACCEPT, "text/event-stream");
        self.send(request, Some(body)).await
    }

    /// A request of this server that shows the token.
    fn request(&self, method: Method, path: &str) -> Result<request::Builder, ClientError> {
        let bearer = HeaderValue::from_str(&format!("Bearer {}", self.token));
        let mut bearer = bearer.map_err(|_| ClientError::BadToken)?;
        bearer.set_sensitive(true);
        Ok(self.bare_request(method, path).header(AUTHORIZATION, bearer))
    }

    fn bare_request(&self, method: Method, path: &str) -> request::Builder {
        let uri = format!("{}{path}", self.url.path());
        Request::builder().method(method).uri(uri).header(HOST, self.url.authority())
    }

    /// Sends it on a connection of its own, with a body of JSON if there is one.
    async fn send(
        &self,
        mut request: request::Builder,
        body: Option<Vec<u8>>,
    ) -> Result<Response<Incoming>, ClientError> {
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|error| ClientError::Unexpected(error.to_string()))?;
        let unreachable = |error| ClientError::Unreachable { url: self.url.to_string(), error };
        let io = connect(&*self.runtime, &self.url).await.map_err(unreachable)?;
        let mut sender = handshake(&self.runtime, io).await?;
        Ok(sender.send_request(request).await?)
    }
}

async fn refusal(response: Response<Incoming>) -> Result<ClientError, ClientError> {
    let status = response.status();
    let body = http_body_util::Limited::new(response.into_body(), MAX_REFUSAL).collect().await;
    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    Ok(match serde_json::from_slice::<Refusal>(&body) {
        Ok(Refusal { error: RefusalInner { code, message } }) => {
            ClientError::Refused { status, code, message }
        }
        Err(_) => {
            ClientError::Unexpected(format!("{status} without an error in JSON; is it a hangar server?"))
        }
    })
}

impl RemoteExec {
    /// The next piece of output, or the result.
    pub async fn next(&mut self) -> Result<RemoteEvent, ClientError> {
        loop {
            while let Some(event) = self.decoder.next_event() {
                if let Some(event) = typed(&event)? {
                    return Ok(event);
                }
            }
            let frame = self.body.frame().await.ok_or(ClientError::CutShort)??;
            if let Ok(data) = frame.into_data() {
                self.decoder.push(&data)?;
            }
        }
    }
}

/// What an event says; None for one that this client does not know.
fn typed(event: &Event) -> Result<Option<RemoteEvent>, ClientError> {
    use base64::prelude::{BASE64_STANDARD, Engine};
    let unexpected = |error: &dyn std::fmt::Display| ClientError::Unexpected(error.to_string());
    let channel = match event.name.as_str() {
        "result" => {
            let result = serde_json::from_str(&event.data).map_err(|error| unexpected(&error))?;
            return Ok(Some(RemoteEvent::Result(result)));
        }
        "stdout" => Channel::Stdout,
        "stderr" => Channel::Stderr,
        _ => return Ok(None),
    };
    let piece: Piece = serde_json::from_str(&event.data).map_err(|error| unexpected(&error))?;
    let bytes = BASE64_STANDARD.decode(piece.base64).map_err(|error| unexpected(&error))?;
    Ok(Some(RemoteEvent::Output { channel, bytes }))
}
