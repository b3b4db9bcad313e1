//! What is counted, as Prometheus text.

use hangar_core::Close;
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, prometheus_text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use std::{fmt, time::Duration};

/// What a stream carries.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// A streamed command.
    Exec,
    /// A background process, followed.
    Process,
    /// A directory that is watched.
    Watch,
    /// What changes.
    Listen,
}

impl Kind {
    /// The `kind` label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Process => "process",
            Self::Watch => "watch",
            Self::Listen => "listen",
        }
    }
}

impl EncodeLabelValue for Kind {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        self.name().encode(encoder)
    }
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct OfKind {
    kind: Kind,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Ended {
    kind: Kind,
    reason: &'static str,
}

/// The content type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// The counters of one plane.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    open: Family<OfKind, Gauge>,
    ended: Family<Ended, Counter>,
    bytes: Family<OfKind, Counter>,
    first_output: Family<OfKind, Histogram, fn() -> Histogram>,
    mcp_sessions: Gauge,
}

/// 1 ms to 60 s.
const FIRST_OUTPUT_SECONDS: [f64; 15] =
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let open = Family::default();
        let ended = Family::default();
        let bytes = Family::default();
        let first_output =
            Family::new_with_constructor((|| Histogram::new(FIRST_OUTPUT_SECONDS)) as fn() -> Histogram);
        registry.register("hangar_streams_open", "Open streams", open.clone());
        registry.register("hangar_streams", "Streams closed", ended.clone());
        registry.register("hangar_stream_bytes", "Bytes streamed", bytes.clone());
        registry.register(
            "hangar_stream_first_output_seconds",
            "From a stream's start to its first output",
            first_output.clone(),
        );
        let mcp_sessions = Gauge::default();
        registry.register("hangar_mcp_sessions", "Sessions of MCP clients", mcp_sessions.clone());
        Self { registry, open, ended, bytes, first_output, mcp_sessions }
    }
}

impl Metrics {
    /// A stream was opened.
    pub fn opened(&self, kind: Kind) {
        self.open.get_or_create(&OfKind { kind }).inc();
    }

    /// A stream sent its first output, this long after its start.
    pub fn first_output(&self, kind: Kind, after: Duration) {
        self.first_output.get_or_create(&OfKind { kind }).observe(after.as_secs_f64());
    }

    /// A stream was closed, after it had sent so many bytes of output.
    pub fn closed(&self, kind: Kind, reason: Close, bytes: u64) {
        self.open.get_or_create(&OfKind { kind }).dec();
        self.ended.get_or_create(&Ended { kind, reason: reason.row().label }).inc();
        self.bytes.get_or_create(&OfKind { kind }).inc_by(bytes);
    }

    /// So many sessions of MCP clients there are.
    pub fn mcp_sessions(&self, count: usize) {
        self.mcp_sessions.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// All of it in the Prometheus text format.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string fails only if an encoder of ours does, which has no reason to.
        if prometheus_text::encode(&mut out, &self.registry).is_err() {
            tracing::error!("the metrics could not be written");
        }
        out
    }
}
