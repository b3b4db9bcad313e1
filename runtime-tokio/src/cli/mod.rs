//! What is typed, and what becomes of it.

mod attach;
mod backup;
mod exec;
mod follow;
mod link;
mod logs;
mod mcp;
mod modes;
mod processes;
mod remotes;
mod returning;
mod run;
mod serve;
mod session;
mod terminal;
mod watch;

use clap::{Args, Parser, Subcommand};
use hangar_backends::log_line::LogLine;
use std::{
    collections::BTreeMap,
    fmt,
    io::{IsTerminal, Write},
    process::ExitCode,
};
use tracing_subscriber::{EnvFilter, fmt::format::FmtSpan, layer::SubscriberExt, util::SubscriberInitExt};

/// Streams what happens in agent sandboxes, as it happens.
#[derive(Debug, Parser)]
#[command(name = "hangar", version, max_term_width = 100)]
#[command(after_help = "\
Exit codes of run, exec and attach: the command's own; 128+n when signal n ended it (143 or 137 after a timeout); 125 when hangar \
itself failed; 2 for a wrong call.
Logs go to stderr: RUST_LOG sets how much (RUST_LOG=hangar=debug), HANGAR_LOG=json their form.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command on this machine and show its output as it prints
    ///
    /// The command's exit code becomes hangar's own. Ctrl-C ends it, with everything it started: TERM, and KILL after
    /// 3 s; a second Ctrl-C does so without waiting. It gets no input and no terminal, and may take as long as it likes.
    Run(run::Run),
    /// Run a command in a sandbox of a server and show its output as it prints
    ///
    /// The command's exit code becomes hangar's own. Ctrl-C, or a connection that breaks, ends the command. It gets no
    /// input and no terminal, and is ended after 600 s unless --timeout says otherwise.
    Exec(exec::Exec),
    /// List the background processes of a sandbox, the newest last
    ///
    /// Those of your token, and of them also those that ended in the last ten minutes.
    Ps(processes::List),
    /// Start a background process in a sandbox of a server, and print its id
    ///
    /// It goes on when you leave. Its output is kept for `hangar logs`, `hangar attach` gives it your terminal, and
    /// `hangar kill` ends it.
    Start(Box<processes::Start>),
    /// Attach this terminal to a background process
    ///
    /// What you type is its input, and what it prints is shown. With a terminal of its own (`hangar start --tty`) it gets
    /// yours, every key included but the one that detaches. A connection that breaks comes back by itself: no output
    /// is shown twice, and what was lost meanwhile is said. What was typed just before it broke may be lost. The exit code
    /// is the process's own; 0 after detaching.
    Attach(attach::Attach),
    /// Show what a background process printed
    ///
    /// That is the last 256 KiB, where it was not started with another --max-log-bytes; what is gone is said. Without -f
    /// its standard error is shown with the rest, in the order in which it came.
    Logs(logs::Logs),
    /// End a background process, or send it a signal
    ///
    /// TERM to it and what it started, and KILL after 3 s for what is left; it is waited for.
    Kill(processes::Kill),
    /// Show what changes below a directory of a sandbox, as it changes
    ///
    /// One line for each change: what happened (create, write, remove, rename, chmod), and to what, relative to the directory.
    /// A connection that breaks comes back by itself: no change is shown twice, and where some are lost that is said, and
    /// what is there follows an `overflow`. Ends with 0 when the directory is gone.
    Watch(watch::Watch),
    /// Serve the MCP tools exec, process and sandboxes on standard input and output
    ///
    /// For MCP clients that start their servers themselves: put `hangar` and `mcp` into their configuration. Commands run
    /// on this machine, in the directory that it was started in, and end with it; or on a server, with --server.
    Mcp(mcp::Mcp),
    /// Serve sandboxes over HTTP: REST, with output as Server-Sent Events, and MCP
    Serve(Box<serve::Serve>),
    /// Copy what a server remembers to a new file, while it runs or not
    ///
    /// All that was stored when the copy began, readable by you alone. A file of that name is not replaced, and one that
    /// could not be finished is removed. To go back to it, stop the server and put it into the data folder
    /// (docs/operating.md). Exits with 1 when there is no copy.
    Backup(backup::Backup),
}

/// A command line for a shell, and its circumstances.
#[derive(Args, Debug)]
struct CommandLine {
    /// The command, as one argument: it is run by `bash -lc`
    #[arg(value_name = "CMD", value_parser = command)]
    command: String,
    /// The directory to run it in
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// A variable for its environment (repeatable); nothing is inherited, but the profile of its login shell may set
    /// some, PATH among them
    #[arg(long = "env", short = 'e', value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// End it after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<f64>,
}

impl CommandLine {
    fn env(&self) -> BTreeMap<String, String> {
        self.env.iter().cloned().collect()
    }
}

fn command(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() { Err("there is nothing to run") } else { Ok(text.to_owned()) }
}

fn variable(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("it must be NAME=VALUE"),
    }
}

fn seconds(text: &str) -> Result<f64, &'static str> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        Ok(_) | Err(_) => Err("it must be a number above 0 and at most 86400"),
    }
}

/// hangar itself failed: one line for a person.
#[derive(Debug)]
struct Failure {
    message: String,
    code: u8,
}

/// The exit code when hangar itself failed, so that it is told from the command's own.
const FAILED: u8 = 125;

/// The exit code for a wrong call.
const USAGE: u8 = 2;

impl Failure {
    fn new(error: impl fmt::Display) -> Self {
        Self { message: error.to_string(), code: FAILED }
    }

    fn usage(error: impl fmt::Display) -> Self {
        Self { message: error.to_string(), code: USAGE }
    }
}

/// Says something to a person, on stderr; where nobody reads that, there is nobody to tell.
fn say(message: impl fmt::Display) {
    let (before, after) = terminal::around_line();
    drop(write!(std::io::stderr(), "{before}hangar: {message}{after}"));
}

pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    let log_by_default = match cli.command {
        Command::Serve(_) => "info",
        Command::Run(_)
        | Command::Exec(_)
        | Command::Ps(_)
        | Command::Start(_)
        | Command::Attach(_)
        | Command::Logs(_)
        | Command::Kill(_)
        | Command::Watch(_)
        | Command::Mcp(_)
        | Command::Backup(_) => "warn",
    };
    let done = start_logging(log_by_default).and_then(|()| match cli.command {
        Command::Run(run) => run.main(),
        Command::Exec(exec) => exec.main(),
        Command::Ps(list) => list.main(),
        Command::Start(start) => start.main(),
        Command::Attach(attach) => attach.main(),
        Command::Logs(logs) => logs.main(),
        Command::Kill(kill) => kill.main(),
        Command::Watch(watch) => watch.main(),
        Command::Mcp(mcp) => mcp.main(),
        Command::Serve(serve) => serve.main(),
        Command::Backup(backup) => backup.main(),
    });
    match done {
        Ok(code) => ExitCode::from(code),
        Err(Failure { message, code }) => {
            say(message);
            ExitCode::from(code)
        }
    }
}

/// Logs to stderr: text for people, in colour on a terminal unless `NO_COLOR` is set, or JSON.
/// Each stream is a line when it ends. What nobody takes is lost.
fn start_logging(default: &str) -> Result<(), Failure> {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let filter = set("RUST_LOG").map_or_else(|| EnvFilter::try_new(default), EnvFilter::try_new);
    let filter = filter.map_err(|error| Failure::usage(format!("RUST_LOG: {error}")))?;
    let lines = tracing_subscriber::fmt::layer().with_writer(|| LogLine).with_span_events(FmtSpan::CLOSE);
    let registry = tracing_subscriber::registry().with(filter);
    match set("HANGAR_LOG").as_deref() {
        Some("json") => registry.with(lines.json()).init(),
        Some("text") | None => {
            let colour = std::io::stderr().is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            registry.with(lines.with_ansi(colour)).init();
        }
        Some(other) => return Err(Failure::usage(format!("HANGAR_LOG is {other}; it can be json or text"))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn arguments_are_checked() {
        assert_eq!(variable("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert!(variable("=x").is_err() && variable("x").is_err());
        assert_eq!(seconds("0.5"), Ok(0.5));
        assert!(["0", "-1", "nan", "inf", "86401", "x"].iter().all(|text| seconds(text).is_err()));
        assert!(command("  ").is_err());
    }
}
