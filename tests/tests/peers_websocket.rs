//! The process protocol, followed from its page with a WebSocket library of another language.
//! `tests/peers/install.sh` installs it.

use hangar_tests::{
    on_both,
    real::{Hangar, On, peers},
};
use std::process::{Command, Stdio};

on_both! {
    python_websockets_follows_the_page
}

fn python_websockets_follows_the_page(on: On) {
    let python = peers::folder().join("python/bin/python");
    let installed = python.exists() && {
        let mut import = Command::new(&python);
        import.args(["-c", "import httpx, websockets"]).stderr(Stdio::null());
        import.status().is_ok_and(|status| status.success())
    };
    let missing = "websockets is not installed; tests/peers/install.sh does that";
    let test = "python_websockets_follows_the_page";
    let Some(python) = peers::found(test, installed.then_some(python), missing) else { return };
    let server = on.start();
    let client = server.client();
    let mut command = Command::new(python);
    command.arg(peers::script("process.py")).arg(format!("http://{}", client.address)).arg(&client.token);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let ended = Hangar::run(&mut command);
    assert_eq!(ended.code, 0, "{ended:?}");
    let steps: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!((steps.len(), steps.last()), (6, Some(&"done")), "{ended:?}");
}
