//! `hangar watch`, against a `hangar serve` of its own.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::real::{Folder, Hangar, Serving, cli, skip};
use serde_json::json;
use std::{fs, path::Path, process::Command};

#[test]
fn a_refusal_is_said_in_one_line() {
    cli("a_refusal_is_said_in_one_line", || {
        let serving = Serving::start(|_| {});
        for (arguments, code, says) in [
            (&["nowhere", "/"][..], 125, "no such sandbox"),
            (&["local", ""], 125, "path"),
            (&["local", "/", "--give-up", "0"], 2, "--give-up"),
            (&["local"], 2, "PATH"),
        ] {
            let ended = Hangar::run(serving.client().hangar(["watch"]).args(arguments));
            assert_eq!((ended.code, ended.stdout.as_str()), (code, ""), "{ended:?}");
            assert!(ended.stderr.contains(says), "{says} in {ended:?}");
            assert!(code == 2 || ended.stderr.trim_end().lines().count() == 1, "{ended:?}");
        }
    });
}

/// A server for whose user the system has less of something, in a user namespace: None where none can be made here.
fn with_setting(test: &str, setting: &str, value: u32) -> Option<Serving> {
    let made = Command::new("unshare").args(["--user", "--map-root-user", "true"]).status();
    if !made.is_ok_and(|status| status.success()) {
        skip(test, "a limit of its own takes a user namespace");
        return None;
    }
    let set = format!("echo {value} > /proc/sys/user/{setting}");
    let shell =
        format!(r#"exec unshare --user --map-root-user bash -c '{set} && exec "$0" "$@"' "$0" "$@" && true"#);
    Some(Serving::after(&shell, |_| {}))
}

#[test]
fn a_system_that_watches_no_more_says_which_setting_it_is() {
    let test = "a_system_that_watches_no_more_says_which_setting_it_is";
    cli(test, move || {
        for setting in ["max_inotify_watches", "max_inotify_instances"] {
            let Some(serving) = with_setting(test, setting, 0) else { return };
            let refused = serving.client().try_watch("/tmp", "").unwrap_err();
            assert_eq!(refused.refusal(), (503, "exhausted".to_owned()));
            let name = setting.replace("inotify", "user");
            assert!(refused.body.contains(&format!("fs.inotify.{name}")), "{refused:?}");
        }
    });
}

#[test]
fn a_watch_that_grows_past_what_the_system_watches_ends_and_says_so() {
    let test = "a_watch_that_grows_past_what_the_system_watches_ends_and_says_so";
    cli(test, move || {
        let Some(serving) = with_setting(test, "max_inotify_watches", 4) else { return };
        let folder = Folder::new();
        let query = format!("{}&recursive=true", folder.path().display());
        let mut watch = serving.client().watch(&query);
        watch.until("ready");
        for name in ["a", "b", "c", "d", "e"] {
            fs::create_dir(folder.file(name)).unwrap();
        }
        let (name, data) = std::iter::from_fn(|| watch.try_next()).last().unwrap();
        assert_eq!((name.as_str(), &data["reason"]), ("close", &"error".into()));
        let message = data["message"].as_str().unwrap();
        assert!(message.contains("fs.inotify.max_user_watches"), "{message}");
        // What it had is free again.
        fs::remove_dir_all(folder.path()).unwrap();
        fs::create_dir(folder.path()).unwrap();
        serving.client().watch(&query).until("ready");
    });
}

#[test]
fn a_watch_that_breaks_on_its_way_each_time_is_given_up() {
    let test = "a_watch_that_breaks_on_its_way_each_time_is_given_up";
    cli(test, move || {
        let Some(serving) = with_setting(test, "max_inotify_watches", 4) else { return };
        let folder = Folder::new();
        for name in ["a", "b", "c", "d", "e"] {
            fs::create_dir(folder.file(name)).unwrap();
        }
        let arguments = ["watch", "local", "--recursive", "--snapshot", "--give-up", "1"];
        let ended = Hangar::run(serving.client().hangar(arguments).arg(folder.path()));
        assert_eq!(ended.code, 125, "{ended:?}");
        assert!(ended.stderr.contains("fs.inotify.max_user_watches"), "{ended:?}");
        assert!(ended.stderr.contains("given up"), "{ended:?}");
    });
}

/// Mounts a file system in user space at a path, for the server alone: one that says nothing to what it is asked.
fn with_fuse(test: &str, at: &Path, then: &str) -> Option<Serving> {
    let fuse = format!(
        "exec 9<>/dev/fuse && mount -i -t fuse silent '{}' -o fd=9,rootmode=40000,user_id=0,group_id=0 {then}",
        at.display()
    );
    let namespaces = ["--user", "--map-root-user", "--mount"];
    let made = Command::new("unshare").args(namespaces).args(["bash", "-c", &fuse]).status();
    if !made.is_ok_and(|status| status.success()) {
        skip(test, "a file system of its own takes a user namespace and /dev/fuse");
        return None;
    }
    let fuse = fuse.replace('\'', "'\\''");
    let shell = format!(
        r#"exec unshare {} bash -c '{fuse} && exec "$0" "$@"' "$0" "$@" && true"#,
        namespaces.join(" ")
    );
    Some(Serving::after(&shell, |_| {}))
}

#[test]
fn a_file_system_that_does_not_answer_is_not_watched_and_holds_up_nothing() {
    let test = "a_file_system_that_does_not_answer_is_not_watched_and_holds_up_nothing";
    cli(test, move || {
        // It is silent, or nobody is there any more who could say anything.
        for then in ["", "&& exec 9>&-"] {
            let folder = Folder::new();
            fs::create_dir_all(folder.file("a/silent")).unwrap();
            let Some(serving) = with_fuse(test, &folder.file("a/silent"), then) else { return };
            let mut watch = serving.client().watch(&format!("{}&recursive=true", folder.path().display()));
            assert_eq!(watch.until("unwatched"), json!({"name": "a/silent", "reason": "network"}));
            watch.until("ready");
            fs::create_dir(folder.file("a/new")).unwrap();
            assert_eq!(watch.said(1), ["create a/new"]);
            let query = folder.file("a/silent").display().to_string();
            let refused = serving.client().try_watch(&query, "").unwrap_err();
            assert_eq!(refused.refusal(), (400, "network".to_owned()));
        }
    });
}

#[test]
fn each_change_is_a_line() {
    cli("each_change_is_a_line", || {
        let (serving, folder) = (Serving::start(|_| {}), Folder::new());
        fs::create_dir(folder.file("old")).unwrap();
        let arguments = ["watch", "local", "--recursive", "--snapshot"];
        let mut watching = Hangar::start(serving.client().hangar(arguments).arg(folder.path()));
        assert_eq!(watching.line().as_deref(), Some("create old"));
        fs::create_dir(folder.file("old/new")).unwrap();
        assert_eq!(watching.line().as_deref(), Some("create old/new"));
        fs::rename(folder.file("old"), folder.file("other")).unwrap();
        assert_eq!(watching.line().as_deref(), Some("rename old -> other"));
        fs::remove_dir_all(folder.path()).unwrap();
        let ended = watching.wait();
        assert_eq!(ended.code, 0, "{ended:?}");
        assert_eq!(ended.stdout, "remove other/new\nremove other\n");
        assert!(ended.stderr.contains("removed"), "{ended:?}");
        fs::create_dir(folder.path()).unwrap();
    });
}
