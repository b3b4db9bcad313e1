//! The accept loop, and the connections that are open.

use super::{Connection, Service, Stuck, connection};
use hangar_backends::{
    Runtime, open_files,
    runtime::{Io, Listener, sleep_until},
};
use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
    time::Duration,
};

/// After a failed accept (out of descriptors, say) the next one waits this long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections that are asked to close have this long to take the ends of their streams.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How often it is looked at whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Accepts connections and serves each in a task of its own.
pub struct Acceptor<S> {
    service: Arc<S>,
    runtime: Arc<dyn Runtime>,
    stuck: Arc<Stuck>,
    connections: Connections,
}

/// The connections that are open.
type Connections = Arc<Mutex<BTreeMap<u64, Arc<Connection>>>>;

impl<S> fmt::Debug for Acceptor<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor").field("connections", &self.connections().len()).finish_non_exhaustive()
    }
}

impl<S> Acceptor<S> {
    /// What answers requests.
    pub const fn service(&self) -> &Arc<S> {
        &self.service
    }

    /// The connections that are open.
    pub fn connections(&self) -> Vec<Arc<Connection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<S: Service> Acceptor<S> {
    /// With nothing open. Connections whose clients take nothing are in `stuck` meanwhile.
    pub fn new(service: S, runtime: Arc<dyn Runtime>, stuck: Arc<Stuck>) -> Self {
        Self { service: Arc::new(service), runtime, stuck, connections: Connections::default() }
    }

    /// Accepts what comes to `listener` until `end` is ready.
    pub async fn accept_until(&self, listener: &mut dyn Listener, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        loop {
            let accepted = std::future::poll_fn(|cx| match end.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => listener.poll_accept(cx).map(Some),
            })
            .await;
            match accepted {
                None => return,
                Some(Ok(io)) => self.serve(io),
                Some(Err(error)) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    let pause = self.runtime.now() + ACCEPT_PAUSE;
                    sleep_until(&*self.runtime, pause).await;
                }
            }
        }
    }

    /// Serves one connection, in a task of its own.
    pub fn serve(&self, io: Box<dyn Io>) {
        let connection = Connection::new(Arc::clone(&self.runtime), Arc::clone(&self.stuck));
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.insert(connection.id(), Arc::clone(&connection));
        open_files::opened(connections.len() as u64);
        drop(connections);
        let (service, connections) = (Arc::clone(&self.service), Arc::clone(&self.connections));
        self.runtime.spawn(Box::pin(async move {
            let id = connection.id();
            connection::serve(io, connection, service).await;
            connections.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        }));
    }

    /// Asks every connection to close after the answer that it is at, and aborts those that have not soon.
    pub async fn close(&self) {
        self.connections().iter().for_each(|connection| connection.finish());
        let end = self.runtime.now() + LAST_WORDS;
        while !self.is_empty() && self.runtime.now() < end {
            sleep_until(&*self.runtime, self.runtime.now() + LOOK_EVERY).await;
        }
        self.connections().iter().for_each(|connection| connection.abort());
    }
}
