//! The body of a request: its type, its length, its JSON and its fields.

use super::{Call, Caller};
use crate::ApiError;
use bytes::Bytes;
use hangar_backends::{Runtime, runtime::until};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{
    Request, StatusCode,
    body::{Body, Incoming},
    header::{CONTENT_TYPE, EXPECT},
};
use serde::de::{DeserializeOwned, IgnoredAny};
use std::time::Duration;

/// The longest body.
const MAX_BODY: usize = 1024 * 1024;

/// A body has to be there within this.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// What an answer left unread of a body has to be there within this.
const REST_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads what an answer of this status left unread of a request's body, and drops it. A connection that is closed
/// with bytes unread is reset, and the reset may reach the client before it has read the answer.
///
/// Not waited for are a body that is too long, one that was waited for already, and one whose client waits to be
/// asked for it.
pub(super) async fn drop_rest(runtime: &dyn Runtime, request: &mut Request<Incoming>, status: StatusCode) {
    let given_up = matches!(status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT);
    let too_long = request.body().size_hint().lower() > MAX_BODY as u64;
    if given_up || too_long || request.headers().contains_key(EXPECT) {
        return;
    }
    let body = request.body_mut();
    let rest = async {
        let mut left = MAX_BODY;
        while left > 0
            && let Some(Ok(frame)) = body.frame().await
        {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        }
    };
    until(runtime, runtime.now() + REST_TIMEOUT, rest).await;
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

    async fn body(&mut self) -> Result<Bytes, ApiError> {
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

/// JSON to a value; an error names the field that is at fault.
fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, ApiError> {
    let bad = |code, message: String| ApiError::new(StatusCode::BAD_REQUEST, code, message);
    let text = std::str::from_utf8(json).map_err(|error| {
        bad("bad_utf8", format!("the body is not UTF-8 (at byte {})", error.valid_up_to()))
    })?;
    // serde would take an array for a struct, too.
    if !text.trim_start().starts_with('{') {
        return Err(bad("bad_json", "the body must be a JSON object".to_owned()));
    }
    let not_json = |error: &serde_json::Error| bad("bad_json", format!("the body is not JSON: {error}"));
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        // serde_json calls a number that is too large, or one in the place of a name, a fault of the syntax.
        if inner.is_data() || serde_json::from_str::<IgnoredAny>(text).is_ok() {
            field_error(&path, &inner.to_string())
        } else {
            not_json(&inner)
        }
    })?;
    deserializer.end().map_err(|error| not_json(&error))?;
    Ok(value)
}

/// What serde says of a field, which it names in words for some kinds of faults and by its path for the rest.
fn field_error(path: &str, message: &str) -> ApiError {
    let named = [
        ("missing field `", "missing_field"),
        ("unknown field `", "unknown_field"),
        ("duplicate field `", "duplicate_field"),
    ]
    .into_iter()
    .find_map(|(prefix, code)| Some((message.strip_prefix(prefix)?.split_once('`')?.0, code)));
    match named {
        Some((field, code)) => ApiError::bad_field(field, code, message),
        None => ApiError::bad_field(path, "wrong_type", format!("{path}: {}", without_rust(message))),
    }
}

/// What serde expected, in the words of JSON.
fn without_rust(message: &str) -> String {
    [
        ("expected f64", "expected a number"),
        ("expected u64", "expected a whole number"),
        ("expected u16", "expected a whole number"),
        ("expected usize", "expected a whole number"),
        ("expected a sequence", "expected an array"),
        ("expected a map", "expected an object"),
        ("expected a boolean", "expected true or false"),
    ]
    .iter()
    .fold(message.to_owned(), |message, (rust, json)| message.replace(rust, json))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only whether it parses is of interest")]
    struct Sample {
        command: String,
        #[serde(default)]
        env: BTreeMap<String, String>,
        timeout: Option<f64>,
        encoding: Option<hangar_core::exec::Encoding>,
    }

    fn refused(json: &[u8]) -> (&'static str, Option<String>) {
        let error = parse::<Sample>(json).unwrap_err();
        assert_eq!(error.status(), 400);
        (error.code(), error.field().map(str::to_owned))
    }

    #[test]
    fn an_error_names_its_field() {
        let field = |name: &str| Some(name.to_owned());
        assert_eq!(refused(b"{}"), ("missing_field", field("command")));
        assert_eq!(refused(br#"{"command":1}"#), ("wrong_type", field("command")));
        assert_eq!(refused(br#"{"command":"x","env":{"A":2}}"#), ("wrong_type", field("env.A")));
        assert_eq!(refused(br#"{"command":"x","timeout":"1"}"#), ("wrong_type", field("timeout")));
        assert_eq!(refused(br#"{"command":"x","timeout":1e999}"#), ("wrong_type", field("timeout")));
        assert_eq!(refused(br#"{"command":"x","encoding":"z"}"#), ("wrong_type", field("encoding")));
        assert_eq!(refused(br#"{"command":"x","encoding":1}"#), ("wrong_type", field("encoding")));
        assert_eq!(refused(br#"{"command":"x","comand":"y"}"#), ("unknown_field", field("comand")));
        assert_eq!(refused(br#"{"command":"x","command":"y"}"#), ("duplicate_field", field("command")));
    }

    #[test]
    fn what_is_no_json_object_is_said_to_be_none() {
        let twice = br#"{"command":"x"} {}"#;
        for json in [&b""[..], b"{", b"nonsense", twice, b"[\"x\",{},1]", b"1", b"null", b"\"x\""] {
            assert_eq!(refused(json), ("bad_json", None), "{}", String::from_utf8_lossy(json));
        }
        assert_eq!(refused(b"{\"command\":\"\xff\"}"), ("bad_utf8", None));
    }
}
