//! One process, from its start to its last byte, whichever sandbox it runs in.
//!
//! ```text
//!             handle_started        handle_exit              end of output, or drained
//!  Starting ────────────────► Running ─────────► Exited, draining ─────────► Exited, output ended
//!      │                         │                                                   │
//!      │ handle_start_failed     │ handle_lost                  handle_end_of_output │  (and swept, if it was killed)
//!      ▼                         ▼                                                   ▼
//!    Exited, output ended ◄──────┴──────────────────────────────────────────────► Closed
//! ```
//!
//! Exit and end of output are two facts. A grandchild may hold the pipe open after the exit: the output is then read
//! on for [`Config::drain`], counted only while the reader has room, but not beyond [`Config::timeout`], and after that it
//! is over ([`Process::drain_timed_out`]). What still comes is read and dropped, so that nobody gets a SIGPIPE.
//!
//! Killing is TERM, and KILL once [`Config::grace`] has passed or the group is empty: members are asked, not the
//! leader, and what left the group is swept.
//!
//! What is not known to have ended [`LOST`] after the sweep is given up: the system does not let go of it, or it may not be
//! signalled. It ends with [`Exit::Unknown`].
//!
//! The machine owns every deadline about its process, and its shell drives it whether or not anybody listens.

mod signal;
mod state;
mod stdin;
mod tty;

use crate::{Time, log::Retention};
use std::time::Duration;

pub use signal::{Exit, Signal, Target, signal_name, signal_number};
pub use state::Process;
pub use tty::TtySize;

/// How long the exit is awaited after the sweep.
pub const LOST: Duration = Duration::from_secs(5);

/// How long output is awaited after the exit, while the reader has room, of a process that was told to end and whose output
/// would be awaited to its end otherwise: what it printed last is in its pipe by then.
pub const ENDED_DRAIN: Duration = Duration::from_millis(200);

/// How a process is followed and ended.
#[derive(Clone, Debug)]
pub struct Config {
    /// What is kept of its output, and whether it is slowed.
    pub retention: Retention,
    /// Bytes of it that readers who come are given: the whole frames that hold the last of them.
    pub replay: u64,
    /// What is kept of that once it is read.
    pub keep: Keep,
    /// Somebody will take a [seat](Process::seat): until then what it prints waits, up to the bytes of the retention.
    pub awaits_reader: bool,
    /// It is killed this long after its start was asked for. If it has ended by then, its output is over.
    pub timeout: Option<Duration>,
    /// Who is killed then: its group as by [`Process::kill`], or the leader alone, at once.
    pub timeout_ends: Target,
    /// From TERM to KILL.
    pub grace: Duration,
    /// How long output is awaited after the exit, while the reader has room. None: to its end, or [`ENDED_DRAIN`] once
    /// it was told to end.
    pub drain: Option<Duration>,
    /// Bytes of input that may wait.
    pub max_stdin: usize,
    /// It has a terminal of this size at first.
    pub tty: Option<TtySize>,
}

impl Default for Config {
    /// A ring of 256 KiB that is replayed as a whole, no timeout, 3 s from TERM to KILL, 2 s of drain, 1 MiB of input, no
    /// terminal.
    fn default() -> Self {
        Self {
            retention: Retention::Ring { bytes: 256 * 1024 },
            replay: u64::MAX,
            keep: Keep::Retained,
            awaits_reader: false,
            timeout: None,
            timeout_ends: Target::Group,
            grace: Duration::from_secs(3),
            drain: Some(Duration::from_secs(2)),
            max_stdin: 1024 * 1024,
            tty: None,
        }
    }
}

/// What is kept of output that was read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Keep {
    /// As much as the retention says, for readers who come later.
    Retained,
    /// Nothing: what every reader with a [seat](Process::seat) has taken is dropped, and all that comes while nobody has
    /// one.
    Unread,
}

/// What the driver has to do next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Output {
    /// Send TERM to each member of the group, and CONT after it, for those that are stopped.
    Terminate,
    /// Send KILL to each member of the group and to all that left it, until none is found; then
    /// [`Process::handle_swept`].
    Sweep,
    /// Send this signal: a client asked for it, or the leader's time is over.
    Signal {
        /// Which.
        signal: Signal,
        /// To whom.
        to: Target,
    },
    /// Give its terminal this size.
    Resize(TtySize),
    /// The process is over and its output is read to its end: let go of it.
    Closed,
    /// Nothing before this time, or before the next input.
    Wait(Option<Time>),
}

/// Why a process could not be started, as a shell would say it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StartFailure {
    /// 127 for a command that was not found, 126 for one that could not be run.
    pub code: i32,
    /// For a person: what failed. It becomes the process's standard error.
    pub message: String,
}
