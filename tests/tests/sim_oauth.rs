//! Where clients of MCP get their tokens, as RFC 9728 has it.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_tests::{
    mcp::request,
    sim::{Request, Setup, World, mcp::http, run},
};
use hangar_transports::rest::ProtectedResource;
use serde_json::json;

const PATHS: [&str; 2] =
    ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"];

#[test]
fn without_an_issuer_nothing_is_there_and_none_is_named() {
    run(Setup::default(), async |world: &World| {
        for path in PATHS {
            let response = world.client().call(&Request::new("GET", path)).await.unwrap();
            assert_eq!(response.status, 404);
        }
        let list = request(&json!(1), "tools/list", &json!({}), None);
        let refused = world.client().call(&http("nonsense", &list)).await.unwrap();
        assert_eq!(refused.header("www-authenticate"), Some("Bearer realm=\"hangar\""));
    });
}

#[test]
fn a_client_finds_the_issuer_by_the_refusal() {
    let resource =
        ProtectedResource::new("https://hangar.example", &["https://issuer.example/realm"]).unwrap();
    run(Setup { oauth: Some(resource), ..Setup::default() }, async |world: &World| {
        for path in PATHS {
            let found = world.client().call(&Request::new("GET", path)).await.unwrap();
            assert_eq!((found.status, found.header("content-type")), (200, Some("application/json")));
            let found = found.json();
            assert_eq!(found["resource"], "https://hangar.example/mcp");
            assert_eq!(found["authorization_servers"], json!(["https://issuer.example/realm"]));
            assert_eq!(found["bearer_methods_supported"], json!(["header"]));
        }
        let metadata =
            "resource_metadata=\"https://hangar.example/.well-known/oauth-protected-resource/mcp\"";
        let list = request(&json!(1), "tools/list", &json!({}), None);
        let (_, little) = world.token(json!({ "scope": "metrics" })).await;
        for (token, status, more) in
            [("nonsense", 401, ""), (&little, 403, ", error=\"insufficient_scope\", scope=\"mcp\"")]
        {
            for method in ["POST", "GET", "DELETE"] {
                let request = match method {
                    "POST" => http(token, &list),
                    _ => Request::new(method, "/mcp").bearer(token),
                };
                let refused = world.client().call(&request).await.unwrap();
                let expected = format!("Bearer realm=\"hangar\", {metadata}{more}");
                assert_eq!((refused.status, refused.header("www-authenticate")), (status, Some(&*expected)));
            }
        }
        // Nowhere else.
        let refused = world.client().call(&Request::new("GET", "/api/sandboxes")).await.unwrap();
        assert_eq!(refused.header("www-authenticate"), Some("Bearer realm=\"hangar\""));
    });
}
