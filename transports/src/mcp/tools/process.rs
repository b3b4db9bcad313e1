//! `process`: background processes.

use super::{
    super::plane, From, Reply, arguments, error_schema, sandbox, sandbox_schema, sandboxes::Action,
    unknown_action,
};
use crate::{
    ApiError, Plane,
    api::{
        Env,
        process::{ApiView, InputRequest, StartRequest},
    },
    mcp::{Step, Work},
    plane::{
        follow::{Event, FollowStream, Following, Start},
        processes::Background,
    },
};
use hangar_backends::runtime::{Deadline, until};
use hangar_core::{
    Close, Time,
    exec::Encoding,
    log::Gap,
    process::Process,
    tail::Tail,
    wire::{mcp::types::Tool, process::GapView},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value, json};
use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

const ACTIONS: [&str; 5] = ["start", "attach", "input", "kill", "list"];

/// Seconds that `attach` may wait.
const MAX_WAIT: f64 = 600.0;

/// Bytes at the end of the output that `attach` gives.
const TAIL: usize = 64 * 1024;

/// How long `kill` waits for the end: TERM, 3 s, KILL, and what that takes.
const KILL: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartArguments {
    #[serde(rename = "action")]
    _action: IgnoredAny,
    sandbox: Option<String>,
    command: Option<String>,
    argv: Option<Vec<String>>,
    name: Option<String>,
    cwd: Option<String>,
    #[serde(default)]
    env: Env,
    max_log_bytes: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AttachArguments {
    #[serde(rename = "action")]
    _action: IgnoredAny,
    sandbox: Option<String>,
    process_id: String,
    since: Option<u64>,
    #[serde(default)]
    wait_seconds: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InputArguments {
    #[serde(rename = "action")]
    _action: IgnoredAny,
    sandbox: Option<String>,
    process_id: String,
    input: Option<String>,
    base64: Option<String>,
    #[serde(default)]
    eof: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KillArguments {
    #[serde(rename = "action")]
    _action: IgnoredAny,
    sandbox: Option<String>,
    process_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    #[serde(rename = "action")]
    _action: IgnoredAny,
    sandbox: Option<String>,
}

pub(super) fn tool() -> Tool {
    Tool {
        name: "process",
        title: Some("Background processes"),
        description: "Background processes, which go on when a call ends. \
            start: starts a command (bash -lc) and returns its process_id at once. \
            attach: returns what it printed from the offset since on (all that is kept without it), then waits up to \
            wait_seconds for more, or until it ends; returns the last 64 KiB of that, its state and exit_code, and next: \
            pass that as since the next time. With progress asked for, output comes as it prints. \
            input: writes to its stdin; eof ends that. \
            kill: ends it and what it started: TERM, and KILL 3 s later. \
            list: your processes, those of the last 10 minutes included. \
            The last 256 KiB of output are kept (max_log_bytes), also while nobody is attached.",
        input_schema: json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["action"],
            "properties": {
                "action": { "enum": ACTIONS },
                "sandbox": sandbox_schema(),
                "process_id": { "type": "string", "description": "attach, input, kill: its id, or the name it was given" },
                "command": { "type": "string", "description": "start: a line for bash -lc" },
                "argv": {
                    "type": "array",
                    "items": { "type": "string" },
                    "description": "start: a program and its arguments, instead of command",
                },
                "name": { "type": "string", "description": "start: a name to find it by" },
                "cwd": { "type": "string", "description": "start: the directory to run it in" },
                "env": {
                    "type": "object",
                    "additionalProperties": { "type": "string" },
                    "description": "start: variables beyond those of the sandbox",
                },
                "max_log_bytes": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": 67_108_864,
                    "default": 262_144,
                    "description": "start: bytes of output to keep",
                },
                "since": { "type": "integer", "minimum": 0, "description": "attach: the offset to read from: next of before" },
                "wait_seconds": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": MAX_WAIT,
                    "default": 0,
                    "description": "attach: how long to wait for output or the end",
                },
                "input": { "type": "string", "description": "input: text to write; end a line with a line break" },
                "base64": { "type": "string", "description": "input: bytes to write, instead of input" },
                "eof": { "type": "boolean", "default": false, "description": "input: nothing follows" },
            },
        }),
        output_schema: Some(output_schema()),
        annotations: Some(json!({ "destructiveHint": true, "openWorldHint": true })),
    }
}

fn output_schema() -> Value {
    let process = json!({
        "process_id": { "type": "string" },
        "sandbox": { "type": "string" },
        "command": { "type": "string" },
        "cwd": { "type": "string" },
        "state": { "enum": ["running", "exited"] },
        "exit_code": { "type": ["integer", "null"] },
        "signal": { "type": "string", "description": "The signal that ended it" },
        "started_at_ms": { "type": "integer" },
        "finished_at_ms": { "type": "integer" },
        "next": { "type": "integer", "description": "The offset to go on from" },
    });
    let mut properties = process.clone();
    let more = json!({
        "output": { "type": "string", "description": "attach: what it printed, the last 64 KiB" },
        "from": { "type": "integer", "description": "attach: the offset at which output begins" },
        "end": { "type": "integer", "description": "attach: the offset after its newest output" },
        "truncated": { "type": "boolean", "description": "attach: there was more before output" },
        "gap": { "type": "object", "description": "attach: output that is gone, with its offsets" },
        "closed": { "type": "string", "description": "attach: why this ended before the process did and the wait was over" },
        "drain_timed_out": { "type": "boolean" },
        "processes": {
            "type": "array",
            "description": "list",
            "items": { "type": "object", "properties": process },
        },
        "error": error_schema(),
    });
    if let (Value::Object(properties), Value::Object(more)) = (&mut properties, more) {
        properties.extend(more);
    }
    json!({ "type": "object", "properties": properties })
}

pub(super) async fn call(
    plane: &Arc<Plane>,
    from: &From,
    json: &str,
    wants_progress: bool,
) -> Result<Reply, ApiError> {
    let value = match arguments::<Action>(json)?.action.as_str() {
        "start" => start(plane, from, arguments(json)?).await?,
        "attach" => return attach(plane, from, arguments(json)?, wants_progress),
        "input" => input(plane, from, arguments(json)?)?,
        "kill" => kill(plane, from, arguments(json)?).await?,
        "list" => list(plane, from, arguments(json)?)?,
        other => return Err(unknown_action(other, &ACTIONS)),
    };
    Ok(Reply::Now(plane::result(value)))
}

async fn start(plane: &Arc<Plane>, from: &From, arguments: StartArguments) -> Result<Value, ApiError> {
    let StartArguments { _action, sandbox: named, command, argv, name, cwd, env, max_log_bytes } = arguments;
    let call =
        StartRequest { command, argv, name, cwd, env, tty: None, max_log_bytes, stdin: None }.check()?;
    let entry = sandbox(plane, &from.caller, named.as_deref())?;
    let background = plane.start_process(&from.caller, entry.id(), call).await?;
    Ok(view(&background).into())
}

fn input(plane: &Plane, from: &From, arguments: InputArguments) -> Result<Value, ApiError> {
    let InputArguments { _action, sandbox, process_id, input, base64, eof } = arguments;
    let (data, eof) = InputRequest { input, base64, eof }.check()?;
    let background = find(plane, from, sandbox.as_deref(), &process_id)?;
    background.input(data, eof)?;
    Ok(view(&background).into())
}

async fn kill(plane: &Arc<Plane>, from: &From, arguments: KillArguments) -> Result<Value, ApiError> {
    let KillArguments { _action, sandbox, process_id } = arguments;
    let background = find(plane, from, sandbox.as_deref(), &process_id)?;
    background.stop();
    let watcher = background.handle().watcher();
    let over = std::future::poll_fn(|cx| watcher.poll_until(cx.waker(), Process::is_over));
    let runtime = plane.runtime();
    // Whether it has ended by then is in its state.
    until(&**runtime, runtime.now() + KILL, over).await;
    Ok(view(&background).into())
}

fn list(plane: &Plane, from: &From, arguments: ListArguments) -> Result<Value, ApiError> {
    let ListArguments { _action, sandbox } = arguments;
    let mut processes = Vec::new();
    for reference in places(plane, from, sandbox.as_deref()) {
        match plane.list_processes(&from.caller, &reference) {
            Ok(some) => processes.extend(some.iter().map(|one| Value::from(view(one)))),
            // One that was not asked for is passed over.
            Err(error) if sandbox.is_some() => return Err(error),
            Err(_) => {}
        }
    }
    Ok(json!({ "processes": processes }))
}

/// Where to look: in the sandbox that was named, or in all.
fn places(plane: &Plane, from: &From, named: Option<&str>) -> Vec<String> {
    named.map_or_else(
        || plane.sandboxes().visible(&from.caller).iter().map(|entry| entry.id().to_owned()).collect(),
        |named| vec![named.to_owned()],
    )
}

/// The caller's process of this id or name.
fn find(plane: &Plane, from: &From, named: Option<&str>, process: &str) -> Result<Arc<Background>, ApiError> {
    let mut missing = ApiError::not_found("process");
    for reference in places(plane, from, named) {
        match plane.find_process(&from.caller, &reference, process) {
            Ok(found) => return Ok(found),
            Err(error) if named.is_some() => missing = error,
            Err(_) => {}
        }
    }
    Err(missing)
}

/// A process, as this tool shows it.
fn view(background: &Background) -> Map<String, Value> {
    let mut view = match json!(ApiView::of(background)) {
        Value::Object(view) => view,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    };
    view.insert("sandbox".to_owned(), background.sandbox().name().into());
    view
}

fn attach(
    plane: &Arc<Plane>,
    from: &From,
    arguments: AttachArguments,
    wants_progress: bool,
) -> Result<Reply, ApiError> {
    let AttachArguments { _action, sandbox, process_id, since, wait_seconds } = arguments;
    if !(0.0..=MAX_WAIT).contains(&wait_seconds) {
        let message = format!("wait_seconds: it must be from 0 to {MAX_WAIT}");
        return Err(ApiError::bad_field("wait_seconds", "out_of_range", message));
    }
    let background = find(plane, from, sandbox.as_deref(), &process_id)?;
    let following = Following {
        start: since.map_or(Start::Oldest, Start::Offset),
        encoding: Encoding::Text,
        paced: wants_progress,
        // Who waits holds as much as who streams.
        leased: wants_progress || wait_seconds > 0.0,
        connection: from.connection.clone(),
    };
    let stream = plane.follow(&from.caller, &background, following)?;
    let next = stream.next();
    let until = plane.runtime().now() + Duration::from_secs_f64(wait_seconds);
    Ok(Reply::Later(Box::new(Attached {
        stream,
        until,
        over: Deadline::default(),
        goal: None,
        tail: Tail::new(TAIL),
        next,
        gap: None,
        cut: false,
    })))
}

/// A process that is followed for a while. Dropped, it runs on.
struct Attached {
    stream: FollowStream,
    until: Time,
    over: Deadline,
    /// Once the wait is over: the end of what was printed by then. A process may print faster than it is read.
    goal: Option<u64>,
    /// The last of the output since the last gap.
    tail: Tail,
    next: u64,
    gap: Option<GapView>,
    /// There was output before the last gap.
    cut: bool,
}

impl Work for Attached {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        loop {
            if self.goal.is_none() {
                let runtime = Arc::clone(self.stream.plane().runtime());
                if self.over.poll(&*runtime, Some(self.until), cx).is_ready() {
                    let handle = self.stream.background().handle();
                    self.goal = Some(handle.look(|process| process.log().end_offset()));
                }
            }
            if self.goal.is_some_and(|goal| self.next >= goal) {
                return Poll::Ready(self.done());
            }
            match self.stream.poll(cx) {
                Poll::Ready(Event::Text { text, next, .. }) => {
                    text.bytes().into_iter().for_each(|bytes| self.tail.push(bytes));
                    self.next = next;
                    return Poll::Ready(Step::Output(text));
                }
                Poll::Ready(Event::Frame(frame)) => {
                    self.tail.push(&frame.data);
                    self.next = frame.end();
                }
                Poll::Ready(Event::Gap(gap)) => self.skip(&gap),
                Poll::Ready(Event::Closed { reason, drain_timed_out, .. }) => {
                    return Poll::Ready(Step::Done(plane::result(self.shown(reason, drain_timed_out))));
                }
                Poll::Pending if self.goal.is_some() => return Poll::Ready(self.done()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl Attached {
    /// The wait is over.
    fn done(&mut self) -> Step {
        self.stream.ended(Close::Done);
        Step::Done(plane::result(self.shown(Close::Done, false)))
    }

    /// Output is gone: what comes now does not follow what came before.
    fn skip(&mut self, gap: &Gap) {
        self.cut |= !self.tail.is_empty();
        self.tail = Tail::new(TAIL);
        self.next = gap.to_offset;
        let new = GapView::from(gap);
        self.gap = Some(match self.gap.take() {
            None => new,
            // From the beginning of the first to the end of the last.
            Some(old) => GapView {
                from_seq: old.from_seq,
                from_offset: old.from_offset,
                bytes: old.bytes.zip(new.bytes).map(|(old, new)| old + new),
                ..new
            },
        });
    }

    /// The process, with what it printed meanwhile.
    fn shown(&mut self, reason: Close, drain_timed_out: bool) -> Value {
        let mut view = view(self.stream.background());
        let tail = std::mem::replace(&mut self.tail, Tail::new(0));
        let truncated = self.cut || tail.is_truncated();
        let from = self.next - tail.len() as u64;
        if let Some(end) = view.insert("next".to_owned(), self.next.into()) {
            view.insert("end".to_owned(), end);
        }
        view.insert("from".to_owned(), from.into());
        view.insert("output".to_owned(), tail.into_text().into());
        if let Some(gap) = &self.gap {
            view.insert("gap".to_owned(), json!(gap));
        }
        if truncated {
            view.insert("truncated".to_owned(), true.into());
        }
        if let Some(closed) = reason.row().closed {
            view.insert("closed".to_owned(), closed.into());
        }
        if drain_timed_out {
            view.insert("drain_timed_out".to_owned(), true.into());
        }
        view.into()
    }
}
