//! The body of a request: its type, its length, its JSON and its fields.

use super::{Call, Caller};
use crate::{ApiError, api::parse, http};
use bytes::Bytes;
use hangar_backends::{Runtime, runtime::until};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{
    Request, StatusCode,
    body::{Body, Incoming},
    header::CONTENT_TYPE,
};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The longest body.
const MAX_BODY: usize = 1024 * 1024;

/// A body has to be there within this.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Drops what an answer of this status left unread of a request's body. Not waited for are a body that is too long, and
/// one that was waited for already.
pub(super) async fn drop_rest(runtime: &dyn Runtime, request: &mut Request<Incoming>, status: StatusCode) {
    let given_up = matches!(status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT);
    let too_long = request.body().size_hint().lower() > MAX_BODY as u64;
    if !given_up && !too_long {
        http::drop_unread(runtime, request, MAX_BODY).await;
    }
}

impl Call<'_> {
    /// The JSON object in the body. Its sender may take their time: they have to be somebody who may when it is there.
    pub(super) async fn json<T: DeserializeOwned>(&mut self, caller: &Caller) -> Result<T, ApiError> {
        check_type(self.request)?;
        let body = self.body().await?;
        self.plane.recheck(caller)?;
        parse(&body)
    }

    /// As [`json`](Self::json), where the body may be left out.
    pub(super) async fn json_or_default<T: DeserializeOwned + Default>(
        &mut self,
        caller: &Caller,
    ) -> Result<T, ApiError> {
        if self.request.body().is_end_stream() {
            return Ok(T::default());
        }
        self.json(caller).await
    }

    pub(super) async fn body(&mut self) -> Result<Bytes, ApiError> {
        let too_long = || {
            ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "body_too_long",
                format!("the body is longer than {MAX_BODY} bytes"),
            )
        };
        let body: &mut Incoming = self.request.body_mut();
        if body.size_hint().lower() > MAX_BODY as u64 {
            return Err(too_long());
        }
        let runtime = self.plane.runtime();
        let end = runtime.now() + BODY_TIMEOUT;
        let collected = until(&**runtime, end, Limited::new(body, MAX_BODY).collect()).await;
        match collected {
            Some(Ok(collected)) => Ok(collected.to_bytes()),
            Some(Err(error)) if error.is::<LengthLimitError>() => Err(too_long()),
            Some(Err(_)) => {
                Err(ApiError::new(StatusCode::BAD_REQUEST, "body_cut_short", "the body ended before its end"))
            }
            None => Err(ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "body_timeout",
                format!("the body was not there within {} s", BODY_TIMEOUT.as_secs()),
            )),
        }
    }
}

fn check_type<B>(request: &Request<B>) -> Result<(), ApiError> {
    let value = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        "the body must be JSON, sent with `Content-Type: application/json`",
    ))
}
