//! One connection to a server, and a request on it.

use super::{io::HttpIo, url::Url};
use crate::{
    Runtime,
    runtime::{Address, Io, until},
};
use hyper::{
    body::Body,
    client::conn::http1::{Builder, SendRequest},
};
use std::{error::Error, io, sync::Arc, time::Duration};

/// An address that has not answered within this does not.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to a server, at the first of its addresses that answers within 10 s.
///
/// # Errors
///
/// What the system says of the last one.
pub async fn connect(runtime: &dyn Runtime, url: &Url) -> io::Result<Box<dyn Io>> {
    let (host, port) = url.host_and_port();
    let addresses = runtime.resolve(host.to_owned(), port).await?;
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in addresses {
        let connected = runtime.connect(Address::Tcp(address));
        match until(runtime, runtime.now() + CONNECT_TIMEOUT, connected).await {
            Some(Ok(io)) => return Ok(io),
            Some(Err(error)) => failed = error,
            None => failed = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failed)
}

/// Makes a socket a connection on which requests are sent, one after the other. A task of the runtime carries it, until
/// both the sender and the answers are dropped.
///
/// # Errors
///
/// As hyper has them: the connection broke.
pub async fn handshake<B>(runtime: &Arc<dyn Runtime>, io: Box<dyn Io>) -> hyper::Result<SendRequest<B>>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let (sender, connection) = Builder::new().handshake(HttpIo(io)).await?;
    runtime.spawn(Box::pin(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "the connection ended early");
        }
    }));
    Ok(sender)
}
