//! The table of streams. `streams --help` says what it measures; see `hangar_benches` for how.

use std::process::ExitCode;

use clap::Parser as _;
use hangar_benches::{cli::Cli, run};

fn main() -> ExitCode {
    match run::main(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("streams: {error}");
            ExitCode::FAILURE
        }
    }
}
