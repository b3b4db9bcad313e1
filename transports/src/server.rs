//! A plane that listens: from its first connection to its last.

use crate::{
    Plane,
    http::Acceptor,
    rest::{Guard, Service},
};
use hangar_backends::runtime::{Io, Listener};
use std::{future::Future, pin::pin, sync::Arc};

/// A plane that listens.
#[derive(Debug)]
pub struct Server {
    acceptor: Acceptor<Service>,
}

impl Server {
    /// A server for a plane. `guard` says which hosts and origins it answers to.
    pub fn new(plane: Arc<Plane>, guard: Guard) -> Self {
        Self::of(Service::new(plane, guard))
    }

    /// A server for what answers requests.
    pub fn of(service: Service) -> Self {
        let (runtime, stuck) = (service.plane().runtime(), service.plane().streams().stuck());
        let (runtime, stuck) = (Arc::clone(runtime), Arc::clone(stuck));
        Self { acceptor: Acceptor::new(service, runtime, stuck) }
    }

    /// What answers requests.
    pub fn service(&self) -> &Service {
        self.acceptor.service()
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
        let plane = Arc::clone(self.service().plane());
        self.acceptor.accept_until(&mut *listener, shutdown).await;
        tracing::info!(streams = plane.streams().len(), "shutting down");
        plane.begin_shutdown();
        let killed = {
            let mut hurry = pin!(hurry);
            let mut drain = pin!(plane.drain());
            let mut accept = pin!(self.acceptor.accept_until(&mut *listener, std::future::pending()));
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
        self.acceptor.close().await;
        self.service().mcp_sessions().close_all();
        killed
    }

    /// Serves one connection, in a task of its own.
    pub fn serve(&self, io: Box<dyn Io>) {
        self.acceptor.serve(io);
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.acceptor.len()
    }
}
