//! How long after a command's last act the client knows that it has ended.

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
pub const ROWS: [Row; 8] = [
    Row::Pipe,
    Row::Relay,
    Row::Stream(Runtime::Tokio),
    Row::Stream(Runtime::Smol),
    Row::Attached(Runtime::Tokio),
    Row::Attached(Runtime::Smol),
    Row::Followed(Runtime::Tokio),
    Row::Followed(Runtime::Smol),
];

/// Rounds, unless told otherwise.
pub const ROUNDS: u32 = 50;

const TIMEOUT_S: u64 = 60;

/// One row's samples.
#[derive(Debug, Serialize)]
pub struct Exit {
    /// The row.
    pub row: Row,
    /// From the command's stamp to EOF, or to the result.
    pub end: Spread,
    /// The same of every run, in order.
    pub ends_ns: Vec<i64>,
}

/// Measures `rows`, `rounds` times.
pub fn measure(rows: &[Row], rounds: u32) -> Result<Vec<Exit>> {
    let stand = Stand::start(rows)?;
    let command = ourselves("stamp")?;
    let mut ends: Vec<Vec<i64>> = rows.iter().map(|_| Vec::new()).collect();
    for row in rows {
        run(&stand, *row, &command)?;
    }
    for round in 0..rounds {
        progress(&format!("exit to end, round {} of {rounds}", round + 1));
        for (index, row) in rotated(rows, round) {
            ends[index].push(run(&stand, row, &command)?);
        }
    }
    stand.stop()?;
    let spread = |(row, ends_ns): (&Row, Vec<i64>)| {
        let end = Spread::of_ns(&ends_ns).ok_or("not a single run")?;
        Ok(Exit { row: *row, end, ends_ns })
    };
    rows.iter().zip(ends).map(spread).collect()
}

fn run(stand: &Stand, row: Row, command: &str) -> Result<i64> {
    let named = |error| format!("{}: {error}", row.label());
    let mut stamps = Stamps::default();
    let source = stand.open(row, command, TIMEOUT_S).map_err(named)?;
    let ending = source.finish(&mut stamps).map_err(named)?;
    stamps.check(1).map_err(named)?;
    Ok(difference_ns(stamps.last_printed_ns().ok_or("no stamp came")?, ending.at_ns))
}
