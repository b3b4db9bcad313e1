//! Commands that run as another user than the server, with real processes.
#![cfg(feature = "local")]

mod support;

use hangar_backends::{
    local::{Config, User},
    sandbox::{Spec, StartError},
};
use hangar_core::{
    log::Channel,
    process::{self, TtySize},
};
use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
};
use support::{argv, run, sandbox_with, shell, start, unique};

#[test]
fn another_user_has_exactly_their_groups() {
    if !fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        println!("skipped: not root");
        return;
    }
    let nobody = User::named("nobody").unwrap();
    let gid = nobody.gid;
    let folder = unique("/tmp/hangar-groups-PID");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o750)).unwrap();
    chown(&folder, None, Some(60)).unwrap();
    let as_nobody = |groups: &[u32]| {
        let user = User { groups: groups.to_vec(), ..nobody.clone() };
        sandbox_with(Config { user: Some(user), directory: Some(folder.clone().into()), ..Config::default() })
    };
    let many = as_nobody(&[gid, 60, 7]);
    // `id` puts the primary group first, the system puts them in order.
    let line = "id -u; id -G; grep Groups: /proc/self/status; pwd";
    let expected = format!("{}\n{gid} 7 60\nGroups:\t7 60 {gid} \n{folder}\n", nobody.uid);
    assert_eq!(run(&many, shell(line)).stdout(), expected);
    let spec = shell("id -G");
    let tty = Some(TtySize { cols: 80, rows: 24 });
    let process = process::Config { tty, ..spec.process.clone() };
    assert_eq!(
        run(&many, Spec { process, ..spec }).bytes(Channel::Tty),
        format!("{gid} 7 60\r\n").as_bytes()
    );

    // The directory is entered as the user, with their groups and no right of the server's.
    let few = as_nobody(&[gid, 7]);
    let refused = start(&few, shell("pwd")).unwrap_err();
    assert_eq!(refused, StartError::BadCwd("the sandbox's own directory: permission denied".into()));
    let elsewhere =
        Spec { cwd: Some("/".into()), ..shell(&format!("ls {folder} 2>/dev/null || echo denied")) };
    assert_eq!(run(&few, elsewhere).stdout(), "denied\n");

    // Nor is a program found by a right of the server's.
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
    fs::write(format!("{folder}/id"), "#!/bin/sh\necho the wrong one\n").unwrap();
    fs::set_permissions(format!("{folder}/id"), Permissions::from_mode(0o755)).unwrap();
    let env = [("PATH".to_owned(), format!("{folder}:/usr/bin:/bin"))].into();
    let found = Spec { env, cwd: Some("/".into()), ..argv(&["id", "-G"]) };
    assert_eq!(run(&few, found).stdout(), format!("{gid} 7\n"));
    fs::remove_dir_all(&folder).unwrap();

    // A number of all ones is no user: where one is set it stands for "leave it as it is".
    let root = sandbox_with(Config { user: Some(User { uid: u32::MAX, ..nobody }), ..Config::default() });
    let refused = start(&root, shell("id")).unwrap_err();
    assert_eq!(refused, StartError::ForbiddenUser("commands cannot run as nobody".into()));
}
