//! The `hangar` command: built once, and started with an environment of its own.

use super::{
    client::Client,
    machine::{Folder, PATIENCE, wait_until},
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    ffi::OsStr,
    fs::File,
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{OnceLock, mpsc},
    thread,
    time::Instant,
};

/// Where cargo puts what it builds: this test is in `TARGET/PROFILE/deps`.
pub fn target() -> (PathBuf, String) {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).expect("cargo runs this test");
    let name = profile.file_name().and_then(OsStr::to_str).unwrap();
    (profile.parent().unwrap().to_owned(), name.to_owned())
}

/// The `hangar` command, of the same profile as this test.
pub fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| built(&["--workspace", "--bin", "hangar"], "hangar"))
}

/// The `hangar-envd` daemon, of the same profile as this test.
pub fn envd_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| built(&["--workspace", "--bin", "hangar-envd"], "hangar-envd"))
}

/// The daemon with nothing of it set in its environment.
pub fn envd() -> Command {
    clean(Command::new(envd_path()))
}

/// An example of a package.
pub fn example(package: &str, name: &str) -> Command {
    clean(Command::new(built(&["--package", package, "--example", name], &format!("examples/{name}"))))
}

/// Cargo gives a test no binary of another package, so it is asked to build it; where everything is built that takes a
/// moment.
fn built(what: &[&str], below: &str) -> PathBuf {
    let (target, profile) = target();
    let flag = match profile.as_str() {
        "debug" => "dev",
        other => other,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let built = Command::new(cargo)
        .args(["build", "--quiet"])
        .args(what)
        .args(["--profile", flag, "--target-dir"])
        .arg(&target)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap())
        .status();
    assert!(built.is_ok_and(|status| status.success()), "{below} is built");
    target.join(profile).join(below)
}

/// The `hangar` command with nothing of it set in its environment.
pub fn hangar() -> Command {
    clean(Command::new(path()))
}

pub(super) fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        let name_is = |prefix: &str| name.to_str().is_some_and(|name| name.starts_with(prefix));
        if name_is("HANGAR_") || name_is("RUST_LOG") {
            command.env_remove(&name);
        }
    }
    command
}

/// A `hangar` that runs, or another child. Dropped, it is killed.
#[derive(Debug)]
pub struct Hangar {
    child: Child,
}

/// How a child ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit code; 128+n for a signal.
    pub code: i32,
    /// What it printed and was not read yet.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

impl Hangar {
    /// Starts it, with pipes.
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { child: command.spawn().unwrap() }
    }

    /// Starts it, with pipes and something to read.
    pub fn start_reading(command: &mut Command, input: File) -> Self {
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { child: command.spawn().unwrap() }
    }

    /// Runs it to its end.
    pub fn run(command: &mut Command) -> Ended {
        Self::start(command).wait()
    }

    /// The next line of its standard output; None at its end.
    pub fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let mut byte = [0];
        let stdout = self.child.stdout.as_mut().unwrap();
        // No reader of more than a byte, so that what is not asked for stays in the pipe.
        while stdout.read(&mut byte).unwrap() == 1 {
            if byte[0] == b'\n' {
                return Some(String::from_utf8(line).unwrap());
            }
            line.push(byte[0]);
        }
        None
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Ended {
        let stdout = self.child.stdout.take().unwrap();
        let stdout = thread::spawn(move || text(stdout));
        let stderr = self.child.stderr.take().unwrap();
        let stderr = thread::spawn(move || text(stderr));
        let code = code(wait(&mut self.child));
        Ended { code, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
    }
}

impl Drop for Hangar {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A `hangar serve` that listens. Dropped, it is killed.
#[derive(Debug)]
pub struct Serving {
    child: Child,
    client: Client,
    greeting: String,
    log: PathBuf,
    folder: Folder,
}

impl Serving {
    /// Starts one with a data folder of its own and a token that the test knows.
    pub fn start(change: impl FnOnce(&mut Command)) -> Self {
        Self::with_token(Folder::new(), |command| {
            command.env("HANGAR_TOKEN", "hangar-tests-serving");
            change(command);
        })
    }

    /// Starts one whose data is in `folder`. Its token is the one in its environment, or the one that it made.
    pub fn with_token(folder: Folder, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = hangar();
        Self::command(&mut command, &folder);
        change(&mut command);
        Self::listening(command, folder)
    }

    /// Starts one again: with the data in `folder`, where one listened before.
    pub fn again(folder: Folder, address: SocketAddr, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = hangar();
        command.args(["serve", "--listen", &address.to_string(), "--data"]).arg(folder.file("data"));
        change(&mut command);
        Self::listening(command, folder)
    }

    /// Starts one behind words of a shell: `ulimit -n 40`.
    pub fn after(shell: &str, change: impl FnOnce(&mut Command)) -> Self {
        let folder = Folder::new();
        let mut command = clean(Command::new("bash"));
        command.arg("-c").arg(format!("{shell} && exec \"$0\" \"$@\"")).arg(path());
        Self::command(&mut command, &folder);
        command.env("HANGAR_TOKEN", "hangar-tests-serving");
        change(&mut command);
        Self::listening(command, folder)
    }

    /// `serve` with its data in `folder`.
    pub fn command(command: &mut Command, folder: &Folder) {
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder.file("data"));
    }

    fn listening(mut command: Command, folder: Folder) -> Self {
        let log = folder.file("log");
        let log_file = File::options().create(true).append(true).open(&log).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log_file);
        let mut child = command.spawn().unwrap();
        let lines = lines(child.stdout.take().unwrap());
        let mut greeting = String::new();
        let address = loop {
            let Ok(line) = lines.recv_timeout(PATIENCE) else {
                end(&mut child);
                panic!("it did not say where it listens: {}", std::fs::read_to_string(&log).unwrap());
            };
            greeting += &format!("{line}\n");
            if let Some(address) = line.strip_prefix("hangar listens on http://") {
                break address.parse::<SocketAddr>().unwrap();
            }
        };
        // The rest of it follows at once; a server without sandboxes says no more.
        while !greeting.contains("/exec/stream") {
            let Ok(line) = lines.recv_timeout(std::time::Duration::from_secs(2)) else { break };
            greeting += &format!("{line}\n");
        }
        let token = command.get_envs().find(|(name, _)| *name == "HANGAR_TOKEN").and_then(|(_, token)| token);
        let token = match token {
            Some(token) => token.to_str().unwrap().to_owned(),
            None => std::fs::read_to_string(folder.file("data/token")).unwrap_or_default().trim().to_owned(),
        };
        Self { child, client: Client { address, token }, greeting, log, folder }
    }

    /// A client with its admin's token.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// What it printed at its start.
    pub fn greeting(&self) -> &str {
        &self.greeting
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Its data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.file("data")
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end. Gives back its exit code, what it logged, and its folder for the next one.
    pub fn wait(mut self) -> (i32, String, Folder) {
        let code = code(wait(&mut self.child));
        (code, self.log(), std::mem::take(&mut self.folder))
    }

    /// A `hangar exec SANDBOX` against it.
    pub fn exec(&self, sandbox: &str) -> Command {
        self.client.hangar(["exec", sandbox, "--env", "HOME=/nonexistent"])
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

pub(super) fn end(child: &mut Child) {
    // It may have ended.
    drop(child.kill());
    drop(child.wait());
}

pub(super) fn wait(child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    let mut ended = None;
    wait_until("the end of a child", || {
        ended = child.try_wait().unwrap();
        ended.is_some()
    });
    ended.unwrap_or_else(|| panic!("{:?}", begun.elapsed()))
}

pub(super) fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
}

fn text(mut pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn lines(pipe: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (told, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines() {
            // Nobody may wait any more; it is read on, so that the other side does not wait either.
            drop(told.send(line.unwrap()));
        }
    });
    lines
}
