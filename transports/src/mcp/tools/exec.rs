//! `exec`: a command, its output as it prints where that was asked for, and its result.

use super::{super::plane, Reply, RequestContext, arguments, error_schema, sandbox, sandbox_schema};
use crate::{
    ApiError, Plane,
    api::{Env, exec::ExecRequest},
    mcp::{Step, Work},
    plane::exec::{Delivery, Event, ExecStream},
};
use hangar_core::{
    exec::{Encoding, ExecResult},
    wire::mcp::types::{self, Tool, ToolResult, complete},
};
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
            printed to stdout and to stderr: about the last 128 KiB of each as text, twice that in structuredContent; \
            stdout_truncated and stderr_truncated say where there was more. A command that fails is a normal result: look at \
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
    context: &RequestContext,
    json: &str,
    wants_progress: bool,
) -> Result<Reply, ApiError> {
    let Arguments { sandbox: named, stream, command, cwd, env, user, timeout, stdin, encoding } =
        arguments(json)?;
    let call = ExecRequest { command, cwd, env, user, timeout, stdin, encoding }.check()?;
    let entry = sandbox(plane, &context.caller, named.as_deref())?;
    let delivery = if stream && wants_progress {
        Delivery::Streamed { connection: context.connection.clone() }
    } else {
        Delivery::AtTheEnd
    };
    let stream = plane.exec(&context.caller, entry.id(), call, delivery).await?;
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
            Event::Result(result) => Step::Done(Ok(complete(fitted(*result), &plane::SERVER))),
        })
    }
}

/// Bytes that each output may take in `structuredContent`, and in the text that says the same: both of both are below the
/// 1 MiB at which the Python client gives up an event.
const STRUCTURED: usize = 352 * 1024;
const COPIED: usize = 128 * 1024;

/// The result of a command, of a length that clients take: what is cut is the beginning of an output.
fn fitted(mut result: ExecResult) -> ToolResult {
    shorten(&mut result, STRUCTURED, escaped);
    let structured = json!(result);
    // The text is a string in a string.
    shorten(&mut result, COPIED, escaped_twice);
    let text = serde_json::to_string(&result).unwrap_or_default();
    ToolResult { content: vec![types::text(text)], structured_content: Some(structured), is_error: false }
}

fn shorten(result: &mut ExecResult, max: usize, cost: fn(char) -> usize) {
    let ExecResult { stdout, stderr, stdout_truncated, stderr_truncated, encoding, .. } = result;
    for (output, truncated) in [(stdout, stdout_truncated), (stderr, stderr_truncated)] {
        let mut left = max;
        let kept = output.char_indices().rev().take_while(|(_, char)| {
            let fits = cost(*char) <= left;
            left = left.saturating_sub(cost(*char));
            fits
        });
        let mut from = kept.last().map_or(output.len(), |(at, _)| at);
        if *encoding == Encoding::Base64 {
            // Four characters are three bytes.
            from = from.next_multiple_of(4);
        }
        if from > 0 {
            output.drain(..from.min(output.len()));
            *truncated = true;
        }
    }
}

/// Bytes of a character in a JSON string.
fn escaped(char: char) -> usize {
    match char {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        other => other.len_utf8(),
    }
}

/// Bytes of a character in a JSON string that is in a JSON string.
fn escaped_twice(char: char) -> usize {
    match char {
        '"' | '\\' => 4,
        '\0'..='\u{1f}' => escaped(char) + 1,
        other => other.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(stdout: String, encoding: Encoding) -> ExecResult {
        ExecResult {
            exit_code: Some(0),
            signal: None,
            stderr: stdout.clone(),
            stdout,
            encoding,
            streamed: true,
            duration_ms: 1,
            timed_out: false,
            closed: None,
            error: None,
            stdout_truncated: false,
            stderr_truncated: false,
            output_capped: false,
            drain_timed_out: false,
        }
    }

    #[test]
    fn what_a_character_costs_is_what_it_takes() {
        for char in (0..0x200_u32).chain([0x20ac, 0xfffd, 0x1f600]).filter_map(char::from_u32) {
            let once = serde_json::to_string(&char).unwrap();
            let twice = serde_json::to_string(&once[1..once.len() - 1]).unwrap();
            assert_eq!((escaped(char), escaped_twice(char)), (once.len() - 2, twice.len() - 2), "{char:?}");
        }
    }

    #[test]
    fn a_usual_result_is_left_as_it_is_and_none_is_too_long() {
        let usual = "a line of the usual length that some build has printed, as builds do\n".repeat(900);
        let given = fitted(result(usual.clone(), Encoding::Text));
        assert_eq!(
            given.structured_content.as_ref().map(|value| &value["stdout"]),
            Some(&usual.clone().into())
        );
        assert_eq!(given.content[0]["text"], serde_json::to_string(&result(usual, Encoding::Text)).unwrap());
        for (worst, encoding) in [
            ("\u{1}".repeat(256 * 1024), Encoding::Text),
            ("\"\\".repeat(128 * 1024), Encoding::Text),
            ("\u{fffd}".repeat(256 * 1024), Encoding::Text),
            ("abcd".repeat(90_000), Encoding::Base64),
        ] {
            let given = fitted(result(worst.clone(), encoding));
            let len = serde_json::to_string(&given).unwrap().len();
            assert!((400 * 1024..1000 * 1024).contains(&len), "{len}");
            let structured = given.structured_content.unwrap();
            let kept = structured["stdout"].as_str().unwrap();
            assert!(worst.ends_with(kept) && kept.len().is_multiple_of(4) || encoding == Encoding::Text);
            let copied: ExecResult =
                serde_json::from_str(given.content[0]["text"].as_str().unwrap()).unwrap();
            assert!(copied.stdout_truncated && worst.ends_with(&copied.stdout) && !copied.stdout.is_empty());
        }
    }
}
