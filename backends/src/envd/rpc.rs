//! Calls to a daemon: each message in protobuf, each stream on a connection of its own.

use super::stream::MessageStream;
use crate::{
    Runtime,
    net::{
        client::{connect, handshake},
        url::Url,
    },
    runtime::until,
};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::{Bytes, BytesMut};
use hangar_core::wire::{
    connect::{
        Codec, Kind, RpcError, envelope,
        head::{KEEP_ALIVE, PROTOCOL_VERSION, TIMEOUT, content_type},
    },
    envd::{Message, decode, encode},
};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    client::conn::http1::SendRequest,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue},
    http::request::Builder,
};
use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// A call has its answer within this, and a stream its first bytes.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a silent stream is to give a sign of life.
const PING: Duration = Duration::from_secs(20);

/// The longest answer that is read.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// How many connections may break before a request is on its way.
const TRIES: u32 = 3;

/// Connections that are kept for the next calls.
const MAX_IDLE: usize = 4;

const ACCESS_TOKEN: HeaderName = HeaderName::from_static("x-access-token");

type Sender = SendRequest<Full<Bytes>>;

/// A daemon, and how it is called.
pub(super) struct Rpc {
    runtime: Arc<dyn Runtime>,
    url: Url,
    token: Option<HeaderValue>,
    idle: Mutex<Vec<Sender>>,
}

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// Nothing was asked.
    #[error("it cannot be reached: {0}")]
    Unreachable(io::Error),
    /// It was asked, and may have done it.
    #[error("the connection to it broke: {0}")]
    Broken(String),
    /// It answered that it did not.
    #[error(transparent)]
    Refused(#[from] RpcError),
}

impl From<hyper::Error> for CallError {
    fn from(error: hyper::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

/// What the headers of a call say beside its message.
#[derive(Clone, Debug, Default)]
pub(super) struct Head<'a> {
    /// As whom; the daemon's default without it.
    pub(super) user: Option<&'a str>,
    /// For how long; on a start, the life of the process.
    pub(super) timeout: Option<Duration>,
    /// `Hangar-Retention: until-read`.
    pub(super) until_read: bool,
    /// `Hangar-Retention: until-acknowledged`, and of how many bytes.
    pub(super) until_acknowledged: Option<u64>,
    /// `Hangar-Log`.
    pub(super) log: Option<u64>,
    /// `Hangar-Since`.
    pub(super) since: Option<u64>,
    /// `Hangar-Watch`.
    pub(super) watch: bool,
}

impl Head<'_> {
    fn add(&self, mut request: Builder) -> Builder {
        if let Some(user) = self.user {
            let credentials = BASE64_STANDARD.encode(format!("{user}:"));
            request = request.header(AUTHORIZATION, format!("Basic {credentials}"));
        }
        if let Some(timeout) = self.timeout {
            // 0 would be over at once, and there are ten digits.
            request = request.header(TIMEOUT, timeout.as_millis().clamp(1, 9_999_999_999).to_string());
        }
        if self.until_read {
            request = request.header("hangar-retention", "until-read");
        }
        if let Some(bytes) = self.until_acknowledged {
            request = request.header("hangar-retention", format!("until-acknowledged={bytes}"));
        }
        if self.watch {
            request = request.header("hangar-watch", "1");
        }
        for (name, value) in [("hangar-log", self.log), ("hangar-since", self.since)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        request
    }
}

impl Rpc {
    pub(super) fn new(runtime: Arc<dyn Runtime>, url: Url, token: Option<HeaderValue>) -> Self {
        let token = token.map(|mut token| {
            token.set_sensitive(true);
            token
        });
        Self { runtime, url, token, idle: Mutex::default() }
    }

    /// Calls a method of one answer: `process.Process/SendSignal`.
    pub(super) async fn call<Q: Message, A: Message>(
        &self,
        method: &str,
        head: &Head<'_>,
        message: &Q,
    ) -> Result<A, CallError> {
        let mut body = BytesMut::new();
        encode(Codec::Proto, message, &mut body);
        let request = head.add(self.request(Method::POST, &format!("/{method}")));
        let request = with_body(request, Kind::Unary, body.freeze())?;
        let (status, body) = self.answer(request).await?;
        match status {
            StatusCode::OK => Ok(decode(Codec::Proto, &body)?),
            status => Err(refusal(status, &body)),
        }
    }

    /// Opens a stream. It is closed when it is dropped.
    pub(super) async fn open<Q: Message, A: Message>(
        &self,
        method: &str,
        head: &Head<'_>,
        message: &Q,
    ) -> Result<MessageStream<A>, CallError> {
        let mut body = BytesMut::new();
        envelope::write(0, &mut body, |out| encode(Codec::Proto, message, out));
        let request = head.add(self.request(Method::POST, &format!("/{method}")));
        let request = request.header(KEEP_ALIVE, PING.as_secs());
        let request = with_body(request, Kind::Stream, body.freeze())?;
        self.within(async {
            let (response, _) = self.send_anew(request).await?;
            let status = response.status();
            if status == StatusCode::OK {
                return Ok(MessageStream::new(response.into_body()));
            }
            Err(refusal(status, &whole(response).await?))
        })
        .await
    }

    /// Whether it is there, and what it can do beyond E2B's; None of one that is not hangar's own.
    pub(super) async fn extensions(&self) -> Result<Option<Vec<String>>, CallError> {
        let request = self.request(Method::GET, "/health").body(Full::default()).map_err(unsendable)?;
        self.within(async {
            let (response, sender) = self.send(request).await?;
            let (status, extensions) =
                (response.status(), response.headers().get("hangar-envd").map(extensions));
            let body = whole(response).await?;
            if !status.is_success() {
                return Err(refusal(status, &body));
            }
            self.keep(sender);
            Ok(extensions)
        })
        .await
    }

    fn request(&self, method: Method, path: &str) -> Builder {
        let uri = format!("{}{path}", self.url.path());
        let mut request = Request::builder().method(method).uri(uri).header(HOST, self.url.authority());
        if let Some(token) = &self.token {
            request = request.header(ACCESS_TOKEN, token);
        }
        request
    }

    async fn answer(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), CallError> {
        self.within(async {
            let (response, sender) = self.send(request).await?;
            let status = response.status();
            let body = whole(response).await?;
            self.keep(sender);
            Ok((status, body))
        })
        .await
    }

    /// Sends a request on a connection that is there, or on a new one. What went out is not sent again.
    async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Sender), CallError> {
        while let Some(mut sender) = self.take_idle() {
            if sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, sender)),
                Err(error) => request = unsent(error)?,
            }
        }
        self.send_anew(request).await
    }

    /// The same on a new connection.
    async fn send_anew(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Sender), CallError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let io = connect(&*self.runtime, &self.url).await.map_err(CallError::Unreachable)?;
            let mut sender: Sender = handshake(&self.runtime, io).await?;
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, sender)),
                Err(error) => request = unsent(error)?,
            }
            if tries == TRIES {
                let why = "connections to it break before anything is sent";
                return Err(CallError::Unreachable(io::Error::new(io::ErrorKind::ConnectionReset, why)));
            }
        }
    }

    fn keep(&self, sender: Sender) {
        let mut idle = self.idle();
        if idle.len() < MAX_IDLE {
            idle.push(sender);
        }
    }

    fn take_idle(&self) -> Option<Sender> {
        self.idle().pop()
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Sender>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn within<T>(&self, work: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
        let answer = until(&*self.runtime, self.runtime.now() + CALL_TIMEOUT, work).await;
        answer.unwrap_or_else(|| {
            Err(CallError::Broken(format!("there was no answer within {} s", CALL_TIMEOUT.as_secs())))
        })
    }
}

/// The request, where nothing of it was sent.
fn unsent(
    mut error: hyper::client::conn::TrySendError<Request<Full<Bytes>>>,
) -> Result<Request<Full<Bytes>>, CallError> {
    error.take_message().ok_or_else(|| error.into_error().into())
}

/// The names in `Hangar-Envd: 1; log, since`.
fn extensions(header: &HeaderValue) -> Vec<String> {
    let text = header.to_str().unwrap_or_default();
    let names = text.split_once(';').map_or("", |(_, names)| names);
    names.split(',').map(|name| name.trim().to_owned()).collect()
}

fn with_body(request: Builder, kind: Kind, body: Bytes) -> Result<Request<Full<Bytes>>, CallError> {
    let request =
        request.header(CONTENT_TYPE, content_type(kind, Codec::Proto)).header(PROTOCOL_VERSION, "1");
    request.body(Full::new(body)).map_err(unsendable)
}

/// Something in it cannot stand in a header: a user's name with a line end.
fn unsendable(error: hyper::http::Error) -> CallError {
    CallError::Unreachable(io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// What an answer without success says. A server error in other words than the daemon's is of something before it, which
/// does not know what the daemon has done.
fn refusal(status: StatusCode, body: &[u8]) -> CallError {
    match RpcError::parse(body) {
        None if status.is_server_error() => CallError::Broken(format!("HTTP status {status}")),
        _ => RpcError::of_http(status.as_u16(), body).into(),
    }
}

async fn whole(response: Response<Incoming>) -> Result<Bytes, CallError> {
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    body.map(|body| body.to_bytes()).map_err(|error| CallError::Broken(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_daemon_can_do_is_read_by_name() {
        let names = |value: &'static str| extensions(&HeaderValue::from_static(value));
        assert_eq!(names("1; log, since,watch"), ["log", "since", "watch"]);
        assert!(!names("1; log, acknowledged").contains(&"acknowledge".to_owned()));
        assert_eq!([names("1"), names(""), names("1;")].map(|names| names.concat()), ["", "", ""]);
    }
}
