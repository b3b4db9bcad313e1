//! The end of a process: of its group, and of what left the group.
//!
//! ```text
//!          terminate                 TERM sent               the group is empty: GroupGone
//!  Idle ─────────────► Terminating ───────────► Grace ──────────────────────────────────────► Idle
//!    └── sweep ──► Sweeping: KILL to all that is found, until nothing is: Swept ────────────────┘
//! ```
//!
//! Until the leader is reaped nobody else can have its number, and the group is signalled at once and as a whole.
//! After that its members are looked for, and each is signalled by a descriptor that is held while it is looked at
//! again.

use super::{
    hunt::{Hunt, Look},
    members::{Identity, Member, Scan, Scanner, Snapshot, signal},
};
use hangar_core::{
    Time,
    process::{self, Target},
};
use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group},
};
use std::{
    collections::BTreeSet,
    task::{Context, Poll},
    time::Duration,
};

/// How long a sweep goes on finding something before it gives up: what is stuck in the kernel does not end.
pub(super) const SWEEP: Duration = Duration::from_secs(2);
/// How long TERM waits for a look at the descendants.
const LOOK: Duration = Duration::from_millis(200);
/// Between two looks: the first and the longest.
pub(super) const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// Ends one process, when its machine says so.
pub(super) struct Killer {
    process_id: String,
    leader: Identity,
    session: i32,
    reaped: bool,
    /// The group was seen empty after the leader was reaped: its number may be another's.
    group_gone: bool,
    /// What was found so far: it is known even when its parents are gone.
    known: BTreeSet<Identity>,
    stage: Stage,
    scan: Option<Scan>,
    look_at: Option<Time>,
    pause: Duration,
    hunt: Hunt,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Idle,
    /// Descendants are looked for before TERM makes orphans of them; no longer than until this time.
    Terminating {
        until: Time,
    },
    Grace,
    Sweeping {
        until: Time,
    },
}

/// What the machine is to be told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Event {
    GroupGone,
    Swept,
}

impl Killer {
    pub(super) fn new(process_id: String, leader: Identity, session: i32) -> Self {
        Self {
            process_id,
            leader,
            session,
            reaped: false,
            group_gone: false,
            known: BTreeSet::new(),
            stage: Stage::Idle,
            scan: None,
            look_at: None,
            pause: PAUSES.0,
            hunt: Hunt::default(),
        }
    }

    /// Sends a signal to the group or to its leader, while that is there.
    pub(super) fn signal(&self, signal: process::Signal, to: Target) {
        let Some(leader) = Pid::from_raw(self.leader.pid).filter(|_| !self.reaped) else { return };
        let sent =
            Signal::from_named_raw(signal.number().into()).map_or(Err(Errno::INVAL), |signal| match to {
                Target::Group => kill_process_group(leader, signal),
                Target::Leader => kill_process(leader, signal),
            });
        if let Err(error) = sent {
            tracing::debug!(process.id = self.process_id, %error, signal = %signal.name(), "it was not signalled");
        }
    }

    /// Begins with TERM.
    pub(super) fn terminate(&mut self, now: Time) {
        self.enter(Stage::Terminating { until: now + LOOK }, now);
    }

    /// Begins with KILL.
    pub(super) fn sweep(&mut self, now: Time) {
        self.signal_group(Signal::KILL);
        self.enter(Stage::Sweeping { until: now + SWEEP }, now);
    }

    /// The leader was reaped.
    pub(super) fn handle_reaped(&mut self, now: Time) {
        self.reaped = true;
        if self.stage == Stage::Grace {
            self.enter(Stage::Grace, now);
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// When to poll again, beside being woken.
    pub(super) const fn look_at(&self) -> Option<Time> {
        match self.stage {
            Stage::Terminating { until } if self.scan.is_some() => Some(until),
            Stage::Terminating { .. } | Stage::Idle | Stage::Grace | Stage::Sweeping { .. } => self.look_at,
        }
    }

    /// Goes on with what is due at `now`.
    pub(super) fn poll(&mut self, scanner: &Scanner, now: Time, cx: &mut Context<'_>) -> Poll<Event> {
        loop {
            if let Some(scan) = &mut self.scan {
                let snapshot = match (scan.as_mut().poll(cx), self.stage) {
                    (Poll::Ready(snapshot), _) => snapshot,
                    (Poll::Pending, Stage::Terminating { until }) if now >= until => None,
                    (Poll::Pending, _) => return Poll::Pending,
                };
                self.scan = None;
                if let Some(event) = self.handle_snapshot(snapshot.as_deref(), now) {
                    self.enter(Stage::Idle, now);
                    return Poll::Ready(event);
                }
            } else if self.look_at.is_some_and(|at| now >= at) {
                self.look_at = None;
                match self.stage {
                    Stage::Idle => {}
                    // With its leader there the group is not empty: there is nothing to look for.
                    Stage::Grace if !self.reaped => {}
                    Stage::Grace => {
                        self.group_gone |= self.has_no_group();
                        if self.group_gone {
                            self.enter(Stage::Idle, now);
                            return Poll::Ready(Event::GroupGone);
                        }
                        self.scan = Some(scanner.scan());
                    }
                    Stage::Terminating { .. } | Stage::Sweeping { .. } => self.scan = Some(scanner.scan()),
                }
            } else {
                return Poll::Pending;
            }
        }
    }

    fn enter(&mut self, stage: Stage, now: Time) {
        self.stage = stage;
        self.scan = None;
        self.pause = PAUSES.0;
        self.hunt = Hunt::default();
        self.look_at = (stage != Stage::Idle).then_some(now);
    }

    fn look_again(&mut self, now: Time) {
        self.look_at = Some(now + self.pause);
        self.pause = (self.pause * 2).min(PAUSES.1);
    }

    fn handle_snapshot(&mut self, snapshot: Option<&Snapshot>, now: Time) -> Option<Event> {
        let (group, all) = snapshot.map(|snapshot| self.find(snapshot)).unwrap_or_default();
        match self.stage {
            Stage::Idle => {}
            Stage::Terminating { .. } => {
                if self.reaped {
                    for member in group {
                        signal(member, Some(self.leader.pid), &[Signal::TERM, Signal::CONT]);
                    }
                } else {
                    self.signal_group(Signal::TERM);
                    self.signal_group(Signal::CONT);
                }
                self.enter(Stage::Grace, now);
            }
            Stage::Grace => {
                self.group_gone |= self.reaped && snapshot.is_some() && group.is_empty();
                if self.group_gone {
                    return Some(Event::GroupGone);
                }
                self.look_again(now);
            }
            Stage::Sweeping { until } => {
                let look = snapshot.map_or(Look::Later, |snapshot| self.hunt.look(snapshot, &all));
                if look == Look::Over {
                    return Some(Event::Swept);
                }
                if now >= until {
                    tracing::warn!(
                        process.id = self.process_id,
                        left = all.len(),
                        "not everything could be found and ended"
                    );
                    return Some(Event::Swept);
                }
                if look == Look::AtOnce {
                    self.pause = PAUSES.0;
                    self.look_at = Some(now);
                } else {
                    self.look_again(now);
                }
            }
        }
        None
    }

    /// The members of the group, and all that belongs to the process.
    fn find(&mut self, snapshot: &Snapshot) -> (Vec<Identity>, Vec<Identity>) {
        // A number is given to another process only when no member of the group is left.
        self.group_gone |= self.reaped
            && snapshot.find(self.leader.pid).is_some_and(|other| other.stat.identity != self.leader);
        let in_group = |member: &Member| {
            !self.group_gone
                && member.stat.group == self.leader.pid
                && member.stat.session == self.session
                && member.stat.identity.start_time >= self.leader.start_time
        };
        let identity = |member: &Member| member.stat.identity;
        let living = snapshot.all.iter().filter(|member| !member.stat.ended);
        let group = living.filter(|member| in_group(member)).map(identity).collect();
        let all = snapshot.with_descendants(|member| {
            in_group(member)
                || member.process_id.as_deref() == Some(&*self.process_id)
                || self.known.contains(&member.stat.identity)
        });
        let all: Vec<Identity> = all.into_iter().map(identity).collect();
        self.known = all.iter().copied().collect();
        (group, all)
    }

    /// Whether the system knows no such group. Where it does, those in it may all have ended, or be another's.
    fn has_no_group(&self) -> bool {
        Pid::from_raw(self.leader.pid).map_or(Err(Errno::SRCH), test_kill_process_group) == Err(Errno::SRCH)
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.leader.pid)
            && !self.reaped
            && let Err(error) = kill_process_group(group, signal)
        {
            tracing::debug!(process.id = self.process_id, %error, "its group was not signalled");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::members::{Stat, tests::member};

    const LEADER: Identity = Identity { pid: 40, start_time: 5 };

    fn found(killer: &mut Killer, all: Vec<Member>) -> (Vec<i32>, Vec<i32>) {
        let (group, all) = killer.find(&Snapshot::of(all));
        let pids = |found: Vec<Identity>| found.into_iter().map(|identity| identity.pid).collect();
        (pids(group), pids(all))
    }

    fn in_group(pid: i32, parent: i32) -> Member {
        let member = member(pid, parent);
        Member { stat: Stat { group: LEADER.pid, session: 7, ..member.stat }, ..member }
    }

    #[test]
    fn the_group_and_what_left_it_are_told_apart() {
        let mut killer = Killer::new("01A".into(), LEADER, 7);
        let leader = in_group(40, 1);
        let leader = Member { stat: Stat { identity: LEADER, ..leader.stat }, ..leader };
        let by_name = |name: &str| Some(name.into());
        let all = vec![
            leader,
            in_group(41, 40),
            member(42, 41),
            Member { process_id: by_name("01A"), ..member(43, 1) },
            Member { process_id: by_name("01B"), ..member(44, 1) },
            member(45, 1),
        ];
        assert_eq!(found(&mut killer, all), (vec![40, 41], vec![40, 41, 42, 43]));
        // It is still known when its parents are gone; a later one of the same number is not.
        let later = Stat { identity: Identity { pid: 43, start_time: 99 }, ..member(43, 1).stat };
        let all = vec![member(42, 1), Member { stat: later, ..member(43, 1) }];
        assert_eq!(found(&mut killer, all), (vec![], vec![42]));
    }

    #[test]
    fn a_group_whose_number_is_another_processes_is_left_alone() {
        let mut killer = Killer::new("01A".into(), LEADER, 7);
        killer.handle_reaped(Time::ZERO);
        assert_eq!(found(&mut killer, vec![in_group(41, 1)]).0, [41]);
        let other_session = in_group(46, 1);
        let other_session = Member { stat: Stat { session: 8, ..other_session.stat }, ..other_session };
        assert_eq!(found(&mut killer, vec![in_group(41, 1), other_session]).0, [41]);
        killer.known.clear();
        assert_eq!(found(&mut killer, vec![in_group(40, 1), in_group(46, 40)]), (vec![], vec![]));
        assert_eq!(found(&mut killer, vec![in_group(46, 1)]), (vec![], vec![]), "once is for good");
    }
}
