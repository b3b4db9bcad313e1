//! What a watched directory takes of the process that watches it. What the system keeps for each is not in it.

use std::{fs, path::Path, thread, time::Duration};

use serde::Serialize;

use super::{TIMEOUT_S, Watches, wait_until_ready};
use crate::{
    Result,
    child::Scratch,
    measure::{memory::grown_kib, progress},
    proc::{Memory as Sample, inotify_watches},
    row::{Row, Stand},
    server::Runtime,
    source::Source,
    wire::Sink,
};

/// Every row, in the table's order.
pub const ROWS: [Row; 2] = [Row::Watched(Runtime::Tokio), Row::Watched(Runtime::Daemon)];

/// Directories that are watched before the memory is looked at.
const WARM_UP: u32 = 8;

/// The samples of one process: of the server, or of the daemon that watches for it.
#[derive(Debug, Serialize)]
pub struct Memory {
    /// The row.
    pub row: Row,
    /// Directories below the watched one.
    pub directories: u32,
    /// What was compared: `PSS`, or `RssAnon` where this user may not know the PSS.
    pub kind: &'static str,
    /// The difference for each directory.
    pub kib_per_directory: f64,
    /// Before they were watched.
    pub before: Sample,
    /// While all of them were.
    pub watched: Sample,
}

/// Measures each of `rows` with so many directories.
pub fn measure(rows: &[Row], directories: u32) -> Result<Vec<Memory>> {
    let named = |row: &Row, error| format!("memory of a watch, {}: {error}", row.label()).into();
    rows.iter().map(|row| measure_one(*row, directories).map_err(|error| named(row, error))).collect()
}

fn measure_one(row: Row, directories: u32) -> Result<Memory> {
    progress(&format!("memory of a watch, {}", row.label()));
    let stand = Stand::start(&[row])?;
    let (few, all) = (tree(WARM_UP)?, tree(directories)?);
    let watch_few = watch(&stand, row, few.path())?;
    // The last is the one that watches.
    let pid = *stand.watching(row, &watch_few)?.last().ok_or("a row without a process")?;
    thread::sleep(Duration::from_secs(1));
    let before = Sample::of(pid)?;
    let watch_all = watch(&stand, row, all.path())?;
    thread::sleep(Duration::from_secs(1));
    let watched = Sample::of(pid)?;
    let watches = inotify_watches(pid)?;
    if watches < u64::from(directories) {
        return Err(format!("{watches} of {directories} directories are watched").into());
    }
    drop((watch_few, watch_all));
    stand.stop()?;
    let (kind, grown) = grown_kib(before, watched);
    let kib_per_directory = grown as f64 / f64::from(directories);
    Ok(Memory { row, directories, kind, kib_per_directory, before, watched })
}

/// So many directories in a new one.
fn tree(directories: u32) -> Result<Scratch> {
    let scratch = Scratch::new()?;
    for number in 0..directories {
        fs::create_dir(scratch.path().join(format!("directory-{number:05}")))?;
    }
    Ok(scratch)
}

/// A watch that has begun.
fn watch(stand: &Stand, row: Row, directory: &Path) -> Result<Source> {
    let mut source = stand.watch(row, directory, true, TIMEOUT_S)?;
    wait_until_ready(&mut source, &mut Begun(false))?;
    source.rest();
    Ok(source)
}

/// Whether the watch of a directory in which nothing happens has begun.
struct Begun(bool);

impl Watches for Begun {
    fn is_ready(&self) -> bool {
        self.0
    }
}

impl Sink for Begun {
    fn payload(&mut self, _at_ns: u64, bytes: &[u8]) {
        self.0 |= bytes.starts_with(b"ready ");
    }
}
