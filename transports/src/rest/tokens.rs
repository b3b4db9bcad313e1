//! `/api/tokens`.

use super::{Call, Scope, done, json};
use crate::{
    ApiError,
    body::Body,
    plane::tokens::{NewToken, Record},
};
use hyper::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};

/// Who may see and change tokens.
const SCOPES: [Scope; 1] = [Scope::Admin];

/// The longest `person` and `name`, in bytes.
const MAX_TEXT: usize = 200;

/// The longest life of a token in seconds: ten years.
const MAX_TTL: u64 = 315_360_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateRequest {
    scope: Scope,
    person: Option<String>,
    name: Option<String>,
    sandboxes: Option<BTreeSet<String>>,
    ttl: Option<u64>,
}

#[derive(Serialize)]
struct ListView {
    tokens: Vec<Record>,
}

/// The only place where the secret is ever shown.
#[derive(Serialize)]
struct Created {
    #[serde(flatten)]
    record: Record,
    token: String,
}

pub(super) fn list(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    call.caller(&SCOPES)?;
    json(StatusCode::OK, &ListView { tokens: call.plane.tokens().list() })
}

pub(super) async fn create(mut call: Call<'_>) -> Result<Response<Body>, ApiError> {
    let caller = call.caller(&SCOPES)?;
    let request: CreateRequest = call.json(&caller).await?;
    for (field, text) in [("person", &request.person), ("name", &request.name)] {
        if text.as_ref().is_some_and(|text| text.is_empty() || text.len() > MAX_TEXT) {
            let message = format!("{field}: it must be 1 to {MAX_TEXT} bytes long");
            return Err(ApiError::bad_field(field, "out_of_range", message));
        }
    }
    if request.ttl.is_some_and(|ttl| ttl == 0 || ttl > MAX_TTL) {
        let message = format!("ttl: it must be 1 to {MAX_TTL} (seconds); leave it out for ever");
        return Err(ApiError::bad_field("ttl", "out_of_range", message));
    }
    let new = NewToken {
        scope: request.scope,
        person: request.person,
        name: request.name,
        sandboxes: request.sandboxes,
        ttl: request.ttl.map(Duration::from_secs),
    };
    let (record, token) = call.plane.create_token(new).await?;
    json(StatusCode::CREATED, &Created { record, token })
}

pub(super) async fn revoke(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    call.caller(&SCOPES)?;
    call.plane.revoke(&call.reference).await?;
    Ok(done())
}
