//! Background processes: `/api/sandboxes/{ref}/processes` for who polls or reads events, and
//! `/v1/sandboxes/{ref}/processes` for who speaks the process protocol. One table, two ways to show it.

use super::{Call, Scope, done, env::Env, events, exec::no_nul, json, query::Query};
use crate::{
    ApiError,
    body::Body,
    plane::{
        follow::Start,
        processes::{Background, DEFAULT_LOG_BYTES, MAX_LOG_BYTES, StartCall},
        sandboxes::check_name,
        tickets::Mode,
        tokens::Caller,
    },
    sse::EventBody,
};
use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use hangar_backends::sandbox::Command;
use hangar_core::{
    exec::Encoding,
    process::{Signal, TtySize},
    wire::process::{GapView, Status, View},
};
use hyper::{
    Response, StatusCode,
    header::{HOST, HeaderValue, LOCATION},
};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, sync::Arc, time::Duration};

/// Who may have processes.
const SCOPES: [Scope; 2] = [Scope::Admin, Scope::User];

/// Seconds that a poll may wait.
const MAX_WAIT: f64 = 600.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartRequest {
    command: Option<String>,
    argv: Option<Vec<String>>,
    name: Option<String>,
    cwd: Option<String>,
    #[serde(default)]
    env: Env,
    tty: Option<TtySize>,
    max_log_bytes: Option<u64>,
    stdin: Option<bool>,
}

impl StartRequest {
    fn check(self) -> Result<StartCall, ApiError> {
        let command = match (self.command, self.argv) {
            (Some(line), None) if line.trim().is_empty() => return Err(empty("command")),
            (Some(line), None) => Command::Shell(line),
            (None, Some(argv)) if argv.first().is_none_or(String::is_empty) => return Err(empty("argv")),
            (None, Some(argv)) => Command::Argv(argv),
            (None, None) => {
                return Err(ApiError::bad_field(
                    "command",
                    "missing_field",
                    "command: it takes this or argv",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(ApiError::bad_field(
                    "argv",
                    "conflict",
                    "argv: it takes this or command, not both",
                ));
            }
        };
        match &command {
            Command::Shell(line) => no_nul("command", line)?,
            Command::Argv(argv) => argv.iter().try_for_each(|argument| no_nul("argv", argument))?,
        }
        if let Some(name) = &self.name {
            check_name(name)?;
        }
        super::exec::check_place(self.cwd.as_deref(), &self.env)?;
        if let Some(side) = self.tty.and_then(TtySize::bad_side) {
            return Err(bad_size(&format!("tty.{side}")));
        }
        let max_log_bytes = self.max_log_bytes.unwrap_or(DEFAULT_LOG_BYTES);
        if max_log_bytes > MAX_LOG_BYTES {
            let message = format!("max_log_bytes: it must be at most {MAX_LOG_BYTES}; 0 keeps nothing");
            return Err(ApiError::bad_field("max_log_bytes", "out_of_range", message));
        }
        Ok(StartCall {
            command,
            name: self.name,
            cwd: self.cwd,
            env: self.env.0,
            tty: self.tty,
            max_log_bytes,
            stdin: self.stdin.unwrap_or(true),
        })
    }
}

fn empty(field: &str) -> ApiError {
    ApiError::bad_field(field, "empty", format!("{field}: there is nothing to run"))
}

fn bad_size(field: &str) -> ApiError {
    let message = format!("{field}: it must be from 1 to {}", TtySize::MAX);
    ApiError::bad_field(field, "out_of_range", message)
}

/// A process as `/api` shows it.
#[derive(Serialize)]
struct ApiView<'a> {
    process_id: &'a str,
    command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    state: &'static str,
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<Cow<'static, str>>,
    started_at_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at_ms: Option<i64>,
    /// The offset to go on from: after its newest output, or after what is given of it here.
    next: u64,
    #[serde(flatten)]
    page: Option<PageView>,
}

/// Output of one poll.
#[derive(Serialize)]
struct PageView {
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    from: u64,
    /// The offset after its newest output.
    end: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<GapView>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

impl<'a> ApiView<'a> {
    fn of(background: &'a Background) -> Self {
        let View { status, exit_code, signal, started_at_ms, finished_at_ms, .. } = background.view();
        Self {
            process_id: background.id(),
            command: background.command(),
            cwd: background.call().cwd.as_deref(),
            state: match status {
                Status::Starting | Status::Running => "running",
                Status::Exited | Status::Stopped | Status::Failed => "exited",
            },
            exit_code,
            signal,
            started_at_ms,
            finished_at_ms,
            next: background.handle().look(|process| process.log().end_offset()),
            page: None,
        }
    }
}

#[derive(Serialize)]
struct List<T> {
    processes: Vec<T>,
}

pub(super) async fn start(mut call: Call<'_>) -> Result<Response<Body>, ApiError> {
    let background = start_any(&mut call).await?;
    created(&call, &background, json(StatusCode::CREATED, &ApiView::of(&background))?)
}

pub(super) async fn start_v1(mut call: Call<'_>) -> Result<Response<Body>, ApiError> {
    let background = start_any(&mut call).await?;
    created(&call, &background, json(StatusCode::CREATED, &background.view())?)
}

async fn start_any(call: &mut Call<'_>) -> Result<Arc<Background>, ApiError> {
    let caller = call.caller(&SCOPES)?;
    let request: StartRequest = call.json(&caller).await?;
    call.plane.start_process(&caller, &call.reference, request.check()?, None).await
}

fn created(
    call: &Call<'_>,
    background: &Background,
    mut response: Response<Body>,
) -> Result<Response<Body>, ApiError> {
    let path = call.request.uri().path().trim_end_matches("/restart");
    let collection = path.find("/processes").map_or(path, |at| &path[..at + "/processes".len()]);
    if let Ok(location) = HeaderValue::from_str(&format!("{collection}/{}", background.id())) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

pub(super) fn list(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let all = call.plane.list_processes(&call.caller(&SCOPES)?, &call.reference)?;
    json(StatusCode::OK, &List { processes: all.iter().map(|one| ApiView::of(one)).collect() })
}

pub(super) fn list_v1(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let all = call.plane.list_processes(&call.caller(&SCOPES)?, &call.reference)?;
    json(StatusCode::OK, &List { processes: all.iter().map(|one| one.view()).collect() })
}

pub(super) fn show_v1(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    json(StatusCode::OK, &call.process()?.1.view())
}

/// The process, with what it printed since a cursor: at once, or once there is something.
pub(super) async fn show(call: Call<'_>) -> Result<Response<Body>, ApiError> {
    let (caller, background) = call.process()?;
    let query = Query::of(call.request.uri().query(), &["since", "encoding", "wait_seconds"])?;
    let start = query.cursor("since")?.map_or(Start::Oldest, Start::Offset);
    let (encoding, wait) = (encoding(&query)?, query.seconds("wait_seconds", MAX_WAIT)?);
    // Who waits holds as much as who streams.
    let open = (wait > Duration::ZERO).then(|| call.plane.open_to_wait(&caller, &background)).transpose()?;
    let page = call.plane.read_page(&background, start, encoding, wait, open).await?;
    call.plane.recheck(&caller)?;
    let (output, base64) = match encoding {
        Encoding::Text => (Some(page.text), None),
        Encoding::Base64 => (None, Some(BASE64_STANDARD.encode(page.bytes))),
    };
    let gap = page.gap.as_ref().map(GapView::from);
    let view = ApiView::of(&background);
    let shown = PageView { output, base64, from: page.from, end: view.next, gap, truncated: page.truncated };
    json(StatusCode::OK, &ApiView { next: page.next, page: Some(shown), ..view })
}

/// What the process prints, as events.
pub(super) fn stream(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let (caller, background) = call.process()?;
    let query = Query::of(call.request.uri().query(), &["since", "encoding"])?;
    let start = call.event_cursor(&query)?.map_or(Start::Oldest, Start::Offset);
    let connection = Some(Arc::clone(&call.connection));
    let stream = call.plane.follow(&caller, &background, start, encoding(&query)?, connection)?;
    Ok(events(Body::Follow(Box::new(EventBody::new(stream)))))
}

fn encoding(query: &Query<'_>) -> Result<Encoding, ApiError> {
    match query.get("encoding") {
        None | Some("text") => Ok(Encoding::Text),
        Some("base64") => Ok(Encoding::Base64),
        Some(_) => Err(ApiError::bad_field("encoding", "wrong_type", "encoding: it must be text or base64")),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InputRequest {
    input: Option<String>,
    base64: Option<String>,
    #[serde(default)]
    eof: bool,
}

pub(super) async fn input(mut call: Call<'_>) -> Result<Response<Body>, ApiError> {
    let (caller, background) = call.process()?;
    let InputRequest { input, base64, eof } = call.json(&caller).await?;
    let data = match (input, base64) {
        (Some(_), Some(_)) => {
            return Err(ApiError::bad_field(
                "base64",
                "conflict",
                "base64: it takes this or input, not both",
            ));
        }
        (Some(text), None) => Bytes::from(text),
        (None, Some(base64)) => BASE64_STANDARD
            .decode(base64)
            .map(Bytes::from)
            .map_err(|error| ApiError::bad_field("base64", "bad_base64", format!("base64: {error}")))?,
        (None, None) if eof => Bytes::new(),
        (None, None) => {
            return Err(ApiError::bad_field("input", "missing_field", "input: it takes this, base64 or eof"));
        }
    };
    background.input(data, eof)?;
    Ok(done())
}

/// Ends it: 202, and how it is now.
pub(super) fn stop(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let background = call.process()?.1;
    background.stop();
    json(StatusCode::ACCEPTED, &ApiView::of(&background))
}

pub(super) fn stop_v1(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let background = call.process()?.1;
    background.stop();
    json(StatusCode::ACCEPTED, &background.view())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignalRequest {
    name: String,
}

pub(super) async fn signal(mut call: Call<'_>) -> Result<Response<Body>, ApiError> {
    let (caller, background) = call.process()?;
    let SignalRequest { name } = call.json(&caller).await?;
    let signal = Signal::named(&name).ok_or_else(|| {
        let known: Vec<Cow<'static, str>> = Signal::ALL.map(Signal::name).into();
        let message = format!("name: no signal is named {name}; there is {}", known.join(", "));
        ApiError::bad_field("name", "unknown_signal", message)
    })?;
    background.signal(signal)?;
    Ok(done())
}

pub(super) async fn resize(mut call: Call<'_>) -> Result<Response<Body>, ApiError> {
    let (caller, background) = call.process()?;
    let size: TtySize = call.json(&caller).await?;
    if let Some(side) = size.bad_side() {
        return Err(bad_size(side));
    }
    background.resize(size)?;
    Ok(done())
}

/// Ends it where it runs, and starts it again.
pub(super) async fn restart(call: Call<'_>) -> Result<Response<Body>, ApiError> {
    let (caller, background) = call.process()?;
    let again = call.plane.restart_process(&caller, &background).await?;
    created(&call, &again, json(StatusCode::CREATED, &again.view())?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccessRequest {
    mode: Mode,
}

#[derive(Serialize)]
struct AccessView {
    url: String,
    token: String,
    expires_at: String,
}

/// A URL for a WebSocket, for one use.
pub(super) async fn stream_access(mut call: Call<'_>) -> Result<Response<Body>, ApiError> {
    let (caller, background) = call.process()?;
    let AccessRequest { mode } = call.json(&caller).await?;
    let minted = call.plane.mint(&caller, &background, mode)?;
    let base = call.websocket_base();
    let url = format!("{base}/v1/sandbox-process-stream?token={}", minted.token);
    let expires_at = timestamp(minted.expires_at_ms);
    json(StatusCode::OK, &AccessView { url, token: minted.token, expires_at })
}

/// RFC 3339, in UTC, to the second.
fn timestamp(ms: i64) -> String {
    let time = std::time::UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or(0));
    humantime::format_rfc3339_seconds(time).to_string()
}

impl Call<'_> {
    /// Who calls, and the process of theirs that the path names.
    fn process(&self) -> Result<(Caller, Arc<Background>), ApiError> {
        let caller = self.caller(&SCOPES)?;
        let background = self.plane.find_process(&caller, &self.reference, &self.process)?;
        Ok((caller, background))
    }

    /// Where a WebSocket is opened: where the operator says, or where this request came to.
    fn websocket_base(&self) -> String {
        let host = || {
            let host = self.request.headers().get(HOST).and_then(|host| host.to_str().ok());
            let authority = self.request.uri().authority().map(hyper::http::uri::Authority::as_str);
            format!("ws://{}", authority.or(host).unwrap_or("localhost"))
        };
        self.guard.public_url().map_or_else(host, |url| url.replacen("http", "ws", 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_others_read_it() {
        assert_eq!(timestamp(1_783_328_460_000), "2026-07-06T09:01:00Z");
    }

    fn refused(json: &str) -> (&'static str, Option<String>) {
        let request: StartRequest = serde_json::from_str(json).unwrap();
        let error = request.check().unwrap_err();
        (error.code(), error.field().map(str::to_owned))
    }

    #[test]
    fn a_start_that_cannot_be_one_names_its_field() {
        let field = |code, name: &str| (code, Some(name.to_owned()));
        assert_eq!(refused("{}"), field("missing_field", "command"));
        assert_eq!(refused(r#"{"command":" "}"#), field("empty", "command"));
        assert_eq!(refused(r#"{"argv":[]}"#), field("empty", "argv"));
        assert_eq!(refused(r#"{"argv":["a\u0000"]}"#), field("nul", "argv"));
        assert_eq!(refused(r#"{"argv":["a"],"command":"b"}"#), field("conflict", "argv"));
        assert_eq!(refused(r#"{"command":"a","name":"A"}"#), field("bad_name", "name"));
        assert_eq!(refused(r#"{"command":"a","cwd":""}"#), field("empty", "cwd"));
        assert_eq!(refused(r#"{"command":"a","env":{"":"x"}}"#), field("bad_name", "env"));
        assert_eq!(
            refused(r#"{"command":"a","tty":{"cols":0,"rows":1}}"#),
            field("out_of_range", "tty.cols")
        );
        assert_eq!(
            refused(r#"{"command":"a","tty":{"cols":1,"rows":10001}}"#),
            field("out_of_range", "tty.rows")
        );
        assert_eq!(
            refused(r#"{"command":"a","max_log_bytes":67108865}"#),
            field("out_of_range", "max_log_bytes")
        );
    }
}
