//! What a server keeps of clients of the revisions of 2025 that left without saying so.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{memory::grown_kib, progress, sink::Count};
use crate::{
    Result,
    child::Scratch,
    mcp::{Left, Session},
    proc::{Memory, sockets},
    row::Row,
    server::{Runtime, Server, Setup},
};

/// Every row, in the table's order.
pub const ROWS: [Row; 2] = [Row::Session(Runtime::Tokio), Row::Session(Runtime::Smol)];

/// Sessions that one token may have.
const PER_TOKEN: u32 = 64;

/// Sessions begun and ended before anything is measured.
const WARM_UP: u32 = 8;

/// What each follows: any token may.
const URI: &str = "hangar://sandboxes";

const TIMEOUT_S: u64 = 600;

/// How long a server may take to see that connections are closed.
const CLOSE: Duration = Duration::from_secs(30);

/// When sessions are over at the latest that last a second: the server looks every 5 s.
const OVER: Duration = Duration::from_secs(8);

/// How much more a server may hold after a second crowd of sessions than after the first and still be called flat.
const FLAT_KIB: i64 = 1024;

/// One runtime's samples.
#[derive(Debug, Serialize)]
pub struct Sessions {
    /// The row.
    pub row: Row,
    /// How many were abandoned.
    pub sessions: u32,
    /// What was compared: `PSS`, or `RssAnon` where this user may not know the PSS.
    pub kind: &'static str,
    /// The difference for each session.
    pub kib_per_session: f64,
    /// Without any.
    pub before: Memory,
    /// With all of them.
    pub open: Memory,
    /// Of another server, whose sessions are over after a second: when all of them were.
    pub over: Memory,
    /// The same once more: when as many more were over.
    pub over_again: Memory,
    /// Whether those are as good as the same.
    pub flat: bool,
}

/// Measures each of `rows` with so many sessions.
pub fn measure(rows: &[Row], sessions: u32) -> Result<Vec<Sessions>> {
    rows.iter().map(|row| measure_one(*row, sessions)).collect()
}

fn measure_one(row: Row, sessions: u32) -> Result<Sessions> {
    let named = |error| format!("sessions, {}: {error}", row.label());
    let (runtime, _) = row.server().ok_or("a row without a server")?;
    let home = Scratch::new()?;
    let kept = Server::start(runtime, Setup::Default, home.path())?;
    let (before, open) = keep(&kept, sessions).map_err(named)?;
    kept.stop()?;
    let short = Server::start(runtime, Setup::ShortSessions, home.path())?;
    let [over, over_again] = outlast(&short, sessions).map_err(named)?;
    short.stop()?;
    let (kind, grown) = grown_kib(before, open);
    let kib_per_session = grown as f64 / f64::from(sessions);
    let flat = grown_kib(over, over_again).1 <= FLAT_KIB;
    Ok(Sessions { row, sessions, kind, kib_per_session, before, open, over, over_again, flat })
}

/// The server's memory without any session, and with all of them.
fn keep(server: &Server, sessions: u32) -> Result<(Memory, Memory)> {
    let pid = server.service().pid();
    let crowd = Crowd::prepare(server, sessions)?;
    let before = Memory::of(pid)?;
    let last = crowd.abandon()?;
    let open = Memory::of(pid)?;
    if !last.is_there()? {
        return Err("sessions were over before they should".into());
    }
    Ok((before, open))
}

/// Its memory when all were over, twice.
fn outlast(server: &Server, sessions: u32) -> Result<[Memory; 2]> {
    let crowd = Crowd::prepare(server, sessions)?;
    let outlast_once = || -> Result<Memory> {
        let last = crowd.abandon()?;
        thread::sleep(OVER);
        let memory = Memory::of(server.service().pid())?;
        if last.is_there()? {
            return Err(format!("a session of a second is there {} s later", OVER.as_secs()).into());
        }
        Ok(memory)
    };
    Ok([outlast_once()?, outlast_once()?])
}

/// What sessions are made with.
struct Crowd<'a> {
    server: &'a Server,
    tokens: Vec<String>,
    sessions: u32,
    /// Of the server without any session.
    sockets: u64,
}

impl<'a> Crowd<'a> {
    fn prepare(server: &'a Server, sessions: u32) -> Result<Self> {
        let tokens = server.make_tokens(sessions.div_ceil(PER_TOKEN))?;
        let sockets = sockets(server.service().pid())?;
        let crowd = Self { server, tokens, sessions, sockets };
        for _ in 0..WARM_UP {
            crowd.one(server.token())?.end()?;
        }
        crowd.settle()?;
        Ok(crowd)
    }

    /// A session that follows something, and whose stream was opened and lost.
    fn one(&self, token: &str) -> Result<Session<'a>> {
        let mut session = Session::begin(self.server, token)?;
        session.subscribe(URI)?;
        session.stream(TIMEOUT_S)?.receive(&mut Count::default())?;
        Ok(session)
    }

    /// Begins all of them and leaves them, and waits until the server has seen that; the last one.
    fn abandon(&self) -> Result<Left<'a>> {
        let mut last = None;
        for number in 0..self.sessions {
            if number % 100 == 0 {
                progress(&format!("{number} of {} sessions begun", self.sessions));
            }
            let token = &self.tokens[(number / PER_TOKEN) as usize];
            last = Some(self.one(token)?.leave());
        }
        self.settle()?;
        Ok(last.ok_or("not a single session")?)
    }

    fn settle(&self) -> Result<()> {
        let deadline = Instant::now() + CLOSE;
        while sockets(self.server.service().pid())? > self.sockets {
            if Instant::now() > deadline {
                return Err(
                    format!("connections are open {} s after their clients left", CLOSE.as_secs()).into()
                );
            }
            thread::sleep(Duration::from_millis(50));
        }
        thread::sleep(Duration::from_secs(1));
        Ok(())
    }
}
