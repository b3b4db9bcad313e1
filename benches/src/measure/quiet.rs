//! Many streams that are open and quiet.

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{progress, sink::Count};
use crate::{
    Result, mcp,
    mcp::Session,
    proc,
    process::Process,
    row::Row,
    server::Server,
    source::{Source, connect},
};

/// One line, and then nothing.
const COMMAND: &str = "echo ready; exec sleep 86400";

const TIMEOUT_S: u64 = 600;

/// Processes that are read by all streams that need one, in turn.
const PROCESSES: u32 = 10;

/// Calls of one session; a server answers 64 of one at once, and has 64 sessions for a token.
const CALLS: u32 = 50;

/// How long a server may take to let go of clients that left.
const CLOSE: Duration = Duration::from_secs(30);

/// What quiet streams of one kind are opened on.
#[derive(Debug)]
pub struct Quiet<'a> {
    server: &'a Server,
    row: Row,
    /// Empty where each stream has a command of its own.
    processes: Vec<Process<'a>>,
    /// Those that have calls open.
    sessions: Vec<Session<'a>>,
}

impl<'a> Quiet<'a> {
    /// Starts what streams of the kind of `row` need on `server`.
    pub fn start(server: &'a Server, row: Row) -> Result<Self> {
        let processes = if row.is_background() { PROCESSES } else { 0 };
        let processes = (0..processes).map(|_| Process::start(server, COMMAND, None));
        Ok(Self { server, row, processes: processes.collect::<Result<_>>()?, sessions: Vec::new() })
    }

    /// Opens streams, each once the line of the one before has come.
    pub fn open(&mut self, streams: u32) -> Result<Vec<Source>> {
        let mut sources = Vec::with_capacity(streams as usize);
        for number in 1..=streams {
            if number % 50 == 0 {
                progress(&format!("{}: {number} of {streams} streams open", self.row.label()));
            }
            let mut source = self.open_one(number)?;
            let mut count = Count::default();
            while !source.ready() || count.lines == 0 {
                if source.receive(&mut count)?.ended {
                    return Err(format!("stream {number} ended at once").into());
                }
            }
            source.rest();
            sources.push(source);
        }
        Ok(sources)
    }

    fn open_one(&mut self, number: u32) -> Result<Source> {
        let turn = number as usize % self.processes.len().max(1);
        let Some(process) = self.processes.get_mut(turn) else {
            return if matches!(self.row, Row::Mcp(_)) {
                Source::mcp(self.server, COMMAND, TIMEOUT_S)
            } else if matches!(self.row, Row::McpOfSession(_)) {
                self.call(number)
            } else {
                Source::stream(self.server, COMMAND, TIMEOUT_S)
            };
        };
        if matches!(self.row, Row::Followed(_)) {
            process.follow(TIMEOUT_S)
        } else if matches!(self.row, Row::Listen(_)) {
            let request = mcp::listen(self.server, &process.uri());
            Source::messages(connect(self.server.service().address())?, &request, TIMEOUT_S)
        } else {
            process.attach(TIMEOUT_S)
        }
    }

    fn call(&mut self, number: u32) -> Result<Source> {
        if number % CALLS == 1 {
            self.sessions.push(Session::begin(self.server, self.server.token())?);
        }
        let session = self.sessions.last().ok_or("no session")?;
        session.call(number, COMMAND, TIMEOUT_S)
    }

    /// Whether the server has `streams` open, and what they are of runs.
    pub fn check(&self, streams: u32) -> Result<()> {
        let open = self.server.open_streams()?;
        if open != u64::from(streams) {
            return Err(format!("{open} of {streams} streams are open").into());
        }
        let commands = if self.processes.is_empty() { streams as usize } else { self.processes.len() };
        let running = proc::descendants(self.server.service().pid())?.len();
        if running < commands {
            return Err(format!("{running} of {commands} commands run").into());
        }
        Ok(())
    }

    /// Closes all of them, and waits until the server has let go of them and has ended their commands.
    pub fn close(&mut self, sources: Vec<Source>) -> Result<()> {
        drop(sources);
        // Their calls go on without their connections.
        self.sessions.drain(..).try_for_each(Session::end)?;
        let deadline = Instant::now() + CLOSE;
        loop {
            let open = self.server.open_streams()?;
            let running = proc::descendants(self.server.service().pid())?.len();
            if open == 0 && running <= self.processes.len() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let late = CLOSE.as_secs();
                return Err(
                    format!("{open} streams open and {running} commands {late} s after all left").into()
                );
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Each stream is a socket here.
pub fn raise_open_files(streams: u32) -> Result<()> {
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
    fn more_open_files_than_can_be_are_refused() {
        assert!(raise_open_files(1).is_ok());
        let maximum = getrlimit(Resource::Nofile).maximum;
        assert_eq!(raise_open_files(u32::MAX).is_ok(), maximum.is_none_or(|max| max > u64::from(u32::MAX)));
    }
}
