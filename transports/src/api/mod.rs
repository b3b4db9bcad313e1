//! What clients ask for and are shown, the same over REST and MCP: JSON to calls of the plane, each fault with its field,
//! and what there is to JSON.

mod env;
pub(crate) mod exec;
pub(crate) mod process;
pub(crate) mod sandbox;
pub(crate) mod watch;

use crate::ApiError;
pub(crate) use env::Env;
use hyper::StatusCode;
use serde::de::{DeserializeOwned, IgnoredAny};

/// JSON to a value; an error names the field that is at fault.
pub(crate) fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, ApiError> {
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
    // The field says where.
    let message = message.rfind(" at line ").map_or(message, |at| &message[..at]);
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

/// Where a command runs and with which variables.
pub(crate) fn check_place(cwd: Option<&str>, env: &Env) -> Result<(), ApiError> {
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

pub(crate) fn check_filled(field: &str, value: Option<&str>) -> Result<(), ApiError> {
    let Some(value) = value else { return Ok(()) };
    no_nul(field, value)?;
    if value.is_empty() {
        return Err(ApiError::bad_field(field, "empty", format!("{field}: it is empty; leave it out")));
    }
    Ok(())
}

pub(crate) fn no_nul(field: &str, value: &str) -> Result<(), ApiError> {
    if value.contains('\0') {
        return Err(ApiError::bad_field(field, "nul", format!("{field}: it must not hold a NUL character")));
    }
    Ok(())
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
