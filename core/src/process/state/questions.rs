//! What can be asked of a process, and its log to read from. No transition is here.

use super::{Life, Process, Source};
use crate::{
    log::Log,
    process::{Exit, TtySize},
};

impl Process {
    /// Its number in its sandbox, once it has started there.
    pub const fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// How it ended, once it has.
    pub const fn exit_status(&self) -> Option<Exit> {
        match self.life {
            Life::Exited(exit) => Some(exit),
            Life::Starting | Life::Running => None,
        }
    }

    /// The size of its terminal, if it has one.
    pub const fn tty(&self) -> Option<TtySize> {
        self.tty
    }

    /// Whether it has started and not ended.
    pub fn is_running(&self) -> bool {
        self.life == Life::Running
    }

    /// Whether it was [adopted](Self::handle_adopted), and what it printed is not known yet: nor is what a cursor means.
    pub const fn is_unfound(&self) -> bool {
        self.is_unfound
    }

    /// Whether its end is known and no output will come.
    pub fn is_over(&self) -> bool {
        self.exit_status().is_some() && self.log.is_ended()
    }

    /// Whether it could not be started.
    pub const fn start_failed(&self) -> bool {
        self.start_failed
    }

    /// Whether its timeout killed it.
    pub const fn timed_out(&self) -> bool {
        self.timed_out
    }

    /// Whether output was still held open by somebody when the drain time or the timeout had passed.
    pub const fn drain_timed_out(&self) -> bool {
        self.drain_timed_out
    }

    /// How many bytes of output may be read now; none while a slow reader is waited for, and once it has ended.
    pub fn wants_output(&self) -> usize {
        match self.source {
            Source::Open | Source::Draining { .. } => self.log.room().min(self.audience.room(&self.log)),
            Source::Drained => usize::MAX,
            Source::Ended => 0,
        }
    }

    /// Whether it has to be polled, whatever its last `Wait` said: it is held up since then, or for another reader. To be
    /// asked after [`handle_output`](Self::handle_output), and whenever a reader came, took something or went.
    pub fn wants_poll(&self) -> bool {
        let is_read = matches!(self.source, Source::Open | Source::Draining { .. });
        is_read && self.audience.has_changed() && self.audience.room(&self.log) == 0
    }

    /// Input that waits to be written.
    pub fn stdin(&self) -> Option<&[u8]> {
        self.stdin.front()
    }

    /// Whether its input is to be closed now.
    pub fn wants_stdin_end(&self) -> bool {
        self.stdin.wants_end()
    }

    /// Whether input is still taken: its end was not asked for, and it did not close it.
    pub const fn takes_stdin(&self) -> bool {
        !self.closed && self.stdin.is_open()
    }

    /// How many bytes of input may come now.
    pub fn stdin_room(&self) -> usize {
        self.config.max_stdin.saturating_sub(self.stdin.waiting())
    }

    /// Bytes and pieces of input that wait.
    pub fn stdin_waiting(&self) -> (usize, usize) {
        (self.stdin.waiting(), self.stdin.entries())
    }

    /// What it printed.
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// What it printed, for a reader to take from.
    pub const fn log_mut(&mut self) -> &mut Log {
        &mut self.log
    }
}
