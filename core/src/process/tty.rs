//! The size of a terminal.

use serde::{Deserialize, Serialize};

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TtySize {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

impl TtySize {
    /// The most columns or rows. Terminals are far smaller, and programs allocate for what they are told.
    pub const MAX: u16 = 10_000;

    /// The name of the side that no terminal has, if one is.
    pub const fn bad_side(self) -> Option<&'static str> {
        match self {
            Self { cols: 0 | 10_001.., .. } => Some("cols"),
            Self { rows: 0 | 10_001.., .. } => Some("rows"),
            Self { .. } => None,
        }
    }
}
