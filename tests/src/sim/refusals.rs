//! Requests that are refused: how, and that nothing was done.

use super::{Request, Response, Setup, World, run, world::ADMIN};

/// Where a command is streamed.
pub const STREAM: &str = "/api/sandboxes/box/exec/stream";

/// Sends a request, which has to be refused like this: in JSON, and without a token in it.
///
/// # Panics
///
/// If it is not.
pub async fn refused(world: &World, request: &Request, status: u16, code: &str, field: &str) -> Response {
    let response = world.client().call(request).await.unwrap();
    assert_eq!(response.refusal(), (status, code.to_owned(), field.to_owned()), "{request:?}");
    assert_eq!(response.header("content-type"), Some("application/json"));
    let text = String::from_utf8(response.body.to_vec()).unwrap();
    assert!(!text.contains(ADMIN), "no token in an answer: {text}");
    response
}

/// Runs a scenario in which no command is started.
///
/// # Panics
///
/// If one is.
pub fn nothing_starts(setup: Setup, scenario: impl AsyncFnOnce(&World)) {
    run(setup, async |world: &World| {
        scenario(world).await;
        assert_eq!(world.sandbox.records().len(), 0);
    });
}
