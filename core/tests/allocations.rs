//! In the steady state a message costs no allocation: from the bytes that were read to the bytes that are sent.

use allocation_counter::measure;
use bytes::{Bytes, BytesMut};
use hangar_core::{
    Time,
    exec::{self, Encoding, Exec, Streaming},
    log::{Channel, FRAME_MAX, Item, Log, Reader, Retention},
    process::{self, Process},
    text::Text,
    wire::{
        mcp::{
            message::Id,
            response::{Answering, Framing},
        },
        sse,
    },
};

const MESSAGES: usize = 10_000;

/// A command prints a line, its stream takes it, and it is written as an SSE event into a buffer that is used again.
fn stream(encoding: Encoding, line: &[u8]) -> u64 {
    let retention = Retention::UntilRead { bytes: 256 * 1024 };
    let mut process = Process::new(process::Config { retention, ..process::Config::default() }, Time::ZERO);
    let stream = Streaming { bytes_per_second: u64::MAX, max_bytes: u64::MAX };
    let config = exec::Config { encoding, stream: Some(stream), tail: 4096 };
    let mut exec = Exec::new(config, &mut process, Time::ZERO);
    let mut out = BytesMut::new();
    let mut round = |messages: usize| {
        for at in 0..messages {
            assert_eq!(process.handle_output(Channel::Stdout, at as i64, line), line.len());
            let exec::Output::Transmit { channel, text } =
                exec.poll_output(&mut process, Time::from_nanos(at as u64))
            else {
                panic!("nothing to send");
            };
            let event = sse::event(channel.name(), &mut out).id(exec.sent());
            match encoding {
                Encoding::Text => event.output(&text),
                Encoding::Base64 => event.output_base64(&text),
            }
            drop(text);
            out.clear();
        }
    };
    // Buffers and the tail grow to their sizes.
    round(1000);
    measure(|| round(MESSAGES)).count_total
}

#[test]
fn a_streamed_line_costs_none() {
    assert_eq!(stream(Encoding::Text, b"a line of output, as a build prints one\n"), 0);
    assert_eq!(stream(Encoding::Text, "cut \u{20ac} \"quoted\" \\ \u{1}\n".as_bytes()), 0);
    assert_eq!(stream(Encoding::Text, b"\xff\xe2\x82 not text\n"), 0);
    assert_eq!(stream(Encoding::Base64, b"a line of output, as a build prints one\n"), 0);
}

/// The same output as progress of an MCP call.
fn progress(encoding: Encoding, line: &'static [u8]) -> u64 {
    let token = Id::Text("progress".into());
    let mut answering = Answering::new(Id::Text("call".into()), Some(&token), Framing::Events, Time::ZERO);
    let mut out = BytesMut::new();
    let text = Text::from(Bytes::from_static(line));
    let mut round = |messages: usize| {
        for at in 0..messages {
            let now = Time::from_nanos(at as u64);
            assert!(match encoding {
                Encoding::Text => answering.output(&text, now, &mut out),
                Encoding::Base64 => answering.output_base64(&text, now, &mut out),
            });
            out.clear();
        }
    };
    round(10);
    measure(|| round(MESSAGES)).count_total
}

#[test]
fn a_line_as_progress_costs_none() {
    assert_eq!(progress(Encoding::Text, b"a line of output, as a build prints one\n"), 0);
    assert_eq!(progress(Encoding::Text, b"\xff \"quoted\" \\ \x01\n"), 0);
    assert_eq!(progress(Encoding::Base64, b"a line of output, as a build prints one\n"), 0);
}

#[test]
fn a_character_cut_by_every_read_costs_none() {
    assert_eq!(stream(Encoding::Text, b"\xac and then \xe2\x82"), 0);
}

#[test]
fn reading_until_read_costs_none() {
    let mut log = Log::new(Retention::UntilRead { bytes: 64 * 1024 });
    let mut reader = Reader::oldest(&mut log);
    let mut round = |messages: usize| {
        for at in 0..messages {
            let channel = if at % 2 == 0 { Channel::Stdout } else { Channel::Stderr };
            log.append(channel, 0, b"a little");
            log.append(channel, 0, b" more");
            if at % 3 == 0 {
                while let Some(item) = reader.take(&mut log) {
                    assert!(matches!(item, Item::Frame(_)));
                }
            }
        }
    };
    round(1000);
    assert_eq!(measure(|| round(MESSAGES)).count_total, 0);
}

/// Where a ring is kept its memory has to be new; but by the block, not by the message.
#[test]
fn a_ring_costs_a_block_at_a_time() {
    const LINE: [u8; 64] = [b'x'; 64];
    let mut log = Log::new(Retention::Ring { bytes: 256 * 1024 });
    let mut readers = [Reader::oldest(&mut log), Reader::oldest(&mut log)];
    let mut round = |messages: usize| {
        for _ in 0..messages {
            log.append(Channel::Stdout, 0, &LINE);
            for reader in &mut readers {
                assert!(matches!(reader.take(&mut log), Some(Item::Frame(_))));
            }
        }
    };
    round(10_000);
    let blocks = (MESSAGES * LINE.len() / FRAME_MAX) as u64;
    let count = measure(|| round(MESSAGES)).count_total;
    // A block is its bytes and the count of those who share them.
    assert!(count <= 2 * blocks + 4, "{count} allocations for {blocks} blocks");
}
