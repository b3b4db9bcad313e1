//! Processes of sandboxes without a daemon, with each kind of shell that there is.

#![cfg(all(feature = "daemonless", feature = "local"))]
#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

#[path = "support/daemonless.rs"]
mod daemonless;
#[path = "support/folder.rs"]
mod folder;
mod support;

use daemonless::{Shell, line, printed, wait_for, wait_for_end};
use folder::Folder;
use hangar_backends::{
    Sandbox,
    daemonless::DaemonlessSandbox,
    sandbox::{Adoption, Command, Spec, StartError},
};
use hangar_core::{
    log::{GapReason, Item, Reader},
    process::{self, Exit, Process, Signal, Target},
};
use std::{
    fs,
    io::Write,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::Command as Program,
    sync::Arc,
    thread,
    time::Duration,
};
use support::{argv, kept, living, read, start, wait_until};

/// All that is asked of a shell.
fn check(shell: &Arc<Shell>) {
    let sandbox = shell.sandbox();
    what_is_printed_and_how_it_ends(shell, &sandbox);
    output_is_kept_up_to_a_bound(shell, &sandbox);
    signals_arrive(&sandbox);
    it_is_ended_with_all_of_it(shell, &sandbox);
    what_cannot_be_run_has_failed(&sandbox);
    variables_are_its_own(shell, &sandbox);
    an_end_that_is_not_true_is_not_believed(&sandbox);
    what_prints_on_behind_its_end_is_let_go_of(&sandbox);
    it_is_taken_over(shell);
    without_its_files_it_is_ended_all_the_same(shell, &sandbox);
    async_io::block_on(sandbox.destroy()).unwrap();
    assert_eq!(shell.names(), Vec::<String>::new(), "nothing is left of them");
}

fn what_is_printed_and_how_it_ends(shell: &Arc<Shell>, sandbox: &DaemonlessSandbox) {
    let spec =
        line("echo out; echo err >&2; echo $KIND $HANGAR_PROCESS_ID $HANGAR_SUPERVISES; read x || exit 3");
    let spec = Spec { env: [("KIND".to_owned(), "of its own".to_owned())].into(), ..spec };
    let id = spec.id.clone();
    let ended = read(&start(sandbox, spec).unwrap());
    let expected = format!("out\nerr\nof its own {id}\n");
    assert_eq!((ended.exit, ended.stdout()), (Exit::Code(3), expected.clone()));
    let file = |name: &str| fs::read_to_string(shell.files().join(format!("{id}.{name}"))).unwrap();
    assert_eq!((file("out"), file("exit")), (expected, "3\n".to_owned()));
    // Whatever it is a moment before its end, nothing is missing.
    for number in 0..5 {
        let ended = read(&start(sandbox, line(&format!("echo {number}; exit {number}"))).unwrap());
        assert_eq!((ended.exit, ended.stdout()), (Exit::Code(number), format!("{number}\n")));
    }
}

fn output_is_kept_up_to_a_bound(shell: &Arc<Shell>, sandbox: &DaemonlessSandbox) {
    let spec = line("head -c 20000000 /dev/zero | tr '\\0' x; echo the end");
    let id = spec.id.clone();
    let handle = start(sandbox, spec).unwrap();
    assert_eq!(wait_for_end(&handle), Exit::Code(0));
    let all = printed(&handle);
    assert_eq!(handle.look(|process| process.log().end_offset()), 20_000_008);
    assert!(all.len() >= 1 << 20 && all.ends_with("xxthe end\n"), "{}", all.len());
    let sizes = shell.names().into_iter().filter(|name| name.starts_with(&format!("{id}.out")));
    let size: u64 = sizes.map(|name| fs::metadata(shell.files().join(name)).unwrap().len()).sum();
    assert!(size < 17 << 20, "{size}");
}

fn signals_arrive(sandbox: &DaemonlessSandbox) {
    // Neither is ignored, as by what a shell has in the background.
    for signal in [Signal::INT, Signal::QUIT, Signal::USR1, Signal::KILL] {
        let handle = start(sandbox, line("echo up; exec sleep 100")).unwrap();
        wait_for(&handle, "up");
        handle.command(|process| process.signal(signal, Target::Leader));
        assert_eq!(wait_for_end(&handle), Exit::Signal(signal.number()));
    }
    let handle =
        start(sandbox, line("trap 'echo got; exit 4' USR1; echo up; while :; do sleep 0.05; done")).unwrap();
    wait_for(&handle, "up");
    handle.command(|process| process.signal(Signal::USR1, Target::Group));
    assert_eq!(wait_for_end(&handle), Exit::Code(4));
    // The shell may say something of its child, which got it, too.
    assert!(printed(&handle).ends_with("got\n"));
}

fn it_is_ended_with_all_of_it(shell: &Arc<Shell>, sandbox: &DaemonlessSandbox) {
    let members = [71, 72, 73].map(|number| shell.sleep(number));
    let [child, away, own] = &members;
    let command = format!("trap '' TERM; {child} & setsid {away} & echo up; while :; do {own}; done");
    let handle = start(sandbox, line(&command)).unwrap();
    wait_until("all of it runs", || members.iter().all(|line| !living(line).is_empty()));
    handle.command(Process::kill);
    assert_eq!(wait_for_end(&handle), Exit::Signal(9));
    for line in &members {
        assert_eq!(living(line), support::NONE, "{line}");
    }
    // So is one that is known by nothing in its environment.
    let hidden =
        start(sandbox, kept(argv(&["env", "-i", "/bin/sh", "-c", "echo up; exec /bin/sleep 100"]))).unwrap();
    wait_for(&hidden, "up");
    hidden.command(Process::kill);
    assert_eq!(wait_for_end(&hidden), Exit::Signal(15));
    // One that ends by itself is let go of as well.
    let handle = start(sandbox, line("echo up; exec sleep 100")).unwrap();
    wait_for(&handle, "up");
    handle.command(Process::kill);
    wait_until("it is let go of", || handle.is_released());
}

fn what_cannot_be_run_has_failed(sandbox: &DaemonlessSandbox) {
    for (program, code, said) in [
        ("/no/such", 127, "/no/such: No such file or directory\n"),
        ("/etc/passwd", 126, "/etc/passwd: Permission denied\n"),
        ("/etc", 126, "/etc: Permission denied\n"),
        ("no-such", 127, "no-such: command not found\n"),
    ] {
        let spec = kept(argv(&[program, "argument"]));
        let handle = start(sandbox, Spec { env: [("A".to_owned(), "b".to_owned())].into(), ..spec }).unwrap();
        let (failed, exit) = handle.look(|process| (process.start_failed(), process.exit_status()));
        assert_eq!((failed, exit, printed(&handle)), (true, Some(Exit::Code(code)), said.to_owned()));
    }
    let refused = start(sandbox, Spec { cwd: Some("/no/such".to_owned()), ..line("pwd") });
    assert!(matches!(refused, Err(StartError::BadCwd(_))), "{refused:?}");
    let refused = start(sandbox, line(&format!("true {}", "x".repeat(200_000))));
    assert_eq!(refused.unwrap_err(), StartError::TooLong { field: "command" });
    let long = [("LONG".to_owned(), "x".repeat(200_000))].into();
    let refused = start(sandbox, Spec { env: long, ..line("true") });
    assert_eq!(refused.unwrap_err(), StartError::TooLong { field: "env" });
}

fn variables_are_its_own(shell: &Arc<Shell>, sandbox: &DaemonlessSandbox) {
    let printed = |spec: Spec| {
        let handle = start(sandbox, spec).unwrap();
        assert_eq!(wait_for_end(&handle), Exit::Code(0));
        printed(&handle)
    };
    let with = |env: &[(&str, &str)], spec: Spec| Spec {
        env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        ..spec
    };
    let odd = [
        ("A", "a b\nc=\"d\" $e"),
        ("--chdir", "/"),
        ("HANGAR_PROCESS_ID", "other"),
        ("HANGAR_SUPERVISES", "other"),
    ];
    let spec = with(
        &odd,
        kept(argv(&["/bin/sh", "-c", "echo \"$A\"; echo $HANGAR_PROCESS_ID $HANGAR_SUPERVISES; pwd"])),
    );
    let (id, spec) = (spec.id.clone(), Spec { cwd: Some("/tmp".to_owned()), ..spec });
    assert_eq!(printed(spec), format!("a b\nc=\"d\" $e\n{id}\n/tmp\n"));
    // A program is looked for where its variables say, and may be `env` itself.
    let programs = shell.home.0.join("its programs");
    fs::create_dir_all(&programs).unwrap();
    fs::write(programs.join("its=own"), "#!/bin/sh\necho found $1\n").unwrap();
    fs::set_permissions(programs.join("its=own"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", programs.display());
    assert_eq!(printed(with(&[("PATH", &path)], kept(argv(&["its=own", "-n"])))), "found -n\n");
    assert_eq!(printed(with(&[], kept(argv(&["env", "-i", "B=c", "/bin/sh", "-c", "echo $B"])))), "c\n");
    // What it makes others may read as it is here.
    assert_ne!(printed(line("umask")), "0077\n");
}

/// It has written its own end, and runs on.
fn an_end_that_is_not_true_is_not_believed(sandbox: &DaemonlessSandbox) {
    let files = "$HOME/.hangar/bg/$HANGAR_PROCESS_ID";
    let command = format!(
        "sleep 0.5; echo 1 1 >{files}.pid; echo 7 >{files}.exit; : >{files}.end; echo up; exec sleep 100"
    );
    let spec =
        Spec { command: Command::Argv(vec!["/bin/sh".to_owned(), "-c".to_owned(), command]), ..line("") };
    let handle = start(sandbox, spec).unwrap();
    wait_for(&handle, "up");
    thread::sleep(Duration::from_secs(1));
    assert_eq!(handle.look(Process::exit_status), None, "it runs");
    handle.command(Process::kill);
    wait_until("it is let go of", || handle.is_released());
}

/// Somebody holds its output, and prints.
fn what_prints_on_behind_its_end_is_let_go_of(sandbox: &DaemonlessSandbox) {
    let command = "setsid env -i PATH=$PATH sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.5; echo late; done' & echo up; exit 3";
    let handle = start(sandbox, line(command)).unwrap();
    assert_eq!(wait_for_end(&handle), Exit::Code(3));
    assert!(handle.look(Process::drain_timed_out));
    wait_until("it is let go of", || handle.is_released());
}

fn adoption(id: &str, pid: Option<u32>) -> Adoption {
    Adoption {
        id: id.to_owned(),
        tag: String::new(),
        pid,
        user: None,
        process: process::Config::default(),
        exit: None,
        goes_on_at: (1000, 1_000_000),
    }
}

/// Another server has started it, and is gone.
fn it_is_taken_over(shell: &Arc<Shell>) {
    let before = shell.sandbox();
    let gate = shell.home.0.join("gate");
    let spec =
        line(&format!("echo one; until [ -e {} ]; do sleep 0.05; done; echo two; exit 5", gate.display()));
    let id = spec.id.clone();
    let handle = start(&before, spec).unwrap();
    wait_for(&handle, "one");
    let pid = handle.look(Process::pid);
    let after = shell.sandbox();
    let taken = after.adopt(adoption(&id, pid)).unwrap();
    wait_for(&taken, "one");
    fs::write(&gate, "").unwrap();
    assert_eq!((wait_for_end(&taken), printed(&taken)), (Exit::Code(5), "one\ntwo\n".to_owned()));
    // Who comes with a byte or with a frame goes on there.
    taken.command(|process| {
        for reader in [Reader::at_offset(process.log_mut(), 4), Reader::after_seq(process.log_mut(), 1)] {
            let Some(Item::Frame(frame)) = reader.unwrap().take(process.log_mut()) else {
                panic!("it goes on")
            };
            assert_eq!((&frame.data[..], frame.offset, frame.seq), (&b"two\n"[..], 4, 2));
        }
    });
    fs::remove_file(gate).unwrap();
    // It has ended by now, and is there for whoever comes, as long as it is kept.
    let late = shell.sandbox().adopt(adoption(&id, None)).unwrap();
    assert_eq!((wait_for_end(&late), printed(&late)), (Exit::Code(5), "one\ntwo\n".to_owned()));
    // Without what was noted of frames, numbers of before say nothing.
    fs::remove_file(shell.files().join(format!("{id}.at"))).unwrap();
    let later = shell.sandbox().adopt(adoption(&id, None)).unwrap();
    assert_eq!((wait_for_end(&later), printed(&later)), (Exit::Code(5), "one\ntwo\n".to_owned()));
    later.command(|process| {
        let mut reader = Reader::after_seq(process.log_mut(), 1).unwrap();
        let Some(Item::Gap(gap)) = reader.take(process.log_mut()) else { panic!("a gap comes first") };
        assert_eq!((gap.reason, gap.to_seq, gap.to_offset), (GapReason::Adopted, 1000, 0));
    });
    // One of more pieces, whose first files are gone.
    let count = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); echo $i; done; echo end; sleep 1; echo more";
    let spec = line(count);
    let id = spec.id.clone();
    let handle = start(&before, spec).unwrap();
    wait_for(&handle, "end\n");
    let newest = handle.look(|process| process.log().newest_seq());
    let taken = shell.sandbox().adopt(adoption(&id, None)).unwrap();
    assert_eq!(wait_for_end(&taken), Exit::Code(0));
    let (all, end) = (printed(&taken), taken.look(|process| process.log().end_offset()));
    assert!(all.ends_with("\n199999\n200000\nend\nmore\n"), "{}", &all[all.len() - 40..]);
    assert_eq!(end, 1_288_895 + 9, "the bytes are counted from the first");
    taken.command(|process| {
        let mut reader = Reader::after_seq(process.log_mut(), newest).unwrap();
        let Some(Item::Frame(frame)) = reader.take(process.log_mut()) else { panic!("it goes on") };
        assert_eq!(&frame.data[..], b"more\n");
    });
    let gone = shell.sandbox().adopt(adoption("01NOTHERE", Some(1))).unwrap();
    assert_eq!(wait_for_end(&gone), Exit::Unknown, "nobody knows of it");
    // Its number is somebody else's by now, who is not to be ended for it.
    let mut stranger = Program::new("sleep").arg("100").process_group(0).spawn().unwrap();
    let gone = shell.sandbox().adopt(adoption("01NOTTHAT", Some(stranger.id()))).unwrap();
    gone.command(Process::kill);
    wait_until("it is let go of", || gone.is_released());
    assert_eq!(stranger.try_wait().unwrap(), None, "the stranger lives");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

fn without_its_files_it_is_ended_all_the_same(shell: &Arc<Shell>, sandbox: &DaemonlessSandbox) {
    let sleep = shell.sleep(74);
    let handle = start(sandbox, line(&format!("echo up; exec {sleep}"))).unwrap();
    wait_for(&handle, "up");
    fs::remove_dir_all(shell.files()).unwrap();
    thread::sleep(Duration::from_secs(1));
    assert_eq!(handle.look(Process::exit_status), None, "it still runs");
    handle.command(Process::kill);
    // How it ended could not be noted.
    assert_eq!(wait_for_end(&handle), Exit::Unknown);
    assert_eq!(living(&sleep), support::NONE);
}

#[test]
fn with_the_shell_of_the_machine() {
    check(&Shell::own());
}

#[test]
fn with_bash() {
    check(&Shell::new(Path::new("/bin/bash"), "/usr/bin:/bin"));
}

#[test]
fn with_nothing_but_busybox() {
    let Some(busybox) =
        ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists())
    else {
        let why = b"skipped: with_nothing_but_busybox: there is no busybox here\n";
        return std::io::stderr().write_all(why).unwrap();
    };
    let programs = Folder::new();
    let installed = Program::new(busybox).args(["--install", "-s"]).arg(&programs.0).status().unwrap();
    assert!(installed.success());
    check(&Shell::new(Path::new(busybox), programs.0.to_str().unwrap()));
}
