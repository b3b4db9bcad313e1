//! What a store answers where it does not do what it was asked for.

/// Why something was not stored, or cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum StoreError {
    /// Another has the id or the name.
    #[error("the id or the name is taken")]
    Taken,
    /// What it is about is not in the store.
    #[error("it is not in the store")]
    NotFound,
    /// Its disk is full: nothing was changed.
    #[error("the disk is full")]
    Full,
    /// A newer hangar has used it, and this one would not understand what it finds.
    #[error(
        "its version is {found}, and this hangar knows none after {known}: use a newer hangar, or a backup"
    )]
    Newer {
        /// The version that it has.
        found: i64,
        /// The newest that is known here.
        known: i64,
    },
    /// It fails, and says why.
    #[error("{0}")]
    Broken(String),
}
