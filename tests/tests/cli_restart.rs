//! `hangar serve`, killed and started again, with a sandbox behind a daemon of its own.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use futures_lite::future::block_on;
use hangar_backends::store::{SqliteStore, Store as _};
use hangar_tests::{
    envd,
    real::{
        Client, Gate, Hangar, Mark, Serving,
        envd::{Running, launching},
        proxy::Proxy,
        wait_until,
    },
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{net::SocketAddr, thread, time::Duration};

const PROCESSES: &str = "/api/sandboxes/far/processes";

/// The lines from 1 on, slowly enough for a restart in the middle.
const LINES: &str = "for i in $(seq 1 300); do echo $i; sleep 0.01; done; exit 9";

fn numbered(lines: u32) -> String {
    (1..=lines).map(|line| format!("{line}\n")).collect()
}

/// A server whose sandbox `far` is behind the daemon at `daemon`.
fn serve(daemon: SocketAddr) -> Serving {
    Serving::start(|command| {
        command.args(["--no-local", "--sandbox", &format!("far=http://{daemon}")]);
    })
}

/// Kills it, does something while there is none, and starts it again.
fn restart(serving: Serving, daemon: SocketAddr, meanwhile: impl FnOnce(&std::path::Path)) -> Serving {
    let client = serving.client().clone();
    serving.signal(Signal::KILL);
    let (_, _, folder) = serving.wait();
    meanwhile(&folder.file("data"));
    Serving::again(folder, client.address, |command| {
        command.env("HANGAR_TOKEN", &client.token);
        command.args(["--no-local", "--sandbox", &format!("far=http://{daemon}")]);
    })
}

#[test]
fn clients_go_on_where_they_were() {
    launching("clients_go_on_where_they_were", || {
        let envd = Running::start(|_| {});
        let serving = serve(envd.address());
        let client = serving.client().clone();
        let process = client.start_in("far", &json!({ "command": LINES }));
        let mut attach = Hangar::start(&mut client.hangar(["attach", "far", &process]));
        let mut logs = Hangar::start(&mut client.hangar(["logs", "-f", "far", &process]));
        for line in 1..=20 {
            assert_eq!(attach.line(), Some(line.to_string()));
            assert_eq!(logs.line(), Some(line.to_string()));
        }
        let serving = restart(serving, envd.address(), |_| ());
        let (attach, logs) = (attach.wait(), logs.wait());
        let rest: String = (21..=300).map(|line| format!("{line}\n")).collect();
        assert_eq!((attach.code, &attach.stdout), (9, &rest), "{}", attach.stderr);
        assert_eq!((logs.code, &logs.stdout), (0, &rest), "{}", logs.stderr);
        let shown = serving.client().show_in("far", &process);
        assert_eq!((&shown["adopted"], &shown["exit_code"]), (&json!(true), &json!(9)));
        assert_eq!((&shown["output"], &shown["gap"]), (&json!(numbered(300)), &Value::Null));
        // Of one that ended, and is still listed: once more.
        let serving = restart(serving, envd.address(), |_| ());
        wait_until("it is found", || serving.client().show_in("far", &process)["exit_code"] == 9);
        assert_eq!(serving.client().show_in("far", &process)["output"], numbered(300));
    });
}

#[test]
fn why_a_process_ended_is_remembered() {
    launching("why_a_process_ended_is_remembered", || {
        let envd = Running::start(|_| {});
        let serving = serve(envd.address());
        let client = serving.client().clone();
        let view = |client: &Client, process: &str| {
            let mut view = client.get(&format!("/v1/sandboxes/far/processes/{process}")).json();
            // What is stored is the time just before that.
            view.as_object_mut().unwrap().remove("started_at_ms");
            view
        };
        let first = client.start_in("far", &json!({ "command": "sleep 777" }));
        let again = client.post(&format!("/v1/sandboxes/far/processes/{first}/restart"), &json!({}));
        assert_eq!(again.status, 201, "{again:?}");
        let second = again.json()["id"].as_str().unwrap().to_owned();
        let stopped =
            client.start_in("far", &json!({ "command": "trap 'exit 3' TERM; echo on; sleep 777 & wait" }));
        wait_until("it runs", || client.show_in("far", &stopped)["output"] == "on\n");
        let signalled = client.start_in("far", &json!({ "command": "kill -TERM $$" }));
        assert_eq!(client.delete(&format!("/v1/sandboxes/far/processes/{stopped}")).status, 202);
        let ids = [first.clone(), second, stopped, signalled];
        // It is told before it is stored.
        let store = SqliteStore::open(&serving.data().join("hangar.db")).unwrap();
        let stored = |id: &String| block_on(store.process(id)).unwrap().is_some_and(|it| it.end.is_some());
        wait_until("three ends are stored", || ids.iter().filter(|id| stored(id)).count() == 3);
        drop(store);
        let before = ids.each_ref().map(|id| view(&client, id));
        let reasons = before.each_ref().map(|view| view["finish_reason"].as_str());
        assert_eq!(reasons, [Some("stopped"), None, Some("stopped"), Some("signaled")], "{before:?}");
        assert_eq!((&before[1]["restarted_from"], &before[2]["exit_code"]), (&json!(first), &json!(3)));
        let serving = restart(serving, envd.address(), |_| ());
        let client = serving.client();
        wait_until("it is found", || view(client, &ids[1])["status"] == "running");
        assert_eq!(ids.each_ref().map(|id| view(client, id)), before);
    });
}

#[test]
fn twenty_that_are_followed_lose_nothing() {
    launching("twenty_that_are_followed_lose_nothing", || {
        let envd = Running::start(|_| {});
        let serving = Serving::start(|command| {
            command.args(["--no-local", "--sandbox", &format!("far=http://{}", envd.address())]);
            command.args(["--background-max-per-token", "20", "--stream-max-per-token", "40"]);
        });
        let client = serving.client().clone();
        let ids: Vec<String> =
            (0..20).map(|_| client.start_in("far", &json!({ "command": LINES }))).collect();
        let followed: Vec<Hangar> =
            ids.iter().map(|id| Hangar::start(&mut client.hangar(["logs", "-f", "far", id]))).collect();
        wait_until("they are under way", || {
            ids.iter().all(|id| {
                client.show_in("far", id)["output"].as_str().is_some_and(|output| output.len() > 50)
            })
        });
        // With the limits that are usual: what runs is taken over all the same.
        let serving = restart(serving, envd.address(), |_| ());
        for followed in followed {
            let ended = followed.wait();
            assert_eq!((ended.code, ended.stdout), (0, numbered(300)), "{}", ended.stderr);
        }
        drop(serving);
    });
}

#[test]
fn where_the_daemon_keeps_nothing_the_gap_is_said() {
    launching("where_the_daemon_keeps_nothing_the_gap_is_said", || {
        let envd = Running::start(|_| {});
        let proxy = Proxy::start(envd.address());
        proxy.hide_hangar();
        let serving = serve(proxy.address());
        let client = serving.client().clone();
        let gate = Gate::new();
        let command = format!("echo before; {}; echo after; exit 4", gate.wait());
        let process = client.start_in("far", &json!({ "command": command }));
        let mut attach = Hangar::start(&mut client.hangar(["attach", "far", &process]));
        assert_eq!(attach.line().as_deref(), Some("before"));
        let serving = restart(serving, proxy.address(), |_| ());
        wait_until("it is found", || serving.client().show_in("far", &process)["gap"].is_object());
        gate.open();
        let ended = attach.wait();
        assert_eq!((ended.code, &*ended.stdout), (4, "after\n"), "{}", ended.stderr);
        assert!(ended.stderr.contains("missing") || ended.stderr.contains("gone"), "{}", ended.stderr);
        let gap = &serving.client().show_in("far", &process)["gap"];
        assert_eq!((&gap["reason"], gap.get("bytes")), (&json!("adopted"), None), "{gap}");
    });
}

#[test]
fn a_cursor_waits_until_its_sandbox_is_reached() {
    launching("a_cursor_waits_until_its_sandbox_is_reached", || {
        let envd = Running::start(|_| {});
        let proxy = Proxy::start(envd.address());
        let serving = serve(proxy.address());
        let gate = Gate::new();
        let command = format!("echo before; {}; echo after; exit 4", gate.wait());
        let process = serving.client().start_in("far", &json!({ "command": command }));
        wait_until("it prints", || serving.client().show_in("far", &process)["next"] == 7);
        proxy.refuse(true);
        let serving = restart(serving, proxy.address(), |_| ());
        let client = serving.client();
        thread::scope(|scope| {
            let read = |path: String| scope.spawn(move || client.get(&path));
            let stream = read(format!("{PROCESSES}/{process}/stream?since=7"));
            let poll = read(format!("{PROCESSES}/{process}?since=7"));
            thread::sleep(Duration::from_secs(1));
            assert!(!stream.is_finished() && !poll.is_finished(), "they wait");
            proxy.refuse(false);
            let polled = poll.join().unwrap().json();
            assert_eq!((&polled["output"], &polled["from"]), (&json!(""), &json!(7)));
            gate.open();
            let events = stream.join().unwrap().body;
            assert!(
                events.contains("after") && !events.contains("before") && !events.contains("gap"),
                "{events}"
            );
        });
        // Of one that is not reached nothing is known for a while.
        proxy.refuse(true);
        let serving = restart(serving, proxy.address(), |_| ());
        let refused = serving.client().get(&format!("{PROCESSES}/{process}?since=7"));
        assert_eq!(refused.refusal(), (503, "sandbox_unreachable".to_owned()));
    });
}

#[test]
fn a_token_that_is_revoked_meanwhile_loses_its_processes() {
    launching("a_token_that_is_revoked_meanwhile_loses_its_processes", || {
        let envd = Running::start(|_| {});
        let serving = serve(envd.address());
        let (id, user) = serving.client().new_token(&json!({ "scope": "user" }));
        let mark = Mark::new();
        user.start_in("far", &json!({ "command": "sleep 777", "env": { (Mark::NAME): mark.value() } }));
        mark.wait_for("sleep 777");
        let _serving = restart(serving, envd.address(), |data| {
            let store = SqliteStore::open(&data.join("hangar.db")).unwrap();
            block_on(store.revoke_token(&id, 1)).unwrap();
        });
        mark.wait_until_gone();
    });
}

/// Starts a process, whose mark somebody in the sandbox has seen: they start one with it, and one with a mark that they made
/// up for a process that nobody has started.
fn start_and_copy_mark(client: &Client, envd: &Running) -> String {
    let process = client.start_in("far", &json!({ "command": "echo mine; sleep 777" }));
    wait_until("it runs", || client.show_in("far", &process)["output"] == "mine\n");
    let daemon = envd.json();
    let tag = daemon.list()[0].tag.clone().unwrap();
    assert!(tag.starts_with(&format!("hangar:{process}:")), "{tag}");
    let forged = tag.replace(&process, "01K00000000000000000000000");
    for tag in [&tag, &forged] {
        let mut request = envd::bash("echo theirs; sleep 777");
        request.tag = Some(tag.clone());
        let mut followed = daemon.start(request);
        followed.pid();
        followed.read_until("theirs\n");
    }
    process
}

#[test]
fn a_copied_mark_is_not_taken_for_the_process() {
    launching("a_copied_mark_is_not_taken_for_the_process", || {
        let envd = Running::start(|_| {});
        let serving = serve(envd.address());
        let client = serving.client().clone();
        let process = start_and_copy_mark(&client, &envd);
        // What is told to the process is told to no other.
        let input = format!("/v1/sandboxes/far/processes/{process}/signal");
        assert_eq!(client.post(&input, &json!({ "name": "SIGUSR1" })).status, 204);
        wait_until("mine has ended of it", || client.show_in("far", &process)["state"] == "exited");
        assert_eq!(
            (&client.show_in("far", &process)["signal"], envd.json().list().len()),
            (&json!("SIGUSR1"), 2)
        );
    });
}

#[test]
fn a_copied_mark_is_not_taken_over() {
    launching("a_copied_mark_is_not_taken_over", || {
        let envd = Running::start(|_| {});
        let serving = serve(envd.address());
        let client = serving.client().clone();
        let process = start_and_copy_mark(&client, &envd);
        let serving = restart(serving, envd.address(), |_| ());
        let client = serving.client();
        wait_until("it is given up", || client.show_in("far", &process)["state"] == "exited");
        let shown = client.show_in("far", &process);
        assert_eq!((&shown["output"], &shown["exit_code"]), (&json!(""), &Value::Null));
        assert!(serving.log().contains("stands more than once"), "{}", serving.log());
        let list = client.get(PROCESSES).json();
        assert_eq!(list["processes"].as_array().map(Vec::len), Some(1), "{list}");
        assert_eq!(envd.json().list().len(), 3, "nobody was ended");
    });
}

#[test]
fn sandboxes_are_remembered_until_they_are_destroyed() {
    launching("sandboxes_are_remembered_until_they_are_destroyed", || {
        let envd = Running::start(|_| {});
        let serving = serve(envd.address());
        let url = format!("http://{}", envd.address());
        for name in ["kept", "gone"] {
            let request = json!({ "name": name, "provider": "envd", "url": url, "workdir": "/tmp" });
            assert_eq!(serving.client().post("/api/sandboxes", &request).status, 201);
        }
        assert_eq!(serving.client().delete("/api/sandboxes/gone").status, 204);
        let before = serving.client().get("/api/sandboxes").body;
        let serving = restart(serving, envd.address(), |_| ());
        assert_eq!(serving.client().get("/api/sandboxes").body, before);
        let run = serving.client().post("/api/sandboxes/kept/exec", &json!({ "command": "pwd" }));
        assert_eq!(run.json()["stdout"], "/tmp\n");
    });
}
