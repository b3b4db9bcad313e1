//! One call: its headers, its messages, and which of the services' methods it is.

use super::{Body, Daemon, answer, filesystem, input, process};
use crate::http::Connection;
use bytes::{Bytes, BytesMut};
use hangar_backends::runtime::until;
use hangar_core::{
    Time,
    wire::{
        connect::{
            Code, Codec, Decoder, Envelope, Kind, RpcError,
            head::{self, CONTENT_ENCODING, KEEP_ALIVE, PROTOCOL_VERSION, TIMEOUT},
        },
        envd::{self, Message},
    },
};
use http_body_util::BodyExt as _;
use hyper::{
    HeaderMap, Method, Request, Response,
    body::{Body as _, Incoming},
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use std::{borrow::Cow, future::Future, sync::Arc, time::Duration};

/// The longest message.
pub(super) const MAX_MESSAGE: u32 = 16 * 1024 * 1024;

/// A message of a request has to be there within this, where the call has no deadline of its own.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// What a call's headers say.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) codec: Codec,
    pub(super) deadline: Option<Time>,
    pub(super) timeout: Option<Duration>,
    pub(super) keep_alive: Duration,
    /// Whom the call names.
    pub(super) user: Option<String>,
    pub(super) extensions: Extensions,
}

/// What a client that knows hangar asks for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Extensions {
    /// `Hangar-Retention`.
    pub(super) retention: Option<Retention>,
    /// `Hangar-Log`: bytes that are kept for who comes later.
    pub(super) log: Option<u64>,
    /// `Hangar-Since`: the offset to go on from.
    pub(super) since: Option<u64>,
}

/// How a process's output is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Retention {
    Ring { bytes: usize },
    UntilRead,
}

impl Extensions {
    /// Whether the client knows hangar.
    pub(super) const fn is_known(self) -> bool {
        self.retention.is_some() || self.log.is_some() || self.since.is_some()
    }
}

/// One call on its way to its method.
pub(super) struct Call<'a> {
    pub(super) daemon: &'a Arc<Daemon>,
    pub(super) connection: Arc<Connection>,
    is_post: bool,
}

impl<'a> Call<'a> {
    pub(super) fn new(daemon: &'a Arc<Daemon>, connection: Arc<Connection>, method: &Method) -> Self {
        Self { daemon, connection, is_post: *method == Method::POST }
    }

    /// The answer; None where there is no such method.
    pub(super) async fn answer(self, path: &str, request: &mut Request<Incoming>) -> Option<Response<Body>> {
        let method = Rpc::of(path)?;
        if !self.is_post {
            return Some(answer::not_allowed("POST"));
        }
        let found = header(request.headers(), CONTENT_TYPE.as_str()).and_then(head::parse_content_type);
        let Some((_, codec)) = found.filter(|(kind, _)| *kind == method.kind()) else {
            return Some(answer::unsupported_type());
        };
        let result = match self.head(codec, request.headers()) {
            Err(error) => Err(error),
            Ok(head) => self.dispatch(method, &head, request).await,
        };
        Some(result.unwrap_or_else(|error| answer::failed(method.kind(), codec, error)))
    }

    async fn dispatch(
        &self,
        method: Rpc,
        head: &Head,
        request: &mut Request<Incoming>,
    ) -> Result<Response<Body>, RpcError> {
        match method {
            Rpc::Start => process::start(self, head, self.one(head, request).await?).await,
            Rpc::Connect => process::connect(self, head, self.one(head, request).await?),
            Rpc::StreamInput => input::stream(self, head, request).await,
            Rpc::List => {
                self.unary(head, request, async |_: envd::process::Empty| Ok(process::list(self.daemon)))
                    .await
            }
            Rpc::Update => self.unary(head, request, async |asked| process::update(self.daemon, asked)).await,
            Rpc::SendInput => {
                self.unary(head, request, async |asked| input::send(self.daemon, asked).await).await
            }
            Rpc::CloseStdin => {
                self.unary(head, request, async |asked| input::close(self.daemon, asked)).await
            }
            Rpc::SendSignal => {
                self.unary(head, request, async |asked| process::signal(self.daemon, asked)).await
            }
            Rpc::Stat => {
                self.unary(head, request, async |asked| filesystem::stat(self.daemon, head, asked).await)
                    .await
            }
            Rpc::MakeDir => {
                self.unary(head, request, async |asked| filesystem::make_dir(self.daemon, head, asked).await)
                    .await
            }
            Rpc::Move => {
                self.unary(head, request, async |asked| filesystem::rename(self.daemon, head, asked).await)
                    .await
            }
            Rpc::ListDir => {
                self.unary(head, request, async |asked| filesystem::list(self.daemon, head, asked).await)
                    .await
            }
            Rpc::Remove => {
                self.unary(head, request, async |asked| filesystem::remove(self.daemon, head, asked).await)
                    .await
            }
            Rpc::WatchDir | Rpc::CreateWatcher | Rpc::WatcherEvents | Rpc::RemoveWatcher => {
                Err(RpcError::new(Code::Unimplemented, "directories cannot be watched yet"))
            }
        }
    }

    fn head(&self, codec: Codec, headers: &HeaderMap) -> Result<Head, RpcError> {
        if let Some(version) = header(headers, PROTOCOL_VERSION) {
            head::check_version(version)?;
        }
        for name in [CONTENT_ENCODING, "content-encoding"] {
            if let Some(encoding) = header(headers, name).filter(|encoding| *encoding != "identity") {
                let message = format!("{name}: messages are taken as they are, and not as {encoding:?}");
                return Err(RpcError::new(Code::Unimplemented, message));
            }
        }
        let timeout = header(headers, TIMEOUT).map(head::parse_timeout).transpose()?;
        Ok(Head {
            codec,
            deadline: timeout.map(|timeout| self.daemon.runtime.now() + timeout),
            timeout,
            keep_alive: head::keep_alive(header(headers, KEEP_ALIVE)),
            user: user(headers)?,
            extensions: extensions(headers)?,
        })
    }

    /// A unary call: its message, the method, and the answer, all within its deadline.
    async fn unary<Q: Message, A: Message>(
        &self,
        head: &Head,
        request: &mut Request<Incoming>,
        method: impl AsyncFnOnce(Q) -> Result<A, RpcError>,
    ) -> Result<Response<Body>, RpcError> {
        let answer = async {
            let message = self.whole(request).await?;
            method(envd::decode(head.codec, &message)?).await
        };
        let answer = self.within(head.deadline, answer).await?;
        let mut out = BytesMut::new();
        envd::encode(head.codec, &answer, &mut out);
        Ok(answer::message(head.codec, out.freeze()))
    }

    /// The one message of a request that is a stream.
    async fn one<Q: Message>(&self, head: &Head, request: &mut Request<Incoming>) -> Result<Q, RpcError> {
        let mut messages = Messages::new(self.daemon, request.body_mut());
        let message = self.within(head.deadline, messages.next()).await?;
        let message =
            message.ok_or_else(|| RpcError::new(Code::InvalidArgument, "the request has no message"))?;
        envd::decode(head.codec, &message.data)
    }

    /// A whole body.
    async fn whole(&self, request: &mut Request<Incoming>) -> Result<Bytes, RpcError> {
        let limit = MAX_MESSAGE as usize;
        let runtime = &*self.daemon.runtime;
        let body = request.body_mut();
        if body.size_hint().lower() > limit as u64 {
            return Err(too_long());
        }
        let collected = http_body_util::Limited::new(body, limit).collect();
        match until(runtime, runtime.now() + MESSAGE_TIMEOUT, collected).await {
            Some(Ok(body)) => Ok(body.to_bytes()),
            Some(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_long()),
            Some(Err(_)) => Err(cut_short()),
            None => Err(late()),
        }
    }

    /// What `future` gives, if that is in time.
    pub(super) async fn within<T>(
        &self,
        deadline: Option<Time>,
        future: impl Future<Output = Result<T, RpcError>>,
    ) -> Result<T, RpcError> {
        let Some(deadline) = deadline else { return future.await };
        let over = || RpcError::new(Code::DeadlineExceeded, "the time for the call is over");
        until(&*self.daemon.runtime, deadline, future).await.ok_or_else(over)?
    }
}

/// The messages of a request that is a stream.
pub(super) struct Messages<'a> {
    daemon: &'a Daemon,
    body: &'a mut Incoming,
    decoder: Decoder,
}

impl<'a> Messages<'a> {
    pub(super) fn new(daemon: &'a Daemon, body: &'a mut Incoming) -> Self {
        Self { daemon, body, decoder: Decoder::new(MAX_MESSAGE) }
    }

    /// The next one; None at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Envelope>, RpcError> {
        let runtime = &*self.daemon.runtime;
        loop {
            let envelope = self.decoder.next_envelope();
            match envelope.map_err(|error| RpcError::new(Code::ResourceExhausted, error.to_string()))? {
                Some(envelope) if envelope.is_compressed() => {
                    return Err(RpcError::new(
                        Code::Internal,
                        "a message is compressed, and no compression was agreed on",
                    ));
                }
                Some(envelope) if envelope.is_end() => return Ok(None),
                Some(envelope) => return Ok(Some(envelope)),
                None => {}
            }
            let inside = self.decoder.is_inside();
            let frame = self.body.frame();
            // Between two messages there is all the time in the world.
            let frame = match inside {
                true => until(runtime, runtime.now() + MESSAGE_TIMEOUT, frame).await.ok_or_else(late)?,
                false => frame.await,
            };
            match frame {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.decoder.push(&data);
                    }
                }
                None if !inside => return Ok(None),
                None | Some(Err(_)) => return Err(cut_short()),
            }
        }
    }
}

fn too_long() -> RpcError {
    RpcError::new(Code::ResourceExhausted, format!("the message is longer than {MAX_MESSAGE} bytes"))
}

fn cut_short() -> RpcError {
    RpcError::new(Code::InvalidArgument, "the request ended in the middle of a message")
}

fn late() -> RpcError {
    let message = format!("the message was not there within {} s", MESSAGE_TIMEOUT.as_secs());
    RpcError::new(Code::DeadlineExceeded, message)
}

/// The methods.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Rpc {
    List,
    Start,
    Connect,
    Update,
    StreamInput,
    SendInput,
    SendSignal,
    CloseStdin,
    Stat,
    MakeDir,
    Move,
    ListDir,
    Remove,
    WatchDir,
    CreateWatcher,
    WatcherEvents,
    RemoveWatcher,
}

impl Rpc {
    fn of(path: &str) -> Option<Self> {
        let (service, method) = path.strip_prefix('/')?.split_once('/')?;
        Some(match (service, method) {
            (envd::process::SERVICE, "List") => Self::List,
            (envd::process::SERVICE, "Start") => Self::Start,
            (envd::process::SERVICE, "Connect") => Self::Connect,
            (envd::process::SERVICE, "Update") => Self::Update,
            (envd::process::SERVICE, "StreamInput") => Self::StreamInput,
            (envd::process::SERVICE, "SendInput") => Self::SendInput,
            (envd::process::SERVICE, "SendSignal") => Self::SendSignal,
            (envd::process::SERVICE, "CloseStdin") => Self::CloseStdin,
            (envd::filesystem::SERVICE, "Stat") => Self::Stat,
            (envd::filesystem::SERVICE, "MakeDir") => Self::MakeDir,
            (envd::filesystem::SERVICE, "Move") => Self::Move,
            (envd::filesystem::SERVICE, "ListDir") => Self::ListDir,
            (envd::filesystem::SERVICE, "Remove") => Self::Remove,
            (envd::filesystem::SERVICE, "WatchDir") => Self::WatchDir,
            (envd::filesystem::SERVICE, "CreateWatcher") => Self::CreateWatcher,
            (envd::filesystem::SERVICE, "GetWatcherEvents") => Self::WatcherEvents,
            (envd::filesystem::SERVICE, "RemoveWatcher") => Self::RemoveWatcher,
            _ => return None,
        })
    }

    const fn kind(self) -> Kind {
        match self {
            Self::Start | Self::Connect | Self::StreamInput | Self::WatchDir => Kind::Stream,
            Self::List
            | Self::Update
            | Self::SendInput
            | Self::SendSignal
            | Self::CloseStdin
            | Self::Stat
            | Self::MakeDir
            | Self::Move
            | Self::ListDir
            | Self::Remove
            | Self::CreateWatcher
            | Self::WatcherEvents
            | Self::RemoveWatcher => Kind::Unary,
        }
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The user of `Authorization: Basic`: its password counts for nothing.
pub(super) fn user(headers: &HeaderMap) -> Result<Option<String>, RpcError> {
    use base64::prelude::{BASE64_STANDARD, Engine as _};
    let Some(value) = header(headers, AUTHORIZATION.as_str()) else { return Ok(None) };
    let Some((scheme, credentials)) = value.split_once(' ') else { return Ok(None) };
    if !scheme.eq_ignore_ascii_case("basic") {
        return Ok(None);
    }
    let decoded =
        BASE64_STANDARD.decode(credentials.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let bad = || RpcError::new(Code::Unauthenticated, "Authorization: Basic has no user in it");
    let user = decoded.and_then(|text| Some(text.split_once(':')?.0.to_owned()));
    user.map(Some).ok_or_else(bad)
}

fn extensions(headers: &HeaderMap) -> Result<Extensions, RpcError> {
    let number = |name: &'static str, value: &str| {
        let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let bad = || bad_header(name, "must be a number of bytes", value);
        value.parse::<u64>().ok().filter(|_| digits).ok_or_else(bad)
    };
    let optional = |name: &'static str| header(headers, name).map(|value| number(name, value)).transpose();
    let retention = match header(headers, RETENTION) {
        None => None,
        Some("until-read") => Some(Retention::UntilRead),
        Some(value) => {
            let bad = || bad_header(RETENTION, "must be `ring=<bytes>` or `until-read`", value);
            let bytes = number(RETENTION, value.strip_prefix("ring=").ok_or_else(bad)?)?;
            Some(Retention::Ring { bytes: usize::try_from(bytes).map_err(|_| bad())? })
        }
    };
    Ok(Extensions { retention, log: optional(LOG)?, since: optional(SINCE)? })
}

const RETENTION: &str = "hangar-retention";
const LOG: &str = "hangar-log";
const SINCE: &str = "hangar-since";

fn bad_header(name: &'static str, must: &str, value: &str) -> RpcError {
    let message: Cow<'static, str> = format!("{name}: {must}, and is {value:?}").into();
    RpcError::new(Code::InvalidArgument, message)
}
