//! What `hangar-envd` costs: how small it is, how fast it starts, streams and ends. `envd --help` says how.

use std::process::ExitCode;

use clap::Parser as _;
use hangar_benches::envd::{Cli, main as measure};

fn main() -> ExitCode {
    match measure(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("envd: {error}");
            ExitCode::FAILURE
        }
    }
}
