//! The streaming plane as pure state machines: what a command printed, who reads it, at what pace, and why a
//! stream ends. No socket, no clock, no task and no randomness: those belong to the crates around this one.
//!
//! # One shape for every machine
//!
//! ```text
//! fn new(config, now) -> Self
//! fn handle_<what>(&mut self, ..)           an input: what happened. Returns at once; what does not fit comes back
//! fn close(&mut self, ..), fn kill(&mut self)   a command: a plain verb
//! fn poll_output(&mut self, now) -> Output  the one way out: does what is due, then gives one thing to carry out
//! ```
//!
//! The shell (a driver task, a response body) carries the output out and polls again, until it gets `Wait`. Then it
//! sleeps until the time in it, or until it has an input.
//!
//! # The rules
//!
//! `testing::Contract` (feature `testing`) checks them of every machine:
//!
//! 1. Inputs and commands change state and return: no IO, clock, blocking or randomness.
//! 2. `poll_output(now)` first does what is due, then returns one output. The shell polls until `Wait`.
//! 3. `Wait(Some(t))` has `t > now`. `Wait(None)` only when done for good, or waiting for an input.
//! 4. Polling again at the same `now` without an input gives the same `Wait`.
//! 5. A `now` earlier than one already seen counts as that one.
//! 6. `Closed` comes exactly once; afterwards every poll is `Wait(None)` and inputs are ignored.
//! 7. What is held stays under the limits of the configuration, in bytes and in entries, whatever comes in.
//! 8. From any state, `close` and polling reach `Closed` in a bounded number of steps.
//!
//! # The modules
//!
//! * [`time`]: a point on the shell's monotonic clock.
//! * [`close`]: why a stream ends, and how each transport says so.
//! * [`pace`], [`limits`], [`tickets`]: how fast, how many, and for how long.
//! * [`roster`]: the processes of a daemon, by number and by name.
//! * [`table`]: background processes, by who may find them.
//! * [`log`]: the output of one process, and the readers of it.
//! * [`audience`]: for which of them a process is slowed.
//! * [`text`], [`tail`]: bytes to text without cutting a character; the last of the output.
//! * [`process`]: one process, from its start to its last byte.
//! * [`exec`]: one command's output on its way to one client, and its result.
//! * [`attach`]: a process's output for a client that comes and goes.
//! * [`subscription`]: the same at the daemon, as E2B's clients know it.
//! * [`changes`]: what changed, for a client that follows it.
//! * [`watch`]: the changes below a directory.
//! * [`wire`]: bytes to typed messages and back.

#![forbid(unsafe_code)]

pub mod attach;
pub mod audience;
pub mod changes;
pub mod close;
pub mod exec;
pub mod limits;
pub mod log;
pub mod pace;
pub mod process;
pub mod roster;
pub mod subscription;
pub mod table;
pub mod tail;
#[cfg(feature = "testing")]
pub mod testing;
pub mod text;
pub mod tickets;
pub mod time;
pub mod watch;
pub mod wire;

pub use close::Close;
pub use time::Time;
