//! What a call needs of a client of MCP's revisions of 2025 is asked on its stream, on the virtual clock.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_backends::runtime::BoxFuture;
use hangar_core::wire::mcp::{
    listen::Topic,
    message::RpcError,
    request::{Call, Offers},
    session::Position,
    types::{Implementation, ToolCall, complete},
};
use hangar_tests::sim::{Setup, World, messages::Messages, run, session::Session, world::ADMIN};
use hangar_transports::{
    ApiError,
    mcp::{Followed, Handler, Outcome, Reply, RequestContext, not_found},
    plane::notices::{Notices, Purpose},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Asks as the newest revision does: by its result, and is called again with the answers.
struct Asks;

const SERVER: Implementation = Implementation { name: "asks", version: "0" };

impl Handler for Asks {
    fn offers(&self) -> Offers<'_> {
        Offers { methods: &["server/discover", "tools/call"] }
    }

    fn call<'a>(&'a self, _context: RequestContext, call: &'a Call) -> BoxFuture<'a, Reply> {
        Box::pin(std::future::ready(Reply::Now(match call.method.as_str() {
            "tools/call" => call.params().and_then(answer),
            _ => Ok(complete(json!({ "capabilities": { "tools": {} } }), &SERVER)),
        })))
    }

    fn follow<'a>(
        &'a self,
        _context: &'a RequestContext,
        _topic: &'a Topic,
        _since: Option<Position>,
    ) -> BoxFuture<'a, Result<Box<dyn Followed>, RpcError>> {
        Box::pin(std::future::ready(Err(not_found("x"))))
    }

    fn open(&self, _context: &RequestContext, _purpose: Purpose) -> Result<Option<Notices>, ApiError> {
        Ok(None)
    }
}

fn answer(tool: ToolCall) -> Outcome {
    let asks = |requests: Value, state: &str| {
        let fields =
            json!({ "resultType": "input_required", "inputRequests": requests, "requestState": state });
        Ok(complete(fields, &SERVER))
    };
    let name = json!({ "method": "elicitation/create", "params": { "message": "Who?" } });
    let roots = json!({ "method": "roots/list" });
    let answers = json!(tool.input_responses.unwrap_or_default());
    match (tool.name.as_str(), tool.request_state.as_deref()) {
        ("once", None) => asks(json!({ "name": name, "roots": roots }), "1"),
        ("twice", None) => asks(json!({ "first": name }), "1"),
        ("twice", Some("1")) => asks(json!({ "second": name }), "2"),
        ("forever", _) => asks(json!({ "again": name }), "x"),
        (_, state) => Ok(complete(json!({ "content": [], "answers": answers, "state": state }), &SERVER)),
    }
}

fn setup() -> Setup {
    Setup { mcp: Some(|| Arc::new(Asks)), ..Setup::default() }
}

async fn able(world: &World) -> Session {
    Session::begin_able(world, ADMIN, "2025-11-25", &json!({ "elicitation": {}, "roots": {} })).await
}

async fn call(world: &World, session: &Session, name: &str) -> Messages {
    session.tool(world.client(), name, &json!({}), None).await.unwrap().1
}

/// The next question: its id and its method.
async fn question(call: &mut Messages) -> (Value, String) {
    let asked = call.next().await.unwrap().unwrap();
    assert!(asked["id"].is_u64() && asked["params"].is_object(), "{asked}");
    (asked["id"].clone(), asked["method"].as_str().unwrap().to_owned())
}

fn content(name: &str) -> Value {
    json!({ "result": { "action": "accept", "content": { "name": name } } })
}

#[test]
fn a_call_goes_on_once_each_question_is_answered() {
    run(setup(), async |world: &World| {
        let session = able(world).await;
        let mut once = call(world, &session, "once").await;
        let (name, method) = question(&mut once).await;
        assert_eq!(method, "elicitation/create");
        let (roots, method) = question(&mut once).await;
        assert_eq!(method, "roots/list");
        // In whatever order, and what is not asked for is passed over.
        session.answer(world, &json!(999), &content("nobody")).await;
        session.answer(world, &roots, &json!({ "result": { "roots": [] } })).await;
        session.answer(world, &roots, &json!({ "result": { "roots": [1] } })).await;
        session.answer(world, &name, &content("me")).await;
        let result = once.next().await.unwrap().unwrap()["result"].clone();
        let (_, name) = (&result["resultType"], &result["answers"]["name"]["content"]["name"]);
        assert_eq!(
            (name, &result["answers"]["roots"], &result["state"]),
            (&json!("me"), &json!({ "roots": [] }), &json!("1"))
        );
        assert!(once.next().await.unwrap().is_none());
        // In several rounds, each with its state.
        let mut twice = call(world, &session, "twice").await;
        for name in ["one", "two"] {
            let (id, _) = question(&mut twice).await;
            session.answer(world, &id, &content(name)).await;
        }
        let result = twice.next().await.unwrap().unwrap()["result"].clone();
        assert_eq!(
            (&result["answers"]["second"]["content"]["name"], &result["state"]),
            (&json!("two"), &json!("2"))
        );
        // One that asks without end is given up.
        let mut forever = call(world, &session, "forever").await;
        let mut rounds = 0;
        let error = loop {
            let asked = forever.next().await.unwrap().unwrap();
            if asked.get("method").is_none() {
                break asked["error"].clone();
            }
            rounds += 1;
            session.answer(world, &asked["id"], &content("again")).await;
        };
        assert_eq!((rounds, &error["code"]), (16, &json!(-32603)));
        session.end(world).await;
    });
}

#[test]
fn a_client_that_cannot_or_does_not_answer_ends_the_call() {
    run(setup(), async |world: &World| {
        // It is not asked what it cannot do.
        let unable = Session::begin(world, ADMIN, "2025-06-18").await;
        let refused = call(world, &unable, "twice").await.next().await.unwrap().unwrap();
        assert!(refused["error"]["message"].as_str().unwrap().contains("elicitation/create"), "{refused}");
        let session = able(world).await;
        let mut no = call(world, &session, "twice").await;
        let (id, _) = question(&mut no).await;
        session.answer(world, &id, &json!({ "error": { "code": -1, "message": "no" } })).await;
        let refused = no.next().await.unwrap().unwrap();
        assert_eq!(refused["error"], json!({ "code": -1, "message": "no" }));
        // Cancelled meanwhile, it is not answered, and neither is what comes late.
        let (name, mut gone) = session.tool(world.client(), "twice", &json!({}), None).await.unwrap();
        let (id, _) = question(&mut gone).await;
        session.tell(world, "notifications/cancelled", &json!({ "requestId": name })).await;
        assert!(gone.next().await.unwrap().is_none());
        session.answer(world, &id, &content("late")).await;
        // An hour is time enough.
        let mut silent = call(world, &session, "twice").await;
        let begun = world.now();
        question(&mut silent).await;
        let refused = silent.next().await.unwrap().unwrap();
        assert!(refused["error"]["message"].as_str().unwrap().contains("did not answer"), "{refused}");
        assert_eq!(world.now().since(begun).as_secs(), 3600);
        session.end(world).await;
        unable.end(world).await;
    });
}

#[test]
fn a_question_is_there_for_who_comes_back() {
    run(setup(), async |world: &World| {
        let session = able(world).await;
        let mut first = call(world, &session, "twice").await;
        let (one, _) = question(&mut first).await;
        let last = first.last_id().to_owned();
        first.cutter().cut();
        session.answer(world, &one, &content("one")).await;
        world.sleep_ms(60_000).await;
        let mut rest = session.stream(world.client(), Some(&last)).await.unwrap().unwrap();
        let (two, _) = question(&mut rest).await;
        assert_ne!(one, two);
        session.answer(world, &two, &content("two")).await;
        let result = rest.next().await.unwrap().unwrap()["result"].clone();
        assert_eq!(result["answers"]["second"]["content"]["name"], "two");
        session.end(world).await;
    });
}
