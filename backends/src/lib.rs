//! Where commands run.
//!
//! * [`runtime`]: what a runtime must offer. The rest of the project names no runtime.
//! * [`sandbox`]: what a sandbox must offer: to start a command, and what one may ask of it.
//! * [`watching`]: the changes below a directory of a sandbox.
//! * [`starting`]: what every start of a process has in common.
//! * [`handle`]: a process as its driver and its readers share it.
//! * [`pool`]: threads for work that blocks, for the runtimes.
//! * [`socket_file`]: the file of a unix listener, for the runtimes.
//! * [`net`]: HTTP over the sockets of a runtime (feature `net`).
//! * [`log_line`]: standard error for the logs of binaries.
//! * [`open_files`]: how many may be open here, and how many in commands.
//! * [`stop`]: what asks a program to stop.
//! * `store`: what a server remembers (feature `store`), in a file with the feature `sqlite`.
//! * [`local`]: sandboxes on this machine (feature `local`).
//! * [`envd`]: sandboxes behind a daemon (feature `envd`).
//! * `daemonless`: sandboxes without one (feature `daemonless`).
//!
//! A driver task per process owns the descriptors (or the stream of a remote sandbox) and every deadline about the
//! process, by its [`Process`](hangar_core::process::Process). Readers only pull.

#[cfg(feature = "daemonless")]
pub mod daemonless;
#[cfg(feature = "envd")]
pub mod envd;
pub mod handle;
#[cfg(feature = "local")]
pub mod local;
pub mod log_line;
#[cfg(feature = "net")]
pub mod net;
pub mod open_files;
pub mod pool;
pub mod runtime;
pub mod sandbox;
pub mod socket_file;
pub mod starting;
pub mod stop;
#[cfg(feature = "store")]
pub mod store;
pub mod watching;

pub use handle::Handle;
pub use runtime::Runtime;
pub use sandbox::Sandbox;
