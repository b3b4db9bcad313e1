//! A command's output on this terminal, and its end as an exit code.

use super::{FAILED, Failure, say};
use hangar_core::{exec::ExecResult, log::Channel, process::signal_number};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::{Errno, retry_on_intr},
};
use std::{
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd},
};

/// Writes output where it belongs, at once. False once nobody reads it any more.
pub(super) fn show<'a>(
    channel: Channel,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<bool, Failure> {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let mut out = match channel {
        Channel::Stdout | Channel::Tty => Unbuffered(stdout.as_fd()),
        Channel::Stderr => Unbuffered(stderr.as_fd()),
    };
    match pieces.into_iter().try_for_each(|piece| out.write_all(piece)) {
        Ok(()) => Ok(true),
        // `hangar run … | head`: as if this were the command itself.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(format!("the output cannot be written: {error}"))),
    }
}

/// An output of this process. It may have been made non-blocking, as ssh and node do with those that they share: it
/// is waited for all the same.
struct Unbuffered<'a>(BorrowedFd<'a>);

impl Write for Unbuffered<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match rustix::io::write(self.0, bytes) {
                Err(Errno::AGAIN) => {
                    retry_on_intr(|| poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], None))?
                }
                written => return Ok(written?),
            };
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The exit code of a command whose output nobody reads: that of a SIGPIPE.
pub(super) const NOBODY_READS: u8 = 128 + 13;

/// The exit code that a result stands for, as shells have it. What is not plain is said on stderr.
pub(super) fn exit_code(result: &ExecResult) -> u8 {
    if result.drain_timed_out {
        say("something that the command started still holds its output open; it was let go of");
    }
    if result.output_capped {
        say("the server's limit for one stream (HANGAR_STREAM_MAX_BYTES) left out the rest of the output");
    }
    if result.timed_out {
        say("the command was ended by its timeout");
    }
    if let Some(reason) = &result.closed {
        let why = result.error.as_ref().map_or_else(String::new, |error| format!(": {}", error.message));
        say(format_args!("the stream was closed ({reason}{why})"));
    }
    match (result.exit_code, &result.signal) {
        // The kernel keeps eight bits of an exit code.
        (Some(code), _) => code.to_le_bytes()[0],
        (None, Some(signal)) => signal_number(signal).map_or(FAILED, |number| 128 + number),
        (None, None) => FAILED,
    }
}
