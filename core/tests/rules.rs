//! The contract check itself: a machine that keeps the rules passes, and one that breaks a rule is caught.

use hangar_core::{
    Time,
    testing::{Contract, Machine, Sort},
};

const NOW: Time = Time::from_nanos(100);

/// What a machine does when it is polled: all it has is how often it was polled before, and whether it was closed.
type Poll = fn(polls: u32, closed: bool, now: Time) -> Sort;

struct Toy {
    poll: Poll,
    polls: u32,
    closed: bool,
    held: usize,
}

impl Machine for Toy {
    type Output = Sort;

    fn poll_output(&mut self, now: Time) -> Sort {
        self.polls += 1;
        (self.poll)(self.polls - 1, self.closed, now)
    }

    fn sort(output: &Sort) -> Sort {
        *output
    }

    fn close(&mut self) {
        if !self.closed {
            (self.closed, self.polls) = (true, 0);
        }
    }

    fn disturb(&mut self) {}

    fn check_bounds(&self) {
        assert!(self.held <= 10, "rule 7: {} are held", self.held);
    }
}

fn life(poll: Poll, held: usize) {
    let mut toy = Toy { poll, polls: 0, closed: false, held };
    let mut contract = Contract::new(NOW, false);
    contract.settle(&mut toy, NOW, |_, _| {});
    contract.finish(&mut toy, NOW, |_, _| {});
    assert!(contract.is_closed());
}

const fn quiet(polls: u32, closed: bool) -> Sort {
    if closed && polls == 0 { Sort::Closed } else { Sort::Wait(None) }
}

#[test]
fn one_that_keeps_them_passes() {
    life(|polls, closed, _| quiet(polls, closed), 10);
}

#[test]
#[should_panic(expected = "rules 1 and 5: output 1")]
fn chance() {
    let mut runs = 0;
    Contract::run_twice(|_| {
        runs += 1;
        vec![0, runs]
    });
}

#[test]
#[should_panic(expected = "rule 2")]
fn never_a_wait() {
    life(|_, _, _| Sort::Act, 0);
}

#[test]
#[should_panic(expected = "rule 3")]
fn a_wait_until_now() {
    life(|_, _, now| Sort::Wait(Some(now)), 0);
}

#[test]
#[should_panic(expected = "rules 4 and 5")]
fn another_wait_each_time() {
    life(|polls, _, _| Sort::Wait(Some(Time::from_nanos(200 + u64::from(polls)))), 0);
}

#[test]
#[should_panic(expected = "rules 4 and 5")]
fn a_clock_that_goes_back() {
    life(|_, _, now| Sort::Wait(Some(Time::from_nanos(300 - now.as_nanos().min(100)))), 0);
}

#[test]
#[should_panic(expected = "rule 6")]
fn two_ends() {
    life(|polls, closed, _| if closed && polls < 2 { Sort::Closed } else { Sort::Wait(None) }, 0);
}

#[test]
#[should_panic(expected = "rule 6")]
fn something_after_the_end() {
    life(|polls, closed, now| if now > NOW { Sort::Act } else { quiet(polls, closed) }, 0);
}

#[test]
#[should_panic(expected = "rule 7")]
fn too_much_held() {
    life(|polls, closed, _| quiet(polls, closed), 11);
}

#[test]
#[should_panic(expected = "rule 8")]
fn no_end() {
    life(|_, _, _| Sort::Wait(None), 0);
}
