//! The tables of watched directories, and the targets beside their figures.

use super::tables::{Targets, spread, total};
use crate::{
    measure::watch::{burst::Burst, delay::Delay, memory::Memory},
    row::Row,
    server::Runtime,
    stats::median,
    table::Table,
    target::Target,
};

/// How soon a change is to be told: half of them, and nineteen of twenty, in milliseconds.
const DELAY_MS: (f64, f64) = (1.0, 3.0);

/// How much later through a daemon, in milliseconds.
const DAEMON_MS: f64 = 0.5;

/// CPU time for a burst, of that of `inotifywait`.
const CPU_RATIO: f64 = 1.5;

/// What a watched directory may take, in KiB.
const DIRECTORY_KIB: f64 = 2.0;

pub(super) fn delay(rows: &[Delay], targets: &mut Targets) -> Table {
    let mut table = Table::new(&["how the client sees changes", "each change's delay", "p50", "p95"]);
    for Delay { row, delay, .. } in rows {
        let later = if *row == Row::Watched(Runtime::Daemon) { DAEMON_MS } else { 0.0 };
        let mut judge = |percent, measured, limit: f64| {
            let what = format!("{}: delay of a change, {percent}", row.name());
            targets.judge(row.server().map(|_| Target::at_most(what, measured, limit + later)))
        };
        let verdicts = [judge("p50", delay.p50_ms, DELAY_MS.0), judge("p95", delay.p95_ms, DELAY_MS.1)];
        let [p50, p95] = verdicts;
        table.row(vec![row.label().to_owned(), spread(*delay), p50, p95]);
    }
    table
}

pub(super) fn burst(rows: &[Burst], targets: &mut Targets) -> Table {
    let mut table = Table::new(&[
        "how the client sees changes",
        "CPU s",
        "of inotifywait",
        "",
        "grown by KiB",
        "s",
        "events",
        "overflows",
        "names wrong",
    ]);
    for Burst { row, cpu_seconds, cpu_ratio, grown_kib, runs } in rows {
        let target = row.server().and(*cpu_ratio).map(|ratio| {
            Target::at_most(format!("{}: CPU for a burst, of inotifywait", row.name()), ratio, CPU_RATIO)
        });
        let middle = |figures: Vec<f64>| median(&figures).unwrap_or_default();
        let (wrong, names) = runs.iter().map(|run| (run.wrong, run.names)).max().unwrap_or_default();
        table.row(vec![
            row.label().to_owned(),
            format!("{cpu_seconds:.2}"),
            cpu_ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
            targets.judge(target),
            grown_kib.to_string(),
            format!("{:.2}", middle(runs.iter().map(|run| run.elapsed_ns as f64 / 1e9).collect())),
            format!("{:.0}", middle(runs.iter().map(|run| run.told as f64).collect())),
            runs.iter().map(|run| run.overflows).max().unwrap_or_default().to_string(),
            format!("{wrong} of {names}"),
        ]);
    }
    table
}

pub(super) fn memory(rows: &[Memory], targets: &mut Targets) -> Table {
    let mut table =
        Table::new(&["how the client sees changes", "kind", "before", "watched", "KiB per directory", ""]);
    for Memory { row, kind, kib_per_directory, before, watched, .. } in rows {
        let what = format!("{}: KiB per watched directory", row.name());
        table.row(vec![
            row.label().to_owned(),
            (*kind).to_owned(),
            total(before),
            total(watched),
            format!("{kib_per_directory:.2}"),
            targets.judge(Some(Target::at_most(what, *kib_per_directory, DIRECTORY_KIB))),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{measure::watch::burst::Run, stats::Spread};

    fn met(targets: &Targets) -> Vec<bool> {
        targets.0.iter().map(|target| target.met).collect()
    }

    #[test]
    fn a_change_may_take_longer_through_a_daemon() {
        let of = |row| Delay { row, delay: Spread { p50_ms: 1.2, p95_ms: 3.6 }, delays_ns: Vec::new() };
        let mut targets = Targets::default();
        let rows = [Row::Inotifywait, Row::Watched(Runtime::Tokio), Row::Watched(Runtime::Daemon)].map(of);
        let text = delay(&rows, &mut targets).to_string();
        assert_eq!(met(&targets), [false, false, true, false]);
        assert!(text.contains("| inotifywait -m ") && text.contains("1.20 / 3.60"), "{text}");
    }

    #[test]
    fn a_burst_is_judged_by_what_inotifywait_takes_for_it() {
        let run = Run {
            cpu_seconds: 0.5,
            grown_kib: 9,
            elapsed_ns: 1_500_000_000,
            told: 7,
            overflows: 0,
            names: 50_000,
            wrong: 3,
        };
        let of = |(row, cpu_ratio)| Burst {
            row,
            cpu_seconds: 0.5,
            cpu_ratio,
            grown_kib: 9,
            runs: vec![run, Run { overflows: 2, wrong: 4, ..run }],
        };
        let rows = [
            (Row::Inotifywait, Some(1.0)),
            (Row::RaisedWatched(Runtime::Tokio), Some(1.5)),
            (Row::RaisedWatched(Runtime::Daemon), Some(1.6)),
            (Row::RaisedWatched(Runtime::Smol), None),
        ]
        .map(of);
        let mut targets = Targets::default();
        let text = burst(&rows, &mut targets).to_string();
        assert_eq!(met(&targets), [true, false]);
        assert!(text.contains("4 of 50000") && text.contains("| 1.50 |      7 |         2 |"), "{text}");
    }
}
