//! The messages of `process.Process`: what is asked for, and what is told.

mod events;

use super::{
    super::connect::{Code, RpcError},
    one_of,
    rules::{base64, is_default, long, message, nullable, number, signal},
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use events::{DataEvent, EndEvent, ExitedEvent, ProcessEvent, StartEvent, StartResponse};

/// The service.
pub const SERVICE: &str = "process.Process";

/// What to run, and how.
#[derive(Clone, Deserialize, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StartRequest {
    /// What to run.
    #[prost(message, optional, tag = "1")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessConfig>,
    /// It gets a terminal.
    #[prost(message, optional, tag = "2")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub pty: Option<Pty>,
    /// A name to find it by.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Whether it gets input: it does where this is left out.
    #[prost(bool, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<bool>,
}

/// A program, its arguments and where it runs.
#[derive(Clone, Deserialize, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProcessConfig {
    /// The program.
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub cmd: String,
    /// Its arguments.
    #[prost(string, repeated, tag = "2")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub args: Vec<String>,
    /// Variables beyond the ones that are set anyway.
    #[prost(btree_map = "string, string", tag = "3")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub envs: BTreeMap<String, String>,
    /// Where it runs.
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// A terminal.
#[derive(Clone, Copy, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct Pty {
    /// Its size.
    #[prost(message, optional, tag = "1")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
}

/// The size of a terminal.
#[derive(Clone, Copy, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct Size {
    /// Columns.
    #[prost(uint32, tag = "1")]
    #[serde(deserialize_with = "number::read", skip_serializing_if = "is_default")]
    pub cols: u32,
    /// Rows.
    #[prost(uint32, tag = "2")]
    #[serde(deserialize_with = "number::read", skip_serializing_if = "is_default")]
    pub rows: u32,
}

/// A process that runs.
#[derive(Clone, Deserialize, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct ProcessInfo {
    /// What it is.
    #[prost(message, optional, tag = "1")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub config: Option<ProcessConfig>,
    /// Its number.
    #[prost(uint32, tag = "2")]
    #[serde(deserialize_with = "number::read", skip_serializing_if = "is_default")]
    pub pid: u32,
    /// Its name.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// Nothing to ask.
#[derive(Clone, Copy, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
pub struct Empty {}

/// The processes that run.
#[derive(Clone, Deserialize, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct ListResponse {
    /// Each of them.
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub processes: Vec<ProcessInfo>,
}

/// Which process: by its number or by its name.
#[derive(Clone, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct ProcessSelector {
    /// By its number.
    #[prost(uint32, optional, tag = "1")]
    #[serde(deserialize_with = "number::read_optional", skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// By its name: the newest that has it.
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// Which process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Selector {
    /// By its number.
    Pid(u32),
    /// By its name.
    Tag(String),
    /// By both: it has this number and this name. hangar's own.
    Both(u32, String),
}

impl ProcessSelector {
    fn one(self) -> Result<Selector, RpcError> {
        if let (Some(pid), Some(tag)) = (self.pid, &self.tag) {
            return Ok(Selector::Both(pid, tag.clone()));
        }
        one_of("process", "pid and tag", [self.pid.map(Selector::Pid), self.tag.map(Selector::Tag)])
    }
}

/// What a selector that is a field of a request says.
pub fn selected(process: Option<ProcessSelector>) -> Result<Selector, RpcError> {
    process.unwrap_or_default().one()
}

/// Which process to follow.
#[derive(Clone, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct ConnectRequest {
    /// That one.
    #[prost(message, optional, tag = "1")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSelector>,
}

/// What a running process is to be given.
#[derive(Clone, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct UpdateRequest {
    /// Which.
    #[prost(message, optional, tag = "1")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSelector>,
    /// Another size of its terminal.
    #[prost(message, optional, tag = "2")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub pty: Option<Pty>,
}

/// Input.
#[derive(Clone, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct ProcessInput {
    /// For a pipe.
    #[prost(bytes = "bytes", optional, tag = "1")]
    #[serde(with = "base64", skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Bytes>,
    /// For a terminal.
    #[prost(bytes = "bytes", optional, tag = "2")]
    #[serde(with = "base64", skip_serializing_if = "Option::is_none")]
    pub pty: Option<Bytes>,
}

/// Input, and for what.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Input {
    /// For a pipe.
    Stdin(Bytes),
    /// For a terminal.
    Pty(Bytes),
}

impl ProcessInput {
    /// The one that is set.
    pub fn one(self) -> Result<Input, RpcError> {
        one_of("input", "stdin and pty", [self.stdin.map(Input::Stdin), self.pty.map(Input::Pty)])
    }
}

/// Input for a process.
#[derive(Clone, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct SendInputRequest {
    /// Which process.
    #[prost(message, optional, tag = "1")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSelector>,
    /// What it gets.
    #[prost(message, optional, tag = "2")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub input: Option<ProcessInput>,
}

/// One message of a stream of input.
#[derive(Clone, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct StreamInputRequest {
    /// For which process what follows is.
    #[prost(message, optional, tag = "1")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub start: Option<ConnectRequest>,
    /// Input.
    #[prost(message, optional, tag = "2")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub data: Option<DataRequest>,
    /// A sign of life.
    #[prost(message, optional, tag = "3")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub keepalive: Option<Empty>,
}

/// Input in a stream.
#[derive(Clone, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct DataRequest {
    /// What it is.
    #[prost(message, optional, tag = "2")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub input: Option<ProcessInput>,
}

/// A signal for a process.
#[derive(Clone, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct SendSignalRequest {
    /// Which process.
    #[prost(message, optional, tag = "1")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSelector>,
    /// Its number.
    #[prost(int32, tag = "2")]
    #[serde(with = "signal", skip_serializing_if = "is_default")]
    pub signal: i32,
    /// For the whole group instead of the process alone. hangar's own, as is the next one.
    #[prost(bool, tag = "101")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub group: bool,
    /// The process is ended as a whole: TERM to its group, and KILL after 3 s to what is left of that and to what left it.
    #[prost(bool, tag = "102")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub end: bool,
}

/// The process whose input ends.
#[derive(Clone, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct CloseStdinRequest {
    /// Which.
    #[prost(message, optional, tag = "1")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSelector>,
}

/// What a client has of the output of a process that waits for that. hangar's own.
#[derive(Clone, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct AcknowledgeRequest {
    /// Which process.
    #[prost(message, optional, tag = "1")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSelector>,
    /// Everything before this byte.
    #[prost(uint64, tag = "2")]
    #[serde(with = "long", skip_serializing_if = "is_default")]
    pub offset: u64,
}

impl SendSignalRequest {
    /// The signal, if it is one.
    pub fn checked_signal(&self) -> Result<crate::process::Signal, RpcError> {
        let number = u8::try_from(self.signal).ok();
        number.and_then(crate::process::Signal::numbered).ok_or_else(|| {
            RpcError::new(Code::Unimplemented, format!("signal: {} is none of 1 to 31", self.signal))
        })
    }
}
