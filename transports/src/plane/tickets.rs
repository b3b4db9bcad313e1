//! Tickets: each lets one WebSocket follow one process, once and soon.

use super::{
    Plane,
    background::Background,
    lock,
    tokens::{self, Caller},
};
use crate::ApiError;
use hangar_core::tickets::Tickets;
use hyper::StatusCode;
use std::{
    sync::{Arc, Weak},
    time::Duration,
};

/// How long a ticket can be used.
pub const TICKET_TTL: Duration = Duration::from_secs(60);

/// Tickets of one token that are out at once; past it its oldest are dropped.
const MAX_TICKETS: usize = 256;

/// What a ticket lets its holder do.
#[derive(Clone, Debug)]
pub struct Ticket {
    /// The token that it was made with.
    caller: Caller,
    /// It does not keep the process: one that is not listed any more is gone.
    background: Weak<Background>,
    mode: Mode,
}

/// Whether a client may do something beside reading.
#[derive(Clone, Copy, Debug, serde::Deserialize, Eq, PartialEq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It may not.
    Logs,
    /// It may write input, resize the terminal and send signals.
    Attach,
}

/// A ticket as its holder gets it.
#[derive(Clone, Debug)]
pub struct Minted {
    /// The secret.
    pub token: String,
    /// Until when it can be used: milliseconds since 1970.
    pub expires_at_ms: i64,
}

impl Ticket {
    /// What its holder may do.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Who made it.
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }
}

impl Plane {
    /// A ticket for a WebSocket.
    pub fn mint(
        &self,
        caller: &Caller,
        background: &Arc<Background>,
        mode: Mode,
    ) -> Result<Minted, ApiError> {
        if mode == Mode::Logs && background.is_logging_disabled() {
            return Err(logging_disabled());
        }
        let mut random = [0; 32];
        self.runtime.random(&mut random);
        let token = tokens::ticket(&random);
        let ticket = Ticket { caller: caller.clone(), background: Arc::downgrade(background), mode };
        lock(&self.tickets)
            .entry(caller.token().to_owned())
            .or_insert_with(|| Tickets::new(TICKET_TTL, MAX_TICKETS))
            .issue(tokens::hash(&token), ticket, self.runtime.now());
        let ttl = i64::try_from(TICKET_TTL.as_millis()).unwrap_or(i64::MAX);
        Ok(Minted { token, expires_at_ms: self.runtime.wall_ms().saturating_add(ttl) })
    }

    /// What a ticket is for, if it can be used now: its token is asked again whether it may.
    pub fn peek_ticket(&self, token: &str) -> Result<(Ticket, Arc<Background>), ApiError> {
        let (hash, now) = (tokens::hash(token), self.runtime.now());
        let ticket = lock(&self.tickets).values().find_map(|tickets| tickets.peek(&hash, now).cloned());
        let ticket = ticket.filter(|ticket| self.recheck(&ticket.caller).is_ok()).ok_or_else(bad_ticket)?;
        let background = ticket.background.upgrade();
        let background =
            background.filter(|background| !self.processes.is_gone(background)).ok_or_else(|| {
                ApiError::new(StatusCode::GONE, "process_gone", "the process is not listed any more")
            })?;
        Ok((ticket, background))
    }

    /// Drops the tickets that are too late.
    pub(super) fn purge_tickets(&self) {
        let now = self.runtime.now();
        lock(&self.tickets).retain(|_, tickets| {
            tickets.purge(now);
            !tickets.is_empty()
        });
    }

    /// Uses a ticket: of several that do so at once one succeeds.
    pub fn redeem(&self, token: &str) -> Result<(), ApiError> {
        let (hash, now) = (tokens::hash(token), self.runtime.now());
        let taken = lock(&self.tickets).values_mut().find_map(|tickets| tickets.take(&hash, now));
        taken.map(drop).ok_or_else(bad_ticket)
    }
}

/// 401: one answer, whatever is wrong with it.
fn bad_ticket() -> ApiError {
    ApiError::new(
        StatusCode::UNAUTHORIZED,
        "bad_ticket",
        "the token of this URL is unknown, used or expired; ask for another by stream-access",
    )
}

/// 409: nothing of the process's output is kept.
pub(crate) fn logging_disabled() -> ApiError {
    ApiError::new(
        StatusCode::CONFLICT,
        "logging_disabled",
        "the process was started with max_log_bytes 0: nothing of its output is kept; attach to it instead",
    )
}
