//! `/api/sandboxes`.

use super::{Call, Scope, done, json};
use crate::{
    ApiError,
    api::sandbox::{CreateRequest, ListView, View},
    body::Body,
    plane::sandboxes::Entry,
};
use hyper::{
    Response, StatusCode,
    header::{HeaderValue, LOCATION},
};
use serde::Deserialize;
use std::sync::Arc;

/// Who may see sandboxes.
const SEE: [Scope; 2] = [Scope::Admin, Scope::User];

/// Who may change them.
const CHANGE: [Scope; 1] = [Scope::Admin];

/// A body without fields.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

pub(super) fn list(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let caller = call.caller(&SEE)?;
    let entries = call.plane.sandboxes().visible(&caller);
    json(StatusCode::OK, &ListView::of(&entries))
}

pub(super) async fn create(mut call: Call<'_>) -> Result<Response<Body>, ApiError> {
    let caller = call.caller(&CHANGE)?;
    let request: CreateRequest = call.json_or_default(&caller).await?;
    let name = request.name.clone();
    let entry = call.plane.create_sandbox(name.as_deref(), request.new_sandbox()?).await?;
    let mut response = json(StatusCode::CREATED, &View::from(&*entry))?;
    if let Ok(location) = HeaderValue::from_str(&format!("/api/sandboxes/{}", entry.name())) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

pub(super) fn show(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let entry = call.plane.sandboxes().find(&call.caller(&SEE)?, &call.reference)?;
    json(StatusCode::OK, &View::from(&*entry))
}

pub(super) async fn destroy(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let entry = call.plane.sandboxes().find(&call.caller(&CHANGE)?, &call.reference)?;
    call.plane.destroy_sandbox(&entry).await?;
    Ok(done())
}

/// The sandbox of a call that may change it, and has nothing to say beside that.
async fn change(call: &mut Call<'_>) -> Result<Arc<Entry>, ApiError> {
    let caller = call.caller(&CHANGE)?;
    let Nothing {} = call.json_or_default(&caller).await?;
    call.plane.sandboxes().find(&caller, &call.reference)
}

pub(super) async fn pause(mut call: Call<'_>) -> Result<Response<Body>, ApiError> {
    let entry = change(&mut call).await?;
    call.plane.pause_sandbox(&entry).await?;
    json(StatusCode::OK, &View::from(&*entry))
}

pub(super) async fn resume(mut call: Call<'_>) -> Result<Response<Body>, ApiError> {
    let entry = change(&mut call).await?;
    call.plane.resume_sandbox(&entry).await?;
    json(StatusCode::OK, &View::from(&*entry))
}
