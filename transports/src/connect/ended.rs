//! Processes that have ended, and when they are forgotten.

use super::{Daemon, process::Entry};
use hangar_backends::{Runtime, runtime::until};
use hangar_core::{Time, process::Process, roster::Key};
use std::{
    future::poll_fn,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::Notify;

/// Who forgets those that have ended: one task for all of them, as most are forgotten for others long before their time.
#[derive(Default)]
pub(super) struct Forgetting {
    /// The task is there. Changed only while the roster is locked.
    is_under_way: AtomicBool,
    /// One more has ended, which may be the next to be forgotten.
    ended: Notify,
}

impl Daemon {
    /// Forgets those whose time is over. Gives when it is over for the next one; where there is none, nobody does it any
    /// more.
    fn forget_due(&self) -> Option<Time> {
        let mut roster = self.roster();
        let at = roster.forget_due(self.runtime.now());
        self.forgetting.is_under_way.store(at.is_some(), Ordering::SeqCst);
        at
    }
}

/// Waits for the end of a process.
pub(super) async fn await_end(daemon: Arc<Daemon>, entry: Arc<Entry>, key: Key) {
    let watcher = entry.handle.watcher();
    let over = poll_fn(|cx| watcher.poll_until(cx.waker(), Process::is_over));
    match &entry.receipts {
        None => over.await,
        Some(receipts) => receipts.wait_until(over).await,
    }
    *entry.config() = None;
    if let Some(receipts) = &entry.receipts {
        receipts.settled().await;
    }
    drop(entry);
    let kept = watcher.handle().look(|process| process.log().held() as u64);
    drop(watcher);
    let mut roster = daemon.roster();
    let emptied = roster.handle_ended(key, kept, daemon.runtime.now());
    let is_under_way = daemon.forgetting.is_under_way.swap(true, Ordering::SeqCst);
    drop(roster);
    emptied.iter().for_each(|entry| entry.handle.command(Process::abandon_output));
    if is_under_way {
        daemon.forgetting.ended.notify_one();
    } else {
        let (runtime, forgetting) = (Arc::clone(&daemon.runtime), Arc::clone(&daemon.forgetting));
        daemon.runtime.spawn(Box::pin(forget(Arc::downgrade(&daemon), runtime, forgetting)));
    }
}

/// Forgets each that has ended at its time, until there is none.
async fn forget(daemon: Weak<Daemon>, runtime: Arc<dyn Runtime>, forgetting: Arc<Forgetting>) {
    while let Some(daemon) = daemon.upgrade() {
        let Some(at) = daemon.forget_due() else { return };
        drop(daemon);
        until(&*runtime, at, forgetting.ended.notified()).await;
    }
}
