//! `hangar backup`, as an operator uses it.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::real::{Folder, Hangar, Serving, cli, hangar};
use rustix::process::Signal;
use serde_json::json;
use std::{os::unix::fs::PermissionsExt, path::Path, process::Command};

fn backup(data: &Path, to: &Path) -> Command {
    let mut command = hangar();
    command.arg("backup").arg(to).arg("--data").arg(data);
    command
}

/// Runs one that has to succeed, in silence.
fn back_up(data: &Path, to: &Path) {
    let ended = Hangar::run(&mut backup(data, to));
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "", ""), "{ended:?}");
    assert_eq!(to.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

/// Starts a server from a backup.
fn restored(file: &Path) -> Serving {
    let folder = Folder::new();
    std::fs::create_dir(folder.file("data")).unwrap();
    std::fs::copy(file, folder.file("data/hangar.db")).unwrap();
    Serving::with_token(folder, |command| {
        command.env("HANGAR_TOKEN", "hangar-tests-restored");
    })
}

#[test]
fn a_server_starts_from_a_backup_of_another() {
    cli("a_server_starts_from_a_backup_of_another", || {
        let target = Folder::new();
        let serving = Serving::start(|_| {});
        let admin = serving.client();
        let scope = json!({ "scope": "admin" });
        let ((_, kept), (revoked_id, revoked)) = (admin.new_token(&scope), admin.new_token(&scope));
        admin.revoke(&revoked_id);
        back_up(&serving.data(), &target.file("backup"));
        // The server goes on, and what it stores now is not in it.
        let (_, later) = admin.new_token(&scope);
        back_up(&serving.data(), &target.file("later"));
        assert_eq!(later.get("/api/tokens").status, 200);

        let status =
            |server: &Serving, token: &str| server.client().with_token(token).get("/api/sandboxes").status;
        let first = restored(&target.file("backup"));
        let tokens = [&kept.token, &revoked.token, &later.token];
        assert_eq!(tokens.map(|token| status(&first, token)), [200, 401, 401]);
        let second = restored(&target.file("later"));
        assert_eq!(tokens.map(|token| status(&second, token)), [200, 401, 200]);

        // Of one that was killed, too: what it stored last is still in the file beside.
        let (_, last) = admin.new_token(&scope);
        serving.signal(Signal::KILL);
        let (_, _, folder) = serving.wait();
        assert!(folder.file("data/hangar.db-wal").exists());
        back_up(&folder.file("data"), &target.file("last"));
        assert_eq!(status(&restored(&target.file("last")), &last.token), 200);
    });
}

#[test]
fn what_cannot_be_backed_up_is_said() {
    cli("what_cannot_be_backed_up_is_said", || {
        let folder = Folder::new();
        let refused = |command: &mut Command, code: i32, words: [&str; 2]| {
            let ended = Hangar::run(command);
            assert_eq!((ended.code, ended.stdout.as_str()), (code, ""), "{ended:?}");
            assert!(words.iter().all(|word| ended.stderr.contains(word)), "{ended:?}");
        };
        let to = folder.file("backup");
        let data = folder.file("data");
        let name = data.to_str().unwrap();
        refused(&mut backup(&data, &to), 1, ["there is no data folder", name]);
        std::fs::create_dir(&data).unwrap();
        refused(&mut backup(&data, &to), 1, ["there is no", &format!("{name}/hangar.db")]);
        std::fs::write(data.join("hangar.db"), "no database\n".repeat(1000)).unwrap();
        refused(&mut backup(&data, &to), 1, ["not a database", &format!("{name}/hangar.db")]);
        assert!(!to.exists());

        let serving = Serving::start(|_| {});
        std::fs::write(&to, "mine").unwrap();
        refused(&mut backup(&serving.data(), &to), 1, ["is there already", to.to_str().unwrap()]);
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "mine");
        let nowhere = folder.file("no/folder");
        refused(&mut backup(&serving.data(), &nowhere), 1, ["No such file", nowhere.to_str().unwrap()]);
        refused(hangar().arg("backup"), 2, ["<FILE>", "backup"]);
        let mut homeless = hangar();
        homeless.arg("backup").arg(&nowhere).env_remove("HOME").env_remove("XDG_DATA_HOME");
        refused(&mut homeless, 2, ["--data", "HOME"]);
    });
}
