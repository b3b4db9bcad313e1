//! Watched directories: opened by a token, which they belong to; read by a stream, or by a resource of MCP.
//!
//! ```text
//!  Watching ── changes ──► driver ── push ──► Watched ── take ──► WatchStream: one, which is waited for
//!  (the sandbox's)           │                  │ ▲ └── page ──► a resource: any number, which ask now and then
//!                            │                  │ └── Held: as long as somebody reads
//!                            └── at its end ◄───┘ LINGER after the last of them has left
//! ```
//!
//! Who comes back with the number of the last event that it has, within [`LINGER`], takes the watch over that told it: nothing
//! is lost, and nothing comes twice. Where that is not so a gap says it, and then what is there follows as if it were new.

mod driver;
mod inner;
mod stream;
mod table;
mod watched;

use super::{
    Plane,
    sandboxes::Entry,
    streams::{EntryParts, Place},
    tokens::Caller,
};
use crate::{ApiError, http::Connection, metrics::Kind};
use hangar_backends::watching::WatchSpec;
use hangar_core::Close;
pub use inner::{Over, Page};
use std::{sync::Arc, time::Duration};
pub use stream::{Event, WatchStream};
pub(super) use table::Held;
pub use table::{TooManyWatches, Watches};
pub use watched::Watched;
use watched::{Key, Readers};

/// How long a watch goes on that nobody reads.
pub const LINGER: Duration = Duration::from_secs(60);

/// What a client wants to be watched.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WatchCall {
    /// A directory: absolute, or relative to the one that commands start in.
    pub path: String,
    /// What is below it, too.
    pub recursive: bool,
    /// Also where the system does not see the changes of others.
    pub network: bool,
    /// As whom it is read.
    pub user: Option<String>,
    /// What is there already is told as if it had just been created.
    pub snapshot: bool,
}

impl WatchCall {
    fn key(&self, caller: &Caller, entry: &Entry, readers: Readers) -> Key {
        Key {
            token: caller.token().to_owned(),
            sandbox: entry.id().to_owned(),
            path: self.path.clone(),
            recursive: self.recursive,
            network: self.network,
            user: self.user.clone(),
            readers,
        }
    }

    fn spec(self, tells_existing: bool) -> WatchSpec {
        let Self { path, recursive, network, user, snapshot } = self;
        WatchSpec { path, recursive, network, user, tells_existing: snapshot || tells_existing }
    }
}

/// How a new watch begins.
struct Beginning {
    key: Key,
    spec: WatchSpec,
    /// Its reader has seen some of an earlier one: it is told to forget that.
    anew: bool,
}

impl Plane {
    /// The watched directories.
    pub const fn watches(&self) -> &Arc<Watches> {
        &self.watches
    }

    /// Where a caller may watch now.
    fn watchable(&self, caller: &Caller, sandbox: &str) -> Result<Arc<Entry>, ApiError> {
        self.recheck(caller)?;
        let entry = self.sandboxes.usable(caller, sandbox)?;
        if self.is_shutting_down() {
            return Err(ApiError::shutting_down());
        }
        Ok(entry)
    }

    /// Watches a directory for one client, which follows: behind the event of the number `since`, or from now on.
    pub async fn follow_directory(
        self: &Arc<Self>,
        caller: &Caller,
        sandbox: &str,
        call: WatchCall,
        since: Option<u64>,
        connection: Option<Arc<Connection>>,
    ) -> Result<WatchStream, ApiError> {
        let entry = self.watchable(caller, sandbox)?;
        let lease = self.streams.lease(caller.token())?;
        let key = call.key(caller, &entry, Readers::Stream);
        let taken = since.and_then(|since| self.watches.take_over(&key, since, &self.runtime));
        let (held, gap) = match taken {
            Some(taken) => taken,
            None => {
                let anew = since.is_some();
                let beginning = Beginning { key, spec: call.spec(anew), anew };
                self.begin_watch(caller, &entry, beginning, |watched| watched.follow(since)).await?
            }
        };
        let id = self.new_id();
        let span = tracing::info_span!(
            "stream watch",
            stream.id = id,
            sandbox = entry.name(),
            bytes = tracing::field::Empty,
            messages = tracing::field::Empty,
            reason = tracing::field::Empty,
        );
        let (token, sandbox) = (caller.token().to_owned(), entry.id().to_owned());
        // Nothing is lost to a client that does not read: the watch waits.
        let place = connection.as_ref().map(|_| Place::Notices);
        let parts = EntryParts { id, token, sandbox, command: None, place, connection };
        let open = self.streams.open(Some(Kind::Watch), Some(lease), parts, span);
        let stream = WatchStream::new(Arc::clone(self), held, gap, open);
        self.close_if_late(stream.open(), caller, &entry);
        Ok(stream)
    }

    /// The watch of a directory for clients that ask now and then: the one that goes on, or a new one.
    pub(super) async fn share_directory(
        self: &Arc<Self>,
        caller: &Caller,
        sandbox: &str,
        call: WatchCall,
    ) -> Result<Held, ApiError> {
        let entry = self.watchable(caller, sandbox)?;
        let key = call.key(caller, &entry, Readers::Resource);
        if let Some(held) = self.watches.share(&key, &self.runtime) {
            return Ok(held);
        }
        let beginning = Beginning { key, spec: call.spec(false), anew: false };
        Ok(self.begin_watch(caller, &entry, beginning, |_| ()).await?.0)
    }

    /// What is kept of the watch of a directory, for a caller that asks now and then; None where it is not watched.
    pub fn watched_directory(
        &self,
        caller: &Caller,
        entry: &Entry,
        call: &WatchCall,
    ) -> Option<Arc<Watched>> {
        self.watches.find(&call.key(caller, entry, Readers::Resource))
    }

    async fn begin_watch<T>(
        self: &Arc<Self>,
        caller: &Caller,
        entry: &Entry,
        beginning: Beginning,
        follow: impl FnOnce(&Watched) -> T,
    ) -> Result<(Held, T), ApiError> {
        let Beginning { key, spec, anew } = beginning;
        let opening = self.watches.open(caller.token())?;
        let watching = entry.sandbox().watch(spec).await?;
        if key.readers == Readers::Resource
            && let Some(held) = self.watches.share(&key, &self.runtime)
        {
            // Somebody was quicker.
            let followed = follow(held.watched());
            return Ok((held, followed));
        }
        let now = self.runtime.wall_ms();
        let (id, first_seq) = (self.watches.next_id(), self.watches.first_seq(now));
        let newest = Arc::clone(self.watches.newest());
        let path = watching.path().to_owned();
        let watched = Arc::new(Watched::new(id, key, path, first_seq, newest));
        if anew {
            watched.begin_anew(now);
        }
        let followed = follow(&watched);
        opening.fill(&watched);
        let held = self.watches.held(&watched, &self.runtime);
        let (watches, runtime) = (Arc::downgrade(&self.watches), Arc::clone(&self.runtime));
        self.runtime.spawn(Box::pin(driver::drive(Arc::clone(&watched), watching, watches, runtime)));
        // Whoever ended the token, the sandbox or the server meanwhile did not find it yet.
        let late = [
            (!self.is_valid(caller.token())).then_some(Close::Revoked),
            entry.close_reason(),
            self.is_shutting_down().then_some(Close::Shutdown),
        ];
        if let Some(reason) = late.into_iter().flatten().min() {
            self.watches.end(reason, |other| other.id() == watched.id());
        }
        Ok((held, followed))
    }
}
