//! HTTP/1.1 over the sockets of a runtime.
//!
//! * [`io`]: a socket as hyper wants it.
//! * [`url`]: where a server is.
//! * [`client`]: one connection to it (feature `client`).

#[cfg(feature = "client")]
pub mod client;
pub mod io;
pub mod url;
