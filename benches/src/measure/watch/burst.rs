//! What it costs to tell a burst of changes in new directories, and whether its client then knows what is there.

mod picture;

use std::{path::Path, time::Duration};

use serde::Serialize;

use super::{Changing, TIMEOUT_S, wait_until_ready};
use crate::{
    Result,
    changes::made,
    child::Scratch,
    clock::{difference_ns, wall_ns},
    measure::progress,
    proc::{Memory, cpu_seconds, peak_rss_kib},
    row::{Row, Stand, rotated},
    server::Runtime,
    stats::median,
};
use picture::Picture;

/// Every row, in the table's order. Streams are paced: those of a server are raised.
pub const ROWS: [Row; 4] = [
    Row::Inotifywait,
    Row::InotifywaitAlike,
    Row::RaisedWatched(Runtime::Tokio),
    Row::RaisedWatched(Runtime::Daemon),
];

/// Rounds, unless told otherwise.
pub const ROUNDS: u32 = 5;

/// Directories that are made, one after the other.
pub const DIRECTORIES: u32 = 500;

/// Files in each.
pub const FILES: u32 = 99;

/// What is silent for so long has told all that it tells.
const QUIET: Duration = Duration::from_secs(2);

/// How long a client waits before it looks whether it knows everything.
const PAUSE: Duration = Duration::from_millis(200);

/// One row's samples.
#[derive(Debug, Serialize)]
pub struct Burst {
    /// The row.
    pub row: Row,
    /// The median of the CPU time of the processes that watch.
    pub cpu_seconds: f64,
    /// The median of the ratios to that of `inotifywait` in the same round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ratio: Option<f64>,
    /// The most that these processes grew by in any run, in KiB.
    pub grown_kib: u64,
    /// Every run, in order.
    pub runs: Vec<Run>,
}

/// One run of one row.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Run {
    /// CPU time of the processes that watch, in the clock's ticks of usually 10 ms.
    pub cpu_seconds: f64,
    /// The most that was resident of them, past what was when the watch began, in KiB.
    pub grown_kib: u64,
    /// From the first change to the last that was told.
    pub elapsed_ns: i64,
    /// Events that were told.
    pub told: u64,
    /// How often the client was told that changes were lost.
    pub overflows: u64,
    /// Names that are there at the end.
    pub names: usize,
    /// Those of which the client does not know, or knows wrongly.
    pub wrong: usize,
}

/// Measures `rows`, `rounds` times.
pub fn measure(rows: &[Row], rounds: u32) -> Result<Vec<Burst>> {
    let mut runs: Vec<Vec<Run>> = rows.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for (index, row) in rotated(rows, round) {
            progress(&format!("burst, round {} of {rounds}: {}", round + 1, row.label()));
            runs[index].push(run(row).map_err(|error| format!("burst, {}: {error}", row.label()))?);
        }
    }
    let peer = rows.iter().position(|row| *row == Row::Inotifywait).map(|index| runs[index].clone());
    rows.iter().zip(runs).map(|(row, runs)| Burst::of(*row, runs, peer.as_deref())).collect()
}

/// Each run has a server of its own: what was the most that it ever held is of this run.
fn run(row: Row) -> Result<Run> {
    let stand = Stand::start(&[row])?;
    let directory = Scratch::new()?;
    let mut picture = Picture::new(directory.path());
    let mut source = stand.watch(row, directory.path(), true, TIMEOUT_S)?;
    wait_until_ready(&mut source, &mut picture)?;
    let pids = stand.watching(row, &source)?;
    let sum = |of: &dyn Fn(u32) -> Result<u64>| pids.iter().map(|pid| of(*pid)).sum::<Result<u64>>();
    let cpu = || pids.iter().map(|pid| cpu_seconds(*pid)).sum::<Result<f64>>();
    let (cpu_before, resident) = (cpu()?, sum(&|pid| Ok(Memory::of(pid)?.rss_kib))?);
    let begun_ns = wall_ns();
    let mut changing = start(directory.path())?;
    // Not read from the directory: that is something that `inotifywait` tells.
    let there = made(DIRECTORIES, FILES);
    let (mut last_ns, mut silent, mut is_done) = (begun_ns, Duration::ZERO, false);
    loop {
        if source.comes_within(PAUSE)? {
            silent = Duration::ZERO;
            let received = source.receive(&mut picture)?;
            if received.ended {
                return Err("the watch ended".into());
            }
            last_ns = received.at_ns;
        } else if is_done || changing.is_done()? {
            is_done = true;
            silent += PAUSE;
            if picture.wrong(&there) == 0 || silent >= QUIET {
                break;
            }
        }
    }
    let run = Run {
        cpu_seconds: cpu()? - cpu_before,
        grown_kib: sum(&peak_rss_kib)?.saturating_sub(resident),
        elapsed_ns: difference_ns(begun_ns, last_ns),
        told: picture.told(),
        overflows: picture.overflows(),
        names: there.len(),
        wrong: picture.wrong(&there),
    };
    drop(source);
    stand.stop()?;
    // `inotifywait` misses what is in a directory before it watches that.
    if row.server().is_some() && run.wrong > 0 && run.overflows == 0 {
        return Err(
            format!("{} of {} names are wrong, and no overflow was told", run.wrong, run.names).into()
        );
    }
    Ok(run)
}

fn start(directory: &Path) -> Result<Changing> {
    let (directories, files) = (DIRECTORIES.to_string(), FILES.to_string());
    Changing::start(&["burst", "--directories", &directories, "--files", &files], directory)
}

impl Burst {
    fn of(row: Row, runs: Vec<Run>, peer: Option<&[Run]>) -> Result<Self> {
        let seconds: Vec<_> = runs.iter().map(|run| run.cpu_seconds).collect();
        let ratios = peer.map(|peer| {
            let pairs = runs.iter().zip(peer);
            pairs.map(|(run, peer)| run.cpu_seconds / peer.cpu_seconds).collect::<Vec<_>>()
        });
        Ok(Self {
            row,
            cpu_seconds: median(&seconds).ok_or("not a single run")?,
            cpu_ratio: ratios.as_deref().and_then(median),
            grown_kib: runs.iter().map(|run| run.grown_kib).max().ok_or("not a single run")?,
            runs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_within_a_round_and_the_most_memory_of_all() {
        let run = |cpu_seconds, grown_kib| Run {
            cpu_seconds,
            grown_kib,
            elapsed_ns: 1,
            told: 1,
            overflows: 0,
            names: 1,
            wrong: 0,
        };
        let peer = [run(1.0, 9), run(0.5, 9), run(2.0, 9)];
        let runs = vec![run(1.5, 10), run(1.0, 30), run(2.0, 20)];
        let burst = Burst::of(Row::RaisedWatched(Runtime::Tokio), runs, Some(&peer)).unwrap();
        assert_eq!((burst.cpu_seconds, burst.cpu_ratio, burst.grown_kib), (1.5, Some(1.5), 30));
        assert_eq!(Burst::of(Row::Inotifywait, peer.to_vec(), None).unwrap().cpu_ratio, None);
        assert!(Burst::of(Row::Inotifywait, Vec::new(), None).is_err());
    }
}
