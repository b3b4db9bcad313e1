//! Sandboxes on this machine, with real processes.
#![cfg(feature = "local")]

mod support;

use hangar_backends::{
    Sandbox,
    local::{Config, User},
    sandbox::{Spec, StartError, Stdin},
};
use hangar_core::{
    log::{Channel, Item, Reader, Retention},
    process::{self, Exit, Process, Signal, Target},
};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};
use support::{NONE, argv, living, read, run, sandbox, sandbox_with, shell, start, unique, wait_until};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

// Output and exit.

#[test]
fn output_comes_in_order_and_the_exit_code_with_it() {
    let ended = run(&sandbox(), shell("for i in 1 2 3; do echo out$i; done; exit 7"));
    assert_eq!((ended.stdout().as_str(), ended.exit), ("out1\nout2\nout3\n", Exit::Code(7)));
    assert!(!ended.drain_timed_out && !ended.timed_out);
}

#[test]
fn stderr_is_apart() {
    let ended = run(&sandbox(), shell("echo a; sleep 0.2; echo b >&2; sleep 0.2; echo c"));
    assert_eq!((ended.stdout().as_str(), ended.stderr().as_str()), ("a\nc\n", "b\n"));
    let order: Vec<Channel> = ended.frames.iter().map(|frame| frame.channel).collect();
    assert_eq!(order, [Channel::Stdout, Channel::Stderr, Channel::Stdout]);
}

#[test]
fn two_million_lines_are_complete() {
    let ended = run(&sandbox(), argv(&["seq", "1", "2000000"]));
    let expected: String = (1..=2_000_000).map(|line| format!("{line}\n")).collect();
    assert!(ended.stdout() == expected, "{} bytes instead of {}", ended.stdout().len(), expected.len());
    assert_eq!(ended.exit, Exit::Code(0));
}

#[test]
fn both_outputs_at_once_starve_neither() {
    let sandbox = sandbox();
    let spec = shell("head -c 3000000 /dev/zero & head -c 3000000 /dev/zero >&2; wait");
    // Either could fill the room for both, again and again.
    let process =
        process::Config { retention: Retention::UntilRead { bytes: 10_000 }, ..spec.process.clone() };
    let ended = run(&sandbox, Spec { process, ..spec });
    assert_eq!(ended.bytes(Channel::Stdout).len(), 3_000_000);
    assert_eq!(ended.bytes(Channel::Stderr).len(), 3_000_000);
    let first = ended.frames.iter().position(|frame| frame.channel == Channel::Stderr).unwrap();
    assert!(
        first < ended.frames.len() / 2,
        "stderr came first after {first} of {} frames",
        ended.frames.len()
    );
}

#[test]
fn a_last_line_just_before_the_exit_is_there() {
    let sandbox = sandbox();
    for _ in 0..50 {
        let ended = run(&sandbox, argv(&["echo", "the only line"]));
        assert_eq!((ended.stdout().as_str(), ended.exit), ("the only line\n", Exit::Code(0)));
    }
}

#[test]
fn bytes_are_unchanged() {
    let ended =
        run(&sandbox(), shell(r"printf '\x01\x01\x01A\x02\x02\x02B\n10%%\r20%%\r\n\n\xff\x00\xe2\x82'"));
    assert_eq!(ended.bytes(Channel::Stdout), b"\x01\x01\x01A\x02\x02\x02B\n10%\r20%\r\n\n\xff\x00\xe2\x82");
}

#[test]
fn a_stalled_reader_blocks_the_command_and_loses_nothing() {
    let sandbox = sandbox();
    let spec = shell("head -c 2000000 /dev/zero; echo done >&2");
    let process =
        process::Config { retention: Retention::UntilRead { bytes: 10_000 }, ..spec.process.clone() };
    let handle = start(&sandbox, Spec { process, ..spec }).unwrap();
    std::thread::sleep(seconds(1));
    let (held, running) = handle.command(|process| (process.log().held(), process.is_running()));
    // What there is no whole packet's room for is not read.
    assert!((10_000 - 4096..=10_000).contains(&held) && running, "{held} bytes, running: {running}");
    let ended = read(&handle);
    assert_eq!(ended.bytes(Channel::Stdout).len(), 2_000_000);
    assert_eq!((ended.stderr().as_str(), ended.exit), ("done\n", Exit::Code(0)));
}

#[test]
fn packets_stay_whole_in_front_of_a_slow_reader() {
    // dd sets O_DIRECT on its standard output: each of its writes is a packet.
    let spec = shell("seq 200000 | dd bs=2999 iflag=fullblock oflag=direct status=none");
    let process =
        process::Config { retention: Retention::UntilRead { bytes: 10_000 }, ..spec.process.clone() };
    let ended = run(&sandbox(), Spec { process, ..spec });
    let expected: String = (1..=200_000).map(|line| format!("{line}\n")).collect();
    assert!(ended.stdout() == expected, "{} bytes instead of {}", ended.stdout().len(), expected.len());
}

#[test]
fn output_nobody_reads_blocks_nothing() {
    let sandbox = sandbox();
    let handle = start(&sandbox, shell("head -c 5000000 /dev/zero; exit 3")).unwrap();
    handle.command(Process::abandon_output);
    wait_until("it ends", || handle.is_released());
    assert_eq!(handle.command(|process| process.exit_status()), Some(Exit::Code(3)));
}

#[test]
fn a_command_may_close_its_output_and_run_on() {
    let sandbox = sandbox();
    let handle = start(&sandbox, shell("echo a; exec >&- 2>&-; sleep 1; exit 4")).unwrap();
    wait_until("the end of output", || handle.command(|process| process.log().is_ended()));
    assert_eq!(handle.command(|process| process.exit_status()), None);
    let ended = read(&handle);
    assert_eq!((ended.stdout().as_str(), ended.exit), ("a\n", Exit::Code(4)));
}

#[test]
fn a_grandchild_that_holds_the_output_is_not_waited_for() {
    let sandbox = sandbox();
    for line in ["sleep 60.01PID & echo done", "setsid sleep 60.02PID & echo done"] {
        let ended = run(&sandbox, shell(line));
        assert_eq!((ended.stdout().as_str(), ended.exit), ("done\n", Exit::Code(0)), "{line}");
        assert!(ended.drain_timed_out, "{line}");
        assert!(ended.took >= seconds(2) && ended.took < seconds(6), "{line}: {:?}", ended.took);
        assert!(!ended.handle.is_released(), "{line}");
        ended.handle.command(Process::kill);
        wait_until("it ends", || ended.handle.is_released());
    }
    assert_eq!((living("sleep 60.01PID"), living("sleep 60.02PID")), (vec![], vec![]));
}

#[test]
fn after_the_drain_output_is_taken_and_dropped() {
    let sandbox = sandbox();
    // A closed pipe would end it at the first line; one that nobody reads would block it.
    let ended =
        run(&sandbox, shell("(sleep 3; head -c 300000 /dev/zero && echo alive > hangar-drained-PID) &"));
    assert!(ended.drain_timed_out);
    wait_until("the end of the grandchild", || ended.handle.is_released());
    assert_eq!(fs::read_to_string(unique("/tmp/hangar-drained-PID")).unwrap(), "alive\n");
    fs::remove_file(unique("/tmp/hangar-drained-PID")).unwrap();
}

#[test]
fn a_signal_that_ended_it_is_told() {
    let ended = run(&sandbox(), shell("kill -9 $$"));
    assert_eq!((ended.exit, ended.frames.len()), (Exit::Signal(9), 0));
}

// Input.

#[test]
fn input_is_written_and_ended() {
    let sandbox = sandbox();
    let handle = start(&sandbox, Spec { stdin: Stdin::Open, ..shell("wc -c; echo read") }).unwrap();
    let text = "x".repeat(500_000);
    assert_eq!(handle.command(|process| process.write_stdin(text.into())), None);
    handle.command(Process::close_stdin);
    assert_eq!(read(&handle).stdout(), "500000\nread\n");
}

#[test]
fn without_input_there_is_none() {
    let ended = run(&sandbox(), shell("cat; echo a; sleep 1; echo b"));
    assert_eq!(ended.stdout(), "a\nb\n");
}

#[test]
fn input_that_nobody_reads_hurts_nobody() {
    let sandbox = sandbox();
    let handle =
        start(&sandbox, Spec { stdin: Stdin::Open, ..shell("exec <&-; sleep 0.5; echo done") }).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    handle.command(|process| process.write_stdin("x".repeat(200_000).into()));
    let ended = read(&handle);
    assert_eq!((ended.stdout().as_str(), ended.exit), ("done\n", Exit::Code(0)));
}

#[test]
fn a_command_that_does_not_read_can_be_signalled() {
    let sandbox = sandbox();
    let handle = start(&sandbox, Spec { stdin: Stdin::Open, ..argv(&["sleep", "61.01PID"]) }).unwrap();
    handle.command(|process| process.write_stdin("x".repeat(1_000_000).into()));
    handle.command(|process| process.signal(Signal::USR1, Target::Group));
    assert_eq!(read(&handle).exit, Exit::Signal(10));
}

// Its end.

#[test]
fn the_environment_is_built_and_not_inherited() {
    // Cargo has put its own variables into this process's environment.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let user = User::current();
    let mut spec = argv(&["env"]);
    spec.env = BTreeMap::from([
        ("MINE".into(), "a b\nc".into()),
        ("LANG".into(), "C".into()),
        ("HANGAR_PROCESS_ID".into(), "forged".into()),
    ]);
    let id = spec.id.clone();
    let output = run(&sandbox(), spec).stdout();
    let mut lines: Vec<&str> =
        output.lines().filter(|line| !line.starts_with("HANGAR_SANDBOX_ID=")).collect();
    lines.sort_unstable();
    let expected = [
        format!("HANGAR_PROCESS_ID={id}"),
        format!("HOME={}", user.home.display()),
        "LANG=C".into(),
        format!("LOGNAME={}", user.name),
        "MINE=a b".into(),
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into(),
        format!("SHELL={}", user.shell.display()),
        format!("USER={}", user.name),
        "c".into(),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn nothing_but_the_three_descriptors_is_passed_on() {
    let sandbox = sandbox();
    let other = start(&sandbox, Spec { stdin: Stdin::Open, ..shell("sleep 100.08PID") }).unwrap();
    let ended = run(&sandbox, argv(&["ls", "-l", "/proc/self/fd"]));
    // Whoever started the tests may have passed descriptors on to them; those are for everyone.
    let inherited = |fd: &str| {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).map(str::trim);
        flags
            .and_then(|flags| i64::from_str_radix(flags, 8).ok())
            .is_some_and(|flags| flags & 0o2_000_000 == 0)
    };
    for line in ended.stdout().lines().filter(|line| line.contains(" -> ")) {
        let fd = line.split(" -> ").next().unwrap().rsplit(' ').next().unwrap();
        let own = matches!(fd, "0" | "1" | "2") || line.contains("/proc/");
        assert!(own || inherited(fd), "{line}");
    }
    other.command(Process::kill);
    wait_until("it ends", || other.is_released());
}

#[test]
fn the_directory_is_there_or_nothing_starts() {
    let sandbox = sandbox();
    let pwd = |cwd: &str| start(&sandbox, Spec { cwd: Some(cwd.into()), ..argv(&["pwd"]) });
    let folder = unique("/tmp/hangar test folder PID");
    fs::create_dir_all(&folder).unwrap();
    assert_eq!(read(&pwd("/").unwrap()).stdout(), "/\n");
    assert_eq!(read(&pwd(&unique("hangar test folder PID")).unwrap()).stdout(), format!("{folder}\n"));
    assert_eq!(run(&sandbox, argv(&["pwd"])).stdout(), "/tmp\n");
    let error = |cwd: &str| pwd(cwd).unwrap_err();
    let bad = |message: &str| StartError::BadCwd(message.into());
    assert_eq!(error("no/such"), bad("no/such: no such directory"));
    assert_eq!(error("/etc/passwd"), bad("/etc/passwd: not a directory"));
    assert_eq!(error("/etc/passwd/x"), bad("/etc/passwd/x: not a directory"));
    assert!(matches!(error("nul\0"), StartError::BadCwd(_)));
    fs::remove_dir(folder).unwrap();
    assert_eq!(sandbox.processes().len(), 0);
}

#[test]
fn a_command_that_cannot_run_ends_as_a_shell_says_it() {
    let sandbox = sandbox();
    let file = unique("/tmp/hangar-not-executable-PID");
    fs::write(&file, "x").unwrap();
    let cases: [(&[&str], i32, &str); 6] = [
        (&["hangar-no-such-program"], 127, "hangar-no-such-program: command not found\n"),
        (&["/tmp/hangar-no-such"], 127, "/tmp/hangar-no-such: No such file or directory\n"),
        (&[&file], 126, &format!("{file}: Permission denied\n")),
        (&["/tmp"], 126, "/tmp: Permission denied\n"),
        (&[], 127, ": command not found\n"),
        (&["nul\0"], 127, "nul\0: command not found\n"),
    ];
    for (command, code, message) in cases {
        let ended = run(&sandbox, argv(command));
        assert_eq!((ended.exit, ended.stderr().as_str()), (Exit::Code(code), message), "{command:?}");
        assert!(ended.handle.is_released() && ended.stdout().is_empty());
    }
    fs::remove_file(file).unwrap();
    let ended = run(&sandbox, shell("hangar-no-such-program"));
    assert_eq!(ended.exit, Exit::Code(127));
    assert!(ended.stderr().ends_with("hangar-no-such-program: command not found\n"), "{}", ended.stderr());
    let ended = run(&sandbox, argv(&["echo", "nul\0"]));
    assert_eq!(ended.exit, Exit::Code(126));
    let too_long = |field| StartError::TooLong { field };
    let long = argv(&["echo", &"x".repeat(3_000_000)]);
    assert_eq!(start(&sandbox, long).unwrap_err(), too_long("command"));
    let mut long = shell("true");
    long.env.insert("LONG".into(), "x".repeat(128 * 1024));
    assert_eq!(start(&sandbox, long).unwrap_err(), too_long("env"));
    assert_eq!(sandbox.processes().len(), 0);
}

#[test]
fn a_program_is_looked_for_in_the_path_of_its_environment() {
    let mut spec = argv(&["sh", "-c", "echo $0"]);
    spec.env = BTreeMap::from([("PATH".into(), "/nowhere:/bin".into())]);
    assert_eq!(run(&sandbox(), spec.clone()).stdout(), "sh\n");
    spec.env = BTreeMap::from([("PATH".into(), "/nowhere".into())]);
    assert_eq!(run(&sandbox(), Spec { id: "01OTHER".into(), ..spec }).exit, Exit::Code(127));
}

#[test]
fn root_can_run_commands_as_another_user() {
    if !is_root() {
        println!("skipped: not root");
        return;
    }
    let shell = |line: &str| Spec { env: BTreeMap::new(), ..shell(line) };
    let nobody = User::named("nobody").unwrap();
    let line = "id -u; id -G; echo $HOME $USER $LOGNAME $SHELL; kill -0 1 2>/dev/null || echo denied";
    let expected = format!(
        "{}\n{}\n{} nobody nobody {}\ndenied\n",
        nobody.uid,
        nobody.gid,
        nobody.home.display(),
        nobody.shell.display()
    );
    let any = sandbox();
    assert_eq!(run(&any, Spec { user: Some("nobody".into()), ..shell(line) }).stdout(), expected);
    assert!(any.capabilities().users);
    let bad_user = |error: &str| StartError::BadUser(error.into());
    let forbidden = |error: &str| StartError::ForbiddenUser(error.into());
    let unknown = start(&any, Spec { user: Some("no-such".into()), ..shell(line) });
    assert_eq!(unknown.unwrap_err(), bad_user("there is no user no-such"));

    let own = sandbox_with(Config { user: Some(nobody), ..Config::default() });
    assert!(!own.capabilities().users);
    // Its home is not there, so it runs in the root.
    assert_eq!(run(&own, shell(&format!("{line}; pwd"))).stdout(), format!("{expected}/\n"));
    assert_eq!(run(&own, Spec { user: Some("nobody".into()), ..shell(line) }).stdout(), expected);
    let other = start(&own, Spec { user: Some("root".into()), ..shell(line) });
    assert_eq!(other.unwrap_err(), forbidden("commands of this sandbox run as nobody"));

    let closed = unique("/tmp/hangar-closed-PID");
    fs::create_dir_all(format!("{closed}/inner")).unwrap();
    fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let cwd = format!("{closed}/inner");
    let refused = start(&own, Spec { cwd: Some(cwd.clone()), ..shell("pwd") });
    assert_eq!(refused.unwrap_err(), StartError::BadCwd(format!("{cwd}: permission denied")));
    fs::remove_dir_all(closed).unwrap();

    // It can be killed, and so can what left its group.
    let handle = start(&own, shell("setsid sleep 100.09PID & sleep 100.09PID")).unwrap();
    wait_until("both run", || living("sleep 100.09PID").len() == 2);
    handle.command(Process::kill);
    wait_until("it ends", || handle.is_released());
    assert_eq!(living("sleep 100.09PID"), NONE);
}

// The sandbox.

#[test]
fn an_id_is_used_once_at_a_time() {
    let sandbox = sandbox();
    let spec = shell("sleep 100.12PID");
    let handle = start(&sandbox, spec.clone()).unwrap();
    assert!(matches!(start(&sandbox, spec).unwrap_err(), StartError::Broken(_)));
    assert!(Arc::ptr_eq(&sandbox.processes()[0], &handle));
    handle.command(Process::kill);
    wait_until("it ends", || handle.is_released());
}

#[test]
fn whoever_starts_and_goes_away_leaves_nothing() {
    let sandbox = sandbox();
    for _ in 0..20 {
        let mut starting = sandbox.start(shell("sleep 100.13PID"));
        let mut cx = Context::from_waker(Waker::noop());
        // It may be so fast that it is there at once; that is another case.
        if let Poll::Ready(handle) = starting.as_mut().poll(&mut cx) {
            handle.unwrap().command(Process::kill);
        }
    }
    wait_until("it is ended", || sandbox.processes().is_empty());
    assert_eq!(living("sleep 100.13PID"), NONE);
}

#[test]
fn many_at_once_end_together() {
    let sandbox = sandbox();
    let handles: Vec<_> =
        (0..150).map(|_| start(&sandbox, shell("sleep 100.14PID & wait")).unwrap()).collect();
    wait_until("all run", || living("sleep 100.14PID").len() == 150);
    for handle in &handles {
        handle.command(Process::kill);
    }
    let took = wait_until("all end", || handles.iter().all(|handle| handle.is_released()));
    println!("150 processes ended in {took:?}");
    assert_eq!(living("sleep 100.14PID"), NONE);
}

#[test]
fn a_gap_is_told_by_a_ring() {
    let sandbox = sandbox();
    let spec = argv(&["seq", "1", "100000"]);
    let process = process::Config { retention: Retention::Ring { bytes: 1000 }, ..spec.process.clone() };
    let handle = start(&sandbox, Spec { process, ..spec }).unwrap();
    wait_until("it ends", || handle.is_released());
    handle.command(|process| {
        let mut reader = Reader::at_offset(process.log_mut(), 0).unwrap();
        assert!(matches!(reader.take(process.log_mut()), Some(Item::Gap(_))));
        let mut last = Vec::new();
        while let Some(Item::Frame(frame)) = reader.take(process.log_mut()) {
            last = frame.data.to_vec();
        }
        assert!(last.ends_with(b"\n100000\n"));
    });
}
