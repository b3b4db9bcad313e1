//! What changes in a plane, for clients that are told that it did.
//!
//! * [`Plane::watch_output`], [`Plane::watch_directory`], [`Plane::watch_sandboxes`], [`Plane::watch_list`]: something that
//!   changes.
//! * [`Plane::open_notices`]: the stream on which a client is told.

use super::{
    Plane,
    background::Background,
    bell::{Bell, Hearing},
    lock,
    streams::{EntryParts, Leased, Open, Place},
    tokens::Caller,
    watches::{Held, WatchCall},
};
use crate::{ApiError, api::sandbox::ListView, http::Connection, metrics::Kind};
use hangar_backends::{Runtime, handle::Reading, runtime::Deadline};
use hangar_core::{Close, Time, log::CursorAhead, process::Process};
use serde_json::json;
use std::{
    collections::BTreeMap,
    future::poll_fn,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

/// Something that changes, and how much of it was told. It holds one of the token's leases, where it has one.
#[derive(Debug)]
pub struct Watch {
    source: Source,
    /// The position that was told.
    told: u64,
    lease: Option<Leased>,
}

#[derive(Debug)]
enum Source {
    /// What a process prints, and its end.
    Output { reading: Reading, named: Option<Named> },
    /// What changes below a directory.
    Directory { bell: Hearing, held: Held },
    /// What a caller sees of the sandboxes.
    Sandboxes { bell: Hearing, plane: Arc<Plane>, caller: Caller, heard: Option<(u64, u64)> },
    /// Which processes a caller has.
    List {
        sandboxes: Hearing,
        processes: Hearing,
        plane: Arc<Plane>,
        caller: Caller,
        heard: Option<(u64, u64)>,
    },
    /// Nothing changes any more.
    Over(u64),
}

/// A process that is followed by its name: the newest that has it.
#[derive(Debug)]
struct Named {
    /// Rung where a process is started.
    list: Hearing,
    heard: u64,
    plane: Arc<Plane>,
    caller: Caller,
    sandbox: String,
    process: String,
    /// Which it is.
    id: String,
}

impl Named {
    /// The newest one, where it is another than before.
    fn newest(&mut self, waker: &Waker) -> Option<Arc<Background>> {
        let rung = self.list.rung(waker);
        if std::mem::replace(&mut self.heard, rung) == rung {
            return None;
        }
        let found = self.plane.find_process(&self.caller, &self.sandbox, &self.process).ok()?;
        if found.id() == self.id {
            return None;
        }
        found.id().clone_into(&mut self.id);
        Some(found)
    }

    /// What tells its positions from those of others that had the name.
    fn salt(&self) -> u64 {
        fingerprint(&self.id)
    }
}

/// The position of a process: where its output ends, and whether it has ended.
fn position(process: &Process) -> u64 {
    at(process.log().end_offset(), process.exit_status().is_some())
}

fn at(end: u64, has_ended: bool) -> u64 {
    end.saturating_mul(2).saturating_add(u64::from(has_ended))
}

impl Source {
    /// Where it is now, and whether it stays there. `waker` is woken when that changes.
    fn position(&mut self, waker: &Waker) -> (u64, bool) {
        let position = match self {
            Self::Output { reading, named } => {
                if let Some(newest) = named.as_mut().and_then(|named| named.newest(waker)) {
                    *reading = newest.handle().reader();
                }
                let salt = named.as_ref().map_or(0, Named::salt);
                // In one look: what comes between two would never be told. A name may be another's one day.
                let (at, is_over) =
                    reading.read(waker, |process| (position(process), Process::is_over(process)));
                return (at ^ salt, is_over && named.is_none());
            }
            Self::Directory { bell, held } => {
                bell.rung(waker);
                let told = held.watched().position();
                return (fingerprint(&told), told.is_over);
            }
            Self::Sandboxes { bell, plane, caller, heard } => {
                seen(heard, bell.rung(waker), || fingerprint_of_sandboxes(plane, caller))
            }
            Self::List { sandboxes, processes, plane, caller, heard } => {
                let rung = sandboxes.rung(waker).wrapping_add(processes.rung(waker));
                seen(heard, rung, || fingerprint_of_processes(plane, caller))
            }
            Self::Over(position) => *position,
        };
        (position, false)
    }
}

/// What a caller sees: looked at again only after a bell rang, since that may have been for something that they do not see.
fn seen(heard: &mut Option<(u64, u64)>, rung: u64, look: impl FnOnce() -> u64) -> u64 {
    match heard {
        Some((at, seen)) if *at == rung => *seen,
        _ => heard.insert((rung, look())).1,
    }
}

fn fingerprint(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

fn fingerprint_of_sandboxes(plane: &Plane, caller: &Caller) -> u64 {
    fingerprint(&json!(ListView::of(&plane.sandboxes().visible(caller))).to_string())
}

fn fingerprint_of_processes(plane: &Plane, caller: &Caller) -> u64 {
    let mut hasher = DefaultHasher::new();
    for entry in plane.sandboxes().visible(caller) {
        for process in plane.list_processes(caller, entry.id()).unwrap_or_default() {
            (entry.id(), process.id()).hash(&mut hasher);
        }
    }
    hasher.finish()
}

impl Watch {
    fn new(mut source: Source, since: Option<u64>, lease: Option<Leased>) -> Self {
        let told = since.unwrap_or_else(|| source.position(Waker::noop()).0);
        Self { source, told, lease }
    }

    /// Ready while it is at another position than was told.
    pub fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (position, is_last) = self.source.position(cx.waker());
        if position != self.told {
            return Poll::Ready(());
        }
        if is_last {
            self.let_go();
        }
        Poll::Pending
    }

    /// All that there is counts as told.
    pub fn told(&mut self) {
        let (position, is_last) = self.source.position(Waker::noop());
        self.told = position;
        if is_last {
            self.let_go();
        }
    }

    /// Nothing changes any more: what it printed is not kept for this, and its place is free.
    fn let_go(&mut self) {
        self.source = Source::Over(self.told);
        self.lease = None;
    }

    /// Its client will not come back to it: nothing is kept for that.
    pub const fn leave_for_good(&mut self) {
        if let Source::Directory { held, .. } = &mut self.source {
            held.leave_for_good();
        }
    }

    /// The position that was told: from there the next one goes on.
    pub const fn position(&self) -> u64 {
        self.told
    }
}

/// What a stream of notices is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Purpose {
    /// To tell what changes, each of which has a place among the token's streams.
    Tells,
    /// To tell what changes, where nothing of that has a place: the stream has one.
    TellsAlone,
    /// To carry the answer to a call that goes on without it, and is counted itself.
    Carries,
}

/// A stream on which a client is told what changes.
pub struct Notices {
    open: Open,
    /// None for who carries a call, which ends by itself.
    until: Option<Time>,
    deadline: Deadline,
    opened: Time,
    runtime: Arc<dyn Runtime>,
}

impl std::fmt::Debug for Notices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notices").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Notices {
    /// Why it has to end, once it has to.
    pub fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Close> {
        if let Some(reason) = self.open.asked_to_close(cx.waker()) {
            return Poll::Ready(reason);
        }
        self.deadline.poll(&*self.runtime, self.until, cx).map(|()| Close::Lifetime)
    }

    /// It told something.
    pub fn told(&mut self) {
        self.open.sent(0, self.runtime.now().since(self.opened));
    }

    /// It ends, and says so.
    pub const fn ended(&mut self, reason: Close) {
        self.open.ended(reason);
    }
}

impl Plane {
    /// What a process of the caller's prints, and its end: from a position on, or where there is none from an offset of its
    /// output, or else from now. It is named by its id, or by its name.
    pub fn watch_output(
        self: &Arc<Self>,
        caller: &Caller,
        sandbox: &str,
        process: &str,
        since: Option<u64>,
        offset: Option<u64>,
    ) -> Result<Watch, ApiError> {
        // Heard before it is found: who has the name is looked for again if that changes.
        let list = self.processes.hear(caller.token());
        let heard = list.rung(Waker::noop());
        let background = self.find_process(caller, sandbox, process)?;
        let lease = self.streams.lease(caller.token())?;
        let id = background.id().to_owned();
        let named = (id != process).then(|| Named {
            list,
            heard,
            plane: Arc::clone(self),
            caller: caller.clone(),
            sandbox: sandbox.to_owned(),
            process: process.to_owned(),
            id,
        });
        let salt = named.as_ref().map_or(0, Named::salt);
        let source = Source::Output { reading: background.handle().reader(), named };
        let mut watch = Watch::new(source, since, Some(lease));
        if let (None, Some(offset)) = (since, offset) {
            let end = background.handle().look(|process| process.log().end_offset());
            if offset > end {
                return Err(CursorAhead { asked: offset, newest: end }.into());
            }
            // Whoever read so far may have read while it ran.
            watch.told = at(offset, false) ^ salt;
        }
        Ok(watch)
    }

    /// What changes below a directory: from a position on, or where there is none from behind the event of the number
    /// `seq`, or else from now. Returns once everything below it is watched, so that no change after that is missed. It is watched
    /// while this is there, and [for a while](super::watches::LINGER) after that.
    pub async fn watch_directory(
        self: &Arc<Self>,
        caller: &Caller,
        sandbox: &str,
        call: WatchCall,
        since: Option<u64>,
        seq: Option<u64>,
    ) -> Result<Watch, ApiError> {
        let lease = self.streams.lease(caller.token())?;
        let held = self.share_directory(caller, sandbox, call).await?;
        let bell = held.watched().bell().hear();
        poll_fn(|cx| {
            bell.rung(cx.waker());
            if held.watched().is_settled() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let newest = held.watched().position().newest;
        let mut watch = Watch::new(Source::Directory { bell, held }, since, Some(lease));
        if since.is_none() && seq.is_some_and(|seq| seq != newest) {
            // There is something that it has not read.
            watch.told = !watch.told;
        }
        Ok(watch)
    }

    /// The sandboxes that the caller sees, and the state of each.
    pub fn watch_sandboxes(self: &Arc<Self>, caller: &Caller, since: Option<u64>) -> Result<Watch, ApiError> {
        let lease = self.streams.lease(caller.token())?;
        let (bell, plane, caller) = (self.sandboxes.bell().hear(), Arc::clone(self), caller.clone());
        Ok(Watch::new(Source::Sandboxes { bell, plane, caller, heard: None }, since, Some(lease)))
    }

    /// Which processes the caller has.
    pub fn watch_list(self: &Arc<Self>, caller: &Caller, since: Option<u64>) -> Watch {
        let (sandboxes, processes) = (self.sandboxes.bell().hear(), self.processes.hear(caller.token()));
        let (plane, caller) = (Arc::clone(self), caller.clone());
        Watch::new(Source::List { sandboxes, processes, plane, caller, heard: None }, since, None)
    }

    /// Opens a stream of notices.
    pub fn open_notices(
        &self,
        caller: &Caller,
        connection: Option<Arc<Connection>>,
        purpose: Purpose,
    ) -> Result<Notices, ApiError> {
        self.recheck(caller)?;
        if self.is_shutting_down() {
            return Err(ApiError::shutting_down());
        }
        let alone = purpose == Purpose::TellsAlone;
        let lease = alone.then(|| self.streams.lease(caller.token())).transpose()?;
        let kind = (purpose != Purpose::Carries).then_some(Kind::Listen);
        let id = self.new_id();
        let span = match purpose {
            Purpose::Tells | Purpose::TellsAlone => tracing::info_span!(
                "stream listen",
                stream.id = id,
                bytes = tracing::field::Empty,
                messages = tracing::field::Empty,
                reason = tracing::field::Empty,
            ),
            // The call has one.
            Purpose::Carries => tracing::Span::none(),
        };
        let (token, sandbox) = (caller.token().to_owned(), String::new());
        // The call waits for a client that reads slowly, and slows its command.
        let place = (purpose != Purpose::Carries).then_some(Place::Notices);
        let parts = EntryParts { id, token, sandbox, command: None, place, connection };
        let open = self.streams.open(kind, lease, parts, span);
        self.close_if_over(&open, caller);
        let opened = self.runtime.now();
        Ok(Notices {
            open,
            until: (purpose != Purpose::Carries).then(|| opened + self.settings.stream_max),
            deadline: Deadline::default(),
            opened,
            runtime: Arc::clone(&self.runtime),
        })
    }
}

/// The bells of those tokens whose lists somebody watches.
#[derive(Debug, Default)]
pub(super) struct Bells(Mutex<BTreeMap<String, Arc<Bell>>>);

impl Bells {
    /// One more who hears that of a token.
    pub(super) fn hear(&self, token: &str) -> Hearing {
        let mut bells = lock(&self.0);
        bells.retain(|_, bell| !bell.is_unheard());
        bells.entry(token.to_owned()).or_default().hear()
    }

    /// Something of a token's changed.
    pub(super) fn ring(&self, token: &str) {
        let bell = lock(&self.0).get(token).cloned();
        if let Some(bell) = bell {
            bell.ring();
        }
    }
}
