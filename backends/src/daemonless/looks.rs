//! When it is looked after a detached process, and how one is taken over. No IO is here.

use super::scripts::{Asked, PIECE};
use bytes::Bytes;
use hangar_core::{
    Time,
    log::FRAME_MAX,
    wire::detached::{Last, Report},
};
use std::time::Duration;

/// How often it is looked after a process that somebody reads,
const READ: Duration = Duration::from_millis(500);
/// that nobody does,
const UNREAD: Duration = Duration::from_secs(5);
/// and that is being ended,
const ENDING: Duration = Duration::from_millis(100);
/// for so long.
const ENDS: Duration = Duration::from_secs(10);
/// Never sooner, also where there is more to be read.
const NEVER_SOONER: Duration = Duration::from_millis(20);

/// When it is looked after a process.
#[derive(Debug)]
pub(super) struct Looks {
    began: Time,
    last: Option<Time>,
    /// It is looked after often until then.
    hurries_until: Time,
    /// There was more to read.
    is_behind: bool,
    fails_since: Option<Time>,
    /// It is being taken over.
    pub(super) taking: Option<Taking>,
    /// The next piece has this length: another server has given it out.
    pub(super) given_out: Option<u64>,
}

impl Looks {
    pub(super) const fn new(now: Time, taking: Option<Taking>) -> Self {
        Self {
            began: now,
            last: None,
            hurries_until: now,
            is_behind: false,
            fails_since: None,
            taking,
            given_out: None,
        }
    }

    /// When the next one is due. One that is young, and may be short, is looked after more often.
    pub(super) fn due(&self, is_read: bool, ends: bool) -> Time {
        let Some(last) = self.last else { return Time::ZERO };
        let wait = if self.fails_since.is_some() {
            if last < self.hurries_until { READ } else { UNREAD }
        } else if self.is_behind {
            NEVER_SOONER
        } else if last < self.hurries_until || ends {
            ENDING
        } else if is_read {
            READ
        } else {
            (last.since(self.began) / 2).clamp(READ, UNREAD)
        };
        last + wait
    }

    /// Something was asked of it.
    pub(super) fn hurry(&mut self, now: Time) {
        self.hurries_until = now + ENDS;
        self.is_behind = true;
    }

    pub(super) const fn succeeded(&mut self, now: Time, is_behind: bool) {
        (self.last, self.is_behind, self.fails_since) = (Some(now), is_behind, None);
    }

    pub(super) const fn is_failing(&self) -> bool {
        self.fails_since.is_some()
    }

    /// Returns for how long it has failed.
    pub(super) fn failed(&mut self, now: Time) -> Duration {
        (self.last, self.is_behind) = (Some(now), false);
        now.since(*self.fails_since.get_or_insert(now))
    }
}

/// Taking over a process that another server has followed: what is kept of its output before the last piece that was given
/// out, so that the frames from there on have the numbers that they had.
#[derive(Debug)]
pub(super) struct Taking {
    /// Where that is not known, frames have numbers from here on.
    goes_on: u64,
    /// Bytes that are read at the most.
    most: u64,
    begun: Option<Begun>,
}

#[derive(Debug)]
struct Begun {
    first: u64,
    next: u64,
    last: Last,
    pieces: Vec<Bytes>,
}

/// What was taken over.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) seq: u64,
    pub(super) offset: u64,
    /// Frames from this on have the numbers that they had.
    pub(super) known: u64,
    pub(super) pieces: Vec<Bytes>,
    /// The length of the piece that follows.
    pub(super) given_out: Option<u64>,
}

impl Taking {
    /// With the number of the first frame where nothing is known, and the bytes that are of use.
    pub(super) const fn new(goes_on: u64, most: u64) -> Self {
        Self { goes_on, most, begun: None }
    }

    /// What is to be asked.
    pub(super) fn asks(&self) -> Asked {
        match &self.begun {
            None => Asked::default(),
            Some(Begun { next, last, .. }) => {
                Asked { from: *next, most: PIECE.min(last.offset - next), ..Asked::default() }
            }
        }
    }

    /// Whether the numbers of frames are known by a report.
    pub(super) fn knows(&self, report: &Report) -> bool {
        match (&self.begun, &report.piece) {
            (None, _) => report.last.is_some_and(|last| {
                last.offset >= report.first && last.seq > 0 && (1..=PIECE).contains(&last.len)
            }),
            (Some(begun), Some((offset, _))) => *offset == begun.next,
            (Some(_), None) => false,
        }
    }

    /// Returns whether that is all.
    pub(super) fn handle_report(&mut self, report: &Report, known: bool) -> bool {
        match (&mut self.begun, report.last) {
            (_, _) if !known => {
                // A part of it is gone, or it was never noted: from the oldest byte on, with other numbers.
                let last = Last { seq: 0, offset: report.first, len: 0 };
                self.begun =
                    Some(Begun { first: report.first, next: report.first, last, pieces: Vec::new() });
            }
            (None, Some(last)) => {
                let first = report.first.max(last.offset.saturating_sub(self.most));
                self.begun = Some(Begun { first, next: first, last, pieces: Vec::new() });
            }
            (Some(begun), _) => {
                if let Some((_, data)) = &report.piece {
                    let len = usize::try_from(begun.last.offset - begun.next).unwrap_or(usize::MAX);
                    let data = data.slice(..data.len().min(len));
                    begun.next += data.len() as u64;
                    begun.pieces.push(data);
                }
            }
            (None, None) => {}
        }
        self.begun.as_ref().is_none_or(|begun| begun.next >= begun.last.offset)
    }

    /// What it came to.
    pub(super) fn taken(&mut self) -> Taken {
        let Some(Begun { first, last, pieces, .. }) = self.begun.take() else {
            return Taken {
                seq: self.goes_on,
                offset: 0,
                known: self.goes_on,
                pieces: Vec::new(),
                given_out: None,
            };
        };
        let frames: u64 = pieces.iter().map(|data| data.len().div_ceil(FRAME_MAX) as u64).sum();
        if last.seq > frames {
            let given_out = Some(last.len);
            Taken { seq: last.seq - frames, offset: first, known: last.seq, pieces, given_out }
        } else {
            Taken { seq: self.goes_on, offset: first, known: self.goes_on, pieces, given_out: None }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hangar_core::wire::detached::State;

    fn report(first: u64, last: Option<(u64, u64, u64)>, piece: Option<(u64, usize)>) -> Report {
        Report {
            state: State::Running,
            pid: Some(7),
            members: None,
            is_output_ended: false,
            first,
            end: 1 << 30,
            last: last.map(|(seq, offset, len)| Last { seq, offset, len }),
            piece: piece.map(|(offset, len)| (offset, Bytes::from(vec![b'x'; len]))),
        }
    }

    /// Feeds reports to the end of it.
    fn take(mut taking: Taking, reports: &[Report]) -> (Taken, usize) {
        for (number, report) in reports.iter().enumerate() {
            let known = taking.knows(report);
            if taking.handle_report(report, known) {
                return (taking.taken(), number + 1);
            }
        }
        panic!("it asks for more: {:?}", taking.asks());
    }

    #[test]
    fn frames_have_the_numbers_that_they_had() {
        let last = Some((20, 300_000, 500));
        let reports = [
            report(100_000, last, None),
            report(100_000, last, Some((100_000, 150_000))),
            report(100_000, last, Some((250_000, 99_999))),
        ];
        let (taken, asked) = take(Taking::new(1000, u64::MAX), &reports);
        // Five frames of the first piece and two of the second.
        assert_eq!((taken.seq, taken.offset, taken.known, taken.given_out), (13, 100_000, 20, Some(500)));
        assert_eq!(
            (taken.pieces.iter().map(Bytes::len).collect::<Vec<_>>(), asked),
            (vec![150_000, 50_000], 3)
        );
        // No more than is of use, whatever is there.
        let mut taking = Taking::new(1000, 10);
        assert!(!taking.handle_report(&reports[0], true));
        assert_eq!((taking.asks().from, taking.asks().most, taking.asks().seq), (299_990, 10, 0));
    }

    #[test]
    fn what_is_not_known_has_new_numbers() {
        let goes_on = |(taken, _): (Taken, usize)| (taken.seq, taken.offset, taken.known, taken.given_out);
        let one = |report| goes_on(take(Taking::new(1000, u64::MAX), &[report]));
        assert_eq!(one(report(5, None, None)), (1000, 5, 1000, None), "it was never noted");
        assert_eq!(one(report(900, Some((9, 800, 50)), None)), (1000, 900, 1000, None), "it is gone");
        assert_eq!(
            one(report(0, Some((9, 0, PIECE + 1)), None)),
            (1000, 0, 1000, None),
            "nobody gave out that"
        );
        // A part of it went meanwhile.
        let reports =
            [report(0, Some((9, 800, 50)), None), report(400, Some((9, 800, 50)), Some((400, 400)))];
        assert_eq!(goes_on(take(Taking::new(1000, u64::MAX), &reports)), (1000, 400, 1000, None));
        // More frames than there can have been.
        let reports = [report(0, Some((1, 800, 50)), None), report(0, Some((1, 800, 50)), Some((0, 800)))];
        assert_eq!(goes_on(take(Taking::new(1000, u64::MAX), &reports)), (1000, 0, 1000, None));
    }

    #[test]
    fn it_is_looked_after_as_often_as_somebody_wants_to_know() {
        let ms = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut looks = Looks::new(ms(0), None);
        assert_eq!(looks.due(false, false), Time::ZERO, "at once");
        looks.succeeded(ms(100_000), false);
        assert_eq!(looks.due(false, false), ms(105_000));
        assert_eq!(looks.due(true, false), ms(100_500));
        assert_eq!(looks.due(false, true), ms(100_100));
        looks.succeeded(ms(100_000), true);
        assert_eq!(looks.due(false, false), ms(100_020), "more is there");
        looks.hurry(ms(100_000));
        looks.succeeded(ms(109_000), false);
        assert_eq!(looks.due(false, false), ms(109_100));
        assert_eq!(looks.failed(ms(120_000)), Duration::ZERO);
        assert_eq!((looks.due(true, true), looks.failed(ms(125_000))), (ms(125_000), Duration::from_secs(5)));
        // A young one may be short.
        let mut young = Looks::new(ms(0), None);
        young.succeeded(ms(10), false);
        assert_eq!(young.due(false, false), ms(510));
        young.succeeded(ms(4000), false);
        assert_eq!(young.due(false, false), ms(6000));
    }
}
