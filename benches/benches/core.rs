//! What core costs in time. Timings are noisy: compare runs of one machine, one after the other.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hangar_benches::workload::{Outbox, Path, frames, lines};
use hangar_core::{exec::Encoding, wire::sse::Decoder};
use std::hint::black_box;

/// From the read of the pipe to the bytes of the event.
fn messages(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("message");
    for (encoding, name) in [(Encoding::Text, "text"), (Encoding::Base64, "base64")] {
        for len in [64, 1024, 64 * 1024] {
            let data = lines(len, 100);
            let mut path = Path::new(encoding);
            group.throughput(Throughput::Bytes(len as u64));
            group.bench_with_input(BenchmarkId::new(name, len), &data, |bencher, data| {
                bencher.iter(|| path.read(black_box(data)));
            });
        }
    }
    // Not valid in every line: the text is decoded in chunks.
    let mut data = lines(64 * 1024, 100);
    data.iter_mut().step_by(1000).for_each(|byte| *byte = 0xFF);
    let mut path = Path::new(Encoding::Text);
    group.bench_function("text/65536/not UTF-8", |bencher| bencher.iter(|| path.read(black_box(&data))));
    group.finish();
}

/// From bytes to events, at the client.
fn decoding(criterion: &mut Criterion) {
    let stream =
        "event: stdout\ndata: {\"data\":\"0123456789012345678901234567890123456789\\n\"}\n\n".repeat(100);
    let mut group = criterion.benchmark_group("decode");
    group.throughput(Throughput::Bytes(stream.len() as u64));
    group.bench_function("100 events", |bencher| {
        let mut decoder = Decoder::new(1 << 20);
        bencher.iter(|| {
            decoder.push(black_box(stream.as_bytes())).expect("the events are short");
            while let Some(event) = decoder.next_event() {
                black_box(event);
            }
        });
    });
    group.finish();
}

/// From frames of the log to the bytes of a WebSocket: as many as one write takes.
fn encoding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("frames");
    for len in [64, 1024] {
        let frames = frames(64 * 1024 / (len as u64 + 19), len);
        let mut outbox = Outbox::default();
        group.throughput(Throughput::Elements(frames.len() as u64));
        group.bench_with_input(BenchmarkId::new("encode", len), &frames, |bencher, frames| {
            bencher.iter(|| outbox.send(black_box(frames)));
        });
    }
    group.finish();
}

criterion_group!(benches, messages, decoding, encoding);
criterion_main!(benches);
