//! Processes of the daemon, as clients of E2B's envd know them, on both runtimes: to start, to follow, to find.

#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "what the checks share may fail as they do, and what they do not expect is all the rest"
)]

use hangar_core::wire::{connect::Code, envd::process::StartRequest};
use hangar_tests::{
    on_both,
    real::{
        Gate, Mark, On,
        envd::{Client, argv, bash, pid, tag},
        wait_until,
    },
};
use std::{io::Write, thread};

on_both! {
    what_a_command_prints_and_how_it_ends
    a_signal_is_no_exit
    a_command_that_cannot_run_is_a_process_that_ended
    what_cannot_be_started_says_why
    the_environment_is_built_and_can_be_added_to
    each_of_several_tags_is_found
    the_newest_of_a_tag_is_meant
    a_client_that_leaves_ends_nothing
    output_that_nobody_reads_holds_up_nobody
    an_exit_is_known_to_who_comes_late
    many_follow_one_process
    all_of_a_large_output_comes
    a_start_whose_client_is_gone_leaves_nothing_behind
}

fn both(envd: &hangar_tests::real::Envd) -> [Client; 2] {
    [envd.json(), envd.proto()]
}

fn what_a_command_prints_and_how_it_ends(on: On) {
    let envd = on.envd();
    for client in both(&envd) {
        let whole = client.start(bash("echo hi; echo er >&2; exit 2")).collect();
        assert_eq!((&*whole.stdout, &*whole.stderr, whole.error), (&b"hi\n"[..], &b"er\n"[..], None));
        let end = whole.end.unwrap();
        assert_eq!((end.exit_code, end.exited, &*end.status), (2, true, "exit status 2"));
        assert_eq!((end.error.as_deref(), end.signal), (Some("exit status 2"), 0));
        let end = client.start(argv(&["/bin/true"])).collect().end.unwrap();
        assert_eq!((end.exit_code, end.exited, &*end.status, end.error), (0, true, "exit status 0", None));
    }
}

fn a_signal_is_no_exit(on: On) {
    let envd = on.envd();
    for (signal, status) in
        [(9, "signal: killed"), (15, "signal: terminated"), (11, "signal: segmentation fault")]
    {
        let end = envd.json().start(bash(&format!("kill -{signal} $$"))).collect().end.unwrap();
        assert_eq!((end.exit_code, end.exited, &*end.status), (-1, false, status));
        assert_eq!(end.error.as_deref(), Some(status));
    }
}

fn a_command_that_cannot_run_is_a_process_that_ended(on: On) {
    let envd = on.envd();
    for (program, code, message) in [
        ("no-such-program", 127, "command not found"),
        ("/etc/passwd", 126, "Permission denied"),
        ("", 127, ""),
    ] {
        let request = StartRequest { tag: Some(format!("tag of {program}")), ..argv(&[program]) };
        let whole = envd.proto().start(request).collect();
        assert_eq!((whole.code(), whole.error), (Some(code), None), "{program}");
        assert!(String::from_utf8(whole.stderr).unwrap().contains(message), "{program}");
        // Whoever comes late finds it by the number that it was given.
        let late = envd.json().connect(pid(whole.pid)).collect();
        assert_eq!((late.code(), late.pid), (Some(code), whole.pid));
    }
}

fn what_cannot_be_started_says_why(on: On) {
    let envd = on.envd();
    let with_cwd = |cwd: &str| {
        let mut request = bash("true");
        request.process.as_mut().unwrap().cwd = Some(cwd.to_owned());
        request
    };
    for client in both(&envd) {
        for (client, request, code, field) in [
            (client.clone(), with_cwd("/no/such"), Code::InvalidArgument, "process.cwd"),
            (client.clone(), with_cwd("/etc/passwd"), Code::InvalidArgument, "process.cwd"),
            (client.clone(), argv(&["true", &"x".repeat(200_000)]), Code::InvalidArgument, "process.cmd"),
            (
                client.with("Authorization", "Basic bm8tc3VjaC11c2VyOg=="),
                bash("true"),
                Code::Unauthenticated,
                "user",
            ),
            (client.with("Authorization", "Basic ?"), bash("true"), Code::Unauthenticated, "Authorization"),
            (
                client.with("Connect-Protocol-Version", "2"),
                bash("true"),
                Code::InvalidArgument,
                "connect-protocol-version",
            ),
            (
                client.with("Connect-Timeout-Ms", "1s"),
                bash("true"),
                Code::InvalidArgument,
                "connect-timeout-ms",
            ),
            (
                client.with("Connect-Timeout-Ms", "0"),
                bash("true"),
                Code::DeadlineExceeded,
                "connect-timeout-ms",
            ),
            (
                client.with("Connect-Content-Encoding", "gzip"),
                bash("true"),
                Code::Unimplemented,
                "connect-content-encoding",
            ),
            (client.with("Hangar-Log", "-1"), bash("true"), Code::InvalidArgument, "hangar-log"),
            (
                client.with("Hangar-Retention", "ring"),
                bash("true"),
                Code::InvalidArgument,
                "hangar-retention",
            ),
            (
                client.with("Hangar-Retention", "until-acknowledged=0"),
                bash("true"),
                Code::InvalidArgument,
                "hangar-retention",
            ),
            (
                client.with("Hangar-Retention", "until-acknowledged=9").with("Hangar-Log", "9"),
                bash("true"),
                Code::InvalidArgument,
                "hangar-log",
            ),
            (client.with("Hangar-Since", "0"), bash("true"), Code::InvalidArgument, "hangar-since"),
            (client.clone(), StartRequest::default(), Code::InvalidArgument, "process"),
        ] {
            let whole = client.start(request).collect();
            let error = whole.error.unwrap();
            assert_eq!((error.code, whole.pid, whole.end), (code, 0, None), "{error}");
            assert!(error.message.contains(field), "{field}: {error}");
        }
    }
    assert_eq!(envd.json().list(), []);
}

fn the_environment_is_built_and_can_be_added_to(on: On) {
    let envd = on.envd();
    let mut request = bash("echo $FOO; pwd; id -un; env | grep -c ^CARGO");
    let config = request.process.as_mut().unwrap();
    config.envs.insert("FOO".to_owned(), "bar".to_owned());
    config.cwd = Some("/usr".to_owned());
    let whole = envd.json().start(request).collect();
    let lines: Vec<String> = whole.text().lines().map(str::to_owned).collect();
    assert_eq!((&*lines[0], &*lines[1], &*lines[3]), ("bar", "/usr", "0"));
}

fn each_of_several_tags_is_found(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let tags = ["a", "b", "c", "d"];
    let started: Vec<_> = tags
        .iter()
        .map(|&name| {
            let mut followed = client.start(StartRequest { tag: Some(name.to_owned()), ..bash("sleep 100") });
            followed.pid()
        })
        .collect();
    for (name, process) in tags.iter().zip(&started) {
        assert_eq!(client.connect(tag(name)).pid(), *process, "{name}");
    }
    let listed: Vec<_> = client.list().into_iter().map(|info| (info.pid, info.tag.unwrap())).collect();
    let expected: Vec<_> = started.into_iter().zip(tags.map(str::to_owned)).collect();
    assert_eq!(listed, expected);
    assert_eq!(client.connect(tag("e")).collect().error.unwrap().code, Code::NotFound);
}

fn the_newest_of_a_tag_is_meant(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let start = || client.start(StartRequest { tag: Some("same".to_owned()), ..bash("sleep 100") }).pid();
    let [old, new] = [start(), start()];
    assert_eq!(client.connect(tag("same")).pid(), new);
    client.signal(pid(new), 9, false).unwrap();
    wait_until("the newest has ended", || client.list().len() == 1);
    assert_eq!(client.connect(tag("same")).pid(), old);
    assert_eq!(client.connect(pid(new)).collect().end.unwrap().status, "signal: killed");
}

fn a_client_that_leaves_ends_nothing(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let gate = Gate::new();
    let mut followed = client.start(bash(&format!("echo first; {}; echo second; exit 5", gate.wait())));
    let process = followed.pid();
    followed.read_until("first\n");
    drop(followed);
    let mut followed = client.connect(pid(process));
    assert_eq!(followed.pid(), process);
    gate.open();
    let whole = followed.collect();
    assert_eq!((whole.text(), whole.code()), ("second\n".to_owned(), Some(5)), "and nothing is replayed");
}

fn output_that_nobody_reads_holds_up_nobody(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let mut followed = client.start(bash("read x; head -c 20000000 /dev/zero; echo done >&2; exit 6"));
    let process = followed.pid();
    drop(followed);
    wait_until("it ends", || client.list().is_empty());
    assert_eq!(client.connect(pid(process)).collect().code(), Some(6));
}

fn an_exit_is_known_to_who_comes_late(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let whole =
        client.start(StartRequest { tag: Some("late".to_owned()), ..bash("echo x; exit 7") }).collect();
    for selector in [pid(whole.pid), tag("late")] {
        let late = client.connect(selector).collect();
        assert_eq!((late.pid, late.code(), &*late.stdout), (whole.pid, Some(7), &b""[..]));
    }
    assert_eq!(client.list(), []);
    assert_eq!(client.signal(pid(whole.pid), 9, false).unwrap_err().code, Code::NotFound);
    assert_eq!(client.connect(pid(1 << 29)).collect().error.unwrap().code, Code::NotFound);
}

fn many_follow_one_process(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let gate = Gate::new();
    let mut first =
        client.start(bash(&format!("{}; for i in $(seq 2000); do echo line $i; done; exit 3", gate.wait())));
    let process = first.pid();
    let mut others: Vec<_> = (0..50).map(|_| client.connect(pid(process))).collect();
    for other in &mut others {
        assert_eq!(other.pid(), process);
    }
    gate.open();
    let expected: String = (1..=2000).map(|i| format!("line {i}\n")).collect();
    thread::scope(|scope| {
        for followed in others.into_iter().chain([first]) {
            let expected = &expected;
            scope.spawn(move || {
                let whole = followed.collect();
                assert_eq!((&whole.text(), whole.code(), whole.error), (expected, Some(3), None));
            });
        }
    });
}

fn all_of_a_large_output_comes(on: On) {
    let envd = on.envd();
    for client in both(&envd) {
        let whole = client.start(bash("seq 1 1000000; echo end >&2")).collect();
        assert_eq!((whole.stdout.len(), &*whole.stderr, whole.code()), (6_888_896, &b"end\n"[..], Some(0)));
        assert!(whole.stdout.ends_with(b"\n999999\n1000000\n"));
    }
}

fn a_start_whose_client_is_gone_leaves_nothing_behind(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let mark = Mark::new();
    for _ in 0..40 {
        let mut request = bash("sleep 555");
        request.process.as_mut().unwrap().envs.insert(Mark::NAME.to_owned(), mark.value().to_owned());
        let mut body = bytes::BytesMut::new();
        hangar_core::wire::connect::envelope::write(0, &mut body, |out| {
            hangar_core::wire::envd::encode(hangar_core::wire::connect::Codec::Json, &request, out);
        });
        let kind = "application/connect+json";
        let mut socket = client.open("POST", "/process.Process/Start", Some(kind), Some(body.len())).unwrap();
        socket.write_all(&body).unwrap();
    }
    // Each is in the list sooner or later, and ends by that: none runs that nobody can find. The last of them may have been
    // accepted just now, so it has to stay so for a while.
    let mut calm = 0;
    wait_until("what runs is known, and ends", || {
        for info in client.list() {
            // It may have ended since.
            client.signal(pid(info.pid), 9, false).ok();
        }
        calm = if mark.living().is_empty() { calm + 1 } else { 0 };
        calm == 50
    });
}
