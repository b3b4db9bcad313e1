//! Terminals for commands.

use super::User;
use hangar_core::process::TtySize;
use rustix::{
    fs::{Mode, OFlags, Uid, fchown, open},
    io::ioctl_fionbio,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
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

/// Whether this server has a terminal, which its commands would have too if they stayed in its session.
pub(super) fn has_terminal() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        open("/dev/tty", OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).is_ok()
    })
}
