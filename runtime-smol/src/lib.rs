//! hangar on smol's executor and reactor.
//!
//! * [`SmolRuntime`]: what the project needs of a runtime, on an executor that runs already. For embedding.
//! * [`Threads`]: an executor of one's own, and the threads that run it.
//! * [`signals`]: what asks the process to stop. For binaries only: it changes the whole process.
//!
//! async-io has one reactor for the process, and a thread of its own that turns it when nobody else does: slowly.
//! Whoever brings an executor runs it with [`async_io::block_on`], as [`Threads`] does, so that a thread that waits
//! for a task also turns the reactor. No protocol is decided here.
//!
//! ```
//! use async_executor::Executor;
//! use hangar_backends::runtime::{Runtime as _, sleep_until};
//! use hangar_smol::SmolRuntime;
//! use std::{sync::Arc, time::Duration};
//!
//! let executor = Arc::new(Executor::new());
//! let runtime = SmolRuntime::new(&executor);
//! let at = runtime.now() + Duration::from_millis(1);
//! async_io::block_on(executor.run(sleep_until(&runtime, at)));
//! assert!(runtime.now() >= at);
//! ```

#![forbid(unsafe_code)]

mod fd;
mod net;
pub mod runtime;
pub mod signals;
mod stream;
pub mod threads;

pub use runtime::SmolRuntime;
pub use threads::Threads;
