//! `sandboxes`: where commands can run.

use super::{super::plane, Reply, RequestContext, arguments, error_schema, unknown_action};
use crate::{
    ApiError, Plane,
    api::sandbox::{ListView, View},
    plane::sandboxes::{NewLocal, NewSandbox},
};
use hangar_core::wire::mcp::types::Tool;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};
use std::sync::Arc;

const ACTIONS: [&str; 3] = ["list", "create", "destroy"];

/// What is to be done; the rest of the arguments depends on it.
#[derive(Deserialize)]
pub(super) struct Action {
    pub(super) action: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    #[serde(rename = "action")]
    _action: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateArguments {
    #[serde(rename = "action")]
    _action: IgnoredAny,
    name: Option<String>,
    workdir: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DestroyArguments {
    #[serde(rename = "action")]
    _action: IgnoredAny,
    sandbox: String,
}

pub(super) fn tool() -> Tool {
    let sandbox = json!({
        "type": "object",
        "properties": {
            "id": { "type": "string" },
            "name": { "type": "string" },
            "provider": { "enum": ["local", "envd"] },
            "url": { "type": "string" },
            "workdir": { "type": "string" },
            "state": { "enum": ["running", "paused", "destroyed"] },
            "created_at_ms": { "type": "integer" },
        },
    });
    Tool {
        name: "sandboxes",
        title: Some("Sandboxes"),
        description: "Lists the sandboxes in which commands can run, makes one on this machine, or destroys one with everything that runs \
            in it. Making and destroying need an admin token.",
        input_schema: json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["action"],
            "properties": {
                "action": { "enum": ACTIONS },
                "name": {
                    "type": "string",
                    "pattern": "^[a-z0-9][a-z0-9._-]{0,62}$",
                    "description": "create: its name; one is made up without it",
                },
                "workdir": { "type": "string", "description": "create: the directory that its commands run in" },
                "sandbox": { "type": "string", "description": "destroy: which one, by name or id" },
            },
        }),
        output_schema: Some(json!({
            "type": "object",
            "properties": {
                "sandboxes": { "type": "array", "items": sandbox, "description": "list" },
                "created": sandbox,
                "destroyed": { "type": "string", "description": "destroy: the name of what is gone" },
                "error": error_schema(),
            },
        })),
        annotations: Some(json!({ "destructiveHint": true, "openWorldHint": false })),
    }
}

pub(super) async fn call(
    plane: &Arc<Plane>,
    context: &RequestContext,
    json: &str,
) -> Result<Reply, ApiError> {
    let caller = &context.caller;
    let value = match arguments::<Action>(json)?.action.as_str() {
        "list" => {
            let ListArguments { _action } = arguments(json)?;
            json!(ListView::of(&plane.sandboxes().visible(caller)))
        }
        "create" => {
            let CreateArguments { _action, name, workdir } = arguments(json)?;
            admin_only(context)?;
            let new = NewSandbox::Local(NewLocal { workdir, daemon: true });
            let entry = plane.create_sandbox(name.as_deref(), new).await?;
            json!({ "created": View::from(&*entry) })
        }
        "destroy" => {
            let DestroyArguments { _action, sandbox } = arguments(json)?;
            admin_only(context)?;
            let entry = plane.sandboxes().find(caller, &sandbox)?;
            plane.destroy_sandbox(&entry).await?;
            json!({ "destroyed": Value::from(entry.name()) })
        }
        other => return Err(unknown_action(other, &ACTIONS)),
    };
    Ok(Reply::Now(plane::result(value)))
}

fn admin_only(context: &RequestContext) -> Result<(), ApiError> {
    if context.caller.is_admin() {
        return Ok(());
    }
    Err(ApiError::forbidden("only an admin token makes and destroys sandboxes"))
}
