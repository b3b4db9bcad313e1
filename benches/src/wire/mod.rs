//! What a server's answer is decoded with: as little as it takes to see every byte of the payload, and cheap enough
//! that the client is not what a throughput figure measures.

pub mod changes;
pub mod chunked;
pub mod json_text;
pub mod mcp;
pub mod response;
pub mod socket;
pub mod sse;
pub mod tally;

use tally::Tallied;

/// Where the decoded payload goes.
pub trait Sink {
    /// Whether the text of events need not be decoded, only counted: it then comes to [`tally`](Self::tally).
    const TALLIES: bool = false;

    /// More of what the command printed to its stdout, in order, received at `at_ns` of the wall clock.
    fn payload(&mut self, at_ns: u64, bytes: &[u8]);

    /// More payload, of which only the count is known.
    fn tally(&mut self, tallied: Tallied) {
        _ = tallied;
    }
}

/// Keeps the payload, for tests.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct Collected(pub(crate) Vec<u8>);

#[cfg(test)]
impl Sink for Collected {
    fn payload(&mut self, _at_ns: u64, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}
