//! The daemon's figures, each against its limit.
//!
//! One client for all of them, with the codec of [`hangar_core::wire`]. What the machine itself needs in the same run stands
//! beside: starting `/bin/true`, and 200 MB through a pipe.

mod client;
mod measure;

use std::{fs, path::PathBuf};

use clap::Parser;
use serde::Serialize;

use crate::{Result, machine::Machine};

pub use client::Daemon;

/// Measures `hangar-envd`, the binary as it is put into an image.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Cli {
    /// The daemon; docs/envd.md says how it is built
    #[arg(long, value_name = "FILE", default_value = "target/x86_64-unknown-linux-gnu/envd/hangar-envd")]
    pub binary: PathBuf,
    /// Rounds; the figures are medians over them
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Where the samples go, as JSON
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What it is of.
    pub what: &'static str,
    /// In which unit.
    pub unit: &'static str,
    /// What is judged: the middle of the samples, or the worst of them.
    pub value: f64,
    /// The most that it may be; unset for a floor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// All of them.
    pub samples: Vec<f64>,
}

#[derive(Serialize)]
struct Results<'a> {
    machine: &'a Machine,
    runs: u32,
    figures: &'a [Figure],
}

/// Measures, and prints a table.
///
/// # Errors
///
/// What went wrong with the daemon, or with writing the results. A limit that is missed is none: the table says it.
pub fn main(cli: &Cli) -> Result<()> {
    if !cli.binary.is_file() {
        return Err(
            format!("{} is not there; docs/envd.md says how it is built", cli.binary.display()).into()
        );
    }
    let machine = Machine::this();
    println!("{}\n", machine.describe());
    let figures = measure::all(cli)?;
    println!("| | measured | limit | |\n| --- | ---: | ---: | --- |");
    for Figure { what, unit, value, limit, .. } in &figures {
        let (limit, verdict) = match limit {
            None => (String::new(), "floor"),
            Some(limit) => (format!("{limit:.2} {unit}"), if value <= limit { "met" } else { "MISSED" }),
        };
        println!("| {what} | {value:.2} {unit} | {limit} | {verdict} |");
    }
    if let Some(out) = &cli.out {
        let results = Results { machine: &machine, runs: cli.runs, figures: &figures };
        fs::write(out, serde_json::to_string_pretty(&results)?)?;
    }
    Ok(())
}
