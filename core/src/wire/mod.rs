//! Bytes to typed messages and back: pure functions, and decoders with nothing but their own partial input.

pub mod json;
pub mod mcp;
pub mod process;
pub mod sse;
pub mod websocket;
