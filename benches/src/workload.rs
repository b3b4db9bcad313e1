//! The way of one message through core, as the shells take it: a read of the pipe, the log, the stream, the event.

use bytes::BytesMut;
use hangar_core::{
    Time,
    exec::{Config, Encoding, Exec, Output, Streaming},
    log::{Channel, Retention},
    process::{self, Process},
    wire::sse,
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
        process.handle_started();
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
