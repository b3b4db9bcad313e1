//! `subscriptions/listen`: a call whose answer goes on, and tells what changes.
//!
//! ```text
//!  Listen ── polls ──► Followed, each of what is granted ── changed ──► Listening ──► notification
//!    │                       ▲                                                            │
//!    │                       └───────────────────────── told ─────────────────────────────┘
//!    └── polls ──► Notices: why it has to end ──► Listening ──► result
//! ```

use super::{Handler, Reply, RequestContext, Step, Work, following::Following, refused};
use crate::plane::notices::{Notices, Purpose};
use hangar_backends::{Runtime, runtime::Deadline};
use hangar_core::wire::mcp::{
    listen::{Filter, Listening, Output, Topic},
    message::RpcError,
    request::Call,
    types::Implementation,
};
use serde_json::{Map, Value};
use std::{
    sync::Arc,
    task::{Context, Poll},
};

/// Answers the call. What its caller may not see, or has no place for, is not granted.
pub async fn call(
    handler: &dyn Handler,
    runtime: &Arc<dyn Runtime>,
    context: &RequestContext,
    call: &Call,
    server: Implementation,
) -> Reply {
    match begin(handler, runtime, context, call, server).await {
        Ok(listen) => Reply::Later(Box::new(listen)),
        Err(error) => Reply::Now(Err(error)),
    }
}

async fn begin(
    handler: &dyn Handler,
    runtime: &Arc<dyn Runtime>,
    context: &RequestContext,
    call: &Call,
    server: Implementation,
) -> Result<Listen, RpcError> {
    let wishes = Filter::parse(&call.params::<Map<String, Value>>()?)?;
    let mut granted = Filter::default();
    let mut following = Following::default();
    for uri in wishes.resources {
        let topic = Topic::Resource(Arc::clone(&uri));
        if let Ok(followed) = handler.follow(context, &topic, None).await {
            following.insert(topic, followed);
            granted.resources.push(uri);
        }
    }
    for list in wishes.lists {
        let topic = Topic::List(list);
        if let Ok(followed) = handler.follow(context, &topic, None).await {
            following.insert(topic, followed);
            granted.lists.insert(list);
        }
    }
    // Each resource has a place; a stream without one has its own.
    let alone = granted.resources.is_empty();
    let purpose = if alone { Purpose::TellsAlone } else { Purpose::Tells };
    let notices = handler.open(context, purpose).map_err(|error| refused(&error))?;
    let listening = Listening::new(call.id.clone(), granted, server, runtime.now());
    let (runtime, deadline) = (Arc::clone(runtime), Deadline::default());
    Ok(Listen { listening, following, notices, runtime, deadline })
}

/// An open subscription. Dropped, it is one whose client left.
struct Listen {
    listening: Listening,
    following: Following,
    /// None where it is not counted, and never ended.
    notices: Option<Notices>,
    runtime: Arc<dyn Runtime>,
    deadline: Deadline,
}

impl Work for Listen {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        if let Some(notices) = &mut self.notices
            && let Poll::Ready(reason) = notices.poll_close(cx)
        {
            notices.ended(reason);
            self.listening.close();
        }
        loop {
            let Self { listening, following, .. } = self;
            following.poll_changed(cx, |topic| listening.handle_change(topic));
            match listening.poll_output(self.runtime.now()) {
                Output::Notification { method, params, topic } => {
                    if let Some(topic) = topic {
                        following.told(&topic);
                        self.notices.iter_mut().for_each(Notices::told);
                    }
                    return Poll::Ready(Step::Notification { method: method.into(), params });
                }
                Output::Result(result) => return Poll::Ready(Step::Done(Ok(result))),
                Output::Wait(at) => {
                    if self.deadline.poll(&*self.runtime, at, cx).is_pending() {
                        return Poll::Pending;
                    }
                }
                // The result was the last that was asked for.
                Output::Closed => return Poll::Pending,
            }
        }
    }

    fn beats(&self) -> bool {
        false
    }
}
