//! The store in a file, killed: everything that was said to be stored is there.
//!
//! This test starts itself again as a child, which writes with several callers at once and says on its standard error
//! what it was told is stored. It is killed anywhere: while it opens the file, too, which it then has to make.
#![cfg(all(feature = "local", feature = "sqlite"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/folder.rs"]
mod folder;
#[path = "support/store.rs"]
mod support;

use folder::Folder;
use hangar_backends::store::{Cursor, ProcessEnd, ProcessRun, Store, StoredProcess};
use rusqlite::Connection;
use std::{
    collections::BTreeMap,
    env,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{ChildStderr, Command, Stdio},
    thread,
    time::Duration,
};
use support::{block_on, open, process, sandbox, token};

const ROUNDS: u64 = 200;
/// With each so many rounds it begins with no file.
const ROUNDS_OF_A_FILE: u64 = 20;
const CALLERS: u64 = 4;
/// The child's file, and which child it is.
const FILE: &str = "HANGAR_STORE_CRASH_FILE";
const ROUND: &str = "HANGAR_STORE_CRASH_ROUND";

/// What is done to a thing, one after the other; each is said once it is stored.
const STEPS: [&str; 7] = ["token", "revoked", "sandbox", "process", "run", "reserved", "end"];

#[test]
fn what_was_said_to_be_stored_is_there_after_a_kill() {
    if let (Some(file), Ok(round)) = (env::var_os(FILE), env::var(ROUND)) {
        return write(Path::new(&file), &round);
    }
    let seed = env::var("CRASH_SEED").map_or(1, |seed| seed.parse().unwrap());
    let mut random = Random(seed);
    let (mut told, mut before_any) = (0, 0);
    for file in 0..ROUNDS / ROUNDS_OF_A_FILE {
        // Not in memory: a disk is what it is for.
        let folder = Folder::new();
        let path = folder.at("hangar.db");
        let mut said = BTreeMap::new();
        for round in 0..ROUNDS_OF_A_FILE {
            let more = killed(&path, round, &mut random);
            told += more.values().sum::<usize>();
            before_any += usize::from(more.is_empty());
            said.extend(more);
            check(&path, &said, &format!("seed {seed}, file {file}, round {round}"));
        }
    }
    eprintln!("{told} things were said to be stored; {before_any} children said nothing");
    assert!(told > 1000 && before_any > 5, "it is killed early and late: {told}, {before_any}");
}

/// Starts a child and kills it. Gives how many steps of each thing it said are stored.
fn killed(path: &Path, round: u64, random: &mut Random) -> BTreeMap<String, usize> {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "what_was_said_to_be_stored_is_there_after_a_kill", "--nocapture"])
        .env(FILE, path)
        .env(ROUND, round.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = Lines::new(child.stderr.take().unwrap());
    // After so many lines and a little more; every fifth while it starts, or opens the file.
    let (after, pause) = match random.below(5) {
        0 => (0, random.below(15_000)),
        _ => (1 + random.below(60), random.below(2_000)),
    };
    for _ in 0..after {
        lines.next();
    }
    thread::sleep(Duration::from_micros(pause));
    child.kill().unwrap();
    child.wait().unwrap();
    lines.rest()
}

/// What a child says.
struct Lines {
    from: BufReader<ChildStderr>,
    steps: BTreeMap<String, usize>,
}

impl Lines {
    fn new(from: ChildStderr) -> Self {
        Self { from: BufReader::new(from), steps: BTreeMap::new() }
    }

    fn next(&mut self) {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "the child ended by itself: {line}");
        self.note(&line);
    }

    fn note(&mut self, line: &str) {
        let (step, id) = line.trim_end().split_once(' ').unwrap();
        let step = STEPS.iter().position(|known| *known == step).unwrap_or_else(|| panic!("it says {line}"));
        let before = self.steps.insert(id.to_owned(), step + 1);
        assert_eq!(before.unwrap_or(0), step, "one after the other: {line}");
    }

    fn rest(mut self) -> BTreeMap<String, usize> {
        let mut rest = String::new();
        self.from.read_to_string(&mut rest).unwrap();
        // A line that was cut was not said.
        for line in rest.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            self.note(line);
        }
        self.steps
    }
}

/// What the child does until it is killed.
fn write(path: &Path, round: &str) {
    let store = open(path);
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let store = &store;
            scope.spawn(move || {
                for number in 0_u64.. {
                    block_on(one(store, &format!("{round}-{caller}-{number}")));
                }
            });
        }
    });
}

async fn one(store: &dyn Store, id: &str) {
    for step in STEPS {
        match step {
            "token" => store.insert_token(token(id)).await.unwrap(),
            "revoked" => assert_eq!(store.revoke_token(id, 5).await, Ok(5)),
            "sandbox" => store.insert_sandbox(sandbox(id, id)).await.unwrap(),
            "process" => store.insert_process(stored(id, 4)).await.unwrap(),
            "run" => store.note_process_run(id, run()).await.unwrap(),
            "reserved" => assert_eq!(store.reserve_cursor(id, CURSOR).await, Ok(CURSOR)),
            _ => assert_eq!(store.note_process_end(id, end()).await, Ok(end())),
        }
        // At once: what is said in pieces could be cut between two.
        std::io::stderr().write_all(format!("{step} {id}\n").as_bytes()).unwrap();
    }
}

const CURSOR: Cursor = Cursor { offset: 1 << 40, seq: 9 };

fn run() -> ProcessRun {
    ProcessRun { pid: 4711, daemon: "this one".to_owned() }
}

fn end() -> ProcessEnd {
    ProcessEnd { finished_at_ms: 8, exit: "0".to_owned() }
}

/// A process after so many steps.
fn stored(id: &str, steps: usize) -> StoredProcess {
    StoredProcess {
        // Longer than a page, now and then.
        start: "x".repeat(id.bytes().map(usize::from).sum::<usize>() % 10 * 1000),
        run: (steps > 4).then(run),
        end: (steps > 6).then(end),
        ..process(id, id, id)
    }
}

/// What was said is there, and the file is sound.
fn check(path: &Path, said: &BTreeMap<String, usize>, circumstances: &str) {
    let store = open(path);
    let (tokens, sandboxes) = (block_on(store.tokens()).unwrap(), block_on(store.sandboxes()).unwrap());
    let tokens: BTreeMap<_, _> = tokens.iter().map(|token| (&token.id, token)).collect();
    let sandboxes: BTreeMap<_, _> = sandboxes.iter().map(|sandbox| (&sandbox.id, sandbox)).collect();
    for (id, steps) in said {
        let steps = *steps;
        let mut token = token(id);
        // What was not said may be there or not, as the next step is.
        let found = tokens.get(id).unwrap_or_else(|| panic!("{circumstances}: token {id} is lost"));
        token.revoked_at_ms = if steps > 1 { Some(5) } else { found.revoked_at_ms };
        assert_eq!(*found, &token, "{circumstances}");
        if steps > 2 {
            assert_eq!(sandboxes.get(id), Some(&&sandbox(id, id)), "{circumstances}");
        }
        if steps > 3 {
            let found = block_on(store.process(id)).unwrap();
            let mut found = found.unwrap_or_else(|| panic!("{circumstances}: process {id} is lost"));
            if steps <= 4 {
                found.run = None;
            }
            if steps <= 6 {
                found.end = None;
            }
            assert_eq!(found, stored(id, steps), "{circumstances}");
        }
        if steps > 5 {
            assert_eq!(block_on(store.cursor(id)), Ok(CURSOR), "{circumstances}");
        }
    }
    drop(store);
    let connection = Connection::open(path).unwrap();
    for check in ["integrity_check", "foreign_key_check"] {
        let mut wrong = Vec::new();
        connection
            .pragma_query(None, check, |row| {
                wrong.push(row.get::<_, String>(0)?);
                Ok(())
            })
            .unwrap();
        wrong.retain(|line| line != "ok");
        assert_eq!(wrong, [""; 0], "{circumstances}: {check}");
    }
}

/// xorshift64*: a seed is repeated as far as two processes can be.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }
}
