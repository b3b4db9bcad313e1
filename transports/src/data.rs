//! The folder that a server keeps its secrets and its store in: one server at a time.

use hangar_backends::Runtime;
use rustix::fs::{FlockOperation, flock};
use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// A data folder that is this server's for as long as the value lives.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

/// Why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The system refuses something.
    #[error("the data folder: {path}: {error}")]
    Io {
        /// The folder or the file in it.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Another server has it.
    #[error("{0} is in use by another hangar; give each its own --data")]
    Taken(PathBuf),
    /// The file of a secret is empty.
    #[error("{0} is empty; remove it to have a new one made")]
    NoToken(PathBuf),
}

/// Where the store is in a data folder, whoever has that.
pub fn store_file(folder: &Path) -> PathBuf {
    folder.join("hangar.db")
}

/// A new file that nobody else can read, whatever was there of an earlier try.
fn create_secret(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => OpenOptions::new().write(true).create_new(true).mode(0o600).open(path),
    }
}

/// The admin token of a server that was given none.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnToken {
    /// The secret.
    pub secret: String,
    /// Whether it was made just now, and has to be shown.
    pub is_new: bool,
}

impl Folder {
    /// Opens the folder, and makes it (mode 0700) where it is not there.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let failed = |path: &Path, error| FolderError::Io { path: path.to_owned(), error };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| failed(path, error))?;
        let lock_path = path.join("lock");
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .map_err(|error| failed(&lock_path, error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(FolderError::Taken(path.to_owned())),
            Err(error) => Err(failed(&lock_path, error.into())),
        }
    }

    /// Where the store is.
    pub fn store_file(&self) -> PathBuf {
        store_file(&self.path)
    }

    /// Where the server's own token is kept.
    pub fn token_file(&self) -> PathBuf {
        self.path.join("token")
    }

    /// The server's own token: the one that is kept, or a new one, which is kept (mode 0600).
    pub fn own_token(&self, runtime: &dyn Runtime) -> Result<OwnToken, FolderError> {
        own_secret(self.token_file(), runtime)
    }

    /// The server's own key, by which it knows what it has started: the one that is kept, or a new one, which is kept
    /// (mode 0600).
    pub fn own_key(&self, runtime: &dyn Runtime) -> Result<String, FolderError> {
        Ok(own_secret(self.path.join("key"), runtime)?.secret)
    }
}

fn own_secret(path: PathBuf, runtime: &dyn Runtime) -> Result<OwnToken, FolderError> {
    let failed = |error| FolderError::Io { path: path.clone(), error };
    match std::fs::read_to_string(&path) {
        Ok(text) if text.trim().is_empty() => return Err(FolderError::NoToken(path.clone())),
        Ok(text) => return Ok(OwnToken { secret: text.trim().to_owned(), is_new: false }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let mut random = [0; 32];
    runtime.random(&mut random);
    let secret = crate::plane::tokens::secret(&random);
    // Whole or not at all: half a token would lock everybody out at the next start.
    let next = path.with_extension("next");
    let mut file = create_secret(&next).map_err(failed)?;
    file.write_all(format!("{secret}\n").as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::rename(&next, &path).map_err(failed)?;
    Ok(OwnToken { secret, is_new: true })
}
