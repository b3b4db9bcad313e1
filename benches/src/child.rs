//! Child processes that end when we do: after an error, after a panic, and when we are killed.

use std::{
    env,
    ffi::OsStr,
    fs,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal},
};

use crate::{Result, proc};

/// How long a child may take to say where it listens.
const START: Duration = Duration::from_secs(30);

/// How long a child may take to end by itself once told to.
const STOP: Duration = Duration::from_secs(15);

/// The names of our scratch directories begin so; then comes our process id.
const SCRATCH: &str = "hangar-streams-";

/// Where commands of a server look for programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// `bash -lc COMMAND` as every row runs it: with an environment of the few variables that a server gives it, and
/// nothing to read. A `home` without files in it keeps this user's profile out of the figures.
pub fn bash(command: &str, home: &Path) -> Command {
    let mut bash = Command::new("bash");
    bash.arg("-lc").arg(command).env_clear().env("HOME", home).stdin(Stdio::null()).stderr(Stdio::null());
    // Not ours: what a locale costs at the start of a shell is milliseconds.
    bash.env("LANG", "C.UTF-8").env("PATH", PATH);
    for name in ["USER", "LOGNAME", "SHELL"] {
        if let Some(value) = env::var_os(name) {
            bash.env(name, value);
        }
    }
    bash
}

/// The shell command that runs this binary with `arguments`, which must need no quoting.
pub fn ourselves(arguments: &str) -> Result<String> {
    let path = env::current_exe()?.into_os_string().into_string().map_err(|_| "our own path is not text")?;
    Ok(format!("exec '{}' {arguments}", path.replace('\'', r"'\''")))
}

/// Becomes `command`, which is told to end when the process that started us does. Returns when it cannot.
pub fn become_under_parent<S: AsRef<OsStr>>(command: &[S]) -> Result<()> {
    let (program, arguments) = command.split_first().ok_or("no program")?;
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    Err(Command::new(program).args(arguments).exec().into())
}

/// A directory that goes when this does.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new, empty one.
    pub fn new() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("{SCRATCH}{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Removes what runs that were killed have left.
    pub fn sweep() -> Result<()> {
        for entry in fs::read_dir(env::temp_dir())? {
            let entry = entry?;
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(SCRATCH)?.split_once('-'));
            let Some(owner) = owner.and_then(|(pid, _)| pid.parse::<u32>().ok()) else { continue };
            if !Path::new(&format!("/proc/{owner}")).exists() {
                // Another user's stay where they are.
                _ = fs::remove_dir_all(entry.path());
            }
        }
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("streams: {} stays: {error}", self.0.display());
        }
    }
}

/// A child process that listens on loopback, and says where in a line of its stdout.
#[derive(Debug)]
pub struct Service {
    name: String,
    child: Child,
    address: SocketAddr,
    stopped: bool,
    scratch: Scratch,
}

impl Service {
    /// Starts `program` with what `configure` adds, and waits until it says that it listens. Its stderr goes to a
    /// file in `scratch`, for a message when it fails.
    pub fn start(
        name: &str,
        program: &Path,
        scratch: Scratch,
        configure: impl FnOnce(&mut Command),
    ) -> Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["under-parent", "--"]).arg(program);
        configure(&mut command);
        let log = fs::File::create(scratch.path().join("stderr.log"))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn()?;
        let stdout = child.stdout.take();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        // From here on, dropping it ends the child.
        let mut service = Self { name: name.to_owned(), child, address, stopped: false, scratch };
        let listening = listening(stdout.ok_or("a child without stdout")?);
        service.address = match listening.recv_timeout(START) {
            Ok(address) => address,
            Err(RecvTimeoutError::Timeout) => return Err(service.failure("did not say where it listens")),
            Err(RecvTimeoutError::Disconnected) => {
                service.stopped = service.wait(Duration::from_secs(1))?;
                return Err(service.failure("ended at its start"));
            }
        };
        Ok(service)
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it. An error when it had ended already, when it had to be killed, or when it left processes behind;
    /// those are killed.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.stopped = true;
        if self.child.try_wait()?.is_some() {
            return Err(self.failure("ended before it was told to"));
        }
        let below = descendant_handles(self.pid())?;
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let ended = self.wait(STOP)?;
        if !ended {
            self.child.kill()?;
            self.child.wait()?;
        }
        let left = below.iter().filter(|process| still_runs(process)).count();
        for process in &below {
            // Gone is as good as killed.
            _ = pidfd_send_signal(process, Signal::KILL);
        }
        match (ended, left) {
            (true, 0) => Ok(()),
            (true, _) => Err(self.failure(&format!("left {left} processes behind"))),
            (false, _) => Err(self.failure("did not end when told to, and was killed")),
        }
    }

    fn wait(&mut self, for_at_most: Duration) -> Result<bool> {
        let deadline = Instant::now() + for_at_most;
        while Instant::now() < deadline {
            if self.child.try_wait()?.is_some() {
                return Ok(true);
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(false)
    }

    fn failure(&self, what: &str) -> crate::Error {
        let log = fs::read(self.scratch.path().join("stderr.log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log[log.len().saturating_sub(2000)..]).into_owned();
        let said = if log.is_empty() { String::new() } else { format!("; the end of its stderr:\n{log}") };
        format!("{} {what}{said}", self.name).into()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if !self.stopped
            && let Err(error) = self.end()
        {
            eprintln!("streams: {error}");
        }
    }
}

/// Reads a child's stdout to its end, and passes on the first loopback address in it.
fn listening(stdout: ChildStdout) -> Receiver<SocketAddr> {
    let (found, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some(address) = address_in(&line) {
                // Nobody waits for a second one.
                _ = found.send(address);
            }
        }
    });
    receiver
}

fn address_in(line: &str) -> Option<SocketAddr> {
    let start = line.find("://127.0.0.1:")? + "://".len();
    let rest = &line[start..];
    let digits = "127.0.0.1:".len();
    let end = rest[digits..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |end| digits + end);
    rest[..end].parse().ok()
}

/// Every process below `pid`, held so that none can be mistaken for a later one with its number.
fn descendant_handles(pid: u32) -> Result<Vec<OwnedFd>> {
    let pids = proc::descendants(pid)?;
    let handles = pids.into_iter().filter_map(|pid| Pid::from_raw(pid.cast_signed()));
    Ok(handles.filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()).collect())
}

/// Whether a process has not ended, after giving it the moment that its own signal takes to arrive.
fn still_runs(process: &OwnedFd) -> bool {
    let grace = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    matches!(poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&grace)), Ok(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_the_line() {
        let address = SocketAddr::from(([127, 0, 0, 1], 8484));
        assert_eq!(address_in("listening on http://127.0.0.1:8484"), Some(address));
        assert_eq!(address_in("http://127.0.0.1:8484/ (sandbox local)"), Some(address));
        assert_eq!(address_in("http://0.0.0.0:8484"), None);
        assert_eq!(address_in("http://127.0.0.1:"), None);
    }

    #[test]
    fn bash_runs_a_command_with_little_around_it() {
        let output = bash("echo \"$0 $CARGO $HOME\"; cat", Path::new("/nowhere")).output().unwrap();
        assert!(output.status.success());
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "bash  /nowhere");
    }

    #[test]
    fn a_scratch_directory_goes() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().to_owned();
        fs::write(path.join("file"), "x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
