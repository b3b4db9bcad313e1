//! The command line: what to measure, how often, and the hidden subcommands that are measured.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Measure what a stream costs against a bare pipe and a blocking relay: latency, throughput, the time from exit to
/// end, memory per open stream, a reader that stalls, what others cost a reader, how often an MCP client is told of
/// changes, memory per session that nobody uses, and what watched directories cost, beside `inotifywait`.
///
/// Starts the servers itself, on loopback, and ends them. Prints a table, and writes every sample to a JSON file.
/// A missed target is reported, not an error; output that went missing is an error.
#[derive(Debug, Parser)]
#[command(name = "streams", version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// What the measurements run, when it is this binary itself.
    #[command(subcommand)]
    pub part: Option<Part>,
    /// What to measure.
    #[command(flatten)]
    pub options: Options,
}

/// What to measure.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Rounds of every interleaved measurement [default: 20 for latency, 5 for throughput, 50 for exit to end,
    /// 10 for company, 5 for notices, 10 for a watch's delay and 5 for its bursts]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: Option<u32>,
    /// Only the rows whose names start with one of these: pipe, relay, tokio, tokio-raised, tokio-attached,
    /// tokio-attached-raised, tokio-followed, tokio-mcp, tokio-mcp-raised, tokio-mcp-2025, tokio-mcp-listen,
    /// tokio-mcp-session, tokio-unstreamed, tokio-watched, tokio-watched-raised, and the same of smol; daemon,
    /// daemon-raised, daemon-attached, daemon-attached-raised, daemon-followed, daemon-watched, daemon-watched-raised;
    /// inotifywait, inotifywait-alike
    /// [default: all]
    #[arg(long, value_name = "ROWS", value_delimiter = ',')]
    pub rows: Vec<String>,
    /// Only these measurements [default: all]
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_enum)]
    pub only: Vec<Measurement>,
    /// Only the stalled reader: the same as `--only stall`
    #[arg(long, conflicts_with = "only")]
    pub stall: bool,
    /// Payload of one throughput run, in MiB; that of a background process is at most 60
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub mebibytes: u64,
    /// Streams open at once in the memory measurement
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub streams: u32,
    /// Streams that tell what changes open at once in the memory measurement
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub listeners: u32,
    /// Sessions of MCP clients that are abandoned
    #[arg(long, value_name = "N", default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(1..=4_000))]
    pub sessions: u32,
    /// Followers beside the reader in the company measurement
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub crowd: u32,
    /// Directories of a watch in the measurement of its memory
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub directories: u32,
    /// How long the stalled reader does not read, in seconds
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub stall_seconds: u64,
    /// Use the servers that are already built beside this binary
    #[arg(long)]
    pub no_build: bool,
    /// Where the JSON goes [default: benches/results/DATE-streams.json, the date in UTC]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

impl Options {
    /// Whether `measurement` was asked for.
    pub fn measures(&self, measurement: Measurement) -> bool {
        match (self.stall, self.only.is_empty()) {
            (true, _) => measurement == Measurement::Stall,
            (false, true) => true,
            (false, false) => self.only.contains(&measurement),
        }
    }

    /// The rounds of a measurement that has `default` of them unless told otherwise.
    pub fn rounds(&self, default: u32) -> u32 {
        self.runs.unwrap_or(default)
    }
}

/// One of the nine measurements.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Measurement {
    /// The first line, and each line's delay
    Latency,
    /// Payload per second, and the server's CPU time for it
    Throughput,
    /// From the command's exit to the end of the stream
    Exit,
    /// Memory per open stream
    Memory,
    /// A client that does not read
    Stall,
    /// Each line's delay beside a client that does not read, and beside many that are quiet
    Company,
    /// How often a client is told of what changes all the time
    Notices,
    /// Memory per session of an MCP client that left
    Sessions,
    /// Watched directories: each change's delay, a burst of changes, and memory per directory
    Watch,
}

/// The parts that run as processes of their own.
#[derive(Debug, Subcommand)]
pub enum Part {
    /// Print lines, each with its number and the time it was printed
    #[command(hide = true)]
    Print {
        /// How many lines
        #[arg(long)]
        lines: u32,
        /// How long to sleep before each, in milliseconds
        #[arg(long)]
        every_ms: u64,
        /// How many bytes on stderr before each
        #[arg(long, default_value_t = 0)]
        noise: usize,
    },
    /// Print numbered lines as fast as they are taken
    #[command(hide = true)]
    Flood {
        /// At least this many bytes, in whole lines
        #[arg(long)]
        bytes: u64,
    },
    /// Print the numbers from 0 on, a line each
    #[command(hide = true)]
    Count {
        /// How many
        #[arg(long)]
        lines: u32,
        /// How long from one to the next, in microseconds
        #[arg(long)]
        every_us: u64,
        /// How long all of them may take, in milliseconds
        #[arg(long)]
        within_ms: u64,
    },
    /// Print the time and exit
    #[command(hide = true)]
    Stamp,
    /// Change names in a directory, each with its number and the time
    #[command(hide = true)]
    Touch {
        /// Where
        #[arg(long)]
        directory: PathBuf,
        /// How many changes
        #[arg(long)]
        count: u32,
        /// How long to sleep before each, in milliseconds
        #[arg(long)]
        every_ms: u64,
    },
    /// Make directories and files as fast as can be
    #[command(hide = true)]
    Burst {
        /// Where
        #[arg(long)]
        directory: PathBuf,
        /// How many directories
        #[arg(long)]
        directories: u32,
        /// How many files in each
        #[arg(long)]
        files: u32,
    },
    /// Copy what commands print to TCP connections
    #[command(hide = true)]
    Relay,
    /// Become another program that is told to end when its parent does
    #[command(hide = true)]
    UnderParent {
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("streams").chain(arguments.iter().copied()))
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn without_arguments_everything_is_measured() {
        let options = parse(&[]).unwrap().options;
        assert!(Measurement::value_variants().iter().all(|what| options.measures(*what)));
        assert_eq!((options.rounds(20), options.mebibytes, options.streams), (20, 256, 500));
        assert_eq!((options.stall_seconds, options.crowd), (30, 10_000));
        assert_eq!((options.listeners, options.sessions, options.directories), (1_000, 4_000, 1_000));
    }

    #[test]
    fn stall_is_one_measurement_alone() {
        let options = parse(&["--stall"]).unwrap().options;
        assert!(options.measures(Measurement::Stall) && !options.measures(Measurement::Latency));
        assert!(parse(&["--stall", "--only", "exit"]).is_err());
    }

    #[test]
    fn lists_are_separated_by_commas() {
        let options =
            parse(&["--rows", "pipe,relay", "--only", "exit,memory", "--runs", "3"]).unwrap().options;
        assert_eq!(options.rows, ["pipe", "relay"]);
        assert_eq!(options.only, [Measurement::Exit, Measurement::Memory]);
        assert_eq!(options.rounds(50), 3);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(parse(&["--runs", "0"]).is_err());
        assert!(parse(&["--only", "taste"]).is_err());
        assert!(parse(&["--runs", "3", "stamp"]).is_err());
        assert!(parse(&["under-parent"]).is_err());
    }

    #[test]
    fn the_parts_take_their_arguments() {
        let part = parse(&["print", "--lines", "30", "--every-ms", "100"]).unwrap().part.unwrap();
        assert!(matches!(part, Part::Print { lines: 30, every_ms: 100, noise: 0 }));
        let part =
            parse(&["print", "--lines", "1", "--every-ms", "5", "--noise", "9"]).unwrap().part.unwrap();
        assert!(matches!(part, Part::Print { noise: 9, .. }));
        let part = parse(&["touch", "--directory", "/x", "--count", "3", "--every-ms", "5"]).unwrap().part;
        assert!(matches!(part, Some(Part::Touch { count: 3, every_ms: 5, .. })));
        let part = parse(&["burst", "--directories", "2", "--files", "9", "--directory", "/x"]).unwrap().part;
        assert!(matches!(part, Some(Part::Burst { directories: 2, files: 9, .. })));
        let part = parse(&["under-parent", "--", "hangar", "serve", "--listen", "x"]).unwrap().part.unwrap();
        assert!(matches!(part, Part::UnderParent { command } if command.len() == 4));
    }
}
