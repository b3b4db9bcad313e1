//! A client that does not read: what the server holds meanwhile, and whether all is there when it reads again.

use std::{thread, time::Duration};

use serde::Serialize;

use super::{progress, sink::Flooded};
use crate::{
    Result,
    child::ourselves,
    printer::flood_lines,
    proc::Memory,
    row::{Row, Stand},
    server::Runtime,
};

/// Every row, in the table's order.
pub const ROWS: [Row; 2] = [Row::Raised(Runtime::Tokio), Row::Raised(Runtime::Smol)];

/// What the command prints: far more than all the buffers on its way.
const BYTES: u64 = 64 << 20;

/// How much more a server may hold at one time of a stall than at another and still be called flat.
const FLAT_KIB: u64 = 1024;

/// One server's samples.
#[derive(Debug, Serialize)]
pub struct Stall {
    /// The row.
    pub row: Row,
    /// Before the stream was opened.
    pub idle_rss_kib: u64,
    /// The least of the samples.
    pub min_rss_kib: u64,
    /// The most of the samples.
    pub max_rss_kib: u64,
    /// Whether they are as good as the same.
    pub flat: bool,
    /// Lines received after the stall, none missing.
    pub lines: u64,
    /// Each second of the stall, from the first one on.
    pub rss_kib: Vec<u64>,
    /// After all was read.
    pub read_rss_kib: u64,
}

/// Measures each of `rows` with a client that does not read for `seconds`.
pub fn measure(rows: &[Row], seconds: u64) -> Result<Vec<Stall>> {
    rows.iter().map(|row| measure_one(*row, seconds)).collect()
}

fn measure_one(row: Row, seconds: u64) -> Result<Stall> {
    let named = |error| format!("stalled reader, {}: {error}", row.label());
    let stand = Stand::start(&[row])?;
    let pid = stand.pid(row).ok_or("a row without a server")?;
    let idle = Memory::of(pid)?;
    let command = ourselves(&format!("flood --bytes {BYTES}"))?;
    let source = stand.open(row, &command, seconds + 300).map_err(named)?;
    let mut rss_kib = Vec::new();
    for second in 1..=seconds {
        progress(&format!("stalled reader, {}: second {second} of {seconds}", row.label()));
        thread::sleep(Duration::from_secs(1));
        rss_kib.push(Memory::of(pid)?.rss_kib);
    }
    let mut flooded = Flooded::default();
    source.finish(&mut flooded).map_err(named)?;
    let lines = flood_lines(BYTES);
    flooded.check(lines).map_err(named)?;
    let read = Memory::of(pid)?;
    stand.stop()?;
    let bounds = rss_kib.iter().copied().min().zip(rss_kib.iter().copied().max());
    let (min_rss_kib, max_rss_kib) = bounds.ok_or("not a single sample")?;
    Ok(Stall {
        row,
        idle_rss_kib: idle.rss_kib,
        min_rss_kib,
        max_rss_kib,
        flat: max_rss_kib - min_rss_kib <= FLAT_KIB,
        lines,
        rss_kib,
        read_rss_kib: read.rss_kib,
    })
}
