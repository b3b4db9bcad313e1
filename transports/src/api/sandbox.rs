//! Sandboxes: to make, and as they are shown.

use crate::{
    ApiError,
    plane::{
        envd::NewEnvd,
        sandboxes::{Entry, NewLocal, NewSandbox},
    },
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A sandbox to make.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateRequest {
    pub(crate) name: Option<String>,
    provider: Option<String>,
    workdir: Option<String>,
    url: Option<String>,
    token: Option<String>,
    daemon: Option<bool>,
}

impl CreateRequest {
    /// What is asked for.
    pub(crate) fn new_sandbox(self) -> Result<NewSandbox, ApiError> {
        let Self { name: _, provider, workdir, url, token, daemon } = self;
        let none = |field, given: &Option<String>| match given {
            None => Ok(()),
            Some(_) => {
                let message = format!("{field}: a sandbox on this machine has none; its provider is `local`");
                Err(ApiError::bad_field(field, "unexpected", message))
            }
        };
        match provider.as_deref().unwrap_or("local") {
            "local" => {
                none("url", &url)?;
                none("token", &token)?;
                Ok(NewSandbox::Local(NewLocal { workdir, daemon: daemon.unwrap_or(true) }))
            }
            "envd" if daemon == Some(false) => {
                let message = "daemon: a sandbox of the provider `envd` is one behind a daemon";
                Err(ApiError::bad_field("daemon", "unexpected", message))
            }
            "envd" => {
                let missing =
                    || ApiError::bad_field("url", "missing_field", "url: it says where the daemon is");
                Ok(NewSandbox::Envd(NewEnvd { url: url.ok_or_else(missing)?, token, workdir }))
            }
            other => {
                let message = format!("provider: {other:?} is none of `local` and `envd`");
                Err(ApiError::bad_field("provider", "unknown_provider", message))
            }
        }
    }
}

/// A sandbox.
#[derive(Serialize)]
pub(crate) struct View<'a> {
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    pub(crate) provider: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workdir: Option<&'a str>,
    #[serde(skip_serializing_if = "is_true")]
    pub(crate) daemon: bool,
    pub(crate) state: &'a str,
    pub(crate) created_at_ms: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_true(value: &bool) -> bool {
    *value
}

impl<'a> From<&'a Entry> for View<'a> {
    fn from(entry: &'a Entry) -> Self {
        let made = entry.made();
        Self {
            id: entry.id(),
            name: entry.name(),
            provider: made.provider,
            url: made.url.as_deref(),
            workdir: made.workdir.as_deref(),
            daemon: made.daemon,
            state: entry.state().name(),
            created_at_ms: entry.created_at_ms(),
        }
    }
}

/// Sandboxes, oldest first.
#[derive(Serialize)]
pub(crate) struct ListView<'a> {
    pub(crate) sandboxes: Vec<View<'a>>,
}

impl<'a> ListView<'a> {
    pub(crate) fn of(entries: &'a [Arc<Entry>]) -> Self {
        Self { sandboxes: entries.iter().map(|entry| View::from(&**entry)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, Value, json};

    /// The properties of a schema of the description that clients are given.
    fn described(schema: &str) -> Map<String, Value> {
        let description: Value = serde_json::from_str(include_str!("../rest/openapi.json")).unwrap();
        description["components"]["schemas"][schema]["properties"].as_object().unwrap().clone()
    }

    #[test]
    fn the_description_has_every_field_and_no_other() {
        let view = View {
            id: "id",
            name: "name",
            provider: "envd",
            url: Some("url"),
            workdir: Some("/"),
            daemon: false,
            state: "running",
            created_at_ms: 1,
        };
        let shown = serde_json::to_value(view).unwrap();
        let fields: Vec<_> = shown.as_object().unwrap().keys().cloned().collect();
        assert_eq!(fields, described("Sandbox").keys().cloned().collect::<Vec<_>>());
        let request = described("SandboxRequest");
        let all: Map<_, _> = request.keys().map(|field| (field.clone(), Value::Null)).collect();
        assert!(serde_json::from_value::<CreateRequest>(all.into()).is_ok());
        let unknown =
            serde_json::from_value::<CreateRequest>(json!({ "kind": "local" })).err().unwrap().to_string();
        for field in request.keys() {
            assert!(unknown.contains(&format!("`{field}`")), "{unknown}");
        }
        assert_eq!(unknown.matches('`').count() / 2, request.len() + 1, "{unknown}");
    }
}
