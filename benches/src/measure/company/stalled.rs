//! A reader of a process that prints much, beside one that does not read.

use super::{Company, TIMEOUT_S, With, interleaved};
use crate::{
    Result,
    child::ourselves,
    measure::sink::Stamps,
    process::Process,
    row::{Row, Stand},
    server::{Runtime, Server},
};

/// Every row, in the table's order.
pub const ROWS: [Row; 2] = [Row::RaisedAttached(Runtime::Tokio), Row::RaisedAttached(Runtime::Smol)];

const LINES: u32 = 60;

/// What is printed to stderr before each line: far more in all than the buffers of a socket.
pub const NOISE: usize = 128 << 10;

/// What the process keeps: who does not read misses most of it, and who reads may be late by many lines.
const LOG_BYTES: u64 = 2 << 20;

/// Measures `rows`, `rounds` times.
pub fn measure(rows: &[Row], rounds: u32) -> Result<Vec<Company>> {
    let stand = Stand::start(rows)?;
    let command = ourselves(&format!("print --lines {LINES} --every-ms 50 --noise {NOISE}"))?;
    let warm_up = ourselves(&format!("print --lines 2 --every-ms 10 --noise {NOISE}"))?;
    for row in rows {
        run(stand.server(*row)?, &warm_up, 2, With::Nobody)?;
    }
    let measured = interleaved(rows, rounds, |row, with| run(stand.server(row)?, &command, LINES, with))?;
    stand.stop()?;
    Ok(measured)
}

fn run(server: &Server, command: &str, lines: u32, with: With) -> Result<Vec<i64>> {
    let mut process = Process::start(server, command, Some(LOG_BYTES))?;
    let stalled = if with == With::Others { Some(process.stall(TIMEOUT_S)?) } else { None };
    let mut stamps = Stamps::default();
    process.attach(TIMEOUT_S)?.finish(&mut stamps)?;
    stamps.check(lines)?;
    if let Some(stalled) = stalled
        && stalled.unsent()? == 0
    {
        return Err("the reader that is not to read was sent everything".into());
    }
    Ok(stamps.delays_ns())
}
