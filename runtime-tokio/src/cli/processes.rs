//! `hangar ps`, `start` and `kill`: background processes of a server.

use super::{
    Failure,
    attach::{How, attach},
    exec::ServerArguments,
    terminal,
};
use clap::Args;
use hangar::{Threads, TokioRuntime};
use hangar_backends::{Runtime, runtime::sleep_until};
use hangar_core::{
    process::Signal,
    wire::process::{Status, View},
};
use hangar_transports::client::{Begin, Client, ClientError, StartRequest};
use std::{
    io::{self, Write},
    time::Duration,
};

/// How long a process may take to end: it is killed 3 s after it is asked to.
const END: Duration = Duration::from_secs(10);

/// How often it is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs a command that takes no signals: whatever ends this process ends it.
pub(super) fn block_on<F>(command: impl FnOnce(TokioRuntime) -> F) -> Result<u8, Failure>
where
    F: Future<Output = Result<u8, Failure>>,
{
    let threads = Threads::new().map_err(Failure::new)?;
    let code = threads.block_on(command(threads.runtime()));
    threads.shutdown(Duration::ZERO);
    code
}

/// How much of what was printed before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Tail {
    All,
    Lines(u64),
}

impl std::str::FromStr for Tail {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lines = || text.parse().map(Self::Lines).map_err(|_| "it must be a number of lines, or all");
        if text == "all" { Ok(Self::All) } else { lines() }
    }
}

impl Tail {
    pub(super) const fn begin(self) -> Begin {
        match self {
            // From the first frame on, so that it is told what of it is gone.
            Self::All => Begin::After(0),
            Self::Lines(lines) => Begin::Lines(lines),
        }
    }
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// The sandbox, by name or id
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// Show what the server says, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArguments,
}

impl List {
    pub(super) fn main(self) -> Result<u8, Failure> {
        block_on(async move |tokio| {
            let client = self.server.client(&tokio)?;
            if self.json {
                let json = client.list_processes_as_json(&self.sandbox).await.map_err(Failure::new)?;
                return print(&[&json[..], b"\n"].concat());
            }
            let processes = client.list_processes(&self.sandbox).await.map_err(Failure::new)?;
            print(table(processes, tokio.wall_ms()).as_bytes())
        })
    }
}

/// Whoever reads it may have seen enough.
fn print(bytes: &[u8]) -> Result<u8, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::new(error)),
        Ok(()) | Err(_) => Ok(0),
    }
}

/// A line for each, the newest last.
fn table(mut processes: Vec<View>, now_ms: i64) -> String {
    processes.sort_by(|a, b| (a.started_at_ms, &a.id).cmp(&(b.started_at_ms, &b.id)));
    let mut rows = vec![["ID", "NAME", "STATUS", "AGE", "COMMAND"].map(str::to_owned)];
    rows.extend(processes.into_iter().map(|view| {
        let (status, age) = (status(&view), age(now_ms - view.started_at_ms));
        let command = view.command.unwrap_or_default().replace(char::is_control, " ");
        [view.id, view.name.unwrap_or_else(|| "-".to_owned()), status, age, command]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let [id, name, state, old] = [0, 1, 2, 3].map(width);
    let line = |row: &[String; 5]| {
        let [a, b, c, d, command] = row;
        format!("{a:id$}  {b:name$}  {c:state$}  {d:old$}  {command}\n")
    };
    rows.iter().map(line).collect()
}

/// One word.
fn status(view: &View) -> String {
    let word = match view.status {
        Status::Starting => "starting",
        Status::Running => "running",
        Status::Exited => "exited",
        Status::Stopped => "stopped",
        Status::Failed => "failed",
    };
    match (view.status, view.exit_code, &view.signal) {
        (Status::Exited, Some(code), _) => format!("{word}({code})"),
        (Status::Exited, None, Some(signal)) => format!("{word}({signal})"),
        _ => word.to_owned(),
    }
}

fn age(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[derive(Args, Debug)]
pub(super) struct Start {
    /// The sandbox, by name or id
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// The command, as one argument: it is run by `bash -lc`
    #[arg(value_name = "CMD", value_parser = super::command)]
    command: String,
    /// A name to find it by, beside its id: lower-case letters, digits, and `-`, `_` or `.` after the first
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The directory to run it in
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// A variable for its environment (repeatable)
    #[arg(long = "env", short = 'e', value_name = "NAME=VALUE", value_parser = super::variable)]
    env: Vec<(String, String)>,
    /// Give it a terminal, of the size of this one (80x24 where there is none)
    #[arg(long)]
    tty: bool,
    /// Bytes of its output that are kept for those who come later; 0 keeps nothing [default: 262144]
    #[arg(long, value_name = "N")]
    max_log_bytes: Option<u64>,
    /// Attach to it at once, instead of printing its id
    #[arg(long)]
    attach: bool,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    server: ServerArguments,
}

impl Start {
    pub(super) fn main(self) -> Result<u8, Failure> {
        block_on(async move |tokio| {
            let client = self.server.client(&tokio)?;
            let request = StartRequest {
                command: self.command,
                name: self.name,
                cwd: self.cwd,
                env: self.env.into_iter().collect(),
                tty: self.tty.then(|| terminal::size().unwrap_or(terminal::USUAL)),
                max_log_bytes: self.max_log_bytes,
            };
            let view = client.start_process(&self.sandbox, &request).await.map_err(Failure::new)?;
            if !self.attach {
                return print(format!("{}\n", view.id).as_bytes());
            }
            attach(client, tokio, self.sandbox, view.id, Some(Tail::All), self.how).await
        })
    }
}

#[derive(Args, Debug)]
pub(super) struct Kill {
    /// The sandbox, by name or id
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// The process, by name or id; `hangar ps` lists them
    #[arg(value_name = "PROCESS")]
    process: String,
    /// Send it this signal, as INT or SIGINT, and do not wait for anything
    #[arg(short, long, value_name = "NAME", value_parser = named)]
    signal: Option<Signal>,
    #[command(flatten)]
    server: ServerArguments,
}

fn named(name: &str) -> Result<Signal, String> {
    Signal::named(&name.to_uppercase())
        .ok_or_else(|| format!("there is {}", Signal::STANDARD.map(Signal::name).join(", ")))
}

impl Kill {
    pub(super) fn main(self) -> Result<u8, Failure> {
        block_on(async move |tokio| {
            let client = self.server.client(&tokio)?;
            match self.signal {
                Some(signal) => {
                    let sent = client.signal_process(&self.sandbox, &self.process, signal).await;
                    sent.map(|()| 0).map_err(Failure::new)
                }
                None => end(&client, &tokio, &self.sandbox, &self.process).await,
            }
        })
    }
}

/// Asks for the end of a process, and waits for it.
async fn end(client: &Client, tokio: &TokioRuntime, sandbox: &str, process: &str) -> Result<u8, Failure> {
    let mut view = client.stop_process(sandbox, process).await.map_err(Failure::new)?;
    let begun = tokio.now();
    while view.finished_at_ms.is_none() {
        if tokio.now().since(begun) >= END {
            return Err(Failure::new(format!("{process} has not ended after {} s", END.as_secs())));
        }
        sleep_until(tokio, tokio.now() + LOOK_EVERY).await;
        // By its id: its name may be another's by then.
        view = match client.show_process(sandbox, &view.id).await {
            Ok(view) => view,
            // It has ended, and those that have are not listed for ever.
            Err(ClientError::Refused { status, .. }) if status == 404 => return Ok(0),
            Err(error) => return Err(Failure::new(error)),
        };
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_its_columns_whatever_is_in_them() {
        let view = |id: &str, name: Option<&str>, started_at_ms, exit_code: Option<i32>| View {
            id: id.to_owned(),
            name: name.map(str::to_owned),
            command: Some("a\nb".to_owned()),
            status: exit_code.map_or(Status::Running, |_| Status::Exited),
            exit_code,
            signal: None,
            finish_reason: None,
            started_at_ms,
            finished_at_ms: None,
            restarted_from: None,
            tty: None,
        };
        let shown = table(vec![view("B", None, 60_000, Some(12)), view("A", Some("web"), 0, None)], 120_000);
        let expected = "\
            ID  NAME  STATUS      AGE  COMMAND\n\
            A   web   running     2m   a b\n\
            B   -     exited(12)  1m   a b\n";
        assert_eq!(shown, expected);
        assert_eq!([0, 59_999, 3_600_000, 172_800_000, -5].map(age), ["0s", "59s", "1h", "2d", "0s"]);
    }
}
