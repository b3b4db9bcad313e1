//! A third runtime, on which the whole server runs in one thread on a virtual clock.
//!
//! Hours of streams take milliseconds, every timeout (hyper's included) comes at an exact time, and the same seed
//! gives the same run. Time moves only when no task can do anything, and then to the next timer.
//!
//! * [`random`]: where everything random in a run comes from: its seed.
//! * [`clock`]: the virtual clock and its timers.
//! * [`runtime`]: the runtime itself, which also finds busy loops and tasks that wait for nothing.
//! * [`net`]: sockets in memory that delay, split, cut and half-close.
//! * [`script`], [`sandbox`]: a sandbox whose commands are little scripts, and which remembers what happened to
//!   them; `family` and `driver` are what one command is made of.
//! * [`client`], [`stream`], [`mcp`]: a client that sees each byte and each time; [`messages`], [`session`]: one of MCP that
//!   is told what changes, and one of the revisions of 2025; [`stdio`]: one that speaks lines.
//! * [`watch`]: directories that are watched, whose changes a test tells; [`watching`]: a client that is told of them.
//! * [`world`]: all of it together, with what must hold at the end of every scenario.
//! * [`cell`]: a daemon, and a client that follows what runs in it; [`watch_dir`]: what it says of directories.
//! * [`scenario`]: a scenario drawn from a seed.
//! * [`refusals`]: requests that are refused.
//! * [`seeds`]: which seeds a test runs.

#![expect(clippy::unwrap_used, reason = "these are tests: what is not there is a failure")]

pub mod cell;
pub mod client;
pub mod clock;
mod driver;
mod family;
pub mod mcp;
pub mod messages;
pub mod net;
pub mod random;
pub mod refusals;
pub mod runtime;
pub mod sandbox;
pub mod scenario;
pub mod script;
pub mod seeds;
pub mod session;
pub mod stdio;
pub mod stream;
pub mod watch;
pub mod watch_dir;
pub mod watching;
pub mod world;

pub use cell::{Cell, Follower};
pub use client::{Client, End, Request, Response};
pub use net::Link;
pub use runtime::Sim;
pub use stream::{Item, Stream, Transcript};
pub use world::{Setup, World, run};
