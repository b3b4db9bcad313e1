//! A scenario of a process and its subscribers.

use super::{
    super::{Clock, Contract, Machine, Sort, log, process::Subject},
    Begin, Coming, Op, Rare, Scenario,
    facts::Facts,
    printed::Printed,
    subscriber::{Follower, Subscriber},
};
use crate::{
    Close, Time,
    audience::{Hold, STUCK},
    log::{Channel, Frame, Reader},
    process::{self, Config, Exit, Target},
    subscription,
};

const MAX_SUBSCRIBERS: usize = 4;

/// What a poll gave, of the process or of a subscriber.
#[derive(Debug, PartialEq)]
pub(super) enum Output {
    Process(process::Output),
    Subscriber(usize, subscription::Output),
}

pub(super) struct Run {
    config: Config,
    steady: bool,
    lazy: bool,
    driven: Driven,
    subject: Subject,
    contract: Contract,
    clock: Clock,
    /// The latest that it showed.
    latest: Time,
    subscribers: Vec<Subscriber>,
    printed: Printed,
    is_awaited: bool,
    abandoned: bool,
    outputs: Vec<Output>,
}

/// What the driver knows of its last poll.
struct Driven {
    at: Time,
    wait: Option<Time>,
    /// There was no room.
    stalled: bool,
}

impl Run {
    pub(super) fn new(scenario: &Scenario, steady: bool) -> Self {
        let config = &scenario.config;
        let clock = Clock::new();
        let mut subject = Subject::new(config, clock.now);
        subject.process.handle_started(Some(7));
        Self {
            config: config.clone(),
            steady,
            lazy: scenario.lazy,
            driven: Driven { at: clock.now, wait: None, stalled: false },
            subject,
            contract: Contract::new(clock.now, steady),
            clock,
            latest: clock.now,
            subscribers: Vec::new(),
            printed: Printed::default(),
            is_awaited: config.awaits_reader,
            abandoned: false,
            outputs: Vec::new(),
        }
    }

    /// Something happens, and the driver polls.
    pub(super) fn apply(&mut self, op: &Op) {
        let process = &mut self.subject.process;
        match *op {
            Op::Tick(tick) => self.clock.tick(tick),
            Op::Asked(index, nudge) => {
                if let Some(at) = self.index(index).and_then(|index| self.subscribers[index].asked) {
                    self.clock.now = Time::from_nanos(at.as_nanos().saturating_add_signed(i64::from(nudge)));
                }
            }
            Op::Print(channel, len) => self.print(channel, len),
            Op::Fill(channel, len, times) => (0..times % 32).for_each(|_| self.print(channel, len)),
            Op::Alternate(times) => {
                for _ in 0..times.min(600) {
                    self.print(Channel::Stdout, 1);
                    self.print(Channel::Stderr, 1);
                }
            }
            Op::Poll(index, polls) => self.poll_one(index, polls),
            Op::PollAll => (0..self.subscribers.len()).for_each(|index| self.poll(index, usize::MAX)),
            Op::Come(coming) => self.come(coming),
            Op::Overtaken(channel, len, index, polls) => {
                let read = self.read(len);
                self.poll_one(index, polls);
                self.handle_output(channel, read);
            }
            Op::Surprised(channel, len, coming) => {
                let read = self.read(len);
                self.come(coming);
                self.handle_output(channel, read);
            }
            Op::Leave(index) => {
                if let Some(index) = self.index(index) {
                    self.subscribers[index].leave(&mut self.subject.process);
                }
            }
            Op::Close(index, reason) => {
                if let Some(index) = self.index(index) {
                    self.subscribers[index].close(reason);
                }
            }
            Op::Rare(Rare::Exit(exit)) => process.handle_exit(exit),
            Op::Rare(Rare::EndOfOutput) => process.handle_end_of_output(),
            Op::Rare(Rare::Kill) => process.kill(),
            Op::Rare(Rare::Signal(signal)) => process.signal(signal, Target::Leader),
            Op::Rare(Rare::Lost) => process.handle_lost(),
            Op::Rare(Rare::Abandon) => {
                process.abandon_output();
                self.abandoned = true;
                for Subscriber { waiting, .. } in &mut self.subscribers {
                    (waiting.is_safe, waiting.is_keen) = (false, Some(false));
                }
            }
        }
        if self.has_to_drive(op) {
            self.drive();
        }
        self.judge();
        self.facts().check(&self.subject.process, self.driven.wait, &self.printed.ends, self.abandoned);
    }

    /// Whether the driver polls.
    fn has_to_drive(&self, op: &Op) -> bool {
        let is_input = match op {
            Op::Rare(_) => true,
            Op::Tick(_) | Op::Asked(..) | Op::Poll(..) | Op::PollAll | Op::Come(_) => false,
            Op::Leave(_) | Op::Close(..) => false,
            Op::Print(..) | Op::Fill(..) | Op::Alternate(_) | Op::Overtaken(..) | Op::Surprised(..) => false,
        };
        let process = &self.subject.process;
        // After its exit the time to drain depends on the room.
        let is_draining = process.exit_status().is_some();
        let is_due = self.driven.wait.is_some_and(|at| self.contract.time(self.clock.now) >= at);
        let has_room = self.driven.stalled && process.wants_output() > 0;
        !self.lazy || is_input || is_draining || is_due || has_room || process.wants_poll()
    }

    fn index(&self, index: u8) -> Option<usize> {
        usize::from(index).checked_rem(self.subscribers.len())
    }

    fn poll_one(&mut self, index: u8, polls: usize) {
        if let Some(index) = self.index(index) {
            self.poll(index, polls);
        }
    }

    fn poll(&mut self, index: usize, polls: usize) {
        for _ in 0..polls {
            let subscriber = &mut self.subscribers[index];
            let check = |frame: &Frame| self.printed.check(frame);
            let output = subscriber.poll(&mut self.subject.process, self.clock.now, check);
            let sort = Follower::sort(&output);
            self.outputs.push(Output::Subscriber(index, output));
            if let Sort::Wait(_) = sort {
                break;
            }
        }
    }

    fn come(&mut self, coming: Coming) {
        let gone = self.subscribers.iter().position(|subscriber| subscriber.gone);
        if self.subscribers.len() == MAX_SUBSCRIBERS && gone.is_none() {
            return;
        }
        let now = self.contract.time(self.clock.now);
        let process = &mut self.subject.process;
        let end = process.log().end_offset();
        let log = process.log_mut();
        let reader = match coming.begin {
            Begin::OldestKept => Reader::oldest_kept(log),
            Begin::Oldest => Reader::oldest(log),
            Begin::Newest => Reader::newest(log),
            Begin::At(offset) => {
                Reader::at_offset(log, u64::from(offset) % (end + 1)).expect("it is not ahead")
            }
            Begin::Near(back) => {
                Reader::at_offset(log, end.saturating_sub(back as u64)).expect("it is not ahead")
            }
        };
        self.is_awaited = false;
        let subscriber = Subscriber::new(coming, process, reader, self.steady, now);
        match gone {
            Some(index) => self.subscribers[index] = subscriber,
            None => self.subscribers.push(subscriber),
        }
    }

    fn print(&mut self, channel: Channel, len: usize) {
        let read = self.read(len);
        self.handle_output(channel, read);
    }

    /// What is read at once is never more than a ring holds: whoever comes meanwhile has a chance.
    fn read(&self, len: usize) -> usize {
        let window = usize::try_from(Facts::window(&self.config)).unwrap_or(usize::MAX);
        len.min(self.subject.process.wants_output()).min(window)
    }

    fn handle_output(&mut self, channel: Channel, len: usize) {
        let process = &mut self.subject.process;
        let before = process.log().end_offset();
        let taken = process.handle_output(channel, 0, &log::bytes(before, len));
        assert_eq!(taken, len, "what was read cannot be put back");
        let end = process.log().end_offset();
        assert!(end == before + len as u64 || process.log().is_ended(), "what was printed is dropped");
        if end > before {
            self.printed.channels.insert(before, channel);
        }
        self.printed.end = end;
    }

    /// The driver polls until `Wait`.
    fn drive(&mut self) {
        let now = self.contract.time(self.clock.now);
        let mut wait = None;
        let Self { subject, contract, outputs, .. } = self;
        contract.settle(subject, self.clock.now, |subject, output| {
            if output == process::Output::Sweep {
                subject.process.handle_swept();
            }
            if let process::Output::Wait(at) = output {
                wait = at;
            }
            outputs.push(Output::Process(output));
        });
        self.clock.asked = wait.or(self.clock.asked);
        let log = self.subject.process.log();
        for subscriber in self.subscribers.iter_mut().filter(|subscriber| !subscriber.gone) {
            if subscriber.offset < log.end_offset() {
                subscriber.waiting.since.get_or_insert(now);
            }
        }
        self.driven = Driven { at: now, wait, stalled: self.subject.process.wants_output() == 0 };
    }

    /// Who cannot lose anything by what the process prints next, and who did not since it was looked last.
    fn judge(&mut self) {
        let (facts, log) = (self.facts(), self.subject.process.log());
        let settled: Vec<_> = (self.subscribers.iter())
            .map(|subscriber| {
                let within = facts.is_within(subscriber, log) && !subscriber.has_lost(log);
                let is_safe = within && facts.is_waited_for(subscriber, log);
                // Who was safe and is not waited for now was safe until now.
                let was_safe = subscriber.gone || !subscriber.waiting.is_safe || !subscriber.has_lost(log);
                assert!(was_safe, "lost, and waited for: {subscriber:#?}");
                (is_safe, within && subscriber.config.hold != Hold::Never)
            })
            .collect();
        // To each of them time stands still then for as long as it takes to where that one was.
        let went_back = self.clock.now < self.latest;
        self.latest = self.latest.max(self.clock.now);
        for (subscriber, (is_safe, may_be_keen)) in self.subscribers.iter_mut().zip(settled) {
            let waiting = &mut subscriber.waiting;
            waiting.is_safe = is_safe && !self.abandoned;
            let reads = waiting.read_at.is_some_and(|at| self.driven.at.since(at) < STUCK);
            let was_keen = waiting.is_keen.unwrap_or(may_be_keen);
            waiting.is_keen = Some(was_keen && reads && !went_back && !self.abandoned);
        }
    }

    fn facts(&self) -> Facts<'_> {
        let Self { config, subscribers, is_awaited, .. } = self;
        Facts { config, subscribers, is_awaited: *is_awaited, now: self.driven.at }
    }

    /// The process ends, and all of them read to the end.
    pub(super) fn read_out(&mut self) {
        self.apply(&Op::Rare(Rare::Exit(Exit::Code(0))));
        self.apply(&Op::Rare(Rare::EndOfOutput));
        self.apply(&Op::PollAll);
        for subscriber in &self.subscribers {
            assert!(subscriber.gone, "it is over, and its stream is not: {subscriber:#?}");
        }
    }

    pub(super) fn finish(mut self) -> Vec<Output> {
        let now = self.clock.now;
        for (index, subscriber) in self.subscribers.iter_mut().enumerate() {
            if subscriber.gone {
                continue;
            }
            subscriber.closed(Close::Shutdown);
            let mut contract = subscriber.contract;
            let expected = subscriber.expect(&self.subject.process, contract.time(now));
            let Subscriber { subscription, .. } = subscriber;
            let mut outputs = Vec::new();
            let mut follower = Follower { subscription, process: &mut self.subject.process };
            contract.finish(&mut follower, now, |_, output| outputs.push(output));
            let first = outputs.first().cloned();
            subscriber.take(&expected, first.expect("a poll gives something"), contract.time(now), |_| {});
            assert!(subscriber.gone, "closed, and not gone");
            self.outputs.extend(outputs.into_iter().map(|output| Output::Subscriber(index, output)));
        }
        let outputs = &mut self.outputs;
        if !self.contract.is_closed() {
            self.contract.finish(&mut self.subject, now, |_, output| outputs.push(Output::Process(output)));
        }
        self.outputs
    }
}
