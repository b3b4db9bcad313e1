//! One call: which of the services' methods it is, within its deadline.

use super::{
    Body, Daemon, answer, filesystem,
    head::{Head, header},
    input,
    messages::{self, Messages},
    process, receipts, watch,
};
use crate::http::Connection;
use bytes::BytesMut;
use hangar_backends::runtime::until;
use hangar_core::{
    Time,
    wire::{
        connect::{Code, Kind, RpcError, head::parse_content_type},
        envd::{self, Message},
    },
};
use hyper::{Method, Request, Response, body::Incoming};
use std::{future::Future, sync::Arc};

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
        let found = header(request.headers(), "content-type").ok().flatten().and_then(parse_content_type);
        let Some((_, codec)) = found.filter(|(kind, _)| *kind == method.kind()) else {
            return Some(answer::unsupported_type());
        };
        let result = match Head::of(self.daemon, codec, request.headers()) {
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
                self.unary(head, request, async |asked| input::send(self, head, asked).await).await
            }
            Rpc::CloseStdin => {
                self.unary(head, request, async |asked| input::close(self.daemon, asked)).await
            }
            Rpc::SendSignal => {
                self.unary(head, request, async |asked| process::signal(self.daemon, asked)).await
            }
            Rpc::Acknowledge => {
                self.unary(head, request, async |asked| receipts::acknowledge(self.daemon, asked)).await
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
            Rpc::WatchDir => watch::stream(self, head, self.one(head, request).await?).await,
            Rpc::CreateWatcher => {
                self.unary(head, request, async |asked| watch::create(self.daemon, head, asked).await).await
            }
            Rpc::WatcherEvents => {
                self.unary(head, request, async |asked| watch::events(self.daemon, asked).await).await
            }
            Rpc::RemoveWatcher => {
                self.unary(head, request, async |asked| watch::remove(self.daemon, asked)).await
            }
        }
    }

    /// A unary call: its message, the method, and the answer, all within its deadline.
    async fn unary<Q: Message, A: Message>(
        &self,
        head: &Head,
        request: &mut Request<Incoming>,
        method: impl AsyncFnOnce(Q) -> Result<A, RpcError>,
    ) -> Result<Response<Body>, RpcError> {
        let answer = async {
            let message = messages::whole(self.daemon, request.body_mut()).await?;
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
        let message = self.within(head.deadline, messages.only()).await?;
        let message =
            message.ok_or_else(|| RpcError::new(Code::InvalidArgument, "the request has no message"))?;
        envd::decode(head.codec, &message.data)
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
    Acknowledge,
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
            (envd::process::SERVICE, "Acknowledge") => Self::Acknowledge,
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
            | Self::Acknowledge
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
