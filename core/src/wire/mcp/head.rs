//! The headers that repeat what the body of a request says, so that a proxy can route it without reading that.

use super::{
    REVISION,
    message::{RpcError, code},
    revision::Revision,
};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::json;
use std::borrow::Cow;

/// The headers of a request that count. Names are in any case; spaces around a value are not part of it.
#[derive(Clone, Debug, Default)]
pub struct Head<'a> {
    /// `Content-Type`.
    pub content_type: Option<&'a [u8]>,
    /// Every `Accept`.
    pub accept: Vec<&'a [u8]>,
    /// `MCP-Protocol-Version`.
    pub version: Header<'a>,
    /// `Mcp-Method`.
    pub method: Header<'a>,
    /// `Mcp-Name`.
    pub name: Header<'a>,
    /// `Mcp-Session-Id`.
    pub session: Header<'a>,
}

impl Head<'_> {
    /// Whether it says that the request is of the revision without sessions, or of a later one.
    pub fn is_without_sessions(&self) -> bool {
        matches!(self.version, Header::Once(version) if is_date(version) && version >= REVISION.as_bytes())
    }

    /// Whether an event stream is an answer that is taken.
    pub fn accepts_events(&self) -> bool {
        self.accepts(&[b"text/event-stream", b"text/*"])
    }

    /// Whether one of these is an answer that is taken: any is where none is named.
    pub(super) fn accepts(&self, names: &[&[u8]]) -> bool {
        let mut accepted =
            self.accept.iter().flat_map(|value| value.split(|byte| *byte == b',')).map(essence);
        self.accept.is_empty() || accepted.any(|one| one == b"*/*" || names.contains(&one.as_slice()))
    }

    /// Whether the revision that it names, if it does, is one that has sessions.
    pub fn check_revision(&self) -> Result<(), RpcError> {
        let bad = |message: String| {
            let error =
                RpcError::new(code::INVALID_REQUEST, format!("the header MCP-Protocol-Version: {message}"));
            Err(error.with(json!({ "supported": Revision::names() })))
        };
        match self.version {
            Header::Missing => Ok(()),
            Header::Twice => bad("it is there more than once".to_owned()),
            Header::Once(version) => {
                let known = std::str::from_utf8(version).ok().and_then(Revision::named);
                if known.is_some_and(Revision::has_sessions) {
                    return Ok(());
                }
                bad(format!("the revision {} is not spoken here", String::from_utf8_lossy(version)))
            }
        }
    }
}

/// A header that may be there once.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Header<'a> {
    /// It is not there.
    #[default]
    Missing,
    /// It is there, once.
    Once(&'a [u8]),
    /// It is there more than once: nobody knows which of them whoever routed the request believed.
    Twice,
}

impl<'a> Header<'a> {
    /// From all the values of a header.
    pub fn of(mut values: impl Iterator<Item = &'a [u8]>) -> Self {
        match (values.next(), values.next()) {
            (None, _) => Self::Missing,
            (Some(value), None) => Self::Once(value.trim_ascii()),
            (Some(_), Some(_)) => Self::Twice,
        }
    }
}

/// A media type or range without its parameters, in lower case.
pub(super) fn essence(value: &[u8]) -> Vec<u8> {
    let end = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
    value[..end].trim_ascii().to_ascii_lowercase()
}

/// Whether it has the shape of a revision: a date.
fn is_date(version: &[u8]) -> bool {
    version.len() == REVISION.len()
        && version.iter().zip(REVISION.as_bytes()).all(|(byte, of)| match of {
            b'-' => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

/// Whether a header says what the body says.
pub(super) fn same(name: &str, header: Header<'_>, body: &str) -> Result<(), RpcError> {
    match header {
        Header::Once(value) if value == body.as_bytes() => Ok(()),
        Header::Once(_) => Err(mismatch(name, &format!("it does not say {body}, which the body says"))),
        Header::Missing => Err(mismatch(name, &format!("it is missing; the body says {body}"))),
        Header::Twice => Err(mismatch(name, "it is there more than once")),
    }
}

pub(super) fn mismatch(name: &str, message: &str) -> RpcError {
    RpcError::new(code::HEADER_MISMATCH, format!("the header {name}: {message}"))
}

/// The value of a header that may be wrapped: `=?base64?…?=`, of UTF-8.
pub fn decoded(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some(wrapped) = value.strip_prefix(b"=?base64?").and_then(|rest| rest.strip_suffix(b"?=")) else {
        return Some(Cow::Borrowed(value));
    };
    let plain = BASE64_STANDARD.decode(wrapped).ok()?;
    std::str::from_utf8(&plain).is_ok().then_some(Cow::Owned(plain))
}

/// A value as a header can say it, wrapped where it cannot as it is.
pub fn encoded(value: &str) -> String {
    let plain = value.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        && value.trim() == value
        && !value.starts_with("=?base64?");
    if plain { value.to_owned() } else { format!("=?base64?{}?=", BASE64_STANDARD.encode(value)) }
}
