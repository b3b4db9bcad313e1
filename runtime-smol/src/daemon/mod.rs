//! What is typed, and what becomes of it.

mod signals;

use clap::Parser;
use hangar_backends::{
    Runtime,
    local::{self, LocalSandbox, files::Files, reaper},
    log_line::LogLine,
    open_files,
    runtime::{Address, Listener},
};
use hangar_smol::Threads;
use hangar_transports::connect::{self, Daemon, Token};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use signals::{Heard, Signals};
use std::{
    collections::BTreeMap, fmt, fs, net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc, thread,
};
use tracing_subscriber::{filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _};

/// Runs commands in this sandbox for the clients of E2B, and for hangar.
///
/// It speaks the protocol of E2B's envd over HTTP/1.1: commands and their output, input, signals and terminals, files.
#[derive(Debug, Parser)]
#[command(name = "hangar-envd", version, max_term_width = 100)]
#[command(after_help = "\
HANGAR_ENVD_TOKEN, or a file that HANGAR_ENVD_TOKEN_FILE names, holds the token that requests have to carry as X-Access-Token. \
It is no argument, as everybody on the machine can read those. Without one whoever reaches the address may do everything, so \
only a loopback address or a unix socket is listened on.
TERM, INT, QUIT and HUP end it, with everything it started: TERM, and KILL after 3 s.
Logs go to stderr: RUST_LOG sets how much (RUST_LOG=debug).")]
struct Cli {
    /// Where to listen: ADDRESS:PORT, or unix:PATH
    #[arg(long, env = "HANGAR_ENVD_LISTEN", value_name = "WHERE", default_value = "127.0.0.1:49983", value_parser = address)]
    listen: Address,
    /// As whom commands run where a request names nobody [default: the user it runs as]
    #[arg(long, env = "HANGAR_ENVD_USER", value_name = "NAME")]
    user: Option<String>,
    /// The directory that files are served from, and nothing outside of it [default: all that users may reach]
    #[arg(long, env = "HANGAR_ENVD_ROOT", value_name = "DIR")]
    root: Option<PathBuf>,
}

/// Why it ends early: one line that says what to do, and the exit code.
#[derive(Debug)]
struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    fn usage(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), code: 2 }
    }

    fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), code: 1 }
    }
}

pub(super) fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => ExitCode::from(code),
        Err(Failure { message, code }) => {
            eprintln!("hangar-envd: {message}");
            ExitCode::from(code)
        }
    }
}

fn run(cli: Cli) -> Result<u8, Failure> {
    log()?;
    let token = token()?;
    if let Address::Tcp(address) = &cli.listen
        && !address.ip().is_loopback()
        && token.is_none()
    {
        let message = format!(
            "--listen {address}: whoever reaches this address could run commands; set HANGAR_ENVD_TOKEN, or listen on 127.0.0.1"
        );
        return Err(Failure::usage(message));
    }
    if let Some(user) = &cli.user {
        local::User::named(user).map_err(|error| Failure::usage(format!("--user: {error}")))?;
    }
    let files = Files::new(cli.root.clone()).map_err(|error| {
        Failure::usage(format!("--root {}: {error}", cli.root.unwrap_or_default().display()))
    })?;
    // Other processes of the same user must not read the token out of its memory.
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "the memory of the daemon stays readable to its user");
    }
    reaper::become_subreaper().map_err(Failure::new)?;
    open_files::permit();
    check_threads()?;
    let mut signals = Signals::listen().map_err(Failure::new)?;
    // One thread, this one, for all that does not block.
    let threads = Threads::new(0).map_err(Failure::new)?;
    let runtime: Arc<dyn Runtime> = Arc::new(threads.runtime());
    threads.block_on(async {
        let listener = listen(&*runtime, cli.listen).await?;
        let sandbox = local::Config { owns_descendants: true, ..local::Config::default() };
        let config = connect::Config {
            sandbox: Arc::new(LocalSandbox::new(Arc::clone(&runtime), sandbox)),
            files,
            user: cli.user,
            token,
            variables: BTreeMap::new(),
        };
        let daemon = Daemon::new(Arc::clone(&runtime), config);
        runtime.spawn(Box::pin(reaper::reap_orphans(Arc::clone(&runtime))));
        Ok(serve(&daemon, listener, &mut signals).await)
    })
}

/// Whether a thread can be started: the reactor starts one of its own, and panics where it cannot.
fn check_threads() -> Result<(), Failure> {
    let started = thread::Builder::new().spawn(|| {});
    let thread = started.map_err(|error| Failure::new(format!("no thread can be started: {error}")))?;
    // What it does cannot fail.
    drop(thread.join());
    Ok(())
}

/// Answers until a signal ends it; gives the exit code.
async fn serve(daemon: &Arc<Daemon>, listener: Box<dyn Listener>, signals: &mut Signals) -> u8 {
    let mut code = 0;
    let ended = daemon.run(listener, async {
        loop {
            match signals.next().await {
                Heard::End { signal, exit_code } => {
                    tracing::info!("shutting down");
                    code = exit_code;
                    return daemon.signal_all(signal);
                }
                Heard::PassOn(signal) => daemon.signal_all(signal),
            }
        }
    });
    if let Err(error) = ended.await {
        tracing::warn!(%error, "not everything could be ended");
    }
    code
}

async fn listen(runtime: &dyn Runtime, address: Address) -> Result<Box<dyn Listener>, Failure> {
    let listener = runtime.listen(address.clone()).await;
    let listener = listener.map_err(|error| Failure::new(format!("--listen {address}: {error}")))?;
    tracing::info!("hangar-envd listens on {}", listener.address());
    Ok(listener)
}

fn address(text: &str) -> Result<Address, String> {
    match text.strip_prefix("unix:") {
        Some("") => Err("unix: needs a path after it".to_owned()),
        Some(path) => Ok(Address::Unix(PathBuf::from(path))),
        None => text.parse::<SocketAddr>().map(Address::Tcp).map_err(|_| {
            "must be like 127.0.0.1:49983, [::1]:49983 or unix:/run/hangar-envd.sock".to_owned()
        }),
    }
}

/// The token, out of the environment: commands must not find it there.
fn token() -> Result<Option<Token>, Failure> {
    // A token that did not get here is no reason to do without one.
    let set = |name: &str| match std::env::var(name) {
        Err(std::env::VarError::NotPresent) => Ok(None),
        Ok(value) if !value.is_empty() => Ok(Some(value)),
        Ok(_) => Err(Failure::usage(format!("{name} is set, and empty; unset it to do without a token"))),
        Err(std::env::VarError::NotUnicode(_)) => Err(Failure::usage(format!("{name} is not UTF-8"))),
    };
    match (set("HANGAR_ENVD_TOKEN")?, set("HANGAR_ENVD_TOKEN_FILE")?) {
        (Some(_), Some(_)) => {
            Err(Failure::usage("HANGAR_ENVD_TOKEN and HANGAR_ENVD_TOKEN_FILE are both set; set one of them"))
        }
        (Some(token), None) => sendable("HANGAR_ENVD_TOKEN", token),
        (None, Some(file)) => {
            let text = fs::read_to_string(&file)
                .map_err(|error| Failure::usage(format!("HANGAR_ENVD_TOKEN_FILE: {file}: {error}")))?;
            let token = text.trim_end_matches(['\r', '\n']).to_owned();
            sendable(&format!("HANGAR_ENVD_TOKEN_FILE: {file}"), token)
        }
        (None, None) => Ok(None),
    }
}

/// A token that requests can carry.
fn sendable(name: &str, token: String) -> Result<Option<Token>, Failure> {
    Token::new(token).map(Some).map_err(|error| Failure::usage(format!("{name}: {error}")))
}

fn log() -> Result<(), Failure> {
    let wanted = std::env::var("RUST_LOG").ok().filter(|value| !value.is_empty());
    let targets: Targets = wanted.as_deref().unwrap_or("info").parse().map_err(|error| {
        Failure::usage(format!("RUST_LOG: {error}; it can be like debug, or hangar_transports=debug,info"))
    })?;
    let lines = tracing_subscriber::fmt::layer().with_writer(|| LogLine).with_ansi(false);
    tracing_subscriber::registry().with(targets).with(lines).init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_address_is_a_socket_of_either_kind() {
        assert_eq!(address("127.0.0.1:80"), Ok(Address::Tcp(([127, 0, 0, 1], 80).into())));
        assert_eq!(address("unix:/run/x.sock"), Ok(Address::Unix("/run/x.sock".into())));
        for bad in ["unix:", "127.0.0.1", "localhost:80", ":80", ""] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
