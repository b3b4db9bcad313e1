//! Bytes to typed messages and back: pure functions, decoders with nothing but their own partial input, and writers of a
//! sequence of messages ([`mcp::response`]), to which times are arguments.

pub mod connect;
pub mod detached;
pub mod envd;
pub mod json;
pub mod mcp;
pub mod process;
pub mod sse;
pub mod watch;
pub mod websocket;
