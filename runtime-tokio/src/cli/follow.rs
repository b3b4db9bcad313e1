//! A command's output on this terminal, and its end as an exit code.

use super::{FAILED, Failure, say};
use hangar_core::{exec::ExecResult, log::Channel, process::signal_number};
use std::io::{self, Write};

/// Writes output where it belongs, at once. False once nobody reads it any more.
pub(super) fn show<'a>(
    channel: Channel,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<bool, Failure> {
    let write = |out: &mut dyn Write| -> io::Result<()> {
        for piece in pieces {
            out.write_all(piece)?;
        }
        out.flush()
    };
    let written = match channel {
        Channel::Stdout | Channel::Tty => write(&mut io::stdout().lock()),
        Channel::Stderr => write(&mut io::stderr().lock()),
    };
    match written {
        Ok(()) => Ok(true),
        // `hangar run … | head`: as if this were the command itself.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(format!("the output cannot be written: {error}"))),
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
