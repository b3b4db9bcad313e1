//! This machine, as tests look at it.

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, mknodat, open},
    io::write,
    process::{Pid, Signal, kill_process},
};
use std::{
    fs,
    io::Write,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// How long something may take that has to happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A name that nothing else has.
pub fn unique(what: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("hangar-test-{what}-{}-{next}", std::process::id())
}

/// Says on stderr that a test was left out, and why; not captured, so that it is seen.
pub fn skip(test: &str, why: &str) {
    std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes()).unwrap();
}

/// Whether this process may do everything.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Waits until `done`, and panics where that takes longer than [`PATIENCE`]. Returns how long it took.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "it did not come to this: {what}");
        thread::sleep(Duration::from_millis(10));
    }
    begun.elapsed()
}

/// A variable in the environment of a command by which everything that it started is found. What is left is killed
/// when this is dropped.
#[derive(Debug)]
pub struct Mark(String);

impl Default for Mark {
    fn default() -> Self {
        Self::new()
    }
}

impl Mark {
    /// The variable's name.
    pub const NAME: &'static str = "HANGAR_TEST_MARK";

    /// A new mark.
    pub fn new() -> Self {
        Self(unique("mark"))
    }

    /// The variable's value.
    pub fn value(&self) -> &str {
        &self.0
    }

    /// What has it and lives: the number and the command line of each.
    pub fn living(&self) -> Vec<(i32, String)> {
        let variable = format!("{}={}", Self::NAME, self.0);
        let pids = fs::read_dir("/proc").unwrap();
        let pids = pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter_map(|pid: i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
            let has_it = environment.split(|byte| *byte == 0).any(|found| found == variable.as_bytes());
            if !has_it {
                return None;
            }
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ");
            (!line.is_empty()).then_some((pid, line))
        })
        .collect()
    }

    /// The living whose command line is exactly this.
    pub fn named(&self, line: &str) -> Vec<i32> {
        self.living().into_iter().filter(|(_, found)| found == line).map(|(pid, _)| pid).collect()
    }

    /// Waits for the one whose command line is exactly this.
    pub fn wait_for(&self, line: &str) -> i32 {
        let mut found = Vec::new();
        wait_until(line, || {
            found = self.named(line);
            !found.is_empty()
        });
        found[0]
    }

    /// Waits until nothing that has it is left. Returns how long that took.
    pub fn wait_until_gone(&self) -> Duration {
        let begun = Instant::now();
        let mut left = self.living();
        while !left.is_empty() {
            assert!(begun.elapsed() < PATIENCE, "still there: {left:?}");
            thread::sleep(Duration::from_millis(10));
            left = self.living();
        }
        begun.elapsed()
    }

    /// Kills what has it.
    pub fn kill(&self) {
        for (pid, _) in self.living() {
            if let Some(pid) = Pid::from_raw(pid) {
                // It may have ended meanwhile.
                kill_process(pid, Signal::KILL).ok();
            }
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A folder that goes with the value.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Folder {
    /// A new one, which everybody may enter.
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(unique("folder"));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left of a failed test is no second failure.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A named pipe at which a command waits until it is let through: `read x < PATH`.
#[derive(Debug)]
pub struct Gate {
    path: PathBuf,
    pipe: OwnedFd,
    _folder: Folder,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        let folder = Folder::new();
        let path = folder.file("gate");
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        // Both ends, so that neither opening it here nor there waits for the other.
        let pipe = open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
        Self { path, pipe, _folder: folder }
    }

    /// The shell's words to wait at it.
    pub fn wait(&self) -> String {
        format!("read -r hangar_gate < {}", self.path.display())
    }

    /// Lets one command through.
    pub fn open(&self) {
        assert_eq!(write(&self.pipe, b"go\n").unwrap(), 3);
    }
}

/// Bytes that a process has written so far, as the system counts them.
pub fn written(pid: i32) -> u64 {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let written = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap();
    written.parse().unwrap()
}

/// Waits until a process has written something and then nothing more for a second: it is being held up. Returns how
/// much it wrote.
pub fn wait_until_blocked(pid: i32) -> u64 {
    let mut last = 0;
    let mut since = Instant::now();
    wait_until("a writer that is held up", || {
        let now = written(pid);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        last > 0 && since.elapsed() > Duration::from_secs(1)
    });
    last
}

/// The children of a process, those that wait to be reaped included.
pub fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_each = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    of_each
        .flat_map(|pids| pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

/// Bytes of memory that a process has resident.
pub fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    kib.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
