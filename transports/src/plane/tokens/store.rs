//! The file that tokens are kept in.

use super::{Hash, Kept};
use crate::ApiError;
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Why tokens could not be loaded or kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be read or written.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: String,
        /// What the system says.
        error: io::Error,
    },
    /// The file is not what this program wrote.
    #[error("{path} is not a file of tokens: {why}")]
    Format {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "tokens could not be kept");
        match error {
            StoreError::Io { error, .. }
                if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
            {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "disk_full", "the server's disk is full")
            }
            StoreError::Io { .. } | StoreError::Format { .. } => Self::internal(),
        }
    }
}

#[derive(Deserialize, Serialize)]
struct Contents<T> {
    tokens: T,
}

pub(super) fn load(path: &Path) -> Result<Vec<Kept>, StoreError> {
    let json = match std::fs::read(path) {
        Ok(json) => json,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::Io { path: path.display().to_string(), error }),
    };
    match serde_json::from_slice::<Contents<Vec<Kept>>>(&json) {
        Ok(contents) => Ok(contents.tokens),
        Err(error) => Err(StoreError::Format { path: path.display().to_string(), why: error.to_string() }),
    }
}

/// Replaces the file as a whole: a crash, or a full disk, leaves the one that was there.
pub(super) fn save(path: &Path, tokens: &[Kept]) -> Result<(), StoreError> {
    let failed = |error| StoreError::Io { path: path.display().to_string(), error };
    let json = serde_json::to_vec_pretty(&Contents { tokens }).map_err(|error| failed(error.into()))?;
    let next = path.with_extension("json.next");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next).map_err(failed)?;
    file.write_all(&json).and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::rename(&next, path).map_err(failed)?;
    // The rename itself is on the disk once its folder is.
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

pub(super) fn to_hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hexadecimal(text: &str) -> Option<Hash> {
    let mut hash = Hash::default();
    if text.len() != 2 * hash.len() {
        return None;
    }
    for (i, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    Some(hash)
}

/// A hash in JSON.
pub(super) mod hexadecimal {
    use super::{Hash, from_hexadecimal, to_hexadecimal};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(in super::super) fn serialize<S: Serializer>(hash: &Hash, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&to_hexadecimal(hash))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Hash, D::Error> {
        let text = String::deserialize(deserializer)?;
        from_hexadecimal(&text).ok_or_else(|| D::Error::custom("not a SHA-256 in hexadecimal"))
    }
}
