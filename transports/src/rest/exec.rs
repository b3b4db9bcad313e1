//! `POST …/exec` and `POST …/exec/stream`.

use super::{Call, Scope, events, json};
use crate::{ApiError, api::exec::ExecRequest, body::Body, plane::exec::Delivery, sse::EventBody};
use hyper::{Response, StatusCode};
use std::sync::Arc;

/// Who may run commands.
const SCOPES: [Scope; 2] = [Scope::Admin, Scope::User];

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
