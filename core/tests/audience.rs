//! For whom a process is slowed, by value.

use hangar_core::{
    Time,
    audience::{Hold, PATIENCE, STUCK, Seat},
    log::{Channel, Item, Reader, Retention},
    process::{Config, Keep, Output, Process},
};
use std::time::Duration;

const RING: usize = 100;

fn process(keep: Keep, awaits_reader: bool) -> Process {
    let retention = Retention::Ring { bytes: RING };
    let mut process =
        Process::new(Config { retention, keep, awaits_reader, ..Config::default() }, Time::ZERO);
    process.handle_started(None);
    process
}

fn sit(process: &mut Process, hold: Hold) -> Seat {
    let reader = Reader::oldest_kept(process.log());
    process.seat(reader, hold)
}

/// It prints as much as there is room for, and how much that is.
fn fill(process: &mut Process) -> usize {
    let room = process.wants_output();
    assert!(room <= RING, "nothing slows it");
    assert_eq!(process.handle_output(Channel::Stdout, 0, &vec![b'x'; room]), room);
    room
}

fn poll(process: &mut Process, now: Time) -> Output {
    process.poll_output(now)
}

fn taken(process: &mut Process, seat: &mut Seat) -> u64 {
    let before = seat.reader().offset();
    while let Some(item) = process.take(seat) {
        assert!(matches!(item, Item::Frame(_)), "{item:?}");
    }
    seat.reader().offset() - before
}

const fn at(duration: Duration) -> Time {
    Time::from_nanos(duration.as_nanos() as u64)
}

#[test]
fn one_that_has_stopped_holds_up_the_others_for_a_moment() {
    let mut process = process(Keep::Retained, true);
    let mut moving = sit(&mut process, Hold::WhileMoving);
    let stopped = sit(&mut process, Hold::WhileMoving);
    assert_eq!((fill(&mut process), taken(&mut process, &mut moving), fill(&mut process)), (100, 100, 0));
    assert_eq!(poll(&mut process, Time::ZERO), Output::Wait(Some(at(STUCK))));
    let before = at(STUCK - Duration::from_nanos(1));
    assert_eq!((poll(&mut process, before), process.wants_output()), (Output::Wait(Some(at(STUCK))), 0));
    assert_eq!((poll(&mut process, at(STUCK)), fill(&mut process)), (Output::Wait(None), 100));
    assert_eq!(taken(&mut process, &mut moving), 100);
    assert!(stopped.reader().is_behind(process.log()));
}

#[test]
fn alone_one_that_has_stopped_is_waited_for_for_a_while() {
    let mut process = process(Keep::Unread, true);
    let stopped = sit(&mut process, Hold::WhileMoving);
    assert_eq!((fill(&mut process), fill(&mut process)), (100, 0));
    assert_eq!(poll(&mut process, Time::ZERO), Output::Wait(Some(at(STUCK))));
    assert_eq!(poll(&mut process, at(STUCK)), Output::Wait(Some(at(PATIENCE))));
    assert_eq!((process.wants_output(), poll(&mut process, at(PATIENCE))), (0, Output::Wait(None)));
    assert_eq!(process.wants_output(), usize::MAX);
    process.leave(&stopped);
    assert_eq!(process.log().held(), 0);
}

#[test]
fn one_that_is_always_waited_for_moves_like_any_other() {
    let mut process = process(Keep::Retained, true);
    let mut always = sit(&mut process, Hold::Always);
    let _stopped = sit(&mut process, Hold::WhileMoving);
    assert_eq!((fill(&mut process), taken(&mut process, &mut always)), (100, 100));
    poll(&mut process, Time::ZERO);
    poll(&mut process, at(STUCK));
    // And it is waited for however long it takes.
    assert_eq!(fill(&mut process), 100);
    poll(&mut process, at(STUCK));
    poll(&mut process, at(2 * PATIENCE));
    assert_eq!((process.wants_output(), taken(&mut process, &mut always)), (0, 100));
}

#[test]
fn who_has_lost_its_place_holds_up_nobody() {
    let mut process = process(Keep::Retained, true);
    let mut slow = sit(&mut process, Hold::WhileMoving);
    let lost = sit(&mut process, Hold::WhileMoving);
    fill(&mut process);
    poll(&mut process, Time::ZERO);
    taken(&mut process, &mut slow);
    poll(&mut process, at(STUCK));
    // Enough to lose it, and then the other one takes its time, too.
    fill(&mut process);
    taken(&mut process, &mut slow);
    process.handle_output(Channel::Stdout, 0, b"x");
    poll(&mut process, at(STUCK));
    assert!(lost.reader().is_behind(process.log()));
    poll(&mut process, at(2 * STUCK));
    assert_eq!(process.wants_output(), 99, "of the one that is there");
}

#[test]
fn a_frame_counts_however_short_it_is() {
    let mut process = process(Keep::Retained, true);
    let mut seat = sit(&mut process, Hold::Always);
    let channels = [Channel::Stdout, Channel::Stderr].into_iter().cycle();
    let mut printed = 0;
    for channel in channels.take(RING) {
        if process.wants_output() == 0 {
            break;
        }
        printed += process.handle_output(channel, 0, b"x");
    }
    assert_eq!((printed, taken(&mut process, &mut seat)), (16, 16));
}

#[test]
fn what_was_read_is_not_dropped_for_who_moves_again() {
    let mut process = process(Keep::Retained, true);
    let mut slow = sit(&mut process, Hold::WhileMoving);
    let mut quick = sit(&mut process, Hold::WhileMoving);
    fill(&mut process);
    taken(&mut process, &mut quick);
    poll(&mut process, Time::ZERO);
    poll(&mut process, at(STUCK));
    assert_eq!(process.wants_output(), 100);
    // So many were read. Then the one that had stopped reads half a ring, and is waited for again.
    process.handle_output(Channel::Stderr, 0, b"x");
    process.take(&mut slow);
    assert_eq!(process.handle_output(Channel::Stdout, 0, &[b'x'; 99]), 99);
    assert_eq!(process.log().end_offset(), 200);
}

/// Whoever drives it polls it when its time has come, and else when it says so.
#[test]
fn it_says_when_the_time_for_which_it_waits_is_another_one() {
    let mut process = process(Keep::Retained, true);
    let mut first = sit(&mut process, Hold::WhileMoving);
    assert_eq!((process.wants_poll(), poll(&mut process, Time::ZERO)), (false, Output::Wait(None)));
    // It is held up from here on, and that is not in its last `Wait`.
    fill(&mut process);
    assert!(process.wants_poll());
    assert_eq!(poll(&mut process, Time::ZERO), Output::Wait(Some(at(STUCK))));
    assert!(!process.wants_poll());
    let mut second = sit(&mut process, Hold::WhileMoving);
    assert!(process.wants_poll());
    assert_eq!(
        (poll(&mut process, at(STUCK)), process.wants_poll()),
        (Output::Wait(Some(at(2 * STUCK))), false)
    );
    // The first one moves, and holds it up no longer: the second one does.
    taken(&mut process, &mut first);
    assert!(process.wants_poll());
    poll(&mut process, at(STUCK));
    process.leave(&first);
    assert!(process.wants_poll());
    assert_eq!(poll(&mut process, at(2 * STUCK)), Output::Wait(Some(at(STUCK + PATIENCE))));
    taken(&mut process, &mut second);
    assert_eq!((process.wants_poll(), process.wants_output()), (false, 100));
}

#[test]
fn nobody_waits_where_nobody_will_read() {
    let mut process = process(Keep::Retained, true);
    assert_eq!((fill(&mut process), process.wants_output()), (100, 0));
    process.abandon_output();
    assert_eq!(process.wants_output(), usize::MAX);
    let _seat = sit(&mut process, Hold::Always);
    assert_eq!(process.handle_output(Channel::Stdout, 0, &[b'x'; 1000]), 1000);
    assert_eq!((process.wants_output(), process.log().held()), (usize::MAX, 0));
}

#[test]
fn where_only_what_is_unread_is_kept_nothing_else_is() {
    let mut process = process(Keep::Unread, true);
    assert_eq!((fill(&mut process), process.log().held()), (100, 100));
    // Who comes for what comes next has no use for what waited.
    let reader = Reader::newest(process.log_mut());
    let newest = process.seat(reader, Hold::WhileMoving);
    assert_eq!(process.log().held(), 0);
    let mut other = sit(&mut process, Hold::Never);
    process.handle_output(Channel::Stdout, 0, b"one");
    assert_eq!((taken(&mut process, &mut other), process.log().held()), (3, 3));
    process.leave(&newest);
    assert_eq!(process.log().held(), 0);
    process.leave(&other);
    process.handle_output(Channel::Stdout, 0, b"two");
    assert_eq!((process.log().held(), process.log().end_offset()), (0, 106));
}
