//! The messages about directories that are watched.

use super::{
    super::{
        process::Empty,
        rules::{base64, event_type, is_default, message, nullable},
    },
    EntryInfo,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A directory to watch: as a stream, or to be asked about.
#[derive(Clone, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WatchDirRequest {
    /// Which.
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub path: String,
    /// With those below it.
    #[prost(bool, tag = "2")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub recursive: bool,
    /// With what is there then.
    #[prost(bool, tag = "3")]
    #[serde(alias = "include_entry", deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub include_entry: bool,
    /// Also where the file system does not tell of what others change.
    #[prost(bool, tag = "4")]
    #[serde(
        alias = "allow_network_mounts",
        deserialize_with = "nullable",
        skip_serializing_if = "is_default"
    )]
    pub allow_network_mounts: bool,
    /// What is there already is told as if it had just been created. hangar's own.
    #[prost(bool, tag = "101")]
    #[serde(alias = "tells_existing", deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub tells_existing: bool,
}

/// What a stream about a directory says: one of the fields.
#[derive(Clone, Deserialize, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct WatchDirResponse {
    /// It is watched.
    #[prost(message, optional, tag = "1")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub start: Option<WatchStarted>,
    /// Something changed.
    #[prost(message, optional, tag = "2")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<FilesystemEvent>,
    /// A sign of life.
    #[prost(message, optional, tag = "3")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub keepalive: Option<Empty>,
}

/// A directory is watched.
#[derive(Clone, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct WatchStarted {
    /// Its absolute path. hangar's own.
    #[prost(string, tag = "101")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub path: String,
}

/// Something that changed, or that is to be known about what does. What is not a change has type 0.
#[derive(Clone, Deserialize, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FilesystemEvent {
    /// What, relative to what is watched, which is `.` itself.
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub name: String,
    /// 1 create, 2 write, 3 remove, 4 rename, 5 chmod.
    #[prost(int32, tag = "2")]
    #[serde(rename = "type", with = "event_type", skip_serializing_if = "is_default")]
    pub kind: i32,
    /// What is there now.
    #[prost(message, optional, tag = "3")]
    #[serde(deserialize_with = "message::read_optional", skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntryInfo>,
    /// The name where it is not UTF-8. hangar's own, as all that follows.
    #[prost(bytes = "bytes", optional, tag = "101")]
    #[serde(alias = "name_bytes", with = "base64", skip_serializing_if = "Option::is_none")]
    pub name_bytes: Option<Bytes>,
    /// What it was called before, for a rename inside of what is watched.
    #[prost(bytes = "bytes", optional, tag = "102")]
    #[serde(with = "base64", skip_serializing_if = "Option::is_none")]
    pub from: Option<Bytes>,
    /// Changes were lost: what is there now follows.
    #[prost(bool, tag = "103")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub overflow: bool,
    /// From here on every change is told.
    #[prost(bool, tag = "104")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub ready: bool,
    /// Why what is below the name is not told: `gone`, `denied`, `network` or `twice`.
    #[prost(string, optional, tag = "105")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blind: Option<String>,
    /// Why nothing follows: what is watched was `removed`, `moved` or `unmounted`.
    #[prost(string, optional, tag = "106")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
}

/// A watcher that is there to be asked.
#[derive(Clone, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CreateWatcherResponse {
    /// Its id, which nobody can guess.
    #[prost(string, tag = "1")]
    #[serde(alias = "watcher_id", deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub watcher_id: String,
}

/// A watcher that is asked, or is to be removed.
#[derive(Clone, Deserialize, Eq, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WatcherRequest {
    /// Which.
    #[prost(string, tag = "1")]
    #[serde(alias = "watcher_id", deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub watcher_id: String,
}

/// What changed since the watcher was asked last.
#[derive(Clone, Deserialize, PartialEq, prost::Message, Serialize)]
#[serde(default)]
pub struct WatcherEventsResponse {
    /// Each change.
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub events: Vec<FilesystemEvent>,
}
