//! Server-Sent Events: an encoder that no data can break, and a strict decoder (WHATWG HTML, section 9.2).

mod decode;
mod encode;

pub use decode::{Decoder, Event, TooLong};
pub use encode::{COMMENT, Event as Encoding, comment, event, message};
