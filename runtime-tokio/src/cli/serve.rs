//! `hangar serve`: the plane behind a socket.

use super::{Failure, remotes::Remotes, say};
use clap::Args;
use hangar::{
    Threads, TokioRuntime,
    signals::{StopSignals, keep_ignored_from_commands},
};
use hangar_backends::{
    Runtime,
    local::{User, reaper},
    open_files,
    runtime::{Address, Listener},
    store::SqliteStore,
};
use hangar_transports::{
    Plane, Settings,
    data::Folder,
    plane::{local::Local, tokens::Tokens},
    rest::Guard,
    server::Server,
};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use std::{
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::sync::Notify;

/// Descriptors that a streamed command takes: its connection, its two outputs and its process.
const DESCRIPTORS_PER_STREAM: u64 = 4;

#[derive(Args, Debug)]
pub(super) struct Serve {
    /// The address to listen on; on another than a loopback one HANGAR_TOKEN must be set
    #[arg(long, env = "HANGAR_LISTEN", value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8484")]
    listen: SocketAddr,
    /// The folder for tokens and whatever else is kept; one server at a time [default: $XDG_DATA_HOME/hangar]
    #[arg(long, env = "HANGAR_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// The first admin token; without it one is made, kept in the data folder and shown once
    #[arg(
        long,
        env = "HANGAR_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true,
        conflicts_with = "token_file"
    )]
    token: Option<String>,
    /// A file that holds the first admin token
    #[arg(long, env = "HANGAR_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Offer no sandboxes on this machine
    #[arg(long, conflicts_with_all = ["local", "local_user"])]
    no_local: bool,
    /// Offer sandboxes on this machine although the address is not a loopback one
    #[arg(long)]
    local: bool,
    /// Run the commands of sandboxes on this machine as this user, which opens them to tokens of the scope `user`
    #[arg(long, value_name = "NAME")]
    local_user: Option<String>,
    /// The URL that clients use, where it is not a loopback one
    #[arg(long, env = "HANGAR_PUBLIC_URL", value_name = "URL")]
    public_url: Option<String>,
    /// Origins whose pages may call, separated by commas
    #[arg(long, env = "HANGAR_ALLOWED_ORIGINS", value_name = "ORIGINS", value_delimiter = ',')]
    allowed_origins: Vec<String>,
    #[command(flatten)]
    remotes: Remotes,
    #[command(flatten)]
    limits: Limits,
}

/// Limits; none can be 0.
#[derive(Args, Debug)]
#[command(next_help_heading = "Limits")]
struct Limits {
    /// Open streams for each token [default: 16]
    #[arg(long, env = "HANGAR_STREAM_MAX_PER_TOKEN", value_name = "N")]
    stream_max_per_token: Option<String>,
    /// Open streams in all [default: 512]
    #[arg(long, env = "HANGAR_STREAM_MAX_TOTAL", value_name = "N")]
    stream_max_total: Option<String>,
    /// Bytes a second for each stream; a command that prints faster is slowed [default: 1048576]
    #[arg(long, env = "HANGAR_STREAM_BYTES_PER_SECOND", value_name = "BYTES")]
    stream_bytes_per_second: Option<String>,
    /// Bytes for each stream; past it nothing more is sent [default: 67108864]
    #[arg(long, env = "HANGAR_STREAM_MAX_BYTES", value_name = "BYTES")]
    stream_max_bytes: Option<String>,
    /// Hours after which a stream that tells what changes is ended [default: 12]
    #[arg(long, env = "HANGAR_STREAM_MAX_HOURS", value_name = "HOURS")]
    stream_max_hours: Option<String>,
    /// Running background processes for each token [default: 16]
    #[arg(long, env = "HANGAR_BACKGROUND_MAX_PER_TOKEN", value_name = "N")]
    background_max_per_token: Option<String>,
    /// Watched directories for each token [default: 8]
    #[arg(long, env = "HANGAR_WATCH_MAX_PER_TOKEN", value_name = "N")]
    watch_max_per_token: Option<String>,
    /// Kept output of all background processes that have ended [default: 1073741824]
    #[arg(long, env = "HANGAR_LOG_MAX_TOTAL", value_name = "BYTES")]
    log_max_total: Option<String>,
    /// How often open streams check that their token is still valid [default: 5]
    #[arg(long, env = "HANGAR_STREAM_RECHECK_SECONDS", value_name = "SECONDS")]
    stream_recheck_seconds: Option<String>,
    /// How long a session of an MCP client is kept that nobody uses [default: 3600]
    #[arg(long, env = "HANGAR_MCP_SESSION_SECONDS", value_name = "SECONDS")]
    mcp_session_seconds: Option<String>,
    /// How long a shutdown waits for commands on this machine [default: 10]
    #[arg(long, env = "HANGAR_LOCAL_DRAIN_SECONDS", value_name = "SECONDS")]
    local_drain_seconds: Option<String>,
}

impl Limits {
    fn settings(&self) -> Result<Settings, Failure> {
        let read = |name: &str| match name {
            "HANGAR_STREAM_MAX_PER_TOKEN" => self.stream_max_per_token.clone(),
            "HANGAR_STREAM_MAX_TOTAL" => self.stream_max_total.clone(),
            "HANGAR_STREAM_BYTES_PER_SECOND" => self.stream_bytes_per_second.clone(),
            "HANGAR_STREAM_MAX_BYTES" => self.stream_max_bytes.clone(),
            "HANGAR_STREAM_MAX_HOURS" => self.stream_max_hours.clone(),
            "HANGAR_BACKGROUND_MAX_PER_TOKEN" => self.background_max_per_token.clone(),
            "HANGAR_WATCH_MAX_PER_TOKEN" => self.watch_max_per_token.clone(),
            "HANGAR_LOG_MAX_TOTAL" => self.log_max_total.clone(),
            "HANGAR_STREAM_RECHECK_SECONDS" => self.stream_recheck_seconds.clone(),
            "HANGAR_MCP_SESSION_SECONDS" => self.mcp_session_seconds.clone(),
            "HANGAR_LOCAL_DRAIN_SECONDS" => self.local_drain_seconds.clone(),
            _ => None,
        };
        Settings::from_variables(read).map_err(Failure::usage)
    }
}

/// The first admin token, and where a person finds it.
struct AdminToken {
    secret: String,
    /// What a shell puts in its place.
    in_shell: String,
    /// To be shown, because it was made just now.
    is_new: bool,
}

impl Serve {
    pub(super) fn main(self) -> Result<u8, Failure> {
        let settings = self.limits.settings()?;
        let guard = Guard::new(self.public_url.as_deref(), &self.allowed_origins).map_err(Failure::usage)?;
        let local_user = self.local_user.as_deref().map(User::named).transpose().map_err(Failure::usage)?;
        // The token, and whatever else was given by the environment, is not for the commands that run here.
        set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(Failure::new)?;
        reaper::become_subreaper().map_err(Failure::new)?;
        let threads = Threads::new().map_err(Failure::new)?;
        let tokio = threads.runtime();
        let signals = StopSignals::listen(&tokio).map_err(Failure::new)?;
        keep_ignored_from_commands(&tokio).map_err(Failure::new)?;
        let served = threads.run(self.serve(tokio, signals, settings, guard, local_user));
        threads.shutdown(Duration::from_secs(1));
        served
    }

    async fn serve(
        self,
        tokio: TokioRuntime,
        signals: StopSignals,
        settings: Settings,
        guard: Guard,
        local_user: Option<User>,
    ) -> Result<u8, Failure> {
        let runtime: Arc<dyn Runtime> = Arc::new(tokio);
        let offers_local = !self.no_local && (self.listen.ip().is_loopback() || self.local);
        let remotes = self.remotes.given(offers_local.then_some("local"))?;
        let folder = Folder::open(&data_folder(self.data.clone())?).map_err(Failure::new)?;
        let file = folder.store_file();
        let store = SqliteStore::open(&file)
            .map_err(|error| Failure::new(format!("the store: {}: {error}", file.display())))?;
        let listener = runtime.listen(Address::Tcp(self.listen)).await;
        let listener = listener
            .map_err(|error| Failure::new(format!("it cannot listen on {}: {error}", self.listen)))?;
        let key = self.remotes.key(&folder, &*runtime)?;
        // Last of what may fail, because a new token is shown once.
        let token = self.admin_token(&folder, &*runtime)?;
        let tokens = Tokens::load(Some(&token.secret), Arc::new(store)).await.map_err(Failure::new)?;
        let plane = Plane::new(Arc::clone(&runtime), settings, tokens);
        if offers_local {
            runtime.spawn(Box::pin(reaper::reap_orphans(Arc::clone(&runtime))));
            Local::new(Arc::clone(&runtime), local_user).offer(&plane).map_err(Failure::new)?;
        }
        plane.remember(key, remotes).await.map_err(|error| Failure::new(format!("--sandbox: {error}")))?;
        say_what_descriptors_allow(plane.settings());
        self.greet(&*listener, &token, offers_local);
        self.warn(offers_local);
        let (shutdown, hurry) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        runtime.spawn(Box::pin(tell(signals, Arc::clone(&shutdown), Arc::clone(&hurry))));
        let server = Server::new(plane, guard);
        let killed = server.run(listener, shutdown.notified(), hurry.notified()).await;
        if killed > 0 {
            say(format_args!("{killed} commands did not end in time and were killed"));
        }
        Ok(0)
    }

    fn admin_token(&self, folder: &Folder, runtime: &dyn Runtime) -> Result<AdminToken, Failure> {
        if let Some(secret) = &self.token {
            let secret = usable(secret, "HANGAR_TOKEN")?;
            return Ok(AdminToken { secret, in_shell: "$HANGAR_TOKEN".to_owned(), is_new: false });
        }
        if let Some(file) = &self.token_file {
            let shown = file.display();
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure::usage(format!("HANGAR_TOKEN_FILE={shown}: {error}")))?;
            let secret = usable(text.trim(), "HANGAR_TOKEN_FILE")?;
            return Ok(AdminToken { secret, in_shell: format!("$(cat '{shown}')"), is_new: false });
        }
        if !self.listen.ip().is_loopback() {
            return Err(Failure::usage(format!(
                "{} is not a loopback address: set HANGAR_TOKEN or HANGAR_TOKEN_FILE first",
                self.listen
            )));
        }
        let own = folder.own_token(runtime).map_err(Failure::new)?;
        let in_shell = format!("$(cat '{}')", folder.token_file().display());
        Ok(AdminToken { secret: own.secret, in_shell, is_new: own.is_new })
    }

    /// Says what somebody who made it public may have forgotten.
    fn warn(&self, offers_local: bool) {
        if self.listen.ip().is_loopback() {
            return;
        }
        if self.public_url.is_none() {
            tracing::warn!("requests to another host than a loopback one are refused: set HANGAR_PUBLIC_URL");
        }
        if !offers_local {
            tracing::warn!(
                "there is no sandbox on this machine, as others can reach the server; --local allows it"
            );
        }
    }

    /// Says how to call it. Whoever started it may not listen.
    fn greet(&self, listener: &dyn Listener, token: &AdminToken, offers_local: bool) {
        let address = listener.address();
        let url = self.public_url.clone().unwrap_or_else(|| format!("http://{address}"));
        let url = url.trim_end_matches('/');
        let mut text = format!("hangar listens on http://{address}\n");
        if token.is_new {
            text += &format!("its admin token, shown this once: {}\n", token.secret);
        }
        if offers_local {
            let user = self.local_user.as_deref().unwrap_or("this server's user");
            text += &format!(
                r#"its sandbox `local` is this machine; commands run as {user}. Try:

  curl -N -H "Authorization: Bearer {token}" -H 'Content-Type: application/json' \
    -d '{{"command": "for i in 1 2 3; do echo $i; sleep 0.5; done"}}' \
    {url}/api/sandboxes/local/exec/stream

"#,
                token = token.in_shell
            );
        }
        let mut out = io::stdout();
        drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    }
}

/// The data folder that was given, or the one where data of its user is kept.
pub(super) fn data_folder(given: Option<PathBuf>) -> Result<PathBuf, Failure> {
    if let Some(data) = given {
        return Ok(data);
    }
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data_home = set("XDG_DATA_HOME").or_else(|| set("HOME").map(|home| home.join(".local/share")));
    data_home.map(|data_home| data_home.join("hangar")).ok_or_else(|| {
        Failure::usage("there is neither XDG_DATA_HOME nor HOME: give it a folder with --data")
    })
}

/// A secret that fits into a header.
pub(super) fn usable(secret: &str, name: &str) -> Result<String, Failure> {
    if secret.is_empty() || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::usage(format!("{name}: a token is one or more visible ASCII characters")));
    }
    Ok(secret.to_owned())
}

/// Passes the first signal to stop on to `shutdown`, the second to `hurry`.
async fn tell(mut signals: StopSignals, shutdown: Arc<Notify>, hurry: Arc<Notify>) {
    signals.next().await;
    shutdown.notify_one();
    signals.next().await;
    hurry.notify_one();
}

/// Lets as many files be open as the system gives, and says so where they are fewer than the streams may need.
fn say_what_descriptors_allow(settings: &Settings) {
    let Some(open) = open_files::permit() else { return };
    let streams = open / DESCRIPTORS_PER_STREAM;
    tracing::info!(open_files = open, "that allows about {streams} streams at once");
    if streams < settings.stream_max_total as u64 {
        tracing::warn!(
            "HANGAR_STREAM_MAX_TOTAL is {}, more than the {open} open files allow; raise the limit (ulimit -n)",
            settings.stream_max_total
        );
    }
}
