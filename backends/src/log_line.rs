//! Lines of a log on standard error, for the binaries: where nobody takes them they are lost, and nobody waits.
//!
//! A pipe that is not read fills up, and a write to it would stop the thread: on an executor of one thread that is the
//! whole server. To make the descriptor non-blocking is no way out, as that holds for everybody who has it.

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::retry_on_intr,
};
use std::{
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd},
};

/// Bytes that a pipe with room takes at once (`PIPE_BUF`).
const WHOLE: usize = 4096;

/// Standard error as a writer of lines. Each write is one line, which is written as a whole or lost; one of more than
/// 4,096 bytes is cut.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogLine;

impl Write for LogLine {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Between the question and the write nobody else takes the room.
        let stderr = io::stderr().lock();
        write(stderr.as_fd(), line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write(to: BorrowedFd<'_>, line: &[u8]) {
    let mut asked = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let asked = retry_on_intr(|| poll(&mut asked, Some(&now))).map(|_| asked[0].revents());
    if !asked.is_ok_and(|events| events.contains(PollFlags::OUT)) {
        return;
    }
    // What goes wrong with a log can be told nobody.
    if line.len() <= WHOLE {
        rustix::io::write(to, line).ok();
    } else {
        rustix::io::write(to, &[&line[..WHOLE - 1], b"\n"].concat()).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};

    #[test]
    fn a_line_is_written_where_there_is_room_and_lost_where_not() {
        let (read, to) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut buffer = vec![0; 2 * WHOLE];
        write(to.as_fd(), b"short\n");
        assert_eq!(rustix::io::read(&read, &mut buffer), Ok(6));
        write(to.as_fd(), &[b'x'; WHOLE + 1]);
        assert_eq!(rustix::io::read(&read, &mut buffer), Ok(WHOLE));
        assert_eq!((buffer[WHOLE - 2], buffer[WHOLE - 1]), (b'x', b'\n'));
        // More than any pipe holds: the test would hang.
        for _ in 0..1000 {
            write(to.as_fd(), &[b'y'; WHOLE]);
        }
        let mut came = rustix::io::read(&read, &mut buffer).unwrap();
        drop(to);
        loop {
            match rustix::io::read(&read, &mut buffer).unwrap() {
                0 => break,
                read => came += read,
            }
        }
        assert!(came > 0 && came % WHOLE == 0 && came < 1000 * WHOLE, "{came}");
        drop(read);
    }
}
