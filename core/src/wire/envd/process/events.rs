//! What a stream about a process tells.

use super::{
    super::rules::{base64, is_default, message, nullable, number, optional_long},
    Empty,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// One message of a stream that follows a process.
#[derive(Clone, Deserialize, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct StartResponse {
    /// What happened.
    #[prost(message, optional, tag = "1")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub event: Option<ProcessEvent>,
}

/// Something that happened to a process: one of these.
#[derive(Clone, Deserialize, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct ProcessEvent {
    /// It runs. The first event.
    #[prost(message, optional, tag = "1")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub start: Option<StartEvent>,
    /// It printed.
    #[prost(message, optional, tag = "2")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub data: Option<DataEvent>,
    /// It ended, and all that it printed was told.
    #[prost(message, optional, tag = "3")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub end: Option<EndEvent>,
    /// Nothing.
    #[prost(message, optional, tag = "4")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub keepalive: Option<Empty>,
    /// It ended; more of what it printed may follow. hangar's own.
    #[prost(message, optional, tag = "104")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub exited: Option<ExitedEvent>,
}

/// A process runs.
#[derive(Clone, Copy, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct StartEvent {
    /// Its number.
    #[prost(uint32, tag = "1")]
    #[serde(deserialize_with = "number::read", skip_serializing_if = "is_default")]
    pub pid: u32,
    /// The frame in which what follows begins. hangar's own, as is the next one.
    #[prost(uint64, optional, tag = "101")]
    #[serde(with = "optional_long", skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The offset at which what follows begins: above the one that was asked for where what is between is gone.
    #[prost(uint64, optional, tag = "102")]
    #[serde(with = "optional_long", skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
}

/// A process printed.
#[derive(Clone, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataEvent {
    /// On standard output.
    #[prost(bytes = "bytes", optional, tag = "1")]
    #[serde(with = "base64", skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Bytes>,
    /// On standard error.
    #[prost(bytes = "bytes", optional, tag = "2")]
    #[serde(with = "base64", skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Bytes>,
    /// On its terminal.
    #[prost(bytes = "bytes", optional, tag = "3")]
    #[serde(with = "base64", skip_serializing_if = "Option::is_none")]
    pub pty: Option<Bytes>,
    /// The number of the frame. hangar's own, as are the next two.
    #[prost(uint64, optional, tag = "101")]
    #[serde(with = "optional_long", skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The offset of its first byte.
    #[prost(uint64, optional, tag = "102")]
    #[serde(with = "optional_long", skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// When its first byte was read: milliseconds since 1970.
    #[prost(int64, optional, tag = "103")]
    #[serde(alias = "ts_ms", with = "optional_long", skip_serializing_if = "Option::is_none")]
    pub ts_ms: Option<i64>,
}

/// How a process ended.
#[derive(Clone, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndEvent {
    /// What it returned; -1 where it did not.
    #[prost(sint32, tag = "1")]
    #[serde(alias = "exit_code", deserialize_with = "number::read", skip_serializing_if = "is_default")]
    pub exit_code: i32,
    /// Whether it returned: no signal ended it.
    #[prost(bool, tag = "2")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub exited: bool,
    /// For a person: `exit status 2`, `signal: killed`.
    #[prost(string, tag = "3")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub status: String,
    /// The same where it is not 0.
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The number of the signal that ended it. hangar's own, as is the next one.
    #[prost(uint32, tag = "101")]
    #[serde(deserialize_with = "number::read", skip_serializing_if = "is_default")]
    pub signal: u32,
    /// Somebody still held its output open when the time to wait for that was over.
    #[prost(bool, tag = "102")]
    #[serde(alias = "drain_timed_out", deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub drain_timed_out: bool,
}

/// A process ended. hangar's own.
#[derive(Clone, Copy, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExitedEvent {
    /// What it returned; -1 where it did not.
    #[prost(sint32, tag = "1")]
    #[serde(alias = "exit_code", deserialize_with = "number::read", skip_serializing_if = "is_default")]
    pub exit_code: i32,
    /// The number of the signal that ended it.
    #[prost(uint32, tag = "2")]
    #[serde(deserialize_with = "number::read", skip_serializing_if = "is_default")]
    pub signal: u32,
}
