//! The MCP calls of one client, answered by a server: what stands between a program that speaks over lines and one that
//! listens on HTTP.

mod follow;

use super::{Client, ClientError, MAX_EVENT, socket::SILENCE};
use crate::{
    ApiError,
    mcp::{Followed, Handler, Outcome, Reply, RequestContext, Step, Work, plane::METHODS},
    plane::notices::{Notices, Purpose},
};
use follow::RemoteFollowed;
use hangar_backends::{
    Runtime,
    runtime::{BoxFuture, Deadline, until},
};
use hangar_core::{
    Time,
    wire::{
        mcp::{
            REVISION,
            listen::Topic,
            message::{Id, RpcError, code},
            request::{Call, Offers},
            response::Progress,
            session::Position,
        },
        sse::Decoder,
    },
};
use http_body_util::{BodyExt, Limited};
use hyper::{
    Method, Response,
    body::{Body, Incoming},
    header::{ACCEPT, CONTENT_TYPE, HeaderValue},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

/// A server that answers in one piece may take this long: as a sandbox that is destroyed does.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answers calls by asking a server.
#[derive(Clone)]
pub struct RemoteHandler {
    client: Client,
}

/// A request, as it is sent on: with the client's own id and token.
#[derive(Serialize)]
struct Forwarded<'a> {
    jsonrpc: &'static str,
    id: &'a Id,
    method: &'a str,
    params: &'a RawValue,
}

/// A message of the server.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Option<Value>,
    #[serde(default)]
    result: Option<Map<String, Value>>,
    #[serde(default)]
    error: Option<RpcError>,
}

impl RemoteHandler {
    /// Asks the server of `client`.
    pub const fn new(client: Client) -> Self {
        Self { client }
    }

    async fn ask(&self, call: &Call) -> Result<Reply, ClientError> {
        let params = call.newest_params();
        let forwarded = Forwarded { jsonrpc: "2.0", id: &call.id, method: &call.method, params: &params };
        let body =
            serde_json::to_vec(&forwarded).map_err(|error| ClientError::Unexpected(error.to_string()))?;
        let mut request = self
            .client
            .request(Method::POST, "/mcp")?
            .header(ACCEPT, "application/json, text/event-stream")
            .header("mcp-protocol-version", REVISION)
            .header("mcp-method", &call.method);
        if let Some(name) = call.mcp_name() {
            request = request.header("mcp-name", name);
        }
        let runtime = Arc::clone(&self.client.runtime);
        let patience = runtime.now() + PATIENCE;
        let answered = until(&*runtime, patience, self.client.send(request, Some(body))).await;
        let response = answered.unwrap_or_else(|| Err(silent()))?;
        if is_events(&response) {
            return Ok(Reply::Later(Box::new(RemoteAnswer::new(&self.client, response.into_body()))));
        }
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_EVENT).collect();
        let body = until(&*runtime, patience, body).await.ok_or_else(silent)?;
        let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let not_hangar =
            || ClientError::Unexpected(format!("{status} without a message; is it a hangar server?"));
        let message: Message = serde_json::from_slice(&body).map_err(|_| not_hangar())?;
        message.outcome().map(Reply::Now).ok_or_else(not_hangar)
    }
}

fn is_events(response: &Response<Incoming>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    kind.to_ascii_lowercase().starts_with(b"text/event-stream")
}

impl Message {
    fn outcome(self) -> Option<Outcome> {
        self.result.map(Ok).or_else(|| self.error.map(Err))
    }
}

impl Handler for RemoteHandler {
    fn offers(&self) -> Offers<'_> {
        Offers { methods: METHODS }
    }

    fn call<'a>(&'a self, _context: RequestContext, call: &'a Call) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            match self.ask(call).await {
                Ok(reply) => reply,
                Err(error) => Reply::Now(Err(failed(&error))),
            }
        })
    }

    /// Asks the server to tell of it.
    fn follow<'a>(
        &'a self,
        _context: &'a RequestContext,
        topic: &'a Topic,
        since: Option<Position>,
    ) -> BoxFuture<'a, Result<Box<dyn Followed>, RpcError>> {
        Box::pin(async move {
            let followed = RemoteFollowed::new(self.clone(), topic.clone(), since.is_some()).await?;
            Ok(Box::new(followed) as Box<dyn Followed>)
        })
    }

    /// The server counts what it tells.
    fn open(&self, _context: &RequestContext, _purpose: Purpose) -> Result<Option<Notices>, ApiError> {
        Ok(None)
    }
}

fn failed(error: &ClientError) -> RpcError {
    RpcError::new(code::INTERNAL, error.to_string())
}

/// An answer that comes. Dropped, it is a call that was cancelled: its connection ends.
struct RemoteAnswer {
    body: Incoming,
    decoder: Decoder,
    runtime: Arc<dyn Runtime>,
    heard: Time,
    deadline: Deadline,
}

impl RemoteAnswer {
    fn new(client: &Client, body: Incoming) -> Self {
        let runtime = Arc::clone(&client.runtime);
        let heard = runtime.now();
        Self { body, decoder: Decoder::new(MAX_EVENT), runtime, heard, deadline: Deadline::default() }
    }

    /// The next step, or why there is none.
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<Step, ClientError>> {
        loop {
            while let Some(event) = self.decoder.next_event() {
                let message: Message = serde_json::from_str(&event.data)
                    .map_err(|error| ClientError::Unexpected(error.to_string()))?;
                if let Some(step) = step(message) {
                    return Poll::Ready(Ok(step));
                }
            }
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
                // A server that is there writes a comment every 15 s.
                ready!(self.deadline.poll(&*self.runtime, Some(self.heard + SILENCE), cx));
                return Poll::Ready(Err(silent()));
            };
            self.heard = self.runtime.now();
            if let Ok(data) = frame.ok_or(ClientError::CutShort)??.into_data() {
                self.decoder.push(&data)?;
            }
        }
    }
}

fn silent() -> ClientError {
    ClientError::Lost(io::Error::new(io::ErrorKind::TimedOut, "the server is silent"))
}

impl Work for RemoteAnswer {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        self.poll_step(cx).map(|step| step.unwrap_or_else(|error| Step::Done(Err(failed(&error)))))
    }

    fn beats(&self) -> bool {
        false
    }
}

/// What a message says; None for one that this client does not know.
fn step(message: Message) -> Option<Step> {
    let Some(method) = message.method else { return message.outcome().map(Step::Done) };
    let params = message.params?;
    if method != "notifications/progress" {
        return Some(Step::Notification { method: method.into(), params });
    }
    let message = params["message"].as_str().map(str::to_owned);
    Some(Step::Progress(Progress {
        progress: params["progress"].as_f64()?,
        total: params["total"].as_f64(),
        message,
    }))
}
