//! The processes of one command: its leader, which carries out a script, its children, and its pipe.

use super::{sandbox::Record, script::Step};
use bytes::{Buf, Bytes};
use hangar_core::{
    Time,
    log::Channel,
    process::{Exit, Process, Signal, Target},
};
use std::{collections::VecDeque, time::Duration};

/// What was printed and not read: as much as a pipe of Linux holds.
const PIPE: usize = 64 * 1024;

/// The processes of one command. Its times are those of the sandbox's own clock, which a pause stops.
pub(super) struct Family {
    steps: VecDeque<Step>,
    alive: bool,
    /// The step at the front is done at this time.
    until: Option<Time>,
    pipe: VecDeque<(Channel, Bytes)>,
    piped: usize,
    has_output: bool,
    ended_output: bool,
    ignores_term: bool,
    /// A child that ignores TERM.
    lingers: bool,
    hold: Duration,
    /// A child that holds the output open until then.
    held_until: Option<Time>,
    terminated: bool,
    pub(super) sweep_delay: Duration,
    lost: bool,
}

impl Family {
    pub(super) fn new(steps: Vec<Step>) -> Self {
        Self {
            steps: steps.into(),
            alive: true,
            until: None,
            pipe: VecDeque::new(),
            piped: 0,
            has_output: true,
            ended_output: false,
            ignores_term: false,
            lingers: false,
            hold: Duration::ZERO,
            held_until: None,
            terminated: false,
            sweep_delay: Duration::ZERO,
            lost: false,
        }
    }

    /// Goes on as far as it can; the driver's part alone where it is not `running`. Returns whether it got anywhere.
    pub(super) fn step(
        &mut self,
        now: Time,
        running: bool,
        ts_ms: i64,
        process: &mut Process,
        record: &mut Record,
    ) -> bool {
        if self.lost {
            return false;
        }
        let mut moved = self.read(ts_ms, process);
        if self.held_until.is_some_and(|until| now >= until) {
            self.held_until = None;
            moved = true;
        }
        while running && self.alive && self.lead(now, process, record) {
            moved = true;
            self.read(ts_ms, process);
        }
        let writers = (self.alive && self.has_output) || self.lingers || self.held_until.is_some();
        if !writers && self.pipe.is_empty() && !self.ended_output && !self.lost {
            self.ended_output = true;
            process.handle_end_of_output();
            moved = true;
        }
        if self.terminated && !self.alive && !self.lingers && self.held_until.is_none() {
            self.terminated = false;
            process.handle_group_gone();
            moved = true;
        }
        moved
    }

    /// The driver's side of the pipe.
    fn read(&mut self, ts_ms: i64, process: &mut Process) -> bool {
        let mut moved = false;
        while let Some((channel, bytes)) = self.pipe.front_mut() {
            let room = process.wants_output().min(bytes.len());
            if room == 0 {
                break;
            }
            let taken = process.handle_output(*channel, ts_ms, &bytes[..room]);
            assert_eq!(taken, room, "there was room for it");
            bytes.advance(room);
            self.piped -= room;
            if bytes.is_empty() {
                self.pipe.pop_front();
            }
            moved = true;
        }
        moved
    }

    /// The leader carries out a step, or a part of it. Returns whether it did anything.
    fn lead(&mut self, now: Time, process: &mut Process, record: &mut Record) -> bool {
        let Some(step) = self.steps.front_mut() else {
            self.die(Exit::Code(0), now, process, record);
            return true;
        };
        match step {
            Step::Print(channel, bytes) => {
                let len = bytes.len().min(PIPE - self.piped);
                if len == 0 && !bytes.is_empty() {
                    return false;
                }
                let (channel, piece) = (*channel, bytes.split_to(len));
                if !bytes.is_empty() {
                    self.print(channel, piece, record);
                    return true;
                }
                self.print(channel, piece, record);
            }
            Step::Drip(bytes, every) => {
                let every = *every;
                if self.until.is_some_and(|until| now < until) || self.piped == PIPE {
                    return false;
                }
                if !bytes.is_empty() {
                    let piece = bytes.split_to(1);
                    self.until = Some(now + every);
                    self.print(Channel::Stdout, piece, record);
                    return true;
                }
            }
            Step::Cat => {
                let room = PIPE - self.piped;
                if let Some(input) = process.stdin() {
                    let piece = Bytes::copy_from_slice(&input[..input.len().min(room)]);
                    process.handle_stdin_written(piece.len());
                    let moved = !piece.is_empty();
                    self.print(Channel::Stdout, piece, record);
                    return moved;
                }
                if process.wants_stdin_end() {
                    process.handle_stdin_closed();
                } else if record.has_stdin {
                    return false;
                }
            }
            Step::Sleep(duration) => {
                let until = *self.until.get_or_insert(now + *duration);
                if now < until {
                    return false;
                }
            }
            Step::Close => self.has_output = false,
            Step::IgnoreTerm => self.ignores_term = true,
            Step::Linger => self.lingers = true,
            Step::Hold(duration) => self.hold = *duration,
            Step::SweepDelay(duration) => self.sweep_delay = *duration,
            Step::Exit(exit) => {
                let exit = *exit;
                self.die(exit, now, process, record);
                return true;
            }
            Step::Hang => return false,
            Step::Fail => {
                self.lost = true;
                self.alive = false;
                record.lost_at = Some(record.clock.now());
                process.handle_lost();
                return true;
            }
            // They are the sandbox's.
            Step::StartDelay(_) | Step::StartError(_) | Step::StartFail(_) => {}
        }
        self.until = None;
        self.steps.pop_front();
        true
    }

    fn print(&mut self, channel: Channel, piece: Bytes, record: &mut Record) {
        if !piece.is_empty() {
            self.piped += piece.len();
            record.printed += piece.len();
            self.pipe.push_back((channel, piece));
        }
    }

    fn die(&mut self, exit: Exit, now: Time, process: &mut Process, record: &mut Record) {
        self.alive = false;
        record.exited = Some((record.clock.now(), exit));
        if !self.hold.is_zero() {
            self.held_until = Some(now + self.hold);
        }
        process.handle_exit(exit);
    }

    /// TERM was sent: it is looked whether the group is gone.
    pub(super) const fn watch(&mut self) {
        self.terminated = true;
    }

    /// A signal to the group, or to its leader alone.
    pub(super) fn signal(
        &mut self,
        signal: Signal,
        to: Target,
        now: Time,
        process: &mut Process,
        record: &mut Record,
    ) {
        let kills = match signal {
            Signal::KILL => true,
            Signal::TERM => !self.ignores_term,
            Signal::HUP | Signal::INT | Signal::QUIT | Signal::USR1 | Signal::USR2 => true,
            // CONT, STOP, and what most programs do not hear.
            _ => return,
        };
        if kills && to == Target::Group {
            self.hold = Duration::ZERO;
            self.held_until = None;
        }
        if signal == Signal::KILL && to == Target::Group {
            self.lingers = false;
        }
        if kills && self.alive {
            self.die(Exit::Signal(signal.number()), now, process, record);
        }
    }

    /// When it goes on by itself, by the sandbox's clock.
    pub(super) fn next(&self) -> Option<Time> {
        let leader = self.until.filter(|_| self.alive);
        leader.into_iter().chain(self.held_until).min()
    }

    pub(super) fn is_gone(&self) -> bool {
        self.lost || !(self.alive || self.lingers || self.held_until.is_some())
    }
}
