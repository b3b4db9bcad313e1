//! Resources.

use super::{PIXEL, SERVER};
use hangar_core::wire::mcp::{
    request::Call,
    types::{Cache, ReadResource, cacheable},
};
use hangar_transports::mcp::{Outcome, not_found};
use serde_json::{Value, json};

/// The one that a tool changes.
pub(super) const WATCHED: &str = "test://watched-resource";

/// Whether there is one of that name.
pub(super) fn is_there(uri: &str) -> bool {
    matches!(uri, "test://static-text" | "test://static-binary") || uri == WATCHED
}

pub(super) fn list() -> Value {
    json!([
        {
            "uri": "test://static-text", "name": "static-text", "description": "A text", "mimeType": "text/plain",
        },
        {
            "uri": "test://static-binary", "name": "static-binary", "description": "An image", "mimeType": "image/png",
        },
        {
            "uri": WATCHED, "name": "watched-resource", "description": "A text that a tool changes",
            "mimeType": "text/plain",
        },
    ])
}

pub(super) fn templates() -> Value {
    json!([{
        "uriTemplate": "test://template/{id}/data", "name": "template", "description": "Data of an id",
        "mimeType": "application/json",
    }])
}

pub(super) fn read(call: &Call) -> Outcome {
    let ReadResource { uri } = call.params()?;
    let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
    let content = match (uri.as_str(), id) {
        ("test://static-text", _) => json!({
            "uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource.",
        }),
        (WATCHED, _) => json!({ "uri": uri, "mimeType": "text/plain", "text": "Watched." }),
        ("test://static-binary", _) => json!({ "uri": uri, "mimeType": "image/png", "blob": PIXEL }),
        (_, Some(id)) => {
            let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            json!({ "uri": uri, "mimeType": "application/json", "text": data.to_string() })
        }
        _ => {
            return Err(not_found(&uri));
        }
    };
    Ok(cacheable(json!({ "contents": [content] }), Cache::Live, &SERVER))
}
