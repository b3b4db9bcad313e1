//! Clients of the revisions of 2025, each with a session.
//!
//! ```text
//!  Session ── start ──► Running: an answer, or work for one; goes on when its stream breaks
//!    │  ▲                  └── asks the client (asking) ◄── handle_told
//!    │  └── cancel
//!    └── open_stream ──► Telling: what changed, on the stream that was opened last
//! ```
//!
//! * [`Session`]: what the transports share.
//! * [`call`]: a call over HTTP, whose stream can be come back to;
//!   [`batch`]: several in one body.
//! * [`stream`]: the stream that tells what changes.
//! * [`table`]: sessions by their ids.

mod asking;
pub mod batch;
pub mod call;
pub mod stream;
pub mod table;

use super::{Handler, Outcome, Reply, RequestContext, not_found, running::Running};
use hangar_backends::{Runtime, runtime::BoxFuture};
use hangar_core::wire::mcp::{
    legacy::{self, Incoming, Initialize, Request},
    listen::{List, Topic},
    message::{Id, RpcError, code},
    meta::{LogLevel, Meta},
    replay::Answered,
    request::Call,
    response::Framing,
    revision::Revision,
    session::{self, Session as Machine},
    types::ReadResource,
};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};
use stream::Telling;

/// Resources that one session may follow.
pub const MAX_RESOURCES: usize = 256;

/// Methods of the newest revision alone.
const NEWEST_ONLY: [&str; 2] = ["server/discover", "subscriptions/listen"];

/// A session, whatever carries it.
pub struct Session {
    handler: Arc<dyn Handler>,
    runtime: Arc<dyn Runtime>,
    /// Whether it takes a level for log messages.
    logs: bool,
    /// The lists that change.
    lists: Vec<List>,
    state: Mutex<State>,
}

struct State {
    machine: Machine,
    /// While a stream is open.
    telling: Option<Telling>,
    /// Whoever carries that stream.
    stream: Option<Waker>,
    /// What the client answered, by question, with the call that asked and takes it.
    answers: BTreeMap<u64, (u64, Result<Value, RpcError>)>,
    /// The calls that wait for answers.
    askers: BTreeMap<u64, Waker>,
    /// Calls over HTTP.
    calls: BTreeMap<u64, Arc<call::Cell>>,
    answered: Answered,
    closed: bool,
}

/// A call that was begun. Dropped, its id is free again.
pub(super) struct Started {
    session: Arc<Session>,
    number: u64,
    running: Running,
}

/// A session that begins, with the result for its client.
pub(super) type Beginning = BoxFuture<'static, Result<(Arc<Session>, Map<String, Value>), RpcError>>;

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("machine", &self.lock().machine).finish_non_exhaustive()
    }
}

impl Session {
    /// Begins a session, with the result for its client.
    pub async fn begin(
        handler: Arc<dyn Handler>,
        runtime: Arc<dyn Runtime>,
        context: RequestContext,
        initialize: Initialize,
    ) -> Result<(Arc<Self>, Map<String, Value>), RpcError> {
        let Initialize { id, revision, capabilities } = initialize;
        let meta = Meta { capabilities: capabilities.clone(), ..Meta::default() };
        let params = RawValue::from_string("{}".to_owned()).unwrap_or_default();
        let discover = Call { id, method: "server/discover".to_owned(), params, revision, meta };
        let discovered = match handler.call(context, &discover).await {
            Reply::Now(outcome) => outcome?,
            Reply::Later(_) => {
                return Err(RpcError::new(code::INTERNAL, "the server does not say what it can do"));
            }
        };
        let result = legacy::initialized(revision, discovered);
        let state = State {
            machine: Machine::new(revision, capabilities, MAX_RESOURCES + List::ALL.len()),
            telling: None,
            stream: None,
            answers: BTreeMap::new(),
            askers: BTreeMap::new(),
            calls: BTreeMap::new(),
            answered: Answered::default(),
            closed: false,
        };
        let capabilities = &result["capabilities"];
        let logs = capabilities.get("logging").is_some();
        let changes = |list: &List| capabilities[list.capability()]["listChanged"] == true;
        let lists = List::ALL.into_iter().filter(changes).collect();
        Ok((Arc::new(Self { handler, runtime, logs, lists, state: Mutex::new(state) }), result))
    }

    /// From now on the client is told what changes in lists, on whichever stream it opens first.
    pub(crate) async fn note_lists(&self, context: &RequestContext) {
        for topic in self.lists.iter().copied().map(Topic::List) {
            if let Ok(followed) = self.handler.follow(context, &topic, None).await {
                // There is a place for each list.
                self.lock().machine.follow(topic, followed.position()).ok();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of one call is no reason to lose the session.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The revision that its client speaks.
    pub fn revision(&self) -> Revision {
        self.lock().machine.revision()
    }

    /// Begins what the client asks for.
    pub(super) fn start(
        self: &Arc<Self>,
        context: RequestContext,
        request: Request,
        framing: Framing,
    ) -> Result<Started, RpcError> {
        let mut state = self.lock();
        if state.closed {
            return Err(RpcError::new(code::INVALID_REQUEST, "the session has ended"));
        }
        let machine = &mut state.machine;
        let call = request.call(machine.revision(), machine.capabilities(), machine.log_level())?;
        let begun = machine.begin(&call.id);
        let number = begun.map_err(|error| RpcError::new(code::INVALID_REQUEST, error.to_string()))?;
        match call.method.as_str() {
            "resources/read" => {
                if let Ok(ReadResource { uri }) = call.params() {
                    machine.handle_read(&uri);
                }
            }
            "resources/list" => machine.handle_listed(List::Resources),
            "tools/list" => machine.handle_listed(List::Tools),
            "prompts/list" => machine.handle_listed(List::Prompts),
            _ => {}
        }
        drop(state);
        let (id, token) = (call.id.clone(), call.meta.progress_token.clone());
        let reply: BoxFuture<'static, Reply> =
            Box::pin(Arc::clone(self).answer(context, number, Arc::new(call)));
        let running = Running::new(id, token, framing, Arc::clone(&self.runtime), reply);
        Ok(Started { session: Arc::clone(self), number, running })
    }

    async fn answer(self: Arc<Self>, context: RequestContext, number: u64, call: Arc<Call>) -> Reply {
        let outcome = match call.method.as_str() {
            "ping" => Ok(Map::new()),
            "initialize" => Err(RpcError::new(code::INVALID_REQUEST, "the session has begun already")),
            "resources/subscribe" => self.subscribe(&context, &call).await,
            "resources/unsubscribe" => self.unsubscribe(&call),
            "logging/setLevel" if self.logs => self.set_log_level(&call),
            other if NEWEST_ONLY.contains(&other) || !self.handler.offers().methods.contains(&other) => {
                let message = format!("there is no method {other} here");
                Err(RpcError::new(code::METHOD_NOT_FOUND, message))
            }
            _ => return asking::answer(self, context, number, call).await,
        };
        Reply::Now(legacy::adapted(&call.method, outcome))
    }

    async fn subscribe(&self, context: &RequestContext, call: &Call) -> Outcome {
        let topic = Topic::Resource(uri(call)?.into());
        if self.lock().machine.follows(&topic) {
            return Ok(Map::new());
        }
        self.lock().machine.may_follow().map_err(too_many)?;
        let followed = self.handler.follow(context, &topic, None).await?;
        self.check_places(context).await?;
        let mut state = self.lock();
        if state.machine.follows(&topic) {
            // Somebody was quicker: what they follow may have changed meanwhile.
            return Ok(Map::new());
        }
        state.machine.follow(topic.clone(), followed.position()).map_err(too_many)?;
        if let Some(telling) = &mut state.telling {
            telling.follow(topic, followed);
        }
        state.wake_stream();
        Ok(Map::new())
    }

    /// Whether a stream would have a place for each of what is followed, beside what the caller holds. One that is open
    /// has them.
    async fn check_places(&self, context: &RequestContext) -> Result<(), RpcError> {
        let mut held = Vec::new();
        for (topic, at) in self.without_a_place() {
            match self.handler.follow(context, &topic, Some(at)).await {
                Ok(followed) => held.push(followed),
                // What is not there any more needs none.
                Err(error) if error.code == code::INVALID_PARAMS => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What is followed, where no stream is open that follows it.
    fn without_a_place(&self) -> Vec<(Topic, u64)> {
        let state = self.lock();
        let topics = state.machine.topics().filter(|_| state.telling.is_none());
        topics.map(|(topic, at)| (topic.clone(), at)).collect()
    }

    fn unsubscribe(&self, call: &Call) -> Outcome {
        let topic = Topic::Resource(uri(call)?.into());
        let mut state = self.lock();
        state.machine.unfollow(&topic);
        if let Some(telling) = &mut state.telling {
            telling.unfollow(&topic);
        }
        Ok(Map::new())
    }

    fn set_log_level(&self, call: &Call) -> Outcome {
        #[derive(Deserialize)]
        struct Params {
            level: Value,
        }
        let level = LogLevel::deserialize(call.params::<Params>()?.level);
        let level = level.map_err(|_| RpcError::invalid_params("params.level: there is no such level"))?;
        self.lock().machine.set_log_level(level);
        Ok(Map::new())
    }

    /// What the client tells, or answers.
    pub(crate) fn handle_told(&self, told: Incoming) {
        match told {
            Incoming::Notification { method, params } if method == "notifications/cancelled" => {
                if let Some(id) = cancelled(params.as_deref()) {
                    self.cancel(&id);
                }
            }
            Incoming::Response { id: Some(question), outcome } => {
                let mut state = self.lock();
                if let Some((call, question)) = state.machine.answered(&question) {
                    state.answers.insert(question, (call, outcome));
                    let asker = state.askers.remove(&call);
                    drop(state);
                    asker.into_iter().for_each(Waker::wake);
                }
            }
            Incoming::Notification { .. } | Incoming::Response { .. } | Incoming::Request(_) => {}
        }
    }

    /// Ends a call that the client does not want answered any more.
    fn cancel(&self, id: &Id) {
        let mut state = self.lock();
        let cell = state.machine.cancel(id).and_then(|call| state.calls.remove(&call));
        drop(state);
        if let Some(cell) = cell {
            cell.cancel();
        }
    }

    /// It is over: its calls are cancelled, its stream ends.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let calls = std::mem::take(&mut state.calls);
        let telling = state.telling.take();
        state.wake_stream();
        drop(state);
        if let Some(mut telling) = telling {
            telling.unfollow_all();
        }
        calls.into_values().for_each(|cell| cell.cancel());
    }
}

impl State {
    fn wake_stream(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.wake();
        }
    }
}

impl Started {
    /// What becomes of it.
    pub(super) const fn running(&mut self) -> &mut Running {
        &mut self.running
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let mut state = self.session.lock();
        state.machine.finish(self.number);
        state.askers.remove(&self.number);
        state.answers.retain(|_, (call, _)| *call != self.number);
    }
}

/// The call that a client cancels.
pub(super) fn cancelled(params: Option<&RawValue>) -> Option<Id> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Cancelled {
        request_id: Id,
    }
    params
        .and_then(|params| serde_json::from_str::<Cancelled>(params.get()).ok())
        .map(|params| params.request_id)
}

fn uri(call: &Call) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        uri: Value,
    }
    match call.params::<Params>()?.uri {
        Value::String(uri) if uri.is_empty() => Err(not_found(&uri)),
        Value::String(uri) => Ok(uri),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(RpcError::invalid_params("params.uri: it must be a string"))
        }
    }
}

fn too_many(error: session::TooMany) -> RpcError {
    RpcError::new(code::INVALID_REQUEST, error.to_string())
}
