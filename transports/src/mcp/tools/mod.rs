//! The tools: their arguments to calls of the plane, and what comes of those to results.

mod exec;
mod process;
mod sandboxes;

use super::{Outcome, Reply, RequestContext, plane};
use crate::{
    ApiError, Plane, api,
    plane::{sandboxes::Entry, tokens::Caller},
};
use hangar_core::wire::mcp::{
    message::RpcError,
    request::Call,
    types::{Tool, ToolCall},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json, value::RawValue};
use std::sync::Arc;

pub(super) use process::view as process_view;

/// The tools, always in this order.
pub(super) fn list() -> [Tool; 3] {
    [exec::tool(), process::tool(), sandboxes::tool()]
}

/// Calls a tool. What is wrong with its arguments, or with what they ask for, is told in a result, so that a model can
/// mend it.
pub(super) async fn call(plane: &Arc<Plane>, context: &RequestContext, call: &Call, tool: ToolCall) -> Reply {
    let arguments = tool.arguments.as_deref().map_or("{}", RawValue::get);
    let streams = call.meta.progress_token.is_some();
    let answered = match tool.name.as_str() {
        "exec" => exec::call(plane, context, arguments, streams).await,
        "process" => process::call(plane, context, arguments, streams).await,
        "sandboxes" => sandboxes::call(plane, context, arguments).await,
        other => {
            let names = list().map(|tool| tool.name).join(", ");
            let message = format!("params.name: there is no tool {other}; there is {names}");
            return Reply::Now(Err(RpcError::invalid_params(message)));
        }
    };
    answered.unwrap_or_else(|error| Reply::Now(refused(plane, &context.caller, &error)))
}

/// Why a tool did not do what it was asked to, and what to do next.
fn refused(plane: &Plane, caller: &Caller, error: &ApiError) -> Outcome {
    let next = match (error.code(), error.missing()) {
        ("not_found", Some("sandbox")) => Some(format!("There is {}", names(plane, caller))),
        ("not_found", Some("process")) => {
            Some("Use action list to see your processes; one that ended is listed for 10 minutes".to_owned())
        }
        ("process_exited", _) => {
            Some("Use action attach to read how it ended and what it printed".to_owned())
        }
        ("cursor_ahead", _) => {
            Some("Pass what an earlier attach gave as next, or leave it out for all that is kept".to_owned())
        }
        ("stdin_full", _) => {
            Some("It has not read what it was given before: wait, or write less at once".to_owned())
        }
        ("stdin_closed", _) => Some("Start another process to write more".to_owned()),
        ("too_many_processes", _) => {
            Some("Kill one that is no longer needed, or wait for its end".to_owned())
        }
        ("too_many_streams", _) => Some("Wait for another call to end, and try again".to_owned()),
        _ => None,
    };
    plane::refused(error, next.as_deref())
}

/// The names of the sandboxes that a caller may see.
fn names(plane: &Plane, caller: &Caller) -> String {
    let names: Vec<String> =
        plane.sandboxes().visible(caller).iter().map(|entry| entry.name().to_owned()).collect();
    if names.is_empty() { format!("none{}", making_one(plane, caller)) } else { names.join(", ") }
}

/// How the caller gets a sandbox, if they may make one.
fn making_one(plane: &Plane, caller: &Caller) -> &'static str {
    if caller.is_admin() && plane.sandboxes().can_make() {
        ": make one with the tool sandboxes, action create"
    } else {
        ": an admin has to make one that this token may use"
    }
}

/// The arguments of a tool: an object, whose faults are told by their field.
fn arguments<T: DeserializeOwned>(json: &str) -> Result<T, ApiError> {
    if json.starts_with('{') {
        return api::parse(json.as_bytes());
    }
    Err(ApiError::bad_field("arguments", "wrong_type", "arguments: they must be an object"))
}

/// The sandbox that is meant: the one that was named, or the only one there is.
fn sandbox(plane: &Plane, caller: &Caller, named: Option<&str>) -> Result<Arc<Entry>, ApiError> {
    if let Some(reference) = named {
        return plane.sandboxes().reachable(caller, reference);
    }
    match <[Arc<Entry>; 1]>::try_from(plane.sandboxes().visible(caller)) {
        Ok([only]) => plane.sandboxes().reachable(caller, only.id()),
        Err(several) => {
            let message = if several.is_empty() {
                format!("sandbox: there is none{}", making_one(plane, caller))
            } else {
                format!("sandbox: there is more than one: {}; say which", names(plane, caller))
            };
            Err(ApiError::bad_field("sandbox", "missing_field", message))
        }
    }
}

/// An argument that says where.
fn sandbox_schema() -> Value {
    json!({
        "type": "string",
        "description": "The sandbox, by name or id; needed where there is more than one (see the tool sandboxes)",
    })
}

/// An action that a tool does not have.
fn unknown_action(action: &str, actions: &[&str]) -> ApiError {
    let message = format!("action: there is no {action}; there is {}", actions.join(", "));
    ApiError::bad_field("action", "unknown_action", message)
}

/// What is refused is told in `structuredContent`, too.
fn error_schema() -> Value {
    json!({
        "type": "object",
        "description": "Why nothing was done, where nothing was",
        "properties": {
            "code": { "type": "string" },
            "message": { "type": "string" },
            "field": { "type": "string", "description": "The argument at fault" },
        },
    })
}
