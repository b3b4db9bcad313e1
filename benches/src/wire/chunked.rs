//! The chunked transfer coding of HTTP/1.1 (RFC 9112, section 7.1), taken off piece by piece.

use crate::Result;

/// Takes the coding off a body that arrives in pieces.
#[derive(Debug)]
pub struct Chunked {
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// In the digits of a chunk's size.
    Size { size: u64, digits: u32 },
    /// After the digits, before the end of the line.
    Extension { size: u64 },
    /// In a chunk, `left` bytes before its end.
    Data { left: u64 },
    /// In the line break after a chunk.
    AfterData,
    /// In the lines after the last chunk; the current one has `length` bytes so far.
    Trailer { length: u64 },
    /// Past the end.
    Ended,
}

impl Default for Chunked {
    fn default() -> Self {
        Self { state: State::Size { size: 0, digits: 0 } }
    }
}

impl Chunked {
    /// Passes the content in `bytes` on. Bytes after the end are an error: nothing was asked that they could answer.
    pub fn feed(&mut self, mut bytes: &[u8], mut content: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        while let Some(&byte) = bytes.first() {
            if let State::Data { left } = self.state {
                let (data, rest) = bytes.split_at(bytes.len().min(usize::try_from(left)?));
                content(data)?;
                let left = left - data.len() as u64;
                self.state = if left == 0 { State::AfterData } else { State::Data { left } };
                bytes = rest;
                continue;
            }
            self.state = self.state.after(byte)?;
            bytes = &bytes[1..];
        }
        Ok(())
    }

    /// Whether the last chunk and its trailer have come.
    pub const fn ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }
}

impl State {
    /// The state after one byte that is not content.
    fn after(self, byte: u8) -> Result<Self> {
        match (self, byte) {
            (Self::Size { size, digits }, _) if byte.is_ascii_hexdigit() && digits < 15 => {
                let digit = (byte as char).to_digit(16).unwrap_or_default();
                Ok(Self::Size { size: size * 16 + u64::from(digit), digits: digits + 1 })
            }
            (Self::Size { size, digits: 1.. }, b'\r' | b';' | b' ') => Ok(Self::Extension { size }),
            (Self::Extension { size: 0 }, b'\n') => Ok(Self::Trailer { length: 0 }),
            (Self::Extension { size }, b'\n') => Ok(Self::Data { left: size }),
            (Self::Extension { .. }, _) => Ok(self),
            (Self::AfterData, b'\r') => Ok(self),
            (Self::AfterData, b'\n') => Ok(Self::default_size()),
            (Self::Trailer { length: 0 }, b'\n') => Ok(Self::Ended),
            (Self::Trailer { .. }, b'\n') => Ok(Self::Trailer { length: 0 }),
            (Self::Trailer { .. }, b'\r') => Ok(self),
            (Self::Trailer { length }, _) => Ok(Self::Trailer { length: length + 1 }),
            (Self::Size { .. } | Self::AfterData | Self::Data { .. }, _) => {
                Err(format!("not a chunked body: {:?} where a chunk's frame should be", byte as char).into())
            }
            (Self::Ended, _) => Err("the server sent more than its answer".into()),
        }
    }

    const fn default_size() -> Self {
        Self::Size { size: 0, digits: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> Result<(Vec<u8>, bool)> {
        let (mut chunked, mut content) = (Chunked::default(), Vec::new());
        for piece in pieces {
            chunked.feed(piece, |bytes| {
                content.extend_from_slice(bytes);
                Ok(())
            })?;
        }
        Ok((content, chunked.ended()))
    }

    const BODY: &[u8] = b"5\r\nhello\r\nB;x=y\r\n, chunked w\r\n4\r\norld\r\n0\r\nTrailer: z\r\n\r\n";

    #[test]
    fn the_content_is_the_same_however_it_is_cut() {
        for cut in 0..=BODY.len() {
            let (content, ended) = decode(&[&BODY[..cut], &BODY[cut..]]).unwrap();
            assert_eq!(
                (content.as_slice(), ended),
                (b"hello, chunked world".as_slice(), true),
                "cut at {cut}"
            );
        }
        let bytes: Vec<&[u8]> = BODY.chunks(1).collect();
        assert_eq!(decode(&bytes).unwrap().0, b"hello, chunked world");
    }

    #[test]
    fn it_ends_with_the_last_byte_and_not_before() {
        for cut in 0..BODY.len() {
            assert!(!decode(&[&BODY[..cut]]).unwrap().1, "cut at {cut}");
        }
    }

    #[test]
    fn what_is_not_chunked_is_an_error() {
        assert!(decode(&[b"{\"error\""]).is_err());
        assert!(decode(&[b"\r\n"]).is_err());
        assert!(decode(&[b"3\r\nabcd"]).is_err());
        assert!(decode(&[b"0\r\n\r\nHTTP/1.1"]).is_err());
        assert!(decode(&[b"ffffffffffffffff\r\n"]).is_err());
    }
}
