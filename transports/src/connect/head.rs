//! What the headers of a call say.

use super::Daemon;
use hangar_core::{
    Time,
    wire::connect::{
        Code, Codec, RpcError,
        head::{self, CONTENT_ENCODING, KEEP_ALIVE, PROTOCOL_VERSION, TIMEOUT},
    },
};
use hyper::{HeaderMap, header::HeaderValue};
use std::{borrow::Cow, time::Duration};

const RETENTION: &str = "hangar-retention";
const LOG: &str = "hangar-log";
const SINCE: &str = "hangar-since";
const WATCH: &str = "hangar-watch";

/// What a call's headers say.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) codec: Codec,
    pub(super) deadline: Option<Time>,
    pub(super) keep_alive: Duration,
    /// Whom the call names.
    pub(super) user: Option<String>,
    pub(super) extensions: Extensions,
}

impl Head {
    /// Reads them.
    pub(super) fn of(daemon: &Daemon, codec: Codec, headers: &HeaderMap) -> Result<Self, RpcError> {
        if let Some(version) = header(headers, PROTOCOL_VERSION)? {
            head::check_version(version)?;
        }
        for name in [CONTENT_ENCODING, "content-encoding"] {
            if let Some(encoding) = header(headers, name)?.filter(|encoding| *encoding != "identity") {
                let message = format!("{name}: messages are taken as they are, and not as {encoding:?}");
                return Err(RpcError::new(Code::Unimplemented, message));
            }
        }
        let timeout = header(headers, TIMEOUT)?.map(head::parse_timeout).transpose()?;
        Ok(Self {
            codec,
            deadline: timeout.map(|timeout| daemon.runtime.now() + timeout),
            keep_alive: head::keep_alive(header(headers, KEEP_ALIVE)?),
            user: user(headers)?,
            extensions: extensions(headers)?,
        })
    }
}

/// What a client that knows hangar asks for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Extensions {
    /// `Hangar-Retention`.
    pub(super) retention: Option<Retention>,
    /// `Hangar-Log`: bytes that are kept for who comes later.
    pub(super) log: Option<u64>,
    /// `Hangar-Since`: the offset to go on from.
    pub(super) since: Option<u64>,
    /// `Hangar-Watch`: what a watch tells beyond what envd does.
    pub(super) watch: bool,
}

/// How a process's output is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Retention {
    Ring { bytes: usize },
    UntilRead,
    UntilAcknowledged { bytes: usize },
}

impl Extensions {
    /// Whether a client that follows a process knows hangar.
    pub(super) const fn is_known(self) -> bool {
        self.retention.is_some() || self.log.is_some() || self.since.is_some()
    }
}

/// The value of a header; one that is no text is not passed over.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, RpcError> {
    let text = |value: &'a HeaderValue| {
        value.to_str().map_err(|_| RpcError::new(Code::InvalidArgument, format!("{name}: must be ASCII")))
    };
    headers.get(name).map(text).transpose()
}

/// The user of `Authorization: Basic`: its password counts for nothing.
pub(super) fn user(headers: &HeaderMap) -> Result<Option<String>, RpcError> {
    use base64::prelude::{BASE64_STANDARD, Engine as _};
    let Some(value) = header(headers, "authorization")? else { return Ok(None) };
    let (scheme, credentials) = value.split_once(' ').unwrap_or((value, ""));
    if !scheme.eq_ignore_ascii_case("basic") {
        return Ok(None);
    }
    let decoded =
        BASE64_STANDARD.decode(credentials.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let bad = || RpcError::new(Code::Unauthenticated, "Authorization: Basic has no user in it");
    let user = decoded.and_then(|text| Some(text.split_once(':')?.0.to_owned()));
    user.map(Some).ok_or_else(bad)
}

fn extensions(headers: &HeaderMap) -> Result<Extensions, RpcError> {
    let number = |name: &'static str, value: &str| {
        let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let bad = || bad_header(name, "must be a number of bytes", value);
        value.parse::<u64>().ok().filter(|_| digits).ok_or_else(bad)
    };
    let optional = |name: &'static str| header(headers, name)?.map(|value| number(name, value)).transpose();
    let retention = match header(headers, RETENTION)? {
        None => None,
        Some("until-read") => Some(Retention::UntilRead),
        Some(value) => {
            let must =
                "must be `until-read`, or `ring=<bytes>` or `until-acknowledged=<bytes>` with at least 1";
            let bad = || bad_header(RETENTION, must, value);
            let (word, bytes) = value.split_once('=').ok_or_else(bad)?;
            let bytes = number(RETENTION, bytes).ok().and_then(|bytes| usize::try_from(bytes).ok());
            let bytes = bytes.filter(|bytes| *bytes > 0).ok_or_else(bad)?;
            Some(match word {
                "ring" => Retention::Ring { bytes },
                "until-acknowledged" => Retention::UntilAcknowledged { bytes },
                _ => return Err(bad()),
            })
        }
    };
    let watch = match header(headers, WATCH)? {
        None => false,
        Some("1") => true,
        Some(value) => return Err(bad_header(WATCH, "must be 1", value)),
    };
    Ok(Extensions { retention, log: optional(LOG)?, since: optional(SINCE)?, watch })
}

fn bad_header(name: &'static str, must: &str, value: &str) -> RpcError {
    let message: Cow<'static, str> = format!("{name}: {must}, and is {value:?}").into();
    RpcError::new(Code::InvalidArgument, message)
}
