//! An MCP server with the tools, resources and prompts that the protocol's conformance suite asks for, served by the same
//! code as hangar's own. What hangar does not offer (prompts, input that a call asks its client for) is here alone.
//!
//! ```text
//! cargo run -p hangar-transports --example mcp_fixture -- 127.0.0.1:8101
//! ```
//!
//! `HANGAR_TOKEN` is the token it wants.

mod inputs;
mod prompts;
mod resources;
mod tools;
mod topics;

use async_executor::Executor;
use hangar_backends::{
    Runtime,
    runtime::{Address, BoxFuture},
    store::MemoryStore,
};
use hangar_core::wire::mcp::{
    listen::Topic,
    message::{RpcError, code},
    request::{Call, Offers},
    revision::Revision,
    session::Position,
    types::{Cache, Implementation, cacheable, complete},
};
use hangar_smol::{SmolRuntime, signals::StopSignals};
use hangar_transports::{
    ApiError, Plane, Settings,
    mcp::{Followed, Handler, Outcome, Reply, RequestContext, listen, not_found},
    plane::{
        notices::{Notices, Purpose},
        tokens::Tokens,
    },
    rest::{Guard, Service},
    server::Server,
};
use serde_json::{Value, json};
use std::{error::Error, net::SocketAddr, sync::Arc, time::Duration};
use topics::Topics;

const SERVER: Implementation =
    Implementation { name: "hangar-mcp-fixture", version: env!("CARGO_PKG_VERSION") };

/// A pixel, as PNG in base64.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let listen: SocketAddr = std::env::args().nth(1).as_deref().unwrap_or("127.0.0.1:8101").parse()?;
    let token = std::env::var("HANGAR_TOKEN")?;
    let executor = Arc::new(Executor::new());
    let runtime: Arc<dyn Runtime> = Arc::new(SmolRuntime::new(&executor));
    let mut signals = StopSignals::listen()?;
    async_io::block_on(executor.run(async {
        let tokens = Tokens::load(Some(&token), Arc::new(MemoryStore::default())).await?;
        let plane = Plane::new(Arc::clone(&runtime), Settings::default(), tokens);
        let listener = runtime.listen(Address::Tcp(listen)).await?;
        println!("the fixture listens on http://{}/mcp", listener.address());
        let mut key = [0; 32];
        runtime.random(&mut key);
        let topics = Topics::default();
        let fixture = Fixture { runtime: Arc::clone(&runtime), plane: Arc::clone(&plane), key, topics };
        let fixture = Arc::new(fixture);
        let server = Server::of(Service::with_mcp(plane, Guard::default(), fixture));
        let stop = async {
            signals.next().await;
        };
        server.run(listener, stop, std::future::pending()).await;
        Ok(())
    }))
}

/// Answers what the suite asks.
struct Fixture {
    runtime: Arc<dyn Runtime>,
    plane: Arc<Plane>,
    topics: Topics,
    /// What states that clients bring back are signed with.
    key: [u8; 32],
}

impl Handler for Fixture {
    fn offers(&self) -> Offers<'_> {
        Offers {
            methods: &[
                "server/discover",
                "tools/list",
                "tools/call",
                "prompts/list",
                "prompts/get",
                "resources/list",
                "resources/templates/list",
                "resources/read",
                "completion/complete",
                "subscriptions/listen",
            ],
        }
    }

    fn call<'a>(&'a self, context: RequestContext, call: &'a Call) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            match call.method.as_str() {
                "tools/call" => tools::call(self, call),
                "prompts/get" => Reply::Now(prompts::get(call)),
                "resources/read" => Reply::Now(resources::read(call)),
                "subscriptions/listen" => listen::call(self, &self.runtime, &context, call, SERVER).await,
                _ => Reply::Now(listed(call)),
            }
        })
    }

    fn follow<'a>(
        &'a self,
        _context: &'a RequestContext,
        topic: &'a Topic,
        since: Option<Position>,
    ) -> BoxFuture<'a, Result<Box<dyn Followed>, RpcError>> {
        Box::pin(async move {
            match topic {
                Topic::Resource(uri) if !resources::is_there(uri) => Err(not_found(uri)),
                Topic::Resource(_) | Topic::List(_) => Ok(self.topics.follow(topic, since)),
            }
        })
    }

    fn open(&self, context: &RequestContext, purpose: Purpose) -> Result<Option<Notices>, ApiError> {
        self.plane.open_notices(&context.caller, context.connection.clone(), purpose).map(Some)
    }
}

fn listed(call: &Call) -> Outcome {
    let fields = match call.method.as_str() {
        "server/discover" => json!({
            "supportedVersions": Revision::names(),
            "capabilities": {
                "tools": { "listChanged": true },
                "resources": { "subscribe": true, "listChanged": true },
                "prompts": { "listChanged": true },
                "completions": {},
                "logging": {},
            },
        }),
        "tools/list" => json!({ "tools": tools::list() }),
        "prompts/list" => json!({ "prompts": prompts::list() }),
        "resources/list" => json!({ "resources": resources::list() }),
        "resources/templates/list" => json!({ "resourceTemplates": resources::templates() }),
        "completion/complete" => {
            return Ok(complete(
                json!({ "completion": { "values": [], "total": 0, "hasMore": false } }),
                &SERVER,
            ));
        }
        other => {
            return Err(RpcError::new(code::METHOD_NOT_FOUND, format!("there is no method {other} here")));
        }
    };
    Ok(cacheable(fields, Cache::Public(Duration::from_secs(60)), &SERVER))
}

/// A result that has nothing but this in it.
fn content(content: Value) -> Outcome {
    Ok(complete(json!({ "content": content }), &SERVER))
}

/// A piece of text.
fn text(text: impl Into<String>) -> Value {
    json!({ "type": "text", "text": text.into() })
}
