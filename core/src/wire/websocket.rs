//! The frames of a WebSocket as a server sends them (RFC 6455, section 5.2): not masked, not fragmented, and so a few
//! bytes before a payload that is not copied. What a client sends is read by a library.

/// The kinds of frames.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Opcode {
    /// UTF-8.
    Text = 1,
    /// Bytes.
    Binary = 2,
    /// The end.
    Close = 8,
    /// Are you there?
    Ping = 9,
    /// I am.
    Pong = 10,
}

/// The longest header of a frame that is not masked.
pub const HEADER_MAX: usize = 10;

/// The longest payload of a close, ping or pong frame.
pub const CONTROL_MAX: usize = 125;

/// The longest reason of a close frame: what its code leaves of the payload.
pub const REASON_MAX: usize = CONTROL_MAX - 2;

/// The header of a frame with a payload of `len` bytes: the bytes, and how many of them count.
pub fn header(opcode: Opcode, len: usize) -> ([u8; HEADER_MAX], usize) {
    let mut bytes = [0; HEADER_MAX];
    bytes[0] = 0x80 | opcode as u8;
    let used = if let Ok(len @ ..=125) = u8::try_from(len) {
        bytes[1] = len;
        2
    } else if let Ok(len) = u16::try_from(len) {
        bytes[1] = 126;
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        4
    } else {
        bytes[1] = 127;
        bytes[2..].copy_from_slice(&(len as u64).to_be_bytes());
        10
    };
    (bytes, used)
}

/// A whole close frame. The reason is cut at a character, to what such a frame can hold.
pub fn close(code: u16, reason: &str) -> Vec<u8> {
    let reason = &reason[..reason.floor_char_boundary(REASON_MAX)];
    let (head, used) = header(Opcode::Close, 2 + reason.len());
    [&head[..used], &code.to_be_bytes(), reason.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(opcode: Opcode, len: usize) -> Vec<u8> {
        let (bytes, used) = header(opcode, len);
        bytes[..used].to_vec()
    }

    #[test]
    fn the_length_takes_the_fewest_bytes_that_hold_it() {
        assert_eq!(head(Opcode::Text, 0), [0x81, 0]);
        assert_eq!(head(Opcode::Binary, 125), [0x82, 125]);
        assert_eq!(head(Opcode::Binary, 126), [0x82, 126, 0, 126]);
        assert_eq!(head(Opcode::Binary, 65_535), [0x82, 126, 0xff, 0xff]);
        assert_eq!(head(Opcode::Binary, 65_536), [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn a_reason_is_cut_at_a_character() {
        let frame = close(1000, &"é".repeat(100));
        assert_eq!(frame[..4], [0x88, 2 + 122, 3, 0xe8]);
        assert_eq!(str::from_utf8(&frame[4..]), Ok(&*"é".repeat(61)));
        assert_eq!(close(1001, "bye"), [0x88, 5, 3, 0xe9, b'b', b'y', b'e']);
    }
}
