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
    /// The close frame of a WebSocket. None where there is no peer left to send one to.
    pub websocket: Option<CloseFrame>,
}

/// What a WebSocket says for one [`Close`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CloseFrame {
    /// The status code, of RFC 6455.
    pub code: u16,
    /// The reason: of the close frame, and of the `end` before it.
    pub reason: &'static str,
    /// Whether an `end` comes before it.
    pub end: bool,
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
            websocket: Option<CloseFrame>,
        ) -> Row {
            Row { label, closed, websocket }
        }
        const fn end(code: u16, reason: &'static str) -> Option<CloseFrame> {
            Some(CloseFrame { code, reason, end: true })
        }
        const fn without_end(code: u16, reason: &'static str) -> Option<CloseFrame> {
            Some(CloseFrame { code, reason, end: false })
        }
        match self {
            Self::Revoked => row("revoked", Some("revoked"), end(1008, "token_revoked")),
            Self::Destroyed => row("destroyed", Some("destroyed"), end(1000, "sandbox_destroyed")),
            Self::Paused => row("paused", Some("paused"), end(1000, "sandbox_paused")),
            Self::Shutdown => row("shutdown", Some("shutdown"), end(1001, "server_shutdown")),
            Self::Done => row("done", None, end(1000, "process_exited")),
            Self::ClientData => row("client_data", None, without_end(1008, "client_data_on_logs")),
            Self::Lifetime => row("lifetime", Some("lifetime"), end(1000, "lifetime")),
            Self::Limit => row("limit", Some("limit"), end(1000, "limit")),
            Self::SlowConsumer => {
                row("slow_consumer", Some("slow_consumer"), without_end(1013, "slow_consumer"))
            }
            Self::Error => row("error", Some("error"), end(1011, "error")),
            Self::Client => row("client", None, None),
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
        Revoked       revoked        revoked        1008 token_revoked        end
        Destroyed     destroyed      destroyed      1000 sandbox_destroyed    end
        Paused        paused         paused         1000 sandbox_paused       end
        Shutdown      shutdown       shutdown       1001 server_shutdown      end
        Done          done           -              1000 process_exited       end
        ClientData    client_data    -              1008 client_data_on_logs  -
        Lifetime      lifetime       lifetime       1000 lifetime             end
        Limit         limit          limit          1000 limit                end
        SlowConsumer  slow_consumer  slow_consumer  1013 slow_consumer        -
        Error         error          error          1011 error                end
        Client        client         -              -";

    #[test]
    fn the_table_covers_every_reason_in_its_order() {
        let rows: Vec<String> = Close::ALL
            .iter()
            .map(|close| {
                let row = close.row();
                let frame = row.websocket.map_or_else(
                    || "-".to_owned(),
                    |CloseFrame { code, reason, end }| {
                        format!("{code} {reason} {}", if end { "end" } else { "-" })
                    },
                );
                format!("{close:?} {} {} {frame}", row.label, row.closed.unwrap_or("-"))
            })
            .collect();
        let expected: Vec<String> =
            TABLE.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn no_reserved_websocket_code_is_ever_sent() {
        for close in Close::ALL {
            let code = close.row().websocket.map(|frame| frame.code);
            assert!(!matches!(code, Some(1004..=1006 | 1015)), "{close:?}");
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
