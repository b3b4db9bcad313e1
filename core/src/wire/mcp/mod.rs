//! The Model Context Protocol, revision 2026-07-28 and those of 2025: JSON-RPC messages, what has to hold of a request before
//! it is a call, and the stream that answers one.
//!
//! ```text
//!  head and body ──► request::accept ──► Call ──────────────► response::Answering ──► progress*, answer
//!                                    │    ▲
//!                                    ├── Legacy: of a session, of the revisions of 2025
//!                                    ├── Notification: taken, and not answered
//!                                    └── Refused: an HTTP status and a JSON-RPC error
//! ```
//!
//! * [`lines`]: a stream of bytes to lines, where each is a message.
//! * [`message`]: ids, errors, and bytes to one message.
//! * [`head`], [`meta`]: what a request says beside what it asks for.
//! * [`revision`]: the revisions that are spoken.
//! * [`request`]: the ladder from a request to a call.
//! * [`legacy`], [`session`], [`sessions`]: the revisions of 2025: their messages, one client's session, and all of them;
//!   [`replay`]: what is kept of a call for a client that comes back.
//! * [`response`]: progress and the one answer.
//! * [`listen`]: what changes, for a client that asks to be told.
//! * [`types`]: what the methods take and give.

pub mod head;
pub mod legacy;
pub mod lines;
pub mod listen;
pub mod message;
pub mod meta;
pub mod replay;
pub mod request;
pub mod response;
pub mod revision;
pub mod session;
pub mod sessions;
pub mod types;

/// The newest revision that is spoken.
pub const REVISION: &str = "2026-07-28";
