//! The file that tokens are kept in.

use super::{Hash, Kept};
use crate::{ApiError, data::create_secret};
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{self, Write},
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
    let mut file = create_secret(&next).map_err(failed)?;
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
    // A sign would be taken for a digit.
    if text.len() != 2 * hash.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_64_digits() {
        let hash: Hash = std::array::from_fn(|i| i as u8 * 8);
        assert_eq!(from_hexadecimal(&to_hexadecimal(&hash)), Some(hash));
        assert_eq!(from_hexadecimal(&"F0".repeat(32)), Some([0xf0; 32]));
        for wrong in ["+f", "-0", " f", "0x", "g0", "\u{e9}"] {
            assert_eq!(from_hexadecimal(&wrong.repeat(32)), None, "{wrong}");
        }
        assert_eq!((from_hexadecimal(""), from_hexadecimal(&"0".repeat(63))), (None, None));
    }
}
