//! The methods of `filesystem.Filesystem` that watch a directory: as a stream, and for who asks now and then.
//!
//! ```text
//!  WatchDir ──► Watched ──► WatchStream: a body that pulls
//!  CreateWatcher ──► Watched ──► Watcher: a task pulls into a queue, which GetWatcherEvents empties
//! ```
//!
//! Whoever does not know hangar is told what envd tells, of which there is no word for changes that were lost: their watch
//! ends with an error.

mod stream;
mod watchers;

use super::{
    Body, Daemon, answer,
    call::Call,
    filesystem::{self, info},
    head::Head,
};
use hangar_backends::{
    local::User,
    watching::{Change, WatchError, WatchSpec, Watching},
};
use hangar_core::{
    watch::{Event, Kind},
    wire::{
        connect::{Code, RpcError},
        envd::{
            change::{self, Said},
            filesystem::{FilesystemEvent, WatchDirRequest},
        },
    },
};
use hyper::Response;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    task::{Context, Poll},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(super) use stream::WatchStream;
pub(super) use watchers::{create, events, remove};

/// Directories that are watched at once: by streams, and by watchers that are asked.
const MAX_WATCHES: usize = 64;

/// Everything that is watched.
pub(super) struct Watches {
    room: Arc<Semaphore>,
    watchers: Mutex<watchers::Watchers>,
}

impl Default for Watches {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(MAX_WATCHES)), watchers: Mutex::default() }
    }
}

impl Watches {
    fn watchers(&self) -> MutexGuard<'_, watchers::Watchers> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A directory that is watched for a client. Dropped, it is not any more.
struct Watched {
    watching: Box<dyn Watching>,
    place: Place,
    /// Its client knows hangar.
    extended: bool,
    _room: OwnedSemaphorePermit,
}

/// Where events are, for who wants to know what is there.
#[derive(Clone)]
struct Place {
    user: User,
    /// As the client named it, absolute.
    path: PathBuf,
}

/// What comes of a change.
enum Heard {
    /// These events: none, one or two.
    Events(Vec<FilesystemEvent>),
    /// The same, and from here on every change is told.
    Ready(Vec<FilesystemEvent>),
    /// The same, and nothing after that.
    Last(Vec<FilesystemEvent>),
    /// It failed.
    Failed(RpcError),
}

impl Watched {
    /// Watches a directory. What is below it is watched once it is [ready](Heard::Ready).
    async fn open(
        daemon: &Daemon,
        head: &Head,
        asked: &WatchDirRequest,
        extended: bool,
    ) -> Result<Self, RpcError> {
        if daemon.shutting_down.load(Ordering::SeqCst) {
            return Err(shutting_down());
        }
        let user = daemon.acting(head.user.as_deref())?;
        let path = daemon.path("path", &asked.path, &user)?;
        let place = Place { user, path };
        let room = Arc::clone(&daemon.watches.room).try_acquire_owned().map_err(|_| {
            let message =
                format!("{MAX_WATCHES} directories are watched, and no more can be: end one of those");
            RpcError::new(Code::ResourceExhausted, message)
        })?;
        if daemon.files.is_fenced() {
            let Place { user, path } = place.clone();
            let checked = daemon.with_files(move |files| files.check_directory(&user, &path)).await;
            checked.map_err(|error| filesystem::failed("path", &error))?;
        }
        let spec = WatchSpec {
            path: place.path.to_str().map(str::to_owned).ok_or_else(|| {
                RpcError::new(
                    Code::InvalidArgument,
                    "path: the home that it is in has a name that is not UTF-8",
                )
            })?,
            recursive: asked.recursive,
            tells_existing: asked.tells_existing && extended,
            user: head.user.clone().or_else(|| daemon.settings().user.clone()),
            network: asked.allow_network_mounts,
        };
        let watching = daemon.sandbox.watch(spec).await.map_err(|error| failed(&error))?;
        // Where the path leads may have changed meanwhile.
        if !daemon.files.holds(Path::new(watching.path())) {
            return Err(failed(&WatchError::OutsideRoot(asked.path.clone())));
        }
        Ok(Self { watching, place, extended, _room: room })
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Heard> {
        self.watching.poll_change(cx).map(|change| hear(change, self.extended))
    }
}

fn hear(change: Change, extended: bool) -> Heard {
    let told = |said: &Said| match extended {
        true => vec![change::extended(said)],
        false => change::plain(said).collect(),
    };
    match change {
        Change::Event(Event { kind: Kind::Overflow, .. }) if !extended => Heard::Failed(lost()),
        Change::Event(event) => Heard::Events(told(&Said::Event(event))),
        Change::Blind { name, why } => Heard::Events(told(&Said::Blind { name, why })),
        Change::Ready => Heard::Ready(told(&Said::Ready)),
        Change::Ended(end) => Heard::Last(told(&Said::Ended(end))),
        Change::Broken(error) => Heard::Failed(failed(&error)),
    }
}

impl Place {
    /// Adds what is there now to what was made or changed, as far as that is still there. Where a name has bytes that are
    /// not UTF-8 nothing is added, as something else may have the name that was told.
    async fn describe(self, daemon: Arc<Daemon>, events: Vec<FilesystemEvent>) -> Vec<FilesystemEvent> {
        let (plain, files) = (events.clone(), Arc::clone(&daemon.files));
        let described = daemon.on_a_thread(move || {
            let mut events = events;
            let has_entry = |event: &FilesystemEvent| {
                let kind = change::change(event.kind);
                matches!(kind, Some(Kind::Create | Kind::Write | Kind::Chmod))
                    && !event.name.contains(char::REPLACEMENT_CHARACTER)
            };
            for event in events.iter_mut().filter(|event| has_entry(event)) {
                let path = match &*event.name {
                    "." => self.path.clone(),
                    name => self.path.join(name),
                };
                event.entry = files.stat(&self.user, &path).ok().map(info);
            }
            events
        });
        described.await.unwrap_or(plain)
    }
}

/// Watches a directory, and tells its changes as they come.
pub(super) async fn stream(
    call: &Call<'_>,
    head: &Head,
    asked: WatchDirRequest,
) -> Result<Response<Body>, RpcError> {
    let watched = Watched::open(call.daemon, head, &asked, head.extensions.watch);
    let watched = call.within(head.deadline, watched).await?;
    let stream = WatchStream::new(call.daemon, head, watched, asked.include_entry);
    Ok(answer::stream(head.codec, Body::Watch(Box::new(stream))))
}

fn lost() -> RpcError {
    RpcError::new(Code::ResourceExhausted, "changes were lost; list the directory and watch it again")
}

fn shutting_down() -> RpcError {
    RpcError::new(Code::Unavailable, "the daemon is shutting down")
}

fn failed(error: &WatchError) -> RpcError {
    let code = match error {
        WatchError::NotFound(_) => Code::NotFound,
        WatchError::NotADirectory(_) | WatchError::BadPath(_) | WatchError::Network(_) => {
            Code::InvalidArgument
        }
        WatchError::Denied(_) | WatchError::OutsideRoot(_) => Code::PermissionDenied,
        WatchError::BadUser(_) => Code::Unauthenticated,
        WatchError::TooManyWatches
        | WatchError::TooManyInstances
        | WatchError::TooManyDirectories(_)
        | WatchError::Exhausted(_) => Code::ResourceExhausted,
        WatchError::NeedsDaemon => Code::Unimplemented,
        WatchError::Paused => Code::FailedPrecondition,
        WatchError::Destroyed => return shutting_down(),
        WatchError::Broken(_) => Code::Internal,
    };
    // By the name of the request's own field.
    let message = match error {
        WatchError::Network(path) => format!(
            "path: {path} is on a network or FUSE file system, whose changes are not all seen here; it is watched with \
             allowNetworkMounts"
        ),
        WatchError::NotFound(_)
        | WatchError::NotADirectory(_)
        | WatchError::Denied(_)
        | WatchError::OutsideRoot(_)
        | WatchError::BadPath(_)
        | WatchError::BadUser(_)
        | WatchError::TooManyWatches
        | WatchError::TooManyInstances
        | WatchError::TooManyDirectories(_)
        | WatchError::Exhausted(_)
        | WatchError::NeedsDaemon
        | WatchError::Paused
        | WatchError::Destroyed
        | WatchError::Broken(_) => error.to_string(),
    };
    RpcError::new(code, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use hangar_core::watch::{Blind, End};

    #[test]
    fn an_error_has_its_code_and_names_the_field() {
        let path = || "/d".to_owned();
        for (error, code, says) in [
            (WatchError::NotFound(path()), Code::NotFound, "path: "),
            (WatchError::NotADirectory(path()), Code::InvalidArgument, "path: "),
            (WatchError::BadPath(path()), Code::InvalidArgument, "path: "),
            (WatchError::Network(path()), Code::InvalidArgument, "allowNetworkMounts"),
            (WatchError::Denied(path()), Code::PermissionDenied, "path: "),
            (WatchError::OutsideRoot(path()), Code::PermissionDenied, "path: "),
            (WatchError::BadUser(path()), Code::Unauthenticated, "user: "),
            (WatchError::TooManyWatches, Code::ResourceExhausted, "fs.inotify.max_user_watches"),
            (WatchError::TooManyInstances, Code::ResourceExhausted, "fs.inotify.max_user_instances"),
            (WatchError::TooManyDirectories(7), Code::ResourceExhausted, "more than 7 directories"),
            (WatchError::NeedsDaemon, Code::Unimplemented, "daemon"),
            (WatchError::Paused, Code::FailedPrecondition, "paused"),
            (WatchError::Destroyed, Code::Unavailable, "shutting down"),
            (WatchError::Broken(path()), Code::Internal, "/d"),
        ] {
            let found = failed(&error);
            assert_eq!(found.code, code, "{error:?}");
            assert!(found.message.contains(says), "{found:?}");
        }
    }

    #[test]
    fn what_envd_has_no_word_for_is_told_to_who_knows_hangar_alone() {
        let count = |change: Change, extended| match hear(change, extended) {
            Heard::Events(events) | Heard::Ready(events) | Heard::Last(events) => Ok(events.len()),
            Heard::Failed(error) => Err(error.code),
        };
        let blind = Change::Blind { name: Bytes::from_static(b"a"), why: Blind::Denied };
        let rename = Event::rename(Bytes::from_static(b"a"), Bytes::from_static(b"b"));
        for (change, plain, extended) in [
            (Change::Event(Event::overflow()), Err(Code::ResourceExhausted), Ok(1)),
            (Change::Event(rename), Ok(2), Ok(1)),
            (Change::Ready, Ok(0), Ok(1)),
            (blind, Ok(0), Ok(1)),
            (Change::Ended(End::Moved), Ok(1), Ok(1)),
            (
                Change::Broken(WatchError::Paused),
                Err(Code::FailedPrecondition),
                Err(Code::FailedPrecondition),
            ),
        ] {
            assert_eq!(count(change.clone(), false), plain, "{change:?}");
            assert_eq!(count(change.clone(), true), extended, "{change:?}");
        }
    }
}
