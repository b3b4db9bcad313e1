//! SSE client libraries of other languages, on both runtimes. `tests/peers/install.sh` installs them.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::{
    on_both,
    real::{Call, Client, Gate, Hangar, On, line, peers},
};
use serde_json::Value;
use std::{
    fs::File,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

on_both! {
    httpx_sse_reads_what_was_printed
    sseclient_py_reads_what_was_printed
    eventsource_parser_reads_what_was_printed
}

/// A script with what it takes to run it. It is given the URL, the token, and then the rest.
struct Peer {
    command: Vec<PathBuf>,
    rest: Vec<PathBuf>,
}

fn python(test: &str, library: &str) -> Option<Peer> {
    let python = peers::folder().join("python/bin/python");
    let module = library.replace("-py", "").replace('-', "_");
    let installed = python.exists() && {
        let mut import = Command::new(&python);
        import.arg("-c").arg(format!("import httpx, {module}")).stderr(Stdio::null());
        import.status().is_ok_and(|status| status.success())
    };
    let peer = Peer { command: vec![python, peers::script("sse.py"), library.into()], rest: Vec::new() };
    let missing = format!("{library} is not installed; tests/peers/install.sh does that");
    peers::found(test, installed.then_some(peer), &missing)
}

fn node(test: &str) -> Option<Peer> {
    let node = PathBuf::from("node");
    let installed = peers::folder().join("node_modules/eventsource-parser").is_dir();
    let there = installed && peers::runs(&node, "--version");
    let peer = Peer { command: vec![node, peers::script("sse.mjs")], rest: vec![peers::folder()] };
    let missing = "node or eventsource-parser is missing; tests/peers/install.sh installs the latter";
    peers::found(test, there.then_some(peer), missing)
}

impl Peer {
    /// Starts it with a command to run.
    fn start(&self, client: &Client, call: &Call) -> Hangar {
        let folder = hangar_tests::real::Folder::new();
        let request = folder.file("request");
        File::create(&request).unwrap().write_all(call.0.to_string().as_bytes()).unwrap();
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        command.arg(format!("http://{}/api/sandboxes/local/exec/stream", client.address));
        command.arg(&client.token).args(&self.rest).env("NO_PROXY", "*").env("PYTHONDONTWRITEBYTECODE", "1");
        Hangar::start_reading(&mut command, File::open(request).unwrap())
    }

    fn check(&self, on: On) {
        let server = on.start();
        // Each event is given out as it comes.
        let gate = Gate::new();
        let mut peer = self.start(server.client(), &line(format!("echo one; {}; echo two", gate.wait())));
        assert_eq!(next(&mut peer), ("stdout".to_owned(), serde_json::json!({ "data": "one\n" })));
        gate.open();
        assert_eq!(next(&mut peer), ("stdout".to_owned(), serde_json::json!({ "data": "two\n" })));
        let (name, result) = next(&mut peer);
        assert_eq!(
            (name.as_str(), &result["exit_code"], &result["stdout"]),
            ("result", &0.into(), &"one\ntwo\n".into())
        );
        let ended = peer.wait();
        assert_eq!((ended.code, ended.stdout.as_str()), (0, ""), "{ended:?}");
        // Whatever a line is to its language, what was printed is what it reads.
        let mut printed = String::from("line one\revent: steal\n\ndata: x\r\n\r\n: y\n");
        printed +=
            "\u{85}next \u{2028}line \u{2029}paragraph \u{b}tab \u{c}feed \u{1c}\u{1d}\u{1e}separators\n";
        printed += "\u{FEFF}mark, nul \0, \u{7f}, € and 🦀\n";
        printed += &"a long line without an end ".repeat(8000);
        let mut peer = self.start(server.client(), &line("cat").set("stdin", printed.as_str()));
        let mut text = String::new();
        let result = loop {
            let (name, data) = next(&mut peer);
            match name.as_str() {
                "stdout" => text += data["data"].as_str().unwrap(),
                "result" => break data,
                other => panic!("{other}: {data}"),
            }
        };
        assert_eq!(text, printed);
        assert_eq!(result["stdout"], printed);
        assert_eq!(peer.wait().code, 0);
    }
}

/// The next event that it prints.
fn next(peer: &mut Hangar) -> (String, Value) {
    let line = peer.line().expect("there is another event");
    let mut event: Value = serde_json::from_str(&line).unwrap();
    (event["event"].as_str().unwrap().to_owned(), event["data"].take())
}

fn httpx_sse_reads_what_was_printed(on: On) {
    if let Some(peer) = python("httpx_sse_reads_what_was_printed", "httpx-sse") {
        peer.check(on);
    }
}

fn sseclient_py_reads_what_was_printed(on: On) {
    if let Some(peer) = python("sseclient_py_reads_what_was_printed", "sseclient-py") {
        peer.check(on);
    }
}

fn eventsource_parser_reads_what_was_printed(on: On) {
    if let Some(peer) = node("eventsource_parser_reads_what_was_printed") {
        peer.check(on);
    }
}
