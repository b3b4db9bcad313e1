//! Why a stream ends: one reason for the whole product, and one table from it to what each transport says.

/// Why a stream ended.
///
/// Declared in the order in which they win: when several apply at once, the first one is told (see
/// [`Close::or`]).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Close {
    /// The token that opened it was revoked or has expired.
    Revoked,
    /// Its sandbox was destroyed.
    Destroyed,
    /// Its sandbox was paused.
    Paused,
    /// hangar shuts down.
    Shutdown,
    /// It came to its own end: the process ended and all its output was given out.
    Done,
    /// A read-only client sent data.
    ClientData,
    /// It was open longer than an event, watch or listen stream may be.
    Lifetime,
    /// It passed the byte cap of a follower.
    Limit,
    /// Its reader was too slow, and what it was to read next is gone.
    SlowConsumer,
    /// The sandbox's side broke.
    Error,
    /// The client left.
    Client,
}

/// What each transport says for one [`Close`]: a row of [`Close::row`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Row {
    /// The `reason` label of `hangar_streams_total`.
    pub label: &'static str,
    /// The `reason` of an SSE `close` event and the `closed` field of a result. None where the stream has its own
    /// end (`result`, `end`) or nobody is left to hear it.
    pub closed: Option<&'static str>,
    /// The status code of a WebSocket close frame. None where there is no peer left to send one to.
    pub websocket: Option<u16>,
    /// The `reason` of a WebSocket `end` frame. None where the stream closes without one.
    pub end: Option<&'static str>,
}

impl Close {
    /// Every reason, first the one that wins.
    pub const ALL: [Self; 11] = [
        Self::Revoked,
        Self::Destroyed,
        Self::Paused,
        Self::Shutdown,
        Self::Done,
        Self::ClientData,
        Self::Lifetime,
        Self::Limit,
        Self::SlowConsumer,
        Self::Error,
        Self::Client,
    ];

    /// The one table from a reason to what each transport says.
    pub const fn row(self) -> Row {
        const fn row(
            label: &'static str,
            closed: Option<&'static str>,
            websocket: Option<u16>,
            end: Option<&'static str>,
        ) -> Row {
            Row { label, closed, websocket, end }
        }
        match self {
            Self::Revoked => row("revoked", Some("revoked"), Some(1008), Some("token_revoked")),
            Self::Destroyed => row("destroyed", Some("destroyed"), Some(1000), Some("sandbox_destroyed")),
            Self::Paused => row("paused", Some("paused"), Some(1000), Some("sandbox_paused")),
            Self::Shutdown => row("shutdown", Some("shutdown"), Some(1001), Some("server_shutdown")),
            Self::Done => row("done", None, Some(1000), Some("process_exited")),
            Self::ClientData => row("client_data", None, Some(1008), None),
            Self::Lifetime => row("lifetime", Some("lifetime"), Some(1000), Some("lifetime")),
            Self::Limit => row("limit", Some("limit"), Some(1000), Some("limit")),
            Self::SlowConsumer => row("slow_consumer", Some("slow_consumer"), Some(1013), None),
            Self::Error => row("error", Some("error"), Some(1011), Some("error")),
            Self::Client => row("client", None, None, None),
        }
    }

    /// Whether a streamed command is killed when its stream ends for this reason: its client is gone, or has lost
    /// the right to it. Everything else lets it run to its end or its timeout.
    pub const fn kills_exec(self) -> bool {
        matches!(self, Self::Client | Self::Revoked)
    }

    /// The one of the two that is told.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.min(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of docs/protocol.md, written out once more, as text.
    const TABLE: &str = "\
        Revoked       revoked        revoked        1008  token_revoked
        Destroyed     destroyed      destroyed      1000  sandbox_destroyed
        Paused        paused         paused         1000  sandbox_paused
        Shutdown      shutdown       shutdown       1001  server_shutdown
        Done          done           -              1000  process_exited
        ClientData    client_data    -              1008  -
        Lifetime      lifetime       lifetime       1000  lifetime
        Limit         limit          limit          1000  limit
        SlowConsumer  slow_consumer  slow_consumer  1013  -
        Error         error          error          1011  error
        Client        client         -              -     -";

    #[test]
    fn the_table_covers_every_reason_in_its_order() {
        let rows: Vec<String> = Close::ALL
            .iter()
            .map(|close| {
                let row = close.row();
                let code = row.websocket.map_or_else(|| "-".to_owned(), |code| code.to_string());
                let cells =
                    [row.label, row.closed.unwrap_or("-"), code.as_str(), row.end.unwrap_or("-")].join(" ");
                format!("{close:?} {cells}")
            })
            .collect();
        let expected: Vec<String> =
            TABLE.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn no_reserved_websocket_code_is_ever_sent() {
        for close in Close::ALL {
            assert!(!matches!(close.row().websocket, Some(1004..=1006 | 1015)), "{close:?}");
        }
    }

    #[test]
    fn the_first_in_the_order_wins() {
        for (i, first) in Close::ALL.into_iter().enumerate() {
            for second in &Close::ALL[i..] {
                assert_eq!(first.or(*second), first);
                assert_eq!(second.or(first), first);
            }
        }
    }

    #[test]
    fn only_a_client_without_a_right_or_a_wish_kills() {
        let kills: Vec<Close> = Close::ALL.into_iter().filter(|close| close.kills_exec()).collect();
        assert_eq!(kills, [Close::Revoked, Close::Client]);
    }
}
