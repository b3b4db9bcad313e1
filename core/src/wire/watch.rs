//! What is told of a directory that is watched: events as JSON, over REST and MCP.
//!
//! A name is any bytes. One that is UTF-8 is told as text, another one as base64.

use crate::watch::{Blind, Event, Gap, Told};
use base64::{
    DecodeError,
    prelude::{BASE64_STANDARD, Engine},
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, str};

/// A change.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct EventView<'a> {
    /// Its number: what a client that comes back says it has.
    pub seq: u64,
    /// When it was told: milliseconds since 1970.
    pub ts: i64,
    /// To what, relative to the watched directory, which is `.`.
    #[serde(flatten)]
    pub name: NameView<'a>,
    /// What happened: `create`, `write`, `remove`, `rename`, `chmod` or `overflow`.
    #[serde(rename = "type")]
    pub kind: Cow<'a, str>,
    /// What it was called before, for a rename.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Cow<'a, str>>,
    /// The same, where it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_base64: Option<Cow<'a, str>>,
}

/// A name.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NameView<'a> {
    /// As it is.
    Name(Cow<'a, str>),
    /// It is not UTF-8.
    Base64(Cow<'a, str>),
}

impl<'a> NameView<'a> {
    /// How a name is told.
    pub fn of(name: &'a [u8]) -> Self {
        str::from_utf8(name).map_or_else(
            |_| Self::Base64(BASE64_STANDARD.encode(name).into()),
            |name| Self::Name(name.into()),
        )
    }

    /// The name itself; an error where it was told as something that is not base64.
    pub fn bytes(&self) -> Result<Bytes, DecodeError> {
        match self {
            Self::Name(name) => Ok(Bytes::copy_from_slice(name.as_bytes())),
            Self::Base64(base64) => BASE64_STANDARD.decode(&**base64).map(Bytes::from),
        }
    }
}

impl<'a> From<&'a Told> for EventView<'a> {
    fn from(Told { seq, ts_ms, event }: &'a Told) -> Self {
        let Event { kind, name, from } = event;
        let (from, from_base64) = match from.as_deref().map(NameView::of) {
            None => (None, None),
            Some(NameView::Name(from)) => (Some(from), None),
            Some(NameView::Base64(from)) => (None, Some(from)),
        };
        let (name, kind) = (NameView::of(name), kind.word().into());
        Self { seq: *seq, ts: *ts_ms, name, kind, from, from_base64 }
    }
}

impl EventView<'_> {
    /// What it was called before, for a rename; an error where that was told as something that is not base64.
    pub fn from_bytes(&self) -> Result<Option<Bytes>, DecodeError> {
        let from = self.from.clone().map(NameView::Name);
        let from = from.or_else(|| self.from_base64.clone().map(NameView::Base64));
        from.map(|from| from.bytes()).transpose()
    }
}

/// Everything up to here is told: what was there, if it was to be, and what changed since.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ReadyView<'a> {
    /// The directory: absolute.
    pub path: Cow<'a, str>,
    /// What to come back with: the number of the last event that was told.
    pub next: u64,
}

/// Events that are gone.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct GapView<'a> {
    /// The number of the first.
    pub from_seq: u64,
    /// That of the last.
    pub to_seq: u64,
    /// `evicted`: they are not kept any more; `adopted`: they are of an earlier watch.
    pub reason: Cow<'a, str>,
}

impl From<&Gap> for GapView<'static> {
    fn from(gap: &Gap) -> Self {
        let reason = if gap.is_adopted { "adopted" } else { "evicted" };
        Self { from_seq: gap.from_seq, to_seq: gap.to_seq, reason: reason.into() }
    }
}

/// A directory below the watched one of which nothing is told.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct UnwatchedView<'a> {
    /// Which, relative to the watched one.
    #[serde(flatten)]
    pub name: NameView<'a>,
    /// Why: `gone`, `denied`, `network` or `twice`.
    pub reason: Cow<'a, str>,
}

impl<'a> UnwatchedView<'a> {
    /// That nothing is told of `name`, and why.
    pub fn of(name: &'a [u8], why: Blind) -> Self {
        Self { name: NameView::of(name), reason: why.word().into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::Kind;

    fn json(event: Event) -> String {
        let told = Told { seq: 7, ts_ms: 1, event };
        let view = EventView::from(&told);
        let json = serde_json::to_string(&view).unwrap();
        assert_eq!(serde_json::from_str::<EventView<'_>>(&json).unwrap(), view);
        assert_eq!(view.name.bytes().unwrap(), told.event.name);
        assert_eq!(view.from_bytes().unwrap(), told.event.from);
        json
    }

    #[test]
    fn a_change_is_told_by_its_names() {
        let name = Bytes::from_static;
        assert_eq!(
            json(Event::new(Kind::Create, name("a/\u{e4} \"".as_bytes()))),
            "{\"seq\":7,\"ts\":1,\"name\":\"a/\u{e4} \\\"\",\"type\":\"create\"}"
        );
        assert_eq!(
            json(Event::rename(name(b"a"), name(b"b"))),
            r#"{"seq":7,"ts":1,"name":"b","type":"rename","from":"a"}"#
        );
        assert_eq!(json(Event::overflow()), r#"{"seq":7,"ts":1,"name":".","type":"overflow"}"#);
    }

    #[test]
    fn a_name_that_is_not_utf_8_is_told_as_base64() {
        let name = Bytes::from_static;
        assert_eq!(
            json(Event::rename(name(b"\xff"), name(b"a\xfe"))),
            r#"{"seq":7,"ts":1,"base64":"Yf4=","type":"rename","from_base64":"/w=="}"#
        );
        let broken: EventView<'_> =
            serde_json::from_str(r#"{"seq":1,"ts":1,"base64":"?","type":"write"}"#).unwrap();
        assert!(broken.name.bytes().is_err());
    }
}
