//! How clients reach the plane, and the plane itself; and how they reach a daemon.
//!
//! * [`http`]: sockets to requests: the accept loop, connections that can be aborted.
//!
//! The server (feature `server`):
//!
//! * [`plane`]: sandboxes by name, tokens, leases and open streams; who may, and what ends what.
//! * [`server`]: a plane that listens.
//! * [`rest`]: requests to calls of the plane, and their answers.
//! * [`mcp`]: MCP calls to their answers.
//! * [`sse`]: a command's stream as a response body that pulls.
//! * [`ws`]: the process protocol.
//! * [`metrics`]: what is counted.
//! * [`data`]: the folder that a server keeps its secrets in.
//! * [`client`]: the other side of all this, for the command line.
//!
//! The daemon (feature `daemon`):
//!
//! * [`connect`]: one sandbox by the protocol of E2B's envd.
//!
//! No runtime is named here, and no decision about a protocol is taken that belongs in `hangar-core`.

#[cfg(feature = "server")]
mod api;
#[cfg(feature = "server")]
pub mod body;
#[cfg(feature = "server")]
pub mod client;
#[cfg(feature = "daemon")]
pub mod connect;
#[cfg(feature = "server")]
pub mod data;
#[cfg(feature = "server")]
pub mod error;
pub mod http;
#[cfg(feature = "server")]
pub mod mcp;
#[cfg(feature = "server")]
pub mod metrics;
#[cfg(feature = "server")]
pub mod plane;
#[cfg(feature = "server")]
mod query;
#[cfg(feature = "server")]
pub mod rest;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod settings;
#[cfg(feature = "server")]
pub mod sse;
#[cfg(feature = "server")]
pub mod ws;

#[cfg(feature = "server")]
pub use error::ApiError;
#[cfg(feature = "server")]
pub use plane::Plane;
#[cfg(feature = "server")]
pub use settings::Settings;
