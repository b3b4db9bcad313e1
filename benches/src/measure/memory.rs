//! What a server keeps for a stream that is open and quiet.

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use super::{progress, sink::Count};
use crate::{
    Result,
    child::Scratch,
    proc,
    proc::Memory as Sample,
    server::{Runtime, Server, Setup},
    source::Source,
};

/// One line, and then nothing.
const COMMAND: &str = "echo ready; exec sleep 600";

const TIMEOUT_S: u64 = 600;

/// How long a server may take to end the commands of clients that left.
const CLOSE: Duration = Duration::from_secs(30);

/// Streams opened and closed before anything is measured.
const WARM_UP: u32 = 8;

/// One server's samples. Its own pages only: the commands are not in it, nor the kernel's buffers.
#[derive(Debug, Serialize)]
pub struct Memory {
    /// The server.
    pub row: Runtime,
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

/// Measures the server of each runtime with `streams` open.
pub fn measure(runtimes: &[Runtime], streams: u32) -> Result<Vec<Memory>> {
    raise_open_files(streams)?;
    runtimes.iter().map(|runtime| measure_one(*runtime, streams)).collect()
}

fn measure_one(runtime: Runtime, streams: u32) -> Result<Memory> {
    let named = |error| format!("memory, {}: {error}", runtime.name());
    let home = Scratch::new()?;
    let server = Server::start(runtime, Setup::ManyStreams, home.path())?;
    let pid = server.service().pid();
    close(open(&server, WARM_UP, runtime).map_err(named)?, pid).map_err(named)?;
    let before = Sample::of(pid)?;
    let sources = open(&server, streams, runtime).map_err(named)?;
    thread::sleep(Duration::from_secs(1));
    let while_open = Sample::of(pid)?;
    let running = proc::descendants(pid)?.len();
    if running < streams as usize {
        return Err(named(format!("{running} of {streams} commands run").into()).into());
    }
    close(sources, pid).map_err(named)?;
    let after = Sample::of(pid)?;
    server.stop()?;
    let (kind, grown) = grown_kib(before, while_open);
    let kib_per_stream = grown as f64 / f64::from(streams);
    Ok(Memory { row: runtime, streams, kind, kib_per_stream, before, open: while_open, after })
}

fn grown_kib(before: Sample, after: Sample) -> (&'static str, i64) {
    let grown = |before: u64, after: u64| after.cast_signed() - before.cast_signed();
    before.pss_kib.zip(after.pss_kib).map_or_else(
        || ("RssAnon", grown(before.anonymous_kib, after.anonymous_kib)),
        |(before, after)| ("PSS", grown(before, after)),
    )
}

/// Opens streams, each once the line of the one before has come.
fn open(server: &Server, streams: u32, runtime: Runtime) -> Result<Vec<Source>> {
    let mut sources = Vec::with_capacity(streams as usize);
    for number in 1..=streams {
        if number % 50 == 0 {
            progress(&format!("memory, {}: {number} of {streams} streams open", runtime.name()));
        }
        let mut source = Source::stream(server, COMMAND, TIMEOUT_S)?;
        let mut count = Count::default();
        while count.lines == 0 {
            if source.receive(&mut count)?.ended {
                return Err(format!("stream {number} ended at once").into());
            }
        }
        source.rest();
        sources.push(source);
    }
    Ok(sources)
}

/// Closes all of them, and waits until the server has ended their commands.
fn close(sources: Vec<Source>, pid: u32) -> Result<()> {
    drop(sources);
    let deadline = Instant::now() + CLOSE;
    loop {
        let left = proc::descendants(pid)?.len();
        if left == 0 {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(
                format!("{left} commands run on {} s after their clients left", CLOSE.as_secs()).into()
            );
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Each stream is a socket here.
fn raise_open_files(streams: u32) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let needed = u64::from(streams) + 64;
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        return Err(format!("{streams} streams need {needed} open files: raise `ulimit -Hn`").into());
    }
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Ok(())
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
