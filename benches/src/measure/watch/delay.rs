//! How soon after a change its client has been told of it.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Changing, TIMEOUT_S, Told, Watches, told::told, wait_until_ready};
use crate::{
    Result,
    changes::parse_stamped,
    child::Scratch,
    clock::difference_ns,
    measure::{progress, sink::Lines},
    row::{Row, Stand, rotated},
    server::Runtime,
    stats::Spread,
    wire::Sink,
};

/// Every row, in the table's order.
pub const ROWS: [Row; 4] = [
    Row::Inotifywait,
    Row::Watched(Runtime::Tokio),
    Row::Watched(Runtime::Smol),
    Row::Watched(Runtime::Daemon),
];

/// Rounds, unless told otherwise.
pub const ROUNDS: u32 = 10;

/// Changes in a run.
pub const CHANGES: u32 = 300;

/// From one to the next, in milliseconds.
pub const EVERY_MS: u32 = 3;

/// Changes of each row before anything counts.
const WARM_UP: u32 = 30;

/// One row's samples.
#[derive(Debug, Serialize)]
pub struct Delay {
    /// The row.
    pub row: Row,
    /// From right before the change to its being received.
    pub delay: Spread,
    /// The same of every change, of every run in order.
    pub delays_ns: Vec<Vec<i64>>,
}

/// Measures `rows`, `rounds` times.
pub fn measure(rows: &[Row], rounds: u32) -> Result<Vec<Delay>> {
    let stand = Stand::start(rows)?;
    let mut delays: Vec<Vec<Vec<i64>>> = rows.iter().map(|_| Vec::new()).collect();
    for row in rows {
        run(&stand, *row, WARM_UP)?;
    }
    for round in 0..rounds {
        for (index, row) in rotated(rows, round) {
            progress(&format!("watch, round {} of {rounds}: {}", round + 1, row.label()));
            delays[index].push(run(&stand, row, CHANGES)?);
        }
    }
    stand.stop()?;
    let spread = |(row, delays_ns): (&Row, Vec<Vec<i64>>)| {
        let delay = Spread::of_ns(&delays_ns.concat()).ok_or("not a single change")?;
        Ok(Delay { row: *row, delay, delays_ns })
    };
    rows.iter().zip(delays).map(spread).collect()
}

fn run(stand: &Stand, row: Row, changes: u32) -> Result<Vec<i64>> {
    let named = |error| format!("watch, {}: {error}", row.label());
    let directory = Scratch::new()?;
    let mut delays = Delays::new(directory.path());
    let mut source = stand.watch(row, directory.path(), false, TIMEOUT_S).map_err(named)?;
    wait_until_ready(&mut source, &mut delays).map_err(named)?;
    let (count, every) = (changes.to_string(), EVERY_MS.to_string());
    let mut changing =
        Changing::start(&["touch", "--count", &count, "--every-ms", &every], directory.path())?;
    while delays.is_right().map_err(named)?.len() < changes as usize {
        if source.receive(&mut delays).map_err(named)?.ended {
            return Err(named("the watch ended".into()).into());
        }
    }
    while !changing.is_done()? {
        std::thread::yield_now();
    }
    Ok(delays.delays_ns)
}

/// Takes what is told of the changes.
#[derive(Debug)]
struct Delays {
    lines: Lines,
    directory: PathBuf,
    ready: bool,
    delays_ns: Vec<i64>,
    /// The first that was not the one expected.
    wrong: Option<String>,
}

impl Delays {
    fn new(directory: &Path) -> Self {
        let directory = directory.to_owned();
        Self { lines: Lines::new(), directory, ready: false, delays_ns: Vec::new(), wrong: None }
    }

    /// The delays, if every change so far was told, in its order.
    fn is_right(&self) -> Result<&[i64]> {
        match &self.wrong {
            Some(wrong) => {
                Err(format!("{wrong:?} came where change {} should be", self.delays_ns.len()).into())
            }
            None => Ok(&self.delays_ns),
        }
    }
}

impl Watches for Delays {
    fn is_ready(&self) -> bool {
        self.ready
    }
}

impl Sink for Delays {
    fn payload(&mut self, at_ns: u64, bytes: &[u8]) {
        let Self { lines, directory, ready, delays_ns, wrong } = self;
        lines.feed(bytes, |line| match told(line, directory) {
            Some(Told::Ready) => *ready = true,
            Some(Told::Created(name) | Told::Renamed { name, .. }) => match parse_stamped(name) {
                Some((number, made_ns)) if number as usize == delays_ns.len() => {
                    delays_ns.push(difference_ns(made_ns, at_ns));
                }
                Some(_) | None => {
                    wrong.get_or_insert_with(|| name.to_owned());
                }
            },
            Some(Told::Overflow) => {
                wrong.get_or_insert_with(|| "an overflow".to_owned());
            }
            Some(Told::Removed(_) | Told::Other) | None => {}
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(lines: &str) -> Delays {
        let mut delays = Delays::new(Path::new("/x"));
        delays.payload(100, lines.as_bytes());
        delays
    }

    #[test]
    fn a_change_is_told_by_the_name_that_it_gives() {
        let of_server = delays("ready .\ncreate 0-40\nwrite 0-40\nrename 1-60 0-40\ncreate 2-9");
        assert!(of_server.is_ready());
        assert_eq!(of_server.is_right().unwrap(), [60, 40]);
        let of_peer = delays(
            "Setting up watches.\nWatches established.\nCREATE /x/0-40\nOPEN /x/0-40\nMOVED_FROM /x/0-40\n\
             MOVED_TO /x/1-110\n",
        );
        assert!(of_peer.is_ready());
        assert_eq!(of_peer.is_right().unwrap(), [60, -10]);
    }

    #[test]
    fn a_change_that_is_missing_or_told_twice_is_an_error() {
        for lines in ["create 1-4\n", "create 0-4\ncreate 0-4\n", "create x\n", "overflow .\n"] {
            assert!(delays(lines).is_right().is_err(), "{lines}");
        }
    }
}
