//! What asks a program to stop. The library takes no signals; the runtimes offer binaries a way to.

/// A signal that asks a program to stop.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Stop {
    /// SIGHUP: its terminal is gone. The commands that it runs are in groups of their own and would not hear of it.
    Hangup = 1,
    /// SIGINT: Ctrl-C in a terminal.
    Interrupt = 2,
    /// SIGQUIT: Ctrl-\\ in a terminal.
    Quit = 3,
    /// SIGTERM: a service manager, a container's runtime.
    Terminate = 15,
}

impl Stop {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Hangup, Self::Interrupt, Self::Quit, Self::Terminate];

    /// The signal's number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// What a shell calls a process that it ended: 128 and the signal's number.
    pub const fn exit_code(self) -> u8 {
        128 + self.number()
    }

    /// Whether whoever started this program wants it to go on: as `nohup` does for SIGHUP. Read from `/proc`; where
    /// there is none nothing is ignored.
    pub fn is_ignored(self) -> bool {
        std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignored(&status) & self.bit() != 0)
    }

    const fn bit(self) -> u64 {
        1 << (self.number() - 1)
    }
}

/// The mask of the signals that are ignored.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_exit_codes() {
        assert_eq!(Stop::ALL.map(Stop::number), [1, 2, 3, 15]);
        assert_eq!(Stop::ALL.map(Stop::exit_code), [129, 130, 131, 143]);
    }

    #[test]
    fn what_is_ignored_is_read_bit_by_bit() {
        let status = "Name:\tx\nSigBlk:\tffffffffffffffff\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert_eq!(Stop::ALL.map(|stop| ignored(status) & stop.bit() != 0), [true, false, false, false]);
        assert_eq!(ignored("Name:\tx\n"), 0);
    }
}
