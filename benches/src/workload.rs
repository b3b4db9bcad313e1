//! The way of one message through core, as the shells take it: a read of the pipe, the log, the stream, the event; and
//! the frames of a WebSocket.

use bytes::{BufMut as _, Bytes, BytesMut};
use hangar_core::{
    Time,
    exec::{Config, Encoding, Exec, Output, Streaming},
    log::{Channel, Frame, Retention},
    process::{self, Process},
    wire::{
        process::{HEADER_LEN, Header},
        sse,
        websocket::{self, Opcode},
    },
};
use std::fmt::Write as _;

/// A command's way to its client, without the sockets.
#[derive(Debug)]
pub struct Path {
    process: Process,
    exec: Exec,
    out: BytesMut,
    encoding: Encoding,
    now: u64,
}

impl Path {
    /// A running command whose output is not held up by any pace or cap.
    pub fn new(encoding: Encoding) -> Self {
        let retention = Retention::UntilRead { bytes: 256 * 1024 };
        let mut process = Process::new(process::Config { retention, ..Default::default() }, Time::ZERO);
        process.handle_started(None);
        let stream = Some(Streaming { bytes_per_second: 1 << 50, max_bytes: 1 << 50 });
        let config = Config { encoding, stream, tail: 256 * 1024 };
        let exec = Exec::new(config, &mut process, Time::ZERO);
        Self { process, exec, out: BytesMut::new(), encoding, now: 0 }
    }

    /// One read of the pipe and all that comes of it; returns the bytes of the events.
    pub fn read(&mut self, data: &[u8]) -> usize {
        self.now += 1000;
        let now = Time::from_nanos(self.now);
        let mut taken = 0;
        let mut sent = 0;
        while taken < data.len() {
            taken += self.process.handle_output(Channel::Stdout, 0, &data[taken..]);
            while let Output::Transmit { channel, text } = self.exec.poll_output(&mut self.process, now) {
                let event = sse::event(channel.name(), &mut self.out);
                match self.encoding {
                    Encoding::Text => event.output(&text),
                    Encoding::Base64 => event.output_base64(&text),
                }
            }
            // hyper holds it until it is sent, and lets go of it then.
            sent += self.out.split().freeze().len();
        }
        sent
    }
}

/// What waits for a WebSocket, without the socket: frames of the process protocol behind one another.
#[derive(Debug, Default)]
pub struct Outbox {
    out: BytesMut,
}

impl Outbox {
    /// Encodes frames, and lets go of them as after a write that took all; returns the bytes.
    pub fn send(&mut self, frames: &[Frame]) -> usize {
        for frame in frames {
            let (head, used) = websocket::header(Opcode::Binary, HEADER_LEN + frame.data.len());
            self.out.put_slice(&head[..used]);
            self.out.put_slice(&Header::of(frame).encode());
            self.out.put_slice(&frame.data);
        }
        self.out.split().freeze().len()
    }
}

/// `count` frames of `len` bytes each, as a log numbers them.
pub fn frames(count: u64, len: usize) -> Vec<Frame> {
    let data = Bytes::from(lines(len, len));
    let frame = |number| {
        let offset = number * len as u64;
        Frame {
            seq: number + 1,
            offset,
            channel: Channel::Stdout,
            ts_ms: 1_800_000_000_000,
            data: data.clone(),
        }
    };
    (0..count).map(frame).collect()
}

/// Lines of about `width` bytes, `len` bytes in all, like those of a build or a log.
pub fn lines(len: usize, width: usize) -> Vec<u8> {
    let mut text = String::with_capacity(len + width);
    let mut number = 0;
    while text.len() < len {
        number += 1;
        // Writing to a string cannot fail.
        let _infallible = write!(text, "{number:08} ");
        text.extend(std::iter::repeat_n('x', width.saturating_sub(10)));
        text.push('\n');
    }
    text.truncate(len);
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_those_of_the_protocol() {
        let frames = frames(3, 64);
        let mut outbox = Outbox::default();
        assert_eq!(outbox.send(&frames), 3 * (2 + HEADER_LEN + 64));
        assert_eq!(outbox.send(&frames[..1]), 2 + HEADER_LEN + 64);
        assert_eq!((frames[2].seq, frames[2].offset, frames[2].data.len()), (3, 128, 64));
    }

    #[test]
    fn lines_are_as_long_as_asked_for() {
        let lines = lines(250, 100);
        assert_eq!(lines.len(), 250);
        assert!(lines.starts_with(b"00000001 ") && lines[100..].starts_with(b"00000002 "));
    }
}
