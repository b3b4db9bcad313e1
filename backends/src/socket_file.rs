//! The file that a unix listener listens on: where it comes from and who removes it.
//!
//! A process that was killed leaves its file behind, and a file in the way fails the next `bind`. So a file that
//! nobody listens on is replaced, and a file is removed by the listener that made it. Both runtimes use this.

use crate::runtime::{Address, Runtime};
use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _},
        net::UnixListener,
    },
    path::{Path, PathBuf},
};

/// The file of a listener. Dropping it removes the file, unless somebody has put another one in its place.
#[derive(Debug)]
pub struct SocketFile {
    address: Address,
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    /// Listens at `path`, with a socket that does not block. A socket file that refuses connections is replaced. Two
    /// processes that do this at the same moment can take the place from one another.
    ///
    /// # Errors
    ///
    /// `AddrInUse` if somebody listens there, or if it is no socket; and what `bind` says.
    pub async fn bind(runtime: &dyn Runtime, path: PathBuf) -> io::Result<(UnixListener, Self)> {
        let listener = match UnixListener::bind(&path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if !is_stale(runtime, &path).await {
                    return Err(error);
                }
                remove(&path)?;
                UnixListener::bind(&path)
            }
            bound => bound,
        }?;
        listener.set_nonblocking(true)?;
        let identity = identity(&fs::symlink_metadata(&path)?);
        Ok((listener, Self { address: Address::Unix(path.clone()), path, identity }))
    }

    /// Where the listener listens.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|file| identity(&file) == self.identity) {
            // Left behind, it is a stale file for the next listener.
            drop(remove(&self.path));
        }
    }
}

/// Whether there is a socket, and nobody accepts on it. Every answer but a refusal means that somebody may: a full
/// backlog, no permission.
async fn is_stale(runtime: &dyn Runtime, path: &Path) -> bool {
    let Ok(file) = fs::symlink_metadata(path) else { return true };
    file.file_type().is_socket()
        && runtime
            .connect(Address::Unix(path.to_owned()))
            .await
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn identity(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}
