//! Watched directories: how soon a change is told, what a burst of changes costs, and what a directory takes.

pub mod burst;
pub mod delay;
pub mod memory;
mod told;

use std::{
    env,
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::{Result, measure::watch::told::Told, row::Row, source::Source, watcher, wire::Sink};

/// How long a watch may last.
const TIMEOUT_S: u64 = 120;

/// Takes out the rows that cannot be measured here: without `inotifywait` there is nothing to compare with, and a line
/// says so.
pub fn retain_measurable(rows: [&mut Vec<Row>; 2]) {
    let is_peer = |row: &Row| matches!(row, Row::Inotifywait | Row::InotifywaitAlike);
    if rows.iter().any(|rows| rows.iter().any(is_peer)) && !watcher::is_installed() {
        eprintln!("streams: inotifywait is not installed: its rows are skipped");
        rows.into_iter().for_each(|rows| rows.retain(|row| !is_peer(row)));
    }
}

/// A sink that knows when its watch began.
trait Watches: Sink {
    fn is_ready(&self) -> bool;
}

/// Receives until everything that happens from now on is told.
fn wait_until_ready(source: &mut Source, sink: &mut impl Watches) -> Result<()> {
    while !sink.is_ready() {
        if source.receive(sink)?.ended {
            return Err("the watch ended at once".into());
        }
    }
    Ok(())
}

/// A process that changes something. Dropped, it is ended.
struct Changing(Child);

impl Changing {
    /// Starts this binary with `arguments`, for what is in `directory`.
    fn start(arguments: &[&str], directory: &Path) -> Result<Self> {
        let mut ourselves = Command::new(env::current_exe()?);
        ourselves.args(arguments).arg("--directory").arg(directory).stdin(Stdio::null());
        Ok(Self(ourselves.spawn()?))
    }

    /// Whether it has done all of it.
    fn is_done(&mut self) -> Result<bool> {
        match self.0.try_wait()? {
            None => Ok(false),
            Some(status) if status.success() => Ok(true),
            Some(status) => Err(format!("the changes were not made: {status}").into()),
        }
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        // Both do nothing for a child that has been waited for.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}
