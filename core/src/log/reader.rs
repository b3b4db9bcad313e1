//! A cursor into a log.

use super::{Channel, Frame, Log, Retention};
use crate::text::Decoder;

/// What a reader gets next.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Item {
    /// Output.
    Frame(Frame),
    /// Output that is no longer there. What follows goes on at its end.
    Gap(Gap),
}

/// A hole in what a reader gets, with its size and its reason.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Gap {
    /// The first frame that is missing, in whole or in part.
    pub from_seq: u64,
    /// The frame that comes next.
    pub to_seq: u64,
    /// The first byte that is missing.
    pub from_offset: u64,
    /// The byte that comes next.
    pub to_offset: u64,
    /// Why it is gone.
    pub reason: GapReason,
}

impl Gap {
    /// How many bytes are missing.
    pub const fn bytes(&self) -> u64 {
        self.to_offset - self.from_offset
    }
}

/// Why output is gone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GapReason {
    /// It was older than what is kept when the reader came.
    Evicted,
    /// The reader was there, and slower than the process.
    SlowConsumer,
}

impl GapReason {
    /// `evicted` or `slow_consumer`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Evicted => "evicted",
            Self::SlowConsumer => "slow_consumer",
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
}

impl Reader {
    /// At the oldest output that is kept.
    pub fn oldest(log: &Log) -> Self {
        Self { seq: log.oldest_seq(), offset: log.start_offset(), reading: false }
    }

    /// At a byte, which may be inside a frame or already gone.
    pub fn at_offset(log: &Log, offset: u64) -> Result<Self, CursorAhead> {
        let newest = log.end_offset();
        if offset > newest {
            return Err(CursorAhead { asked: offset, newest });
        }
        let index = log.frames.partition_point(|frame| frame.end() <= offset);
        Ok(Self { seq: log.oldest_seq() + index as u64, offset, reading: false })
    }

    /// The offset of the byte that comes next: what a client resumes with.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether there is something to take now.
    pub fn has_next(&self, log: &Log) -> bool {
        self.offset < log.end_offset()
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
                // A cursor at the end of the newest frame has its number, and that frame may be gone by now.
                let mut index = usize::try_from(self.seq.saturating_sub(log.oldest_seq())).ok()?;
                if log.frames.get(index).is_some_and(|frame| frame.end() <= self.offset) {
                    // The cursor was at the end of a frame that grew no further.
                    index += 1;
                }
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
        let growing = log.growing.as_ref().map(|frame| (frame.channel, frame.offset, &log.block[..]));
        let sealed = log.frames.iter().rev().map(|frame| (frame.channel, frame.offset, &frame.data[..]));
        for (_, offset, data) in growing.into_iter().chain(sealed).filter(|(printed, ..)| *printed == channel)
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
        if self.offset >= start {
            return None;
        }
        let (reason, wanted) = if self.reading {
            (GapReason::SlowConsumer, start + log.held() as u64 / 2)
        } else {
            (GapReason::Evicted, start)
        };
        // Where no frame begins after that, the newest one is still there.
        let newest = log.held_frames().saturating_sub(1);
        let index = log.frames.partition_point(|frame| frame.offset < wanted).min(newest);
        let to_offset = match (log.frames.get(index), &log.growing) {
            (Some(frame), _) => frame.offset,
            (None, Some(frame)) => frame.offset,
            (None, None) => log.end_offset(),
        };
        let gap = Gap {
            from_seq: self.seq,
            to_seq: log.oldest_seq() + index as u64,
            from_offset: self.offset,
            to_offset,
            reason,
        };
        (self.seq, self.offset) = (gap.to_seq, gap.to_offset);
        Some(gap)
    }
}
