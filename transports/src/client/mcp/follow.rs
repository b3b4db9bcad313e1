//! Something that a server tells of, for as long as it is followed: over as many connections as that takes.

use super::{RemoteHandler, failed};
use crate::mcp::{Followed, Reply, Step, Work, not_found};
use hangar_backends::runtime::{BoxFuture, Deadline};
use hangar_core::{
    Time,
    wire::mcp::{
        REVISION,
        listen::{Filter, Topic},
        message::{Id, RpcError, code},
        meta::{self, Meta},
        request::Call,
        revision::Revision,
        session::Position,
    },
};
use serde_json::{Value, json, value::RawValue};
use std::{
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

/// What a server tells of one thing that changes.
pub(super) struct RemoteFollowed {
    handler: RemoteHandler,
    topic: Topic,
    link: Link,
    changed: bool,
    tries: u32,
}

/// The stream on which it does.
enum Link {
    Open(Box<dyn Work>),
    /// It broke; the next one begins then.
    Waiting(Time, Deadline),
    Opening(BoxFuture<'static, Result<Box<dyn Work>, Refused>>),
    /// The server tells nothing more of it.
    Over,
}

/// Why there is no such stream.
enum Refused {
    /// The server does not grant it.
    NotGranted,
    /// It cannot be reached, or says something else.
    Failed(RpcError),
}

/// How long it is waited before a stream that broke is opened again: twice as long each time, to that.
const BACK_OFF: Duration = Duration::from_millis(250);
const MAX_BACK_OFF: Duration = Duration::from_secs(30);

impl RemoteFollowed {
    /// Follows a topic. `changed`: it may have changed since its client was told.
    pub(super) async fn new(handler: RemoteHandler, topic: Topic, changed: bool) -> Result<Self, RpcError> {
        let link = match listen(handler.clone(), topic.clone()).await {
            Ok(work) => Link::Open(work),
            Err(Refused::Failed(error)) => return Err(error),
            Err(Refused::NotGranted) => return Err(not_granted(&topic)),
        };
        Ok(Self { handler, topic, link, changed, tries: 0 })
    }

    /// Leaves the server alone for a while, longer each time.
    fn wait(&mut self) {
        let wait = BACK_OFF.saturating_mul(1 << self.tries.min(10)).min(MAX_BACK_OFF);
        self.tries += 1;
        self.link = Link::Waiting(self.handler.client.runtime.now() + wait, Deadline::default());
    }

    /// Whether the server told anything.
    fn poll_link(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let runtime = Arc::clone(&self.handler.client.runtime);
        loop {
            match &mut self.link {
                Link::Open(work) => match ready!(work.poll(cx)) {
                    Step::Notification { .. } => {
                        // It is one that tells.
                        self.tries = 0;
                        return Poll::Ready(());
                    }
                    Step::Done(_) => self.wait(),
                    Step::Output(_) | Step::Base64(_) | Step::Progress(_) | Step::Question { .. } => {}
                },
                Link::Waiting(until, deadline) => {
                    ready!(deadline.poll(&*runtime, Some(*until), cx));
                    self.link = Link::Opening(Box::pin(listen(self.handler.clone(), self.topic.clone())));
                }
                Link::Opening(opening) => match ready!(opening.as_mut().poll(cx)) {
                    Ok(work) => {
                        self.link = Link::Open(work);
                        // It may have changed meanwhile.
                        return Poll::Ready(());
                    }
                    Err(Refused::NotGranted) => {
                        self.link = Link::Over;
                        return Poll::Ready(());
                    }
                    Err(Refused::Failed(_)) => self.wait(),
                },
                Link::Over => return Poll::Pending,
            }
        }
    }
}

fn not_granted(topic: &Topic) -> RpcError {
    match topic {
        Topic::Resource(uri) => not_found(uri),
        Topic::List(list) => RpcError::invalid_params(format!("{} never comes", list.method())),
    }
}

/// Opens a stream on which the server tells of one thing.
async fn listen(handler: RemoteHandler, topic: Topic) -> Result<Box<dyn Work>, Refused> {
    let mut wanted = Filter::default();
    match topic {
        Topic::List(list) => _ = wanted.lists.insert(list),
        Topic::Resource(uri) => wanted.resources.push(uri),
    }
    let about = json!({ (meta::VERSION): REVISION, (meta::CAPABILITIES): {} });
    let params = json!({ "notifications": wanted.to_json(), "_meta": about }).to_string();
    let call = Call {
        id: Id::Text("follow".to_owned()),
        method: "subscriptions/listen".to_owned(),
        params: RawValue::from_string(params).unwrap_or_default(),
        revision: Revision::V2026_07_28,
        meta: Meta::default(),
    };
    let unexpected =
        || Refused::Failed(RpcError::new(code::INTERNAL, "the server answered with something else"));
    let mut work = match handler.ask(&call).await.map_err(|error| Refused::Failed(failed(&error)))? {
        Reply::Later(work) => work,
        Reply::Now(Err(error)) => return Err(Refused::Failed(error)),
        Reply::Now(Ok(_)) => return Err(unexpected()),
    };
    match std::future::poll_fn(|cx| work.poll(cx)).await {
        Step::Notification { params: Value::Object(params), .. } => match Filter::parse(&params) {
            Ok(granted) if granted == wanted => Ok(work),
            Ok(_) => Err(Refused::NotGranted),
            Err(_) => Err(unexpected()),
        },
        Step::Done(Err(error)) => Err(Refused::Failed(error)),
        Step::Output(_)
        | Step::Base64(_)
        | Step::Progress(_)
        | Step::Notification { .. }
        | Step::Question { .. }
        | Step::Done(Ok(_)) => Err(unexpected()),
    }
}

impl Followed for RemoteFollowed {
    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.poll_link(cx).is_ready() {
            self.changed = true;
        }
        if self.changed { Poll::Ready(()) } else { Poll::Pending }
    }

    fn told(&mut self) {
        self.changed = false;
    }

    /// The server knows it.
    fn position(&self) -> Position {
        0
    }
}
