//! Sends messages through core, for an instruction counter to watch. A count does not depend on what else the machine
//! does, so it can be held to a limit:
//!
//! ```text
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/instructions 64 10000
//! ```
//!
//! Two counts with different numbers of messages give the cost of one: what the start costs falls out. `.ci/run` does
//! that, and has the limits.

use hangar_benches::workload::{Path, lines};
use hangar_core::exec::Encoding;
use std::{hint::black_box, process::ExitCode};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>());
    let (Some(Ok(bytes)), Some(Ok(messages)), None) = (arguments.next(), arguments.next(), arguments.next())
    else {
        eprintln!("usage: instructions BYTES MESSAGES");
        return ExitCode::from(2);
    };
    let data = lines(bytes, 100);
    let mut path = Path::new(Encoding::Text);
    for _ in 0..messages {
        black_box(path.read(black_box(&data)));
    }
    ExitCode::SUCCESS
}
