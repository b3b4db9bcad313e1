//! What is measured: two floors, and the ways a server gives output. A [`Stand`] has what the rows of a measurement
//! need running.

mod stand;

use serde::{Serialize, Serializer};

use crate::{
    cli::Options,
    server::{Runtime, Setup},
};
pub use stand::Stand;

/// One way to see a command's output.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Row {
    /// The command's pipe itself.
    Pipe,
    /// A blocking copy from the pipe to TCP.
    Relay,
    /// `exec/stream` of a server as it comes.
    Stream(Runtime),
    /// `exec/stream` of a server without pacing and without a cap.
    Raised(Runtime),
    /// A background process of a server as it comes, attached to by a WebSocket.
    Attached(Runtime),
    /// A background process of a server without pacing, all of whose output is kept, attached to by a WebSocket.
    RaisedAttached(Runtime),
    /// A background process of a server as it comes, followed by Server-Sent Events.
    Followed(Runtime),
    /// The MCP tool `exec` of a server as it comes, streamed.
    Mcp(Runtime),
    /// The same without pacing and without a cap.
    RaisedMcp(Runtime),
    /// The MCP tool `exec` of a server as it comes, streamed to a client of the revisions of 2025.
    McpOfSession(Runtime),
    /// `subscriptions/listen` of a server as it comes.
    Listen(Runtime),
    /// The stream of a session of the revisions of 2025, of a server as it comes.
    Session(Runtime),
    /// `exec`, the output at the end.
    Unstreamed(Runtime),
    /// `inotifywait -m`, the program that others watch directories with.
    Inotifywait,
    /// The same, of no more than what a server tells.
    InotifywaitAlike,
    /// A watch of a server as it comes, followed by Server-Sent Events.
    Watched(Runtime),
    /// The same without pacing and without a cap.
    RaisedWatched(Runtime),
}

impl Row {
    /// Its name on the command line and in the JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pipe => "pipe",
            Self::Relay => "relay",
            Self::Stream(Runtime::Tokio) => "tokio",
            Self::Stream(Runtime::Smol) => "smol",
            Self::Stream(Runtime::Daemon) => "daemon",
            Self::Raised(Runtime::Tokio) => "tokio-raised",
            Self::Raised(Runtime::Smol) => "smol-raised",
            Self::Raised(Runtime::Daemon) => "daemon-raised",
            Self::Attached(Runtime::Tokio) => "tokio-attached",
            Self::Attached(Runtime::Smol) => "smol-attached",
            Self::Attached(Runtime::Daemon) => "daemon-attached",
            Self::RaisedAttached(Runtime::Tokio) => "tokio-attached-raised",
            Self::RaisedAttached(Runtime::Smol) => "smol-attached-raised",
            Self::RaisedAttached(Runtime::Daemon) => "daemon-attached-raised",
            Self::Followed(Runtime::Tokio) => "tokio-followed",
            Self::Followed(Runtime::Smol) => "smol-followed",
            Self::Followed(Runtime::Daemon) => "daemon-followed",
            Self::Mcp(Runtime::Tokio) => "tokio-mcp",
            Self::Mcp(Runtime::Smol) => "smol-mcp",
            Self::Mcp(Runtime::Daemon) => "daemon-mcp",
            Self::RaisedMcp(Runtime::Tokio) => "tokio-mcp-raised",
            Self::RaisedMcp(Runtime::Smol) => "smol-mcp-raised",
            Self::RaisedMcp(Runtime::Daemon) => "daemon-mcp-raised",
            Self::McpOfSession(Runtime::Tokio) => "tokio-mcp-2025",
            Self::McpOfSession(Runtime::Smol) => "smol-mcp-2025",
            Self::McpOfSession(Runtime::Daemon) => "daemon-mcp-2025",
            Self::Listen(Runtime::Tokio) => "tokio-mcp-listen",
            Self::Listen(Runtime::Smol) => "smol-mcp-listen",
            Self::Listen(Runtime::Daemon) => "daemon-mcp-listen",
            Self::Session(Runtime::Tokio) => "tokio-mcp-session",
            Self::Session(Runtime::Smol) => "smol-mcp-session",
            Self::Session(Runtime::Daemon) => "daemon-mcp-session",
            Self::Unstreamed(Runtime::Tokio) => "tokio-unstreamed",
            Self::Unstreamed(Runtime::Smol) => "smol-unstreamed",
            Self::Unstreamed(Runtime::Daemon) => "daemon-unstreamed",
            Self::Inotifywait => "inotifywait",
            Self::InotifywaitAlike => "inotifywait-alike",
            Self::Watched(Runtime::Tokio) => "tokio-watched",
            Self::Watched(Runtime::Smol) => "smol-watched",
            Self::Watched(Runtime::Daemon) => "daemon-watched",
            Self::RaisedWatched(Runtime::Tokio) => "tokio-watched-raised",
            Self::RaisedWatched(Runtime::Smol) => "smol-watched-raised",
            Self::RaisedWatched(Runtime::Daemon) => "daemon-watched-raised",
        }
    }

    /// Its name in the table.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Pipe => "pipe",
            Self::Relay => "relay",
            Self::Stream(Runtime::Tokio) => "exec/stream SSE, tokio",
            Self::Stream(Runtime::Smol) => "exec/stream SSE, smol",
            Self::Stream(Runtime::Daemon) => "exec/stream SSE, through the daemon",
            Self::Raised(Runtime::Tokio) => "exec/stream SSE, tokio, raised pacing",
            Self::Raised(Runtime::Smol) => "exec/stream SSE, smol, raised pacing",
            Self::Raised(Runtime::Daemon) => "exec/stream SSE, through the daemon, raised pacing",
            Self::Attached(Runtime::Tokio) => "start, attach WebSocket, tokio",
            Self::Attached(Runtime::Smol) => "start, attach WebSocket, smol",
            Self::Attached(Runtime::Daemon) => "start, attach WebSocket, through the daemon",
            Self::RaisedAttached(Runtime::Tokio) => "start, attach WebSocket, tokio, raised pacing",
            Self::RaisedAttached(Runtime::Smol) => "start, attach WebSocket, smol, raised pacing",
            Self::RaisedAttached(Runtime::Daemon) => {
                "start, attach WebSocket, through the daemon, raised pacing"
            }
            Self::Followed(Runtime::Tokio) => "start, follow SSE, tokio",
            Self::Followed(Runtime::Smol) => "start, follow SSE, smol",
            Self::Followed(Runtime::Daemon) => "start, follow SSE, through the daemon",
            Self::Mcp(Runtime::Tokio) => "MCP exec, streamed, tokio",
            Self::Mcp(Runtime::Smol) => "MCP exec, streamed, smol",
            Self::Mcp(Runtime::Daemon) => "MCP exec, streamed, through the daemon",
            Self::RaisedMcp(Runtime::Tokio) => "MCP exec, streamed, tokio, raised pacing",
            Self::RaisedMcp(Runtime::Smol) => "MCP exec, streamed, smol, raised pacing",
            Self::RaisedMcp(Runtime::Daemon) => "MCP exec, streamed, through the daemon, raised pacing",
            Self::McpOfSession(Runtime::Tokio) => "MCP exec of 2025, streamed, tokio",
            Self::McpOfSession(Runtime::Smol) => "MCP exec of 2025, streamed, smol",
            Self::McpOfSession(Runtime::Daemon) => "MCP exec of 2025, streamed, through the daemon",
            Self::Listen(Runtime::Tokio) => "MCP subscriptions/listen, tokio",
            Self::Listen(Runtime::Smol) => "MCP subscriptions/listen, smol",
            Self::Listen(Runtime::Daemon) => "MCP subscriptions/listen, through the daemon",
            Self::Session(Runtime::Tokio) => "MCP session of 2025, tokio",
            Self::Session(Runtime::Smol) => "MCP session of 2025, smol",
            Self::Session(Runtime::Daemon) => "MCP session of 2025, through the daemon",
            Self::Unstreamed(Runtime::Tokio) => "exec, unstreamed, tokio",
            Self::Unstreamed(Runtime::Smol) => "exec, unstreamed, smol",
            Self::Unstreamed(Runtime::Daemon) => "exec, unstreamed, through the daemon",
            Self::Inotifywait => "inotifywait -m",
            Self::InotifywaitAlike => "inotifywait -m, of what a server tells",
            Self::Watched(Runtime::Tokio) => "watch SSE, tokio",
            Self::Watched(Runtime::Smol) => "watch SSE, smol",
            Self::Watched(Runtime::Daemon) => "watch SSE, through the daemon",
            Self::RaisedWatched(Runtime::Tokio) => "watch SSE, tokio, raised pacing",
            Self::RaisedWatched(Runtime::Smol) => "watch SSE, smol, raised pacing",
            Self::RaisedWatched(Runtime::Daemon) => "watch SSE, through the daemon, raised pacing",
        }
    }

    /// The server it needs.
    pub const fn server(self) -> Option<(Runtime, Setup)> {
        match self {
            Self::Pipe | Self::Relay | Self::Inotifywait | Self::InotifywaitAlike => None,
            Self::Stream(runtime)
            | Self::Attached(runtime)
            | Self::Followed(runtime)
            | Self::Mcp(runtime)
            | Self::McpOfSession(runtime)
            | Self::Listen(runtime)
            | Self::Session(runtime)
            | Self::Unstreamed(runtime)
            | Self::Watched(runtime) => Some((runtime, Setup::Default)),
            Self::Raised(runtime)
            | Self::RaisedAttached(runtime)
            | Self::RaisedMcp(runtime)
            | Self::RaisedWatched(runtime) => Some((runtime, Setup::Raised)),
        }
    }

    /// Whether it is of a background process.
    pub const fn is_background(self) -> bool {
        matches!(
            self,
            Self::Attached(_)
                | Self::RaisedAttached(_)
                | Self::Followed(_)
                | Self::Listen(_)
                | Self::Session(_)
        )
    }

    /// Those of `rows` that were asked for.
    pub fn chosen(rows: &[Self], options: &Options) -> Vec<Self> {
        let asked = |row: &&Self| options.rows.iter().any(|name| row.name().starts_with(name.as_str()));
        rows.iter().filter(|row| options.rows.is_empty() || asked(row)).copied().collect()
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// `rows` as a round of an interleaved measurement runs them: each round begins with another one, so that none is
/// always the first or always after the same one.
pub fn rotated<T: Copy>(rows: &[T], round: u32) -> Vec<(usize, T)> {
    let mut order: Vec<_> = rows.iter().copied().enumerate().collect();
    if !order.is_empty() {
        order.rotate_left(round as usize % rows.len());
    }
    order
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::Cli;

    const ROWS: [Row; 6] = [
        Row::Pipe,
        Row::Relay,
        Row::Stream(Runtime::Tokio),
        Row::Raised(Runtime::Tokio),
        Row::Raised(Runtime::Smol),
        Row::Followed(Runtime::Smol),
    ];

    fn chosen(arguments: &[&str]) -> Vec<&'static str> {
        let options = Cli::parse_from(std::iter::once("streams").chain(arguments.iter().copied())).options;
        Row::chosen(&ROWS, &options).into_iter().map(Row::name).collect()
    }

    #[test]
    fn rows_are_chosen_by_the_start_of_their_name() {
        assert_eq!(chosen(&[]).len(), ROWS.len());
        assert_eq!(chosen(&["--rows", "pipe,relay"]), ["pipe", "relay"]);
        assert_eq!(chosen(&["--rows", "tokio"]), ["tokio", "tokio-raised"]);
        assert_eq!(chosen(&["--rows", "smol-raised"]), ["smol-raised"]);
        assert_eq!(chosen(&["--rows", "smol-f,pipe"]), ["pipe", "smol-followed"]);
    }

    #[test]
    fn every_round_begins_with_another_row() {
        assert_eq!(rotated(&['a', 'b', 'c'], 0), [(0, 'a'), (1, 'b'), (2, 'c')]);
        assert_eq!(rotated(&['a', 'b', 'c'], 4), [(1, 'b'), (2, 'c'), (0, 'a')]);
        assert!(rotated::<char>(&[], 1).is_empty());
    }
}
