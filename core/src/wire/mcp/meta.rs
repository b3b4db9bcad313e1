//! `_meta`: what a request says about itself.

use super::message::{Id, RpcError, without_place};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

/// The revision of a request.
pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// What the client of a request can do.
pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// From which level on a request wants log messages.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// To which subscription a message belongs.
pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// Who answers.
pub const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// What a request says about itself.
#[derive(Clone, Debug, Default)]
pub struct Meta {
    /// Under which name it wants progress, if it does.
    pub progress_token: Option<Id>,
    /// From which level on it wants log messages, if it does.
    pub log_level: Option<LogLevel>,
    /// What its client can do.
    pub capabilities: Map<String, Value>,
}

/// How grave a log message is, the least first.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "each is the level of its name, of RFC 5424")]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

/// The parts of `_meta` that the ladder looks at.
#[derive(Deserialize)]
pub(super) struct KnownMeta {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Value>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<Value>,
    #[serde(rename = "io.modelcontextprotocol/logLevel")]
    log_level: Option<Value>,
    #[serde(default, rename = "progressToken", deserialize_with = "token")]
    progress_token: Option<Value>,
}

/// A token that is there, null included.
fn token<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Under which name a request of the revisions with sessions wants progress, if it does: all that it says about itself.
pub(super) fn progress_token(meta: Option<&RawValue>) -> Result<Option<Id>, RpcError> {
    #[derive(Deserialize)]
    struct Known {
        #[serde(default, rename = "progressToken", deserialize_with = "token")]
        progress_token: Option<Value>,
    }
    let Some(meta) = meta else { return Ok(None) };
    if !meta.get().starts_with('{') {
        return Err(bad_meta("", "it must be an object"));
    }
    let known: Known =
        serde_json::from_str(meta.get()).map_err(|error| bad_meta("", &without_place(&error)))?;
    as_token(known.progress_token)
}

fn as_token(token: Option<Value>) -> Result<Option<Id>, RpcError> {
    let token = token.map(Id::deserialize).transpose();
    token.map_err(|_| bad_meta(".progressToken", "it must be a string or a whole number"))
}

fn bad_meta(field: &str, message: &str) -> RpcError {
    RpcError::invalid_params(format!("params._meta{field}: {message}"))
}

impl KnownMeta {
    /// Whether it names a revision: those with sessions have no such member.
    pub(super) fn names_revision(meta: Option<&RawValue>) -> bool {
        Self::parse(meta).is_ok_and(|meta| meta.version.is_some())
    }

    /// From the raw JSON of it.
    pub(super) fn parse(meta: Option<&RawValue>) -> Result<Self, RpcError> {
        let needed = || format!("it must have {VERSION} and {CAPABILITIES}");
        let Some(meta) = meta else {
            return Err(bad_meta("", &format!("it is missing; {}", needed())));
        };
        // serde would take an array for the members of a struct.
        if !meta.get().starts_with('{') {
            return Err(bad_meta("", &format!("it must be an object; {}", needed())));
        }
        serde_json::from_str(meta.get()).map_err(|error| bad_meta("", &without_place(&error)))
    }

    /// The revision of the request.
    pub(super) fn version(&self) -> Result<&str, RpcError> {
        let field = format!(".{VERSION}");
        match &self.version {
            Some(Value::String(version)) => Ok(version),
            Some(_) => Err(bad_meta(&field, "it must be a string")),
            None => Err(bad_meta(&field, "it is missing")),
        }
    }

    /// The rest of it.
    pub(super) fn whole(self) -> Result<Meta, RpcError> {
        let field = format!(".{CAPABILITIES}");
        let capabilities = match self.capabilities {
            Some(Value::Object(capabilities)) => capabilities,
            Some(_) => return Err(bad_meta(&field, "it must be an object")),
            None => return Err(bad_meta(&field, "it is missing")),
        };
        let progress_token = as_token(self.progress_token)?;
        let log_level = self
            .log_level
            .map(LogLevel::deserialize)
            .transpose()
            .map_err(|_| bad_meta(&format!(".{LOG_LEVEL}"), "there is no such level"))?;
        Ok(Meta { progress_token, log_level, capabilities })
    }
}
