//! Sockets to requests, on any runtime: what the server and the daemon have in common. No path, no token and no body is
//! known here.
//!
//! * [`Acceptor`]: the accept loop, and the connections that are open.
//! * [`Connection`]: one of them, which can be finished gently or aborted, and knows whether its client takes bytes.
//! * [`Service`]: what answers requests.

mod acceptor;
mod connection;
mod observed;
mod stuck;
mod unread;

use bytes::Bytes;
use hangar_backends::runtime::Io;
use hyper::{
    Request, Response,
    body::{Body, Incoming},
};
use std::{
    convert::Infallible,
    future::Future,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

pub use acceptor::Acceptor;
pub use connection::{Connection, Patience};
pub use stuck::Stuck;
pub(crate) use unread::drop_unread;

/// What answers requests.
pub trait Service: Send + Sync + 'static {
    /// What is sent after an answer's head.
    type Body: Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static;

    /// A request's head has to be there within this, the first one within 30 s, and an idle connection is closed after it.
    const IDLE: Duration;

    /// A connection whose client takes nothing of an answer for so long is let go of, unless the answer
    /// [looks itself](Connection::be_patient); None: however long.
    const UNTAKEN: Option<Duration>;

    /// Answers a request, whatever it is.
    fn answer(
        &self,
        request: Request<Incoming>,
        connection: Arc<Connection>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
}

/// What a connection becomes after an answer that said so.
pub trait Upgrade: Send {
    /// Goes on with its socket, of which `came` was read already.
    fn begin(self: Box<Self>, io: Box<dyn Io>, came: Bytes) -> Box<dyn Session>;
}

/// Whoever has the socket of a connection that was upgraded.
pub trait Session: Send {
    /// Ready once it is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}
