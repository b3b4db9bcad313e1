//! What a server keeps for a stream that is open and quiet.

use std::{thread, time::Duration};

use serde::Serialize;

use super::quiet::{Quiet, raise_open_files};
use crate::{
    Result,
    child::Scratch,
    proc::Memory as Sample,
    row::Row,
    server::{Runtime, Server, Setup},
};

/// Every row, in the table's order.
pub const ROWS: [Row; 8] = [
    Row::Stream(Runtime::Tokio),
    Row::Stream(Runtime::Smol),
    Row::Attached(Runtime::Tokio),
    Row::Attached(Runtime::Smol),
    Row::Mcp(Runtime::Tokio),
    Row::Mcp(Runtime::Smol),
    Row::McpOfSession(Runtime::Tokio),
    Row::McpOfSession(Runtime::Smol),
];

/// Those that tell what changes.
pub const LISTEN_ROWS: [Row; 2] = [Row::Listen(Runtime::Tokio), Row::Listen(Runtime::Smol)];

/// Streams opened and closed before anything is measured.
const WARM_UP: u32 = 8;

/// One server's samples. Its own pages only: the commands are not in it, nor the kernel's buffers.
#[derive(Debug, Serialize)]
pub struct Memory {
    /// The row.
    pub row: Row,
    /// Streams open at once.
    pub streams: u32,
    /// What was compared: `PSS`, or `RssAnon` where this user may not know the PSS.
    pub kind: &'static str,
    /// The difference for each stream.
    pub kib_per_stream: f64,
    /// With no stream open.
    pub before: Sample,
    /// With all of them open.
    pub open: Sample,
    /// After all of them were closed.
    pub after: Sample,
}

/// Measures each of `rows` with `streams` open.
pub fn measure(rows: &[Row], streams: u32) -> Result<Vec<Memory>> {
    raise_open_files(streams)?;
    rows.iter().map(|row| measure_one(*row, streams)).collect()
}

fn measure_one(row: Row, streams: u32) -> Result<Memory> {
    let named = |error| format!("memory, {}: {error}", row.label());
    let (runtime, _) = row.server().ok_or("a row without a server")?;
    let home = Scratch::new()?;
    let server = Server::start(runtime, Setup::ManyStreams, home.path())?;
    let pid = server.service().pid();
    let mut quiet = Quiet::start(&server, row).map_err(named)?;
    let warm_up = quiet.open(WARM_UP).map_err(named)?;
    quiet.close(warm_up).map_err(named)?;
    let before = Sample::of(pid)?;
    let sources = quiet.open(streams).map_err(named)?;
    thread::sleep(Duration::from_secs(1));
    let while_open = Sample::of(pid)?;
    quiet.check(streams).map_err(named)?;
    quiet.close(sources).map_err(named)?;
    let after = Sample::of(pid)?;
    drop(quiet);
    server.stop()?;
    let (kind, grown) = grown_kib(before, while_open);
    let kib_per_stream = grown as f64 / f64::from(streams);
    Ok(Memory { row, streams, kind, kib_per_stream, before, open: while_open, after })
}

/// By the best figure that both samples have.
pub(super) fn grown_kib(before: Sample, after: Sample) -> (&'static str, i64) {
    let grown = |before: u64, after: u64| after.cast_signed() - before.cast_signed();
    before.pss_kib.zip(after.pss_kib).map_or_else(
        || ("RssAnon", grown(before.anonymous_kib, after.anonymous_kib)),
        |(before, after)| ("PSS", grown(before, after)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_figure_that_both_samples_have() {
        let sample = |pss_kib, anonymous_kib| Sample { pss_kib, rss_kib: 9000, anonymous_kib };
        assert_eq!(grown_kib(sample(Some(3000), 1), sample(Some(5500), 2)), ("PSS", 2500));
        assert_eq!(grown_kib(sample(None, 1000), sample(Some(5500), 900)), ("RssAnon", -100));
    }
}
