//! Where, as whom and with what a command runs, on both runtimes.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_backends::local::User;
use hangar_tests::{
    on_both,
    real::{Folder, Mark, On, Options, is_root, line, skip},
};
use serde_json::json;
use std::collections::BTreeMap;

on_both! {
    a_command_runs_where_it_is_told
    its_environment_is_built_and_not_inherited
    its_variables_are_what_was_asked_for
    an_admin_chooses_a_user
    a_server_for_users_runs_commands_as_one
    what_its_user_may_not_is_refused
}

fn a_command_runs_where_it_is_told(on: On) {
    let server = on.start();
    let folder = Folder::new();
    let cwd = folder.path().to_str().unwrap();
    assert_eq!(server.client().exec(&line("pwd").set("cwd", cwd)).stdout.trim(), cwd);
    for bad in ["/no/such/folder", "/etc/passwd", "a\0b"] {
        let refused = server.client().try_stream("local", &line("pwd").set("cwd", bad)).unwrap_err();
        assert_eq!(refused.status, 400, "{bad}: {refused:?}");
        assert_eq!(refused.json()["error"]["field"], "cwd", "{bad}: {refused:?}");
    }
    // A sandbox has a folder of its own, and what is relative starts there.
    let made = server.client().post("/api/sandboxes", &json!({ "name": "there", "workdir": cwd }));
    assert_eq!(made.status, 201, "{made:?}");
    std::fs::create_dir(folder.file("deeper")).unwrap();
    let run = |call| server.client().stream_in("there", &call).collect().text();
    assert_eq!(run(line("pwd")).trim(), cwd);
    assert_eq!(run(line("pwd").set("cwd", "deeper")).trim(), format!("{cwd}/deeper"));
}

fn its_environment_is_built_and_not_inherited(on: On) {
    // Cargo sets this for every test.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let server = on.start();
    let mut call = line("exec cat /proc/self/environ");
    call.0["env"] = json!({ "GIVEN": "a value" });
    let environment = server.client().exec(&call).stdout;
    let environment: BTreeMap<_, _> =
        environment.split_terminator('\0').filter_map(|variable| variable.split_once('=')).collect();
    let own = User::current();
    assert_eq!(environment["GIVEN"], "a value");
    assert_eq!((environment["USER"], environment["LOGNAME"]), (&*own.name, &*own.name));
    assert_eq!(environment["HOME"], own.home.to_str().unwrap());
    assert_eq!(environment["LANG"], "C.UTF-8");
    assert!(environment.contains_key("PATH") && environment.contains_key("SHELL"));
    let theirs = |name: &str| name.starts_with("CARGO_") || name.starts_with("RUST");
    let inherited: Vec<_> = environment.keys().filter(|name| theirs(name)).collect();
    assert_eq!(inherited, Vec::<&&str>::new());
}

fn its_variables_are_what_was_asked_for(on: On) {
    let server = on.start();
    let odd = "two\nlines, 'quotes' \"and\" $HOME `id` €";
    let result = server.client().exec(&line("printf %s \"$ODD\"").env("ODD", odd));
    assert_eq!(result.stdout, odd);
    let path = server.client().exec(&line("printf %s \"$LANG\"").env("LANG", "C"));
    assert_eq!(path.stdout, "C");
}

fn an_admin_chooses_a_user(on: On) {
    let server = on.start();
    let client = server.client();
    let refused = client.try_stream("local", &line("id -un").set("user", "no-such-user")).unwrap_err();
    assert_eq!((refused.status, &refused.json()["error"]["field"]), (400, &json!("user")));
    if !is_root() {
        return skip("an_admin_chooses_a_user", "only root runs commands as somebody else");
    }
    let call = line("id -un; id -Gn; echo $USER").set("user", "nobody");
    let group = "nogroup";
    assert_eq!(client.exec(&call).stdout, format!("nobody\n{group}\nnobody\n"));
    assert_eq!(client.stream(&call).collect().text(), format!("nobody\n{group}\nnobody\n"));
}

fn nobody() -> Options {
    Options { user: Some(User::named("nobody").unwrap()), ..Options::default() }
}

fn a_server_for_users_runs_commands_as_one(on: On) {
    let server = on.start();
    // As the server's own user it is for admins: nobody else knows of it, or may use it where it was granted to them.
    for (sandboxes, refusal) in [(json!(null), (404, "not_found")), (json!(["local"]), (403, "forbidden"))] {
        let (_, user) = server.client().new_token(&json!({ "scope": "user", "sandboxes": sandboxes }));
        let refused = user.try_stream("local", &line("id")).unwrap_err();
        assert_eq!(refused.refusal(), (refusal.0, refusal.1.to_owned()));
    }
    if !is_root() {
        return skip("a_server_for_users_runs_commands_as_one", "only root runs commands as somebody else");
    }
    let server = on.start_with(nobody());
    let (_, user) = server.client().new_token(&json!({ "scope": "user" }));
    let run = |call| user.stream_in("local", &call).collect();
    assert_eq!(run(line("id -un; id -u > /dev/stderr")).text(), "nobody\n");
    let refused = user.try_stream("local", &line("id").set("user", "root")).unwrap_err();
    assert_eq!(refused.status, 403, "{refused:?}");
    let refused = server.client().try_stream("local", &line("id").set("user", "root")).unwrap_err();
    assert_eq!((refused.status, &refused.json()["error"]["field"]), (400, &json!("user")));
    // All of it is ended, by a server that is another user.
    let mark = Mark::new();
    let mut stream = user.stream(&line("sleep 777 & setsid sleep 778 & echo in; wait").mark(&mark));
    stream.read_until("in\n");
    mark.wait_for("sleep 778");
    drop(stream);
    mark.wait_until_gone();
}

fn what_its_user_may_not_is_refused(on: On) {
    if !is_root() {
        return skip("what_its_user_may_not_is_refused", "only root runs commands as somebody else");
    }
    let server = on.start_with(nobody());
    let (_, user) = server.client().new_token(&json!({ "scope": "user" }));
    let run = |call| user.stream_in("local", &call).collect();
    // The server's own secrets, and folders of others.
    let own = std::process::id();
    let read = run(line(format!("cat /proc/{own}/environ")));
    assert_eq!((read.result.exit_code, read.text().as_str()), (Some(1), ""));
    let folder = Folder::new();
    let private = folder.file("private");
    std::fs::create_dir(&private).unwrap();
    std::fs::set_permissions(&private, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let call = line("pwd").set("cwd", private.to_str().unwrap());
    let refused = user.try_stream("local", &call).unwrap_err();
    assert_eq!((refused.status, &refused.json()["error"]["field"]), (400, &json!("cwd")), "{refused:?}");
    // It cannot reach its server, or the commands of another user's server.
    let killed = run(line(format!("kill -0 {own}")));
    assert_eq!(killed.result.exit_code, Some(1));
}
