//! The whole server over real sockets and real processes, on tokio and on smol.
//!
//! * [`On`]: which of the two; [`on_both!`](crate::on_both) makes a test of each check for each.
//! * [`server`]: a server in this process.
//! * [`client`], [`stream`]: a client of blocking sockets that shares no code with the server's side but the strict
//!   SSE decoder.
//! * [`socket`]: a client of the process protocol, over a library of others.
//! * [`watching`]: one that watches a directory.
//! * [`mcp`]: a client of MCP; [`session`]: one of its revisions of 2025;
//!   [`stdio`]: one that starts `hangar mcp`.
//! * [`envd`]: a daemon in this process, and a client of it.
//! * [`far`]: a sandbox behind a daemon that can be cut off.
//! * [`machine`]: this machine: what still runs, named pipes to hold a command up, folders.
//! * [`binary`]: the `hangar` command, built and started.
//! * [`peers`]: programs of others.
//! * [`proxy`]: a connection that breaks.
//!
//! Nothing here is asserted to happen sooner than within seconds; what must not happen early is held up by a pipe,
//! not by time. [`On::check`] bounds every check from the outside.

#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "what the tests share may fail as they do"
)]

pub mod binary;
pub mod client;
pub mod envd;
pub mod far;
pub mod machine;
pub mod mcp;
pub mod peers;
pub mod proxy;
pub mod server;
pub mod session;
pub mod socket;
pub mod stdio;
pub mod stream;
pub mod watching;

pub use binary::{Ended, Hangar, Serving, hangar};
pub use client::{Call, Client, Reply, line};
pub use envd::{Envd, Event as ProcessEvent, Followed};
pub use machine::{Folder, Gate, Mark, is_root, skip, wait_until};
pub use mcp::Calling;
pub use server::{Options, Server};
pub use session::Session;
pub use socket::{Said, Socket, Whole};
pub use stdio::Stdio;
pub use stream::{Collected, Event, Stream};
pub use watching::Watching;

use std::{fmt, sync::mpsc, thread, time::Duration};

/// No check takes longer: the machine may be slow, but not that slow.
const WATCHDOG: Duration = Duration::from_secs(120);

/// Which runtime, and where commands run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum On {
    /// `hangar`.
    Tokio,
    /// `hangar-smol`.
    Smol,
    /// `hangar`, where the sandbox `local` is behind a daemon on `hangar-smol`.
    Envd,
    /// `hangar`, where the sandbox `local` has no daemon.
    Daemonless,
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tokio => "tokio",
            Self::Smol => "smol",
            Self::Envd => "tokio through a daemon",
            Self::Daemonless => "tokio without a daemon",
        })
    }
}

impl On {
    /// Runs a check on a thread of its own, whose name is in its failures.
    ///
    /// # Panics
    ///
    /// If the check does, or does not end.
    pub fn check(self, name: &str, check: fn(Self)) {
        watched(&format!("{name} on {self}"), move || check(self));
    }

    /// Whether the sandbox `local` is this machine: it can be paused, and ends with its server.
    pub fn is_local(self) -> bool {
        !matches!(self, Self::Envd | Self::Daemonless)
    }

    /// Whether what a command prints is told before it has ended, and a process can be given input.
    pub fn streams(self) -> bool {
        self != Self::Daemonless
    }

    /// A server with the default options.
    pub fn start(self) -> Server {
        self.start_with(Options::default())
    }

    /// A server.
    pub fn start_with(self, options: Options) -> Server {
        Server::start(self, options)
    }
}

/// Runs a check of the `hangar` command; see [`watched`].
///
/// # Panics
///
/// If the check does, or does not end.
pub fn cli(name: &str, check: impl FnOnce() + Send + 'static) {
    // Building it is not watched: from nothing that takes minutes.
    binary::path();
    watched(name, check);
}

/// Runs a check on a thread of this name.
///
/// # Panics
///
/// If the check does, or does not end.
pub fn watched(name: &str, check: impl FnOnce() + Send + 'static) {
    watched_for(WATCHDOG, name, check);
}

/// The same with another bound, for a check that does as much as a suite of them.
///
/// # Panics
///
/// If the check does, or does not end.
pub fn watched_for(bound: Duration, name: &str, check: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel::<()>();
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
        // Dropped at the end of the check, however that comes.
        let _done = done;
        check();
    });
    if ended.recv_timeout(bound) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("{name}: it did not end within {bound:?}");
    }
    if let Err(panic) = thread.unwrap().join() {
        std::panic::resume_unwind(panic);
    }
}

/// Makes two tests of each check, `on_tokio::…` and `on_smol::…`. A check is a function that takes an
/// [`On`](crate::real::On).
#[macro_export]
macro_rules! on_both {
    ($($check:ident)*) => {
        mod on_tokio {
            $(#[test] fn $check() { $crate::real::On::Tokio.check(stringify!($check), super::$check); })*
        }
        mod on_smol {
            $(#[test] fn $check() { $crate::real::On::Smol.check(stringify!($check), super::$check); })*
        }
    };
}

/// The same, and two more of each: `on_envd::…`, in which commands run behind a daemon, and `on_daemonless::…`, in which
/// there is none. Those after a `;` are left out of the last: what they check takes a daemon.
#[macro_export]
macro_rules! on_each {
    ($($check:ident)* $(; $($streamed:ident)*)?) => {
        $crate::on_both! { $($check)* $($($streamed)*)? }
        mod on_envd {
            $(#[test] fn $check() { $crate::real::On::Envd.check(stringify!($check), super::$check); })*
            $($(#[test] fn $streamed() { $crate::real::On::Envd.check(stringify!($streamed), super::$streamed); })*)?
        }
        mod on_daemonless {
            $(#[test] fn $check() { $crate::real::On::Daemonless.check(stringify!($check), super::$check); })*
        }
    };
}
