//! The servers under test: building them, and starting one as an operator would.

use std::{
    env, fs,
    io::{IsTerminal as _, Read as _, stderr},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::Serialize;

use crate::{
    Result,
    child::{Scratch, Service},
    envd::Daemon,
    http::exchange,
    source::connect,
};

/// Far more of anything than a measurement can use.
const PLENTY: &str = "1099511627776";

/// What runs the server.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// `hangar serve`.
    Tokio,
    /// The example `embed` of `hangar-smol`.
    Smol,
    /// `hangar serve`, whose sandbox is behind a `hangar-envd` on this machine.
    Daemon,
}

impl Runtime {
    /// Its name in rows and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tokio => "tokio",
            Self::Smol => "smol",
            Self::Daemon => "daemon",
        }
    }

    const fn build_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Tokio => &["-p", "hangar"],
            Self::Smol => &["-p", "hangar-smol", "--example", "embed"],
            Self::Daemon => &["-p", "hangar", "-p", "hangar-smol", "--bin", "hangar", "--bin", "hangar-envd"],
        }
    }

    fn executable(self) -> Result<PathBuf> {
        let below = match self {
            Self::Tokio | Self::Daemon => "release/hangar",
            Self::Smol => "release/examples/embed",
        };
        Ok(target_directory()?.join(below))
    }

    /// Builds it beside this binary, in the release profile.
    pub fn build(self) -> Result<()> {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--release", "--locked"]).args(self.build_arguments());
        cargo.arg("--target-dir").arg(target_directory()?);
        cargo.arg("--manifest-path").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"));
        if !stderr().is_terminal() {
            cargo.arg("--quiet");
        }
        let status = cargo.stdin(Stdio::null()).status().map_err(|error| format!("cargo: {error}"))?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the {} server does not build", self.name()).into())
        }
    }
}

/// Cargo's target directory that this binary is in, `<target>/release/streams`.
fn target_directory() -> Result<PathBuf> {
    let executable = env::current_exe()?;
    let directory = executable.ancestors().nth(2).ok_or("we are not in a target directory")?;
    Ok(directory.to_owned())
}

/// How a server is set up.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Setup {
    /// As it comes.
    Default,
    /// Without pacing, and without a cap on a stream's bytes; little is kept of processes that have ended.
    Raised,
    /// As it comes, but for how many streams may be open.
    ManyStreams,
    /// As it comes, but sessions of MCP clients are soon over.
    ShortSessions,
}

impl Setup {
    const fn environment(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Default => &[],
            Self::Raised => &[
                ("HANGAR_STREAM_BYTES_PER_SECOND", PLENTY),
                ("HANGAR_STREAM_MAX_BYTES", PLENTY),
                // The largest log of one process that has ended: the next but one has its memory, and touches no other.
                ("HANGAR_LOG_MAX_TOTAL", "67108864"),
            ],
            Self::ManyStreams => {
                &[("HANGAR_STREAM_MAX_PER_TOKEN", "1000000"), ("HANGAR_STREAM_MAX_TOTAL", "1000000")]
            }
            Self::ShortSessions => &[("HANGAR_MCP_SESSION_SECONDS", "1")],
        }
    }
}

/// A running server with its sandbox `local`.
#[derive(Debug)]
pub struct Server {
    service: Service,
    token: String,
    home: PathBuf,
    /// Behind which its sandbox is. It ends after the server.
    daemon: Option<Daemon>,
}

impl Server {
    /// Starts a built one with a data directory and a token of its own. Its commands run with `home`.
    pub fn start(runtime: Runtime, setup: Setup, home: &Path) -> Result<Self> {
        let program = runtime.executable()?;
        if !program.is_file() {
            return Err(format!(
                "{} is not there, and --no-build was given or nothing builds it",
                program.display()
            )
            .into());
        }
        let daemon = match runtime {
            Runtime::Tokio | Runtime::Smol => None,
            Runtime::Daemon => Some(Daemon::start(&target_directory()?.join("release/hangar-envd"))?.0),
        };
        let token = token()?;
        let scratch = Scratch::new()?;
        let data = scratch.path().join("data");
        let service =
            Service::start(&format!("the {} server", runtime.name()), &program, scratch, |command| {
                if runtime != Runtime::Smol {
                    command.arg("serve");
                }
                if let Some(daemon) = &daemon {
                    command.args(["--no-local", "--sandbox", &format!("local={}", daemon.url())]);
                }
                command.args(["--listen", "127.0.0.1:0", "--data"]).arg(data);
                for (name, _) in env::vars_os() {
                    if name.to_string_lossy().starts_with("HANGAR_") {
                        command.env_remove(name);
                    }
                }
                command
                    .env_remove("RUST_LOG")
                    .env("HANGAR_TOKEN", &token)
                    .env("HANGAR_LOCAL_DRAIN_SECONDS", "1");
                command.envs(setup.environment().iter().copied());
            })?;
        Ok(Self { service, token, home: home.to_owned(), daemon })
    }

    /// The process.
    pub const fn service(&self) -> &Service {
        &self.service
    }

    /// The process of the daemon that its sandbox is behind.
    pub fn daemon_pid(&self) -> Option<u32> {
        self.daemon.as_ref().map(Daemon::pid)
    }

    /// The token that it was started with.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// What its commands take for their home directory.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// So many more tokens that may do all that its own may.
    pub fn make_tokens(&self, count: u32) -> Result<Vec<String>> {
        let mut http = connect(self.service.address())?;
        let request = self.json_request("POST", "/api/tokens", "{\"scope\":\"admin\"}");
        let one = |_| {
            let made: serde_json::Value = serde_json::from_str(&exchange(&mut http, &request)?)?;
            Ok(made["token"].as_str().ok_or_else(|| format!("no token: {made}"))?.to_owned())
        };
        (0..count).map(one).collect()
    }

    /// The request that runs `command` in the sandbox.
    pub fn request(&self, command: &str, timeout_s: u64, streamed: bool) -> String {
        let environment = serde_json::json!({ "HOME": self.home.to_string_lossy() });
        let body =
            serde_json::json!({ "command": command, "timeout": timeout_s, "env": environment }).to_string();
        let (path, accept) =
            if streamed { ("exec/stream", "text/event-stream") } else { ("exec", "application/json") };
        format!(
            "POST /api/sandboxes/local/{path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nAccept: {accept}\r\nContent-Length: {}\r\n\r\n{body}",
            self.service.address(),
            self.token,
            body.len()
        )
    }

    /// The request that starts `command` as a background process.
    pub fn start_request(&self, command: &str, log_bytes: Option<u64>) -> String {
        let environment = serde_json::json!({ "HOME": self.home.to_string_lossy() });
        let mut body = serde_json::json!({ "command": command, "env": environment });
        if let Some(bytes) = log_bytes {
            body["max_log_bytes"] = bytes.into();
        }
        self.json_request("POST", "/v1/sandboxes/local/processes", &body.to_string())
    }

    /// The request for the process's output as events, from the first one on.
    pub fn follow_request(&self, process: &str) -> String {
        format!(
            "GET /api/sandboxes/local/processes/{process}/stream HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Accept: text/event-stream\r\n\r\n",
            self.service.address(),
            self.token
        )
    }

    /// The request for a URL of the process's WebSocket.
    pub fn access_request(&self, process: &str) -> String {
        let path = format!("/v1/sandboxes/local/processes/{process}/stream-access");
        self.json_request("PUT", &path, "{\"mode\":\"attach\"}")
    }

    /// The request that becomes the WebSocket.
    pub fn socket_request(&self, token: &str) -> String {
        format!(
            "GET /v1/sandbox-process-stream?token={token}&tail=all HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
            self.service.address()
        )
    }

    /// How many streams it has open, as its metrics say.
    pub fn open_streams(&self) -> Result<u64> {
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
            self.service.address(),
            self.token
        );
        open_streams(&exchange(&mut connect(self.service.address())?, &request)?)
    }

    fn json_request(&self, method: &str, path: &str, body: &str) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.service.address(),
            self.token,
            body.len()
        )
    }

    /// Ends it.
    pub fn stop(self) -> Result<()> {
        self.service.stop()
    }
}

/// The gauges of each kind of stream together; those of a kind that nobody has opened yet are not there.
fn open_streams(metrics: &str) -> Result<u64> {
    if !metrics.contains("# TYPE hangar_streams_open gauge") {
        return Err(format!("no metrics of a server: {metrics}").into());
    }
    let gauges = metrics.lines().filter(|line| line.starts_with("hangar_streams_open{"));
    gauges.map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<u64>()?)).sum()
}

fn token() -> Result<String> {
    let mut random = [0_u8; 24];
    fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_new() {
        let (one, other) = (token().unwrap(), token().unwrap());
        assert!(one.len() == 48 && one != other);
    }

    #[test]
    fn open_streams_are_those_of_all_kinds() {
        let metrics = "# HELP hangar_streams_open Open streams.\n# TYPE hangar_streams_open gauge\n\
            hangar_streams_open{kind=\"exec\"} 3\nhangar_streams_open{kind=\"process\"} 40\n\
            # TYPE hangar_streams counter\nhangar_streams_total{kind=\"exec\",reason=\"done\"} 7\n# EOF\n";
        assert_eq!(open_streams(metrics).unwrap(), 43);
        assert_eq!(open_streams("# TYPE hangar_streams_open gauge\n# EOF\n").unwrap(), 0);
        assert!(open_streams("{\"error\":{}}").is_err());
    }

    #[test]
    fn servers_are_looked_for_beside_us() {
        let hangar = Runtime::Tokio.executable().unwrap();
        assert!(hangar.ends_with("release/hangar"));
        assert!(Runtime::Smol.executable().unwrap().ends_with("release/examples/embed"));
    }
}
