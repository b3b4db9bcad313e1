//! The client that `docs/envd.md` shows, as it stands there.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    on_both,
    real::{On, peers},
};
use std::{path::PathBuf, process::Command};

on_both! {
    the_example_of_the_documentation_runs
}

fn the_example_of_the_documentation_runs(on: On) {
    let python = PathBuf::from("python3");
    let python = peers::runs(&python, "--version").then_some(python);
    let Some(python) = peers::found("the_example_of_the_documentation_runs", python, "there is no python3")
    else {
        return;
    };
    let envd = on.envd();
    let address = envd.json().address;
    // The last of them: those before need E2B's SDK, whose suites do the same.
    let text = peers::examples("envd.md", "python").pop().unwrap();
    let text = text.replace("49983", &address.port().to_string());
    let mut command = Command::new(python);
    peers::run_steps(command.args(["-c", &text]), &["stdout out", "stderr err", "exit code 3"], |_| {});
}
