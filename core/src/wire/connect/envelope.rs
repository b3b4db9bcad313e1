//! A stream's bytes to its messages and back: one byte of flags, four of length, most significant first, and the message.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Bytes before each message.
pub const HEAD: usize = 5;

/// The message is compressed.
pub const COMPRESSED: u8 = 0x01;

/// The message is the end of the stream: JSON, whatever the codec.
pub const END: u8 = 0x02;

/// One message of a stream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Envelope {
    /// [`COMPRESSED`], [`END`], and bits that nobody has given a meaning yet.
    pub flags: u8,
    /// The message.
    pub data: Bytes,
}

impl Envelope {
    /// Whether it ends the stream.
    pub const fn is_end(&self) -> bool {
        self.flags & END != 0
    }

    /// Whether it is compressed.
    pub const fn is_compressed(&self) -> bool {
        self.flags & COMPRESSED != 0
    }
}

/// A message that is longer than the decoder takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a message of {len} bytes is longer than the {max} that are taken")]
pub struct TooLong {
    /// How long it says it is.
    pub len: u32,
    /// The most that is taken.
    pub max: u32,
}

/// Bytes in, wherever they are cut, and messages out.
///
/// A message that was announced as too long is refused at its head, before any of it is kept. What is held is at most one
/// message and what was pushed last.
#[derive(Debug)]
pub struct Decoder {
    max: u32,
    buffer: BytesMut,
    too_long: Option<TooLong>,
}

impl Decoder {
    /// A decoder that takes messages of at most `max` bytes.
    pub fn new(max: u32) -> Self {
        Self { max, buffer: BytesMut::new(), too_long: None }
    }

    /// Takes bytes as they came. After an error they are dropped: the stream is of no use.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.too_long.is_none() {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The next message that is whole. The error comes again at each call.
    pub fn next_envelope(&mut self) -> Result<Option<Envelope>, TooLong> {
        if let Some(too_long) = self.too_long {
            return Err(too_long);
        }
        let Some(&[flags, a, b, c, d]) = self.buffer.first_chunk::<HEAD>() else { return Ok(None) };
        let len = u32::from_be_bytes([a, b, c, d]);
        if len > self.max {
            let too_long = TooLong { len, max: self.max };
            self.too_long = Some(too_long);
            self.buffer = BytesMut::new();
            return Err(too_long);
        }
        let end = HEAD + len as usize;
        if self.buffer.len() < end {
            return Ok(None);
        }
        self.buffer.advance(HEAD);
        let data = self.buffer.split_to(len as usize).freeze();
        Ok(Some(Envelope { flags, data }))
    }

    /// Whether a message has begun and is not whole: an end of the stream here is a loss.
    pub fn is_inside(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Bytes that are held.
    pub fn held(&self) -> usize {
        self.buffer.len()
    }
}

/// Appends a message that `write` appends to `out`.
pub fn write(flags: u8, out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_u8(flags);
    out.put_u32(0);
    write(out);
    // A message of 4 GiB would not have fitted into memory that anybody has for one.
    let len = u32::try_from(out.len() - start - HEAD).unwrap_or(u32::MAX);
    out[start + 1..start + HEAD].copy_from_slice(&len.to_be_bytes());
}
