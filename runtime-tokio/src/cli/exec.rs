//! `hangar exec`: a command in a sandbox of a server.

use super::{
    CommandLine, Failure,
    follow::{NOBODY_READS, exit_code, show},
};
use clap::Args;
use hangar::{Threads, TokioRuntime, signals::StopSignals};
use hangar_backends::Runtime;
use hangar_transports::client::{Client, ExecRequest, RemoteEvent, Url};
use std::{sync::Arc, time::Duration};

#[derive(Args, Debug)]
pub(super) struct Exec {
    /// The sandbox, by name or id
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    #[command(flatten)]
    line: CommandLine,
    /// The user to run it as, where the sandbox allows that
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    #[command(flatten)]
    server: ServerArguments,
}

/// Which server, and what it is shown.
#[derive(Args, Debug)]
pub(super) struct ServerArguments {
    /// The server
    #[arg(long, env = "HANGAR_URL", value_name = "URL", default_value = "http://127.0.0.1:8484")]
    url: Url,
    /// The token that is shown to it
    #[arg(env = "HANGAR_TOKEN", long = "token", value_name = "TOKEN", hide_env_values = true)]
    token: Option<String>,
}

impl ServerArguments {
    pub(super) fn client(self, tokio: &TokioRuntime) -> Result<Client, Failure> {
        Ok(Client::new(Arc::new(tokio.clone()), self.url, token(self.token)?))
    }
}

/// The token that was given.
pub(super) fn token(given: Option<String>) -> Result<String, Failure> {
    given
        .filter(|token| !token.is_empty())
        .ok_or_else(|| Failure::usage("there is no token: set HANGAR_TOKEN to one of the server's"))
}

impl Exec {
    pub(super) fn main(self) -> Result<u8, Failure> {
        let threads = Threads::new().map_err(Failure::new)?;
        let tokio = threads.runtime();
        let mut signals = StopSignals::listen(&tokio).map_err(Failure::new)?;
        tokio.spawn(Box::pin(async move {
            // With this process its connection ends, and with that the command; also while the thread that shows the
            // output is held up by whoever reads it.
            std::process::exit(signals.next().await.exit_code().into());
        }));
        let code = threads.block_on(self.follow(&tokio));
        threads.shutdown(Duration::ZERO);
        code
    }

    async fn follow(self, tokio: &TokioRuntime) -> Result<u8, Failure> {
        let client = self.server.client(tokio)?;
        let request = ExecRequest {
            env: self.line.env(),
            command: self.line.command,
            cwd: self.line.cwd,
            user: self.user,
            timeout: self.line.timeout,
        };
        let mut exec = client.exec(&self.sandbox, &request).await.map_err(Failure::new)?;
        loop {
            match exec.next().await.map_err(Failure::new)? {
                RemoteEvent::Output { channel, bytes } => {
                    if !show(channel, [&bytes[..]])? {
                        return Ok(NOBODY_READS);
                    }
                }
                RemoteEvent::Result(result) => return Ok(exit_code(&result)),
            }
        }
    }
}
