//! What hangar costs, end to end: servers started as child processes, and one client that measures all of them the
//! same way. The binary `streams` is a thin `main` over [`run`].
//!
//! * [`measure`]: the nine measurements. [`row`]: what is measured, and the floors it is judged against.
//! * [`source`]: the client: one blocking loop for a pipe, for the relay and for a server. [`wire`]: what it decodes.
//! * [`process`], [`mcp`], [`http`]: background processes, what MCP clients ask for, and the small requests of both.
//! * [`printer`], [`relay`]: the commands that print, and the blocking pipe to TCP copy, as hidden subcommands.
//! * [`watcher`], [`changes`]: watches of a directory, `inotifywait` among them; what is changed there, as hidden subcommands.
//! * [`child`], [`server`]: starting what is measured, and ending it whatever happens.
//! * [`stats`], [`target`], [`report`], [`table`], [`results`]: samples to figures, figures to text and JSON.
//!
//! * [`workload`]: the way of one message through core, for criterion (`cargo bench -p hangar-benches`) and for the
//!   instruction count (`instructions`, which `.ci/run` holds to a limit).
//!
//! * [`envd`]: the daemon's figures (`envd`), each against its limit.
//!
//! The table of streams depends on none of hangar's crates: its client speaks HTTP to whatever answers.

pub mod changes;
pub mod child;
pub mod cli;
pub mod clock;
pub mod envd;
pub mod http;
pub mod machine;
pub mod mcp;
pub mod measure;
pub mod printer;
pub mod proc;
pub mod process;
pub mod relay;
pub mod report;
pub mod results;
pub mod row;
pub mod run;
pub mod server;
pub mod source;
pub mod stats;
pub mod table;
pub mod target;
pub mod watcher;
pub mod wire;
pub mod workload;

/// Whatever went wrong, as one line to print.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A result whose error is one line to print.
pub type Result<T, E = Error> = std::result::Result<T, E>;
