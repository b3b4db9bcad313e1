//! The messages of `filesystem.Filesystem`.

mod watch;

use super::rules::{file_type, is_default, long, message, nullable, number, timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use prost_types::Timestamp;
pub use watch::{
    CreateWatcherResponse, FilesystemEvent, WatchDirRequest, WatchDirResponse, WatchStarted,
    WatcherEventsResponse, WatcherRequest,
};

/// The service.
pub const SERVICE: &str = "filesystem.Filesystem";

/// A path to look at, to make a directory at, or to remove.
#[derive(Clone, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct PathRequest {
    /// Absolute, or relative to the user's home.
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub path: String,
}

/// A file to move.
#[derive(Clone, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct MoveRequest {
    /// From where.
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub source: String,
    /// To where.
    #[prost(string, tag = "2")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub destination: String,
}

/// A directory to list.
#[derive(Clone, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct ListDirRequest {
    /// Which.
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub path: String,
    /// How many levels of it; 0 is 1.
    #[prost(uint32, tag = "2")]
    #[serde(deserialize_with = "number::read", skip_serializing_if = "is_default")]
    pub depth: u32,
}

/// One entry.
#[derive(Clone, Deserialize, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct EntryResponse {
    /// What is there.
    #[prost(message, optional, tag = "1")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntryInfo>,
}

/// What a directory has.
#[derive(Clone, Deserialize, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct ListDirResponse {
    /// Each entry.
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub entries: Vec<EntryInfo>,
}

/// A file, a directory or a link.
#[derive(Clone, Deserialize, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EntryInfo {
    /// The last part of its path.
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub name: String,
    /// 1 a file, 2 a directory, 3 a symbolic link, 0 something else.
    #[prost(int32, tag = "2")]
    #[serde(rename = "type", with = "file_type", skip_serializing_if = "is_default")]
    pub kind: i32,
    /// Where it is.
    #[prost(string, tag = "3")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub path: String,
    /// Its bytes.
    #[prost(int64, tag = "4")]
    #[serde(with = "long", skip_serializing_if = "is_default")]
    pub size: i64,
    /// Its permission bits.
    #[prost(uint32, tag = "5")]
    #[serde(deserialize_with = "number::read", skip_serializing_if = "is_default")]
    pub mode: u32,
    /// The same for a person: `-rw-r--r--`.
    #[prost(string, tag = "6")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub permissions: String,
    /// The name of its user.
    #[prost(string, tag = "7")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub owner: String,
    /// The name of its group.
    #[prost(string, tag = "8")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub group: String,
    /// When it was last written.
    #[prost(message, optional, tag = "9")]
    #[serde(alias = "modified_time", with = "timestamp", skip_serializing_if = "Option::is_none")]
    pub modified_time: Option<Timestamp>,
    /// Where a link leads.
    #[prost(string, optional, tag = "10")]
    #[serde(alias = "symlink_target", skip_serializing_if = "Option::is_none")]
    pub symlink_target: Option<String>,
    /// What was stored with it.
    #[prost(btree_map = "string, string", tag = "11")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub metadata: BTreeMap<String, String>,
}
