//! How a command comes back to its server after the connection broke.

use super::{Failure, say};
use clap::Args;
use hangar_core::Time;
use hangar_transports::client::ClientError;
use std::time::Duration;

/// The first wait before it is tried again, and the longest; each is twice the one before.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How long a connection that broke is worth waiting for.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Return {
    /// When the connection breaks, try to come back for so long
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = super::seconds)]
    give_up: f64,
}

impl Return {
    pub(super) fn give_up(self) -> Duration {
        Duration::from_secs_f64(self.give_up)
    }
}

/// When it is tried again, and for how long.
#[derive(Debug)]
pub(super) struct Returning {
    give_up: Duration,
    backoff: Duration,
    /// Since when it is not connected any more.
    lost: Option<Time>,
}

impl Returning {
    pub(super) const fn new(give_up: Duration) -> Self {
        Self { give_up, backoff: BACKOFF.0, lost: None }
    }

    /// It has gone on: after the next break the first wait is short again.
    pub(super) const fn has_gone_on(&mut self) {
        self.backoff = BACKOFF.0;
    }

    /// It is connected. Whether it was lost before.
    pub(super) const fn came_back(&mut self) -> bool {
        self.lost.take().is_some()
    }

    pub(super) const fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Says why it is lost, and for how long it is tried to come back.
    pub(super) fn say_lost(&self, error: &ClientError) {
        say(format_args!("{error}; trying for {} s to come back", self.give_up.as_secs()));
    }

    /// When it is tried again, if it is.
    pub(super) fn next_attempt(&mut self, now: Time, error: &ClientError) -> Result<Time, Failure> {
        let lost = *self.lost.get_or_insert(now);
        if now.since(lost) >= self.give_up {
            return Err(Failure::new(format!("it did not come back, so it is given up: {error}")));
        }
        let at = (now + self.backoff).min(lost + self.give_up);
        self.backoff = (self.backoff * 2).min(BACKOFF.1);
        Ok(at)
    }
}
