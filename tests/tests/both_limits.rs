//! What is limited, on both runtimes, and given back.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    on_each,
    real::{Folder, Gate, On, Options, is_root, line, skip, wait_until},
};
use serde_json::json;
use std::{
    fs::File,
    io::Write,
    process::Command,
    time::{Duration, Instant},
};

on_each! {
    a_token_has_sixteen_streams
    all_tokens_together_have_a_limit
    what_is_not_streamed_needs_no_lease
    a_stream_keeps_its_pace
    past_its_cap_a_stream_is_silent_and_the_command_runs_on
    a_full_disk_refuses_tokens_and_forgets_none
}

fn a_token_has_sixteen_streams(on: On) {
    let server = on.start();
    let gate = Gate::new();
    let call = line(gate.wait());
    let leaving = server.client().stream(&line("exec sleep 777"));
    let mut streams: Vec<_> = (0..15).map(|_| server.client().stream(&call)).collect();
    assert_eq!(server.plane().streams().leased(), 16);
    let refused = server.client().try_stream("local", &call).unwrap_err();
    assert_eq!(refused.refusal(), (429, "too_many_streams".to_owned()));
    assert_eq!(refused.json()["error"]["scope"], "token");
    // Another token has its own, and one that is free can be had again.
    let (_, other) = server.client().new_token(&json!({ "scope": "admin" }));
    streams.push(other.stream(&call));
    drop(leaving);
    wait_until("the lease is given back", || server.plane().streams().leased() == 16);
    streams.push(server.client().stream(&call));
    for _ in &streams {
        gate.open();
    }
    for stream in streams {
        assert_eq!(stream.collect().result.exit_code, Some(0));
    }
    assert_eq!(server.plane().streams().leased(), 0);
    assert!(server.plane().streams().is_empty());
}

fn all_tokens_together_have_a_limit(on: On) {
    let mut options = Options::default();
    options.settings.stream_max_total = 2;
    let server = on.start_with(options);
    let gate = Gate::new();
    let (_, other) = server.client().new_token(&json!({ "scope": "admin" }));
    let streams = [server.client().stream(&line(gate.wait())), other.stream(&line(gate.wait()))];
    let refused = other.try_stream("local", &line("echo no")).unwrap_err();
    assert_eq!(refused.refusal(), (429, "too_many_streams".to_owned()));
    assert_eq!(refused.json()["error"]["scope"], "total");
    for stream in streams {
        drop(stream);
    }
    wait_until("the leases are given back", || server.plane().streams().leased() == 0);
    // What was refused for another reason holds none.
    for _ in 0..3 {
        let refused = other.try_stream("local", &line("echo no").set("cwd", "/no/such/folder")).unwrap_err();
        assert_eq!(refused.refusal(), (400, "bad_cwd".to_owned()));
        assert_eq!(other.try_stream("none", &line("echo no")).unwrap_err().status, 404);
    }
    assert_eq!(server.plane().streams().leased(), 0);
    assert_eq!(other.stream(&line("echo yes")).collect().stdout, b"yes\n");
}

fn what_is_not_streamed_needs_no_lease(on: On) {
    let mut options = Options::default();
    options.settings.stream_max_total = 1;
    let server = on.start_with(options);
    let gate = Gate::new();
    let stream = server.client().stream(&line(gate.wait()));
    assert_eq!(server.client().exec(&line("echo yes")).stdout, "yes\n");
    gate.open();
    assert_eq!(stream.collect().result.exit_code, Some(0));
}

fn a_stream_keeps_its_pace(on: On) {
    let mut options = Options::default();
    options.settings.stream_bytes_per_second = 20_000;
    let server = on.start_with(options);
    let begun = Instant::now();
    let collected = server.client().stream(&line("head -c 90000 /dev/zero | tr '\\0' x")).collect();
    assert_eq!(collected.stdout, vec![b'x'; 90_000]);
    // A second's worth at once, and one message of at most 32 KiB above the rest of it.
    assert!(begun.elapsed() > Duration::from_millis(1500), "{:?}", begun.elapsed());
    assert_eq!(collected.result.exit_code, Some(0));
}

fn past_its_cap_a_stream_is_silent_and_the_command_runs_on(on: On) {
    let mut options = Options::default();
    options.settings.stream_max_bytes = 1000;
    let server = on.start_with(options);
    let folder = Folder::new();
    let file = folder.file("ended");
    let command = format!("seq 1 30000; echo ok > {}", file.display());
    let collected = server.client().stream(&line(command)).collect();
    let all: String = (1..=30_000).map(|number| format!("{number}\n")).collect();
    assert_eq!(collected.text(), all[..1000]);
    assert!(collected.result.output_capped && file.exists());
    assert!(collected.result.stdout == all, "the result has the end of it");
    assert_eq!((collected.result.exit_code, collected.result.closed), (Some(0), None));
}

/// A file system of 1 MiB.
struct SmallDisk(Folder);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = Folder::new();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "hangar-tests"])
            .arg(folder.path())
            .output();
        mount.is_ok_and(|mount| mount.status.success()).then_some(Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg(self.0.path()).status().unwrap();
    }
}

fn a_full_disk_refuses_tokens_and_forgets_none(on: On) {
    let disk = if is_root() { SmallDisk::mount() } else { None };
    let Some(disk) = disk else {
        return skip("a_full_disk_refuses_tokens_and_forgets_none", "a file system cannot be mounted here");
    };
    let store = Some(disk.0.file("hangar.db"));
    let server = on.start_with(Options { store: store.clone(), ..Options::default() });
    let admin = json!({ "scope": "admin" });
    let (id, client) = server.client().new_token(&admin);
    let mut filler = File::create(disk.0.file("filler")).unwrap();
    while filler.write(&[0; 4096]).is_ok_and(|written| written > 0) {}
    let full = (507, "disk_full".to_owned());
    assert_eq!(server.client().post("/api/tokens", &admin).refusal(), full);
    assert_eq!(server.client().delete(&format!("/api/tokens/{id}")).refusal(), full);
    // Nothing was changed, and commands run.
    assert_eq!(client.exec(&line("echo hi")).stdout, "hi\n");
    filler.set_len(0).unwrap();
    let (second, _) = server.client().new_token(&admin);
    server.client().revoke(&id);
    drop(server);
    // So the next server finds it.
    let server = on.start_with(Options { store, ..Options::default() });
    let kept = server.client().get("/api/tokens").json();
    let kept = kept["tokens"].as_array().unwrap();
    let find = |id: &str| kept.iter().find(|token| token["id"] == id).unwrap();
    assert!(find(&id)["revoked_at_ms"].is_i64() && find(&second)["revoked_at_ms"].is_null());
    assert_eq!(server.client().with_token(&client.token).get("/api/sandboxes").status, 401);
}
