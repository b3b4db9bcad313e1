//! Sandboxes: to make, and as they are shown.

use crate::plane::sandboxes::Entry;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A sandbox to make.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateRequest {
    pub(crate) name: Option<String>,
    pub(crate) cwd: Option<String>,
}

/// A sandbox.
#[derive(Serialize)]
pub(crate) struct View<'a> {
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) state: &'a str,
    pub(crate) created_at_ms: i64,
}

impl<'a> From<&'a Entry> for View<'a> {
    fn from(entry: &'a Entry) -> Self {
        Self {
            id: entry.id(),
            name: entry.name(),
            kind: entry.kind(),
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
