//! Background processes of a server.

use super::{Client, ClientError, refusal};
use crate::plane::tickets::Mode;
use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use hangar_backends::net::url::segment;
use hangar_core::{
    process::{Signal, TtySize},
    wire::process::{GapView, View},
};
use http_body_util::{BodyExt, Limited};
use hyper::Method;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;

/// The longest answer that is read: a long list of long commands.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// A background process for a server to start.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StartRequest {
    /// A line for the shell.
    pub command: String,
    /// What it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables beyond those of the sandbox.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// It gets a terminal of this size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tty: Option<TtySize>,
    /// Bytes of its output that are kept for those who come later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_log_bytes: Option<u64>,
}

/// The right to open one WebSocket.
#[derive(Clone, Debug, Deserialize)]
pub struct Access {
    /// Where, as the server sees itself.
    pub url: String,
    /// The ticket.
    pub token: String,
    /// Until when it can be used: RFC 3339.
    pub expires_at: String,
}

/// Output that is kept, read piece by piece.
#[derive(Clone, Debug)]
pub struct LogPage {
    /// The output, exactly as it was printed: standard output and error in the order in which they came.
    pub bytes: Vec<u8>,
    /// The offset to go on from.
    pub next: u64,
    /// The offset after the newest output there was.
    pub end: u64,
    /// What was gone before it.
    pub gap: Option<GapView>,
    /// There is more already.
    pub truncated: bool,
}

#[derive(Deserialize)]
struct RawPage {
    base64: String,
    next: u64,
    end: u64,
    gap: Option<GapView>,
    #[serde(default)]
    truncated: bool,
}

#[derive(Deserialize)]
struct List {
    processes: Vec<View>,
}

fn unexpected(error: impl std::fmt::Display) -> ClientError {
    ClientError::Unexpected(error.to_string())
}

fn processes(sandbox: &str) -> String {
    format!("/v1/sandboxes/{}/processes", segment(sandbox))
}

fn one(sandbox: &str, process: &str) -> String {
    format!("{}/{}", processes(sandbox), segment(process))
}

impl Client {
    /// Starts a background process. It belongs to this client's token, and nothing ends it but its own end or a
    /// request.
    pub async fn start_process(&self, sandbox: &str, request: &StartRequest) -> Result<View, ClientError> {
        self.json(Method::POST, &processes(sandbox), Some(request)).await
    }

    /// The background processes of this client's token, also those that ended not long ago.
    pub async fn list_processes(&self, sandbox: &str) -> Result<Vec<View>, ClientError> {
        let List { processes } = self.json(Method::GET, &processes(sandbox), None::<&()>).await?;
        Ok(processes)
    }

    /// The same as the server's JSON.
    pub async fn list_processes_as_json(&self, sandbox: &str) -> Result<Bytes, ClientError> {
        self.answer(Method::GET, &processes(sandbox), None::<&()>).await
    }

    /// How a process is, by its id or its name.
    pub async fn show_process(&self, sandbox: &str, process: &str) -> Result<View, ClientError> {
        self.json(Method::GET, &one(sandbox, process), None::<&()>).await
    }

    /// Asks for the end of a process, and gives how it is just then.
    pub async fn stop_process(&self, sandbox: &str, process: &str) -> Result<View, ClientError> {
        self.json(Method::DELETE, &one(sandbox, process), None::<&()>).await
    }

    /// Sends a signal to a process and what is in its group.
    pub async fn signal_process(
        &self,
        sandbox: &str,
        process: &str,
        signal: Signal,
    ) -> Result<(), ClientError> {
        let path = format!("{}/signal", one(sandbox, process));
        let body = serde_json::json!({ "name": signal.name() });
        self.answer(Method::POST, &path, Some(&body)).await.map(drop)
    }

    /// The right to open one WebSocket of a process; see [`open_socket`](Self::open_socket).
    pub async fn stream_access(
        &self,
        sandbox: &str,
        process: &str,
        mode: Mode,
    ) -> Result<Access, ClientError> {
        let path = format!("{}/stream-access", one(sandbox, process));
        self.json(Method::PUT, &path, Some(&serde_json::json!({ "mode": mode }))).await
    }

    /// What a process printed from an offset on, as far as it is kept.
    pub async fn read_log(
        &self,
        sandbox: &str,
        process: &str,
        since: Option<u64>,
    ) -> Result<LogPage, ClientError> {
        let (sandbox, process) = (segment(sandbox), segment(process));
        let mut path = format!("/api/sandboxes/{sandbox}/processes/{process}?encoding=base64");
        if let Some(since) = since {
            path += &format!("&since={since}");
        }
        let RawPage { base64, next, end, gap, truncated } =
            self.json(Method::GET, &path, None::<&()>).await?;
        let bytes = BASE64_STANDARD.decode(base64).map_err(unexpected)?;
        Ok(LogPage { bytes, next, end, gap, truncated })
    }

    async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, ClientError> {
        let answer = self.answer(method, path, body).await?;
        serde_json::from_slice(&answer).map_err(unexpected)
    }

    /// The body of the answer to a request that was not refused.
    async fn answer(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Bytes, ClientError> {
        let body = body.map(serde_json::to_vec).transpose().map_err(unexpected)?;
        let response = self.send(self.request(method, path)?, body).await?;
        if !response.status().is_success() {
            return Err(refusal(response).await?);
        }
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        Ok(body.map_err(unexpected)?.to_bytes())
    }
}
