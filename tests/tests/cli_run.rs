//! `hangar run`, as somebody at a terminal or a script uses it.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::real::{Folder, Gate, Hangar, Mark, cli, hangar, wait_until};
use rustix::process::Signal;
use std::{
    fs::File,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// `hangar run` with a home that has no profile.
fn run(command: &str) -> Command {
    let mut hangar = hangar();
    hangar.args(["run", "--env", "HOME=/nonexistent", command]);
    hangar
}

/// `hangar run` of a command whose processes are found by `mark`.
fn marked(mark: &Mark, command: &str) -> Command {
    let mut run = run(command);
    run.arg("--env").arg(format!("{}={}", Mark::NAME, mark.value()));
    run
}

#[test]
fn lines_are_shown_as_they_come() {
    cli("lines_are_shown_as_they_come", || {
        let gate = Gate::new();
        let mut hangar = Hangar::start(&mut run(&format!("echo one; {}; echo two", gate.wait())));
        assert_eq!(hangar.line().as_deref(), Some("one"));
        gate.open();
        assert_eq!(hangar.line().as_deref(), Some("two"));
        assert_eq!(hangar.wait().code, 0);
    });
}

#[test]
fn the_exit_code_is_the_commands_own() {
    cli("the_exit_code_is_the_commands_own", || {
        for (command, code) in
            [("true", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
        {
            let ended = Hangar::run(&mut run(command));
            assert_eq!((ended.code, ended.stdout.as_str()), (code, ""), "{command}: {ended:?}");
            assert_eq!(ended.stderr, "", "{command}");
        }
        let ended = Hangar::run(&mut run("no-such-program-here"));
        assert_eq!(ended.code, 127);
        assert!(ended.stderr.contains("no-such-program-here"), "{ended:?}");
    });
}

#[test]
fn both_outputs_stay_apart_and_exact() {
    cli("both_outputs_stay_apart_and_exact", || {
        let ended = Hangar::run(&mut run(r"printf 'out\r\n€'; printf 'err\t\n' >&2"));
        assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("out\r\n€", "err\t\n"));
        // Bytes that are no text, too.
        let output = run(r"printf '\377\000\376'").output().unwrap();
        assert_eq!(output.stdout, [255, 0, 254]);
    });
}

#[test]
fn much_output_is_all_there() {
    cli("much_output_is_all_there", || {
        let ended = Hangar::run(&mut run("seq 1 300000"));
        let expected: String = (1..=300_000).map(|number| format!("{number}\n")).collect();
        assert!(ended.code == 0 && ended.stdout == expected, "{} bytes", ended.stdout.len());
    });
}

#[test]
fn where_and_with_what_it_runs() {
    cli("where_and_with_what_it_runs", || {
        let folder = Folder::new();
        let there = folder.path().to_str().unwrap();
        let ended = Hangar::run(run("pwd").args(["--cwd", there]));
        assert_eq!(ended.stdout.trim(), there);
        // Without it, where hangar was started.
        let ended = Hangar::run(run("pwd").current_dir(there));
        assert_eq!(ended.stdout.trim(), there);
        let mut call = run("echo \"$A-$B-${NOT_INHERITED-unset}\"");
        call.args(["--env", "A=1 2", "-e", "B=x=y"]).env("NOT_INHERITED", "inherited");
        assert_eq!(Hangar::run(&mut call).stdout, "1 2-x=y-unset\n");
        let ended = Hangar::run(run("pwd").args(["--cwd", "/no/such/folder"]));
        assert!(ended.code == 125 && one_line(&ended.stderr).contains("cwd"), "{ended:?}");
    });
}

/// What a person is told in one line.
fn one_line(stderr: &str) -> &str {
    assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr:?}");
    stderr
}

#[test]
fn a_timeout_ends_it() {
    cli("a_timeout_ends_it", || {
        let mark = Mark::new();
        let call = "echo begun; sleep 776 & sleep 777";
        let ended = Hangar::run(marked(&mark, call).args(["--timeout", "0.5"]));
        assert_eq!((ended.code, ended.stdout.as_str()), (143, "begun\n"), "{ended:?}");
        assert!(one_line(&ended.stderr).contains("timeout"), "{ended:?}");
        mark.wait_until_gone();
    });
}

#[test]
fn an_interrupt_ends_everything() {
    cli("an_interrupt_ends_everything", || {
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let mark = Mark::new();
            let call = "sleep 777 & setsid sleep 778 & echo begun; wait";
            let mut hangar = Hangar::start(&mut marked(&mark, call));
            assert_eq!(hangar.line().as_deref(), Some("begun"));
            mark.wait_for("sleep 777");
            mark.wait_for("sleep 778");
            hangar.signal(signal);
            let ended = hangar.wait();
            assert_eq!(ended.code, code, "{ended:?}");
            mark.wait_until_gone();
        }
    });
}

#[test]
fn a_second_interrupt_does_not_wait() {
    cli("a_second_interrupt_does_not_wait", || {
        let mark = Mark::new();
        let call = "trap '' TERM; sleep 777 & echo begun; while :; do sleep 0.2; done";
        let mut hangar = Hangar::start(&mut marked(&mark, call));
        assert_eq!(hangar.line().as_deref(), Some("begun"));
        let begun = Instant::now();
        hangar.signal(Signal::INT);
        // Two of a kind before the first is seen would count as one.
        std::thread::sleep(Duration::from_millis(300));
        hangar.signal(Signal::INT);
        let ended = hangar.wait();
        assert_eq!(ended.code, 130, "{ended:?}");
        mark.wait_until_gone();
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    });
}

#[test]
fn an_interrupt_kills_what_ignores_it() {
    cli("an_interrupt_kills_what_ignores_it", || {
        let mark = Mark::new();
        let call = "trap '' TERM INT; sleep 777 & echo begun; while :; do sleep 0.2; done";
        let mut hangar = Hangar::start(&mut marked(&mark, call));
        assert_eq!(hangar.line().as_deref(), Some("begun"));
        hangar.signal(Signal::INT);
        assert_eq!(hangar.wait().code, 130);
        mark.wait_until_gone();
    });
}

#[test]
fn an_interrupt_does_not_wait_for_who_does_not_read() {
    cli("an_interrupt_does_not_wait_for_who_does_not_read", || {
        let mark = Mark::new();
        let mut hangar = marked(&mark, "exec yes");
        let mut hangar = hangar.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        mark.wait_for("yes");
        // Until the pipe and all that is behind it is full.
        std::thread::sleep(Duration::from_millis(500));
        rustix::process::kill_process(rustix::process::Pid::from_child(&hangar), Signal::TERM).unwrap();
        let mut code = None;
        wait_until("hangar ends", || {
            code = hangar.try_wait().unwrap();
            code.is_some()
        });
        assert_eq!(code.unwrap().code(), Some(143));
        mark.wait_until_gone();
        let stderr = std::io::read_to_string(hangar.stderr.take().unwrap()).unwrap();
        assert_eq!(stderr, "", "nothing was left");
    });
}

#[test]
fn output_that_would_block_is_waited_for() {
    cli("output_that_would_block_is_waited_for", || {
        let (read, write) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&write, true).unwrap();
        let mut hangar = run("seq 1 200000").stdout(write).spawn().unwrap();
        // Until the pipe is full.
        std::thread::sleep(Duration::from_millis(500));
        let expected: String = (1..=200_000).map(|number| format!("{number}\n")).collect();
        let printed = std::io::read_to_string(read).unwrap();
        assert!(printed == expected, "{} bytes", printed.len());
        assert!(hangar.wait().unwrap().success());
    });
}

#[test]
fn a_reader_that_leaves_ends_it() {
    cli("a_reader_that_leaves_ends_it", || {
        let mark = Mark::new();
        let mut hangar = marked(&mark, "sleep 777 & yes");
        let mut hangar = hangar.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let head = Command::new("head").arg("-1").stdin(hangar.stdout.take().unwrap()).output().unwrap();
        assert_eq!(head.stdout, b"y\n");
        let mut code = None;
        wait_until("hangar ends with its reader", || {
            code = hangar.try_wait().unwrap();
            code.is_some()
        });
        // As a shell names the end by SIGPIPE.
        assert_eq!(code.unwrap().code(), Some(141));
        mark.wait_until_gone();
    });
}

#[test]
fn what_holds_the_output_open_is_let_go_of() {
    cli("what_holds_the_output_open_is_let_go_of", || {
        let mark = Mark::new();
        let begun = Instant::now();
        let ended = Hangar::run(&mut marked(&mark, "sleep 60 & echo done"));
        assert_eq!((ended.code, ended.stdout.as_str()), (0, "done\n"), "{ended:?}");
        assert!(one_line(&ended.stderr).contains("holds its output open"), "{ended:?}");
        assert!(begun.elapsed() < Duration::from_secs(40));
        assert_eq!(mark.named("sleep 60").len(), 1, "a normal end kills nothing");
    });
}

#[test]
fn a_full_disk_is_said() {
    cli("a_full_disk_is_said", || {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = run("seq 1 100000; sleep 777").stdout(full).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{stderr}");
        assert!(one_line(&stderr).contains("cannot be written"), "{stderr}");
    });
}

#[test]
fn a_wrong_call_is_explained() {
    cli("a_wrong_call_is_explained", || {
        for (arguments, names) in [
            (&["run"][..], "CMD"),
            (&["run", ""], "nothing to run"),
            (&["run", "true", "--env", "X"], "NAME=VALUE"),
            (&["run", "true", "--timeout", "0"], "above 0"),
            (&["run", "true", "--timeout", "soon"], "above 0"),
            (&["run", "true", "--colour"], "--colour"),
            (&["fly"], "fly"),
        ] {
            let ended = Hangar::run(hangar().args(arguments));
            assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{arguments:?}: {ended:?}");
            let first = ended.stderr.lines().next().unwrap_or_default().to_owned();
            assert!(first.starts_with("error: ") && ended.stderr.contains(names), "{arguments:?}: {ended:?}");
        }
        for arguments in [&["--help"][..], &["run", "--help"], &["serve", "--help"], &["exec", "--help"]] {
            let ended = Hangar::run(hangar().args(arguments));
            assert!(ended.code == 0 && ended.stdout.contains("Usage: hangar"), "{ended:?}");
        }
        let version = Hangar::run(hangar().arg("--version"));
        assert!(version.code == 0 && version.stdout.starts_with("hangar "), "{version:?}");
    });
}
