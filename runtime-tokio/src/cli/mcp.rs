//! `hangar mcp`: the tools on standard input and output, for a client that starts its servers itself.

use super::{Failure, exec::token, say};
use clap::Args;
use hangar::{Threads, TokioRuntime, signals::StopSignals};
use hangar_backends::{Runtime, local::reaper, store::MemoryStore};
use hangar_transports::{
    Plane, Settings,
    client::{Client, RemoteHandler, Url},
    mcp::{Handler, plane::PlaneHandler, stdio},
    plane::{
        local::Local,
        tokens::{Caller, Tokens},
    },
};
use std::{
    future::{Future, poll_fn},
    io::IsTerminal,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

#[derive(Args, Debug)]
pub(super) struct Mcp {
    /// Call this server instead, with HANGAR_TOKEN: its sandboxes, and processes that outlive this command
    #[arg(long, value_name = "URL")]
    server: Option<Url>,
    /// The token that is shown to it
    #[arg(env = "HANGAR_TOKEN", long = "token", value_name = "TOKEN", hide_env_values = true)]
    token: Option<String>,
}

impl Mcp {
    pub(super) fn main(self) -> Result<u8, Failure> {
        let threads = Threads::new().map_err(Failure::new)?;
        let tokio = threads.runtime();
        let signals = StopSignals::listen(&tokio).map_err(Failure::new)?;
        let code = threads.block_on(self.serve(&tokio, signals));
        // Whoever reads standard input for us may wait for it for ever.
        threads.shutdown(Duration::ZERO);
        code
    }

    async fn serve(self, tokio: &TokioRuntime, mut signals: StopSignals) -> Result<u8, Failure> {
        let runtime: Arc<dyn Runtime> = Arc::new(tokio.clone());
        let (handler, plane): (Arc<dyn Handler>, _) = match self.server {
            Some(url) => {
                let client = Client::new(Arc::clone(&runtime), url, token(self.token)?);
                (Arc::new(RemoteHandler::new(client)), None)
            }
            None => {
                let plane = here(&runtime).await?;
                (Arc::new(PlaneHandler::new(Arc::clone(&plane))), Some(plane))
            }
        };
        if std::io::stdin().is_terminal() {
            say(
                "this speaks JSON-RPC with an MCP client; put `hangar` and `mcp` into its configuration (docs/mcp.md)",
            );
        }
        let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
        let serving = stdio::serve(handler, Caller::owner(), Arc::clone(&runtime), input, output);
        let (mut serving, mut stop) = (pin!(serving), pin!(signals.next()));
        let ended = poll_fn(|cx| match (serving.as_mut().poll(cx), stop.as_mut().poll(cx)) {
            (Poll::Ready(served), _) => Poll::Ready(Ok(served)),
            (Poll::Pending, Poll::Ready(stop)) => Poll::Ready(Err(stop)),
            (Poll::Pending, Poll::Pending) => Poll::Pending,
        })
        .await;
        let Some(plane) = plane else { return ended.map_or_else(|stop| Ok(stop.exit_code()), over) };
        // What was started here ends here. A client that sends a signal waits no longer for that.
        let mut drained = pin!(plane.drain_now());
        match ended {
            Err(stop) => {
                plane.kill_now();
                drained.await;
                Ok(stop.exit_code())
            }
            Ok(served) => {
                let in_time = poll_fn(|cx| match drained.as_mut().poll(cx) {
                    Poll::Ready(_) => Poll::Ready(true),
                    Poll::Pending => stop.as_mut().poll(cx).map(|_| false),
                });
                if !in_time.await {
                    plane.kill_now();
                    drained.await;
                }
                over(served)
            }
        }
    }
}

fn over(served: std::io::Result<()>) -> Result<u8, Failure> {
    served.map(|()| 0).map_err(Failure::new)
}

/// A plane of this process alone, whose one sandbox is the directory that it was started in.
async fn here(runtime: &Arc<dyn Runtime>) -> Result<Arc<Plane>, Failure> {
    reaper::become_subreaper().map_err(Failure::new)?;
    let tokens = Tokens::load(None, Arc::new(MemoryStore::default())).await.map_err(Failure::new)?;
    let settings = Settings::from_variables(|name| std::env::var(name).ok()).map_err(Failure::usage)?;
    let plane = Plane::new(Arc::clone(runtime), settings, tokens);
    runtime.spawn(Box::pin(reaper::reap_orphans(Arc::clone(runtime))));
    let directory = std::env::current_dir().map_err(Failure::new)?;
    let local = Local::new(Arc::clone(runtime), None);
    local.offer_in(&plane, &directory).map_err(Failure::new)?;
    plane.sandboxes().set_factory(Arc::new(local));
    Ok(plane)
}
