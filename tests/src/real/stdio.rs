//! A client of MCP that speaks and hears lines.

use super::{Folder, Mark, hangar};
use crate::mcp::request;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    process::{self, Child, ChildStdin, ChildStdout, Command},
};

/// A `hangar mcp` that runs.
#[derive(Debug)]
pub struct Stdio {
    child: Child,
    /// Where it is spoken to; None once that is over.
    pub input: Option<ChildStdin>,
    /// Where it is heard.
    pub output: BufReader<ChildStdout>,
    _folder: Folder,
}

impl Stdio {
    /// Starts one in a folder of its own.
    pub fn start(change: impl FnOnce(&mut Command)) -> Self {
        let folder = Folder::new();
        let mut command = hangar();
        command.arg("mcp").current_dir(folder.path());
        command
            .stdin(process::Stdio::piped())
            .stdout(process::Stdio::piped())
            .stderr(process::Stdio::piped());
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output, _folder: folder }
    }

    /// Says a line.
    pub fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Calls `exec`; `token` is what it wants progress as.
    pub fn exec(&mut self, id: &Value, command: &str, mark: &Mark, token: Option<&Value>) {
        let env = json!({ "HOME": "/nonexistent", (Mark::NAME): mark.value() });
        let arguments = json!({ "command": command, "stream": true, "env": env });
        let params = json!({ "name": "exec", "arguments": arguments });
        self.say(&request(id, "tools/call", &params, token).to_string());
    }

    /// The next line, which has to be a message; None at the end.
    pub fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        (!line.is_empty())
            .then(|| serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}")))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end; its exit code.
    pub fn ended(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
