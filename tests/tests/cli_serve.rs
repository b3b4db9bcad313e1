//! `hangar serve`, as its operator uses it.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::real::{
    Folder, Gate, Hangar, Mark, Serving, cli, hangar, is_root, line, machine::children, skip, wait_until,
};
use rustix::process::Signal;
use serde_json::json;
use std::{
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Starts a server that is to refuse, and gives what it said in its one line.
fn refusal(change: impl FnOnce(&mut Command)) -> String {
    let folder = Folder::new();
    let mut command = hangar();
    Serving::command(&mut command, &folder);
    change(&mut command);
    let ended = Hangar::run(&mut command);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{ended:?}");
    assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{ended:?}");
    ended.stderr
}

#[test]
fn the_call_that_it_prints_works() {
    cli("the_call_that_it_prints_works", || {
        let serving = Serving::with_token(Folder::new(), |_| {});
        let greeting = serving.greeting();
        assert!(greeting.contains(&format!("admin token, shown this once: {}", serving.client().token)));
        let printed = &greeting[greeting.find("  curl ").unwrap()..];
        if Command::new("curl").arg("--version").output().is_err() {
            return skip("the_call_that_it_prints_works", "there is no curl");
        }
        let output = Command::new("bash").arg("-c").arg(printed).env_remove("HANGAR_TOKEN").output().unwrap();
        let body = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && body.contains("event: result"), "{body}");
        for number in 1..=3 {
            assert!(body.contains(&format!("data: {{\"data\":\"{number}\\n\"}}")), "{body}");
        }
        assert!(!serving.log().contains(&serving.client().token), "no token is logged");
    });
}

#[test]
fn the_call_that_it_prints_works_with_a_given_token() {
    cli("the_call_that_it_prints_works_with_a_given_token", || {
        let serving = Serving::start(|_| {});
        let token = &serving.client().token;
        assert!(!serving.greeting().contains(token), "what the operator knows is not shown");
        let printed = &serving.greeting()[serving.greeting().find("  curl ").unwrap()..];
        if Command::new("curl").arg("--version").output().is_err() {
            return skip("the_call_that_it_prints_works_with_a_given_token", "there is no curl");
        }
        let output = Command::new("bash").arg("-c").arg(printed).env("HANGAR_TOKEN", token).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("event: result"), "{output:?}");
    });
}

#[test]
fn a_limit_that_cannot_be_one_is_refused_by_name() {
    cli("a_limit_that_cannot_be_one_is_refused_by_name", || {
        for name in [
            "HANGAR_STREAM_MAX_PER_TOKEN",
            "HANGAR_STREAM_MAX_TOTAL",
            "HANGAR_STREAM_BYTES_PER_SECOND",
            "HANGAR_STREAM_MAX_BYTES",
            "HANGAR_STREAM_RECHECK_SECONDS",
            "HANGAR_WATCH_MAX_PER_TOKEN",
            "HANGAR_LOCAL_DRAIN_SECONDS",
        ] {
            for value in ["0", "-1", "many", "1e3", "99999999999999999999"] {
                let said = refusal(|command| {
                    command.env(name, value);
                });
                assert!(said.contains(name) && said.contains(value), "{said}");
            }
        }
        let said = refusal(|command| {
            command.args(["--stream-max-total", "0"]);
        });
        assert!(said.contains("HANGAR_STREAM_MAX_TOTAL") && said.contains("it must be at least 1"), "{said}");
    });
}

#[test]
fn what_it_cannot_serve_is_refused() {
    cli("what_it_cannot_serve_is_refused", || {
        let open = |command: &mut Command| {
            command.args(["--listen", "0.0.0.0:0"]);
        };
        let folder = Folder::new();
        let ended =
            Hangar::run(hangar().args(["serve", "--listen", "0.0.0.0:0", "--data"]).arg(folder.path()));
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains("HANGAR_TOKEN") && ended.stderr.contains("loopback"), "{ended:?}");
        // With a token it listens there, without the sandbox `local`.
        let mut command = hangar();
        open(command.arg("serve"));
        command.arg("--data").arg(folder.file("data")).env("HANGAR_TOKEN", "x");
        let mut serving = Hangar::start(&mut command);
        let first = serving.line().unwrap();
        let port = first.rsplit(':').next().unwrap();
        let list = Command::new("bash")
            .arg("-c")
            .arg(format!(
                "exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET /api/sandboxes HTTP/1.1\\r\\nHost: localhost\\r\\n\
                 Authorization: Bearer x\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3"
            ))
            .output()
            .unwrap();
        let list = String::from_utf8(list.stdout).unwrap();
        assert!(list.ends_with("{\"sandboxes\":[]}"), "{list}");
        let said = refusal(|command| {
            command.args(["--local-user", "no-such-user"]);
        });
        assert!(said.contains("no-such-user"), "{said}");
        let said = refusal(|command| {
            command.env("HANGAR_TOKEN_FILE", "/no/such/file");
        });
        assert!(said.contains("HANGAR_TOKEN_FILE"), "{said}");
        let said = refusal(|command| {
            command.env("HANGAR_TOKEN", "two words");
        });
        assert!(said.contains("HANGAR_TOKEN") && !said.contains("two words"), "{said}");
        let said = refusal(|command| {
            command.args(["--public-url", "not a url"]);
        });
        assert!(said.contains("not a url"), "{said}");
    });
}

#[test]
fn one_server_has_its_data() {
    cli("one_server_has_its_data", || {
        let serving = Serving::start(|_| {});
        let mut second = hangar();
        second.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(serving.data());
        let ended = Hangar::run(&mut second);
        assert_eq!(ended.code, 125, "{ended:?}");
        assert!(ended.stderr.contains("in use") && ended.stderr.contains("--data"), "{ended:?}");
        // Nor can it have an address that another listens on.
        let taken = serving.client().address.to_string();
        let folder = Folder::new();
        let ended = Hangar::run(hangar().args(["serve", "--listen", &taken, "--data"]).arg(folder.path()));
        assert!(ended.code == 125 && ended.stderr.contains(&taken), "{ended:?}");
    });
}

#[test]
fn tokens_outlive_a_restart() {
    cli("tokens_outlive_a_restart", || {
        let serving = Serving::with_token(Folder::new(), |_| {});
        let admin = serving.client().clone();
        assert_eq!(mode(&serving.data()), 0o700);
        assert_eq!(mode(&serving.data().join("token")), 0o600);
        let (kept_id, kept) = admin.new_token(&json!({ "scope": "admin", "name": "kept" }));
        let (revoked_id, revoked) = admin.new_token(&json!({ "scope": "admin" }));
        admin.revoke(&revoked_id);
        for file in ["hangar.db", "hangar.db-wal", "hangar.db-shm"] {
            assert_eq!(mode(&serving.data().join(file)), 0o600, "{file}");
        }
        serving.signal(Signal::TERM);
        let (code, _, folder) = serving.wait();
        assert_eq!(code, 0);
        assert_eq!(
            names(&folder.file("data")),
            ["hangar.db", "key", "lock", "token"],
            "the store was closed"
        );
        assert_eq!(mode(&folder.file("data/key")), 0o600);
        let bytes = std::fs::read(folder.file("data/hangar.db")).unwrap();
        let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(has(&kept_id) && !has(&kept.token), "the secret itself is nowhere");

        let serving = Serving::with_token(folder, |_| {});
        assert_eq!(serving.client().token, admin.token);
        assert!(!serving.greeting().contains(&admin.token), "it is shown once");
        let now = serving.client();
        assert_eq!(now.get("/api/sandboxes").status, 200);
        assert_eq!(now.with_token(&kept.token).get("/api/sandboxes").status, 200);
        assert_eq!(now.with_token(&revoked.token).get("/api/sandboxes").status, 401);
        let listed = now.get("/api/tokens").json();
        let listed = listed["tokens"].as_array().unwrap();
        let find = |id: &str| listed.iter().find(|token| token["id"] == id).unwrap();
        assert_eq!(find(&kept_id)["name"], "kept");
        assert!(find(&revoked_id)["revoked_at_ms"].is_i64());
        // One that was killed on the spot is no different.
        let data = serving.data();
        serving.signal(Signal::KILL);
        let (_, _, folder) = serving.wait();
        assert_eq!(data, folder.file("data"));
        let serving = Serving::with_token(folder, |_| {});
        assert_eq!(serving.client().with_token(&kept.token).get("/api/sandboxes").status, 200);
    });
}

#[test]
fn a_store_that_it_cannot_use_is_refused() {
    cli("a_store_that_it_cannot_use_is_refused", || {
        let folder = Folder::new();
        let file = folder.file("data/hangar.db");
        std::fs::create_dir(folder.file("data")).unwrap();
        std::fs::write(&file, "no database\n".repeat(1000)).unwrap();
        let mut command = hangar();
        Serving::command(&mut command, &folder);
        let ended = Hangar::run(&mut command);
        assert_eq!((ended.code, ended.stdout.as_str()), (125, ""), "{ended:?}");
        let said = ended.stderr;
        assert!(said.contains(file.to_str().unwrap()) && said.contains("not a database"), "{said}");
        assert!(!folder.file("data/token").exists(), "no token was made that nobody was shown");
    });
}

#[test]
fn a_token_is_made_and_shown_once_nothing_else_is_wrong() {
    cli("a_token_is_made_and_shown_once_nothing_else_is_wrong", || {
        let folder = Folder::new();
        let refused = |change: &dyn Fn(&mut Command), names: &str| {
            let mut command = hangar();
            Serving::command(&mut command, &folder);
            change(&mut command);
            let ended = Hangar::run(&mut command);
            assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{ended:?}");
            assert!(ended.stderr.contains(names), "{ended:?}");
            assert!(!folder.file("data/token").exists(), "no token was made that nobody was shown");
        };
        let url = "http://127.0.0.1:49983";
        for (sandboxes, names) in [
            (format!("a={url},b={url},a=http://127.0.0.1:49984"), "a sandbox named a already"),
            (format!("local={url}"), "a sandbox named local already"),
            (format!("Far={url}"), "--sandbox Far="),
            (format!("={url}"), "--sandbox ="),
            (format!("01k00000000000000000000000={url}"), "a ULID"),
            (format!("{}={url}", "a".repeat(64)), "[a-z0-9]"),
            (url.to_owned(), "name=http://"),
            ("a=127.0.0.1".to_owned(), "--sandbox a=127.0.0.1: "),
        ] {
            refused(&|command| _ = command.env("HANGAR_SANDBOXES", &sandboxes), names);
        }
        assert!(!folder.file("data").exists(), "nothing was made before they were looked at");
        refused(&|command| _ = command.env("HANGAR_KEY", "k".repeat(31)), "HANGAR_KEY");
        let bad_token = |command: &mut Command| {
            command.args(["--sandbox", &format!("a={url}")]).env("HANGAR_SANDBOX_TOKEN", "two words");
        };
        refused(&bad_token, "HANGAR_SANDBOX_TOKEN");
        let serving = Serving::with_token(folder, |command| {
            command.env("HANGAR_SANDBOXES", format!("a={url},b={url}")).env("HANGAR_SANDBOX_TOKEN", "t");
        });
        let shown = format!("admin token, shown this once: {}\n", serving.client().token);
        assert!(serving.greeting().contains(&shown), "{}", serving.greeting());
        let listed = serving.client().get("/api/sandboxes").json();
        let listed = listed["sandboxes"].as_array().unwrap();
        assert!(["local", "a", "b"].iter().all(|name| listed.iter().any(|one| one["name"] == *name)));
        assert_eq!(listed.len(), 3);
    });
}

#[test]
fn it_lets_commands_end_when_it_is_stopped() {
    cli("it_lets_commands_end_when_it_is_stopped", || {
        let serving = Serving::start(|_| {});
        let (gate, folder) = (Gate::new(), Folder::new());
        let file = folder.file("ended");
        let call = line(format!("echo begun; {}; echo ok > {}", gate.wait(), file.display()));
        let mut stream = serving.client().stream(&call);
        stream.read_until("begun\n");
        serving.signal(Signal::TERM);
        assert_eq!(stream.collect().result.closed.as_deref(), Some("shutdown"));
        gate.open();
        let (code, log, _) = serving.wait();
        assert_eq!(code, 0, "{log}");
        assert!(file.exists() && !log.contains("were killed"), "{log}");
    });
}

#[test]
fn a_second_signal_hurries_it() {
    cli("a_second_signal_hurries_it", || {
        let serving = Serving::start(|command| {
            command.env("HANGAR_LOCAL_DRAIN_SECONDS", "3600");
        });
        let mark = Mark::new();
        let call = line("sleep 777 & setsid sleep 778 & echo begun; wait").mark(&mark);
        let mut stream = serving.client().stream(&call);
        stream.read_until("begun\n");
        let begun = Instant::now();
        serving.signal(Signal::TERM);
        assert_eq!(stream.collect().result.closed.as_deref(), Some("shutdown"));
        serving.signal(Signal::INT);
        let (code, log, _) = serving.wait();
        assert_eq!(code, 0, "{log}");
        assert!(log.contains("1 commands did not end in time and were killed"), "{log}");
        mark.wait_until_gone();
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    });
}

#[test]
fn orphans_are_reaped() {
    cli("orphans_are_reaped", || {
        let serving = Serving::start(|_| {});
        let result = serving.client().exec(&line("for i in 1 2 3; do (setsid true &) ; done; echo ok"));
        assert_eq!(result.stdout, "ok\n");
        wait_until("no child is left", || children(serving.pid()).is_empty());
    });
}

#[test]
fn a_hundred_starts_leave_no_child() {
    cli("a_hundred_starts_leave_no_child", || {
        let serving = Serving::start(|command| {
            command.env("HANGAR_BACKGROUND_MAX_PER_TOKEN", "100");
        });
        let client = serving.client();
        for _ in 0..25 {
            client.exec(&line("true"));
            client.start_line("(setsid true &); exit 3");
            client.start_line("kill -KILL $$");
            let stopped = client.start_line("sleep 777 & setsid sleep 778 & wait");
            client.of("DELETE", &stopped, "", &serde_json::json!({}));
        }
        // Neither a zombie nor what left the group of who was stopped.
        wait_until("no child is left", || children(serving.pid()).is_empty());
    });
}

#[test]
fn its_secrets_are_not_for_its_commands() {
    cli("its_secrets_are_not_for_its_commands", || {
        let secret = "hangar-tests-serving";
        if !is_root() {
            // The same user, but it is not dumpable.
            let serving = Serving::start(|_| {});
            return secrets_are_safe(&serving, secret);
        }
        secrets_are_safe(
            &Serving::start(|command| {
                command.args(["--local-user", "nobody"]);
            }),
            secret,
        );
        // And a server that is not root.
        let folder = Folder::new();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let nobody = hangar_backends::local::User::named("nobody").unwrap();
        let mut probe = hangar();
        probe.arg("--version").uid(nobody.uid).gid(nobody.gid).current_dir("/");
        if probe.output().is_err() {
            return skip(
                "its_secrets_are_not_for_its_commands",
                "nobody may not run hangar from this folder",
            );
        }
        secrets_are_safe(
            &Serving::with_token(folder, |command| {
                command.env("HANGAR_TOKEN", secret).uid(nobody.uid).gid(nobody.gid).current_dir("/");
            }),
            secret,
        );
    });
}

fn secrets_are_safe(serving: &Serving, secret: &str) {
    let run = |command: String| serving.client().stream(&line(command)).collect();
    assert!(!run("env".to_owned()).text().contains(secret));
    let pid = serving.pid();
    for file in ["environ", "maps", "mem"] {
        let read = run(format!("head -c 1 /proc/{pid}/{file} && echo read"));
        assert_eq!((read.text().as_str(), read.result.exit_code), ("", Some(1)), "{file}");
    }
    assert!(!serving.log().contains(secret) && !serving.greeting().contains(secret));
}

#[test]
fn what_ended_while_the_server_was_stopped_ended_in_time() {
    cli("what_ended_while_the_server_was_stopped_ended_in_time", || {
        let serving = Serving::start(|_| {});
        let call = line("echo begun; sleep 1; exit 3").set("timeout", 2);
        let mut stream = serving.client().stream(&call);
        stream.read_until("begun\n");
        serving.signal(Signal::STOP);
        std::thread::sleep(Duration::from_secs(3));
        serving.signal(Signal::CONT);
        let result = stream.collect().result;
        assert_eq!((result.exit_code, result.timed_out), (Some(3), false), "{result:?}");
    });
}

#[test]
fn what_the_server_ignores_its_commands_do_not() {
    cli("what_the_server_ignores_its_commands_do_not", || {
        let serving = Serving::after("trap '' HUP QUIT", |_| {});
        let shown = serving.client().exec(&line("exec grep SigIgn /proc/self/status")).stdout;
        let ignored = u64::from_str_radix(shown.trim_start_matches("SigIgn:").trim(), 16).unwrap();
        assert_eq!(ignored & 0b101, 0, "SIGHUP and SIGQUIT: {shown}");
        // As nohup asks of it.
        serving.signal(Signal::HUP);
        serving.signal(Signal::QUIT);
        assert_eq!(serving.client().exec(&line("echo on")).stdout, "on\n");
    });
}
