//! What others cost a reader: each line's delay for one that is alone, and for the same one beside them.

pub mod crowd;
pub mod stalled;

use serde::Serialize;

use super::progress;
use crate::{
    Result,
    row::{Row, rotated},
    stats::Spread,
};

/// Rounds, unless told otherwise.
pub const ROUNDS: u32 = 10;

const TIMEOUT_S: u64 = 60;

/// One row's samples.
#[derive(Debug, Serialize)]
pub struct Company {
    /// The row.
    pub row: Row,
    /// From being printed to being received, alone.
    pub alone: Spread,
    /// The same beside others.
    pub beside: Spread,
    /// The second's p95 by the first's.
    pub p95_ratio: f64,
    /// Every run alone, and in it every line.
    pub alone_ns: Vec<Vec<i64>>,
    /// Every run beside others.
    pub beside_ns: Vec<Vec<i64>>,
}

/// Who is there in a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum With {
    /// The reader.
    Nobody,
    /// The reader, and those whose cost is measured.
    Others,
}

/// Runs each of `rows` with and without the others, interleaved, `rounds` times. `run` gives the delays of one run.
fn interleaved(
    rows: &[Row],
    rounds: u32,
    mut run: impl FnMut(Row, With) -> Result<Vec<i64>>,
) -> Result<Vec<Company>> {
    let kinds: Vec<_> = rows.iter().flat_map(|row| [(*row, With::Nobody), (*row, With::Others)]).collect();
    let mut runs: Vec<Vec<Vec<i64>>> = kinds.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for (index, (row, with)) in rotated(&kinds, round) {
            progress(&format!("company, round {} of {rounds}: {}", round + 1, row.label()));
            runs[index].push(run(row, with).map_err(|error| format!("company, {}: {error}", row.label()))?);
        }
    }
    let mut runs = runs.into_iter();
    let pairs = rows.iter().filter_map(|row| Some((*row, runs.next()?, runs.next()?)));
    pairs.map(|(row, alone, beside)| Company::of(row, alone, beside)).collect()
}

impl Company {
    fn of(row: Row, alone_ns: Vec<Vec<i64>>, beside_ns: Vec<Vec<i64>>) -> Result<Self> {
        let spreads = Spread::of_ns(&alone_ns.concat()).zip(Spread::of_ns(&beside_ns.concat()));
        let (alone, beside) = spreads.ok_or("not a single run")?;
        Ok(Self { row, alone, beside, p95_ratio: beside.p95_ms / alone.p95_ms, alone_ns, beside_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Runtime;

    #[test]
    fn every_row_is_run_with_and_without_others() {
        let rows = [Row::Stream(Runtime::Tokio), Row::Stream(Runtime::Smol)];
        let mut order = Vec::new();
        let measured = interleaved(&rows, 2, |row, with| {
            order.push((row, with));
            let alone = if row == rows[0] { 1_000_000 } else { 2_000_000 };
            Ok(vec![if with == With::Others { 3 * alone } else { alone }])
        });
        let measured = measured.unwrap();
        assert_eq!(order.len(), 8);
        assert_eq!((order[0], order[4]), ((rows[0], With::Nobody), (rows[0], With::Others)));
        assert_eq!(
            (measured[0].row, measured[0].alone.p95_ms, measured[0].beside.p95_ms),
            (rows[0], 1.0, 3.0)
        );
        assert_eq!((measured[1].row, measured[1].alone.p50_ms, measured[1].p95_ratio), (rows[1], 2.0, 3.0));
        assert_eq!(measured[1].beside_ns, [[6_000_000], [6_000_000]]);
    }

    #[test]
    fn a_run_that_fails_says_of_what() {
        let error = interleaved(&[Row::Pipe], 1, |_, _| Err("oops".into())).unwrap_err();
        assert_eq!(error.to_string(), "company, pipe: oops");
        assert!(interleaved(&[Row::Pipe], 0, |_, _| Ok(Vec::new())).is_err());
    }
}
