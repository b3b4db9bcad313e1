//! How long after it is printed a line is seen, and how long after the request the first one is.

use serde::Serialize;

use super::{progress, sink::Stamps};
use crate::{
    Result,
    child::ourselves,
    clock::difference_ns,
    row::{Row, Stand, rotated},
    server::Runtime,
    stats::Spread,
};

/// Every row, in the table's order.
pub const ROWS: [Row; 16] = [
    Row::Pipe,
    Row::Relay,
    Row::Stream(Runtime::Tokio),
    Row::Raised(Runtime::Tokio),
    Row::Stream(Runtime::Smol),
    Row::Raised(Runtime::Smol),
    Row::Attached(Runtime::Tokio),
    Row::Attached(Runtime::Smol),
    Row::Followed(Runtime::Tokio),
    Row::Followed(Runtime::Smol),
    Row::Mcp(Runtime::Tokio),
    Row::Mcp(Runtime::Smol),
    Row::Stream(Runtime::Daemon),
    Row::Attached(Runtime::Daemon),
    Row::Followed(Runtime::Daemon),
    Row::Unstreamed(Runtime::Tokio),
];

/// Rounds, unless told otherwise.
pub const ROUNDS: u32 = 20;

const LINES: u32 = 30;
const TIMEOUT_S: u64 = 60;

/// One row's samples.
#[derive(Debug, Serialize)]
pub struct Latency {
    /// The row.
    pub row: Row,
    /// From the request to the first line.
    pub first_line: Spread,
    /// From being printed to being received.
    pub delay: Spread,
    /// Every run, in order.
    pub runs: Vec<Run>,
}

/// One run of one row.
#[derive(Debug, Serialize)]
pub struct Run {
    /// From the request, or the spawn, to the first line.
    pub first_line_ns: i64,
    /// For each line, from being printed to being received.
    pub delays_ns: Vec<i64>,
}

/// Measures `rows`, `rounds` times.
pub fn measure(rows: &[Row], rounds: u32) -> Result<Vec<Latency>> {
    let stand = Stand::start(rows)?;
    let command = ourselves(&format!("print --lines {LINES} --every-ms 100"))?;
    let warm_up = ourselves("print --lines 2 --every-ms 10")?;
    let mut runs: Vec<Vec<Run>> = rows.iter().map(|_| Vec::new()).collect();
    for row in rows {
        run(&stand, *row, &warm_up, 2)?;
    }
    for round in 0..rounds {
        for (index, row) in rotated(rows, round) {
            progress(&format!("latency, round {} of {rounds}: {}", round + 1, row.label()));
            runs[index].push(run(&stand, row, &command, LINES)?);
        }
    }
    stand.stop()?;
    rows.iter().zip(runs).map(|(row, runs)| Latency::of(*row, runs)).collect()
}

fn run(stand: &Stand, row: Row, command: &str, lines: u32) -> Result<Run> {
    let named = |error| format!("{}: {error}", row.label());
    let mut stamps = Stamps::default();
    let source = stand.open(row, command, TIMEOUT_S).map_err(named)?;
    let issued_ns = source.issued_ns();
    source.finish(&mut stamps).map_err(named)?;
    stamps.check(lines).map_err(named)?;
    let first_ns = stamps.first_ns().ok_or("no line came")?;
    Ok(Run { first_line_ns: difference_ns(issued_ns, first_ns), delays_ns: stamps.delays_ns() })
}

impl Latency {
    fn of(row: Row, runs: Vec<Run>) -> Result<Self> {
        let first: Vec<_> = runs.iter().map(|run| run.first_line_ns).collect();
        let delays: Vec<_> = runs.iter().flat_map(|run| run.delays_ns.iter().copied()).collect();
        let spreads = Spread::of_ns(&first).zip(Spread::of_ns(&delays));
        let (first_line, delay) = spreads.ok_or("not a single run")?;
        Ok(Self { row, first_line, delay, runs })
    }
}
