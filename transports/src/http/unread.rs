//! What an answer left unread of a request's body.

use bytes::Bytes;
use hangar_backends::{Runtime, runtime::until};
use http_body_util::BodyExt as _;
use hyper::{
    Request,
    body::{Body as _, Incoming},
    header::EXPECT,
};
use std::time::Duration;

/// It has to be there within this.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Reads it, up to `max` bytes, and drops it. A connection that is closed with bytes unread is reset, and the reset may
/// reach the client before it has read the answer. A client that waits to be asked for the body is not waited for.
pub(crate) async fn drop_unread(runtime: &dyn Runtime, request: &mut Request<Incoming>, max: usize) {
    if request.body().is_end_stream() || request.headers().contains_key(EXPECT) {
        return;
    }
    let body = request.body_mut();
    let rest = async {
        let mut left = max;
        while left > 0
            && let Some(Ok(frame)) = body.frame().await
        {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        }
    };
    until(runtime, runtime.now() + TIMEOUT, rest).await;
}
