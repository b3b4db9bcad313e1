//! The end of a sandbox: of what its processes left behind.

use super::{
    Shared,
    hunt::{Hunt, Look},
    kill::{PAUSES, SWEEP},
    members::{Identity, Member, Snapshot},
};
use crate::runtime::sleep_until;
use std::sync::Arc;

/// Ends everything that has the sandbox's variable in its environment, and the descendants of that. Returns how much
/// is left.
pub(super) async fn sweep_sandbox(shared: &Arc<Shared>) -> usize {
    let own = |member: &Member| member.sandbox_id.as_deref() == Some(&*shared.sandbox_id);
    sweep(shared, |snapshot| snapshot.with_descendants(own)).await
}

/// Ends every descendant of this server. Returns how much is left.
pub(super) async fn sweep_descendants(shared: &Arc<Shared>) -> usize {
    sweep(shared, Snapshot::descendants).await
}

async fn sweep(shared: &Arc<Shared>, find: impl Fn(&Snapshot) -> Vec<&Member>) -> usize {
    let until = shared.runtime.now() + SWEEP;
    let mut pause = PAUSES.0;
    let mut hunt = Hunt::default();
    loop {
        let (look, left) = shared.scanner.scan().await.map_or((Look::Later, 0), |snapshot| {
            let found = find(&snapshot);
            let found: Vec<Identity> = found.into_iter().map(|member| member.stat.identity).collect();
            (hunt.look(&snapshot, &found), found.len())
        });
        match look {
            Look::Over => return 0,
            // Perhaps nobody was seen at the last look, but it was not the end.
            Look::AtOnce | Look::Later if shared.runtime.now() >= until => return left.max(1),
            Look::AtOnce => pause = PAUSES.0,
            Look::Later => {
                sleep_until(&*shared.runtime, shared.runtime.now() + pause).await;
                pause = (pause * 2).min(PAUSES.1);
            }
        }
    }
}
