//! Prompts.

use super::{PIXEL, SERVER, inputs, text};
use hangar_core::wire::mcp::{message::RpcError, request::Call, types::complete};
use hangar_transports::mcp::Outcome;
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GetPrompt {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    #[serde(default)]
    input_responses: Map<String, Value>,
}

pub(super) fn list() -> Value {
    let argument = |name: &str| json!({ "name": name, "description": "A test argument", "required": true });
    json!([
        { "name": "test_simple_prompt", "description": "A prompt without arguments" },
        {
            "name": "test_prompt_with_arguments",
            "description": "A prompt with two arguments",
            "arguments": [argument("arg1"), argument("arg2")],
        },
        {
            "name": "test_prompt_with_embedded_resource",
            "description": "A prompt with a resource in it",
            "arguments": [argument("resourceUri")],
        },
        { "name": "test_prompt_with_image", "description": "A prompt with an image in it" },
        { "name": "test_input_required_result_prompt", "description": "A prompt that asks for its context" },
    ])
}

pub(super) fn get(call: &Call) -> Outcome {
    let GetPrompt { name, arguments, input_responses } = call.params()?;
    let argument = |name: &str| {
        let value = arguments.get(name).and_then(Value::as_str);
        value.ok_or_else(|| RpcError::invalid_params(format!("params.arguments.{name}: it must be a string")))
    };
    let says = |content: Value| json!({ "role": "user", "content": content });
    let messages = match name.as_str() {
        "test_simple_prompt" => vec![says(text("This is a simple prompt for testing."))],
        "test_prompt_with_arguments" => {
            let (one, two) = (argument("arg1")?, argument("arg2")?);
            vec![says(text(format!("Prompt with arguments: arg1='{one}', arg2='{two}'")))]
        }
        "test_prompt_with_embedded_resource" => {
            let resource = json!({
                "uri": argument("resourceUri")?, "mimeType": "text/plain",
                "text": "Embedded resource content for testing.",
            });
            vec![
                says(json!({ "type": "resource", "resource": resource })),
                says(text("Please process the embedded resource above.")),
            ]
        }
        "test_prompt_with_image" => vec![
            says(json!({ "type": "image", "data": PIXEL, "mimeType": "image/png" })),
            says(text("Please analyze the image above.")),
        ],
        "test_input_required_result_prompt" => {
            let context =
                input_responses.get("user_context").and_then(|answer| answer.pointer("/content/context"));
            let Some(context) = context else {
                let ask = inputs::elicit("What context should the prompt use?", "context", "string");
                return inputs::required(&[("user_context", ask)], None);
            };
            vec![says(text(format!("Consider {context}")))]
        }
        other => return Err(RpcError::invalid_params(format!("params.name: there is no prompt {other}"))),
    };
    Ok(complete(json!({ "messages": messages }), &SERVER))
}
