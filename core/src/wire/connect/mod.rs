//! The Connect protocol, as far as E2B's envd speaks it: unary calls, streams of a server and streams of a client, in
//! JSON and in protobuf, without compression. Client and server share it.
//!
//! * [`head`]: what the headers of a request say: the codec, the deadline, the keep-alive.
//! * [`envelope`]: a stream's bytes to its messages and back.
//! * [`error`]: error codes, their HTTP statuses, and the end of a stream.
//!
//! See <https://connectrpc.com/docs/protocol>, and `docs/envd.md` for the calls.

pub mod envelope;
pub mod error;
pub mod head;

pub use envelope::{Decoder, Envelope};
pub use error::{Code, End, RpcError};
pub use head::{Codec, Kind};
