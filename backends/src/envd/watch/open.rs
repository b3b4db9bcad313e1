//! Asking a daemon to watch a directory.

use super::super::{
    FILESYSTEM, Shared,
    rpc::{CallError, Head},
    stream::{Lost, MessageStream},
};
use crate::watching::{WatchError, WatchSpec};
use bytes::Bytes;
use hangar_core::wire::{
    connect::{Code, RpcError},
    envd::filesystem::{
        EntryResponse, ListDirRequest, ListDirResponse, PathRequest, WatchDirRequest, WatchDirResponse,
    },
};

/// A directory that its daemon watches.
pub(super) struct Opened {
    pub(super) stream: MessageStream<WatchDirResponse>,
    /// Its absolute path.
    pub(super) path: String,
    /// The daemon is hangar's own.
    pub(super) is_hangar: bool,
    /// What is there, if that is to be told and the daemon does not do it.
    pub(super) listed: Vec<Bytes>,
}

/// Why it is not watched.
#[derive(Debug)]
pub(super) enum NotOpened {
    /// The connection broke: it may be at once.
    Cut(WatchError),
    /// It may be later.
    Later(WatchError),
    /// It will not be.
    Refused(WatchError),
}

/// Asks the daemon of a sandbox to watch a directory.
pub(super) async fn open(shared: &Shared, spec: &WatchSpec) -> Result<Opened, NotOpened> {
    let asked = shared.in_workdir(&spec.path);
    let fault = |error| fault(error, &asked);
    let daemon = shared.daemon().await.map_err(fault)?;
    let is_hangar = daemon.is_hangar;
    let head = Head { user: spec.user.as_deref(), watch: is_hangar, ..Head::default() };
    let path = match is_hangar || asked.starts_with('/') {
        true => asked.clone(),
        // E2B's does not say which directory it watches.
        false => {
            let request = PathRequest { path: asked.clone() };
            let method = format!("{FILESYSTEM}/Stat");
            let answer: EntryResponse = shared.rpc.call(&method, &head, &request).await.map_err(fault)?;
            answer.entry.map(|entry| entry.path).unwrap_or_default()
        }
    };
    let request = WatchDirRequest {
        path: path.clone(),
        recursive: spec.recursive,
        include_entry: false,
        allow_network_mounts: spec.network,
        tells_existing: spec.tells_existing && is_hangar,
    };
    let opened = shared.rpc.open(&format!("{FILESYSTEM}/WatchDir"), &head, &request).await;
    let mut stream: MessageStream<WatchDirResponse> = opened.map_err(fault)?;
    let start = match stream.message(&*shared.runtime).await {
        Ok(message) => message.start.ok_or_else(|| {
            NotOpened::Later(WatchError::Broken("its first word was not that it watches".to_owned()))
        })?,
        Err(Lost::Ended(Some(error))) => return Err(refused(error, &path)),
        Err(lost) => return Err(NotOpened::Cut(WatchError::Broken(lost.to_string()))),
    };
    let listed = match spec.tells_existing && !is_hangar {
        true => list(shared, &head, &path, spec.recursive).await.map_err(fault)?,
        false => Vec::new(),
    };
    let path = Some(start.path).filter(|path| !path.is_empty()).unwrap_or(path);
    Ok(Opened { stream, path, is_hangar, listed })
}

/// What is there: names relative to the directory, each after the one that it is in.
async fn list(
    shared: &Shared,
    head: &Head<'_>,
    path: &str,
    recursive: bool,
) -> Result<Vec<Bytes>, CallError> {
    let request = ListDirRequest { path: path.to_owned(), depth: if recursive { u32::MAX } else { 1 } };
    let list: ListDirResponse = shared.rpc.call(&format!("{FILESYSTEM}/ListDir"), head, &request).await?;
    let above = path.trim_end_matches('/');
    let name = |path: &str| Some(path.strip_prefix(above)?.strip_prefix('/')?.to_owned());
    Ok(list.entries.iter().filter_map(|entry| name(&entry.path)).map(Bytes::from).collect())
}

fn fault(error: CallError, path: &str) -> NotOpened {
    match error {
        CallError::Refused(error) => refused(error, path),
        CallError::Broken(_) => NotOpened::Cut(WatchError::Broken(error.to_string())),
        CallError::Unreachable(_) => NotOpened::Later(WatchError::Broken(error.to_string())),
    }
}

/// What a daemon says of a directory that it does not watch, or no longer. hangar's names the field, envd's says it in
/// words.
pub(super) fn refused(error: RpcError, path: &str) -> NotOpened {
    // The path may have any words in it.
    let words = error.message.replace(path, "");
    let is_about = |what: &str| words.contains(what);
    let text = |prefix: &str| error.message.trim_start_matches(prefix).to_owned();
    let path = path.to_owned();
    NotOpened::Refused(match error.code {
        Code::NotFound => WatchError::NotFound(path),
        Code::InvalidArgument if is_about("not a directory") => WatchError::NotADirectory(path),
        Code::InvalidArgument if is_about("network") => WatchError::Network(path),
        Code::InvalidArgument => WatchError::BadPath(text("path: ")),
        Code::PermissionDenied if words.starts_with("user: ") => WatchError::BadUser(text("user: ")),
        Code::PermissionDenied if is_about("outside of") => WatchError::OutsideRoot(path),
        Code::PermissionDenied => WatchError::Denied(path),
        Code::Unauthenticated if is_about("user") => WatchError::BadUser(text("user: ")),
        Code::Unauthenticated => WatchError::Broken("its daemon does not take the token".to_owned()),
        Code::Unimplemented => WatchError::Broken("its daemon cannot watch directories".to_owned()),
        // E2B's has these of the system.
        Code::ResourceExhausted | Code::Internal
            if is_about("max_user_watches") || is_about("no space left on device") =>
        {
            WatchError::TooManyWatches
        }
        Code::ResourceExhausted | Code::Internal
            if is_about("max_user_instances") || is_about("too many open files") =>
        {
            WatchError::TooManyInstances
        }
        Code::ResourceExhausted => match directories(&words) {
            Some(most) => WatchError::TooManyDirectories(most),
            None => return NotOpened::Later(WatchError::Exhausted(error.message.into_owned())),
        },
        Code::Canceled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => {
            let says = format!("its daemon says {}: {}", error.code.name(), error.message);
            return NotOpened::Later(WatchError::Broken(says));
        }
    })
}

/// Of more directories than are watched: how many that are.
fn directories(words: &str) -> Option<usize> {
    let (most, _) = words.split_once("more than ")?.1.split_once(" directories")?;
    most.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(code: Code, message: &str) -> WatchError {
        match refused(RpcError::new(code, message.to_owned()), "/network/not a directory") {
            NotOpened::Refused(error) => error,
            other @ (NotOpened::Cut(_) | NotOpened::Later(_)) => panic!("{message}: {other:?}"),
        }
    }

    #[test]
    fn an_error_of_hangars_daemon_comes_back_as_it_was() {
        let path = || "/network/not a directory".to_owned();
        for (error, code) in [
            (WatchError::NotFound(path()), Code::NotFound),
            (WatchError::NotADirectory(path()), Code::InvalidArgument),
            (WatchError::BadPath("it is empty".to_owned()), Code::InvalidArgument),
            (WatchError::Network(path()), Code::InvalidArgument),
            (WatchError::Denied(path()), Code::PermissionDenied),
            (WatchError::OutsideRoot(path()), Code::PermissionDenied),
            (WatchError::BadUser("there is no user \"x\"".to_owned()), Code::Unauthenticated),
            (WatchError::BadUser("only root can act as x".to_owned()), Code::PermissionDenied),
            (WatchError::TooManyWatches, Code::ResourceExhausted),
            (WatchError::TooManyInstances, Code::ResourceExhausted),
            (WatchError::TooManyDirectories(8192), Code::ResourceExhausted),
        ] {
            assert_eq!(read(code, &error.to_string()), error);
        }
    }

    #[test]
    fn an_error_of_e2bs_daemon_says_the_same() {
        let path = "/network/not a directory";
        for (code, message, expected) in [
            (
                Code::NotFound,
                format!("path {path} not found: stat {path}"),
                WatchError::NotFound(path.into()),
            ),
            (
                Code::InvalidArgument,
                format!("path {path} not a directory: %!w(<nil>)"),
                WatchError::NotADirectory(path.into()),
            ),
            (
                Code::InvalidArgument,
                format!("cannot watch path on network filesystem: {path}"),
                WatchError::Network(path.into()),
            ),
            (
                Code::Internal,
                "error creating watcher: too many open files".to_owned(),
                WatchError::TooManyInstances,
            ),
            (
                Code::Internal,
                format!("error adding path {path} to watcher: no space left on device"),
                WatchError::TooManyWatches,
            ),
            (
                Code::Unauthenticated,
                "invalid username: 'x'".to_owned(),
                WatchError::BadUser("invalid username: 'x'".into()),
            ),
        ] {
            assert_eq!(read(code, &message), expected);
        }
    }

    #[test]
    fn what_may_be_otherwise_later_is_asked_for_again() {
        for (code, message) in [
            (Code::Internal, "watcher error: fsnotify: queue or buffer overflow"),
            (Code::Unavailable, "the daemon is shutting down"),
            (Code::ResourceExhausted, "changes were lost; list the directory and watch it again"),
            (Code::ResourceExhausted, "64 directories are watched, and no more can be: end one of those"),
        ] {
            let read = refused(RpcError::new(code, message), "/d");
            assert!(matches!(read, NotOpened::Later(_)), "{message}: {read:?}");
        }
    }
}
