//! What has to be true of a log and of its readers.

use super::{Op, Rare, Scenario, byte, bytes, check_bounds};
use crate::log::{
    Channel, CursorAhead, FRAME_MAX, Frame, Gap, GapReason, Item, Log, PACKET_MAX, Reader, Retention,
};
use std::collections::{BTreeMap, BTreeSet};

const MAX_READERS: usize = 4;

pub(super) struct Model {
    retention: Retention,
    replay: u64,
    log: Log,
    readers: Vec<Place>,
    /// The offset after the newest byte.
    end: u64,
    /// What was printed at once, by its first byte: where, and when.
    prints: BTreeMap<u64, (Channel, i64)>,
    clock: i64,
    /// Frames that a reader took, by seq: first byte, if it was taken from there, and end.
    frames: BTreeMap<u64, (Option<u64>, u64)>,
    /// Ends of frames that end there because a reader took them.
    sealed: BTreeSet<u64>,
    newest_seq: u64,
    ended: bool,
    abandoned: bool,
    /// What ends there or before was dropped.
    forgotten: u64,
    /// What never came.
    holes: Vec<Hole>,
}

/// Bytes that never came.
#[derive(Clone, Copy, Debug)]
struct Hole {
    from: u64,
    /// The byte and the frame that come next.
    to: u64,
    seq: u64,
    reason: GapReason,
}

/// A reader, and where it has to be.
struct Place {
    reader: Reader,
    offset: u64,
    /// The seq that comes next, where it is known.
    seq: Option<u64>,
    reading: bool,
    /// It came for what was gone: where its first gap begins, as seq and as offset.
    behind: Option<(Option<u64>, Option<u64>)>,
    /// Its first frame ends after this offset.
    ends_after: u64,
}

impl Place {
    fn at(reader: Reader, offset: u64) -> Self {
        Self { reader, offset, seq: None, reading: false, behind: None, ends_after: 0 }
    }

    fn has_next(&self, end: u64) -> bool {
        self.behind.is_some() || self.offset < end
    }
}

impl Model {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let mut log = Log::new(scenario.retention).replaying(scenario.replay);
        let reader = Reader::oldest(&mut log);
        Self {
            retention: scenario.retention,
            replay: scenario.replay,
            log,
            readers: vec![Place { seq: Some(1), ..Place::at(reader, 0) }],
            end: 0,
            prints: BTreeMap::new(),
            clock: 0,
            frames: BTreeMap::new(),
            sealed: BTreeSet::new(),
            newest_seq: 0,
            ended: false,
            abandoned: false,
            forgotten: 0,
            holes: Vec::new(),
        }
    }

    pub(super) fn apply(&mut self, op: &Op) {
        match *op {
            Op::Print(channel, len) => self.print(channel, len, false),
            Op::Frame(channel, len) => self.print(channel, len, true),
            Op::Skip(bytes, frames, known) => self.skip(bytes as u64, u64::from(frames), known),
            Op::Alternate(times) => {
                for _ in 0..times.min(600) {
                    self.print(Channel::Stdout, 1, false);
                    self.print(Channel::Stderr, 1, false);
                }
            }
            Op::Take(index, times) => {
                let index = usize::from(index) % self.readers.len();
                for _ in 0..times {
                    if !self.take(index) {
                        break;
                    }
                }
            }
            Op::Oldest => {
                let oldest = self.oldest();
                self.add(oldest);
            }
            Op::After(seq) => self.after(u64::from(seq) % (self.log.newest_seq() + 2)),
            Op::Newest => {
                let reader = Reader::newest(&mut self.log);
                assert_eq!(reader.seq(), self.log.newest_seq() + 1);
                self.sealed.insert(self.end);
                self.add(Place::at(reader, self.end));
            }
            Op::Tail(lines, max) => self.tail(u64::from(lines), max),
            Op::OldestKept => {
                let reader = Reader::oldest_kept(&self.log);
                let offset = self.log.start_offset();
                self.add(Place { ends_after: self.forgotten, ..Place::at(reader, offset) });
            }
            Op::Forget(back) => self.forget(self.end.saturating_sub(back as u64)),
            Op::At(offset) => self.at(u64::from(offset) % (self.end + 3)),
            Op::Near(back) => self.at(self.end.saturating_sub(back as u64)),
            Op::Rare(Rare::Nothing) => {}
            Op::Rare(Rare::End) => self.end(),
            Op::Rare(Rare::Abandon) => {
                self.log.abandon();
                self.abandoned = true;
                assert_eq!((self.log.held(), self.log.held_frames()), (0, 0));
            }
        }
    }

    /// Whole frames are dropped, and none that goes on after `offset`.
    fn forget(&mut self, offset: u64) {
        let start = self.log.start_offset();
        self.log.forget(offset);
        let now = self.log.start_offset();
        let next = self.hole_at(offset).map_or(offset, |hole| hole.to);
        assert!(start <= now && now <= start.max(next), "dropped from {start} to {now}, of {offset}");
        assert!(offset < self.end || self.log.held() == 0, "all was to be dropped");
        let dropped = self.frames.values().filter(|(_, end)| (now + 1..=offset).contains(end));
        assert_eq!(dropped.count(), 0, "kept from {now} on, of {offset}");
        if offset == self.end {
            self.sealed.insert(offset);
        }
        self.forgotten = self.forgotten.max(offset);
    }

    /// What is held stays, and the next frame is the one that was said.
    fn skip(&mut self, bytes: u64, frames: u64, known: bool) {
        let reason = if known { GapReason::Evicted } else { GapReason::Disconnected };
        // At least one.
        let (seq, held) = (self.log.newest_seq() + 1 + frames.max(1), self.log.held());
        self.log.skip_to(self.log.newest_seq() + 1 + frames, self.end + bytes, reason);
        if self.ended || bytes == 0 {
            return;
        }
        self.sealed.insert(self.end);
        let from = self.end;
        self.end += bytes;
        let hole = Hole { from, to: self.end, seq, reason };
        match self.holes.last_mut() {
            // One after the other is one.
            Some(last) if last.to == from => *last = Hole { from: last.from, ..hole },
            Some(_) | None => self.holes.push(hole),
        }
        assert_eq!((self.log.held(), self.log.newest_seq()), (held, seq - 1));
        // Neither goes back.
        self.log.skip_to(0, 0, reason);
        assert_eq!((self.log.newest_seq(), self.log.end_offset()), (seq - 1, self.end));
    }

    fn print(&mut self, channel: Channel, len: usize, frame: bool) {
        self.clock += 1;
        let (room, start) = (self.log.room(), self.log.start_offset());
        let data = bytes(self.end, len);
        let taken = if frame {
            self.sealed.insert(self.end);
            self.log.append_frame(channel, self.clock, &data)
        } else {
            self.log.append(channel, self.clock, &data)
        };
        assert_eq!(taken, len.min(room), "there was room for {room}");
        if self.ended {
            assert_eq!((taken, self.log.end_offset()), (len, self.end), "printed after the end");
            return;
        }
        if taken > 0 {
            self.prints.insert(self.end, (channel, self.clock));
            self.end += taken as u64;
        }
        if frame {
            self.sealed.insert(self.end);
        }
        if self.abandoned {
            assert_eq!(taken, len, "nobody reads, and it is slowed");
        } else if self.log.start_offset() != start {
            let Retention::Ring { bytes } = self.retention else { panic!("lost what was not read") };
            let full = self.log.held_frames() == self.retention.max_frames();
            assert!(self.log.held() >= bytes || full, "evicted to {}", self.log.held());
        }
    }

    fn add(&mut self, place: Place) -> usize {
        assert_eq!(place.reader.offset(), place.offset, "where a reader begins");
        let one = matches!(self.retention, Retention::UntilRead { .. });
        if one || self.readers.len() == MAX_READERS {
            self.readers.remove(0);
        }
        self.readers.push(place);
        self.readers.len() - 1
    }

    /// A reader at the first frame of those that hold the last bytes.
    fn oldest(&mut self) -> Place {
        let reader = Reader::oldest(&mut self.log);
        if self.replay == 0 {
            self.sealed.insert(self.end);
        }
        let (start, from) = (self.log.start_offset(), self.end.saturating_sub(self.replay));
        let offset = reader.offset();
        let next = self.hole_at(from).map_or(from, |hole| hole.to);
        assert!(
            start <= offset && offset <= start.max(next),
            "replayed from {offset}, of {start} and {from}"
        );
        Place { ends_after: from, ..Place::at(reader, offset) }
    }

    fn at(&mut self, offset: u64) {
        let oldest = self.oldest();
        match Reader::at_offset(&mut self.log, offset) {
            Ok(reader) if offset < oldest.offset => {
                self.add(Place { reader, behind: Some((None, Some(offset))), ..oldest });
            }
            Ok(reader) => {
                assert!(offset <= self.end, "{offset} is ahead of {}", self.end);
                self.add(Place::at(reader, offset));
            }
            Err(error) => {
                assert!(offset > self.end);
                assert_eq!(error, CursorAhead { asked: offset, newest: self.end });
            }
        }
    }

    fn after(&mut self, seq: u64) {
        let (oldest, newest) = (self.oldest(), self.log.newest_seq());
        match Reader::after_seq(&mut self.log, seq) {
            Ok(reader) if seq + 1 < oldest.reader.seq() => {
                self.add(Place { reader, behind: Some((Some(seq + 1), None)), ..oldest });
            }
            Ok(reader) => {
                assert_eq!(reader.seq(), seq + 1);
                let offset = reader.offset();
                if seq == newest {
                    self.sealed.insert(self.end);
                    assert_eq!(offset, self.end);
                }
                // What is dropped after that has no frames.
                if !self.abandoned
                    && let Some((_, end)) = self.frames.get(&seq)
                {
                    assert_eq!(offset, *end, "after frame {seq}");
                }
                self.add(Place { seq: Some(seq + 1), ..Place::at(reader, offset) });
            }
            Err(error) => {
                assert!(seq > newest);
                assert_eq!(error, CursorAhead { asked: seq, newest });
            }
        }
    }

    fn tail(&mut self, lines: u64, max: usize) {
        let oldest = self.oldest().offset;
        let reader = Reader::tail(&mut self.log, lines, max);
        self.sealed.insert(self.end);
        let offset = reader.offset();
        let len = |from: u64| self.end - from - self.missing_after(from);
        assert!(offset >= oldest && len(offset) <= max as u64, "{max} bytes of tail from {offset}");
        let begun = self.lines_begun(offset);
        assert!(begun >= lines || offset == oldest || len(oldest) > max as u64, "{begun} of {lines} lines");
        let index = self.add(Place::at(reader, offset));
        if self.take(index) {
            let place = &self.readers[index];
            assert!(self.lines_begun(place.offset) < lines, "more than {lines} lines");
        }
    }

    /// Lines that begin in the bytes from `offset` on, where the last one may have no end.
    fn lines_begun(&self, offset: u64) -> u64 {
        // The byte before it is one that came.
        let before = self.hole_at(offset.saturating_sub(1)).map_or(offset, |hole| hole.from);
        let all = before.saturating_sub(1)..self.end.saturating_sub(1);
        all.filter(|offset| byte(*offset) == b'\n' && self.hole_at(*offset).is_none()).count() as u64
    }

    /// The hole that a byte is in.
    fn hole_at(&self, offset: u64) -> Option<Hole> {
        self.holes.iter().copied().find(|hole| (hole.from..hole.to).contains(&offset))
    }

    /// How many bytes from one on never came.
    fn missing_after(&self, offset: u64) -> u64 {
        self.holes.iter().map(|hole| hole.to.max(offset) - hole.from.max(offset)).sum()
    }

    pub(super) fn end(&mut self) {
        self.log.end();
        self.ended = true;
        assert!(self.log.is_ended());
    }

    pub(super) fn read_out(&mut self) {
        for index in 0..self.readers.len() {
            while self.take(index) {}
            assert_eq!(self.readers[index].offset, self.end, "a reader stopped before the end");
        }
    }

    /// A reader takes what comes next. False where there is nothing.
    fn take(&mut self, index: usize) -> bool {
        let (start, held) = (self.log.start_offset(), self.log.held() as u64);
        let hole = self.hole_at(self.readers[index].offset);
        let place = &mut self.readers[index];
        assert_eq!(
            place.reader.has_next(&self.log),
            place.has_next(self.end),
            "has_next at {}",
            place.offset
        );
        assert_eq!(place.reader.is_behind(&self.log), place.offset < start);
        let item = place.reader.take(&mut self.log);
        match item {
            None => {
                assert_eq!(place.offset, self.end, "nothing comes, at {} of {}", place.offset, self.end);
            }
            Some(Item::Gap(gap)) => {
                match hole.filter(|_| place.behind.is_none() && place.offset >= start) {
                    Some(hole) => check_hole(place, gap, hole),
                    None => check_gap(place, gap, start, held, &self.holes),
                }
                (place.offset, place.seq, place.behind) = (gap.to_offset, Some(gap.to_seq), None);
                place.reading = true;
            }
            Some(Item::Frame(ref frame)) => self.check_frame(index, frame, start),
        }
        let place = &self.readers[index];
        assert_eq!(place.reader.offset(), place.offset);
        item.is_some()
    }

    fn check_frame(&mut self, index: usize, frame: &Frame, start: u64) {
        let place = &mut self.readers[index];
        assert!(place.offset >= start, "the bytes at {} are gone, and there was no gap", place.offset);
        assert_eq!(frame.offset, place.offset, "where it goes on");
        assert!(place.behind.is_none(), "it was not told what is gone");
        assert!(
            !self.holes.iter().any(|hole| hole.from < frame.end() && frame.offset < hole.to),
            "it has what never came"
        );
        assert!(frame.end() > place.ends_after, "more is replayed than whole frames of the last bytes");
        place.ends_after = 0;
        assert!((1..=FRAME_MAX).contains(&frame.data.len()), "a frame of {}", frame.data.len());
        assert!(frame.end() <= self.end);
        assert_eq!(frame.data, bytes(frame.offset, frame.data.len()), "the bytes at {}", frame.offset);
        if let Some(seq) = place.seq {
            assert_eq!(frame.seq, seq, "the frame that comes next");
        }
        // Whoever comes at the end of a frame, or goes on from one, has the next from its first byte.
        let whole = place.seq.is_some() || self.frames.values().any(|(_, end)| *end == frame.offset);
        let first = whole.then_some(frame.offset);
        let end = frame.end();
        let known = self.frames.entry(frame.seq).or_insert((first, end));
        assert_eq!(known.1, frame.end(), "where frame {} ends, for one reader and another", frame.seq);
        if let (Some(one), Some(other)) = (known.0, first) {
            assert_eq!(one, other, "where frame {} begins, for one reader and another", frame.seq);
        }
        known.0 = known.0.or(first);
        let first = known.0;
        self.check_prints(frame, first);
        if frame.end() == self.end {
            self.sealed.insert(self.end);
        }
        let place = &mut self.readers[index];
        (place.offset, place.seq, place.reading) = (frame.end(), Some(frame.seq + 1), true);
    }

    /// What is in a frame was printed on its channel, and what was printed there next is in it too while it grew.
    fn check_prints(&self, frame: &Frame, first: Option<u64>) {
        let at = |offset: u64| self.prints.range(..=offset).next_back().map(|(_, print)| *print);
        let inside = self.prints.range(frame.offset..frame.end()).map(|(_, (channel, _))| *channel);
        for channel in inside.chain(at(frame.offset).map(|(channel, _)| channel)) {
            assert_eq!(channel, frame.channel, "the channel of frame {}", frame.seq);
        }
        let Some(first) = first else { return };
        assert_eq!(Some(frame.ts_ms), at(first).map(|(_, ts)| ts), "when frame {} was read", frame.seq);
        let goes_on = frame.end() < self.end && at(frame.end()).is_some_and(|(c, _)| c == frame.channel);
        let full = frame.end() - first == FRAME_MAX as u64;
        assert!(!goes_on || full || self.sealed.contains(&frame.end()), "frame {} did not grow", frame.seq);
    }

    pub(super) fn check(&mut self) {
        let log = &self.log;
        assert_eq!(log.end_offset(), self.end);
        let start = log.start_offset();
        assert_eq!(start + log.held() as u64 + self.missing_after(start), self.end);
        assert!(log.newest_seq() >= self.newest_seq, "the newest seq went back");
        self.newest_seq = log.newest_seq();
        let (held, frames) = (log.held(), log.held_frames());
        check_bounds(log, self.retention);
        let room = match self.retention {
            _ if self.ended || self.abandoned => usize::MAX,
            Retention::Ring { .. } => usize::MAX,
            Retention::UntilRead { bytes } => {
                let room = (bytes - held).min((self.retention.max_frames() - frames) * FRAME_MAX);
                let holds_packets = bytes >= 2 * PACKET_MAX;
                room * usize::from(!holds_packets || room >= PACKET_MAX)
            }
        };
        assert_eq!(log.room(), room);
    }
}

/// What never came is a gap of its own, from where the reader is.
fn check_hole(place: &Place, gap: Gap, hole: Hole) {
    assert_eq!((gap.from_offset, gap.to_offset), (Some(place.offset), hole.to), "{gap:?}");
    assert_eq!((gap.to_seq, gap.reason), (hole.seq, hole.reason), "{gap:?}");
    assert!(place.seq.is_none_or(|seq| gap.from_seq == Some(seq)), "{gap:?}");
    assert!(gap.from_seq.is_none_or(|seq| seq <= gap.to_seq), "{gap:?}");
}

/// A gap is told exactly where something is gone, once, with its reason and its size.
fn check_gap(place: &Place, gap: Gap, start: u64, held: u64, holes: &[Hole]) {
    assert!(place.behind.is_some() || place.offset < start, "a gap where nothing is gone: {gap:?}");
    match place.behind {
        Some(from) => assert_eq!((gap.from_seq, gap.from_offset), from, "{gap:?}"),
        None => {
            assert_eq!(gap.from_offset, Some(place.offset), "{gap:?}");
            assert!(place.seq.is_none_or(|seq| gap.from_seq == Some(seq)), "{gap:?}");
        }
    }
    assert!(gap.to_offset >= start, "the gap ends where there is nothing: {gap:?}");
    let is_known = gap.reason != GapReason::Disconnected;
    assert_eq!(gap.bytes(), gap.from_offset.filter(|_| is_known).map(|from| gap.to_offset - from));
    assert!(gap.from_seq.is_none_or(|seq| gap.to_seq >= seq));
    // The last one before what is kept.
    let lost = holes.iter().rev().find(|hole| hole.to <= start);
    let is_lost = |hole: &&Hole| match (place.behind, gap.from_seq, gap.from_offset) {
        (None | Some((None, _)), _, Some(from)) => from < hole.to,
        (_, from, _) => from.is_some_and(|from| from < hole.seq),
    };
    let slowness = if place.reading { GapReason::SlowConsumer } else { GapReason::Evicted };
    let reason = lost.filter(is_lost).map_or(slowness, |hole| hole.reason);
    assert_eq!(gap.reason, reason, "{gap:?} with {lost:?} lost");
    if !place.reading || lost.is_some_and(|hole| hole.to == start) {
        assert_eq!(gap.to_offset, place.offset.max(start));
        return;
    }
    if held > 0 && holes.iter().all(|hole| hole.to <= start) {
        assert!(gap.to_offset < start + held, "what is kept was left out: {gap:?}");
        assert!(gap.to_offset <= start + held / 2 + FRAME_MAX as u64, "resumed past the middle: {gap:?}");
    }
}
