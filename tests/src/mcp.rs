//! MCP messages as a client writes them.

use serde_json::{Value, json};

/// The parameters of a request, with what every request says about itself. `token`: what it wants progress as.
///
/// # Panics
///
/// If `params` is no object.
pub fn params(params: &Value, token: Option<&Value>) -> Value {
    let mut params = params.clone();
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "hangar-tests", "version": "0" },
    });
    if let Some(token) = token {
        meta["progressToken"] = token.clone();
    }
    params.as_object_mut().expect("an object").insert("_meta".to_owned(), meta);
    params
}

/// A request.
pub fn request(id: &Value, method: &str, wanted: &Value, token: Option<&Value>) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params(wanted, token) })
}

/// The headers that go with a request.
pub fn headers(request: &Value) -> Vec<(&'static str, String)> {
    let text =
        |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut headers = vec![
        ("accept", "application/json, text/event-stream".to_owned()),
        ("mcp-protocol-version", "2026-07-28".to_owned()),
        ("mcp-method", text("/method")),
    ];
    match text("/method").as_str() {
        "tools/call" => headers.push(("mcp-name", text("/params/name"))),
        "resources/read" => headers.push(("mcp-name", text("/params/uri"))),
        _ => {}
    }
    headers
}

/// What a tool gave, for programs: nothing but that where it did what it was asked to.
///
/// # Panics
///
/// If it did not, or if the text does not say the same, where it is not too long for that.
pub fn result(answer: &Value) -> Value {
    let result = &answer["result"];
    assert_eq!(result["isError"], Value::Null, "{answer:.1000}");
    let text = result["content"][0]["text"].as_str().expect("a text");
    let structured = &result["structuredContent"];
    let said: Value = serde_json::from_str(text).expect("JSON");
    assert!(said == *structured || text.len() > 100_000, "{answer:.1000}");
    structured.clone()
}

/// Why a tool did not do what it was asked to: the code, the field and the text.
///
/// # Panics
///
/// If it did.
pub fn refusal(answer: &Value) -> (String, String, String) {
    let result = &answer["result"];
    assert_eq!(result["isError"], true, "{answer}");
    let error = &result["structuredContent"]["error"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&error["code"]), text(&error["field"]), text(&result["content"][0]["text"]))
}
