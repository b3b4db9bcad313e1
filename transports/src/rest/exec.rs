//! `POST …/exec` and `POST …/exec/stream`.

use super::{Call, Scope, env::Env, events, json};
use crate::{
    ApiError,
    body::Body,
    plane::exec::{Delivery, ExecCall},
    sse::EventBody,
};
use bytes::Bytes;
use hangar_core::exec::Encoding;
use hyper::{Response, StatusCode};
use serde::Deserialize;
use std::{sync::Arc, time::Duration};

/// Who may run commands.
const SCOPES: [Scope; 2] = [Scope::Admin, Scope::User];

/// Seconds that a command may run where the request does not say.
const DEFAULT_TIMEOUT: f64 = 600.0;

/// Seconds that a command may run at the most.
const MAX_TIMEOUT: f64 = 86_400.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExecRequest {
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

/// Runs a command and answers with its result.
pub(super) async fn to_end(mut call: Call<'_>) -> Result<Response<Body>, ApiError> {
    let caller = call.caller(&SCOPES)?;
    let request: ExecRequest = call.json(&caller).await?;
    let result = call.plane.exec_to_end(&caller, &call.reference, request.check()?).await?;
    json(StatusCode::OK, &result)
}

/// Runs a command and streams its output, then its result.
pub(super) async fn stream(mut call: Call<'_>) -> Result<Response<Body>, ApiError> {
    let caller = call.caller(&SCOPES)?;
    let request: ExecRequest = call.json(&caller).await?;
    let delivery = Delivery::Streamed { connection: Some(Arc::clone(&call.connection)) };
    let stream = call.plane.exec(&caller, &call.reference, request.check()?, delivery).await?;
    Ok(events(Body::Exec(Box::new(EventBody::new(stream)))))
}

impl ExecRequest {
    fn check(self) -> Result<ExecCall, ApiError> {
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

/// Where a command runs and with which variables.
pub(super) fn check_place(cwd: Option<&str>, env: &Env) -> Result<(), ApiError> {
    check_filled("cwd", cwd)?;
    for (name, value) in &env.0 {
        if name.is_empty() || name.contains('=') || name.contains('\0') {
            let message = "env: a name must not be empty, or hold `=` or NUL".to_owned();
            return Err(ApiError::bad_field("env", "bad_name", message));
        }
        no_nul(&format!("env.{name}"), value)?;
    }
    Ok(())
}

fn check_filled(field: &str, value: Option<&str>) -> Result<(), ApiError> {
    let Some(value) = value else { return Ok(()) };
    no_nul(field, value)?;
    if value.is_empty() {
        return Err(ApiError::bad_field(field, "empty", format!("{field}: it is empty; leave it out")));
    }
    Ok(())
}

pub(super) fn no_nul(field: &str, value: &str) -> Result<(), ApiError> {
    if value.contains('\0') {
        return Err(ApiError::bad_field(field, "nul", format!("{field}: it must not hold a NUL character")));
    }
    Ok(())
}
