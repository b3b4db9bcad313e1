//! Watched directories.

use super::{Call, Scope, events};
use crate::{ApiError, body::Body, plane::watches::WatchCall, query::Query, sse::EventBody};
use hyper::Response;
use std::sync::Arc;

/// What stands behind the `?`.
const PARAMETERS: [&str; 6] = ["path", "recursive", "since", "snapshot", "network", "user"];

/// What changes below a directory, as events.
pub(super) async fn watch(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let caller = call.caller(&[Scope::Admin, Scope::User])?;
    let query = Query::of(call.request.uri().query(), &PARAMETERS)?;
    let (wanted, since) = (WatchCall::of(&query)?, call.event_cursor(&query)?);
    let connection = Some(Arc::clone(&call.connection));
    let stream = call.plane.follow_directory(&caller, &call.reference, wanted, since, connection).await?;
    Ok(events(Body::Watch(Box::new(EventBody::new(stream)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_has_every_parameter_and_no_other() {
        let description: serde_json::Value = serde_json::from_str(super::super::OPENAPI).unwrap();
        let described = &description["paths"]["/api/sandboxes/{sandbox}/watch"]["get"]["parameters"];
        let described = described.as_array().unwrap().iter().filter(|parameter| parameter["in"] == "query");
        assert!(described.map(|parameter| parameter["name"].as_str().unwrap()).eq(PARAMETERS));
    }
}
