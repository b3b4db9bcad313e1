//! Files of the daemon that are no content on a disk, on both runtimes.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    on_both,
    real::{Folder, On, skip},
};
use serde_json::json;
use std::{fs::OpenOptions, os::unix::fs::OpenOptionsExt};

on_both! {
    a_file_that_has_nothing_to_read_now_is_an_error
}

fn a_file_that_has_nothing_to_read_now_is_an_error(on: On) {
    const LOG: &str = "/proc/kmsg";
    let non_blocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    if OpenOptions::new().read(true).custom_flags(non_blocking).open(LOG).is_err() {
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
