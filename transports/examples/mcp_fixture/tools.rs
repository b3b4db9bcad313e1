//! Tools: content of each kind, progress, log messages, and what needs something of the client.

use super::{Fixture, PIXEL, SERVER, content, inputs, resources, text};
use hangar_backends::runtime::Deadline;
use hangar_core::{
    Time,
    wire::mcp::{
        listen::{List, Topic},
        message::{RpcError, code},
        meta::LogLevel,
        request::Call,
        response::Progress,
        types::{ToolCall, complete},
    },
};
use hangar_transports::mcp::{Outcome, Reply, Step, Work};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// A few samples of silence, as WAV in base64.
const SILENCE: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA==";

const TOOLS: [(&str, &str); 25] = [
    ("test_simple_text", "Gives a text"),
    ("test_image_content", "Gives an image"),
    ("test_audio_content", "Gives a sound"),
    ("test_embedded_resource", "Gives a resource"),
    ("test_multiple_content_types", "Gives a text, an image and a resource"),
    ("test_error_handling", "Fails"),
    ("test_tool_with_progress", "Tells of its progress"),
    ("test_logging_tool", "Logs"),
    ("test_tool_with_logging", "Logs"),
    ("test_trigger_tool_change", "Says that the list of tools changed"),
    ("test_trigger_prompt_change", "Says that the list of prompts changed"),
    ("test_trigger_resource_change", "Says that the watched resource changed"),
    ("test_sampling", "Asks a model what it is told to"),
    ("test_elicitation", "Asks the user what it is told to"),
    ("test_elicitation_sep1034_defaults", "Asks the user, with defaults"),
    ("test_elicitation_sep1330_enums", "Asks the user to choose"),
    ("test_missing_capability", "Needs a client that samples"),
    ("test_streaming_elicitation", "Asks for a name in a stream"),
    ("test_input_required_result_elicitation", "Asks for a name"),
    ("test_input_required_result_sampling", "Asks a model"),
    ("test_input_required_result_list_roots", "Asks for the roots"),
    ("test_input_required_result_request_state", "Asks for a confirmation, and remembers"),
    ("test_input_required_result_multiple_inputs", "Asks for a name, a greeting and the roots"),
    ("test_input_required_result_multi_round", "Asks twice"),
    ("test_input_required_result_tampered_state", "Asks, and takes no state but its own"),
];

pub(super) fn list() -> Vec<Value> {
    let tool = |name, description| json!({ "name": name, "description": description, "inputSchema": { "type": "object", "properties": {} } });
    let capabilities = ("test_input_required_result_capabilities", "Asks for what the client can give");
    TOOLS.into_iter().chain([capabilities]).map(|(name, description)| tool(name, description)).collect()
}

pub(super) fn call(fixture: &Fixture, call: &Call) -> Reply {
    let tool = match call.params::<ToolCall>() {
        Ok(tool) => tool,
        Err(error) => return Reply::Now(Err(error)),
    };
    match tool.name.as_str() {
        "test_tool_with_progress" => {
            let at = |progress| Step::Progress(Progress { progress, total: Some(100.0), message: None });
            Reply::Later(Box::new(Slow::new(
                fixture,
                vec![at(0.0), at(50.0), at(100.0)],
                content(json!([text("done")])),
            )))
        }
        "test_logging_tool" | "test_tool_with_logging" => {
            let log = |data: &str| Step::Notification {
                method: "notifications/message".into(),
                params: json!({ "level": "info", "logger": "fixture", "data": data }),
            };
            // A client with a session hears all of it until it says otherwise.
            let unsaid = call.revision.has_sessions();
            let logs = if call.meta.log_level.map_or(unsaid, |level| level <= LogLevel::Info) {
                vec![log("begun"), log("half done"), log("done")]
            } else {
                Vec::new()
            };
            Reply::Later(Box::new(Slow::new(fixture, logs, content(json!([text("logged")])))))
        }
        "test_streaming_elicitation" => {
            Reply::Later(Box::new(Slow::new(fixture, Vec::new(), inputs::call(fixture, call, &tool))))
        }
        "test_sampling"
        | "test_elicitation"
        | "test_elicitation_sep1034_defaults"
        | "test_elicitation_sep1330_enums" => Reply::Now(inputs::ask(&tool)),
        "test_trigger_tool_change" => changed(fixture, &Topic::List(List::Tools)),
        "test_trigger_prompt_change" => changed(fixture, &Topic::List(List::Prompts)),
        "test_trigger_resource_change" => changed(fixture, &Topic::Resource(resources::WATCHED.into())),
        name if name.starts_with("test_input_required_result_") => {
            Reply::Now(inputs::call(fixture, call, &tool))
        }
        name => Reply::Now(at_once(name, call)),
    }
}

fn changed(fixture: &Fixture, topic: &Topic) -> Reply {
    fixture.topics.change(topic);
    Reply::Now(content(json!([text("changed")])))
}

fn at_once(name: &str, call: &Call) -> Outcome {
    let image = json!({ "type": "image", "data": PIXEL, "mimeType": "image/png" });
    let resource = |uri: &str, mime: &str, text: &str| json!({ "type": "resource", "resource": { "uri": uri, "mimeType": mime, "text": text } });
    match name {
        "test_simple_text" => content(json!([text("This is a simple text response for testing.")])),
        "test_image_content" => content(json!([image])),
        "test_audio_content" => {
            content(json!([{ "type": "audio", "data": SILENCE, "mimeType": "audio/wav" }]))
        }
        "test_embedded_resource" => content(json!([resource(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content."
        )])),
        "test_multiple_content_types" => content(json!([
            text("Multiple content types test:"),
            image,
            resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ])),
        "test_error_handling" => {
            let why = [text("This tool intentionally returns an error for testing")];
            Ok(complete(json!({ "isError": true, "content": why }), &SERVER))
        }
        "test_missing_capability" if !call.meta.capabilities.contains_key("sampling") => {
            let needed = json!({ "requiredCapabilities": { "sampling": {} } });
            Err(RpcError::new(code::MISSING_CAPABILITY, "this tool needs a client that samples").with(needed))
        }
        "test_missing_capability" => content(json!([text("sampling is there")])),
        _ => Err(RpcError::invalid_params(format!("params.name: there is no tool {name}"))),
    }
}

/// Steps with 50 ms between them, and the answer.
struct Slow {
    steps: VecDeque<Step>,
    deadline: Deadline,
    next: Time,
    runtime: Arc<dyn hangar_backends::Runtime>,
}

impl Slow {
    fn new(fixture: &Fixture, steps: Vec<Step>, outcome: Outcome) -> Self {
        let runtime = Arc::clone(&fixture.runtime);
        let steps = steps.into_iter().chain([Step::Done(outcome)]).collect();
        Self { steps, deadline: Deadline::default(), next: runtime.now(), runtime }
    }
}

impl Work for Slow {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        if self.deadline.poll(&*self.runtime, Some(self.next), cx).is_pending() {
            return Poll::Pending;
        }
        self.next = self.next + Duration::from_millis(50);
        // The last of them is the answer, after which nobody asks.
        self.steps.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}
