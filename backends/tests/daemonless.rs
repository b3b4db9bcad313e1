//! Sandboxes without a daemon: what is left to a shell there, with each kind of shell that there is.

#![cfg(all(feature = "daemonless", feature = "local"))]
#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

#[path = "support/folder.rs"]
mod folder;
mod support;

use folder::{Folder, Mounted};
use hangar_backends::{
    Handle, Sandbox,
    daemonless::{
        DaemonlessSandbox,
        held::MAX_HELD,
        local::LocalProvider,
        provider::{Call, Provider, Running},
    },
    runtime::BoxFuture,
    sandbox::{Adoption, Command, SandboxError, Spec, StartError, Stdin},
};
use hangar_core::{
    log::{Channel, GapReason, Item, Reader},
    process::{self, Exit, Process, Signal, Target, TtySize},
};
use std::{
    fs,
    io::Write,
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command as Program,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};
use support::{TestRuntime, argv, kept, living, read, run, sandbox, shell, start, wait_until};

/// This machine, where the scripts are run by a shell of the test's choice and leave what they leave in a folder.
struct Shell {
    local: LocalProvider,
    /// Where its programs are.
    path: String,
    home: Folder,
    number: u32,
}

impl Shell {
    /// With the programs of `path`, of which `sh` is this program.
    fn new(program: &Path, path: &str) -> Arc<Self> {
        let home = Folder::new();
        let programs = home.0.join("programs");
        fs::create_dir(&programs).unwrap();
        symlink(program, programs.join("sh")).unwrap();
        let path = format!("{}:{path}", programs.display());
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { local: LocalProvider::new(sandbox()), path, home, number })
    }

    /// The one of the machine.
    fn own() -> Arc<Self> {
        Self::new(Path::new("/bin/sh"), "/usr/bin:/bin")
    }

    fn sandbox(self: &Arc<Self>) -> DaemonlessSandbox {
        DaemonlessSandbox::new(TestRuntime::shared(), Arc::clone(self) as _)
    }

    /// A command line that no other shell's processes have.
    fn sleep(&self, seconds: u32) -> String {
        format!("sleep {seconds}{}.PID", self.number)
    }

    fn files(&self) -> PathBuf {
        self.home.0.join(".hangar/bg")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.files()).map(|files| files.collect::<Vec<_>>()).unwrap_or_default();
        let mut names: Vec<_> =
            entries.into_iter().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Provider for Shell {
    fn exec(&self, mut call: Call) -> BoxFuture<'_, Result<Running, StartError>> {
        call.env.insert("HOME".to_owned(), self.home.0.to_str().unwrap().to_owned());
        call.env.insert("PATH".to_owned(), self.path.clone());
        if let Command::Argv(argv) = &mut call.command
            && argv[0] == "/bin/sh"
        {
            "sh".clone_into(&mut argv[0]);
        }
        self.local.exec(call)
    }

    fn has_users(&self) -> bool {
        self.local.has_users()
    }

    fn ends_with_server(&self) -> bool {
        true
    }

    fn destroy(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        self.local.destroy()
    }
}

/// A line for a process, which is kept.
fn line(line: &str) -> Spec {
    kept(Spec { env: std::collections::BTreeMap::new(), ..shell(line) })
}

/// The text that a process has printed, as far as it is kept.
fn printed(handle: &Arc<Handle>) -> String {
    let mut all = Vec::new();
    handle.command(|process| {
        let mut reader = Reader::oldest_kept(process.log());
        while let Some(item) = reader.take(process.log_mut()) {
            if let Item::Frame(frame) = item {
                all.extend_from_slice(&frame.data);
            }
        }
    });
    String::from_utf8(all).unwrap()
}

fn wait_for(handle: &Arc<Handle>, text: &str) {
    // Whoever reads it has it looked after more often.
    let _reading = handle.reader();
    wait_until(text, || printed(handle).contains(text));
}

fn wait_for_end(handle: &Arc<Handle>) -> Exit {
    let _reading = handle.reader();
    wait_until("it has ended", || handle.look(Process::is_over));
    handle.look(Process::exit_status).unwrap()
}

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
