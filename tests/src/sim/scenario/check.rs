//! What must be true of a scenario, whatever was drawn.

use super::{
    super::{net::Link, sandbox::Record, script, stream::Transcript, world::at_ms},
    behaviour::Outcome,
    plan::{Act, Manners, Plan},
};
use hangar_core::{Time, process::Exit};
use serde_json::Value;
use std::time::Duration;

/// What a client is checked against.
pub(super) struct Context<'a> {
    pub(super) acts: &'a [(u64, Act)],
    pub(super) link: Link,
    /// Whether streams have a cap that is soon reached.
    pub(super) capped: bool,
}

/// Checks how it went for one client, whose command has this record if it has one.
pub(super) fn check(
    plan: &Plan,
    outcome: &Outcome,
    record: Option<&Record>,
    of: &Context<'_>,
    context: &str,
) {
    let (acts, capped) = (of.acts, of.capped);
    let did = |which: fn(&Act) -> bool| acts.iter().any(|(_, act)| which(act));
    match outcome {
        Outcome::Refused(status) => assert!(matches!(status, 401 | 404 | 409 | 429 | 503), "{context}"),
        Outcome::Got(result) => check_result(plan, result, record.unwrap(), context),
        Outcome::Read(transcript) => {
            let record = record.unwrap();
            check_result(plan, &transcript.result, record, context);
            check_texts(plan, transcript, record, capped, context);
        }
        Outcome::Left(at) => {
            let Some(record) = record else { return };
            // A stream that had ended for one of these had let its command run on.
            let let_go = acts
                .iter()
                .any(|(acted, act)| matches!(act, Act::Pause | Act::ShutDown) && at_ms(*acted) <= *at);
            if !let_go {
                check_left(plan, *at, record, context);
            }
        }
        Outcome::Ended(_) => {
            // Nobody's connection ends but by a shutdown, or where it does not take the end of its stream in time.
            let good = of.link.segment >= 100 && of.link.delay.1 <= Duration::from_millis(1);
            let takes_it = plan.manners == Manners::Waits || (plan.manners == Manners::Reads && good);
            let closed = did(|act| matches!(act, Act::Revoke(_) | Act::Pause | Act::Destroy));
            assert!(did(|act| *act == Act::ShutDown) || (closed && !takes_it), "{context}");
        }
    }
}

/// What its script and its record say that the result must say.
fn check_result(plan: &Plan, result: &Value, record: &Record, context: &str) {
    match record.exited {
        Some((_, Exit::Code(code))) if result["exit_code"].is_i64() => {
            assert_eq!(result["exit_code"], code, "{context}");
        }
        Some((_, Exit::Signal(_))) => assert_eq!(result["exit_code"], Value::Null, "{context}"),
        Some((_, Exit::Code(_) | Exit::Unknown)) | None => {
            assert!(result["closed"].is_string(), "{context}");
        }
    }
    if result["timed_out"] == true {
        // Before it runs there is nobody to send TERM to.
        let due = (record.asked_at + Duration::from_secs(plan.timeout)).max(record.started_at.unwrap());
        assert_eq!(record.terminated_at.first(), Some(&due), "{context}");
    }
}

/// Each byte once, in order, and all of them where nothing ended the stream early.
fn check_texts(plan: &Plan, transcript: &Transcript, record: &Record, capped: bool, context: &str) {
    let [stdout, stderr] = script::printed(&plan.script);
    let result = &transcript.result;
    for (name, streamed, printed) in
        [("stdout", &transcript.stdout, stdout), ("stderr", &transcript.stderr, stderr)]
    {
        assert!(printed.starts_with(streamed.as_bytes()), "{name}: {context}");
        let tail = result[name].as_str().unwrap();
        if result[&format!("{name}_truncated")] != true {
            assert!(printed.starts_with(tail.as_bytes()), "{name}: {context}");
            assert!(capped || tail.len() >= streamed.len(), "{name}: {context}");
        }
        if result.get("closed").is_none() && result.get("output_capped").is_none() {
            assert!(streamed.ends_with(tail), "{name}: {context}");
        }
    }
    let whole = ["closed", "output_capped", "drain_timed_out"].iter().all(|name| result.get(name).is_none());
    if whole {
        let streamed = transcript.stdout.len() + transcript.stderr.len();
        assert_eq!(streamed, record.printed, "{context}");
    }
    assert!(result.get("output_capped").is_none() || capped, "{context}");
}

/// The command of a client that left is ended soon after; that of one that waits without a stream is not.
fn check_left(plan: &Plan, at: Time, record: &Record, context: &str) {
    if matches!(plan.manners, Manners::WaitsAndLeaves(_)) {
        return;
    }
    let ended = record.exited.map(|(at, _)| at).or(record.lost_at);
    let killed = record.terminated_at.first().copied();
    // What it is sent before it is known to have left may be on its way for a while.
    let soon = at.max(record.started_at.unwrap_or(at)) + Duration::from_secs(2);
    let first = ended.into_iter().chain(killed).min();
    assert!(first.is_some_and(|first| first <= soon), "it left at {at:?}: {record:?} {context}");
}
