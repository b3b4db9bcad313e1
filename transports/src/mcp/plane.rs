//! hangar's own methods: its tools, and its sandboxes as a resource.

use super::{Handler, Outcome, Reply, RequestContext, tools};
use crate::{ApiError, Plane, api::sandbox::ListView};
use hangar_backends::runtime::BoxFuture;
use hangar_core::wire::mcp::{
    REVISION,
    message::{RpcError, code},
    request::{Call, Offers},
    types::{Cache, Implementation, List, ReadResource, ToolCall, ToolResult, cacheable, complete},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Who serves.
pub(super) const SERVER: Implementation =
    Implementation { name: "hangar", version: env!("CARGO_PKG_VERSION") };

/// What changes with the server's version only may be kept this long.
const FIXED: Cache = Cache::Public(Duration::from_secs(3600));

/// The methods that there are.
pub(crate) const METHODS: &[&str] = &[
    "server/discover",
    "tools/list",
    "tools/call",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

/// The sandboxes, as a resource.
const SANDBOXES: &str = "hangar://sandboxes";

/// What a model is told of the server as a whole.
const INSTRUCTIONS: &str = "hangar runs commands in sandboxes. Use the tool exec for a command whose result you wait for, \
and process for one that goes on in the background (servers, watchers, long builds): start it, attach to read what it \
printed and to wait for more, write to it, kill it. A process goes on when a call ends; exec does not. The tool sandboxes \
says where commands can run; with a single sandbox you need not name it.";

/// Answers calls for a plane.
#[derive(Debug)]
pub struct PlaneHandler {
    plane: Arc<Plane>,
}

impl PlaneHandler {
    /// The tools and resources of a plane.
    pub const fn new(plane: Arc<Plane>) -> Self {
        Self { plane }
    }

    fn answer(&self, context: &RequestContext, call: &Call) -> Outcome {
        match call.method.as_str() {
            "server/discover" => Ok(cacheable(
                json!({
                    "supportedVersions": [REVISION],
                    "capabilities": { "tools": {}, "resources": {}, "prompts": {} },
                    "instructions": INSTRUCTIONS,
                }),
                FIXED,
                &SERVER,
            )),
            "tools/list" => listed(call, "tools", &json!(tools::list()), FIXED),
            "prompts/list" => listed(call, "prompts", &json!([]), FIXED),
            "resources/templates/list" => listed(call, "resourceTemplates", &json!([]), FIXED),
            "resources/list" => {
                let resource = json!({
                    "uri": SANDBOXES, "name": "sandboxes", "title": "Sandboxes", "mimeType": "application/json",
                    "description": "The sandboxes in which commands can run, and the state of each",
                });
                listed(call, "resources", &json!([resource]), FIXED)
            }
            "resources/read" => self.read(context, &call.params::<ReadResource>()?.uri),
            other => Err(RpcError::new(code::METHOD_NOT_FOUND, format!("there is no method {other} here"))),
        }
    }

    fn read(&self, context: &RequestContext, uri: &str) -> Outcome {
        if uri != SANDBOXES {
            let error = RpcError::invalid_params(format!("params.uri: there is no resource {uri}"));
            return Err(error.with(json!({ "uri": uri })));
        }
        let entries = self.plane.sandboxes().visible(&context.caller);
        let text = json!(ListView::of(&entries)).to_string();
        let contents = json!([{ "uri": uri, "mimeType": "application/json", "text": text }]);
        Ok(cacheable(json!({ "contents": contents }), Cache::Live, &SERVER))
    }
}

/// A list that has one page.
fn listed(call: &Call, name: &str, items: &Value, cache: Cache) -> Outcome {
    match call.params::<List>()?.cursor {
        None | Some(Value::Null) => Ok(cacheable(json!({ name: items }), cache, &SERVER)),
        Some(_) => {
            Err(RpcError::invalid_params("params.cursor: it was not given out here; the list has one page"))
        }
    }
}

impl Handler for PlaneHandler {
    fn offers(&self) -> Offers<'_> {
        Offers { methods: METHODS }
    }

    fn call<'a>(&'a self, context: RequestContext, call: &'a Call) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            if call.method != "tools/call" {
                return Reply::Now(self.answer(&context, call));
            }
            match call.params::<ToolCall>() {
                Ok(tool) => tools::call(&self.plane, &context, call, tool).await,
                Err(error) => Reply::Now(Err(error)),
            }
        })
    }
}

/// The result of a tool that did what it was asked to.
pub(super) fn result(value: impl serde::Serialize) -> Outcome {
    Ok(complete(ToolResult::structured(value), &SERVER))
}

/// The result of a tool that did not, with what to do next where that is known.
pub(super) fn refused(error: &ApiError, next: Option<&str>) -> Outcome {
    let message = next.map_or_else(|| error.to_string(), |next| format!("{error}. {next}"));
    let result = ToolResult::error(message, Some(error.json()));
    Ok(complete(result, &SERVER))
}
