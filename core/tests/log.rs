//! What a log keeps and what its readers get, by value.

use bytes::Bytes;
use hangar_core::{
    log::{Channel, CursorAhead, FRAME_MAX, Frame, Gap, GapReason, Item, Log, PACKET_MAX, Reader, Retention},
    text::Decoder,
};

fn ring(bytes: usize) -> Log {
    Log::new(Retention::Ring { bytes })
}

/// Prints pieces on one channel and another in turn, so that each is a frame.
fn print(log: &mut Log, pieces: &[&str]) {
    for piece in pieces {
        let channel = if log.newest_seq().is_multiple_of(2) { Channel::Stdout } else { Channel::Stderr };
        assert_eq!(log.append(channel, 7, piece.as_bytes()), piece.len());
    }
}

fn frame(item: Option<Item>) -> Frame {
    match item {
        Some(Item::Frame(frame)) => frame,
        other => panic!("no frame: {other:?}"),
    }
}

fn text(item: Option<Item>) -> String {
    String::from_utf8(frame(item).data.to_vec()).expect("text")
}

fn gap(item: Option<Item>) -> Gap {
    match item {
        Some(Item::Gap(gap)) => gap,
        other => panic!("no gap: {other:?}"),
    }
}

#[test]
fn the_newest_frame_grows_until_it_is_taken() {
    let mut log = ring(100);
    let mut reader = Reader::oldest(&mut log);
    log.append(Channel::Stdout, 5, b"one ");
    log.append(Channel::Stdout, 6, b"and one");
    let data = Bytes::from_static(b"one and one");
    let expected = Frame { seq: 1, offset: 0, channel: Channel::Stdout, ts_ms: 5, data };
    assert_eq!((log.newest_seq(), log.held_frames(), expected.end()), (1, 1, 11));
    assert_eq!(reader.take(&mut log), Some(Item::Frame(expected)));
    assert_eq!(reader.take(&mut log), None);
    log.append(Channel::Stdout, 8, b"another");
    let data = Bytes::from_static(b"another");
    let expected = Frame { seq: 2, offset: 11, channel: Channel::Stdout, ts_ms: 8, data };
    assert_eq!(reader.take(&mut log), Some(Item::Frame(expected)));
    assert_eq!((log.newest_seq(), reader.offset(), log.end_offset(), log.start_offset()), (2, 18, 18, 0));
}

#[test]
fn a_frame_is_at_most_32_kib() {
    let mut log = ring(1 << 20);
    let mut reader = Reader::oldest(&mut log);
    log.append(Channel::Tty, 0, &vec![b'x'; 2 * FRAME_MAX + 1]);
    let lengths = [(); 3].map(|()| frame(reader.take(&mut log)).data.len());
    assert_eq!(lengths, [32_768, 32_768, 1]);
}

#[test]
fn whole_frames_are_evicted_while_enough_stays() {
    let mut log = ring(8);
    print(&mut log, &["1234", "5678", "9"]);
    assert_eq!((log.start_offset(), log.held()), (0, 9));
    print(&mut log, &["abc"]);
    assert_eq!((log.start_offset(), log.held(), log.held_frames()), (4, 8, 3));
}

#[test]
fn frames_are_bounded_as_well() {
    assert_eq!(Retention::Ring { bytes: 256 * 1024 }.max_frames(), 32_768);
    assert_eq!(Retention::UntilRead { bytes: 1 }.max_frames(), 16);
    let mut log = ring(0);
    print(&mut log, &["a"; 100]);
    assert_eq!((log.held_frames(), log.held()), (1, 1));
    let mut log = ring(64);
    print(&mut log, &["a"; 100]);
    assert_eq!((log.held_frames(), log.held()), (16, 16));
    let mut log = Log::new(Retention::UntilRead { bytes: 64 });
    print(&mut log, &["a"; 16]);
    assert_eq!((log.held_frames(), log.room(), log.append(Channel::Tty, 0, b"more")), (16, 0, 0));
    assert_eq!(text(Reader::oldest(&mut log).take(&mut log)), "a");
    assert_eq!(log.room(), 64 - 15);
}

#[test]
fn there_is_room_for_a_packet_or_none() {
    let mut log = Log::new(Retention::UntilRead { bytes: 2 * PACKET_MAX });
    log.append(Channel::Stdout, 0, &[b'a'; PACKET_MAX]);
    assert_eq!(log.room(), PACKET_MAX);
    log.append(Channel::Stderr, 0, b"b");
    assert_eq!((log.room(), log.append(Channel::Stderr, 0, b"c")), (0, 0));
    assert_eq!(frame(Reader::oldest(&mut log).take(&mut log)).data.len(), PACKET_MAX);
    assert_eq!(log.room(), 2 * PACKET_MAX - 1);
}

#[test]
fn a_reader_that_comes_late_goes_on_at_the_oldest_output() {
    let mut log = ring(8);
    print(&mut log, &["1234", "5678", "9abc", "def"]);
    let mut reader = Reader::at_offset(&mut log, 2).unwrap();
    let expected =
        Gap { from_seq: None, to_seq: 2, from_offset: Some(2), to_offset: 4, reason: GapReason::Evicted };
    assert_eq!(
        (gap(reader.take(&mut log)), expected.bytes(), expected.reason.name()),
        (expected, Some(2), "evicted")
    );
    assert_eq!([(); 3].map(|()| text(reader.take(&mut log))), ["5678", "9abc", "def"]);
    assert_eq!(reader.take(&mut log), None);
}

#[test]
fn a_reader_that_was_too_slow_goes_on_in_the_middle() {
    let mut log = ring(8);
    let mut reader = Reader::oldest(&mut log);
    print(&mut log, &["1"]);
    assert_eq!(text(reader.take(&mut log)), "1");
    print(&mut log, &["234", "56", "78", "9a", "bc", "d"]);
    assert_eq!((log.start_offset(), log.held()), (4, 9));
    let expected = Gap {
        from_seq: Some(2),
        to_seq: 5,
        from_offset: Some(1),
        to_offset: 8,
        reason: GapReason::SlowConsumer,
    };
    assert_eq!((gap(reader.take(&mut log)), expected.reason.name()), (expected, "slow_consumer"));
    assert_eq!([(); 3].map(|()| text(reader.take(&mut log))), ["9a", "bc", "d"]);
}

#[test]
fn the_newest_frame_is_never_left_out() {
    for taken in [false, true] {
        let mut log = ring(4);
        let mut slow = Reader::oldest(&mut log);
        print(&mut log, &["1"]);
        slow.take(&mut log);
        print(&mut log, &["2", "34567890"]);
        if taken {
            Reader::at_offset(&mut log, 10).unwrap().take(&mut log);
            assert_eq!(text(Reader::oldest(&mut log).take(&mut log)), "34567890");
        }
        assert_eq!((log.start_offset(), log.held_frames()), (2, 1));
        let gap = gap(slow.take(&mut log));
        assert_eq!((gap.from_seq, gap.to_seq, gap.from_offset, gap.to_offset), (Some(2), 3, Some(1), 2));
        assert_eq!(text(slow.take(&mut log)), "34567890");
    }
}

#[test]
fn a_reader_comes_back_by_the_number_of_its_last_frame() {
    let mut log = ring(8);
    print(&mut log, &["1234", "5678", "9abc", "def"]);
    assert_eq!(text(Reader::after_seq(&mut log, 2).unwrap().take(&mut log)), "9abc");
    assert_eq!(text(Reader::after_seq(&mut log, 3).unwrap().take(&mut log)), "def");
    let mut late = Reader::after_seq(&mut log, 0).unwrap();
    assert!(late.has_next(&log) && !late.is_behind(&log));
    let expected =
        Gap { from_seq: Some(1), to_seq: 2, from_offset: None, to_offset: 4, reason: GapReason::Evicted };
    assert_eq!((gap(late.take(&mut log)), expected.bytes()), (expected, None));
    assert_eq!(text(late.take(&mut log)), "5678");
    let error = Reader::after_seq(&mut log, 5).unwrap_err();
    assert_eq!(error, CursorAhead { asked: 5, newest: 4 });
    // What is printed next is not in a frame that it says it has.
    let mut newest = Reader::after_seq(&mut log, 4).unwrap();
    assert_eq!(newest.take(&mut log), None);
    print(&mut log, &["g"]);
    assert_eq!((newest.seq(), frame(newest.take(&mut log)).seq), (5, 5));
}

#[test]
fn what_is_replayed_may_be_less_than_what_is_kept() {
    let pieces = ["1234", "5678", "9abc", "def"];
    for (replay, first) in
        [(0, None), (1, Some("def")), (3, Some("def")), (4, Some("9abc")), (99, Some("1234"))]
    {
        let mut log = ring(100).replaying(replay);
        let mut there = Reader::oldest(&mut log);
        print(&mut log, &pieces);
        let item = Reader::oldest(&mut log).take(&mut log);
        assert_eq!(item.map(|item| text(Some(item))).as_deref(), first, "{replay}");
        let mut cut = Reader::at_offset(&mut log, 1).unwrap();
        assert_eq!(matches!(cut.take(&mut log), Some(Item::Gap(_))), replay != 99, "{replay}");
        assert_eq!([(); 4].map(|()| text(there.take(&mut log))), pieces, "for a reader that is there");
    }
}

#[test]
fn the_last_lines_begin_at_a_frame() {
    let mut log = ring(100);
    print(&mut log, &["a\n", "b\nc\n", "d", "e\n", "f\ng"]);
    let mut tail = |lines, max| text(Reader::tail(&mut log, lines, max).take(&mut log));
    let begin = ["f\ng", "f\ng", "d", "b\nc\n", "b\nc\n", "a\n", "a\n"];
    assert_eq!([1, 2, 3, 4, 5, 6, 99].map(|lines| tail(lines, 100)), begin);
    assert_eq!((tail(9, 6).as_str(), tail(9, 3).as_str()), ("d", "f\ng"));
    // A newline at the very end begins no line.
    print(&mut log, &["h\n"]);
    assert_eq!([1, 2].map(|lines| text(Reader::tail(&mut log, lines, 100).take(&mut log))), ["f\ng", "f\ng"]);
    assert_eq!(Reader::tail(&mut log, 0, 100).take(&mut log), None);
    assert_eq!(
        (
            text(Reader::tail(&mut log, 9, 2).take(&mut log)).as_str(),
            Reader::tail(&mut log, 9, 1).take(&mut log)
        ),
        ("h\n", None)
    );
}

#[test]
fn a_reader_may_come_anywhere() {
    let mut log = ring(100);
    print(&mut log, &["one", "two", "three"]);
    for offset in 0..=11 {
        let mut reader = Reader::at_offset(&mut log, offset).unwrap();
        let mut rest = String::new();
        while reader.has_next(&log) {
            rest += &text(reader.take(&mut log));
        }
        assert_eq!(rest, "onetwothree"[offset as usize..]);
    }
    let error = Reader::at_offset(&mut log, 12).unwrap_err();
    assert_eq!(error, CursorAhead { asked: 12, newest: 11 });
    assert_eq!(error.to_string(), "the cursor 12 is ahead of the newest output, 11");
}

#[test]
fn a_cursor_outlives_the_frame_it_came_to() {
    // It comes at the end of the newest frame, which grows no further and is evicted.
    let mut log = ring(4);
    print(&mut log, &["1234"]);
    let mut reader = Reader::at_offset(&mut log, 4).unwrap();
    print(&mut log, &["5678"]);
    assert_eq!(log.start_offset(), 4);
    assert_eq!(text(reader.take(&mut log)), "5678");
    // Or it is kept, behind another one.
    let mut log = ring(100);
    print(&mut log, &["12", "34"]);
    let mut reader = Reader::at_offset(&mut log, 4).unwrap();
    print(&mut log, &["56"]);
    assert_eq!((text(reader.take(&mut log)), reader.take(&mut log)), ("56".to_owned(), None));
    // And where that frame grows on, the reader has the rest of it.
    let mut log = ring(4);
    print(&mut log, &["1234"]);
    let mut reader = Reader::at_offset(&mut log, 4).unwrap();
    log.append(Channel::Stdout, 0, b"5");
    let rest = frame(reader.take(&mut log));
    assert_eq!((rest.seq, rest.offset, &rest.data[..]), (1, 4, &b"5"[..]));
}

#[test]
fn what_is_kept_until_read_can_be_read_from_a_cursor() {
    let mut log = Log::new(Retention::UntilRead { bytes: 100 });
    print(&mut log, &["one", "two", "three"]);
    let mut reader = Reader::at_offset(&mut log, 4).unwrap();
    assert_eq!([(); 2].map(|()| text(reader.take(&mut log))), ["wo", "three"]);
    assert_eq!((reader.take(&mut log), log.held()), (None, 0));
}

#[test]
fn readers_do_not_notice_each_other() {
    let mut log = ring(1000);
    let (mut quick, mut slow) = (Reader::oldest(&mut log), Reader::oldest(&mut log));
    for piece in ["a", "bc", "def"] {
        log.append(Channel::Stdout, 0, piece.as_bytes());
        assert_eq!(text(quick.take(&mut log)), piece);
    }
    assert_eq!([(); 3].map(|()| text(slow.take(&mut log))), ["a", "bc", "def"]);
}

#[test]
fn an_abandoned_log_slows_nobody_and_its_numbers_go_on() {
    let mut log = Log::new(Retention::UntilRead { bytes: 4 });
    assert_eq!((log.append(Channel::Stdout, 0, b"123456"), log.room()), (4, 0));
    assert_eq!((log.append(Channel::Stdout, 0, b"56"), log.newest_seq()), (0, 1));
    log.abandon();
    assert_eq!((log.newest_seq(), log.held(), log.room(), log.end_offset()), (1, 0, usize::MAX, 4));
    assert_eq!((log.append(Channel::Stdout, 0, b"56"), log.end_offset(), log.is_ended()), (2, 6, false));
    log.end();
    assert_eq!((log.append(Channel::Stdout, 0, b"78"), log.end_offset(), log.is_ended()), (2, 6, true));
    log.abandon();
    assert!(log.is_ended());
}

#[test]
fn a_resumed_reader_knows_the_character_it_comes_into() {
    for taken in [false, true] {
        let mut log = ring(100);
        log.append(Channel::Stdout, 0, b"5 \xe2\x82");
        if taken {
            Reader::oldest(&mut log).take(&mut log);
        }
        log.append(Channel::Stderr, 0, b"\xf0");
        let mut reader = Reader::at_offset(&mut log, 5).unwrap();
        let mut stdout = reader.decoder(&log, Channel::Stdout);
        assert_eq!(reader.decoder(&log, Channel::Stderr), Decoder::after(b"\xf0"));
        assert!(reader.decoder(&log, Channel::Tty).is_empty());
        log.append(Channel::Stdout, 0, b"\xac");
        let frame = frame(reader.take(&mut log));
        assert_eq!(stdout.push(frame.data).pieces().collect::<String>(), "€");
        // From before it, it is not known.
        assert!(Reader::at_offset(&mut log, 2).unwrap().decoder(&log, Channel::Stdout).is_empty());
    }
}

#[test]
fn output_without_a_line_end_flows_in_flat_memory() {
    let mut log = Log::new(Retention::UntilRead { bytes: 64 * 1024 });
    let mut reader = Reader::oldest(&mut log);
    let (mut read, block) = (0, [b'x'; 8192]);
    for _ in 0..2048 {
        assert_eq!(log.append(Channel::Stdout, 0, &block), block.len());
        read += frame(reader.take(&mut log)).data.len();
        assert_eq!(log.held(), 0);
    }
    assert_eq!(read, 16 << 20);
}

#[test]
fn channels_have_the_names_and_numbers_of_the_protocol() {
    let names =
        [Channel::Stdout, Channel::Stderr, Channel::Tty].map(|channel| (channel as u8, channel.name()));
    assert_eq!(names, [(1, "stdout"), (2, "stderr"), (3, "tty")]);
}
