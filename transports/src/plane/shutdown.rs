//! The end of a plane: streams end at once, commands get a while.

use super::Plane;
use hangar_backends::{Handle, runtime::sleep_until};
use hangar_core::{Close, process::Process};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// How often it is looked at what still runs.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a shutdown left behind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Left {
    /// Commands that had not ended by themselves when the time was over, and were killed.
    pub killed: usize,
}

impl Plane {
    /// Refuses what is new, and ends every stream and every watch: with what it has so far, and why.
    pub fn begin_shutdown(&self) {
        self.shutting_down.store(true, Ordering::SeqCst);
        self.close_streams(Close::Shutdown, |_| true);
        self.watches.end(Close::Shutdown, |_| true);
    }

    /// Waits for the commands that end with this server, `HANGAR_LOCAL_DRAIN_SECONDS` at the most or until
    /// [`hurry`](Self::hurry), then kills what is left of them and waits until it is gone.
    pub async fn drain(&self) -> Left {
        let end = self.runtime.now() + self.settings.local_drain;
        while self.ending_with_us() > 0 && self.runtime.now() < end && !self.hurried.load(Ordering::SeqCst) {
            sleep_until(&*self.runtime, self.runtime.now() + LOOK_EVERY).await;
        }
        let killed = self.ending_with_us();
        // All of them first, so that their grace times are one.
        for handle in self.ending() {
            handle.command(Process::kill);
        }
        for entry in self.sandboxes.all() {
            if let Err(error) = entry.sandbox().shut_down().await {
                tracing::error!(sandbox = entry.name(), %error, "the sandbox did not end");
            }
        }
        Left { killed }
    }

    /// Kills what ends with this server, without waiting for it first.
    pub async fn drain_now(&self) -> Left {
        self.hurry();
        self.drain().await
    }

    /// Kills what ends with this server, and gives it no time for anything: for who has none either.
    pub fn kill_now(&self) {
        self.hurry();
        for handle in self.ending() {
            handle.command(Process::close);
        }
    }

    /// Ends the waiting of [`drain`](Self::drain).
    pub fn hurry(&self) {
        self.hurried.store(true, Ordering::SeqCst);
    }

    /// Commands that run, and end with this server.
    fn ending_with_us(&self) -> usize {
        self.ending().filter(|handle| handle.look(|process| process.exit_status().is_none())).count()
    }

    /// The processes that end with this server.
    fn ending(&self) -> impl Iterator<Item = Arc<Handle>> {
        self.sandboxes.all().into_iter().flat_map(|entry| entry.sandbox().ending_with_server())
    }
}
