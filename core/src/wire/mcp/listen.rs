//! `subscriptions/listen`: the stream of what changes, from its acknowledgement to its result.
//!
//! ```text
//!  acknowledged ──► changed* ──► result: the server ends it
//! ```
//!
//! The acknowledgement says what of the client's wishes is granted, and nothing else is ever told. Each message bears the id
//! of the request, as the client wrote it: that is the subscription's.

use super::{
    message::{Id, RpcError},
    meta,
    types::{self, Implementation},
};
use crate::{
    Time,
    changes::{self, Changes},
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// The most resources of one subscription.
pub const MAX_RESOURCES: usize = 1024;

/// The lists of a server that may change.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum List {
    /// Of tools.
    Tools,
    /// Of prompts.
    Prompts,
    /// Of resources.
    Resources,
}

impl List {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    /// What tells that it changed.
    pub const fn method(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
        }
    }

    /// The capability that says whether it changes.
    pub const fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
        }
    }

    /// Its member of a filter.
    const fn wish(self) -> &'static str {
        match self {
            Self::Tools => "toolsListChanged",
            Self::Prompts => "promptsListChanged",
            Self::Resources => "resourcesListChanged",
        }
    }
}

/// The member of a filter that names resources.
const RESOURCES: &str = "resourceSubscriptions";

/// Something that changes.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Topic {
    /// What is there.
    List(List),
    /// A resource, by its URI as the client wrote it.
    Resource(Arc<str>),
}

impl Topic {
    /// The method that tells that it changed, and the parameter that says which resource did.
    pub fn told(&self) -> (&'static str, Option<(&'static str, Value)>) {
        match self {
            Self::List(list) => (list.method(), None),
            Self::Resource(uri) => ("notifications/resources/updated", Some(("uri", Value::from(&**uri)))),
        }
    }
}

/// What a client wants to be told, or what of that is granted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Filter {
    /// Those lists.
    pub lists: BTreeSet<List>,
    /// Those resources, each once, in the client's order; at most [`MAX_RESOURCES`].
    pub resources: Vec<Arc<str>>,
}

impl Filter {
    /// From the parameters of the request. What is not known of a filter is passed over, and so not granted.
    pub fn parse(params: &Map<String, Value>) -> Result<Self, RpcError> {
        let bad = |field: &str, message: &str| {
            RpcError::invalid_params(format!("params.notifications{field}: {message}"))
        };
        let wishes = match params.get("notifications") {
            Some(Value::Object(wishes)) => wishes,
            Some(_) => return Err(bad("", "it must be an object")),
            None => return Err(bad("", "it is missing")),
        };
        let mut filter = Self::default();
        for list in List::ALL {
            match wishes.get(list.wish()) {
                None | Some(Value::Bool(false)) => {}
                Some(Value::Bool(true)) => _ = filter.lists.insert(list),
                Some(_) => return Err(bad(&format!(".{}", list.wish()), "it must be true or false")),
            }
        }
        let uris = match wishes.get(RESOURCES) {
            None => return Ok(filter),
            Some(Value::Array(uris)) => uris,
            Some(_) => return Err(bad(&format!(".{RESOURCES}"), "it must be an array")),
        };
        if uris.len() > MAX_RESOURCES {
            return Err(bad(&format!(".{RESOURCES}"), &format!("it has more than {MAX_RESOURCES} URIs")));
        }
        let mut known = BTreeSet::new();
        for (at, uri) in uris.iter().enumerate() {
            let Value::String(uri) = uri else {
                return Err(bad(&format!(".{RESOURCES}[{at}]"), "it must be a string"));
            };
            if known.insert(uri.as_str()) {
                filter.resources.push(uri.as_str().into());
            }
        }
        Ok(filter)
    }

    fn topics(&self) -> impl Iterator<Item = Topic> {
        let lists = self.lists.iter().map(|list| Topic::List(*list));
        lists.chain(self.resources.iter().cloned().map(Topic::Resource))
    }

    /// As a request or an acknowledgement has it.
    pub fn to_json(&self) -> Value {
        let mut wishes = Map::new();
        for list in &self.lists {
            wishes.insert(list.wish().to_owned(), Value::Bool(true));
        }
        if !self.resources.is_empty() {
            wishes.insert(RESOURCES.to_owned(), self.resources.iter().map(|uri| &**uri).collect());
        }
        Value::Object(wishes)
    }
}

/// What a poll gives.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Output {
    /// A notification for the client.
    Notification {
        /// What it tells.
        method: &'static str,
        /// Of what, and of which subscription.
        params: Value,
        /// What changed; None for the acknowledgement.
        topic: Option<Topic>,
    },
    /// The result of the request: nothing more is told.
    Result(Map<String, Value>),
    /// Its result was given before this.
    Closed,
    /// Nothing before this time, or before the next input.
    Wait(Option<Time>),
}

#[derive(Debug)]
enum State {
    /// Nothing was said yet; that is granted.
    Fresh(Filter),
    Acknowledged,
    /// Its result was given.
    Answered,
    Closed,
}

/// One subscription. See the [module](self).
#[derive(Debug)]
pub struct Listening {
    id: Id,
    server: Implementation,
    changes: Changes<Topic>,
    seen: Time,
    state: State,
}

impl Listening {
    /// The answer to a request of that id. What is `granted` changes from now on, if it does: who makes this hears of
    /// changes already, so that none falls between.
    pub fn new(id: Id, granted: Filter, server: Implementation, now: Time) -> Self {
        let mut changes = Changes::new(List::ALL.len() + MAX_RESOURCES, now);
        for topic in granted.topics() {
            changes.follow(topic);
        }
        Self { id, server, changes, seen: now, state: State::Fresh(granted) }
    }

    /// It changed. Passed over where that was not granted.
    pub fn handle_change(&mut self, topic: &Topic) {
        self.changes.handle_change(topic);
    }

    /// Ends it with a result, after what is still to be told.
    pub fn close(&mut self) {
        self.changes.close();
    }

    /// What is to be said now.
    pub fn poll_output(&mut self, now: Time) -> Output {
        self.seen = self.seen.max(now);
        match std::mem::replace(&mut self.state, State::Acknowledged) {
            State::Fresh(granted) => {
                let about = Some(("notifications", granted.to_json()));
                let (method, params) = self.notification("notifications/subscriptions/acknowledged", about);
                Output::Notification { method, params, topic: None }
            }
            State::Acknowledged => match self.changes.poll_output(self.seen) {
                changes::Output::Changed(topic) => {
                    let (method, about) = topic.told();
                    let (method, params) = self.notification(method, about);
                    Output::Notification { method, params, topic: Some(topic) }
                }
                changes::Output::Closed => {
                    self.state = State::Answered;
                    Output::Result(types::complete(json!({ "_meta": self.meta() }), &self.server))
                }
                changes::Output::Wait(at) => Output::Wait(at),
            },
            State::Answered => {
                self.state = State::Closed;
                Output::Closed
            }
            State::Closed => {
                self.state = State::Closed;
                Output::Wait(None)
            }
        }
    }

    fn meta(&self) -> Value {
        Value::Object(Map::from_iter([(meta::SUBSCRIPTION.to_owned(), json!(self.id))]))
    }

    fn notification(&self, method: &'static str, about: Option<(&str, Value)>) -> (&'static str, Value) {
        let about = about.into_iter().chain([("_meta", self.meta())]);
        (method, about.map(|(name, value)| (name.to_owned(), value)).collect())
    }
}
