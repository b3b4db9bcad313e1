//! A command to run.

use super::{Env, check_filled, check_place, no_nul};
use crate::{ApiError, plane::exec::ExecCall};
use bytes::Bytes;
use hangar_core::exec::Encoding;
use serde::Deserialize;
use std::time::Duration;

/// Seconds that a command may run where the request does not say.
const DEFAULT_TIMEOUT: f64 = 600.0;

/// Seconds that a command may run at the most.
const MAX_TIMEOUT: f64 = 86_400.0;

/// A command to run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecRequest {
    pub(crate) command: String,
    pub(crate) cwd: Option<String>,
    #[serde(default)]
    pub(crate) env: Env,
    pub(crate) user: Option<String>,
    pub(crate) timeout: Option<f64>,
    pub(crate) stdin: Option<String>,
    #[serde(default)]
    pub(crate) encoding: Encoding,
}

impl ExecRequest {
    pub(crate) fn check(self) -> Result<ExecCall, ApiError> {
        if self.command.trim().is_empty() {
            return Err(ApiError::bad_field("command", "empty", "command: there is nothing to run"));
        }
        no_nul("command", &self.command)?;
        check_place(self.cwd.as_deref(), &self.env)?;
        check_filled("user", self.user.as_deref())?;
        let timeout = self.timeout.unwrap_or(DEFAULT_TIMEOUT);
        if !(timeout > 0.0 && timeout <= MAX_TIMEOUT) {
            return Err(ApiError::bad_field(
                "timeout",
                "out_of_range",
                format!("timeout: it must be above 0 and at most {MAX_TIMEOUT} (seconds)"),
            ));
        }
        Ok(ExecCall {
            command: self.command,
            cwd: self.cwd,
            env: self.env.0,
            user: self.user,
            timeout: Some(Duration::from_secs_f64(timeout)),
            stdin: self.stdin.map(Bytes::from),
            encoding: self.encoding,
        })
    }
}
