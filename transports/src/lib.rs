//! How clients reach the plane, and the plane itself.
//!
//! * [`plane`]: sandboxes by name, tokens, leases and open streams; who may, and what ends what.
//! * [`server`]: sockets to requests: the accept loop, connections that can be aborted.
//! * [`rest`]: requests to calls of the plane, and their answers.
//! * [`mcp`]: MCP calls to their answers.
//! * [`sse`]: a command's stream as a response body that pulls.
//! * [`metrics`]: what is counted.
//! * [`data`]: the folder that a server keeps its secrets in.
//! * [`client`]: the other side of all this, for the command line.
//!
//! No runtime is named here, and no decision about a protocol is taken that belongs in `hangar-core`.

mod api;
pub mod body;
pub mod client;
pub mod data;
pub mod error;
mod http_io;
pub mod mcp;
pub mod metrics;
pub mod plane;
mod query;
pub mod rest;
pub mod server;
pub mod settings;
pub mod sse;
pub mod ws;

pub use error::ApiError;
pub use plane::Plane;
pub use settings::Settings;
