//! All that runs in a sandbox, stopped and continued.

use super::{
    Shared,
    members::{Identity, signal},
};
use crate::{runtime::sleep_until, sandbox::SandboxError};
use rustix::process::Signal;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// How long is looked for what was started while the others were being stopped.
const LONGEST: Duration = Duration::from_secs(2);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Stops what runs. What a client had stopped before stays out of it, so that resuming does not continue that.
pub(super) async fn pause(shared: &Arc<Shared>) -> Result<(), SandboxError> {
    // From here on nothing is started.
    shared.lock().paused.get_or_insert_default();
    let stopped = stop_all(shared).await;
    if stopped.is_err() {
        resume(shared);
    }
    stopped
}

async fn stop_all(shared: &Arc<Shared>) -> Result<(), SandboxError> {
    let end = shared.runtime.now() + LONGEST;
    let mut seen = BTreeSet::new();
    while shared.runtime.now() < end {
        // Before the look: what was being started then may be in it or not.
        let is_starting = shared.lock().processes.values().any(|entry| entry.leader.is_none());
        let snapshot = shared.scanner.scan().await;
        let snapshot =
            snapshot.ok_or_else(|| SandboxError::Broken("its processes cannot be listed".into()))?;
        let leaders: BTreeSet<Identity> =
            shared.lock().processes.values().filter_map(|entry| entry.leader).collect();
        let found = snapshot.with_descendants(|member| {
            member.sandbox_id.as_deref() == Some(&*shared.sandbox_id)
                || leaders.contains(&member.stat.identity)
        });
        let running: Vec<Identity> = found
            .into_iter()
            .filter(|member| !member.stat.stopped)
            .map(|member| member.stat.identity)
            .filter(|identity| !seen.contains(identity))
            .collect();
        if running.is_empty() && !is_starting {
            return Ok(());
        }
        for identity in running {
            if signal(identity, None, &[Signal::STOP]) {
                shared.lock().paused.get_or_insert_default().push(identity);
            }
            seen.insert(identity);
        }
        sleep_until(&*shared.runtime, shared.runtime.now() + PAUSE).await;
    }
    Err(SandboxError::Broken("it starts processes faster than they can be stopped".into()))
}

/// Continues what [`pause`] stopped.
pub(super) fn resume(shared: &Shared) {
    let paused = shared.lock().paused.take();
    for identity in paused.into_iter().flatten() {
        signal(identity, None, &[Signal::CONT]);
    }
}
