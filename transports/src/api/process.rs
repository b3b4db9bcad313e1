//! Background processes: to start, to write to, and as `/api` and MCP show them.

use super::{Env, check_place, no_nul};
use crate::{
    ApiError,
    plane::{
        background::{Background, DEFAULT_LOG_BYTES, MAX_LOG_BYTES, StartCall},
        sandboxes::check_name,
    },
};
use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use hangar_backends::sandbox::Command;
use hangar_core::{
    process::TtySize,
    wire::process::{GapView, Status, View},
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Seconds that a call may wait for output.
pub(crate) const MAX_WAIT: f64 = 600.0;

/// A process to start.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartRequest {
    pub(crate) command: Option<String>,
    pub(crate) argv: Option<Vec<String>>,
    pub(crate) name: Option<String>,
    pub(crate) cwd: Option<String>,
    #[serde(default)]
    pub(crate) env: Env,
    pub(crate) tty: Option<TtySize>,
    pub(crate) max_log_bytes: Option<u64>,
    pub(crate) stdin: Option<bool>,
}

impl StartRequest {
    pub(crate) fn check(self) -> Result<StartCall, ApiError> {
        let command = match (self.command, self.argv) {
            (Some(line), None) if line.trim().is_empty() => return Err(empty("command")),
            (Some(line), None) => Command::Shell(line),
            (None, Some(argv)) if argv.first().is_none_or(String::is_empty) => return Err(empty("argv")),
            (None, Some(argv)) => Command::Argv(argv),
            (None, None) => {
                return Err(ApiError::bad_field(
                    "command",
                    "missing_field",
                    "command: it takes this or argv",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(ApiError::bad_field(
                    "argv",
                    "conflict",
                    "argv: it takes this or command, not both",
                ));
            }
        };
        match &command {
            Command::Shell(line) => no_nul("command", line)?,
            Command::Argv(argv) => argv.iter().try_for_each(|argument| no_nul("argv", argument))?,
        }
        if let Some(name) = &self.name {
            check_name(name)?;
        }
        check_place(self.cwd.as_deref(), &self.env)?;
        if let Some(side) = self.tty.and_then(TtySize::bad_side) {
            return Err(bad_size(&format!("tty.{side}")));
        }
        let max_log_bytes = self.max_log_bytes.unwrap_or(DEFAULT_LOG_BYTES);
        if max_log_bytes > MAX_LOG_BYTES {
            let message = format!("max_log_bytes: it must be at most {MAX_LOG_BYTES}; 0 keeps nothing");
            return Err(ApiError::bad_field("max_log_bytes", "out_of_range", message));
        }
        Ok(StartCall {
            command,
            name: self.name,
            cwd: self.cwd,
            env: self.env.0,
            tty: self.tty,
            max_log_bytes,
            stdin: self.stdin.unwrap_or(true),
        })
    }
}

fn empty(field: &str) -> ApiError {
    ApiError::bad_field(field, "empty", format!("{field}: there is nothing to run"))
}

pub(crate) fn bad_size(field: &str) -> ApiError {
    let message = format!("{field}: it must be from 1 to {}", TtySize::MAX);
    ApiError::bad_field(field, "out_of_range", message)
}

/// Input for a process.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputRequest {
    pub(crate) input: Option<String>,
    pub(crate) base64: Option<String>,
    #[serde(default)]
    pub(crate) eof: bool,
}

impl InputRequest {
    /// What to write, and whether that is the end.
    pub(crate) fn check(self) -> Result<(Bytes, bool), ApiError> {
        let Self { input, base64, eof } = self;
        let data = match (input, base64) {
            (Some(_), Some(_)) => {
                return Err(ApiError::bad_field(
                    "base64",
                    "conflict",
                    "base64: it takes this or input, not both",
                ));
            }
            (Some(text), None) => Bytes::from(text),
            (None, Some(base64)) => BASE64_STANDARD
                .decode(base64)
                .map(Bytes::from)
                .map_err(|error| ApiError::bad_field("base64", "bad_base64", format!("base64: {error}")))?,
            (None, None) if eof => Bytes::new(),
            (None, None) => {
                return Err(ApiError::bad_field(
                    "input",
                    "missing_field",
                    "input: it takes this, base64 or eof",
                ));
            }
        };
        Ok((data, eof))
    }
}

/// A process as `/api` shows it.
#[derive(Serialize)]
pub(crate) struct ApiView<'a> {
    pub(crate) process_id: &'a str,
    pub(crate) command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<&'a str>,
    pub(crate) state: &'static str,
    pub(crate) exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<Cow<'static, str>>,
    pub(crate) started_at_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at_ms: Option<i64>,
    /// An earlier run of the server has started it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) adopted: bool,
    /// The offset to go on from: after its newest output, or after what is given of it here.
    pub(crate) next: u64,
    #[serde(flatten)]
    pub(crate) page: Option<PageView>,
}

/// Output of one poll.
#[derive(Serialize)]
pub(crate) struct PageView {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) base64: Option<String>,
    pub(crate) from: u64,
    /// The offset after its newest output.
    pub(crate) end: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gap: Option<GapView>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) truncated: bool,
}

impl<'a> ApiView<'a> {
    pub(crate) fn of(background: &'a Background) -> Self {
        let View { status, exit_code, signal, started_at_ms, finished_at_ms, .. } = background.view();
        Self {
            process_id: background.id(),
            command: background.command(),
            cwd: background.call().cwd.as_deref(),
            state: match status {
                Status::Starting | Status::Running => "running",
                Status::Exited | Status::Stopped | Status::Failed => "exited",
            },
            exit_code,
            signal,
            started_at_ms,
            finished_at_ms,
            adopted: background.is_adopted(),
            next: background.handle().look(|process| process.log().end_offset()),
            page: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(json: &str) -> (&'static str, Option<String>) {
        let request: StartRequest = serde_json::from_str(json).unwrap();
        let error = request.check().unwrap_err();
        (error.code(), error.field().map(str::to_owned))
    }

    #[test]
    fn a_start_that_cannot_be_one_names_its_field() {
        let field = |code, name: &str| (code, Some(name.to_owned()));
        assert_eq!(refused("{}"), field("missing_field", "command"));
        assert_eq!(refused(r#"{"command":" "}"#), field("empty", "command"));
        assert_eq!(refused(r#"{"argv":[]}"#), field("empty", "argv"));
        assert_eq!(refused(r#"{"argv":["a\u0000"]}"#), field("nul", "argv"));
        assert_eq!(refused(r#"{"argv":["a"],"command":"b"}"#), field("conflict", "argv"));
        assert_eq!(refused(r#"{"command":"a","name":"A"}"#), field("bad_name", "name"));
        assert_eq!(refused(r#"{"command":"a","cwd":""}"#), field("empty", "cwd"));
        assert_eq!(refused(r#"{"command":"a","env":{"":"x"}}"#), field("bad_name", "env"));
        assert_eq!(
            refused(r#"{"command":"a","tty":{"cols":0,"rows":1}}"#),
            field("out_of_range", "tty.cols")
        );
        assert_eq!(
            refused(r#"{"command":"a","tty":{"cols":1,"rows":10001}}"#),
            field("out_of_range", "tty.rows")
        );
        assert_eq!(
            refused(r#"{"command":"a","max_log_bytes":67108865}"#),
            field("out_of_range", "max_log_bytes")
        );
    }
}
