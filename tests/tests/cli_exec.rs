//! `hangar exec`, against a `hangar serve` of its own.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::real::{Gate, Hangar, Mark, Serving, cli, hangar, wait_until};
use rustix::process::Signal;
use std::process::{Command, Stdio};

/// What a person is told in one line.
fn one_line(stderr: &str) -> &str {
    assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr:?}");
    stderr
}

fn marked(serving: &Serving, mark: &Mark, line: &str) -> Command {
    let mut exec = serving.exec("local");
    exec.arg("--env").arg(format!("{}={}", Mark::NAME, mark.value())).arg(line);
    exec
}

#[test]
fn it_shows_what_the_command_prints_and_ends_as_it_does() {
    cli("it_shows_what_the_command_prints_and_ends_as_it_does", || {
        let serving = Serving::start(|_| {});
        let gate = Gate::new();
        let line = format!("echo one; {}; echo two >&2; exit 9", gate.wait());
        let mut exec = Hangar::start(serving.exec("local").arg(line));
        assert_eq!(exec.line().as_deref(), Some("one"));
        gate.open();
        let ended = exec.wait();
        assert_eq!((ended.code, &*ended.stdout, &*ended.stderr), (9, "", "two\n"));
        for (line, code) in [("true", 0), ("kill -9 $$", 137), ("kill -INT $$", 130), ("exit 255", 255)] {
            assert_eq!(Hangar::run(serving.exec("local").arg(line)).code, code, "{line}");
        }
        let bytes = serving.exec("local").arg(r"printf '\377\000\r\n'").output().unwrap();
        assert_eq!(bytes.stdout, b"\xff\0\r\n");
        let ended = Hangar::run(serving.exec("local").args(["--cwd", "/", "--env", "A=b", "pwd; echo $A"]));
        assert_eq!(ended.stdout, "/\nb\n");
        let ended = Hangar::run(serving.exec("local").args(["--timeout", "0.5", "sleep 777"]));
        assert!(ended.code == 143 && one_line(&ended.stderr).contains("timeout"), "{ended:?}");
        let ended = Hangar::run(serving.exec("local").arg("seq 1 100000"));
        assert!(ended.code == 0 && ended.stdout.ends_with("\n100000\n"));
    });
}

#[test]
fn a_refusal_is_said_in_one_line() {
    cli("a_refusal_is_said_in_one_line", || {
        let serving = Serving::start(|_| {});
        let refused = |command: &mut Command, code: i32, says: &str| {
            let ended = Hangar::run(command);
            assert_eq!((ended.code, ended.stdout.as_str()), (code, ""), "{ended:?}");
            assert!(one_line(&ended.stderr).contains(says), "{says} in {ended:?}");
        };
        refused(serving.exec("nowhere").arg("true"), 125, "no such sandbox");
        refused(serving.exec("local").arg("true").env("HANGAR_TOKEN", "wrong"), 125, "token");
        refused(serving.exec("local").args(["--cwd", "/no/such/folder", "true"]), 125, "cwd");
        refused(serving.exec("local").args(["--user", "no-such-user", "true"]), 125, "user");
        refused(serving.exec("local").arg("true").env_remove("HANGAR_TOKEN"), 2, "HANGAR_TOKEN");
        refused(serving.exec("local").arg("true").env("HANGAR_TOKEN", "a\nb"), 125, "HANGAR_TOKEN");
        // Nobody listens there any more.
        let mut gone = serving.exec("local");
        drop(serving);
        refused(gone.arg("true"), 125, "cannot be reached");
        let mut wrong = hangar();
        wrong.args(["exec", "local", "true"]).env("HANGAR_TOKEN", "x").env("HANGAR_URL", "ftp://there");
        assert_eq!(Hangar::run(&mut wrong).code, 2);
    });
}

#[test]
fn whoever_stops_it_ends_the_command() {
    cli("whoever_stops_it_ends_the_command", || {
        let serving = Serving::start(|_| {});
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let mark = Mark::new();
            let line = "sleep 777 & setsid sleep 778 & echo begun; wait";
            let mut exec = Hangar::start(&mut marked(&serving, &mark, line));
            assert_eq!(exec.line().as_deref(), Some("begun"));
            mark.wait_for("sleep 777");
            mark.wait_for("sleep 778");
            exec.signal(signal);
            assert_eq!(exec.wait().code, code);
            // All but hangar exec itself, which has the mark in its arguments only.
            mark.wait_until_gone();
        }
    });
}

#[test]
fn a_reader_that_leaves_ends_the_command() {
    cli("a_reader_that_leaves_ends_the_command", || {
        let serving = Serving::start(|_| {});
        let mark = Mark::new();
        let mut exec = marked(&serving, &mark, "sleep 777 & yes");
        let mut exec = exec.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let head = Command::new("head").arg("-1").stdin(exec.stdout.take().unwrap()).output().unwrap();
        assert_eq!(head.stdout, b"y\n");
        let mut code = None;
        wait_until("it ends with its reader", || {
            code = exec.try_wait().unwrap();
            code.is_some()
        });
        assert_eq!(code.unwrap().code(), Some(141));
        mark.wait_until_gone();
    });
}

#[test]
fn a_server_that_goes_is_no_end_of_a_command() {
    cli("a_server_that_goes_is_no_end_of_a_command", || {
        // In the middle, without a word.
        let serving = Serving::start(|_| {});
        let mark = Mark::new();
        let mut exec = Hangar::start(&mut marked(&serving, &mark, "echo begun; exec sleep 777"));
        assert_eq!(exec.line().as_deref(), Some("begun"));
        drop(serving);
        let ended = exec.wait();
        assert_eq!(ended.code, 125, "{ended:?}");
        assert!(one_line(&ended.stderr).starts_with("hangar: "), "{ended:?}");
        // By a shutdown, which is told.
        let serving = Serving::start(|command| {
            command.env("HANGAR_LOCAL_DRAIN_SECONDS", "1");
        });
        let mark = Mark::new();
        let mut exec = Hangar::start(&mut marked(&serving, &mark, "echo begun; exec sleep 777"));
        assert_eq!(exec.line().as_deref(), Some("begun"));
        serving.signal(Signal::TERM);
        let ended = exec.wait();
        assert_eq!(ended.code, 125, "{ended:?}");
        assert!(one_line(&ended.stderr).contains("shutdown"), "{ended:?}");
        let (code, log, _) = serving.wait();
        assert_eq!(code, 0, "{log}");
        assert!(log.contains("1 commands did not end in time and were killed"), "{log}");
        mark.wait_until_gone();
    });
}
