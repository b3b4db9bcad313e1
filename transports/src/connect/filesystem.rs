//! The methods of `filesystem.Filesystem`, but for those that [watch](super::watch).

use super::{Daemon, head::Head};
use hangar_backends::{
    local::{
        User, UserError,
        files::{self, Entry, FileError, Files, Kind},
    },
    runtime::blocking,
};
use hangar_core::wire::{
    connect::{Code, RpcError},
    envd::{
        filesystem::{
            EntryInfo, EntryResponse, ListDirRequest, ListDirResponse, MoveRequest, PathRequest, Timestamp,
        },
        process::Empty,
    },
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The most entries of one list.
const MAX_ENTRIES: usize = 100_000;

impl Daemon {
    /// Who touches files: whom a request names, else as who commands run.
    pub(super) fn acting(&self, named: Option<&str>) -> Result<User, RpcError> {
        let settings = self.settings().user.clone();
        let user = match named.or(settings.as_deref()) {
            None => Ok(User::current()),
            Some(name) => User::named(name),
        };
        user.map_err(|error| {
            let code = match &error {
                UserError::Unknown(_) => Code::Unauthenticated,
                UserError::NotRoot(_) => Code::PermissionDenied,
                UserError::Unreadable(_) | UserError::UnreadableGroups(_) => Code::Internal,
            };
            RpcError::new(code, format!("user: {error}"))
        })
    }

    /// A path of a request: absolute, or in the user's home.
    pub(super) fn path(&self, field: &'static str, path: &str, user: &User) -> Result<PathBuf, RpcError> {
        let directory = self.settings().directory.clone().filter(|_| path.is_empty());
        files::resolve(directory.as_deref().unwrap_or(path), user, None)
            .map_err(|error| RpcError::new(Code::InvalidArgument, format!("{field}: {error}")))
    }

    /// Does something with files on a thread that may block.
    pub(super) async fn with_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Files) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let files = Arc::clone(&self.files);
        let done = self.on_a_thread(move || work(&files)).await;
        done.unwrap_or_else(|| Err(FileError::Io("the daemon is ending".to_owned())))
    }

    /// Does something that may take as long as a file system likes. What does not end keeps its thread, so there are always
    /// threads that files cannot have: for starts, and for the end of the daemon. None if it panicked or the runtime ended.
    pub(super) async fn on_a_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let permit = Arc::clone(&self.threads_for_files).acquire_owned().await.ok()?;
        blocking(&*self.runtime, move || {
            // Until the work is done, whether or not somebody still waits for it.
            let _permit = permit;
            work()
        })
        .await
    }
}

/// Does something with the one path of a request, as the user of the call.
async fn at<T: Send + 'static>(
    daemon: &Daemon,
    head: &Head,
    path: &str,
    work: impl FnOnce(&Files, &User, &Path) -> Result<T, FileError> + Send + 'static,
) -> Result<T, RpcError> {
    let user = daemon.acting(head.user.as_deref())?;
    let path = daemon.path("path", path, &user)?;
    let done = daemon.with_files(move |files| work(files, &user, &path)).await;
    done.map_err(|error| failed("path", &error))
}

/// What is there.
pub(super) async fn stat(
    daemon: &Daemon,
    head: &Head,
    asked: PathRequest,
) -> Result<EntryResponse, RpcError> {
    let found = at(daemon, head, &asked.path, |files, user, path| match files.stat(user, path) {
        // Below a file there is nothing.
        Err(FileError::NotADirectory(path)) => Err(FileError::NotFound(path)),
        found => found,
    });
    found.await.map(response)
}

/// Makes a directory, with those above it.
pub(super) async fn make_dir(
    daemon: &Daemon,
    head: &Head,
    asked: PathRequest,
) -> Result<EntryResponse, RpcError> {
    at(daemon, head, &asked.path, Files::make_dir).await.map(response)
}

/// What is moved or removed has a name: where a path was left empty by mistake, or is `.`, that would be a whole
/// home.
fn check_named(field: &str, path: &str) -> Result<(), RpcError> {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    if matches!(name, "" | "." | "..") {
        let message = format!("{field}: {path:?} names no file or directory");
        return Err(RpcError::new(Code::InvalidArgument, message));
    }
    Ok(())
}

/// Gives a file another path, and makes the directories above that.
pub(super) async fn rename(
    daemon: &Daemon,
    head: &Head,
    asked: MoveRequest,
) -> Result<EntryResponse, RpcError> {
    check_named("source", &asked.source)?;
    check_named("destination", &asked.destination)?;
    let user = daemon.acting(head.user.as_deref())?;
    let from = daemon.path("source", &asked.source, &user)?;
    let to = daemon.path("destination", &asked.destination, &user)?;
    let moved = daemon.with_files(move |files| files.rename(&user, &from, &to)).await;
    moved.map(response).map_err(|error| failed("source, destination", &error))
}

/// What a directory has, and those below it down to a depth.
pub(super) async fn list(
    daemon: &Daemon,
    head: &Head,
    asked: ListDirRequest,
) -> Result<ListDirResponse, RpcError> {
    let depth = asked.depth;
    let listed =
        at(daemon, head, &asked.path, move |files, user, path| files.list(user, path, depth, MAX_ENTRIES));
    Ok(ListDirResponse { entries: listed.await?.into_iter().map(info).collect() })
}

/// Removes a file, or a directory with all that is in it.
pub(super) async fn remove(daemon: &Daemon, head: &Head, asked: PathRequest) -> Result<Empty, RpcError> {
    check_named("path", &asked.path)?;
    at(daemon, head, &asked.path, Files::remove).await.map(|()| Empty {})
}

fn response(entry: Entry) -> EntryResponse {
    EntryResponse { entry: Some(info(entry)) }
}

/// An entry, as it is told.
pub(super) fn info(entry: Entry) -> EntryInfo {
    let (seconds, nanos) = entry.modified;
    EntryInfo {
        name: entry.name,
        kind: match entry.kind {
            Some(Kind::File) => 1,
            Some(Kind::Directory) => 2,
            None => 0,
        },
        path: entry.path,
        size: entry.size,
        mode: entry.mode,
        permissions: entry.permissions,
        owner: entry.owner,
        group: entry.group,
        modified_time: Some(Timestamp { seconds, nanos: i32::try_from(nanos).unwrap_or(0) }),
        symlink_target: entry.symlink_target,
        metadata: entry.metadata,
    }
}

/// Why nothing was done with files.
pub(super) fn failed(field: &str, error: &FileError) -> RpcError {
    let code = match error {
        FileError::NotFound(_) => Code::NotFound,
        FileError::Exists(_) => Code::AlreadyExists,
        FileError::NotADirectory(_)
        | FileError::IsADirectory(_)
        | FileError::NotRegular(_)
        | FileError::TooLong(_)
        | FileError::IntoItself(_)
        | FileError::MetadataTooLong(_) => Code::InvalidArgument,
        FileError::Denied(_) | FileError::ReadOnly(_) | FileError::OutsideRoot(_) | FileError::User(_) => {
            Code::PermissionDenied
        }
        FileError::Loop(_)
        | FileError::CrossDevice(_)
        | FileError::Home(_)
        | FileError::Busy(_)
        | FileError::NothingToRead(_)
        | FileError::MetadataUnsupported(_) => Code::FailedPrecondition,
        FileError::NoSpace(_) | FileError::TooMany { .. } | FileError::TooLarge { .. } => {
            Code::ResourceExhausted
        }
        FileError::Io(_) => Code::Internal,
    };
    RpcError::new(code, format!("{field}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_moved_or_removed_has_a_name() {
        for named in ["a", "/a", "~/a", "a/", "../a", "a/.b", "...", "~", "/a/./b//"] {
            assert_eq!(check_named("path", named), Ok(()), "{named}");
        }
        for unnamed in ["", "/", "//", ".", "./", "..", "a/.", "a/..", "a/../", "~/."] {
            let error = check_named("path", unnamed).unwrap_err();
            let message = format!("path: {unnamed:?} names no file or directory");
            assert_eq!((error.code, &*error.message), (Code::InvalidArgument, &*message));
        }
    }
}
