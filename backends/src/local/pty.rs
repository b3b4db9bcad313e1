//! Terminals for commands.

use super::User;
use hangar_core::process::TtySize;
use rustix::{
    fs::{Mode, OFlags, Uid, fchown, open},
    io::ioctl_fionbio,
    process::{ioctl_tiocsctty, setsid},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::Command,
    sync::OnceLock,
};

/// What programs are told that the terminal is: the one that those at the other end understand.
pub(super) const TERM: &str = "xterm-256color";

/// A terminal: our side, and the side of the command.
pub(super) struct Pty {
    pub(super) ours: OwnedFd,
    pub(super) theirs: OwnedFd,
}

impl Pty {
    /// A terminal of this size; it belongs to `user` where that is another than ours.
    pub(super) fn open(size: TtySize, user: &User) -> io::Result<Self> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let name = ptsname(&ours, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = open(name.as_c_str(), flags, Mode::empty())?;
        if !user.is_current() {
            fchown(&theirs, Some(Uid::from_raw(user.uid)), None)?;
        }
        resize(ours.as_fd(), size)?;
        ioctl_fionbio(&ours, true)?;
        Ok(Self { ours, theirs })
    }
}

/// Tells the terminal its size; the kernel sends SIGWINCH to the group in its foreground if that is another.
pub(super) fn resize(ours: BorrowedFd<'_>, size: TtySize) -> io::Result<()> {
    let size = Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(ours, size)?)
}

/// Gives the command a session of its own, whose terminal is its standard input.
pub(super) fn lead_session_on_stdin(command: &mut Command) {
    before_exec(command, || {
        setsid()?;
        Ok(ioctl_tiocsctty(rustix::stdio::stdin())?)
    });
}

/// Gives the command a session of its own, without a terminal.
pub(super) fn lead_session(command: &mut Command) {
    before_exec(command, || Ok(setsid().map(drop)?));
}

/// Whether this server has a terminal, which its commands would have too if they stayed in its session.
pub(super) fn has_terminal() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        open("/dev/tty", OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).is_ok()
    })
}

#[expect(unsafe_code, reason = "there is no other way to a session of one's own")]
fn before_exec(command: &mut Command, run: fn() -> io::Result<()>) {
    // SAFETY: `run` is called in the child, where only what is safe in a signal handler may be done: the two functions
    // above make system calls through rustix, and do nothing else: no memory, no lock, no other file.
    unsafe { command.pre_exec(run) };
}
