//! The process protocol as a client reads it: the answer that opens the WebSocket, then frames that are neither masked
//! nor fragmented.

use serde_json::Value;

use super::Sink;
use crate::Result;

/// Bytes before the output in a binary message.
const HEADER: usize = 17;

/// What came and is no whole frame yet.
#[derive(Debug, Default)]
pub struct Socket {
    pending: Vec<u8>,
    open: bool,
    /// The process ended well.
    exited: bool,
    ended: bool,
}

impl Socket {
    /// Takes what was received, and passes the output on.
    pub fn feed(&mut self, at_ns: u64, bytes: &[u8], sink: &mut impl Sink) -> Result<()> {
        self.pending.extend_from_slice(bytes);
        let pending = std::mem::take(&mut self.pending);
        let mut rest = &pending[..];
        if !self.open {
            let Some(head) = rest.windows(4).position(|window| window == b"\r\n\r\n") else {
                self.pending = pending;
                return Ok(());
            };
            if !rest.starts_with(b"HTTP/1.1 101 ") {
                return Err(format!("not opened: {}", String::from_utf8_lossy(&rest[..head])).into());
            }
            self.open = true;
            rest = &rest[head + 4..];
        }
        while let Some((opcode, payload, after)) = frame(rest) {
            rest = after;
            match opcode {
                1 => self.control(payload)?,
                2 => {
                    let data = payload.get(HEADER..).ok_or("a frame is shorter than its header")?;
                    if payload[8] == 1 {
                        sink.payload(at_ns, data);
                    }
                }
                8 if self.exited => self.ended = true,
                8 => return Err(format!("closed: {}", String::from_utf8_lossy(payload)).into()),
                _ => {}
            }
        }
        self.pending = rest.to_vec();
        Ok(())
    }

    fn control(&mut self, text: &[u8]) -> Result<()> {
        let message: Value = serde_json::from_slice(text)?;
        match message["type"].as_str() {
            Some("end") if message["exit_code"] == 0 => self.exited = true,
            Some("ready") => {}
            _ => return Err(format!("the stream said {message}").into()),
        }
        Ok(())
    }

    /// Whether the close frame came, after an end that is one.
    pub const fn ended(&self) -> bool {
        self.ended
    }
}

/// The first frame, and what comes after it.
fn frame(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<2>()?;
    let (len, rest) = match head[1] & 0x7f {
        126 => {
            rest.split_first_chunk::<2>().map(|(len, rest)| (usize::from(u16::from_be_bytes(*len)), rest))?
        }
        127 => rest
            .split_first_chunk::<8>()
            .map(|(len, rest)| (usize::try_from(u64::from_be_bytes(*len)).unwrap_or(usize::MAX), rest))?,
        len => (usize::from(len), rest),
    };
    (rest.len() >= len).then(|| (head[0] & 0x0f, &rest[..len], &rest[len..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::sink::Count;

    #[test]
    fn output_is_what_comes_after_the_header_wherever_it_is_cut() {
        let mut stream =
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n\x81\x10{\"type\":\"ready\"}"
                .to_vec();
        for (channel, data) in [(1_u8, "a\nb"), (2, "err"), (1, "\n")] {
            stream.extend([0x82, u8::try_from(17 + data.len()).unwrap()]);
            stream.extend([0, 0, 0, 0, 0, 0, 0, 1, channel, 0, 0, 0, 0, 0, 0, 0, 0]);
            stream.extend(data.bytes());
        }
        stream.extend(b"\x81\x1c{\"type\":\"end\",\"exit_code\":0}\x88\x02\x03\xe8");
        for cut in 0..stream.len() {
            let (mut socket, mut count) = (Socket::default(), Count::default());
            socket.feed(1, &stream[..cut], &mut count).unwrap();
            assert!(!socket.ended());
            socket.feed(2, &stream[cut..], &mut count).unwrap();
            assert_eq!((count.bytes, count.lines, socket.ended()), (4, 2, true), "cut at {cut}");
        }
    }

    #[test]
    fn what_is_no_good_end_is_an_error() {
        let mut count = Count::default();
        assert!(Socket::default().feed(1, b"HTTP/1.1 429 Too Many\r\n\r\n", &mut count).is_err());
        let open = b"HTTP/1.1 101 x\r\n\r\n";
        for bad in [
            &b"\x88\x02\x03\xf5"[..],
            b"\x81\x1c{\"type\":\"end\",\"exit_code\":3}",
            b"\x81\x0e{\"type\":\"gap\"}",
        ] {
            let mut socket = Socket::default();
            socket.feed(1, open, &mut count).unwrap();
            assert!(socket.feed(1, bad, &mut count).is_err());
        }
    }
}
