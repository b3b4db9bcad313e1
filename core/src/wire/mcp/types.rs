//! What the methods take and give, as far as hangar offers them.

use super::meta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};
use std::time::Duration;

/// Who serves.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Implementation {
    /// For programs.
    pub name: &'static str,
    /// Of the implementation, not of the protocol.
    pub version: &'static str,
}

/// How long a client may keep a result, and whether for others too.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cache {
    /// The same for everybody, for so long.
    Public(Duration),
    /// Of this client alone, and old as soon as it is there.
    Live,
}

/// The result of a call that is complete: `fields`, and what every such result has.
pub fn complete(fields: impl Serialize, server: &Implementation) -> Map<String, Value> {
    let mut result = match serde_json::to_value(fields) {
        Ok(Value::Object(fields)) => fields,
        // Only what serializes as an object is given here.
        Ok(_) | Err(_) => Map::new(),
    };
    result.entry("resultType").or_insert_with(|| "complete".into());
    let meta = result.entry("_meta").or_insert_with(|| json!({}));
    if let Value::Object(meta) = meta {
        meta.insert(meta::SERVER.to_owned(), json!(server));
    }
    result
}

/// The same for a result that clients keep.
pub fn cacheable(fields: impl Serialize, cache: Cache, server: &Implementation) -> Map<String, Value> {
    let (ttl, scope) = match cache {
        Cache::Public(ttl) => (u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX), "public"),
        Cache::Live => (0, "private"),
    };
    let mut result = complete(fields, server);
    result.insert("ttlMs".to_owned(), ttl.into());
    result.insert("cacheScope".to_owned(), scope.into());
    result
}

/// A tool, as `tools/list` shows it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// For programs.
    pub name: &'static str,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'static str>,
    /// For the model.
    pub description: &'static str,
    /// The JSON Schema of its arguments: an object.
    pub input_schema: Value,
    /// The JSON Schema of `structuredContent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Hints about what it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
}

/// The parameters of `tools/call`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Which tool.
    pub name: String,
    /// The raw JSON of its arguments.
    #[serde(default)]
    pub arguments: Option<Box<RawValue>>,
    /// Answers to what an earlier result of the same call asked for.
    #[serde(default)]
    pub input_responses: Option<Map<String, Value>>,
    /// What that result gave to come back with.
    #[serde(default)]
    pub request_state: Option<String>,
}

/// The parameters of `resources/read`.
#[derive(Clone, Debug, Deserialize)]
pub struct ReadResource {
    /// Which one.
    pub uri: String,
}

/// The parameters of a list.
#[derive(Clone, Debug, Deserialize)]
pub struct List {
    /// Where an earlier page ended.
    #[serde(default)]
    pub cursor: Option<Value>,
}

/// What a tool gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// For the model.
    pub content: Vec<Value>,
    /// For programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// Whether it says why it did not do what it was asked to.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

impl ToolResult {
    /// A value, and its JSON as text for clients that read only that: its fields in their own order.
    pub fn structured(value: impl Serialize) -> Self {
        // What is given here has strings for keys: this cannot fail.
        let json = serde_json::to_string(&value).unwrap_or_default();
        let value = serde_json::to_value(value).unwrap_or_default();
        Self { content: vec![text(json)], structured_content: Some(value), is_error: false }
    }

    /// Why a tool did not do what it was asked to, as `message` and for programs as `value`.
    pub fn error(message: impl Into<String>, value: Option<Value>) -> Self {
        Self { content: vec![text(message)], structured_content: value, is_error: true }
    }
}

/// A piece of text in a result.
pub fn text(text: impl Into<String>) -> Value {
    json!({ "type": "text", "text": text.into() })
}
