//! `process`: background processes. Reading one is in [`attach`].

mod attach;

use super::{
    super::{plane, resources},
    Reply, RequestContext, arguments, error_schema, sandbox, sandbox_schema,
    sandboxes::Action,
    unknown_action,
};
use crate::{
    ApiError, Plane,
    api::{
        Env,
        process::{ApiView, InputRequest, MAX_WAIT, StartRequest},
    },
    plane::background::Background,
};
use hangar_backends::runtime::until;
use hangar_core::{process::Process, wire::mcp::types::Tool};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};

const ACTIONS: [&str; 5] = ["start", "attach", "input", "kill", "list"];

/// How long `kill` waits for the end: TERM, 3 s, KILL, and what that takes.
const KILL: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartArguments {
    #[serde(rename = "action")]
    _action: IgnoredAny,
    sandbox: Option<String>,
    command: Option<String>,
    argv: Option<Vec<String>>,
    name: Option<String>,
    cwd: Option<String>,
    #[serde(default)]
    env: Env,
    max_log_bytes: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InputArguments {
    #[serde(rename = "action")]
    _action: IgnoredAny,
    sandbox: Option<String>,
    process_id: String,
    input: Option<String>,
    base64: Option<String>,
    #[serde(default)]
    eof: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KillArguments {
    #[serde(rename = "action")]
    _action: IgnoredAny,
    sandbox: Option<String>,
    process_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    #[serde(rename = "action")]
    _action: IgnoredAny,
    sandbox: Option<String>,
}

pub(super) fn tool() -> Tool {
    Tool {
        name: "process",
        title: Some("Background processes"),
        description: "Background processes, which go on when a call ends. \
            start: starts a command (bash -lc) and returns its process_id at once. \
            attach: reads what it printed from the offset since on (all that is kept without it), then goes on for \
            wait_seconds or until it ends, whatever comes meanwhile, or with until_output only until something is \
            there; returns the last 64 KiB of what it read, its state and exit_code, and \
            next: pass that as since the next time, at once where it is below end. With progress asked for, output comes \
            as it prints, at a limited pace. \
            input: writes to its stdin; eof ends that. \
            kill: ends it and what it started: TERM, and KILL 3 s later. \
            list: your processes, those of the last 10 minutes included. \
            The last 256 KiB of output are kept (max_log_bytes), also while nobody is attached.",
        input_schema: json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["action"],
            "properties": {
                "action": { "enum": ACTIONS },
                "sandbox": sandbox_schema(),
                "process_id": { "type": "string", "description": "attach, input, kill: its id, or the name it was given" },
                "command": { "type": "string", "description": "start: a line for bash -lc" },
                "argv": {
                    "type": "array",
                    "items": { "type": "string" },
                    "description": "start: a program and its arguments, instead of command",
                },
                "name": { "type": "string", "description": "start: a name to find it by" },
                "cwd": { "type": "string", "description": "start: the directory to run it in" },
                "env": {
                    "type": "object",
                    "additionalProperties": { "type": "string" },
                    "description": "start: variables beyond those of the sandbox",
                },
                "max_log_bytes": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": 67_108_864,
                    "default": 262_144,
                    "description": "start: bytes of output to keep",
                },
                "since": { "type": "integer", "minimum": 0, "description": "attach: the offset to read from: next of before" },
                "wait_seconds": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": MAX_WAIT,
                    "default": 0,
                    "description": "attach: how long to go on reading",
                },
                "until_output": {
                    "type": "boolean",
                    "default": false,
                    "description": "attach: return as soon as there is output, and do not wait for the rest of the time",
                },
                "input": { "type": "string", "description": "input: text to write; end a line with a line break" },
                "base64": { "type": "string", "description": "input: bytes to write, instead of input" },
                "eof": { "type": "boolean", "default": false, "description": "input: nothing follows" },
            },
        }),
        output_schema: Some(output_schema()),
        annotations: Some(json!({ "destructiveHint": true, "openWorldHint": true })),
    }
}

fn output_schema() -> Value {
    let process = json!({
        "process_id": { "type": "string" },
        "sandbox": { "type": "string" },
        "output_uri": { "type": "string", "description": "The resource to read its output from, and to be told by of more" },
        "name": { "type": "string" },
        "command": { "type": "string" },
        "cwd": { "type": "string" },
        "state": { "enum": ["running", "exited"] },
        "exit_code": { "type": ["integer", "null"] },
        "signal": { "type": "string", "description": "The signal that ended it" },
        "started_at_ms": { "type": "integer" },
        "finished_at_ms": { "type": "integer" },
        "next": { "type": "integer", "description": "The offset to go on from" },
    });
    let mut properties = process.clone();
    let more = json!({
        "output": { "type": "string", "description": "attach: what it printed, the last 64 KiB" },
        "from": { "type": "integer", "description": "attach: the offset at which output begins" },
        "end": { "type": "integer", "description": "attach: the offset after its newest output" },
        "truncated": { "type": "boolean", "description": "attach: there was more before output" },
        "gap": { "type": "object", "description": "attach: output that is gone, with its offsets" },
        "closed": { "type": "string", "description": "attach: why this ended before the process did and the wait was over" },
        "drain_timed_out": { "type": "boolean" },
        "processes": {
            "type": "array",
            "description": "list",
            "items": { "type": "object", "properties": process },
        },
        "error": error_schema(),
    });
    if let (Value::Object(properties), Value::Object(more)) = (&mut properties, more) {
        properties.extend(more);
    }
    json!({ "type": "object", "properties": properties })
}

pub(super) async fn call(
    plane: &Arc<Plane>,
    context: &RequestContext,
    json: &str,
    wants_progress: bool,
) -> Result<Reply, ApiError> {
    let value = match arguments::<Action>(json)?.action.as_str() {
        "start" => start(plane, context, arguments(json)?).await?,
        "attach" => return attach::call(plane, context, arguments(json)?, wants_progress).await,
        "input" => input(plane, context, arguments(json)?)?,
        "kill" => kill(plane, context, arguments(json)?).await?,
        "list" => list(plane, context, arguments(json)?)?,
        other => return Err(unknown_action(other, &ACTIONS)),
    };
    Ok(Reply::Now(plane::result(value)))
}

async fn start(
    plane: &Arc<Plane>,
    context: &RequestContext,
    arguments: StartArguments,
) -> Result<Value, ApiError> {
    let StartArguments { _action, sandbox: named, command, argv, name, cwd, env, max_log_bytes } = arguments;
    let call =
        StartRequest { command, argv, name, cwd, env, tty: None, max_log_bytes, stdin: None }.check()?;
    let entry = sandbox(plane, &context.caller, named.as_deref())?;
    let background = plane.start_process(&context.caller, entry.id(), call).await?;
    Ok(view(&background).into())
}

fn input(plane: &Plane, context: &RequestContext, arguments: InputArguments) -> Result<Value, ApiError> {
    let InputArguments { _action, sandbox, process_id, input, base64, eof } = arguments;
    let (data, eof) = InputRequest { input, base64, eof }.check()?;
    let background = find(plane, context, sandbox.as_deref(), &process_id)?;
    background.input(data, eof)?;
    Ok(view(&background).into())
}

async fn kill(
    plane: &Arc<Plane>,
    context: &RequestContext,
    arguments: KillArguments,
) -> Result<Value, ApiError> {
    let KillArguments { _action, sandbox, process_id } = arguments;
    let background = find(plane, context, sandbox.as_deref(), &process_id)?;
    background.stop();
    let watcher = background.handle().watcher();
    let over = std::future::poll_fn(|cx| watcher.poll_until(cx.waker(), Process::is_over));
    let runtime = plane.runtime();
    // Whether it has ended by then is in its state.
    until(&**runtime, runtime.now() + KILL, over).await;
    Ok(view(&background).into())
}

fn list(plane: &Plane, context: &RequestContext, arguments: ListArguments) -> Result<Value, ApiError> {
    let ListArguments { _action, sandbox } = arguments;
    let mut processes = Vec::new();
    for reference in places(plane, context, sandbox.as_deref()) {
        match plane.list_processes(&context.caller, &reference) {
            Ok(some) => processes.extend(some.iter().map(|one| Value::from(view(one)))),
            // One that was not asked for is passed over.
            Err(error) if sandbox.is_some() => return Err(error),
            Err(_) => {}
        }
    }
    Ok(json!({ "processes": processes }))
}

/// Where to look: in the sandbox that was named, or in all.
fn places(plane: &Plane, context: &RequestContext, named: Option<&str>) -> Vec<String> {
    named.map_or_else(
        || plane.sandboxes().visible(&context.caller).iter().map(|entry| entry.id().to_owned()).collect(),
        |named| vec![named.to_owned()],
    )
}

/// The caller's process of this id or name. One that is not named by its sandbox, too, has to be the only one.
fn find(
    plane: &Plane,
    context: &RequestContext,
    named: Option<&str>,
    process: &str,
) -> Result<Arc<Background>, ApiError> {
    if let Some(sandbox) = named {
        return plane.find_process(&context.caller, sandbox, process);
    }
    let places = places(plane, context, None);
    let mut found: Vec<Arc<Background>> =
        places.iter().filter_map(|place| plane.find_process(&context.caller, place, process).ok()).collect();
    match (found.pop(), found.last()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(ApiError::not_found("process")),
        (Some(last), Some(_)) => {
            let names: Vec<&str> = found.iter().chain([&last]).map(|one| one.sandbox().name()).collect();
            let message = format!("sandbox: {process} is in {}; say which", names.join(", "));
            Err(ApiError::bad_field("sandbox", "ambiguous", message))
        }
    }
}

/// A process, as this tool shows it.
pub(in crate::mcp) fn view(background: &Background) -> Map<String, Value> {
    let mut view = match json!(ApiView::of(background)) {
        Value::Object(view) => view,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    };
    view.insert("sandbox".to_owned(), background.sandbox().name().into());
    view.insert("output_uri".to_owned(), resources::output_uri(background).into());
    if let Some(name) = &background.call().name {
        view.insert("name".to_owned(), name.as_str().into());
    }
    view
}
