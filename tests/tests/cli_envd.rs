//! `hangar-envd`, as whoever puts it into a sandbox uses it.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_core::wire::{
    connect::{Code, RpcError},
    envd::{
        filesystem::{CreateWatcherResponse, WatchDirRequest},
        process::StartRequest,
    },
};
use hangar_tests::real::{
    Folder, Hangar, Mark,
    binary::envd,
    envd::{Client, Running, bash, launching, pid},
    is_root,
    machine::{children, resident},
    skip, wait_until,
};
use rustix::process::Signal;
use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    process::{Command, Stdio},
};

/// With a home that is nowhere, as tests must not depend on the profile of whoever runs them.
fn quick(script: &str) -> StartRequest {
    let mut request = bash(script);
    request.process.as_mut().unwrap().envs.insert("HOME".to_owned(), "/nonexistent".to_owned());
    request
}

fn text(client: &Client, script: &str) -> String {
    client.start(quick(script)).collect().text()
}

#[test]
fn help_and_version_say_what_it_is() {
    launching("help_and_version_say_what_it_is", || {
        let help = Hangar::run(envd().arg("--help"));
        assert_eq!((help.code, &*help.stderr), (0, ""));
        for word in ["HANGAR_ENVD_TOKEN", "--listen", "unix:PATH", "--root", "--user", "E2B"] {
            assert!(help.stdout.contains(word), "{word}: {}", help.stdout);
        }
        let version = Hangar::run(envd().arg("--version"));
        assert_eq!(
            (version.code, version.stdout),
            (0, format!("hangar-envd {}\n", env!("CARGO_PKG_VERSION")))
        );
    });
}

#[test]
fn a_wrong_call_says_in_a_line_what_to_do() {
    launching("a_wrong_call_says_in_a_line_what_to_do", || {
        let folder = Folder::new();
        let empty = folder.file("empty");
        fs::write(&empty, "\n").unwrap();
        type Change<'a> = &'a dyn Fn(&mut Command);
        let spaced = folder.file("spaced");
        fs::write(&spaced, "a b\n").unwrap();
        let cases: [(&str, Change<'_>); 11] = [
            ("unset it", &|command| {
                command.env("HANGAR_ENVD_TOKEN", "");
            }),
            ("HANGAR_ENVD_TOKEN", &|command| {
                command.args(["--listen", "0.0.0.0:0"]);
            }),
            ("--listen", &|command| {
                command.args(["--listen", "localhost"]);
            }),
            ("--user", &|command| {
                command.args(["--user", "no-such-user"]);
            }),
            ("--root", &|command| {
                command.args(["--root", "/no/such/directory"]);
            }),
            ("HANGAR_ENVD_TOKEN_FILE", &|command| {
                command.env("HANGAR_ENVD_TOKEN_FILE", "/no/such/file");
            }),
            ("is empty", &|command| {
                command.env("HANGAR_ENVD_TOKEN_FILE", &empty);
            }),
            ("visible ASCII", &|command| {
                command.env("HANGAR_ENVD_TOKEN_FILE", &spaced);
            }),
            ("visible ASCII", &|command| {
                command.env("HANGAR_ENVD_TOKEN", "s\u{e9}cret");
            }),
            ("set one of them", &|command| {
                command.env("HANGAR_ENVD_TOKEN_FILE", "/x").env("HANGAR_ENVD_TOKEN", "x");
            }),
            ("RUST_LOG", &|command| {
                command.env("RUST_LOG", "hangar=loud");
            }),
        ];
        for (words, change) in cases {
            let mut command = envd();
            change(&mut command);
            let ended = Hangar::run(&mut command);
            assert_eq!((ended.code, &*ended.stdout), (2, ""), "{words}: {ended:?}");
            assert!(ended.stderr.contains(words), "{words}: {ended:?}");
        }
        let first = Running::start(|_| {});
        let ended = Hangar::run(envd().args(["--listen", &first.address().to_string()]));
        assert_eq!((ended.code, ended.stderr.trim_end().lines().count()), (1, 1), "{ended:?}");
        assert!(ended.stderr.contains("in use"), "{ended:?}");
    });
}

#[test]
fn a_token_comes_from_the_environment_or_a_file_and_goes_nowhere() {
    launching("a_token_comes_from_the_environment_or_a_file_and_goes_nowhere", || {
        let folder = Folder::new();
        let file = folder.file("token");
        fs::write(&file, "secret\n").unwrap();
        for running in [
            Running::start(|command| {
                command.env("HANGAR_ENVD_TOKEN", "secret");
            }),
            Running::start(|command| {
                command.env("HANGAR_ENVD_TOKEN_FILE", &file);
            }),
        ] {
            let (without, with) = (running.json(), running.json().with("X-Access-Token", "secret"));
            assert_eq!(without.raw("GET", "/envs", None, b"").unwrap().status, 401);
            assert_eq!(text(&with, "env | grep -c HANGAR_ENVD"), "0\n");
            assert!(!running.log().contains("secret"));
        }
    });
}

#[test]
fn a_unix_socket_is_listened_on() {
    launching("a_unix_socket_is_listened_on", || {
        let folder = Folder::new();
        let path = folder.file("socket");
        let mut command = envd();
        command.args(["--listen", &format!("unix:{}", path.display())]);
        let daemon = Hangar::start(&mut command);
        let mut socket = None;
        wait_until("it listens", || {
            socket = UnixStream::connect(&path).ok();
            socket.is_some()
        });
        let mut socket = socket.unwrap();
        socket.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 204 ") && answer.contains("hangar-envd: 1"), "{answer}");
        daemon.signal(Signal::TERM);
        assert_eq!(daemon.wait().code, 0);
        assert!(!path.exists(), "its file is gone");
    });
}

#[test]
fn a_signal_ends_it_with_all_that_it_started() {
    launching("a_signal_ends_it_with_all_that_it_started", || {
        for (signal, code) in [(Signal::TERM, 0), (Signal::INT, 130), (Signal::HUP, 129), (Signal::QUIT, 131)]
        {
            let (running, mark) = (Running::start(|_| {}), Mark::new());
            let mut request = quick(
                "setsid sleep 777 & trap 'echo told; exit 5' TERM INT HUP QUIT; echo up; while :; do sleep 0.05; done",
            );
            request.process.as_mut().unwrap().envs.insert(Mark::NAME.to_owned(), mark.value().to_owned());
            let mut followed = running.json().start(request);
            followed.pid();
            followed.read_until("up\n");
            mark.wait_for("sleep 777");
            running.signal(signal);
            followed.read_until("told\n");
            assert_eq!(followed.collect().code(), Some(5), "a stream has its end");
            assert_eq!(running.wait(), code, "{signal:?}");
            mark.wait_until_gone();
        }
    });
}

#[test]
fn a_signal_for_programs_is_passed_on() {
    launching("a_signal_for_programs_is_passed_on", || {
        let running = Running::start(|_| {});
        let mut followed = running.json().start(quick(
            "trap 'echo one' USR1; trap 'echo two; exit' USR2; echo up; while :; do sleep 0.05; done",
        ));
        followed.pid();
        followed.read_until("up\n");
        running.signal(Signal::USR1);
        followed.read_until("one\n");
        running.signal(Signal::USR2);
        followed.read_until("two\n");
        assert_eq!(followed.collect().code(), Some(0));
    });
}

#[test]
fn a_daemon_that_is_killed_ends_no_stream_well() {
    launching("a_daemon_that_is_killed_ends_no_stream_well", || {
        let (running, mark) = (Running::start(|_| {}), Mark::new());
        let mut request = quick("echo up; exec sleep 777");
        request.process.as_mut().unwrap().envs.insert(Mark::NAME.to_owned(), mark.value().to_owned());
        let mut followed = running.json().start(request);
        followed.pid();
        followed.read_until("up\n");
        running.signal(Signal::KILL);
        assert!(followed.try_next().is_err(), "it was cut, and does not look as if it had ended");
        mark.kill();
    });
}

#[test]
fn orphans_are_reaped() {
    launching("orphans_are_reaped", || {
        let running = Running::start(|_| {});
        let client = running.json();
        for _ in 0..20 {
            client.start(quick("(sleep 0.1 >/dev/null 2>&1 &) ; exit 0")).collect();
        }
        wait_until("no child of it is left", || children(running.pid()).is_empty());
    });
}

#[test]
fn commands_have_no_descriptor_but_their_own() {
    launching("commands_have_no_descriptor_but_their_own", || {
        let running = Running::start(|_| {});
        let client = running.json();
        let _open: Vec<_> = (0..5).map(|_| client.start(quick("sleep 100"))).collect();
        let open = text(&client, "ls -l /proc/self/fd");
        for what in ["socket:", "anon_inode:", "pidfd", "/dev/ptmx"] {
            assert!(!open.contains(what), "{open}");
        }
    });
}

#[test]
fn a_directory_is_all_that_is_served() {
    launching("a_directory_is_all_that_is_served", || {
        let folder = Folder::new();
        fs::write(folder.file("inside"), "in").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.file("link")).unwrap();
        let running = Running::start(|command| {
            command.arg("--root").arg(folder.path());
        });
        let status =
            |path: &str| running.json().raw("GET", &format!("/files?path={path}"), None, b"").unwrap().status;
        let root = folder.path().display();
        assert_eq!(status(&format!("{root}/inside")), 200);
        for outside in ["/etc/passwd".to_owned(), format!("{root}/link"), format!("{root}/../../etc/passwd")]
        {
            assert_eq!(status(&outside), 403, "{outside}");
        }
        std::os::unix::fs::symlink("/etc", folder.file("way")).unwrap();
        for (path, code) in [
            (format!("{root}"), None),
            (format!("{root}/way"), Some(Code::PermissionDenied)),
            (format!("{root}/.."), Some(Code::PermissionDenied)),
            ("/etc".to_owned(), Some(Code::PermissionDenied)),
        ] {
            let asked = WatchDirRequest { path: path.clone(), ..WatchDirRequest::default() };
            let watched: Result<CreateWatcherResponse, RpcError> =
                running.json().call("/filesystem.Filesystem/CreateWatcher", &asked);
            assert_eq!(watched.err().map(|error| error.code), code, "{path}");
        }
    });
}

/// Whether namespaces can be made here; says so where not.
fn has_namespaces(test: &str) -> bool {
    let made = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--mount-proc", "true"])
        .stderr(Stdio::null())
        .status();
    let has = is_root() && made.is_ok_and(|status| status.success());
    if !has {
        skip(test, "namespaces take root and a kernel that lets it");
    }
    has
}

#[test]
fn as_the_first_process_it_reaps_and_passes_on() {
    let name = "as_the_first_process_it_reaps_and_passes_on";
    launching(name, move || {
        if !has_namespaces(name) {
            return;
        }
        let running = Running::in_namespaces("true");
        let client = running.json();
        assert_eq!(text(&client, "cat /proc/1/comm"), "hangar-envd\n");
        for _ in 0..10 {
            client.start(quick("(setsid sleep 0.1 >/dev/null 2>&1 &) ; exit 0")).collect();
        }
        wait_until("what it was left is reaped", || {
            text(&client, "grep -l 'State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l") == "0\n"
        });
        let mut followed = client.start(quick("trap 'echo hup' HUP; echo up; while :; do sleep 0.05; done"));
        let process = followed.pid();
        followed.read_until("up\n");
        // A terminal that is gone is no reason to end a container.
        let first = children(running.pid())[0];
        let signal = |signal| {
            let first = rustix::process::Pid::from_raw(first.cast_signed()).unwrap();
            rustix::process::kill_process(first, signal).unwrap();
        };
        signal(Signal::HUP);
        followed.read_until("hup\n");
        client.signal(pid(process), 9, false).unwrap();
        followed.collect();
        signal(Signal::TERM);
        assert_eq!(running.wait(), 0);
    });
}

#[test]
fn it_serves_where_nearly_nothing_is_there() {
    let name = "it_serves_where_nearly_nothing_is_there";
    launching(name, move || {
        if !has_namespaces(name) {
            return;
        }
        let running = Running::in_namespaces(
            "mount -t tmpfs -o size=16k none /tmp; dd if=/dev/zero of=/tmp/full bs=1k 2>/dev/null || true; \
             mount -t tmpfs none /proc/sys; mount --bind / /; mount -o remount,bind,ro /; \
             export HOME=/nonexistent TMPDIR=/tmp",
        );
        let client = running.json();
        assert_eq!(text(&client, "echo works; pwd"), "works\n/\n".replace("/\n", &text(&client, "pwd")));
        // What is full, and what may not be written to, is said and is no end of anything.
        let put = |path: &str| {
            let kind = Some("application/octet-stream");
            client.raw("POST", &format!("/files?path={path}"), kind, &[0; 100_000]).unwrap().status
        };
        assert_eq!(put("/tmp/file"), 507);
        assert_eq!(put("/file"), 403);
        assert_eq!(client.raw("GET", "/health", None, b"").unwrap().status, 204);
        assert_eq!(client.raw("GET", "/metrics", None, b"").unwrap().status, 200);
        assert_eq!(client.start(quick("exit 3")).collect().code(), Some(3));
    });
}

#[test]
fn five_hundred_streams_cost_little() {
    launching("five_hundred_streams_cost_little", || {
        let running = Running::start(|_| {});
        let client = running.json();
        let open: Vec<_> = (0..500)
            .map(|_| {
                let mut followed = client.start(quick("echo up; exec sleep 1000"));
                followed.pid();
                followed
            })
            .collect();
        // Of an unoptimized build: the release one has 24 MiB for this, and docs/envd.md its figures.
        let kib = resident(running.pid()) / 1024;
        assert!(kib < 64 * 1024, "{kib} KiB");
        assert_eq!(client.list().len(), open.len());
    });
}
