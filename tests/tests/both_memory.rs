//! Memory, on both runtimes: output that nobody ends a line of, or that nobody reads, does not gather.
//!
//! The only test of its binary: it looks at the memory of its own process.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::real::{
    Mark, On, Options, line,
    machine::{resident, wait_until_blocked},
    watched,
};
use std::io::Read;

/// What is printed.
const SIZE: usize = 200_000_000;

/// How much more memory there may be meanwhile.
const MORE: u64 = 64 << 20;

const COMMAND: &str = "head -c 200000000 /dev/zero | tr '\\0' x";

#[test]
fn output_without_end_costs_no_memory() {
    for on in [On::Tokio, On::Smol] {
        watched(&format!("output_without_end_costs_no_memory on {on}"), move || check(on));
    }
}

fn check(on: On) {
    let server = on.start_with(Options::unpaced());
    let before = {
        // What the first command costs once is not counted.
        server.client().exec(&line("seq 1 100000"));
        resident(std::process::id())
    };
    let flat = |what: &str| {
        let now = resident(std::process::id());
        assert!(now < before + MORE, "{on}, {what}: {} MiB more", (now - before) >> 20);
    };
    // Read as it comes.
    let mut stream = server.client().stream(&line(COMMAND));
    let (mut read, mut buffer) = (0, vec![0; 256 * 1024]);
    let mut xs = 0;
    loop {
        let len = stream.body().read(&mut buffer).unwrap();
        if len == 0 {
            break;
        }
        if read / (16 << 20) != (read + len) / (16 << 20) {
            flat("streamed");
        }
        read += len;
        xs += buffer[..len].iter().filter(|byte| **byte == b'x').count();
    }
    // Those of the result, those of the word `exit_code` too.
    assert_eq!(xs, SIZE + 256 * 1024 + 1, "{on}");
    flat("streamed");
    // Gathered for a result.
    let result = server.client().exec(&line(COMMAND));
    assert!(result.stdout_truncated && result.stdout.len() == 256 * 1024);
    assert!(result.stdout.bytes().all(|byte| byte == b'x'));
    flat("not streamed");
    // Not read at all.
    let mark = Mark::new();
    let stream = server.client().stream(&line("yes").mark(&mark));
    wait_until_blocked(mark.wait_for("yes"));
    flat("not read");
    drop(stream);
    mark.wait_until_gone();
}
