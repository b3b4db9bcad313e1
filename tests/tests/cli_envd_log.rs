//! A `hangar-envd` whose log nobody takes.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::real::{Folder, binary::envd, envd::launching, wait_until};
use rustix::{
    fs::{OFlags, fcntl_setfl},
    io::{Errno, write},
    pipe::{PipeFlags, pipe_with},
    process::{Pid, Signal, kill_process},
};
use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    process::Stdio,
};

#[test]
fn a_log_that_nobody_takes_holds_up_nothing() {
    launching("a_log_that_nobody_takes_holds_up_nothing", || {
        let (_unread, log) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        while write(&log, &[b'x'; 4096]) != Err(Errno::AGAIN) {}
        fcntl_setfl(&log, OFlags::empty()).unwrap();
        let folder = Folder::new();
        let path = folder.file("socket");
        let mut command = envd();
        command.args(["--listen", &format!("unix:{}", path.display())]).env("RUST_LOG", "debug");
        let mut daemon =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::from(log)).spawn().unwrap();
        let mut socket = None;
        wait_until("it listens", || {
            socket = UnixStream::connect(&path).ok();
            socket.is_some()
        });
        let mut socket = socket.unwrap();
        socket.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
        kill_process(Pid::from_child(&daemon), Signal::TERM).unwrap();
        let mut ended = None;
        wait_until("it ends", || {
            ended = daemon.try_wait().unwrap();
            ended.is_some()
        });
        assert_eq!(ended.unwrap().code(), Some(0));
    });
}
