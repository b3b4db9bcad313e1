//! Background processes: `/api/sandboxes/{ref}/processes` for who polls or reads events, and
//! `/v1/sandboxes/{ref}/processes` for who speaks the process protocol. One table, two ways to show it.

use super::{Call, Scope, done, events, json};
use crate::{
    ApiError,
    api::process::{ApiView, InputRequest, MAX_WAIT, PageView, StartRequest, bad_size},
    body::Body,
    plane::{
        background::Background,
        follow::{Following, Start},
        page::PAGE,
        tickets::Mode,
        tokens::Caller,
    },
    query::Query,
    sse::EventBody,
};
use base64::prelude::{BASE64_STANDARD, Engine};
use hangar_core::{
    exec::Encoding,
    process::{Signal, TtySize},
    wire::process::GapView,
};
use hyper::{
    Response, StatusCode,
    header::{HOST, HeaderValue, LOCATION},
};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, sync::Arc, time::Duration};

/// Who may have processes.
const SCOPES: [Scope; 2] = [Scope::Admin, Scope::User];

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
    call.plane.start_process(&caller, &call.reference, request.check()?).await
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
    let page = call.plane.read_page(&background, start, encoding, PAGE, wait, open).await?;
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
pub(super) async fn stream(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let (caller, background) = call.process()?;
    let query = Query::of(call.request.uri().query(), &["since", "encoding"])?;
    let start = call.event_cursor(&query)?.map_or(Start::Oldest, Start::Offset);
    let connection = Some(Arc::clone(&call.connection));
    let following = Following::streamed(start, encoding(&query)?, connection);
    let stream = call.plane.follow(&caller, &background, following).await?;
    Ok(events(Body::Follow(Box::new(EventBody::new(stream)))))
}

fn encoding(query: &Query<'_>) -> Result<Encoding, ApiError> {
    match query.get("encoding") {
        None | Some("text") => Ok(Encoding::Text),
        Some("base64") => Ok(Encoding::Base64),
        Some(_) => Err(ApiError::bad_field("encoding", "wrong_type", "encoding: it must be text or base64")),
    }
}

pub(super) async fn input(mut call: Call<'_>) -> Result<Response<Body>, ApiError> {
    let (caller, background) = call.process()?;
    let (data, eof) = call.json::<InputRequest>(&caller).await?.check()?;
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
        let known: Vec<Cow<'static, str>> = Signal::STANDARD.map(Signal::name).into();
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
}
