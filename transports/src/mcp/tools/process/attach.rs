//! `attach`: what a process printed, and what it prints while somebody waits.

use crate::{
    ApiError, Plane,
    api::process::MAX_WAIT,
    mcp::{Reply, RequestContext, Step, Work, plane},
    plane::follow::{Event, FollowStream, Following, Start},
};
use hangar_backends::{Runtime, runtime::Deadline};
use hangar_core::{
    Close, Time, exec::Encoding, log::Gap, process::Process, tail::Tail, wire::process::GapView,
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};
use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// Bytes at the end of the output that it gives.
const TAIL: usize = 64 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    #[serde(rename = "action")]
    _action: IgnoredAny,
    sandbox: Option<String>,
    process_id: String,
    since: Option<u64>,
    wait_seconds: Option<f64>,
    #[serde(default)]
    until_output: bool,
}

/// Reads a process, and waits for more of it.
pub(super) async fn call(
    plane: &Arc<Plane>,
    context: &RequestContext,
    arguments: Arguments,
    wants_progress: bool,
) -> Result<Reply, ApiError> {
    let Arguments { _action, sandbox, process_id, since, wait_seconds, until_output } = arguments;
    let wait_seconds = wait_seconds.unwrap_or_default();
    if !(0.0..=MAX_WAIT).contains(&wait_seconds) {
        let message = format!("wait_seconds: it must be from 0 to {MAX_WAIT}");
        return Err(ApiError::bad_field("wait_seconds", "out_of_range", message));
    }
    let background = super::find(plane, context, sandbox.as_deref(), &process_id)?;
    let following = Following {
        start: since.map_or(Start::Oldest, Start::Offset),
        encoding: Encoding::Text,
        paced: wants_progress,
        // Who waits holds as much as who streams.
        leased: wants_progress || wait_seconds > 0.0,
        connection: context.connection.clone(),
    };
    let stream = plane.follow(&context.caller, &background, following).await.map_err(|error| {
        // What is wrong with it is the one number that it was given.
        if error.code() == "cursor_ahead" {
            ApiError::bad_field("since", "cursor_ahead", format!("since: {error}"))
        } else {
            error
        }
    })?;
    let next = stream.next();
    let runtime = Arc::clone(plane.runtime());
    let until = runtime.now() + Duration::from_secs_f64(wait_seconds);
    Ok(Reply::Later(Box::new(Attached {
        stream,
        until,
        runtime,
        over: Deadline::default(),
        goal: None,
        tail: Tail::new(TAIL),
        until_output,
        from: next,
        pushed: 0,
        came: false,
        next,
        gap: None,
        cut: false,
    })))
}

/// A process that is followed for a while. Dropped, it runs on.
struct Attached {
    stream: FollowStream,
    until: Time,
    over: Deadline,
    runtime: Arc<dyn Runtime>,
    /// Once the wait is over: the end of what was printed by then. A process may print faster than it is read.
    goal: Option<u64>,
    /// Something to read is enough.
    until_output: bool,
    /// The last of the output since the last gap.
    tail: Tail,
    /// The offset at which that begins, and how much of it there was.
    from: u64,
    pushed: u64,
    /// Whether anything has come.
    came: bool,
    next: u64,
    gap: Option<GapView>,
    /// There was output before the last gap.
    cut: bool,
}

impl Work for Attached {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        loop {
            if self.goal.is_none() && self.over.poll(&*self.runtime, Some(self.until), cx).is_ready() {
                let handle = self.stream.background().handle();
                self.goal = Some(handle.look(|process| process.log().end_offset()));
            }
            // Of a process that is over the end is told, and what that may still give out.
            let is_over = || self.stream.background().handle().look(Process::is_over);
            if self.goal.is_some_and(|goal| self.next >= goal && !is_over()) {
                return Poll::Ready(self.done());
            }
            match self.stream.poll(cx) {
                Poll::Ready(Event::Text { text, next, .. }) => {
                    text.bytes().into_iter().for_each(|bytes| self.push(bytes));
                    self.next = next;
                    return Poll::Ready(Step::Output(text));
                }
                Poll::Ready(Event::Frame(frame)) => {
                    self.push(&frame.data);
                    self.next = frame.end();
                }
                Poll::Ready(Event::Gap(gap)) => self.skip(&gap),
                Poll::Ready(Event::Closed { reason, drain_timed_out, .. }) => {
                    return Poll::Ready(Step::Done(plane::result(self.shown(reason, drain_timed_out))));
                }
                Poll::Pending if self.goal.is_some() || self.until_output && self.came => {
                    return Poll::Ready(self.done());
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl Attached {
    fn push(&mut self, bytes: &[u8]) {
        self.came = true;
        self.tail.push(bytes);
        self.pushed += bytes.len() as u64;
    }

    /// The wait is over.
    fn done(&mut self) -> Step {
        self.stream.ended(Close::Done);
        Step::Done(plane::result(self.shown(Close::Done, false)))
    }

    /// Output is gone: what comes now does not follow what came before.
    fn skip(&mut self, gap: &Gap) {
        self.cut |= !self.tail.is_empty();
        self.tail = Tail::new(TAIL);
        (self.from, self.pushed, self.next) = (gap.to_offset, 0, gap.to_offset);
        let new = GapView::from(gap);
        self.gap = Some(match self.gap.take() {
            None => new,
            // From the beginning of the first to the end of the last.
            Some(old) => GapView {
                from_seq: old.from_seq,
                from_offset: old.from_offset,
                bytes: old.bytes.zip(new.bytes).map(|(old, new)| old + new),
                ..new
            },
        });
    }

    /// The process, with what it printed meanwhile.
    fn shown(&mut self, reason: Close, drain_timed_out: bool) -> Value {
        let mut view = super::view(self.stream.background());
        let tail = std::mem::replace(&mut self.tail, Tail::new(0));
        let truncated = self.cut || tail.is_truncated();
        // Of what is cut nobody is shown anything; of a character that is not whole yet neither, but it is behind `next`.
        let from = self.from + self.pushed - (tail.len() - tail.cut()) as u64;
        if let Some(end) = view.insert("next".to_owned(), self.next.into()) {
            view.insert("end".to_owned(), end);
        }
        view.insert("from".to_owned(), from.into());
        view.insert("output".to_owned(), tail.into_text().into());
        if let Some(gap) = &self.gap {
            view.insert("gap".to_owned(), json!(gap));
        }
        if truncated {
            view.insert("truncated".to_owned(), true.into());
        }
        if let Some(closed) = reason.row().closed {
            view.insert("closed".to_owned(), closed.into());
        }
        if drain_timed_out {
            view.insert("drain_timed_out".to_owned(), true.into());
        }
        view.into()
    }
}
