//! Sandboxes without a daemon: commands, what cannot be done there, and a full disk.

#![cfg(all(feature = "daemonless", feature = "local"))]
#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

#[path = "support/daemonless.rs"]
mod daemonless;
#[path = "support/folder.rs"]
mod folder;
mod support;

use daemonless::{Shell, line, wait_for, wait_for_end};
use folder::{Folder, Mounted};
use hangar_backends::{
    Sandbox,
    daemonless::held::MAX_HELD,
    sandbox::{Command, Spec, StartError, Stdin},
};
use hangar_core::{
    log::{Channel, GapReason, Item, Reader},
    process::{self, Exit, Process, TtySize},
};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};
use support::{argv, living, run, shell, start, wait_until};

#[test]
fn a_command_comes_as_a_whole() {
    let sandbox = Shell::own().sandbox();
    let ended = run(&sandbox, shell("echo out; echo err >&2; echo out again; exit 3"));
    assert_eq!(
        (ended.exit, &*ended.stdout(), &*ended.stderr()),
        (Exit::Code(3), "out\nout again\n", "err\n")
    );
    let stdin = Stdin::Given("to be read\n".into());
    assert_eq!(run(&sandbox, Spec { stdin, ..shell("cat; echo end") }).stdout(), "to be read\nend\n");
    // A signal is one, and not a number.
    assert_eq!(run(&sandbox, shell("kill -SEGV $$")).exit, Exit::Signal(11));
    assert_eq!(run(&sandbox, shell("exit 139")).exit, Exit::Code(139));
    let failed = run(&sandbox, argv(&["/no/such"]));
    assert_eq!((failed.exit, &*failed.stderr()), (Exit::Code(127), "/no/such: No such file or directory\n"));
}

#[test]
fn of_much_output_the_end_is_there() {
    let sandbox = Shell::own().sandbox();
    let handle =
        start(&sandbox, shell("echo first >&2; head -c 10000000 /dev/zero | tr '\\0' x; echo last")).unwrap();
    wait_until("it has ended", || handle.look(Process::is_over));
    handle.command(|process| {
        let mut reader = Reader::at_offset(process.log_mut(), 0).unwrap();
        let Some(Item::Gap(gap)) = reader.take(process.log_mut()) else { panic!("a gap comes first") };
        assert_eq!(gap.reason, GapReason::Evicted);
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        while let Some(Item::Frame(frame)) = reader.take(process.log_mut()) {
            if frame.channel == Channel::Stderr { &mut stderr } else { &mut stdout }
                .extend_from_slice(&frame.data);
        }
        assert_eq!(gap.to_offset + (stdout.len() + stderr.len()) as u64, 10_000_011);
        assert!(stdout.len() >= MAX_HELD && stdout.ends_with(b"xlast\n"), "{}", stdout.len());
        assert_eq!(stderr, b"first\n");
    });
}

#[test]
fn a_command_is_ended_with_all_of_it() {
    let sandbox = Shell::own().sandbox();
    let spec = shell("trap '' TERM; setsid sleep 75.PID & sleep 76.PID; sleep 77.PID");
    let handle = start(&sandbox, spec).unwrap();
    wait_until("it runs", || !living("sleep 75.PID").is_empty() && !living("sleep 76.PID").is_empty());
    handle.command(Process::kill);
    wait_until("it is let go of", || handle.is_released());
    for line in ["sleep 75.PID", "sleep 76.PID", "sleep 77.PID"] {
        assert_eq!(living(line), support::NONE, "{line}");
    }
}

#[test]
fn a_shutdown_ends_commands_and_leaves_processes() {
    let shell = Shell::own();
    let sandbox = shell.sandbox();
    let command = start(&sandbox, support::shell("exec sleep 78.PID")).unwrap();
    let process = start(&sandbox, line("exec sleep 79.PID")).unwrap();
    wait_until("both run", || !living("sleep 78.PID").is_empty() && !living("sleep 79.PID").is_empty());
    let ending = sandbox.ending_with_server();
    assert_eq!(ending.iter().map(|handle| handle.id()).collect::<Vec<_>>(), [command.id()]);
    async_io::block_on(sandbox.shut_down()).unwrap();
    assert_eq!((living("sleep 78.PID"), living("sleep 79.PID").len()), (Vec::new(), 1));
    async_io::block_on(sandbox.destroy()).unwrap();
    assert_eq!((living("sleep 79.PID"), process.is_released()), (Vec::new(), true));
    assert_eq!(start(&sandbox, line("true")).unwrap_err(), StartError::Destroyed);
}

#[test]
fn what_it_cannot_do_is_refused() {
    let sandbox = Shell::own().sandbox();
    let spec = line("true");
    let process = process::Config { tty: Some(TtySize { cols: 80, rows: 24 }), ..spec.process };
    let refused = start(&sandbox, Spec { process, ..spec }).unwrap_err();
    assert_eq!(refused.to_string(), "tty: this sandbox has no terminals: it has no daemon");
    let paused = async_io::block_on(sandbox.pause()).unwrap_err();
    assert_eq!(paused.to_string(), "this sandbox cannot be paused: it has no daemon");
    let capabilities = sandbox.capabilities();
    assert!(!capabilities.streaming && !capabilities.stdin && !capabilities.tty && !capabilities.pause);
}

/// What a sandbox without its programs says is for a person.
#[test]
fn a_sandbox_that_cannot_detach_says_so() {
    let home = Folder::new();
    fs::create_dir(home.0.join("empty")).unwrap();
    let shell = Shell::new(Path::new("/bin/sh"), home.0.join("empty").to_str().unwrap());
    let refused =
        start(&shell.sandbox(), Spec { command: Command::Argv(vec!["/bin/true".to_owned()]), ..line("") });
    let Err(StartError::Broken(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("mkdir"), "{why}");
}

/// What does not fit is missing, and said to be; what comes after that is there.
#[test]
fn a_full_disk_loses_what_does_not_fit_and_no_more() {
    let shell = Shell::own();
    let disk = shell.home.0.join(".hangar");
    fs::create_dir(&disk).unwrap();
    let Some(_mounted) = Mounted::of("tmpfs", &disk, "size=400k,nr_inodes=40,mode=777") else {
        let why = b"skipped: a_full_disk_loses_what_does_not_fit_and_no_more: it takes root\n";
        return std::io::stderr().write_all(why).unwrap();
    };
    let sandbox = shell.sandbox();
    let (room, step) = (disk.join("room"), shell.home.0.join("step"));
    fs::write(&room, vec![0; 200_000]).unwrap();
    let step = |n: u32| PathBuf::from(format!("{}{n}", step.display()));
    let wait = |n| format!("until [ -e {} ]; do sleep 0.05; done", step(n).display());
    // Where this is done, the most of it has been taken from the pipe: it fits nowhere.
    let much =
        |letter, done| format!("head -c 650000 /dev/zero | tr '\\0' {letter}; : >{}", step(done).display());
    let command = [
        "echo first".to_owned(),
        wait(1),
        much('x', 2),
        wait(3),
        "echo again".to_owned(),
        wait(4),
        much('y', 5),
    ];
    let handle = start(&sandbox, line(&command.join("; "))).unwrap();
    wait_for(&handle, "first");
    // Nor is there room for another file.
    let files = (0..).map(|number| disk.join(number.to_string()));
    let files: Vec<_> = files.take_while(|file| fs::write(file, "").is_ok()).collect();
    fs::write(step(1), "").unwrap();
    wait_until("all x are printed", || step(2).exists());
    let pid = handle.look(Process::pid).unwrap();
    let pipe = fs::File::open(format!("/proc/{pid}/fd/1")).unwrap();
    wait_until("they are taken", || rustix::io::ioctl_fionread(&pipe).unwrap() == 0);
    drop(pipe);
    wait_for(&handle, "xxx");
    files.iter().chain([&room]).for_each(|file| fs::remove_file(file).unwrap());
    fs::write(step(3), "").unwrap();
    wait_for(&handle, "again");
    fs::write(step(4), "").unwrap();
    wait_until("all y are printed", || step(5).exists());
    // How it ended is noted once there is room for that.
    wait_for(&handle, "yyy");
    for file in fs::read_dir(disk.join("bg")).unwrap().map(|file| file.unwrap().path()) {
        if file.to_str().unwrap().ends_with(".out") {
            fs::remove_file(file).unwrap();
        }
    }
    assert_eq!(wait_for_end(&handle), Exit::Code(0));
    handle.command(|process| {
        let mut reader = Reader::oldest_kept(process.log());
        let mut gaps = 0;
        while let Some(item) = reader.take(process.log_mut()) {
            gaps += usize::from(matches!(item, Item::Gap(gap) if gap.bytes().is_none()));
        }
        assert!(gaps >= 2, "nobody knows how much is missing in the middle, and at the end: {gaps}");
    });
    async_io::block_on(sandbox.destroy()).unwrap();
}
