//! A history against all that was ever pushed.

use crate::{
    testing::draw,
    watch::{Event, Gap, History, KEPT, Kind, Told},
};
use arbitrary::{Arbitrary, Result, Unstructured};
use bytes::Bytes;

/// Where the numbers begin.
const FIRST: u64 = 1_000;

/// Events, and those that read them.
#[derive(Clone, Debug)]
pub struct Scenario {
    max_ahead: usize,
    ops: Vec<Op>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Op {
    /// As many events, if there is room.
    Push(u8),
    /// The same as the last one.
    Repeat,
    After(#[arbitrary(with = since)] Option<u64>),
    Follow(#[arbitrary(with = since)] Option<u64>),
    Take(u8),
    Unfollow,
}

/// Around the numbers that there are.
fn since(u: &mut Unstructured<'_>) -> Result<Option<u64>> {
    let near = FIRST - 2 + u64::from(u.arbitrary::<u16>()? % 600);
    Ok(*u.choose(&[None, Some(near), Some(near), Some(0), Some(u64::MAX)])?)
}

impl<'a> Arbitrary<'a> for Scenario {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self { max_ahead: *u.choose(&[1, 10, 300])?, ops: draw::steps(u, 80)? })
    }
}

struct Model {
    all: Vec<Told>,
    /// Events that were handed out are what they were.
    given: u64,
    next: Option<u64>,
}

impl Model {
    fn newest(&self) -> u64 {
        FIRST + self.all.len() as u64 - 1
    }

    /// The first that has to be kept.
    fn kept(&self) -> u64 {
        let last = (self.newest() + 1).saturating_sub(KEPT as u64).max(FIRST);
        last.min(self.next.unwrap_or(u64::MAX))
    }

    fn check_gap(&self, since: Option<u64>, gap: Option<Gap>, next: u64) {
        let Some(since) = since else {
            assert_eq!(gap, None);
            return assert!(next <= self.kept());
        };
        match gap {
            None => assert_eq!(next, since.saturating_add(1)),
            Some(gap) => {
                assert_eq!(gap.from_seq, since.saturating_add(1).min(gap.to_seq));
                assert_eq!(gap.is_adopted, since < FIRST - 1 || since > self.newest());
                assert_eq!(gap.to_seq + 1, next);
                assert!(next <= self.kept(), "{next} is the next, and {} has to be kept", self.kept());
            }
        }
    }
}

/// Runs a scenario: nothing that is promised is missing, and what is missing is said.
pub fn run(scenario: &Scenario) {
    let mut history = History::new(FIRST, scenario.max_ahead);
    let mut model = Model { all: Vec::new(), given: FIRST, next: None };
    for op in &scenario.ops {
        match *op {
            Op::Push(count) => {
                for _ in 0..count {
                    if !history.has_room() {
                        break;
                    }
                    let seq = history.next_seq();
                    let event = Event::new(Kind::Write, Bytes::from(seq.to_string()));
                    history.push(event.clone(), 7);
                    model.all.push(Told { seq, ts_ms: 7, event });
                }
            }
            Op::Repeat => {
                if let Some(last) = model.all.last().cloned().filter(|_| history.has_room()) {
                    history.push(last.event.clone(), 8);
                    if last.seq < model.given {
                        model.all.push(Told { seq: last.seq + 1, ts_ms: 8, event: last.event });
                    }
                }
            }
            Op::After(since) => {
                let (gap, events) = history.after(since);
                let next = events.first().map_or_else(|| history.next_seq(), |told| told.seq);
                model.check_gap(since, gap, next);
                assert_eq!(events, model.all[(next - FIRST) as usize..]);
                model.given = model.newest() + 1;
            }
            Op::Follow(since) => {
                let since = since.unwrap_or_else(|| model.newest());
                let gap = history.follow(Some(since));
                let next = gap.map_or_else(|| since + 1, |gap| gap.to_seq + 1);
                model.check_gap(Some(since), gap, next);
                model.next = Some(next);
            }
            Op::Take(count) => {
                for _ in 0..count {
                    let expected = model.next.and_then(|next| model.all.get((next - FIRST) as usize));
                    let told = history.take();
                    assert_eq!(told.as_ref(), expected);
                    if let Some(told) = told {
                        model.next = Some(told.seq + 1);
                        model.given = model.given.max(told.seq + 1);
                    }
                }
            }
            Op::Unfollow => {
                history.unfollow();
                model.next = None;
            }
        }
        assert_eq!(history.is_followed(), model.next.is_some());
        assert_eq!(history.newest(), model.newest());
        let ahead = model.next.map_or(0, |next| model.newest() + 1 - next);
        assert_eq!(history.has_room(), model.next.is_none() || ahead < scenario.max_ahead as u64);
        assert!(history.len() <= KEPT.max(KEPT + scenario.max_ahead));
    }
}
