//! Finding a process again after its stream was lost.

use super::{
    Shared, Target,
    lanes::There,
    orders::{Order, Told},
    rpc::{CallError, Head},
    stream::{EventStream, Lost},
};
use hangar_core::wire::{
    connect::Code,
    envd::process::{ConnectRequest, Empty, ListResponse, ProcessSelector, SERVICE, StartEvent},
};

/// A process that was found, and where what follows begins.
pub(super) struct Attached {
    pub(super) stream: EventStream,
    pub(super) start: StartEvent,
}

/// Why it was not.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotAttached {
    /// The daemon does not know it, or not this output of it: how it ended will not be known.
    #[error("the daemon does not know the process")]
    Gone,
    /// The daemon cannot be asked now.
    #[error("{0}")]
    Later(String),
}

impl From<CallError> for NotAttached {
    fn from(error: CallError) -> Self {
        match &error {
            CallError::Refused(refused) if matches!(refused.code, Code::NotFound | Code::OutOfRange) => {
                Self::Gone
            }
            CallError::Refused(_) | CallError::Unreachable(_) | CallError::Broken(_) => {
                Self::Later(error.to_string())
            }
        }
    }
}

/// Follows a process again, from `since` on where its daemon keeps its log.
pub(super) async fn attach(
    shared: &Shared,
    target: &Target,
    since: u64,
    is_logged: bool,
) -> Result<Attached, NotAttached> {
    let selector = if is_logged { target.by_both() } else { selector(&list(shared).await?, target) };
    connect(shared, target, selector, is_logged.then_some(since)).await
}

/// Follows a process of an earlier run, from its first byte that is kept. It is the one that has the tag and, where that
/// was noted, the number: a tag that stands twice was copied by somebody, who is not to be taken for it.
pub(super) async fn adopt(shared: &Shared, target: &Target) -> Result<Attached, NotAttached> {
    let daemon = shared.daemon().await?;
    let list = list(shared).await?;
    let marked = list.processes.iter().filter(|process| process.tag.as_deref() == Some(&target.tag)).count();
    if marked > 1 {
        tracing::warn!(
            process.tag = target.tag,
            "the tag of a process stands more than once: it is not taken over"
        );
        return Err(NotAttached::Gone);
    }
    connect(shared, target, selector(&list, target), daemon.is_hangar.then_some(0)).await
}

async fn connect(
    shared: &Shared,
    target: &Target,
    selector: ProcessSelector,
    since: Option<u64>,
) -> Result<Attached, NotAttached> {
    let head = Head { since, ..Head::default() };
    let request = ConnectRequest { process: Some(selector) };
    let mut stream = shared.rpc.open(&format!("{SERVICE}/Connect"), &head, &request).await?;
    match stream.next(&*shared.runtime).await {
        Ok(event) => match event.start {
            Some(start) if target.pid.is_some_and(|pid| pid != start.pid) => {
                let tag = &target.tag;
                tracing::warn!(
                    process.tag = tag,
                    pid = start.pid,
                    "another process has its tag: it is left alone"
                );
                Err(NotAttached::Gone)
            }
            Some(start) => Ok(Attached { stream, start }),
            None => Err(NotAttached::Later("its first word was not that it runs".to_owned())),
        },
        Err(Lost::Ended(Some(error))) => Err(CallError::Refused(error).into()),
        Err(lost) => Err(NotAttached::Later(lost.to_string())),
    }
}

async fn list(shared: &Shared) -> Result<ListResponse, CallError> {
    shared.rpc.call(&format!("{SERVICE}/List"), &Head::default(), &Empty {}).await
}

/// Ends a process that has the tag, if there is one: says whether.
pub(super) async fn end(there: &There) -> Result<bool, CallError> {
    let Some(found) = list(&there.shared)
        .await?
        .processes
        .into_iter()
        .find(|process| process.tag.as_deref() == Some(&there.target.tag))
    else {
        return Ok(false);
    };
    let target = Target::new(&there.target.tag, Some(found.pid));
    Ok(Order::Terminate.tell(There { target, ..there.clone() }).await == Told::Done)
}

/// How a process is named to a daemon of E2B's: that finds one of several tags only, so it is looked for in the list. One
/// that is not there has ended, and is known by its tag for 30 s.
fn selector(list: &ListResponse, target: &Target) -> ProcessSelector {
    match list.processes.iter().rfind(|process| process.tag.as_deref() == Some(&target.tag)) {
        Some(process) => ProcessSelector { pid: Some(process.pid), tag: None },
        None => target.by_tag(),
    }
}
