//! `GET /v1/sandbox-process-stream`: from a ticket to a WebSocket. Every refusal is an HTTP answer, and the ticket of a
//! request that was refused can still be used.

use super::Call;
use crate::{
    ApiError,
    body::Body,
    plane::{
        follow::{Following, Start},
        tickets::{Mode, logging_disabled},
    },
    query::Query,
    ws::Upgrade,
};
use hangar_core::exec::Encoding;
use hyper::{
    Response, StatusCode,
    header::{
        CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION,
        UPGRADE,
    },
};
use tungstenite::handshake::derive_accept_key;

pub(super) async fn open(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let key = call.websocket_key()?;
    let query = Query::of(call.request.uri().query(), &["token", "seq", "tail"])?;
    let token = query.get("token").unwrap_or_default();
    let hint = start(&query)?;
    let (ticket, background) = call.plane.peek_ticket(token)?;
    if ticket.mode() == Mode::Logs && background.is_logging_disabled() {
        return Err(logging_disabled());
    }
    let start = hint.unwrap_or_else(|| match ticket.mode() {
        Mode::Logs => Start::Oldest,
        Mode::Attach => Start::Screen(background.view().tty),
    });
    // Without the connection: the session decides itself when its client is given up, and says so.
    let stream = call
        .plane
        .follow(ticket.caller(), &background, Following::streamed(start, Encoding::Base64, None))
        .await?;
    call.plane.redeem(token)?;
    call.connection.upgrade(Box::new(Upgrade::new(stream, ticket.mode())));
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    let accept =
        HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(|_| ApiError::internal())?;
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    Ok(response)
}

/// Where the client wants to begin, if it says so; `seq` counts more than `tail`.
fn start(query: &Query<'_>) -> Result<Option<Start>, ApiError> {
    let tail = match query.get("tail") {
        None => None,
        Some("all") => Some(Start::Oldest),
        Some(lines) => match lines.parse() {
            Ok(lines) if lines_are_digits(query.get("tail")) => Some(Start::Lines(lines)),
            Ok(_) | Err(_) => {
                let message = "tail: it must be a number of lines, or all";
                return Err(ApiError::bad_field("tail", "bad_cursor", message));
            }
        },
    };
    Ok(query.cursor("seq")?.map(Start::AfterSeq).or(tail))
}

fn lines_are_digits(tail: Option<&str>) -> bool {
    tail.is_some_and(|tail| tail.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Call<'_> {
    /// The key of a request that wants to become a WebSocket (RFC 6455, section 4.2.1).
    fn websocket_key(&self) -> Result<String, ApiError> {
        let headers = self.request.headers();
        let has = |name: &HeaderName, wanted: &str| {
            let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            values.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case(wanted))
        };
        if !has(&UPGRADE, "websocket") || !has(&CONNECTION, "upgrade") {
            return Err(ApiError::new(
                StatusCode::UPGRADE_REQUIRED,
                "upgrade_required",
                "this is opened as a WebSocket",
            )
            .with_upgrade());
        }
        if !has(&SEC_WEBSOCKET_VERSION, "13") {
            let message = "the only version of WebSockets is 13";
            return Err(
                ApiError::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message).with_upgrade()
            );
        }
        let key = headers.get(SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok()).unwrap_or_default();
        if key.len() != 24 {
            let message = "Sec-WebSocket-Key must be 16 bytes in base64";
            return Err(ApiError::bad_field("Sec-WebSocket-Key", "bad_key", message));
        }
        Ok(key.to_owned())
    }
}
