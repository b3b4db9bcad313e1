//! `hangar start`, `ps`, `logs`, `attach` and `kill`, against a `hangar serve` of their own.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::real::{
    Client, Ended, Folder, Gate, Hangar, Mark, Serving, cli, hangar, proxy::Proxy, wait_until,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    fs::File,
    io::Write,
    net::SocketAddr,
    process::{Command, Stdio},
};

fn call(serving: &Serving, arguments: &[&str]) -> Command {
    serving.client().hangar(arguments)
}

/// A call that reaches the server at another address.
fn through(address: SocketAddr, serving: &Serving, arguments: &[&str]) -> Command {
    Client { address, ..serving.client().clone() }.hangar(arguments)
}

fn run(serving: &Serving, arguments: &[&str]) -> Ended {
    Hangar::run(&mut call(serving, arguments))
}

/// Starts a process, and gives its id.
fn start(serving: &Serving, arguments: &[&str]) -> String {
    let ended = run(serving, &[&["start", "local"], arguments].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
    ended.stdout.trim_end().to_owned()
}

fn wait_for_end(serving: &Serving, process: &str) {
    wait_until("it ends", || view(serving, process)["finished_at_ms"].is_i64());
}

fn view(serving: &Serving, process: &str) -> Value {
    serving.client().get(&format!("/v1/sandboxes/local/processes/{process}")).json()
}

#[test]
fn a_process_is_started_found_read_and_ended() {
    cli("a_process_is_started_found_read_and_ended", || {
        let serving = Serving::start(|_| {});
        let mark = Mark::new();
        let variable = format!("{}={}", Mark::NAME, mark.value());
        let line = "echo one; echo two >&2; pwd; exec sleep 777";
        let id = start(&serving, &["--name", "web", "--cwd", "/", "-e", &variable, line]);
        assert_eq!(id.len(), 26, "nothing but the id: {id:?}");
        mark.wait_for("sleep 777");
        let other = start(&serving, &["printf 'a\\nb\\nc'; exit 3"]);
        wait_for_end(&serving, &other);

        let ended = run(&serving, &["ps", "local"]);
        let rows: Vec<Vec<&str>> = ended.stdout.lines().map(|row| row.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["ID", "NAME", "STATUS", "AGE", "COMMAND"], "{ended:?}");
        assert_eq!(rows[1][..3], [&*id, "web", "running"], "{ended:?}");
        assert_eq!(rows[2][..3], [&*other, "-", "exited(3)"], "{ended:?}");
        let ended = run(&serving, &["ps", "local", "--json"]);
        let json: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(
            (&json["processes"][0]["id"], &json["processes"][1]["exit_code"]),
            (&id.into(), &3.into())
        );

        let ended = run(&serving, &["logs", "local", "web"]);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
        let mut lines: Vec<&str> = ended.stdout.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["/", "one", "two"], "{ended:?}");
        for (tail, shown) in [("all", "a\nb\nc"), ("2", "b\nc"), ("0", ""), ("9", "a\nb\nc")] {
            assert_eq!(run(&serving, &["logs", "local", &other, "--tail", tail]).stdout, shown, "{tail}");
        }

        let ended = run(&serving, &["kill", "local", "web"]);
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "", ""));
        mark.wait_until_gone();
        assert_eq!(view(&serving, "web")["status"], "stopped");
        let third = start(&serving, &["exec sleep 778"]);
        assert_eq!(run(&serving, &["kill", "local", &third, "-s", "usr1"]).code, 0);
        wait_for_end(&serving, &third);
        assert_eq!(view(&serving, &third)["signal"], "SIGUSR1");
    });
}

#[test]
fn what_cannot_be_done_is_said_in_one_line() {
    cli("what_cannot_be_done_is_said_in_one_line", || {
        let serving = Serving::start(|_| {});
        let silent = start(&serving, &["--max-log-bytes", "0", "sleep 0"]);
        for (arguments, says) in [
            (&["ps", "nowhere"][..], "no such sandbox"),
            (&["start", "nowhere", "true"], "no such sandbox"),
            (&["start", "local", "--name", "A B", "true"], "name"),
            (&["logs", "local", "nothing"], "no such process"),
            (&["logs", "-f", "local", "nothing"], "no such process"),
            (&["logs", "-f", "local", &silent], "max_log_bytes"),
            (&["attach", "local", "nothing"], "no such process"),
            (&["kill", "local", "nothing"], "no such process"),
        ] {
            let ended = run(&serving, arguments);
            assert_eq!((ended.code, ended.stdout.as_str()), (125, ""), "{arguments:?}: {ended:?}");
            assert!(ended.stderr.starts_with("hangar: ") && ended.stderr.contains(says), "{ended:?}");
            assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        }
        for arguments in [
            &["kill", "local", "x", "--signal", "NOPE"][..],
            &["logs", "local", "x", "--tail", "-1"],
            &["attach", "local", "x", "--detach-key", "]"],
            &["attach", "local", "x", "--give-up", "0"],
            &["start", "local", " "],
        ] {
            assert_eq!(run(&serving, arguments).code, 2, "{arguments:?}");
        }
        let mut call = call(&serving, &["ps", "local"]);
        assert_eq!(Hangar::run(call.env_remove("HANGAR_TOKEN")).code, 2);
    });
}

#[test]
fn logs_are_followed_to_the_end() {
    cli("logs_are_followed_to_the_end", || {
        let serving = Serving::start(|_| {});
        let gate = Gate::new();
        let line = format!("echo one; {}; echo two >&2; exit 9", gate.wait());
        let id = start(&serving, &[&line]);
        let mut logs = Hangar::start(&mut call(&serving, &["logs", "local", &id, "--follow"]));
        assert_eq!(logs.line().as_deref(), Some("one"));
        gate.open();
        let ended = logs.wait();
        // Whoever reads what another did has not failed with it.
        assert_eq!((ended.code, &*ended.stdout, &*ended.stderr), (0, "", "two\n"));
        let reader = format!("{} logs -f local {id} | head -1", hangar().get_program().display());
        let mut shell = Command::new("bash");
        shell.args(["-c", &reader]).env("HANGAR_TOKEN", &serving.client().token);
        shell.env("HANGAR_URL", format!("http://{}", serving.client().address));
        assert_eq!(Hangar::run(&mut shell).stdout, "one\n");
    });
}

#[test]
fn what_is_piped_in_is_its_input() {
    cli("what_is_piped_in_is_its_input", || {
        let serving = Serving::start(|_| {});
        let id = start(&serving, &["--max-log-bytes", "4000000", "cat; exit 7"]);
        // More than any buffer on the way holds, and the byte of the detach key in it.
        let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251).to_le_bytes()[0]).collect();
        let mut attach = call(&serving, &["attach", "local", &id]);
        let attach = attach.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut attach = attach.spawn().unwrap();
        let (mut stdin, piped) = (attach.stdin.take().unwrap(), sent.clone());
        let writer = std::thread::spawn(move || stdin.write_all(&piped).unwrap());
        let output = attach.wait_with_output().unwrap();
        writer.join().unwrap();
        assert_eq!(output.status.code(), Some(7), "{:?}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout == sent, "{} bytes of {}", output.stdout.len(), sent.len());
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    });
}

#[test]
fn it_ends_as_the_process_does() {
    cli("it_ends_as_the_process_does", || {
        let serving = Serving::start(|_| {});
        for (line, code) in [("true", 0), ("exit 255", 255), ("kill -9 $$", 137), ("kill -INT $$", 130)] {
            let ended = run(&serving, &["start", "local", "--attach", line]);
            assert_eq!((ended.code, ended.stderr.as_str()), (code, ""), "{line}: {ended:?}");
        }
        // One that has ended already.
        let id = start(&serving, &["echo out; echo err >&2; exit 5"]);
        wait_for_end(&serving, &id);
        let ended = run(&serving, &["attach", "local", &id]);
        assert_eq!((ended.code, &*ended.stdout, &*ended.stderr), (5, "out\n", "err\n"));
        // One that another ends.
        let mark = Mark::new();
        let variable = format!("{}={}", Mark::NAME, mark.value());
        let id = start(&serving, &["-e", &variable, "echo begun; exec sleep 777"]);
        let mut attach = Hangar::start(&mut call(&serving, &["attach", "local", &id]));
        assert_eq!(attach.line().as_deref(), Some("begun"));
        assert_eq!(run(&serving, &["kill", "local", &id]).code, 0);
        assert_eq!(attach.wait().code, 143);
    });
}

#[test]
fn whoever_leaves_ends_nothing() {
    cli("whoever_leaves_ends_nothing", || {
        let serving = Serving::start(|_| {});
        let mark = Mark::new();
        let variable = format!("{}={}", Mark::NAME, mark.value());
        let id = start(&serving, &["-e", &variable, "echo begun; exec sleep 777"]);
        let pid = mark.wait_for("sleep 777");
        for signal in [Signal::INT, Signal::TERM] {
            let mut attach = Hangar::start(&mut call(&serving, &["attach", "local", &id]));
            assert_eq!(attach.line().as_deref(), Some("begun"));
            attach.signal(signal);
            assert_eq!(attach.wait().code, 128 + signal.as_raw());
        }
        assert_eq!(mark.named("sleep 777"), [pid]);
    });
}

/// The lines from 1 on, each once.
fn numbered(lines: u32) -> String {
    (1..=lines).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_connection_that_breaks_comes_back_without_a_trace_in_the_output() {
    cli("a_connection_that_breaks_comes_back_without_a_trace_in_the_output", || {
        let serving = Serving::start(|command| {
            command.env("HANGAR_STREAM_BYTES_PER_SECOND", "1000000000");
        });
        let proxy = Proxy::start(serving.client().address);
        for follow in [&["attach", "local"][..], &["logs", "-f", "local"]] {
            let (first, second) = (Gate::new(), Gate::new());
            let line = format!(
                "echo 1; {}; seq 2 50000; {}; for i in $(seq 50001 50100); do echo $i; sleep 0.02; done; exit 6",
                first.wait(),
                second.wait()
            );
            let id = start(&serving, &["--max-log-bytes", "4000000", &line]);
            let arguments = [follow, &[&id, "--tail", "all"]].concat();
            // An input that goes on: its end is not the test's.
            let (input, _held) = std::io::pipe().unwrap();
            let input = File::from(std::os::fd::OwnedFd::from(input));
            let mut command = through(proxy.address(), &serving, &arguments);
            let mut attach = Hangar::start_reading(&mut command, input);
            assert_eq!(attach.line().as_deref(), Some("1"));
            // In the middle of what comes at once: after so many bytes each time.
            proxy.cut_after(&[20_000, 30_000, 7_001, 90_000]);
            first.open();
            let mut shown = "1\n".to_owned();
            while !shown.ends_with("\n50000\n") {
                shown += &format!("{}\n", attach.line().unwrap());
            }
            // While nothing is printed, and then while a line is, now and then.
            proxy.cut();
            second.open();
            for at in 50_001..=50_100 {
                shown += &format!("{}\n", attach.line().unwrap());
                if at % 30 == 0 {
                    proxy.cut();
                }
            }
            let ended = attach.wait();
            shown += &ended.stdout;
            assert!(shown == numbered(50_100), "not each line once; {}", ended.stderr);
            assert_eq!(ended.code, if follow[0] == "attach" { 6 } else { 0 }, "{ended:?}");
            let said: Vec<&str> = ended.stderr.lines().collect();
            assert!(said.len() >= 4, "{said:?}");
            for pair in said.chunks(2) {
                assert!(pair[0].contains("trying for 300 s") && pair[1].ends_with("is back"), "{said:?}");
            }
        }
    });
}

#[test]
fn a_long_input_is_piped_in_to_its_end() {
    cli("a_long_input_is_piped_in_to_its_end", || {
        let serving = Serving::start(|_| {});
        let folder = Folder::new();
        let file = folder.path().join("input");
        // Many times what may wait on the way: a wait for the next ping at each of those would not end here.
        std::fs::write(&file, vec![b'x'; 8 << 20]).unwrap();
        let id = start(&serving, &["wc -c"]);
        let mut command = call(&serving, &["attach", "local", &id]);
        let ended = Hangar::start_reading(&mut command, File::open(&file).unwrap()).wait();
        assert_eq!((ended.code, ended.stdout.as_str()), (0, "8388608\n"), "{ended:?}");
    });
}

#[test]
fn the_limit_of_a_stream_is_no_end_of_what_is_followed() {
    cli("the_limit_of_a_stream_is_no_end_of_what_is_followed", || {
        let serving = Serving::start(|command| {
            command.env("HANGAR_STREAM_MAX_BYTES", "50000");
            command.env("HANGAR_STREAM_BYTES_PER_SECOND", "1000000000");
        });
        let id = start(&serving, &["--max-log-bytes", "4000000", "seq 1 50000; exit 4"]);
        let ended = run(&serving, &["attach", "local", &id, "--tail", "all"]);
        assert!(ended.stdout == numbered(50_000), "{} bytes", ended.stdout.len());
        assert_eq!((ended.code, ended.stderr.as_str()), (4, ""));
    });
}

#[test]
fn no_input_is_lost_at_the_limit_of_a_stream() {
    cli("no_input_is_lost_at_the_limit_of_a_stream", || {
        let serving = Serving::start(|command| {
            command.env("HANGAR_STREAM_MAX_BYTES", "500000");
            command.env("HANGAR_STREAM_BYTES_PER_SECOND", "1000000000");
        });
        let folder = Folder::new();
        let input = folder.file("input");
        std::fs::write(&input, numbered(1_000_000)).unwrap();
        // Every byte comes back, so that the limit is reached again and again.
        let id = start(&serving, &["--max-log-bytes", "16000000", "cat; echo end; exit 4"]);
        let attach = Hangar::start_reading(
            &mut call(&serving, &["attach", "local", &id, "--tail", "all"]),
            File::open(&input).unwrap(),
        );
        let ended = attach.wait();
        assert!(
            ended.stdout == numbered(1_000_000) + "end\n",
            "{} bytes, {}",
            ended.stdout.len(),
            ended.stderr
        );
        assert_eq!((ended.code, ended.stderr.as_str()), (4, ""));
    });
}

#[test]
fn what_was_lost_meanwhile_is_said() {
    cli("what_was_lost_meanwhile_is_said", || {
        let serving = Serving::start(|_| {});
        let proxy = Proxy::start(serving.client().address);
        let (gate, done) = (Gate::new(), Gate::new());
        let line = format!("echo 0; {}; seq 1 200000; {}; echo end", gate.wait(), done.wait());
        let id = start(&serving, &["--max-log-bytes", "1000", &line]);
        let mut logs = Hangar::start(&mut through(proxy.address(), &serving, &["logs", "-f", "local", &id]));
        assert_eq!(logs.line().as_deref(), Some("0"));
        proxy.refuse(true);
        proxy.cut();
        gate.open();
        wait_until("it is printed", || {
            run(&serving, &["logs", "local", &id, "--tail", "1"]).stdout == "200000\n"
        });
        proxy.refuse(false);
        // A frame may begin inside a line.
        let rest_of_line = logs.line().unwrap().len() as u64 + 1;
        let first: u64 = logs.line().unwrap().parse().unwrap();
        let mut next = first;
        while next < 200_000 {
            next += 1;
            assert_eq!(logs.line().unwrap(), next.to_string());
        }
        done.open();
        let ended = logs.wait();
        assert_eq!((ended.code, ended.stdout.as_str()), (0, "end\n"));
        let said = ended.stderr.lines().find(|line| line.contains("bytes of output are gone"));
        let lost: u64 = said.unwrap().split_whitespace().find_map(|word| word.parse().ok()).unwrap();
        let before: u64 = (1..first).map(|line| line.to_string().len() as u64 + 1).sum();
        assert_eq!(lost, before - rest_of_line, "before {first}: {ended:?}");
    });
}

#[test]
fn what_may_be_lost_before_anything_came_is_said() {
    cli("what_may_be_lost_before_anything_came_is_said", || {
        let serving = Serving::start(|_| {});
        let proxy = Proxy::start(serving.client().address);
        let (gate, done) = (Gate::new(), Gate::new());
        let id = start(&serving, &[&format!("{}; echo lost; {}; echo end", gate.wait(), done.wait())]);
        let arguments = ["logs", "-f", "local", &id, "--tail", "0"];
        let logs = Hangar::start(&mut through(proxy.address(), &serving, &arguments));
        let metrics = || serving.client().get("/metrics").body;
        let follows = |count: usize| {
            wait_until("it follows", || metrics().contains(&format!("open{{kind=\"process\"}} {count}\n")));
        };
        follows(1);
        proxy.refuse(true);
        proxy.cut();
        follows(0);
        gate.open();
        wait_until("it is printed", || run(&serving, &["logs", "local", &id]).stdout == "lost\n");
        proxy.refuse(false);
        follows(1);
        done.open();
        let ended = logs.wait();
        assert_eq!((ended.code, ended.stdout.as_str()), (0, "end\n"));
        assert!(ended.stderr.contains("may be gone"), "{ended:?}");
    });
}

#[test]
fn a_server_that_stays_away_is_given_up() {
    cli("a_server_that_stays_away_is_given_up", || {
        let serving = Serving::start(|_| {});
        let proxy = Proxy::start(serving.client().address);
        let mark = Mark::new();
        let variable = format!("{}={}", Mark::NAME, mark.value());
        let (token_id, holder) = serving.client().new_token(&json!({ "scope": "admin" }));
        let as_holder = |address, arguments: &[&str]| {
            let mut command = through(address, &serving, arguments);
            command.env("HANGAR_TOKEN", &holder.token);
            command
        };
        let line = "echo begun; exec sleep 777";
        let started = Hangar::run(&mut as_holder(
            serving.client().address,
            &["start", "local", "-e", &variable, "--name", "it", line],
        ));
        assert_eq!(started.code, 0, "{started:?}");
        let follow = |seconds| {
            let arguments = ["logs", "-f", "local", "it", "--give-up", seconds];
            let mut logs = Hangar::start(&mut as_holder(proxy.address(), &arguments));
            assert_eq!(logs.line().as_deref(), Some("begun"));
            logs
        };
        let logs = follow("1");
        proxy.refuse(true);
        proxy.cut();
        let ended = logs.wait();
        assert_eq!((ended.code, ended.stderr.lines().count()), (125, 2), "{ended:?}");
        assert!(ended.stderr.contains("given up"), "{ended:?}");
        // Nor is one waited for that has nothing more to say to this client.
        proxy.refuse(false);
        let logs = follow("86400");
        proxy.refuse(true);
        proxy.cut();
        serving.client().revoke(&token_id);
        proxy.refuse(false);
        let ended = logs.wait();
        assert!(ended.code == 125 && ended.stderr.contains("401"), "{ended:?}");
        // A server that ends orderly may come back as well.
        let line = "echo begun; exec sleep 778";
        let id = start(&serving, &["-e", &variable, line]);
        let mut logs = Hangar::start(&mut call(&serving, &["logs", "-f", "local", &id, "--give-up", "1"]));
        assert_eq!(logs.line().as_deref(), Some("begun"));
        serving.signal(Signal::TERM);
        let ended = logs.wait();
        assert!(ended.code == 125 && ended.stderr.contains("server_shutdown"), "{ended:?}");
        assert!(ended.stderr.contains("given up"), "{ended:?}");
    });
}
