//! The events of a stream that follows a process, as the daemon writes them.

use super::{
    encode,
    process::{DataEvent, Empty, EndEvent, ExitedEvent, ProcessEvent, StartEvent, StartResponse},
};
use crate::{
    log::{Channel, Frame},
    process::{Exit, signal_name},
    wire::{connect::Codec, json},
};
use bytes::{BufMut, BytesMut};
use std::fmt::Write as _;

/// Appends what a process printed. `placed` says where that is in its log, too.
pub fn data(codec: Codec, frame: &Frame, placed: bool, out: &mut BytesMut) {
    match codec {
        Codec::Json => json_data(frame, placed, out),
        Codec::Proto => {
            let mut data = DataEvent::default();
            let bytes = Some(frame.data.clone());
            match frame.channel {
                Channel::Stdout => data.stdout = bytes,
                Channel::Stderr => data.stderr = bytes,
                Channel::Tty => data.pty = bytes,
            }
            if placed {
                (data.seq, data.offset, data.ts_ms) =
                    (Some(frame.seq), Some(frame.offset), Some(frame.ts_ms));
            }
            event(codec, ProcessEvent { data: Some(data), ..ProcessEvent::default() }, out);
        }
    }
}

/// The same without a string in between: these are most of the bytes of most streams.
fn json_data(frame: &Frame, placed: bool, out: &mut BytesMut) {
    let channel: &[u8] = match frame.channel {
        Channel::Stdout => b"stdout",
        Channel::Stderr => b"stderr",
        Channel::Tty => b"pty",
    };
    out.put_slice(b"{\"event\":{\"data\":{\"");
    out.put_slice(channel);
    out.put_slice(b"\":\"");
    json::base64_bytes_into(&frame.data, out);
    out.put_u8(b'"');
    if placed {
        let Frame { seq, offset, ts_ms, .. } = frame;
        // A buffer that grows takes everything.
        write!(out, ",\"seq\":\"{seq}\",\"offset\":\"{offset}\",\"tsMs\":\"{ts_ms}\"").unwrap_or_default();
    }
    out.put_slice(b"}}}");
}

/// Appends that a process runs. `at` says where in its log that which follows begins.
pub fn started(codec: Codec, pid: u32, at: Option<(u64, u64)>, out: &mut BytesMut) {
    let start = StartEvent { pid, seq: at.map(|(seq, _)| seq), offset: at.map(|(_, offset)| offset) };
    event(codec, ProcessEvent { start: Some(start), ..ProcessEvent::default() }, out);
}

/// Appends a sign of life.
pub fn keep_alive(codec: Codec, out: &mut BytesMut) {
    event(codec, ProcessEvent { keepalive: Some(Empty {}), ..ProcessEvent::default() }, out);
}

/// Appends how a process ended; output may follow.
pub fn exited(codec: Codec, exit: Exit, out: &mut BytesMut) {
    let exited = ExitedEvent { exit_code: exit_code(exit), signal: signal(exit) };
    event(codec, ProcessEvent { exited: Some(exited), ..ProcessEvent::default() }, out);
}

/// Appends how a process ended; no output follows. `extended` says also what envd does not.
pub fn ended(codec: Codec, exit: Exit, extended: Option<bool>, out: &mut BytesMut) {
    let status = status(exit);
    let end = EndEvent {
        exit_code: exit_code(exit),
        exited: exit.code().is_some(),
        error: (exit != Exit::Code(0)).then(|| status.clone()),
        status,
        signal: if extended.is_some() { signal(exit) } else { 0 },
        drain_timed_out: extended.unwrap_or(false),
    };
    event(codec, ProcessEvent { end: Some(end), ..ProcessEvent::default() }, out);
}

/// How a process ended, as an `end` tells it: hangar's by the number of the signal, envd's by its words.
pub fn exit_of_end(end: &EndEvent) -> Exit {
    if end.exited {
        return Exit::Code(end.exit_code);
    }
    let words = end.status.strip_prefix("signal: ").unwrap_or_default();
    let words = words.strip_suffix(" (core dumped)").unwrap_or(words);
    let by_words = || (1..=64).find(|number| description(*number) == words);
    signal_of(end.signal).or_else(by_words).map_or(Exit::Unknown, Exit::Signal)
}

/// The same of an `exited`.
pub fn exit_of_exited(exited: &ExitedEvent) -> Exit {
    match (signal_of(exited.signal), exited.exit_code) {
        (Some(number), _) => Exit::Signal(number),
        (None, 0..) => Exit::Code(exited.exit_code),
        (None, _) => Exit::Unknown,
    }
}

fn signal_of(number: u32) -> Option<u8> {
    u8::try_from(number).ok().filter(|number| *number != 0)
}

fn event(codec: Codec, event: ProcessEvent, out: &mut BytesMut) {
    encode(codec, &StartResponse { event: Some(event) }, out);
}

/// What it returned; -1 where a signal ended it.
fn exit_code(exit: Exit) -> i32 {
    exit.code().unwrap_or(-1)
}

const fn signal(exit: Exit) -> u32 {
    match exit {
        Exit::Signal(number) => number as u32,
        Exit::Code(_) | Exit::Unknown => 0,
    }
}

/// How it ended, in the words of Go's `os` package on Linux, which envd's clients show to people.
fn status(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit status {code}"),
        Exit::Signal(number) => format!("signal: {}", description(number)),
        Exit::Unknown => "unknown".to_owned(),
    }
}

/// What a signal means, as the C library says it, in lower case.
fn description(number: u8) -> String {
    let known = match number {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        5 => "trace/breakpoint trap",
        6 => "aborted",
        7 => "bus error",
        8 => "floating point exception",
        9 => "killed",
        10 => "user defined signal 1",
        11 => "segmentation fault",
        12 => "user defined signal 2",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        24 => "CPU time limit exceeded",
        25 => "file size limit exceeded",
        31 => "bad system call",
        _ => return signal_name(number).into_owned(),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_comes_back_as_it_was_told() {
        let told = |exit, extended: Option<bool>| {
            let mut out = BytesMut::new();
            ended(Codec::Proto, exit, extended, &mut out);
            let response: StartResponse = super::super::decode(Codec::Proto, &out).unwrap();
            response.event.unwrap().end.unwrap()
        };
        let exits = (1..=64).map(Exit::Signal).chain([0, 1, 255].map(Exit::Code));
        for exit in exits.chain([Exit::Unknown]) {
            for extended in [None, Some(false), Some(true)] {
                let end = told(exit, extended);
                assert_eq!((exit_of_end(&end), end.drain_timed_out), (exit, extended == Some(true)));
            }
            let mut out = BytesMut::new();
            exited(Codec::Proto, exit, &mut out);
            let response: StartResponse = super::super::decode(Codec::Proto, &out).unwrap();
            assert_eq!(exit_of_exited(&response.event.unwrap().exited.unwrap()), exit);
        }
        let dumped = EndEvent { status: "signal: aborted (core dumped)".to_owned(), ..EndEvent::default() };
        assert_eq!(exit_of_end(&dumped), Exit::Signal(6));
        assert_eq!(exit_of_end(&EndEvent::default()), Exit::Unknown);
    }
}
