//! A reader of a command on a server that many others read quiet processes of.

use std::{thread, time::Duration};

use serde::Serialize;

use super::{Company, TIMEOUT_S, With, interleaved};
use crate::{
    Result,
    child::{Scratch, ourselves},
    measure::{
        memory::grown_kib,
        quiet::{Quiet, raise_open_files},
        sink::Stamps,
    },
    proc::Memory,
    row::Row,
    server::{Runtime, Server, Setup},
    source::Source,
};

/// Every row, in the table's order.
pub const ROWS: [Row; 2] = [Row::Stream(Runtime::Tokio), Row::Stream(Runtime::Smol)];

const LINES: u32 = 30;

/// Followers that come and leave before the memory is looked at.
const WARM_UP: u32 = 8;

/// One server's samples.
#[derive(Debug, Serialize)]
pub struct Crowd {
    /// The reader's.
    #[serde(flatten)]
    pub company: Company,
    /// How many others there were.
    pub followers: u32,
    /// What was compared of the server's memory: `PSS`, or `RssAnon` where this user may not know the PSS.
    pub kind: &'static str,
    /// The difference for each follower.
    pub kib_per_follower: f64,
    /// The memory before they came.
    pub before: Memory,
    /// While all of them were there.
    pub open: Memory,
    /// After all of them had left.
    pub after: Memory,
}

/// Measures `rows`, `rounds` times, beside so many followers.
pub fn measure(rows: &[Row], rounds: u32, followers: u32) -> Result<Vec<Crowd>> {
    raise_open_files(followers)?;
    rows.iter().map(|row| measure_one(*row, rounds, followers)).collect()
}

/// Two servers, so that runs with and without the others alternate.
fn measure_one(row: Row, rounds: u32, followers: u32) -> Result<Crowd> {
    let named = |error| format!("crowd, {}: {error}", row.label());
    let (runtime, _) = row.server().ok_or("a row without a server")?;
    let home = Scratch::new()?;
    let start = || Server::start(runtime, Setup::ManyStreams, home.path());
    let (empty, crowded) = (start()?, start()?);
    let command = ourselves(&format!("print --lines {LINES} --every-ms 100"))?;
    let warm_up = ourselves("print --lines 2 --every-ms 10")?;
    for server in [&empty, &crowded] {
        run(server, &warm_up, 2).map_err(named)?;
    }
    let pid = crowded.service().pid();
    let mut quiet = Quiet::start(&crowded, Row::Followed(runtime)).map_err(named)?;
    let few = quiet.open(WARM_UP).map_err(named)?;
    quiet.close(few).map_err(named)?;
    let before = Memory::of(pid)?;
    let sources = quiet.open(followers).map_err(named)?;
    thread::sleep(Duration::from_secs(1));
    let open = Memory::of(pid)?;
    quiet.check(followers).map_err(named)?;
    let measured = interleaved(&[row], rounds, |_, with| {
        run(if with == With::Others { &crowded } else { &empty }, &command, LINES)
    })?;
    quiet.check(followers).map_err(named)?;
    quiet.close(sources).map_err(named)?;
    let after = Memory::of(pid)?;
    drop(quiet);
    [empty, crowded].map(Server::stop).into_iter().collect::<Result<()>>()?;
    let company = measured.into_iter().next().ok_or("not a single row")?;
    let (kind, grown) = grown_kib(before, open);
    let kib_per_follower = grown as f64 / f64::from(followers);
    Ok(Crowd { company, followers, kind, kib_per_follower, before, open, after })
}

fn run(server: &Server, command: &str, lines: u32) -> Result<Vec<i64>> {
    let mut stamps = Stamps::default();
    Source::stream(server, command, TIMEOUT_S)?.finish(&mut stamps)?;
    stamps.check(lines)?;
    Ok(stamps.delays_ns())
}
