//! How often a client is told of a resource that changes all the time.

use serde::Serialize;
use serde_json::Value;

use super::progress;
use crate::{
    Result,
    child::ourselves,
    mcp,
    mcp::Session,
    printer::counted,
    process::Process,
    row::{Row, Stand, rotated},
    server::{Runtime, Server},
    source::{Source, connect},
    wire::Sink,
};

/// Every row, in the table's order.
pub const ROWS: [Row; 4] = [
    Row::Listen(Runtime::Tokio),
    Row::Listen(Runtime::Smol),
    Row::Session(Runtime::Tokio),
    Row::Session(Runtime::Smol),
];

/// Rounds, unless told otherwise.
pub const ROUNDS: u32 = 5;

/// Changes in one second.
pub const CHANGES: u32 = 10_000;

/// From one to the next: a machine that has more to do may be late with some of them.
const EVERY_US: u64 = 90;

/// How often a run may be late, which says nothing.
const LATE: u32 = 5;

const TIMEOUT_S: u64 = 30;

/// What a client is told with.
const UPDATED: &str = "resources/updated";

/// One row's samples.
#[derive(Debug, Serialize)]
pub struct Notices {
    /// The row.
    pub row: Row,
    /// The most notices that any run took. After the last one all of the output was there to read.
    pub most: usize,
    /// When each came, of every run in order: from the first one on, in milliseconds.
    pub at_ms: Vec<Vec<f64>>,
}

/// Measures `rows`, `rounds` times.
pub fn measure(rows: &[Row], rounds: u32) -> Result<Vec<Notices>> {
    let stand = Stand::start(rows)?;
    let count = ourselves(&format!("count --lines {CHANGES} --every-us {EVERY_US} --within-ms 1000"))?;
    // The client is there before the first change, and is told of the last one before that of the end.
    let command = format!("sleep 1; ({count} 2>/dev/null); code=$?; sleep 1; exit $code");
    let mut at_ms: Vec<Vec<Vec<f64>>> = rows.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        progress(&format!("notices, round {} of {rounds}", round + 1));
        for (index, row) in rotated(rows, round) {
            let named = |error| format!("notices, {}: {error}", row.label());
            let run = || run(stand.server(row)?, row, &command);
            let mut runs = std::iter::repeat_with(run).take(LATE as usize).filter_map(Result::transpose);
            let first = runs.next().ok_or("the changes took more than a second")?;
            at_ms[index].push(first.map_err(named)?);
        }
    }
    stand.stop()?;
    let notices = |(row, at_ms): (&Row, Vec<Vec<f64>>)| {
        let most = at_ms.iter().map(Vec::len).max().ok_or("not a single run")?;
        Ok(Notices { row: *row, most, at_ms })
    };
    rows.iter().zip(at_ms).map(notices).collect()
}

/// What a client follows with, and reads with.
enum Client<'a> {
    Newest(&'a Server),
    Session(Box<Session<'a>>),
}

impl Client<'_> {
    fn read(&mut self, uri: &str) -> Result<Value> {
        match self {
            Self::Newest(server) => mcp::read(server, uri),
            Self::Session(session) => session.read(uri),
        }
    }
}

/// When notices came; none where the changes took more than a second.
fn run(server: &Server, row: Row, command: &str) -> Result<Option<Vec<f64>>> {
    let process = Process::start(server, command, None)?;
    let uri = process.uri();
    let (mut client, mut source) = if matches!(row, Row::Session(_)) {
        let mut session = Session::begin(server, server.token())?;
        session.subscribe(&uri)?;
        let source = session.stream(TIMEOUT_S)?;
        (Client::Session(Box::new(session)), source)
    } else {
        let request = mcp::listen(server, &uri);
        let source = Source::messages(connect(server.service().address())?, &request, TIMEOUT_S)?;
        (Client::Newest(server), source)
    };
    let printed = counted(CHANGES);
    let (mut told, mut is_complete) = (Told::default(), false);
    // Those after which it was read.
    let mut known = 0;
    let is_in_time = loop {
        if source.receive(&mut told)?.ended {
            return Err("the stream ended".into());
        }
        if told.at_ns.len() == known {
            continue;
        }
        let read = client.read(&uri)?;
        if read["state"] == "exited" {
            // That is what this one told.
            told.at_ns.truncate(told.at_ns.len() - 1);
            break read["exit_code"] == 0;
        }
        known = told.at_ns.len();
        is_complete = read["output"] == printed.as_str();
    };
    if let Client::Session(session) = client {
        session.end()?;
    }
    if !is_complete {
        return Err(format!("after {known} notices not all of the output was there").into());
    }
    let first = told.at_ns.first().copied().unwrap_or_default();
    Ok(is_in_time.then(|| told.at_ns.iter().map(|at| (at - first) as f64 / 1e6).collect()))
}

/// When the client was told.
#[derive(Debug, Default)]
struct Told {
    line: Vec<u8>,
    at_ns: Vec<u64>,
}

impl Sink for Told {
    fn payload(&mut self, at_ns: u64, bytes: &[u8]) {
        self.line.extend_from_slice(bytes);
        while let Some(end) = memchr::memchr(b'\n', &self.line) {
            if &self.line[..end] == UPDATED.as_bytes() {
                self.at_ns.push(at_ns);
            }
            self.line.drain(..=end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_updates_are_counted() {
        let mut told = Told::default();
        for piece in ["subscriptions/acknowledged\nresources/", "updated\nresources/updated\nresources/l"] {
            told.payload(7, piece.as_bytes());
        }
        told.payload(8, b"ist_changed\nresources/updated\n");
        assert_eq!(told.at_ns, [7, 7, 8]);
    }

    #[test]
    fn what_is_counted_fits_into_one_answer() {
        assert!(counted(CHANGES).len() <= 64 * 1024 && counted(3) == "0\n1\n2\n");
    }
}
