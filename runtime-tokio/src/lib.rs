//! hangar on tokio.
//!
//! * [`TokioRuntime`]: what the project needs of a runtime, on a tokio that runs already. For embedding.
//! * [`Threads`]: a tokio of one's own. For binaries.
//! * [`signals`]: what asks the process to stop. For binaries only: it changes the whole process.
//!
//! This is the one crate that uses tokio's sockets, timers and tasks. No protocol is decided here.
//!
//! ```
//! use hangar_backends::runtime::{Runtime as _, sleep_until};
//! use std::time::Duration;
//!
//! let threads = hangar::Threads::new()?;
//! let runtime = threads.runtime();
//! let at = runtime.now() + Duration::from_millis(1);
//! threads.block_on(sleep_until(&runtime, at));
//! assert!(runtime.now() >= at);
//! # std::io::Result::Ok(())
//! ```

mod fd;
mod net;
pub mod runtime;
pub mod signals;

pub use runtime::{Threads, TokioRuntime};
