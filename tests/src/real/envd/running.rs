//! The daemon as a program of its own.

use super::Client;
use crate::real::{
    binary::{clean, code, envd, envd_path, wait},
    machine::{Folder, wait_until},
    watched_for,
};
use hangar_core::wire::connect::Codec;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::File,
    net::SocketAddr,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// No check or suite takes longer: alone a suite is a quarter of a minute.
const SUITE: Duration = Duration::from_secs(600);

/// Runs a check of the `hangar-envd` command, or a suite of others against it; see [`watched_for`].
///
/// # Panics
///
/// If the check does, or does not end.
pub fn launching(name: &str, check: impl FnOnce() + Send + 'static) {
    // Building it is not watched: from nothing that takes minutes.
    envd_path();
    watched_for(SUITE, name, check);
}

/// A `hangar-envd` that listens. Dropped, it is ended with everything that runs in it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    address: SocketAddr,
    folder: Folder,
}

impl Running {
    /// Starts one on a port of its own.
    pub fn start(change: impl FnOnce(&mut Command)) -> Self {
        let mut command = envd();
        command.args(["--listen", "127.0.0.1:0"]).env("HOME", "/nonexistent").env("NO_COLOR", "1");
        change(&mut command);
        Self::listening(command)
    }

    /// Starts one behind words of a shell, which run as the first process of namespaces of its own.
    pub fn in_namespaces(shell: &str) -> Self {
        let mut command = clean(Command::new("unshare"));
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-c"]);
        command.arg(format!("set -e; {shell}; exec \"$0\" --listen 127.0.0.1:0")).arg(envd_path());
        Self::listening(command)
    }

    fn listening(mut command: Command) -> Self {
        let folder = Folder::new();
        let log = File::create(folder.file("log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut address = None;
        wait_until("the daemon says where it listens", || {
            let log = std::fs::read_to_string(folder.file("log")).unwrap();
            address = log.lines().find_map(|line| line.split_once("listens on ")?.1.trim().parse().ok());
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none() || address.is_some(), "it has ended: {ended:?}\n{log}");
            address.is_some()
        });
        Self { child, address: address.unwrap(), folder }
    }

    /// A client that speaks JSON.
    pub fn json(&self) -> Client {
        Client::new(self.address, Codec::Json)
    }

    /// A client that speaks protobuf.
    pub fn proto(&self) -> Client {
        Client::new(self.address, Codec::Proto)
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same, as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.file("log")).unwrap()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it, as services are ended.
    ///
    /// # Panics
    ///
    /// If it does not end, or has something to complain about.
    pub fn end(mut self) {
        self.signal(Signal::TERM);
        let code = code(wait(&mut self.child));
        let log = self.log();
        assert_eq!(code, 0, "{log}");
        assert!(!log.contains("ERROR") && !log.contains("WARN") && !log.contains("panicked"), "{log}");
    }

    /// Waits for its end; gives its exit code.
    pub fn wait(mut self) -> i32 {
        code(wait(&mut self.child))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let begun = Instant::now();
        while self.child.try_wait().is_ok_and(|status| status.is_none()) {
            if begun.elapsed() < Duration::from_secs(10) {
                // It may have ended.
                kill_process(Pid::from_child(&self.child), Signal::TERM).ok();
            } else {
                drop(self.child.kill());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}
