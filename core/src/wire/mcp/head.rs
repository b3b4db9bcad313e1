//! The headers that repeat what the body of a request says, so that a proxy can route it without reading that.

use super::message::{RpcError, code};
use base64::prelude::{BASE64_STANDARD, Engine};
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
