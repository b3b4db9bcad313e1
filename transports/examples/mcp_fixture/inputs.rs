//! Calls that ask their client for something: the result says what, and the client calls again with the answers and with
//! the state that it was given.

use super::{Fixture, SERVER, content, text};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use hangar_core::wire::mcp::{
    message::RpcError,
    request::Call,
    types::{ToolCall, complete},
};
use hangar_transports::mcp::Outcome;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// Asks for a field of a form.
pub(super) fn elicit(message: &str, field: &str, kind: &str) -> Value {
    json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": message,
            "requestedSchema": {
                "type": "object", "properties": { field: { "type": kind } }, "required": [field],
            },
        },
    })
}

fn sample(question: &str) -> Value {
    let message = json!({ "role": "user", "content": text(question) });
    json!({ "method": "sampling/createMessage", "params": { "messages": [message], "maxTokens": 100 } })
}

fn roots() -> Value {
    json!({ "method": "roots/list", "params": {} })
}

/// The result that asks.
pub(super) fn required(requests: &[(&str, Value)], state: Option<String>) -> Outcome {
    let requests: Map<String, Value> =
        requests.iter().map(|(key, request)| ((*key).to_owned(), request.clone())).collect();
    let mut fields = json!({ "resultType": "input_required", "inputRequests": requests });
    if let Some(state) = state {
        fields["requestState"] = state.into();
    }
    Ok(complete(fields, &SERVER))
}

/// What was answered, by its key, where it has this field.
fn answered<'a>(tool: &'a ToolCall, key: &str, field: &str) -> Option<&'a Value> {
    tool.input_responses.as_ref()?.get(key)?.pointer(field)
}

pub(super) fn call(fixture: &Fixture, call: &Call, tool: &ToolCall) -> Outcome {
    let name = || elicit("What is your name?", "name", "string");
    let kind = tool.name.trim_start_matches("test_input_required_result_");
    // What does not come back as it was given out is refused, whatever else is right.
    let state = tool.request_state.as_deref().map(|state| fixture.opened(state)).transpose()?;
    match kind {
        "elicitation" | "test_streaming_elicitation" => match answered(tool, "user_name", "/content/name") {
            Some(Value::String(name)) => content(json!([text(format!("Hello, {name}!"))])),
            Some(_) | None => required(&[("user_name", name())], None),
        },
        "sampling" => match answered(tool, "capital_question", "/content/text") {
            Some(answer) => content(json!([text(format!("The model says: {answer}"))])),
            None => required(&[("capital_question", sample("What is the capital of France?"))], None),
        },
        "list_roots" => match answered(tool, "client_roots", "/roots") {
            Some(roots) => content(json!([text(format!("The roots are {roots}"))])),
            None => required(&[("client_roots", roots())], None),
        },
        "request_state" | "tampered_state" => match (answered(tool, "confirm", "/content/ok"), state) {
            (Some(Value::Bool(_)), Some(state)) if state == kind => content(json!([text("state-ok")])),
            _ => {
                let confirm = elicit("Please confirm", "ok", "boolean");
                required(&[("confirm", confirm)], Some(fixture.sealed(kind)))
            }
        },
        "multiple_inputs" => {
            let all = answered(tool, "user_name", "/content/name").is_some()
                && answered(tool, "greeting", "/content").is_some()
                && answered(tool, "client_roots", "/roots").is_some();
            if all && state.as_deref() == Some(kind) {
                return content(json!([text("all is there")]));
            }
            let requests = [
                ("user_name", name()),
                ("greeting", sample("Generate a greeting")),
                ("client_roots", roots()),
            ];
            required(&requests, Some(fixture.sealed(kind)))
        }
        "multi_round" => {
            let first = answered(tool, "step1", "/content/name");
            let second = answered(tool, "step2", "/content/color");
            match (state.as_deref(), first, second) {
                (Some("round 2"), _, Some(color)) => content(json!([text(format!("You like {color}"))])),
                (Some("round 1"), Some(_), _) => {
                    let color = elicit("Step 2: What is your favorite color?", "color", "string");
                    required(&[("step2", color)], Some(fixture.sealed("round 2")))
                }
                _ => {
                    let name = elicit("Step 1: What is your name?", "name", "string");
                    required(&[("step1", name)], Some(fixture.sealed("round 1")))
                }
            }
        }
        "capabilities" => {
            let can = |capability: &str| call.meta.capabilities.contains_key(capability);
            let mut requests = Vec::new();
            if can("elicitation") {
                requests.push(("user_name", name()));
            }
            if can("sampling") {
                requests.push(("greeting", sample("Generate a greeting")));
            }
            if requests.is_empty() || tool.input_responses.is_some() {
                return content(json!([text("nothing is missing")]));
            }
            required(&requests, None)
        }
        _ => Err(RpcError::invalid_params(format!("params.name: there is no tool {}", tool.name))),
    }
}

/// What a tool asks the client for that does nothing else.
pub(super) fn ask(tool: &ToolCall) -> Outcome {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Arguments {
        prompt: String,
        message: String,
    }
    let arguments = tool.arguments.as_deref().map(|arguments| serde_json::from_str(arguments.get()));
    let Arguments { prompt, message } = arguments.transpose().ok().flatten().unwrap_or_default();
    if let Some(answer) = answered(tool, "answer", "") {
        return content(json!([text(format!("The answer is {answer}"))]));
    }
    let form = |message: &str, schema: Value| {
        let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
        json!({ "method": "elicitation/create", "params": params })
    };
    let request = match tool.name.as_str() {
        "test_sampling" => sample(&prompt),
        "test_elicitation" => form(
            &message,
            json!({
                "type": "object",
                "properties": { "username": { "type": "string" }, "email": { "type": "string" } },
                "required": ["username", "email"],
            }),
        ),
        "test_elicitation_sep1034_defaults" => form(
            "Please look at these",
            json!({
                "type": "object",
                "properties": {
                    "name": { "type": "string", "default": "John Doe" },
                    "age": { "type": "integer", "default": 30 },
                    "score": { "type": "number", "default": 95.5 },
                    "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
                    "verified": { "type": "boolean", "default": true },
                },
                "required": [],
            }),
        ),
        _ => form("Please choose", enums()),
    };
    required(&[("answer", request)], None)
}

fn enums() -> Value {
    let titled = |prefix: &str| {
        let one = |n: u8, title: &str| json!({ "const": format!("{prefix}{n}"), "title": title });
        json!([one(1, "First"), one(2, "Second"), one(3, "Third")])
    };
    let plain = json!(["option1", "option2", "option3"]);
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": { "type": "string", "enum": plain },
            "titledSingle": { "type": "string", "oneOf": titled("value") },
            "legacyEnum": {
                "type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"],
            },
            "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
            "titledMulti": { "type": "array", "items": { "anyOf": titled("value") } },
        },
        "required": [],
    })
}

impl Fixture {
    /// A state that only this server can have made.
    fn sealed(&self, state: &str) -> String {
        let tag = BASE64_URL_SAFE_NO_PAD.encode(self.tag(state));
        format!("{}.{tag}", BASE64_URL_SAFE_NO_PAD.encode(state))
    }

    fn opened(&self, sealed: &str) -> Result<String, RpcError> {
        let bad = || RpcError::invalid_params("params.requestState: it is not one that was given out here");
        let (state, tag) = sealed.split_once('.').ok_or_else(bad)?;
        let state = BASE64_URL_SAFE_NO_PAD.decode(state).map_err(|_| bad())?;
        let tag = BASE64_URL_SAFE_NO_PAD.decode(tag).map_err(|_| bad())?;
        let state = String::from_utf8(state).map_err(|_| bad())?;
        if tag == self.tag(&state) { Ok(state) } else { Err(bad()) }
    }

    /// Keyed inside and outside, so that a longer state has another tag.
    fn tag(&self, state: &str) -> Vec<u8> {
        let inner = Sha256::new().chain_update(self.key).chain_update(state).finalize();
        Sha256::new().chain_update(self.key).chain_update(inner).finalize().to_vec()
    }
}
