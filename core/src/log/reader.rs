//! A cursor into a log.

use super::{Channel, Frame, Log, Lost, Retention};
use crate::text::Decoder;
use serde::{Deserialize, Serialize};

/// What a reader gets next.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Item {
    /// Output.
    Frame(Frame),
    /// Output that is no longer there. What follows goes on at its end.
    Gap(Gap),
}

/// A hole in what a reader gets, with its size and its reason.
///
/// Where it begins is known as the reader's cursor was given: to a reader that came by offset the frames of what is gone
/// have no numbers any more, and to one that came by seq its bytes have none. A reader that was there knows both.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Gap {
    /// The first frame that is missing, in whole or in part.
    pub from_seq: Option<u64>,
    /// The frame that comes next.
    pub to_seq: u64,
    /// The first byte that is missing.
    pub from_offset: Option<u64>,
    /// The byte that comes next.
    pub to_offset: u64,
    /// Why it is gone.
    pub reason: GapReason,
}

impl Gap {
    /// How many bytes are missing, where that is known.
    pub fn bytes(&self) -> Option<u64> {
        let is_known = matches!(self.reason, GapReason::Evicted | GapReason::SlowConsumer);
        self.from_offset.filter(|_| is_known).map(|from| self.to_offset - from)
    }
}

/// Why output is gone.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GapReason {
    /// It was older than what is kept when the reader came.
    Evicted,
    /// The reader was there, and slower than the process.
    SlowConsumer,
    /// It was printed while the sandbox could not be reached, and nobody kept it there. How much is not known.
    Disconnected,
    /// It was printed before this server knew the process. How much is not known.
    Adopted,
}

impl GapReason {
    /// `evicted`, `slow_consumer`, `disconnected` or `adopted`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Evicted => "evicted",
            Self::SlowConsumer => "slow_consumer",
            Self::Disconnected => "disconnected",
            Self::Adopted => "adopted",
        }
    }
}

/// A cursor above the newest output.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the cursor {asked} is ahead of the newest output, {newest}")]
pub struct CursorAhead {
    /// What was asked for.
    pub asked: u64,
    /// The highest cursor there is.
    pub newest: u64,
}

/// A place in a log, and the way on from it.
///
/// Each retained frame is given exactly once, each loss is one gap of the right size, and readers do not affect each
/// other. A log that keeps until read has one reader, whose frames leave the log as it takes them.
#[derive(Clone, Debug)]
pub struct Reader {
    /// The frame that comes next; the one that holds `offset`.
    seq: u64,
    /// The byte that comes next.
    offset: u64,
    /// Whether something was given already: a loss after that is the reader's own slowness.
    reading: bool,
    /// It came for output that was gone already, which it is still to be told.
    behind: Option<Behind>,
}

/// What a reader came for, as it was asked for.
#[derive(Clone, Copy, Debug)]
enum Behind {
    Seq(u64),
    Offset(u64),
}

impl Reader {
    const fn at(seq: u64, offset: u64) -> Self {
        Self { seq, offset, reading: false, behind: None }
    }

    /// At the frame with this index among the sealed ones and the growing one, or at the end.
    fn at_index(log: &Log, index: usize) -> Self {
        let growing = || (log.next_seq, log.growing.as_ref().map_or(log.next_offset, |frame| frame.offset));
        let (seq, offset) = log.frames.get(index).map_or_else(growing, |frame| (frame.seq, frame.offset));
        Self::at(seq, offset)
    }

    /// At the oldest output that is kept, whatever is replayed: for a reader that is there from the start.
    pub fn oldest_kept(log: &Log) -> Self {
        Self::at_index(log, 0)
    }

    /// At the oldest output that is [replayed](Log::replaying).
    pub fn oldest(log: &mut Log) -> Self {
        let index = log.replayed();
        Self::at_index(log, index)
    }

    /// After the newest output: at what comes next.
    pub fn newest(log: &mut Log) -> Self {
        // What is printed next must not join a frame that this reader does not get.
        log.seal();
        Self::at_index(log, log.frames.len())
    }

    /// At a byte, which may be inside a frame or already gone.
    pub fn at_offset(log: &mut Log, offset: u64) -> Result<Self, CursorAhead> {
        let newest = log.end_offset();
        if offset > newest {
            return Err(CursorAhead { asked: offset, newest });
        }
        let oldest = Self::oldest(log);
        if offset < oldest.offset {
            return Ok(Self { behind: Some(Behind::Offset(offset)), ..oldest });
        }
        let index = log.frames.partition_point(|frame| frame.end() <= offset);
        Ok(Self { offset, ..Self::at_index(log, index) })
    }

    /// After a frame, which may be already gone; at the first byte for 0.
    pub fn after_seq(log: &mut Log, seq: u64) -> Result<Self, CursorAhead> {
        let newest = log.newest_seq();
        if seq > newest {
            return Err(CursorAhead { asked: seq, newest });
        }
        if seq == newest {
            return Ok(Self::newest(log));
        }
        let (next, oldest) = (seq + 1, Self::oldest(log));
        if next < oldest.seq.max(log.known_seq) {
            return Ok(Self { behind: Some(Behind::Seq(next)), ..oldest });
        }
        let index = log.frames.partition_point(|frame| frame.seq < next);
        let reader = Self::at_index(log, index);
        match index.checked_sub(1).and_then(|before| log.frames.get(before)) {
            // Whatever was lost comes after the frame.
            Some(before) if next < reader.seq || before.seq + 1 == next => {
                Ok(Self { seq: next, offset: before.end(), ..reader })
            }
            Some(_) | None => Ok(reader),
        }
    }

    /// At the frame in which the last `lines` lines begin, or at a later one where those are more than `max_bytes`. A
    /// line that is not ended yet is one; with no lines it is the end.
    pub fn tail(log: &mut Log, lines: u64, max_bytes: usize) -> Self {
        // What is given by lines is given by whole frames.
        log.seal();
        let (mut bytes, mut begun) = (0, 0);
        let mut index = log.frames.len();
        let oldest = log.replayed();
        for frame in log.frames.range(oldest..).rev() {
            bytes += frame.data.len();
            // A line begins after each newline but the very last byte.
            let (last, rest) = frame.data.split_last().unwrap_or((&0, &[]));
            begun += u64::from(*last == b'\n' && frame.end() < log.next_offset);
            if begun >= lines || bytes > max_bytes {
                break;
            }
            index -= 1;
            begun += memchr::memchr_iter(b'\n', rest).count() as u64;
        }
        Self::at_index(log, index)
    }

    /// The number of the frame that comes next, or that holds the byte that does.
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// The offset of the byte that comes next: what a client resumes with.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether there is something to take now.
    pub fn has_next(&self, log: &Log) -> bool {
        self.behind.is_some() || self.offset < log.end_offset()
    }

    /// Whether it came for output that was gone already, which it is still to be told.
    pub const fn is_late(&self) -> bool {
        self.behind.is_some()
    }

    /// Whether what comes next is gone.
    pub fn is_behind(&self, log: &Log) -> bool {
        self.offset < log.start_offset()
    }

    /// What comes next, if it is there. Taking the newest frame ends its growth.
    pub fn take(&mut self, log: &mut Log) -> Option<Item> {
        if let Some(gap) = self.skip(log) {
            return Some(Item::Gap(gap));
        }
        if !self.has_next(log) {
            return None;
        }
        let frame = match log.retention {
            Retention::UntilRead { .. } => loop {
                let frame = log.pop()?;
                // One that came at a cursor leaves out what is before it.
                if frame.end() > self.offset {
                    break frame;
                }
            },
            Retention::Ring { .. } => {
                // Frames are in the order of their numbers, and most have the one that is expected. A cursor at the end of
                // the newest frame has its number, and that frame may be gone by now.
                let index = usize::try_from(self.seq.saturating_sub(log.oldest_seq())).ok()?;
                let holds = |frame: &Frame| (frame.offset..frame.end()).contains(&self.offset);
                let index = if log.frames.get(index).is_some_and(holds) {
                    index
                } else {
                    log.frames.partition_point(|frame| frame.end() <= self.offset)
                };
                if index == log.frames.len() {
                    log.seal();
                }
                log.frames.get(index)?.clone()
            }
        };
        let skipped = usize::try_from(self.offset.saturating_sub(frame.offset)).unwrap_or(0);
        let frame =
            Frame { offset: frame.offset + skipped as u64, data: frame.data.slice(skipped..), ..frame };
        self.seq = frame.seq + 1;
        self.offset = frame.end();
        self.reading = true;
        Some(Item::Frame(frame))
    }

    /// A decoder for one channel that knows the start of a character just before the cursor: text resumed there
    /// equals text that was never cut, as far back as the output is kept.
    pub fn decoder(&self, log: &Log, channel: Channel) -> Decoder {
        let mut before = [0; 3];
        let mut free = before.len();
        // No character goes on behind a hole.
        let hole =
            log.holes.iter().rev().find(|hole| hole.offset <= self.offset).map_or(0, |hole| hole.offset);
        let growing = log.growing.as_ref().map(|frame| (frame.channel, frame.offset, &log.block[..]));
        let sealed = log.frames.iter().rev().map(|frame| (frame.channel, frame.offset, &frame.data[..]));
        for (_, offset, data) in
            growing.into_iter().chain(sealed).filter(|(printed, at, _)| *printed == channel && *at >= hole)
        {
            let len = usize::try_from(self.offset.saturating_sub(offset))
                .map_or(data.len(), |len| len.min(data.len()));
            let piece = &data[len.saturating_sub(free)..len];
            before[free - piece.len()..free].copy_from_slice(piece);
            free -= piece.len();
            if free == 0 {
                break;
            }
        }
        Decoder::after(&before[free..])
    }

    /// Jumps over what is gone. A reader that comes late goes on at the oldest output; one that was too slow goes on
    /// in the middle of what is kept, so that it does not lose the next frame at once again.
    fn skip(&mut self, log: &Log) -> Option<Gap> {
        let start = log.start_offset();
        let behind = self.behind.take();
        if self.offset >= start && behind.is_none() {
            return self.skip_hole(log);
        }
        let (from_seq, from_offset) = match behind {
            None => (Some(self.seq), Some(self.offset)),
            Some(Behind::Seq(seq)) => (Some(seq), None),
            Some(Behind::Offset(offset)) => (None, Some(offset)),
        };
        let is_slow = self.reading && log.lost.is_none_or(|lost| lost.offset < start);
        let before = |lost: &Lost| match behind {
            None => self.offset < lost.offset,
            Some(Behind::Seq(seq)) => seq < lost.seq,
            Some(Behind::Offset(offset)) => offset < lost.offset,
        };
        let reason = match log.lost.filter(before) {
            Some(lost) => lost.reason,
            None if self.reading => GapReason::SlowConsumer,
            None => GapReason::Evicted,
        };
        if self.offset < start {
            let wanted = if is_slow { start + log.held() as u64 / 2 } else { start };
            // Where no frame begins after that, the newest one is still there.
            let newest = log.held_frames().saturating_sub(1);
            let index = log.frames.partition_point(|frame| frame.offset < wanted).min(newest);
            let next = Self::at_index(log, index);
            (self.seq, self.offset) = (next.seq, next.offset);
        }
        self.reading = true;
        Some(Gap { from_seq, to_seq: self.seq, from_offset, to_offset: self.offset, reason })
    }

    /// Jumps over what never came, among what is kept.
    fn skip_hole(&mut self, log: &Log) -> Option<Gap> {
        let hole = log.holes.iter().find(|hole| hole.offset > self.offset)?;
        let (to_seq, to_offset) = log.next_from(self.offset);
        if to_offset <= self.offset {
            return None;
        }
        let (from_seq, from_offset) = (Some(self.seq.min(to_seq)), Some(self.offset));
        (self.seq, self.offset, self.reading) = (to_seq, to_offset, true);
        Some(Gap { from_seq, to_seq, from_offset, to_offset, reason: hole.reason })
    }
}
