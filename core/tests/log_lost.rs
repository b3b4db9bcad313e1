//! A log whose output comes from another log, and may be lost on the way.

use bytes::Bytes;
use hangar_core::{
    Time,
    log::{Channel, Frame, Gap, GapReason, Item, Log, Reader, Retention},
    process::{Config, Process},
};

const RING: Retention = Retention::Ring { bytes: 100 };

fn frame(seq: u64, offset: u64, data: &'static [u8]) -> Option<Item> {
    Some(Item::Frame(Frame { seq, offset, channel: Channel::Stdout, ts_ms: 7, data: Bytes::from(data) }))
}

fn lost(from: (u64, u64), to: (u64, u64), reason: GapReason) -> Option<Item> {
    let (from_seq, from_offset) = (Some(from.0), Some(from.1));
    Some(Item::Gap(Gap { from_seq, to_seq: to.0, from_offset, to_offset: to.1, reason }))
}

#[test]
fn frames_stay_as_they_came() {
    let mut log = Log::new(RING);
    log.append(Channel::Stdout, 7, b"before");
    for data in [&b"one"[..], b"two", b""] {
        assert_eq!(log.append_frame(Channel::Stdout, 7, data), data.len());
    }
    log.append(Channel::Stdout, 7, b"after");
    let mut reader = Reader::oldest(&mut log);
    assert_eq!(reader.take(&mut log), frame(1, 0, b"before"));
    assert_eq!(reader.take(&mut log), frame(2, 6, b"one"));
    assert_eq!(reader.take(&mut log), frame(3, 9, b"two"));
    assert_eq!(reader.take(&mut log), frame(4, 12, b"after"));
}

#[test]
fn what_is_lost_is_told_once_to_each_reader() {
    let mut log = Log::new(RING);
    log.append_frame(Channel::Stdout, 7, b"12345");
    let (mut slow, mut quick) = (Reader::oldest(&mut log), Reader::newest(&mut log));
    log.skip_to(9, 50, GapReason::Disconnected);
    log.append_frame(Channel::Stdout, 7, b"after");
    // What was there before is still there.
    let mut first = Reader::oldest(&mut log);
    for reader in [&mut slow, &mut first] {
        assert_eq!(reader.take(&mut log), frame(1, 0, b"12345"));
    }
    for reader in [&mut slow, &mut first, &mut quick] {
        assert_eq!(reader.take(&mut log), lost((2, 5), (9, 50), GapReason::Disconnected));
    }
    for mut reader in [slow, quick, first] {
        assert_eq!(reader.take(&mut log), frame(9, 50, b"after"));
        assert_eq!(reader.take(&mut log), None);
    }
    let mut late = Reader::at_offset(&mut log, 49).unwrap();
    assert!(matches!(late.take(&mut log), Some(Item::Gap(gap)) if gap.reason == GapReason::Disconnected));
    let mut late = Reader::after_seq(&mut log, 7).unwrap();
    assert!(matches!(late.take(&mut log), Some(Item::Gap(gap)) if gap.reason == GapReason::Disconnected));
    let mut before = Reader::after_seq(&mut log, 1).unwrap();
    assert_eq!(before.take(&mut log), lost((2, 5), (9, 50), GapReason::Disconnected));
    let mut there = Reader::after_seq(&mut log, 8).unwrap();
    assert_eq!(there.take(&mut log), frame(9, 50, b"after"));
    // A character that was cut there is not made of what came after.
    assert!(Reader::at_offset(&mut log, 50).unwrap().decoder(&log, Channel::Stdout).is_empty());
}

#[test]
fn a_character_does_not_go_on_behind_what_is_lost() {
    let mut log = Log::new(RING);
    log.append_frame(Channel::Stdout, 7, b"a\xe2\x82");
    assert!(!Reader::newest(&mut log).decoder(&log, Channel::Stdout).is_empty());
    log.skip_to(2, 50, GapReason::Disconnected);
    assert!(Reader::newest(&mut log).decoder(&log, Channel::Stdout).is_empty());
    log.append_frame(Channel::Stdout, 7, b"\xe2");
    assert!(!Reader::newest(&mut log).decoder(&log, Channel::Stdout).is_empty());
}

#[test]
fn only_what_is_known_is_counted() {
    let gap =
        Gap { from_seq: None, to_seq: 2, from_offset: Some(3), to_offset: 10, reason: GapReason::Evicted };
    assert_eq!(gap.bytes(), Some(7));
    assert_eq!(Gap { reason: GapReason::SlowConsumer, ..gap }.bytes(), Some(7));
    for reason in [GapReason::Disconnected, GapReason::Adopted] {
        assert_eq!(Gap { reason, ..gap }.bytes(), None, "{}", reason.name());
    }
}

#[test]
fn a_reader_is_slow_only_where_nothing_else_was_to_blame() {
    let mut log = Log::new(Retention::Ring { bytes: 4 });
    let mut reader = Reader::oldest(&mut log);
    log.append_frame(Channel::Stdout, 7, b"a");
    reader.take(&mut log);
    log.skip_to(5, 20, GapReason::Evicted);
    for data in [b"bcde", b"fghi"] {
        log.append_frame(Channel::Stdout, 7, data);
    }
    // More was evicted here after it.
    assert_eq!(reader.take(&mut log), lost((2, 1), (6, 24), GapReason::Evicted));
    assert_eq!(reader.take(&mut log), frame(6, 24, b"fghi"));
    for data in [b"jklm", b"nopq"] {
        log.append_frame(Channel::Stdout, 7, data);
    }
    assert_eq!(reader.take(&mut log), lost((7, 28), (8, 32), GapReason::SlowConsumer));
}

#[test]
fn nothing_goes_back_and_nothing_follows_the_end() {
    let mut log = Log::new(RING);
    log.append_frame(Channel::Stdout, 7, b"12345");
    log.skip_to(40, 5, GapReason::Evicted);
    assert_eq!((log.newest_seq(), log.end_offset(), log.held()), (1, 5, 5), "nothing was lost");
    log.skip_to(0, 6, GapReason::Evicted);
    // It was a frame at least.
    assert_eq!((log.newest_seq(), log.end_offset(), log.held()), (2, 6, 5));
    log.end();
    log.skip_to(7, 10, GapReason::Evicted);
    assert_eq!((log.newest_seq(), log.end_offset()), (2, 6));
}

#[test]
fn a_process_has_its_log_from_elsewhere() {
    let mut process = Process::new(Config { retention: RING, ..Config::default() }, Time::ZERO);
    process.handle_started(Some(7));
    process.handle_output_lost(12, 1000, GapReason::Adopted);
    assert_eq!(process.handle_frame(Channel::Stdout, 7, b"on"), 2);
    let mut reader = Reader::oldest(process.log_mut());
    assert_eq!(reader.take(process.log_mut()), frame(12, 1000, b"on"));
    process.handle_end_of_output();
    assert_eq!((process.handle_frame(Channel::Stdout, 7, b"late"), process.log().end_offset()), (4, 1002));
}

#[test]
fn one_that_is_taken_over_goes_on_where_it_was() {
    let mut log = Log::new(RING);
    // Of before, two frames are kept, and the second had this number.
    log.begin_at(99, 3, 100);
    log.append_frame(Channel::Stdout, 7, b"old");
    log.append_frame(Channel::Stdout, 7, b"last");
    log.begin_at(300, 9, 300);
    let mut reader = Reader::at_offset(&mut log, 4).unwrap();
    assert_eq!(reader.take(&mut log), frame(99, 4, b"ld"));
    let mut reader = Reader::after_seq(&mut log, 99).unwrap();
    assert_eq!(reader.take(&mut log), frame(100, 6, b"last"));
    // The numbers below mean nothing any more, although a frame has one of them.
    for before in [7, 98] {
        let mut reader = Reader::after_seq(&mut log, before).unwrap();
        let Some(Item::Gap(gap)) = reader.take(&mut log) else { panic!("a gap comes first") };
        assert_eq!((gap.from_seq, gap.to_seq, gap.to_offset), (Some(before + 1), 99, 3));
        assert_eq!((gap.reason, gap.bytes()), (GapReason::Adopted, None));
        assert_eq!(reader.take(&mut log), frame(99, 3, b"old"));
    }
    assert_eq!((Reader::after_seq(&mut log, 100).unwrap().take(&mut log), log.newest_seq()), (None, 100));
}
