//! The process protocol as a client reads it: the answer that opens the WebSocket, then frames that are neither masked
//! nor fragmented.

use memchr::memmem;
use serde_json::Value;

use super::Sink;
use crate::Result;

/// Bytes before the output in a binary message.
const HEADER: usize = 17;

/// The longest answer, and the longest message that is no output.
const MAX_MESSAGE: usize = 64 << 10;

/// Decodes what comes, and passes output on from where it was received: it is as cheap as plain bytes.
#[derive(Debug, Default)]
pub struct Socket {
    state: State,
    /// What has come of the answer, of the head of a frame, or of a message that is no output.
    begun: Vec<u8>,
    ready: bool,
    /// The process ended well.
    exited: bool,
    ended: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// In the answer that opens the socket.
    #[default]
    Opening,
    /// In the head of a frame, with the header of output where it is that.
    Head,
    /// In output of which that many bytes are still to come.
    Output { stdout: bool, left: usize },
    /// In another message, of that many bytes.
    Message { opcode: u8, len: usize },
}

impl Socket {
    /// Takes what was received, and passes the output on.
    pub fn feed(&mut self, at_ns: u64, mut bytes: &[u8], sink: &mut impl Sink) -> Result<()> {
        while !bytes.is_empty() {
            let used = match self.state {
                State::Opening => self.feed_opening(bytes)?,
                State::Head => self.feed_head(bytes)?,
                State::Output { stdout, left } => {
                    let data = &bytes[..bytes.len().min(left)];
                    if stdout {
                        sink.payload(at_ns, data);
                    }
                    self.state = match left - data.len() {
                        0 => State::Head,
                        left => State::Output { stdout, left },
                    };
                    data.len()
                }
                State::Message { opcode, len } => {
                    let used = self.begin(bytes, len);
                    if self.begun.len() == len {
                        self.handle_message(opcode)?;
                    }
                    used
                }
            };
            bytes = &bytes[used..];
        }
        Ok(())
    }

    /// Whether the process protocol has said that the stream is open.
    pub const fn ready(&self) -> bool {
        self.ready
    }

    /// Whether the close frame came, after an end that is one.
    pub const fn ended(&self) -> bool {
        self.ended
    }

    /// Takes what is missing to `len` bytes.
    fn begin(&mut self, bytes: &[u8], len: usize) -> usize {
        let used = bytes.len().min(len - self.begun.len());
        self.begun.extend_from_slice(&bytes[..used]);
        used
    }

    fn feed_opening(&mut self, bytes: &[u8]) -> Result<usize> {
        let before = self.begun.len();
        self.begun.extend_from_slice(bytes);
        let Some(end) = memmem::find(&self.begun, b"\r\n\r\n") else {
            return if self.begun.len() > MAX_MESSAGE {
                Err("an endless head".into())
            } else {
                Ok(bytes.len())
            };
        };
        if !self.begun.starts_with(b"HTTP/1.1 101 ") {
            return Err(format!("not opened: {}", String::from_utf8_lossy(&self.begun)).into());
        }
        self.begun.clear();
        self.state = State::Head;
        Ok(end + 4 - before)
    }

    fn feed_head(&mut self, bytes: &[u8]) -> Result<usize> {
        let used = self.begin(bytes, head_len(&self.begun));
        if self.begun.len() < head_len(&self.begun) {
            return Ok(used);
        }
        let (opcode, len) = (self.begun[0] & 0x0f, payload_len(&self.begun));
        if opcode == 2 {
            let left = len.checked_sub(HEADER).ok_or("a frame is shorter than its header")?;
            let stream = self.begun[self.begun.len() - HEADER + 8];
            self.state = if left == 0 { State::Head } else { State::Output { stdout: stream == 1, left } };
            self.begun.clear();
            return Ok(used);
        }
        if len > MAX_MESSAGE {
            return Err(format!("a message of {len} bytes").into());
        }
        self.begun.clear();
        self.state = State::Message { opcode, len };
        if len == 0 {
            self.handle_message(opcode)?;
        }
        Ok(used)
    }

    fn handle_message(&mut self, opcode: u8) -> Result<()> {
        let message = std::mem::take(&mut self.begun);
        self.state = State::Head;
        match opcode {
            1 => self.control(&message)?,
            8 if self.exited => self.ended = true,
            8 => return Err(format!("closed: {}", String::from_utf8_lossy(&message)).into()),
            _ => {}
        }
        Ok(())
    }

    fn control(&mut self, text: &[u8]) -> Result<()> {
        let message: Value = serde_json::from_slice(text)?;
        match message["type"].as_str() {
            Some("end") if message["exit_code"] == 0 => self.exited = true,
            Some("ready") => self.ready = true,
            _ => return Err(format!("the stream said {message}").into()),
        }
        Ok(())
    }
}

/// The bytes of the head that begins so, as far as is known yet.
fn head_len(begun: &[u8]) -> usize {
    let [first, second, ..] = begun else { return 2 };
    let length = match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    2 + length + if first & 0x0f == 2 { HEADER } else { 0 }
}

/// The length in a head that is whole.
fn payload_len(head: &[u8]) -> usize {
    let length = match head[1] & 0x7f {
        126 => &head[2..4],
        127 => &head[2..10],
        len => return usize::from(len),
    };
    length.iter().fold(0, |len, byte| len << 8 | usize::from(*byte))
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
            assert!(socket.ready());
        }
        let (mut socket, mut count) = (Socket::default(), Count::default());
        stream.chunks(1).for_each(|byte| socket.feed(1, byte, &mut count).unwrap());
        assert_eq!((count.bytes, socket.ended()), (4, true));
    }

    #[test]
    fn every_length_is_read() {
        for len in [1, 108, 109, 65_518, 65_519, 70_000_usize] {
            let all = len + HEADER;
            let mut stream = b"HTTP/1.1 101 x\r\n\r\n\x89\x00\x82".to_vec();
            match (u8::try_from(all), u16::try_from(all)) {
                (Ok(short @ ..=125), _) => stream.push(short),
                (_, Ok(middle)) => stream.extend([&[126][..], &middle.to_be_bytes()].concat()),
                (_, Err(_)) => stream.extend([&[127][..], &(all as u64).to_be_bytes()].concat()),
            }
            stream.extend([0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
            stream.resize(stream.len() + len, b'\n');
            stream.extend(b"\x8a\x01x");
            let (mut socket, mut count) = (Socket::default(), Count::default());
            stream.chunks(1000).for_each(|bytes| socket.feed(1, bytes, &mut count).unwrap());
            assert_eq!((count.bytes, count.lines), (len as u64, len as u64));
            assert!(!socket.ready() && !socket.ended());
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
            b"\x82\x10\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0",
            b"\x81\x7f\0\0\0\0\0\x02\0\0",
        ] {
            let mut socket = Socket::default();
            socket.feed(1, open, &mut count).unwrap();
            assert!(socket.feed(1, bad, &mut count).is_err());
        }
    }
}
