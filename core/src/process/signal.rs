//! Signals and how a process ended, with the names and numbers of Linux.

use std::borrow::Cow;

/// A signal of Linux that a process can be sent, by its number.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Signal(u8);

#[expect(missing_docs, reason = "each is the signal of its name")]
impl Signal {
    pub const HUP: Self = Self(1);
    pub const INT: Self = Self(2);
    pub const QUIT: Self = Self(3);
    pub const KILL: Self = Self(9);
    pub const USR1: Self = Self(10);
    pub const USR2: Self = Self(12);
    pub const TERM: Self = Self(15);
    pub const CONT: Self = Self(18);
    pub const STOP: Self = Self(19);
}

impl Signal {
    /// Every signal that a client of the process protocol may send.
    pub const STANDARD: [Self; 9] = [
        Self::HUP,
        Self::INT,
        Self::QUIT,
        Self::KILL,
        Self::USR1,
        Self::USR2,
        Self::TERM,
        Self::CONT,
        Self::STOP,
    ];

    /// The one of this number: 1 to 31. The real-time signals are between programs that know each other.
    pub const fn numbered(number: u8) -> Option<Self> {
        if matches!(number, 1..=31) { Some(Self(number)) } else { None }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its name: `SIGINT`.
    pub fn name(self) -> Cow<'static, str> {
        signal_name(self.number())
    }

    /// The [standard](Self::STANDARD) one of this name, with or without `SIG` before it.
    pub fn named(name: &str) -> Option<Self> {
        let short = |signal: &Self| signal.name().strip_prefix("SIG") == Some(name);
        Self::STANDARD.into_iter().find(|signal| signal.name() == name || short(signal))
    }
}

/// Who of a process is sent a signal.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Target {
    /// The process that was started, and none of its children.
    Leader,
    /// Each member of its group.
    Group,
}

/// How a process ended: by itself, by a signal, or nobody knows.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Exit {
    /// It returned this.
    Code(i32),
    /// This signal ended it.
    Signal(u8),
    /// The sandbox's side broke, and with it the knowledge.
    Unknown,
}

impl Exit {
    /// What it returned; None when a signal ended it or nobody knows. Never an invented number.
    pub const fn code(self) -> Option<i32> {
        match self {
            Self::Code(code) => Some(code),
            Self::Signal(_) | Self::Unknown => None,
        }
    }

    /// The signal that ended it, by its name.
    pub fn signal(self) -> Option<Cow<'static, str>> {
        match self {
            Self::Signal(number) => Some(signal_name(number)),
            Self::Code(_) | Self::Unknown => None,
        }
    }
}

/// The name of a signal of Linux on x86 and Arm: `SIGKILL` for 9; real-time signals are counted from `SIGRTMIN`.
pub fn signal_name(number: u8) -> Cow<'static, str> {
    const NAMES: [&str; 31] = [
        "SIGHUP",
        "SIGINT",
        "SIGQUIT",
        "SIGILL",
        "SIGTRAP",
        "SIGABRT",
        "SIGBUS",
        "SIGFPE",
        "SIGKILL",
        "SIGUSR1",
        "SIGSEGV",
        "SIGUSR2",
        "SIGPIPE",
        "SIGALRM",
        "SIGTERM",
        "SIGSTKFLT",
        "SIGCHLD",
        "SIGCONT",
        "SIGSTOP",
        "SIGTSTP",
        "SIGTTIN",
        "SIGTTOU",
        "SIGURG",
        "SIGXCPU",
        "SIGXFSZ",
        "SIGVTALRM",
        "SIGPROF",
        "SIGWINCH",
        "SIGIO",
        "SIGPWR",
        "SIGSYS",
    ];
    match number {
        1..=31 => Cow::Borrowed(NAMES[usize::from(number) - 1]),
        // glibc keeps 32 and 33 for itself.
        34..=64 => Cow::Owned(format!("SIGRTMIN+{}", number - 34)),
        0 | 32 | 33 | 65.. => Cow::Owned(format!("SIG{number}")),
    }
}

/// The number of a signal by the name that [`signal_name`] gives it.
pub fn signal_number(name: &str) -> Option<u8> {
    (1..=64).find(|number| signal_name(*number) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree() {
        let short = ["HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "CONT", "STOP"];
        for (signal, short) in Signal::STANDARD.into_iter().zip(short) {
            let name = format!("SIG{short}");
            assert_eq!((&*signal.name(), Signal::named(&name)), (&*name, Some(signal)));
            assert_eq!(
                (Signal::named(short), Signal::numbered(signal.number())),
                (Some(signal), Some(signal))
            );
            assert_eq!(
                (Signal::named(&name.to_lowercase()), Signal::named(&format!("SIG{name}"))),
                (None, None)
            );
        }
        assert_eq!((signal_name(34), signal_name(40)), ("SIGRTMIN+0".into(), "SIGRTMIN+6".into()));
        assert_eq!(
            (signal_name(0), signal_name(33), signal_name(65)),
            ("SIG0".into(), "SIG33".into(), "SIG65".into())
        );
        for number in 1..=64 {
            assert_eq!(signal_number(&signal_name(number)), Some(number));
        }
        assert_eq!(signal_number("SIGNONE"), None);
        assert_eq!([0, 32, 34, 255].map(Signal::numbered), [None; 4]);
        assert_eq!(Signal::named("SIGWINCH"), None, "not one that clients of the process protocol may send");
    }

    #[test]
    fn an_exit_is_a_code_or_a_signal_or_unknown() {
        assert_eq!((Exit::Code(3).code(), Exit::Code(3).signal()), (Some(3), None));
        assert_eq!((Exit::Signal(9).code(), Exit::Signal(9).signal().as_deref()), (None, Some("SIGKILL")));
        assert_eq!((Exit::Unknown.code(), Exit::Unknown.signal()), (None, None));
    }
}
