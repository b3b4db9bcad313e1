//! What the headers of a request say.

use super::{Code, RpcError};
use std::time::Duration;

/// The header with the version of the protocol: it may be left out.
pub const PROTOCOL_VERSION: &str = "connect-protocol-version";
/// The header with the time that a call may take, in milliseconds.
pub const TIMEOUT: &str = "connect-timeout-ms";
/// The header that says how a stream's messages are compressed.
pub const CONTENT_ENCODING: &str = "connect-content-encoding";
/// The header in which a client says how often it wants a sign of life, in seconds. It is envd's own.
pub const KEEP_ALIVE: &str = "keepalive-ping-interval";

/// What the types of bodies that are taken look like, for the header `Accept-Post`.
pub const ACCEPT_POST: &str =
    "application/connect+json, application/connect+proto, application/json, application/proto";

/// How messages are written.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Codec {
    /// JSON by the rules of protobuf.
    Json,
    /// protobuf.
    Proto,
}

/// Whether a body is one message or a stream of them.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// One message, as it is.
    Unary,
    /// Messages in [envelopes](super::envelope).
    Stream,
}

/// The type of a body: `application/json` and so on.
pub const fn content_type(kind: Kind, codec: Codec) -> &'static str {
    match (kind, codec) {
        (Kind::Unary, Codec::Json) => "application/json",
        (Kind::Unary, Codec::Proto) => "application/proto",
        (Kind::Stream, Codec::Json) => "application/connect+json",
        (Kind::Stream, Codec::Proto) => "application/connect+proto",
    }
}

/// What a type of a body says. Parameters are allowed where they change nothing: `charset=utf-8` of JSON.
pub fn parse_content_type(value: &str) -> Option<(Kind, Codec)> {
    let (essence, parameters) = value.split_once(';').unwrap_or((value, ""));
    let essence = essence.trim();
    let known = [(Kind::Unary, Codec::Json), (Kind::Unary, Codec::Proto)]
        .into_iter()
        .chain([(Kind::Stream, Codec::Json), (Kind::Stream, Codec::Proto)]);
    let (kind, codec) =
        known.into_iter().find(|(kind, codec)| essence.eq_ignore_ascii_case(content_type(*kind, *codec)))?;
    let parameters = parameters.trim().trim_end_matches(';').trim();
    let charset = || {
        let (name, value) = parameters.split_once('=')?;
        let utf8 = value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8");
        Some(name.trim().eq_ignore_ascii_case("charset") && utf8 && codec == Codec::Json)
    };
    (parameters.is_empty() || charset() == Some(true)).then_some((kind, codec))
}

/// Checks the version of the protocol.
pub fn check_version(value: &str) -> Result<(), RpcError> {
    if value == "1" {
        return Ok(());
    }
    let message = format!("{PROTOCOL_VERSION}: must be \"1\", and is {value:?}");
    Err(RpcError::new(Code::InvalidArgument, message))
}

/// The time that a call may take. Nothing and less than nothing is over at once, as the protocol has it; a client that
/// wants no limit leaves the header out.
pub fn parse_timeout(value: &str) -> Result<Duration, RpcError> {
    let bad = || {
        let message =
            format!("{TIMEOUT}: must be a number of milliseconds of at most 10 digits, and is {value:?}");
        RpcError::new(Code::InvalidArgument, message)
    };
    let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
    if digits.is_empty() || digits.len() > 10 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    let millis = digits.parse().map_err(|_| bad())?;
    if millis == 0 || value.starts_with('-') {
        return Err(RpcError::new(
            Code::DeadlineExceeded,
            format!("{TIMEOUT}: the time was over before it began"),
        ));
    }
    Ok(Duration::from_millis(millis))
}

/// The shortest and the longest time between two signs of life.
pub const KEEP_ALIVES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(24 * 3600)];

/// The time between two signs of life: what is asked for, within [`KEEP_ALIVES`]; 90 s where nothing is asked for, or
/// nothing that is a number of seconds. It is never refused: envd's clients rely on that.
pub fn keep_alive(value: Option<&str>) -> Duration {
    const DEFAULT: Duration = Duration::from_secs(90);
    let [least, most] = KEEP_ALIVES;
    let Some(value) = value.map(str::trim) else { return DEFAULT };
    if let Ok(seconds) = value.parse() {
        return Duration::from_secs(seconds).clamp(least, most);
    }
    let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match (is_number, value.starts_with('-')) {
        (true, true) => least,
        (true, false) => most,
        (false, _) => DEFAULT,
    }
}
