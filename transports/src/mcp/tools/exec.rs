//! `exec`: a command, its output as it prints where that was asked for, and its result.

use super::{super::plane, From, Reply, arguments, error_schema, sandbox, sandbox_schema};
use crate::{
    ApiError, Plane,
    api::{Env, exec::ExecRequest},
    mcp::{Step, Work},
    plane::exec::{Delivery, Event, ExecStream},
};
use hangar_core::{exec::Encoding, wire::mcp::types::Tool};
use serde::Deserialize;
use serde_json::json;
use std::{
    sync::Arc,
    task::{Context, Poll},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    sandbox: Option<String>,
    #[serde(default)]
    stream: bool,
    command: String,
    cwd: Option<String>,
    #[serde(default)]
    env: Env,
    user: Option<String>,
    timeout: Option<f64>,
    stdin: Option<String>,
    #[serde(default)]
    encoding: Encoding,
}

pub(super) fn tool() -> Tool {
    Tool {
        name: "exec",
        title: Some("Run a command"),
        description: "Runs a shell command (bash -lc) in a sandbox and returns its exit code and the end of what it \
            printed: the last 256 KiB of stdout and of stderr each. A command that fails is a normal result: look at \
            exit_code. It is killed when it takes longer than timeout, or when this call is cancelled; for what should go \
            on (servers, watchers) use the tool process instead. With stream: true its output also comes as progress \
            notifications while it runs.",
        input_schema: json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["command"],
            "properties": {
                "command": { "type": "string", "description": "A line for bash -lc" },
                "sandbox": sandbox_schema(),
                "cwd": { "type": "string", "description": "The directory to run it in; the sandbox's own without it" },
                "env": {
                    "type": "object",
                    "additionalProperties": { "type": "string" },
                    "description": "Variables beyond those of the sandbox",
                },
                "timeout": {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": 86400,
                    "default": 600,
                    "description": "Seconds after which it is ended: TERM, and KILL 3 s later",
                },
                "stdin": { "type": "string", "description": "What it reads; without it its input is empty" },
                "stream": {
                    "type": "boolean",
                    "default": false,
                    "description": "Send its output as progress while it runs (the call must ask for progress)",
                },
                "encoding": {
                    "enum": ["text", "base64"],
                    "default": "text",
                    "description": "base64: output byte for byte",
                },
                "user": { "type": "string", "description": "Whom it runs as; admin tokens only" },
            },
        }),
        output_schema: Some(json!({
            "type": "object",
            "properties": {
                "exit_code": {
                    "type": ["integer", "null"],
                    "description": "null where a signal ended it, it still runs (closed), or nobody knows",
                },
                "signal": { "type": "string", "description": "The signal that ended it: SIGKILL" },
                "stdout": { "type": "string" },
                "stderr": { "type": "string" },
                "encoding": { "enum": ["text", "base64"] },
                "streamed": { "type": "boolean", "description": "Whether its output was sent while it ran" },
                "duration_ms": { "type": "integer" },
                "timed_out": { "type": "boolean" },
                "closed": {
                    "type": "string",
                    "description": "Why this ended before the command: destroyed, paused, shutdown, revoked or error",
                },
                "stdout_truncated": { "type": "boolean", "description": "There was more before it" },
                "stderr_truncated": { "type": "boolean" },
                "output_capped": { "type": "boolean", "description": "Not all of it was sent while it ran" },
                "drain_timed_out": {
                    "type": "boolean",
                    "description": "Something that it left behind still holds its output open",
                },
                "error": error_schema(),
            },
        })),
        annotations: Some(json!({ "destructiveHint": true, "openWorldHint": true })),
    }
}

pub(super) async fn call(
    plane: &Arc<Plane>,
    from: &From,
    json: &str,
    wants_progress: bool,
) -> Result<Reply, ApiError> {
    let Arguments { sandbox: named, stream, command, cwd, env, user, timeout, stdin, encoding } =
        arguments(json)?;
    let call = ExecRequest { command, cwd, env, user, timeout, stdin, encoding }.check()?;
    let entry = sandbox(plane, &from.caller, named.as_deref())?;
    let delivery = if stream && wants_progress {
        Delivery::Streamed { connection: from.connection.clone() }
    } else {
        Delivery::AtTheEnd
    };
    let stream = plane.exec(&from.caller, entry.id(), call, delivery).await?;
    Ok(Reply::Later(Box::new(Running { stream })))
}

/// A command that runs. Dropped, it is killed.
struct Running {
    stream: ExecStream,
}

impl Work for Running {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        self.stream.poll(cx).map(|event| match event {
            Event::Output { text, .. } => match self.stream.encoding() {
                Encoding::Text => Step::Output(text),
                Encoding::Base64 => Step::Base64(text),
            },
            Event::Result(result) => Step::Done(plane::result(*result)),
        })
    }
}
