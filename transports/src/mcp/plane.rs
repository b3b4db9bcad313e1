//! hangar's own methods: its tools and its resources.

use super::{Followed, Handler, Outcome, Reply, RequestContext, listen, resources, tools};
use crate::{
    ApiError, Plane,
    plane::notices::{Notices, Purpose},
};
use hangar_backends::runtime::BoxFuture;
use hangar_core::wire::mcp::{
    listen::Topic,
    message::{RpcError, code},
    request::{Call, Offers},
    revision::Revision,
    session::Position,
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
    "subscriptions/listen",
];

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

    async fn answer(&self, context: &RequestContext, call: &Call) -> Outcome {
        match call.method.as_str() {
            "server/discover" => Ok(cacheable(
                json!({
                    "supportedVersions": Revision::names(),
                    "capabilities": {
                        "tools": {}, "resources": { "subscribe": true, "listChanged": true }, "prompts": {},
                    },
                    "instructions": INSTRUCTIONS,
                }),
                FIXED,
                &SERVER,
            )),
            "tools/list" => listed(call, "tools", &json!(tools::list()), FIXED),
            "prompts/list" => listed(call, "prompts", &json!([]), FIXED),
            "resources/templates/list" => listed(call, "resourceTemplates", &resources::templates(), FIXED),
            "resources/list" => {
                listed(call, "resources", &resources::list(&self.plane, context), Cache::Live)
            }
            "resources/read" => {
                resources::read(&self.plane, context, &call.params::<ReadResource>()?.uri).await
            }
            other => Err(RpcError::new(code::METHOD_NOT_FOUND, format!("there is no method {other} here"))),
        }
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
            match call.method.as_str() {
                "tools/call" => match call.params::<ToolCall>() {
                    Ok(tool) => tools::call(&self.plane, &context, call, tool).await,
                    Err(error) => Reply::Now(Err(error)),
                },
                "subscriptions/listen" => {
                    listen::call(self, self.plane.runtime(), &context, call, SERVER).await
                }
                _ => Reply::Now(self.answer(&context, call).await),
            }
        })
    }

    fn follow<'a>(
        &'a self,
        context: &'a RequestContext,
        topic: &'a Topic,
        since: Option<Position>,
    ) -> BoxFuture<'a, Result<Box<dyn Followed>, RpcError>> {
        Box::pin(resources::follow(&self.plane, context, topic, since))
    }

    fn open(&self, context: &RequestContext, purpose: Purpose) -> Result<Option<Notices>, ApiError> {
        self.plane.open_notices(&context.caller, context.connection.clone(), purpose).map(Some)
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
