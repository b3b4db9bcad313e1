//! The revisions of the protocol that are spoken.

use std::fmt;

/// A revision of the protocol, by its date.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Revision {
    /// 2025-03-26: the one with batches.
    V2025_03_26,
    /// 2025-06-18.
    V2025_06_18,
    /// 2025-11-25.
    V2025_11_25,
    /// 2026-07-28: without sessions.
    V2026_07_28,
}

impl Revision {
    /// All of them, the newest first.
    pub const ALL: [Self; 4] = [Self::V2026_07_28, Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26];

    /// The newest of those that begin with `initialize`.
    pub const LATEST_WITH_SESSIONS: Self = Self::V2025_11_25;

    /// As messages name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.name() == name)
    }

    /// The names of all, the newest first.
    pub fn names() -> [&'static str; 4] {
        Self::ALL.map(Self::name)
    }

    /// Whether its clients begin with `initialize`, and come back to the session that this begins.
    pub fn has_sessions(self) -> bool {
        self < Self::V2026_07_28
    }

    /// Whether a body may have several messages.
    pub fn has_batches(self) -> bool {
        self == Self::V2025_03_26
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
