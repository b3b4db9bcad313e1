//! A call of a session over HTTP. It goes on when its connection breaks, and its client can come back to what it said
//! meanwhile, with the id of the last event that it read.
//!
//! ```text
//!  Started ── polled by its reader ──► Replay: the last events are kept ──► CallBody
//!               └── nobody reads: by a task of its own, until it is answered
//! ```
//!
//! What was written is not what was read: an answer is kept for [`KEEP`](hangar_core::wire::mcp::replay::KEEP) after that, whoever it was written to, as one of
//! the session's last.

use super::{
    super::{Outcome, RequestContext},
    Session, Started,
    table::Held,
};
use crate::{
    ApiError,
    plane::notices::{Notices, Purpose},
    sse::{Flow, Source},
};
use bytes::BytesMut;
use hangar_backends::Runtime;
use hangar_core::{
    Close,
    wire::mcp::{
        legacy::Request,
        message::RpcError,
        replay::{Replay, event_id},
        response::Framing,
        revision::Revision,
    },
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// A call, and whoever reads it.
pub struct Cell {
    number: u64,
    inner: Mutex<Inner>,
}

struct Inner {
    /// None once it is answered or cancelled.
    call: Option<Started>,
    events: Replay,
    /// Who reads: the last one that came.
    reader: u64,
    waker: Option<Waker>,
}

impl Cell {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is to be answered no more.
    pub(super) fn cancel(&self) {
        let mut inner = self.lock();
        let call = inner.call.take();
        let waker = inner.waker.take();
        drop(inner);
        // Dropped, its command is killed.
        drop(call);
        waker.into_iter().for_each(Waker::wake);
    }

    /// One who reads it from now on, in place of whoever did.
    fn read_on(&self) -> u64 {
        let mut inner = self.lock();
        inner.reader += 1;
        let waker = inner.waker.take();
        let reader = inner.reader;
        drop(inner);
        waker.into_iter().for_each(Waker::wake);
        reader
    }

    fn poll_outcome(&self, cx: &mut Context<'_>) -> Poll<Option<Outcome>> {
        let mut inner = self.lock();
        // Whoever comes back to it before has it.
        let is_first = inner.reader == 0;
        match &mut inner.call {
            Some(call) if is_first => {
                let outcome = call.running().poll_reply(cx);
                inner.waker = Some(cx.waker().clone());
                outcome
            }
            Some(_) | None => Poll::Ready(None),
        }
    }

    /// Appends the next event of that reader to `out`.
    fn poll_event(
        &self,
        reader: u64,
        next: &mut u64,
        cx: &mut Context<'_>,
        out: &mut BytesMut,
    ) -> Poll<Flow> {
        let mut inner = self.lock();
        if inner.reader != reader {
            return Poll::Ready(Flow::Last);
        }
        loop {
            if let Some(event) = inner.events.take(next) {
                out.extend_from_slice(&event);
                let more = inner.call.is_some() || *next < inner.events.end();
                return Poll::Ready(if more { Flow::More } else { Flow::Last });
            }
            inner.waker = Some(cx.waker().clone());
            let Some(call) = &mut inner.call else { return Poll::Ready(Flow::Last) };
            let mut event = BytesMut::new();
            let Poll::Ready(flow) = call.running().poll(cx, &mut event) else { return Poll::Pending };
            if flow == Flow::Last {
                inner.call = None;
            }
            if !event.is_empty() {
                inner.events.push(&event, flow == Flow::Last);
            }
        }
    }
}

/// How a call is answered.
pub(crate) enum Begun {
    /// At once.
    Now(Outcome),
    /// As a stream.
    Stream(Box<CallBody>),
}

/// Whether a body has one message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// It does, and the call has a stream of its own, which can be come back to.
    Alone,
    /// It has several, whose answers share a stream: an id would be that of one of them.
    OfBatch,
}

/// Begins a call, and waits until it is known how it is answered. Dropped before, it goes on.
pub(crate) async fn begin(
    session: Held,
    context: RequestContext,
    request: Request,
    kind: Kind,
) -> Result<Begun, RpcError> {
    let mut answer = CallBody::begin(session, context.clone(), request, kind)?;
    let outcome = std::future::poll_fn(|cx| answer.cell.poll_outcome(cx)).await;
    Ok(match outcome {
        None => {
            // Where that is refused, the server ends: the call says so.
            answer.notices = answer.session.session().handler.open(&context, Purpose::Carries).ok().flatten();
            Begun::Stream(Box::new(answer))
        }
        Some(outcome) => {
            answer.discard();
            Begun::Now(outcome)
        }
    })
}

/// The stream of one call, as one client reads it.
pub struct CallBody {
    cell: Arc<Cell>,
    session: Held,
    reader: u64,
    /// The number of the event that comes next.
    next: u64,
    /// Where it is counted, and why it has to end: the call does not with it.
    notices: Option<Notices>,
    runtime: Arc<dyn Runtime>,
}

impl std::fmt::Debug for CallBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallBody")
            .field("call", &self.cell.number)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl CallBody {
    fn begin(held: Held, context: RequestContext, request: Request, kind: Kind) -> Result<Self, RpcError> {
        let session = held.session();
        // The call does not end with its connection.
        let context = RequestContext { connection: None, ..context };
        let call = session.start(context, request, Framing::Events)?;
        let number = call.number;
        let mut events = Replay::new(number, kind == Kind::Alone);
        if session.revision() >= Revision::V2025_11_25 {
            // So that its client can come back before anything was said. Those of before trip over an event without data.
            events.push(b"data: \n\n", false);
        }
        let inner = Inner { call: Some(call), events, reader: 0, waker: None };
        let cell = Arc::new(Cell { number, inner: Mutex::new(inner) });
        let mut state = session.lock();
        state.calls.insert(number, Arc::clone(&cell));
        let is_over = state.closed || !state.machine.runs(number);
        drop(state);
        if is_over {
            // Whoever ended it did not find it yet.
            cell.cancel();
        }
        let runtime = Arc::clone(&session.runtime);
        Ok(Self { cell, session: held, reader: 0, next: 0, notices: None, runtime })
    }

    /// The rest of a call, behind the event of that id.
    pub(crate) fn resume(held: Held, context: &RequestContext, last_event: &str) -> Result<Self, ApiError> {
        let bad = |code, message: &str| {
            ApiError::bad_field("Last-Event-ID", code, format!("Last-Event-ID: {message}"))
        };
        let (number, event) =
            event_id(last_event).ok_or_else(|| bad("bad_cursor", "it was not given out here"))?;
        let session = held.session();
        session.purge();
        let cell = session.lock().calls.get(&number).cloned();
        let gone = || bad("gone", "its call was answered too long ago, cancelled, or is another session's");
        let cell = cell.ok_or_else(gone)?;
        if event >= cell.lock().events.end() {
            return Err(bad("cursor_ahead", "its call has not said that yet"));
        }
        let notices = session.handler.open(context, Purpose::Carries)?;
        let (reader, runtime) = (cell.read_on(), Arc::clone(&session.runtime));
        Ok(Self { cell, session: held, reader, next: event.saturating_add(1), notices, runtime })
    }

    /// It was answered otherwise: nobody comes back to it.
    fn discard(&self) {
        self.cell.read_on();
        self.cell.cancel();
        self.session.session().forget(self.cell.number);
    }
}

impl Source for CallBody {
    fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    fn poll_event(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<Flow> {
        if let Some(notices) = &mut self.notices
            && let Poll::Ready(reason) = notices.poll_close(cx)
            // Of what ends the call itself, the call says so.
            && !matches!(reason, Close::Revoked | Close::Shutdown)
        {
            notices.ended(reason);
            return Poll::Ready(Flow::Last);
        }
        self.cell.poll_event(self.reader, &mut self.next, cx, out)
    }
}

impl Drop for CallBody {
    fn drop(&mut self) {
        let mut inner = self.cell.lock();
        if inner.reader != self.reader {
            // Somebody else reads it.
            return;
        }
        if inner.call.is_none() {
            let bytes = inner.events.bytes();
            drop(inner);
            self.session.session().answered(self.cell.number, bytes);
            return;
        }
        inner.reader += 1;
        let keeper =
            Keeper { reader: inner.reader, cell: Arc::clone(&self.cell), session: self.session.clone() };
        drop(inner);
        self.runtime.spawn(Box::pin(keeper.run()));
    }
}

/// Carries a call on that nobody reads.
struct Keeper {
    cell: Arc<Cell>,
    session: Held,
    reader: u64,
}

impl Keeper {
    async fn run(self) {
        let (mut out, mut next) = (BytesMut::new(), u64::MAX);
        // What there is to read is kept anyway: this only has it go on.
        std::future::poll_fn(|cx| {
            loop {
                match self.cell.poll_event(self.reader, &mut next, cx, &mut out) {
                    Poll::Ready(Flow::More) => out.clear(),
                    Poll::Ready(Flow::Last) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await;
        let inner = self.cell.lock();
        // Whoever comes back takes it over.
        if inner.reader == self.reader {
            let bytes = inner.events.bytes();
            drop(inner);
            self.session.session().answered(self.cell.number, bytes);
        }
    }
}

impl Session {
    fn forget(&self, call: u64) {
        let cell = self.lock().calls.remove(&call);
        drop(cell);
    }

    /// A call was answered, and holds so many bytes for who comes back to it.
    fn answered(&self, call: u64, bytes: usize) {
        let mut state = self.lock();
        if !state.calls.contains_key(&call) {
            return;
        }
        let gone = state.answered.push(call, bytes, self.runtime.now());
        let cells: Vec<Arc<Cell>> = gone.iter().filter_map(|call| state.calls.remove(call)).collect();
        drop(state);
        drop(cells);
    }

    /// Forgets the answered calls whose time is over.
    pub(super) fn purge(&self) {
        let mut state = self.lock();
        let gone = state.answered.expire(self.runtime.now());
        let cells: Vec<Arc<Cell>> = gone.iter().filter_map(|call| state.calls.remove(call)).collect();
        drop(state);
        drop(cells);
    }
}
