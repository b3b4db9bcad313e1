//! Sockets to requests, on any runtime.

mod connection;
mod io;
mod stuck;

use crate::{
    Plane,
    rest::{Guard, Service},
};
use hangar_backends::{
    Runtime,
    runtime::{Io, Listener, sleep_until},
};
use std::{
    collections::BTreeMap,
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
    time::Duration,
};

pub use connection::Connection;
pub use stuck::Stuck;

/// After a failed accept (out of descriptors, say) the next one waits this long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// After the last command ended connections have this long to take the ends of their streams.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How often it is looked at whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A plane that listens.
#[derive(Debug)]
pub struct Server {
    service: Arc<Service>,
    connections: Connections,
}

/// The connections that are open.
type Connections = Arc<Mutex<BTreeMap<u64, Arc<Connection>>>>;

impl Server {
    /// A server for a plane. `guard` says which hosts and origins it answers to.
    pub fn new(plane: Arc<Plane>, guard: Guard) -> Self {
        Self::of(Service::new(plane, guard))
    }

    /// A server for what answers requests.
    pub fn of(service: Service) -> Self {
        Self { service: Arc::new(service), connections: Connections::default() }
    }

    /// What answers requests.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Answers what comes to `listener` until `shutdown` is ready, then ends the plane: streams at once, commands
    /// within `HANGAR_LOCAL_DRAIN_SECONDS` or when `hurry` is ready. Requests that would begin something are refused meanwhile. Returns how
    /// many commands had to be killed.
    pub async fn run(
        &self,
        mut listener: Box<dyn Listener>,
        shutdown: impl Future<Output = ()>,
        hurry: impl Future<Output = ()>,
    ) -> usize {
        let plane = Arc::clone(self.service.plane());
        self.accept_until(&mut *listener, shutdown).await;
        tracing::info!(streams = plane.streams().len(), "shutting down");
        plane.begin_shutdown();
        let killed = {
            let mut hurry = pin!(hurry);
            let mut drain = pin!(plane.drain());
            let mut accept = pin!(self.accept_until(&mut *listener, std::future::pending()));
            let mut hurried = false;
            std::future::poll_fn(|cx| {
                if !hurried && hurry.as_mut().poll(cx).is_ready() {
                    hurried = true;
                    plane.hurry();
                }
                // It goes on for as long as the rest does.
                let _accepting = accept.as_mut().poll(cx);
                drain.as_mut().poll(cx)
            })
            .await
            .killed
        };
        drop(listener);
        self.close_connections(&**plane.runtime()).await;
        self.service.mcp_sessions().close_all();
        killed
    }

    async fn accept_until(&self, listener: &mut dyn Listener, end: impl Future<Output = ()>) {
        let runtime = Arc::clone(self.service.plane().runtime());
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
                    let pause = runtime.now() + ACCEPT_PAUSE;
                    sleep_until(&*runtime, pause).await;
                }
            }
        }
    }

    /// Serves one connection, in a task of its own.
    pub fn serve(&self, io: Box<dyn Io>) {
        let plane = self.service.plane();
        let runtime = plane.runtime();
        let connection = Connection::new(Arc::clone(runtime), Arc::clone(plane.streams().stuck()));
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.insert(connection.id(), Arc::clone(&connection));
        drop(connections);
        let (service, connections) = (Arc::clone(&self.service), Arc::clone(&self.connections));
        runtime.spawn(Box::pin(async move {
            let id = connection.id();
            connection::serve(io, connection, service).await;
            connections.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        }));
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    async fn close_connections(&self, runtime: &dyn Runtime) {
        let all = || -> Vec<Arc<Connection>> {
            self.connections.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
        };
        all().iter().for_each(|connection| connection.finish());
        let end = runtime.now() + LAST_WORDS;
        while self.connections() > 0 && runtime.now() < end {
            sleep_until(runtime, runtime.now() + LOOK_EVERY).await;
        }
        all().iter().for_each(|connection| connection.abort());
    }
}
