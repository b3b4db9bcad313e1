//! Files of the daemon that are no content on a disk, on both runtimes.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    on_both,
    real::{
        Folder, On,
        envd::{argv, bash, pid},
        skip,
    },
};
use serde_json::json;
use std::{
    fs::{self, OpenOptions},
    io::Read,
    os::unix::fs::OpenOptionsExt,
};

on_both! {
    a_file_that_has_nothing_to_read_now_is_an_error
    a_file_that_breaks_off_is_an_answer_that_is_cut
    a_program_that_runs_is_not_written_over
}

/// What the kernel logs: it comes, and then there is nothing for now.
const LOG: &str = "/proc/kmsg";

fn has_log() -> bool {
    let non_blocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(non_blocking).open(LOG).is_ok()
}

fn a_file_that_has_nothing_to_read_now_is_an_error(on: On) {
    if !has_log() {
        return skip("a_file_that_has_nothing_to_read_now_is_an_error", "the kernel's log cannot be read");
    }
    let envd = on.envd();
    // Each takes what there is, so after a few there is nothing.
    let mut statuses =
        (0..1000).map(|_| envd.json().raw("GET", &format!("/files?path={LOG}"), None, b"").unwrap().status);
    let refused = statuses.find(|status| *status != 200);
    assert_eq!(refused, Some(409));
    let folder = Folder::new();
    let asked = json!({ "source_paths": [LOG], "destination": folder.file("all") }).to_string();
    let composed = envd.json().raw("POST", "/files/compose", Some("application/json"), asked.as_bytes());
    // Who may not remove it is told that.
    assert!([403, 409].contains(&composed.unwrap().status));
}

fn a_file_that_breaks_off_is_an_answer_that_is_cut(on: On) {
    let envd = on.envd();
    // Nothing came yet: it can be said what is wrong.
    assert_eq!(envd.json().raw("GET", "/files?path=/proc/self/mem", None, b"").unwrap().status, 500);
    if !has_log() {
        return skip("a_file_that_breaks_off_is_an_answer_that_is_cut", "the kernel's log cannot be read");
    }
    for _ in 0..1000 {
        if fs::write("/dev/kmsg", "<7>hangar: a line of a test\n").is_err() {
            return skip("a_file_that_breaks_off_is_an_answer_that_is_cut", "nothing can be logged");
        }
        let mut answer = envd.json().raw("GET", &format!("/files?path={LOG}"), None, b"").unwrap();
        // Somebody else was faster.
        if answer.status == 409 {
            continue;
        }
        let mut came = Vec::new();
        assert_eq!(answer.status, 200);
        assert!(answer.read_to_end(&mut came).is_err(), "it was cut after {} bytes", came.len());
        return assert!(!came.is_empty());
    }
    panic!("the log of the kernel has nothing in it, whatever is written to it");
}

fn a_program_that_runs_is_not_written_over(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let folder = Folder::new();
    let program = folder.file("program");
    let path = program.to_str().unwrap();
    client.start(bash(&format!("cp /bin/sleep {path}"))).collect();
    let mut followed = client.start(argv(&[path, "777"]));
    let process = followed.pid();
    let kind = Some("application/octet-stream");
    let refused = client.raw("POST", &format!("/files?path={path}"), kind, b"").unwrap();
    assert_eq!((refused.status, fs::metadata(path).unwrap().len() > 0), (409, true));
    client.signal(pid(process), 9, false).unwrap();
    followed.collect();
}
