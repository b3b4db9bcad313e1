//! The terminal of whoever calls: raw while a process has it, and as it was before on every way out.

use super::{Failure, modes::Modes};
use bytes::Bytes;
use hangar_core::process::TtySize;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    stdio,
    termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr},
};
use std::{
    panic,
    sync::{Mutex, PoisonError},
    thread,
};
use tokio::sync::mpsc;

/// The size of a terminal that nobody knows.
pub(super) const USUAL: TtySize = TtySize { cols: 80, rows: 24 };

/// Bytes of one read of the input.
const READ: usize = 16 * 1024;

/// How the terminal was before it was made raw, and what its program has switched since. For the whole process, as the terminal is: whoever ends it, by a signal
/// or a panic, finds it here.
static BEFORE: Mutex<Option<(Termios, Modes)>> = Mutex::new(None);

/// Whether the input is a terminal.
pub(super) fn is_terminal() -> bool {
    isatty(stdio::stdin())
}

/// The size of the terminal, if there is one that has a size.
pub(super) fn size() -> Option<TtySize> {
    let size = [stdio::stdin(), stdio::stdout(), stdio::stderr()]
        .into_iter()
        .find_map(|fd| tcgetwinsize(fd).ok())?;
    Some(TtySize { cols: size.ws_col, rows: size.ws_row }).filter(|size| size.bad_side().is_none())
}

/// A raw terminal. Dropped, it is as it was before.
#[derive(Debug)]
pub(super) struct Raw(());

impl Raw {
    pub(super) fn begin() -> Result<Self, Failure> {
        let failed = |error: Errno| Failure::new(format!("the terminal cannot be made raw: {error}"));
        let before = tcgetattr(stdio::stdin()).map_err(failed)?;
        let mut raw = before.clone();
        raw.make_raw();
        *lock() = Some((before, Modes::default()));
        let begun = Self(());
        let then = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            restore();
            then(panic);
        }));
        tcsetattr(stdio::stdin(), OptionalActions::Drain, &raw).map_err(failed)?;
        Ok(begun)
    }
}

impl Raw {
    /// Makes it raw again, after a shell that had it meanwhile.
    pub(super) fn again(&self) {
        let failed = |error: Errno| tracing::debug!(%error, "the terminal is not raw any more");
        let raw = tcgetattr(stdio::stdin()).and_then(|mut raw| {
            raw.make_raw();
            tcsetattr(stdio::stdin(), OptionalActions::Now, &raw)
        });
        raw.unwrap_or_else(failed);
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

/// Makes the terminal what it was before. What was typed and not read goes to whoever reads next.
pub(super) fn restore() {
    if let Some((before, modes)) = lock().take() {
        let undo = modes.undo();
        // Past the standard library's lock, which a thread may hold that waits for whoever reads this. Where it cannot be
        // done, the terminal is gone.
        if isatty(stdio::stdout()) && !undo.is_empty() {
            rustix::io::write(stdio::stdout(), undo.as_bytes()).ok();
        }
        tcsetattr(stdio::stdin(), OptionalActions::Now, &before).ok();
    }
}

/// Looks at output that is shown, for what has to be undone after it.
pub(super) fn look(output: &[u8]) {
    if let Some((_, modes)) = &mut *lock() {
        modes.look(output);
    }
}

/// What stands before and after a line on stderr: a raw terminal does not go back to the first column by itself, and
/// may be anywhere in a line of its program's.
pub(super) fn around_line() -> (&'static str, &'static str) {
    if lock().is_some() { ("\r\n", "\r\n") } else { ("", "\n") }
}

fn lock() -> std::sync::MutexGuard<'static, Option<(Termios, Modes)>> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is typed or piped in, as it comes; the channel closes at its end.
///
/// A thread of its own reads it, as making a shared terminal non-blocking would break whoever has it next. It reads no
/// more than what is asked for and one piece beyond that, and ends with the process.
pub(super) fn input() -> Result<mpsc::Receiver<Bytes>, Failure> {
    let (told, pieces) = mpsc::channel(1);
    thread::Builder::new()
        .name("input".to_owned())
        .spawn(move || {
            let mut buffer = vec![0; READ];
            while let Some(len) = read(&mut buffer) {
                if told.blocking_send(Bytes::copy_from_slice(&buffer[..len])).is_err() {
                    return;
                }
            }
        })
        .map_err(Failure::new)?;
    Ok(pieces)
}

/// Reads once; None at the end, which is also where the terminal is gone.
fn read(buffer: &mut [u8]) -> Option<usize> {
    loop {
        match rustix::io::read(stdio::stdin(), &mut *buffer) {
            Ok(0) => return None,
            Ok(len) => return Some(len),
            Err(Errno::INTR) => {}
            // Somebody else made it non-blocking.
            Err(Errno::AGAIN) => {
                let stdin = stdio::stdin();
                match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], None) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(_) => return None,
                }
            }
            Err(_) => return None,
        }
    }
}

/// A key that is pressed with Ctrl.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Key {
    name: String,
    byte: u8,
    /// What a terminal in the mode of the kitty keyboard protocol sends for it.
    sequence: String,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl std::str::FromStr for Key {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "it must be ctrl- and a letter or one of @[\\]^_, as in ctrl-]";
        let key = match text.as_bytes() {
            [c, t, r, l, b'-', key] if [*c, *t, *r, *l].eq_ignore_ascii_case(b"ctrl") => *key,
            [b'^', key] => *key,
            _ => return Err(wrong),
        };
        let key = key.to_ascii_uppercase();
        if !(b'@'..=b'_').contains(&key) {
            return Err(wrong);
        }
        let code = key.to_ascii_lowercase();
        Ok(Self {
            name: format!("Ctrl-{}", char::from(key)),
            byte: key & 0x1f,
            sequence: format!("\x1b[{code};5u"),
        })
    }
}

impl Key {
    /// Where in the input it is pressed.
    pub(super) fn find(&self, input: &[u8]) -> Option<usize> {
        let sequence = self.sequence.as_bytes();
        let by_sequence = input.windows(sequence.len()).position(|window| window == sequence);
        let by_byte = input.iter().position(|byte| *byte == self.byte);
        by_byte.into_iter().chain(by_sequence).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_where_it_is_pressed() {
        let key: Key = "ctrl-]".parse().unwrap();
        assert_eq!((key.to_string().as_str(), key.byte), ("Ctrl-]", 0x1d));
        assert_eq!("^]".parse(), Ok(key.clone()));
        assert_eq!("Ctrl-A".parse::<Key>().unwrap().byte, 1);
        assert_eq!(key.find(b"ab\x1dc"), Some(2));
        assert_eq!(key.find(b"a\x1b[93;5uc"), Some(1));
        assert_eq!(key.find(b"a]c"), None);
        for wrong in ["", "]", "ctrl-", "ctrl-1", "ctrl-ab", "alt-a"] {
            assert!(wrong.parse::<Key>().is_err(), "{wrong}");
        }
    }
}
