//! How fast output is carried when nothing holds it back, and what it costs the server.

use std::process;

use serde::Serialize;

use super::{progress, sink::Count};
use crate::{
    Result,
    child::ourselves,
    clock::difference_ns,
    printer::{FLOOD_LINE, flood_lines},
    proc::cpu_seconds,
    row::{Row, Stand, rotated},
    server::Runtime,
    stats::median,
};

/// Every row, in the table's order.
pub const ROWS: [Row; 7] = [
    Row::Pipe,
    Row::Relay,
    Row::Raised(Runtime::Tokio),
    Row::Raised(Runtime::Smol),
    Row::RaisedMcp(Runtime::Tokio),
    Row::RaisedMcp(Runtime::Smol),
    Row::Raised(Runtime::Daemon),
];

/// The rows that carry no more than a process can keep, and their relay, which carries the same: in a shorter run the
/// command's start has a larger share.
pub const ATTACHED_ROWS: [Row; 4] = [
    Row::Relay,
    Row::RaisedAttached(Runtime::Tokio),
    Row::RaisedAttached(Runtime::Smol),
    Row::RaisedAttached(Runtime::Daemon),
];

/// The most that those carry.
pub const ATTACHED_MIB: u64 = 60;

/// Rounds, unless told otherwise.
pub const ROUNDS: u32 = 5;

/// Runs of each row before anything counts: what one process has kept is the memory of the next but one.
const WARM_UPS: u32 = 3;

const MIB: f64 = (1 << 20) as f64;
const GIB: f64 = (1 << 30) as f64;
const TIMEOUT_S: u64 = 600;

/// One row's samples.
#[derive(Debug, Serialize)]
pub struct Throughput {
    /// The row.
    pub row: Row,
    /// The median of the runs.
    pub mib_per_second: f64,
    /// The median of the ratios to the relay's run in the same round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_relay: Option<f64>,
    /// The median of what the process that carries the output uses itself; unset for the pipe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds_per_gib: Option<f64>,
    /// Every run, in order.
    pub runs: Vec<Run>,
}

/// One run of one row.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Run {
    /// Payload received.
    pub bytes: u64,
    /// From the request to the end.
    pub elapsed_ns: i64,
    /// CPU time of the process that carries the output, in the clock's ticks of usually 10 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// CPU time of the client, which shows whether it was the client that was measured.
    pub client_cpu_seconds: f64,
}

impl Run {
    fn mib_per_second(&self) -> f64 {
        self.bytes as f64 / MIB / (self.elapsed_ns as f64 / 1e9)
    }

    fn cpu_seconds_per_gib(&self) -> Option<f64> {
        self.cpu_seconds.map(|seconds| seconds / (self.bytes as f64 / GIB))
    }
}

/// Measures `rows` with `mebibytes` of payload each, `rounds` times.
pub fn measure(rows: &[Row], rounds: u32, mebibytes: u64) -> Result<Vec<Throughput>> {
    let stand = Stand::start(rows)?;
    let bytes = mebibytes << 20;
    let mut runs: Vec<Vec<Run>> = rows.iter().map(|_| Vec::new()).collect();
    for row in rows {
        for _ in 0..WARM_UPS {
            run(&stand, *row, bytes.min(ATTACHED_MIB << 20))?;
        }
    }
    for round in 0..rounds {
        for (index, row) in rotated(rows, round) {
            progress(&format!("throughput, round {} of {rounds}: {}", round + 1, row.label()));
            runs[index].push(run(&stand, row, bytes)?);
        }
    }
    stand.stop()?;
    let relay = rows.iter().position(|row| *row == Row::Relay).map(|index| runs[index].clone());
    rows.iter().zip(runs).map(|(row, runs)| Throughput::of(*row, runs, relay.as_deref())).collect()
}

fn run(stand: &Stand, row: Row, bytes: u64) -> Result<Run> {
    let named = |error| format!("{}: {error}", row.label());
    let command = ourselves(&format!("flood --bytes {bytes}"))?;
    let cpu =
        || Ok::<_, crate::Error>((stand.pid(row).map(cpu_seconds).transpose()?, cpu_seconds(process::id())?));
    let (before, client_before) = cpu()?;
    let mut count = Count::default();
    let source = stand.open(row, &command, TIMEOUT_S).map_err(named)?;
    let issued_ns = source.issued_ns();
    let ending = source.finish(&mut count).map_err(named)?;
    let (after, client_after) = cpu()?;
    count.check(flood_lines(bytes)).map_err(named)?;
    if let Some(result) = ending.result {
        check_tail(&result.stdout).map_err(named)?;
    }
    Ok(Run {
        bytes: count.bytes,
        elapsed_ns: difference_ns(issued_ns, ending.at_ns),
        cpu_seconds: before.zip(after).map(|(before, after)| after - before),
        client_cpu_seconds: client_after - client_before,
    })
}

/// The result of more output than it can hold has the last 256 KiB.
fn check_tail(tail: &str) -> Result<()> {
    let whole_lines = tail.ends_with('\n') && tail.len() >= FLOOD_LINE && tail.len() <= 256 << 10;
    if whole_lines { Ok(()) } else { Err(format!("a result with {} bytes of output", tail.len()).into()) }
}

impl Throughput {
    fn of(row: Row, runs: Vec<Run>, relay: Option<&[Run]>) -> Result<Self> {
        let speeds: Vec<_> = runs.iter().map(Run::mib_per_second).collect();
        let ratios = relay.map(|relay| {
            let pairs = runs.iter().zip(relay);
            pairs.map(|(run, relay)| run.mib_per_second() / relay.mib_per_second()).collect::<Vec<_>>()
        });
        let cpu: Vec<_> = runs.iter().filter_map(Run::cpu_seconds_per_gib).collect();
        Ok(Self {
            row,
            mib_per_second: median(&speeds).ok_or("not a single run")?,
            ratio_to_relay: ratios.as_deref().and_then(median),
            cpu_seconds_per_gib: median(&cpu),
            runs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_within_a_round() {
        let run =
            |elapsed_ns, cpu| Run { bytes: 1 << 20, elapsed_ns, cpu_seconds: cpu, client_cpu_seconds: 0.1 };
        let second = 1_000_000_000;
        let relay = [run(second, None), run(4 * second, None), run(2 * second, None)];
        let runs = vec![run(2 * second, Some(0.5)), run(5 * second, Some(0.25)), run(4 * second, Some(1.0))];
        let row = Throughput::of(Row::Raised(Runtime::Tokio), runs, Some(&relay)).unwrap();
        assert_eq!((row.mib_per_second, row.ratio_to_relay), (0.25, Some(0.5)));
        assert_eq!(row.cpu_seconds_per_gib, Some(512.0));
        assert!(Throughput::of(Row::Pipe, Vec::new(), None).is_err());
    }

    #[test]
    fn a_tail_is_whole_lines() {
        let line = "x".repeat(FLOOD_LINE - 1) + "\n";
        assert!(check_tail(&line.repeat(2)).is_ok());
        assert!(check_tail("").is_err() && check_tail(&line.repeat(3000)).is_err());
    }
}
