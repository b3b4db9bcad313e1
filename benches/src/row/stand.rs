//! What the rows of a measurement need running.

use std::{collections::BTreeMap, path::Path};

use super::Row;
use crate::{
    Result,
    child::Scratch,
    mcp::Session,
    process::{MAX_LOG_BYTES, Process},
    relay::Relay,
    server::{Runtime, Server, Setup},
    source::Source,
    watcher,
};

/// What the rows of one measurement need running. Dropping it ends all of it.
#[derive(Debug)]
pub struct Stand {
    relay: Option<Relay>,
    servers: BTreeMap<(Runtime, Setup), Server>,
    /// What the commands take for their home directory: nothing is in it.
    home: Scratch,
}

impl Stand {
    /// Starts what `rows` need.
    pub fn start(rows: &[Row]) -> Result<Self> {
        let mut stand = Self { relay: None, servers: BTreeMap::new(), home: Scratch::new()? };
        for row in rows {
            match row.server() {
                Some(key) if !stand.servers.contains_key(&key) => {
                    stand.servers.insert(key, Server::start(key.0, key.1, stand.home.path())?);
                }
                None if *row == Row::Relay => stand.relay = Some(Relay::start(stand.home.path())?),
                Some(_) | None => {}
            }
        }
        Ok(stand)
    }

    /// Runs `command` in the way of `row`, for at most `timeout_s`.
    pub fn open(&self, row: Row, command: &str, timeout_s: u64) -> Result<Source> {
        let server = || self.server(row);
        match row {
            Row::Pipe => Source::pipe(command, self.home.path(), timeout_s),
            Row::Relay => Source::relay(self.relay.as_ref().ok_or("no relay")?, command, timeout_s),
            Row::Stream(_) | Row::Raised(_) => Source::stream(server()?, command, timeout_s),
            Row::Attached(_) => Process::start(server()?, command, None)?.attach(timeout_s),
            Row::RaisedAttached(_) => {
                Process::start(server()?, command, Some(MAX_LOG_BYTES))?.attach(timeout_s)
            }
            Row::Followed(_) => Process::start(server()?, command, None)?.follow(timeout_s),
            Row::Mcp(_) | Row::RaisedMcp(_) => Source::mcp(server()?, command, timeout_s),
            Row::McpOfSession(_) => Session::begin(server()?, server()?.token())?.call(1, command, timeout_s),
            Row::Listen(_) | Row::Session(_) => Err("it tells what changes, and has no output".into()),
            Row::Unstreamed(_) => Source::unstreamed(server()?, command, timeout_s),
            Row::Inotifywait | Row::InotifywaitAlike | Row::Watched(_) | Row::RaisedWatched(_) => {
                Err("it watches a directory, and runs nothing".into())
            }
        }
    }

    /// Watches `directory` in the way of `row`, for at most `timeout_s`.
    pub fn watch(&self, row: Row, directory: &Path, recursive: bool, timeout_s: u64) -> Result<Source> {
        if row.server().is_some() {
            return watcher::stream(self.server(row)?, directory, recursive, timeout_s);
        }
        let command = watcher::command(directory, recursive, row == Row::InotifywaitAlike)?;
        Source::pipe(&command, self.home.path(), timeout_s)
    }

    /// The server of `row`.
    pub fn server(&self, row: Row) -> Result<&Server> {
        Ok(row.server().and_then(|key| self.servers.get(&key)).ok_or("a row without its server")?)
    }

    /// The process that carries the output of `row`; `None` for the pipe.
    pub fn pid(&self, row: Row) -> Option<u32> {
        if row == Row::Relay {
            return self.relay.as_ref().map(|relay| relay.service().pid());
        }
        Some(self.servers.get(&row.server()?)?.service().pid())
    }

    /// The processes that watch for `row`, whose client is `source`: the server, and the daemon that it asks.
    pub fn watching(&self, row: Row, source: &Source) -> Result<Vec<u32>> {
        if row.server().is_none() {
            return Ok(vec![source.pid().ok_or("a row without a process")?]);
        }
        let server = self.server(row)?;
        Ok([server.service().pid()].into_iter().chain(server.daemon_pid()).collect())
    }

    /// Ends all of it; an error when something did not end as it should.
    pub fn stop(self) -> Result<()> {
        let relay = self.relay.map_or(Ok(()), Relay::stop);
        let servers: Vec<_> = self.servers.into_values().map(Server::stop).collect();
        servers.into_iter().fold(relay, Result::and)
    }
}
