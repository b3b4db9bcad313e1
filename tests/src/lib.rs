//! The whole system under test. This library holds what its test binaries share.
//!
//! * [`runtime_contract`]: what every runtime must do, as checks that each of them runs.
//! * [`envd`]: the daemon's messages as a client writes and reads them.
//! * [`mcp`]: MCP messages as a client writes them.
//! * [`real`]: the whole server over real sockets and processes, on both runtimes, and the `hangar` command.
//! * [`sim`]: a runtime with a virtual clock, and the whole server on it.

pub mod envd;
pub mod mcp;
pub mod real;
pub mod runtime_contract;
pub mod sim;
