//! The Model Context Protocol, revision 2026-07-28: JSON-RPC messages, what has to hold of a request before it is a
//! call, and the stream that answers one.
//!
//! ```text
//!  head and body ──► request::accept ──► Call ──────────────► response::Answering ──► progress*, answer
//!                                    ├── Notification: taken, and not answered
//!                                    └── Refused: an HTTP status and a JSON-RPC error
//! ```
//!
//! * [`lines`]: a stream of bytes to lines, where each is a message.
//! * [`message`]: ids, errors, and bytes to one message.
//! * [`request`]: the ladder from a request to a call.
//! * [`response`]: progress and the one answer.
//! * [`types`]: what the methods take and give.

pub mod lines;
pub mod message;
pub mod request;
pub mod response;
pub mod types;

/// The revision that is spoken.
pub const REVISION: &str = "2026-07-28";

/// The parts of `_meta` that the protocol defines.
pub mod meta {
    /// The revision of a request.
    pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// What the client of a request can do.
    pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// From which level on a request wants log messages.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// Who answers.
    pub const SERVER: &str = "io.modelcontextprotocol/serverInfo";
}
