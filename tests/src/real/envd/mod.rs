//! A daemon in this process, one of its own, and a client of its protocol.

mod client;
mod followed;
mod running;

use super::{On, machine::PATIENCE};
use hangar_backends::{
    Runtime,
    local::{self, LocalSandbox, files::Files},
    runtime::Address,
};
use hangar_core::wire::connect::Codec;
use hangar_transports::connect::{Config, Daemon, Token};
use std::{
    net::SocketAddr,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::sync::Notify;

pub use crate::envd::{Event, argv, bash, pid, tag};
pub use client::Client;
pub use followed::{Followed, Whole};
pub use running::{Running, launching};

/// A daemon that listens on a port of its own. Dropped, it ends with everything that runs in it.
#[derive(Debug)]
pub struct Envd {
    address: SocketAddr,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl On {
    /// A daemon without a token.
    pub fn envd(self) -> Envd {
        Envd::start(self, None)
    }

    /// A daemon with a token.
    pub fn envd_with_token(self, token: &str) -> Envd {
        Envd::start(self, Some(Token::new(token.to_owned()).unwrap()))
    }
}

impl Envd {
    fn start(on: On, token: Option<Token>) -> Self {
        let stop = Arc::new(Notify::new());
        let (ready, started) = mpsc::channel();
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name(format!("a daemon on {on}")).spawn(move || match on {
            On::Tokio => {
                let threads = hangar::Threads::new().unwrap();
                threads.block_on(serve(Arc::new(threads.runtime()), token, &stopped, &ready));
                threads.shutdown(Duration::from_secs(1));
            }
            On::Smol | On::Envd | On::Daemonless => {
                let threads = hangar_smol::Threads::new(0).unwrap();
                threads.block_on(serve(Arc::new(threads.runtime()), token, &stopped, &ready));
            }
        });
        let address = started.recv_timeout(PATIENCE).expect("the daemon starts");
        Self { address, stop, thread: Some(thread.unwrap()) }
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// A client that speaks JSON.
    pub fn json(&self) -> Client {
        Client::new(self.address, Codec::Json)
    }

    /// A client that speaks protobuf.
    pub fn proto(&self) -> Client {
        Client::new(self.address, Codec::Proto)
    }
}

impl Drop for Envd {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take().filter(|_| !thread::panicking()) {
            thread.join().unwrap();
        }
    }
}

async fn serve(
    runtime: Arc<dyn Runtime>,
    token: Option<Token>,
    stop: &Notify,
    ready: &mpsc::Sender<SocketAddr>,
) {
    let config = Config {
        sandbox: Arc::new(LocalSandbox::new(Arc::clone(&runtime), local::Config::default())),
        files: Files::new(None).unwrap(),
        user: None,
        token,
        variables: [("HOME".to_owned(), "/nonexistent".to_owned())].into(),
    };
    let daemon = Daemon::new(Arc::clone(&runtime), config);
    let listener = runtime.listen(Address::Tcp(([127, 0, 0, 1], 0).into())).await.unwrap();
    let Address::Tcp(address) = *listener.address() else { panic!("it listens on TCP") };
    ready.send(address).unwrap();
    daemon.run(listener, stop.notified()).await.unwrap();
}
