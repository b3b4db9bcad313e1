//! The output of one process, in the order in which it was read, and the readers of it.
//!
//! There is one [`Log`] per process and one meaning of "where I was": `seq` counts frames (the first is 1), `offset`
//! counts bytes of all the output together (the first is 0). Both only grow.
//!
//! * The newest frame grows, up to [`FRAME_MAX`] and while the same channel prints, until a reader has taken it: a
//!   command that prints a byte at a time costs no frame each, and what waits for a slow or paced reader is merged.
//! * A [`Reader`] is a cursor, never a copy. It costs itself only: it stalls neither the process nor other readers.
//! * How much is kept, and whether the process is slowed, is the log's [`Retention`].

mod reader;

use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

pub use reader::{CursorAhead, Gap, GapReason, Item, Reader};

/// The most bytes in one frame.
pub const FRAME_MAX: usize = 32 * 1024;

/// A log holds at most one frame for each this many bytes of its retention, so that frames of one byte do not cost
/// a hundred times what they carry.
const BYTES_PER_FRAME: usize = 8;

/// A pipe in packet mode loses what a read leaves of a packet, and a packet is at most a page: a log that holds twice as
/// much says that there is no room before there is room for one.
pub const PACKET_MAX: usize = 4096;

/// The first block of a log; each further one is twice as large, up to [`FRAME_MAX`]. A quiet command costs little.
const FIRST_BLOCK: usize = 512;

/// Which of a process's outputs; the number is the `stream` byte of the process protocol's frames.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Channel {
    /// Standard output.
    Stdout = 1,
    /// Standard error.
    Stderr = 2,
    /// The one output of a process on a terminal.
    Tty = 3,
}

impl Channel {
    /// `stdout`, `stderr` or `tty`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Tty => "tty",
        }
    }
}

/// A piece of output.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Frame {
    /// Its number in the log; the first is 1.
    pub seq: u64,
    /// The offset of its first byte in the log.
    pub offset: u64,
    /// Where it was printed.
    pub channel: Channel,
    /// When its first byte was read: milliseconds since 1970, by the wall clock.
    pub ts_ms: i64,
    /// Exactly what was printed; 1 to [`FRAME_MAX`] bytes.
    pub data: Bytes,
}

impl Frame {
    /// The offset after its last byte: where a reader that took it goes on.
    pub const fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }
}

/// What a log keeps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Retention {
    /// The last `bytes`, for any number of readers; the process is never slowed. Whole frames are evicted, and only
    /// while what stays is at least `bytes`, or [`max_frames`](Self::max_frames).
    Ring {
        /// Bytes kept.
        bytes: usize,
    },
    /// What the one reader has not read; at most `bytes`. The source is not read while they are full, which slows
    /// the process as a slow terminal would.
    UntilRead {
        /// Bytes that may wait.
        bytes: usize,
    },
}

impl Retention {
    /// The bytes of either.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Ring { bytes } | Self::UntilRead { bytes } => bytes,
        }
    }

    /// The most frames that are held.
    pub const fn max_frames(self) -> usize {
        let frames = self.bytes() / BYTES_PER_FRAME;
        if frames < 16 { 16 } else { frames }
    }
}

/// The newest frame, while it grows. Its bytes are those in the log's block.
#[derive(Debug)]
struct Growing {
    offset: u64,
    channel: Channel,
    ts_ms: i64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Open,
    /// Nobody will read: what comes is counted and dropped.
    Abandoned,
    /// Nothing more will come.
    Ended,
}

/// What a process printed, as far as it is kept.
#[derive(Debug)]
pub struct Log {
    retention: Retention,
    frames: VecDeque<Frame>,
    growing: Option<Growing>,
    /// Holds the growing frame and nothing else; sealed frames are slices of earlier parts of the same memory.
    block: BytesMut,
    block_size: usize,
    held: usize,
    next_seq: u64,
    next_offset: u64,
    state: State,
    /// Bytes that a reader who comes is given of what is kept.
    replay: u64,
    /// Frames below this may have had other numbers.
    known_seq: u64,
    /// Where output was lost on its way here, among what is kept: oldest first.
    holes: VecDeque<Lost>,
    /// The last such place of those before that.
    lost: Option<Lost>,
}

/// Output that never came: from the end of the frame before it up to this place.
#[derive(Clone, Copy, Debug)]
struct Lost {
    /// The first frame after it.
    seq: u64,
    /// The first byte after it.
    offset: u64,
    reason: GapReason,
}

impl Log {
    /// An empty log.
    pub fn new(retention: Retention) -> Self {
        Self {
            retention,
            frames: VecDeque::new(),
            growing: None,
            block: BytesMut::new(),
            block_size: FIRST_BLOCK,
            held: 0,
            next_seq: 1,
            next_offset: 0,
            state: State::Open,
            replay: u64::MAX,
            known_seq: 0,
            holes: VecDeque::new(),
            lost: None,
        }
    }

    /// The same log for readers who come: they get the whole frames that hold the last `bytes`, whatever else is kept
    /// for readers who are there.
    #[must_use]
    pub const fn replaying(mut self, bytes: u64) -> Self {
        self.replay = bytes;
        self
    }

    /// Takes output, and returns how many bytes of it: fewer than given when there is not the [`room`](Self::room).
    /// `ts_ms` is the wall clock's time of the read. Once the log ended or was abandoned everything is taken and
    /// dropped.
    pub fn append(&mut self, channel: Channel, ts_ms: i64, data: &[u8]) -> usize {
        let taken = data.len().min(self.room());
        match self.state {
            State::Open => {}
            State::Abandoned => self.next_offset += taken as u64,
            State::Ended => {}
        }
        if self.state != State::Open {
            return taken;
        }
        let mut rest = &data[..taken];
        while !rest.is_empty() {
            if self.growing.as_ref().is_some_and(|frame| frame.channel != channel)
                || self.block.len() >= FRAME_MAX
            {
                self.seal();
            }
            if self.growing.is_none() {
                self.growing = Some(Growing { offset: self.next_offset, channel, ts_ms });
            }
            let (now, later) = rest.split_at(rest.len().min(FRAME_MAX - self.block.len()));
            self.reserve(now.len());
            self.block.extend_from_slice(now);
            self.next_offset += now.len() as u64;
            self.held += now.len();
            rest = later;
            self.evict();
        }
        taken
    }

    /// As [`append`](Self::append), for output that is in frames already: it is one of its own, or several where it is
    /// longer than [`FRAME_MAX`], whether or not a reader takes it.
    pub fn append_frame(&mut self, channel: Channel, ts_ms: i64, data: &[u8]) -> usize {
        self.seal();
        let taken = self.append(channel, ts_ms, data);
        self.seal();
        taken
    }

    /// What comes next is the frame `seq`, at the byte `offset`: what is between was lost on its way here, and is a gap for
    /// each reader. Nothing is lost, and nothing changes, where `offset` is not above the [end](Self::end_offset). At
    /// least one frame is lost, whatever `seq` is.
    pub fn skip_to(&mut self, seq: u64, offset: u64, reason: GapReason) {
        if self.state == State::Ended || offset <= self.next_offset {
            return;
        }
        self.seal();
        // So that who comes after the frame before is told.
        self.next_seq = seq.max(self.next_seq + 1);
        self.next_offset = offset;
        let hole = Lost { seq: self.next_seq, offset, reason };
        match self.holes.back_mut() {
            // One after the other is one.
            Some(last) if self.frames.back().is_none_or(|frame| frame.end() < last.offset) => *last = hole,
            Some(_) | None => self.holes.push_back(hole),
        }
        self.drop_holes();
    }

    /// Holes before all that is kept are no holes.
    fn drop_holes(&mut self) {
        let start = self.start_offset();
        while let Some(hole) = self.holes.pop_front_if(|hole| hole.offset <= start) {
            self.lost = Some(hole);
        }
    }

    /// What a reader at `offset` gets next, where nothing is missing before it: the number of the frame, and its first byte.
    fn next_from(&self, offset: u64) -> (u64, u64) {
        let sealed = self.frames.get(self.frames.partition_point(|frame| frame.end() <= offset));
        let growing =
            || (self.next_seq, self.growing.as_ref().map_or(self.next_offset, |frame| frame.offset));
        sealed.map_or_else(growing, |frame| (frame.seq, frame.offset))
    }

    /// The first frame is `seq`, at the byte `offset`. Frames below `known` may have had other numbers with whoever had the
    /// log before: who comes with one of those is told of a gap. Nothing changes once something was printed.
    pub fn begin_at(&mut self, seq: u64, offset: u64, known: u64) {
        if self.state != State::Ended && self.newest_seq() == 0 {
            (self.next_seq, self.next_offset) = (seq.max(1), offset);
            self.known_seq = known.max(self.next_seq);
            self.lost = Some(Lost { seq: self.known_seq, offset, reason: GapReason::Adopted });
        }
    }

    /// Nothing more will come.
    pub fn end(&mut self) {
        self.state = State::Ended;
    }

    /// Nobody will read: what is held is dropped, and so is what comes. The process is no longer slowed.
    pub fn abandon(&mut self) {
        // The newest frame has a number that a reader may have been told.
        self.seal();
        self.frames = VecDeque::new();
        self.block = BytesMut::new();
        self.held = 0;
        self.drop_holes();
        if self.state == State::Open {
            self.state = State::Abandoned;
        }
    }

    /// Drops the frames that end at `offset` or before it: everybody has read them, and nobody will come for them.
    pub fn forget(&mut self, offset: u64) {
        if self.growing.is_some() && self.next_offset <= offset {
            // The newest frame has a number that a reader may have been told.
            self.seal();
        }
        while let Some(oldest) = self.frames.front()
            && oldest.end() <= offset
        {
            self.held -= oldest.data.len();
            self.frames.pop_front();
        }
        self.drop_holes();
        if self.held == 0 {
            // Whoever prints a lot now and then costs nothing in between.
            (self.frames, self.block) = (VecDeque::new(), BytesMut::new());
        }
    }

    /// How many bytes may come now. The source is not read while there is none. Less than [`PACKET_MAX`] in small logs
    /// only.
    pub fn room(&self) -> usize {
        match (self.state, self.retention) {
            (State::Abandoned | State::Ended, _) | (State::Open, Retention::Ring { .. }) => usize::MAX,
            (State::Open, Retention::UntilRead { bytes }) => {
                let frames = self.retention.max_frames().saturating_sub(self.held_frames());
                let room = bytes.saturating_sub(self.held).min(frames * FRAME_MAX);
                if room < PACKET_MAX && bytes >= 2 * PACKET_MAX { 0 } else { room }
            }
        }
    }

    /// Whether nothing more will come.
    pub fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Whether nobody will read.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.state == State::Abandoned
    }

    /// Bytes that are kept.
    pub const fn held(&self) -> usize {
        self.held
    }

    /// Frames that are kept, the growing one included.
    pub fn held_frames(&self) -> usize {
        self.frames.len() + usize::from(self.growing.is_some())
    }

    /// The offset after the newest byte.
    pub const fn end_offset(&self) -> u64 {
        self.next_offset
    }

    /// The offset of the oldest byte that is kept; [`end_offset`](Self::end_offset) where nothing is.
    pub fn start_offset(&self) -> u64 {
        let growing = self.growing.as_ref().map_or(self.next_offset, |frame| frame.offset);
        self.frames.front().map_or(growing, |frame| frame.offset)
    }

    /// The number of the newest frame, the growing one included; 0 before the first.
    pub const fn newest_seq(&self) -> u64 {
        self.next_seq - if self.growing.is_some() { 0 } else { 1 }
    }

    /// The number of the oldest frame that is kept; one above the newest where none is.
    fn oldest_seq(&self) -> u64 {
        self.frames.front().map_or(self.next_seq, |frame| frame.seq)
    }

    /// The first frame for readers who come, counted from the oldest that is kept.
    fn replayed(&mut self) -> usize {
        if self.replay == 0 {
            self.seal();
        }
        let from = self.next_offset.saturating_sub(self.replay);
        self.frames.partition_point(|frame| frame.end() <= from)
    }

    /// Closes the newest frame: what comes after goes into another one.
    fn seal(&mut self) {
        let Some(Growing { offset, channel, ts_ms }) = self.growing.take() else { return };
        let data = self.block.split().freeze();
        self.frames.push_back(Frame { seq: self.next_seq, offset, channel, ts_ms, data });
        self.next_seq += 1;
    }

    fn evict(&mut self) {
        let Retention::Ring { bytes } = self.retention else { return };
        while let Some(oldest) = self.frames.front()
            && (self.held - oldest.data.len() >= bytes || self.frames.len() >= self.retention.max_frames())
        {
            self.held -= oldest.data.len();
            self.frames.pop_front();
        }
        if !self.holes.is_empty() {
            self.drop_holes();
        }
    }

    /// Takes the oldest frame out.
    fn pop(&mut self) -> Option<Frame> {
        if self.frames.is_empty() {
            self.seal();
        }
        let frame = self.frames.pop_front()?;
        self.held -= frame.data.len();
        self.drop_holes();
        Some(frame)
    }

    /// Room for `more` bytes in the block. Memory whose frames are all gone is used again without an allocation.
    fn reserve(&mut self, more: usize) {
        if self.block.capacity() - self.block.len() >= more || self.block.try_reclaim(more) {
            return;
        }
        self.block.reserve(more.max(self.block_size));
        self.block_size = (self.block_size * 2).min(FRAME_MAX);
    }
}
